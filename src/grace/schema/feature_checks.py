"""What the parts of a feature may be; an error names the feature and the part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.schema.parsing import fitted

if TYPE_CHECKING:
    from grace.schema.features import Feature

WORD_TYPES: dict[str, Any] = {"plural": bool, "labels": Mapping[str, str]}
"""Words that a language may say anew and that are no text."""


def check_plain(name: str, cells: Any) -> None:
    """Cells that are objects would reach a model as text."""
    for cell in cells:
        if not isinstance(cell, str | int | float | bool | np.generic | pd.Interval):
            raise GraceError(
                f"column {name!r} holds cells such as {cell!r} ({type(cell).__name__}); turn them into numbers or "
                f"text as frame[{name!r}].astype(str) does, before the model is trained"
            )


def check_cost(feature: Feature) -> None:
    if isinstance(feature.cost, bool) or not isinstance(feature.cost, int | float) or not 0 < feature.cost < np.inf:
        raise GraceError(f"feature {feature.name!r}: cost={feature.cost!r} must be a positive number")


def check_direction(feature: Feature) -> None:
    if feature.increase_only and feature.decrease_only:
        raise GraceError(f"feature {feature.name!r} is increase_only and decrease_only; use frozen")


def check_translations(feature: Feature, words_of_features: Sequence[str]) -> None:
    allowed = [w for w in words_of_features if hasattr(feature, w)]
    for language, words in feature.translations.items():
        for word in words:
            if word not in allowed:
                raise GraceError(
                    f"feature {feature.name!r}: translations[{language!r}] has an unknown part {word!r}; "
                    f"it may have {', '.join(allowed)}"
                )
            fitted(
                words[word], WORD_TYPES.get(word, str), f"feature {feature.name!r}: translations[{language!r}]: {word}"
            )
