"""What a model is checked for when it meets the data: that layers read off it say what it says, that it answers the
same question alike, and that its probabilities sum to one. What is wrong is said in one warning that names it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from grace.errors import GraceError
from grace.schema.features import Bools, Floats

if TYPE_CHECKING:
    from grace.models.base import Model
    from grace.models.threshold import Cutoffs

SUM = 1e-3  # how far the sum of probabilities may be from 1
SAME = 1e-6  # how far two answers to the same question may be apart


class LayersDifferError(GraceError):
    """The layers or trees that were read off a model do not compute what the model does."""


@runtime_checkable
class Labelled(Protocol):
    """A comparison of scores with labels that a model gives."""

    @property
    def labels(self) -> tuple[Any, ...]: ...

    def tied(self, scores: Floats) -> Bools:
        """The rows (n,) of which the scores do not say how the model decides."""
        ...


@dataclass(frozen=True)
class Origin:
    """A model that was turned into layers: how it answers itself, and whether scores (n, classes) agree with that."""

    name: str
    respond: Callable[[Floats], Any]
    agrees: Callable[[Floats, Any], Bools]
    black_box: Callable[[Cutoffs | None], Model]
    """The model as one that is known by its answers alone."""

    def check(self, rows: Floats, scores: Floats) -> None:
        """Compare the scores of rows, before any cut-off, with what the model says."""
        same = self.agrees(scores, self.respond(rows))
        if not same.all():
            raise differs(self.name, int(np.flatnonzero(~same)[0]))

    def classes(self, rows: Floats, scores: Floats) -> npt.NDArray[np.int64]:
        """The classes (n,) of rows by scores before any cut-off; where these tie, as the model itself decides."""
        best: npt.NDArray[np.int64] = scores.argmax(axis=1)
        tied = self.agrees.tied(scores) if isinstance(self.agrees, Labelled) else np.zeros(len(rows), dtype=bool)
        if tied.any():
            assert isinstance(self.agrees, Labelled)
            said = np.asarray(self.respond(rows[tied])).reshape(-1).tolist()
            own, known = best[tied].tolist(), self.agrees.labels
            best[tied] = [known.index(label) if label in known else k for label, k in zip(said, own, strict=True)]
        return best


def differs(name: str, row: int, parts: str = "layers") -> LayersDifferError:
    return LayersDifferError(
        f"{name} does not compute what its {parts} say (row {row} gets other scores): "
        "it is asked itself instead, and nothing is proven about it"
    )


def check_sums(shares: Floats, name: str, slack: float = SUM) -> str:
    """Warn if probabilities (n, classes) do not sum to one; why they are none then, else an empty text."""
    total = shares.sum(axis=1)
    bad = np.flatnonzero(~(np.abs(total - 1) <= slack))
    if not len(bad):
        return ""
    warnings.warn(
        f"the probabilities of {name} sum to {total[bad[0]]:.4g} in row {bad[0]}, not to 1: none are shown; let it "
        "return probabilities that sum to 1, or pass outputs='logits'",
        stacklevel=2,
    )
    return "its probabilities do not sum to 1"


def warn_if_unsteady(first: Floats, second: Floats, name: str) -> None:
    """Warn if a model answered the same rows differently when it was asked twice."""
    apart = ~np.isclose(first, second, rtol=SAME, atol=SAME, equal_nan=True)
    bad = np.flatnonzero(apart.any(axis=1))
    if len(bad):
        warnings.warn(
            f"{name} gives other scores when it is asked twice about the same rows (row {bad[0]} is the first): what "
            "is said of it may not hold the next time; switch off dropout and sampling, or fix its random state",
            stacklevel=2,
        )
