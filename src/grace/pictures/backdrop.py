"""The backdrop of an explanation: histograms of training rows and the model's predictions along the changes.

A backdrop is small and JSON-serialisable, so that it can be stored with an explanation, without the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grace.errors import GraceError
from grace.schema.parsing import record

MAX_CHANGES_SHOWN = 8  # the largest changes; some methods change every feature
SIDES = ("original", "contrast", "other")  # predicted class of the row, of its contrast, any other


@dataclass(frozen=True)
class Histogram:
    """Counts of training rows per bin and side. For a number, `edges` are the bin edges, and the outer bins include
    values beyond them; for a category, a bin is a category and `edges` is empty."""

    edges: tuple[float, ...]
    original: tuple[int, ...]
    contrast: tuple[int, ...]

    def is_consistent(self) -> bool:
        """Whether there is one count per bin, and edges ascend."""
        bins = len(self.edges) - 1 if self.edges else len(self.original)
        return len(self.original) == len(self.contrast) == bins > 0 and list(self.edges) == sorted(set(self.edges))


@dataclass(frozen=True)
class Curve:
    """The model along one feature, with all other changes made: the probabilities of both classes and of the most
    probable other one at `values` (for a category: codes), and `stretches` (start, stop, side) of constant predicted
    class. In regression, `original` and `contrast` are the predicted number; without probabilities, they are empty."""

    values: tuple[float, ...]
    original: tuple[float, ...]
    contrast: tuple[float, ...]
    other: tuple[float, ...]
    stretches: tuple[tuple[float, float, str], ...]

    @property
    def flips(self) -> tuple[float, ...]:
        """The values at which the predicted class changes."""
        return tuple(stop for _, stop, _ in self.stretches[:-1])

    def is_consistent(self) -> bool:
        """Whether each series has one number per value, or is empty."""
        lengths = {len(self.original), len(self.contrast), len(self.other)} - {0}
        return bool(self.values) and lengths <= {len(self.values)} and all(s in SIDES for *_, s in self.stretches)


@dataclass(frozen=True)
class Map:
    """The model over two features: each class's score minus the largest other score, at every (y, x), and some
    training rows (x, y, side)."""

    features: tuple[str, str]
    x: tuple[float, ...]
    y: tuple[float, ...]
    original: tuple[tuple[float, ...], ...]
    contrast: tuple[tuple[float, ...], ...]
    points: tuple[tuple[float, float, str], ...]

    def is_consistent(self) -> bool:
        """Whether both grids have shape (len(y), len(x))."""
        square = [len(self.x)] * len(self.y)
        same = all([len(line) for line in lead] == square for lead in (self.original, self.contrast))
        return same and len(self.x) > 1 < len(self.y) and all(side in SIDES for *_, side in self.points)


@dataclass(frozen=True)
class Backdrop:
    """Histograms, curves and map of the changed features of one explanation. `rows` counts the training rows that are
    predicted as the original and as the contrast class; None without training rows."""

    rows: tuple[int, int] | None
    histograms: Mapping[str, Histogram]
    curves: Mapping[str, Curve]
    map: Map | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; probabilities and leads are rounded to five digits."""
        out: dict[str, Any] = {
            "rows": None if self.rows is None else list(self.rows),
            "histograms": {k: to_lists(v) for k, v in self.histograms.items()},
            "curves": {k: to_lists(v) for k, v in self.curves.items()},
        }
        return out if self.map is None else {**out, "map": to_lists(self.map)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Backdrop:
        """The backdrop that `to_dict` wrote."""
        backdrop = cls(**record(cls, data, "the backdrop is damaged: it"))
        parts = (*backdrop.histograms.values(), *backdrop.curves.values(), backdrop.map)
        if not all(part.is_consistent() for part in parts if part):
            raise GraceError("the backdrop is damaged: its parts have not as many numbers each; leave it out")
        return backdrop


def to_lists(part: Histogram | Curve | Map) -> dict[str, Any]:
    return {name: _rounded(value, 5 if name in SIDES else 17) for name, value in vars(part).items()}


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, tuple):
        return [_rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
