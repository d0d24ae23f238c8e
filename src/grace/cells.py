"""Single cells of encoded rows, as explanations hold them, and what a reader should know of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grace.columns import date_text, is_date
from grace.explanation import Change
from grace.features import Categorical, Feature, Floats, Numeric, Value
from grace.schema import Schema


def cell_of(feature: Feature, code: float) -> Value:
    """The cell that a number stands for; of a date, the number itself."""
    if isinstance(feature, Categorical):
        return feature.categories[int(code)]
    return int(code) if feature.integer and float(code).is_integer() else float(code)


def length(change: Change) -> float:
    """How far a change goes, to say the largest first."""
    if isinstance(change.feature, Numeric):
        return abs(float(change.new) - float(change.old)) / (change.feature.spread or 1.0)
    return 1.0


def remarks(schema: Schema, row: Floats) -> Iterator[dict[str, Any]]:
    """Cells of the row that lie outside the domain."""
    low, high = schema.bounds()
    for j in np.flatnonzero(~schema.contains(row[None])[0]):
        feature = schema.features[j]
        if isinstance(feature, Numeric):
            ends = {"value": float(row[j]), "low": float(low[j]), "high": float(high[j])}
            said = {k: date_text(v) if is_date(feature) else v for k, v in ends.items()}
            if low[j] <= row[j] <= high[j]:
                yield {"what": "fraction", "feature": feature.name, "value": said["value"]}
            else:
                yield {"what": "outside", "feature": feature.name, **said}
