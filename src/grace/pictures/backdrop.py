"""What lies behind an explanation: how training rows are spread, and what the model says along the changes.

A backdrop is small and plain, so that it can travel with an explanation where the training rows cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grace.errors import GraceError
from grace.schema.parsing import record

MOST_SHOWN = 8  # changes that a picture shows, the largest; some methods change everything
SIDES = ("original", "contrast", "other")  # the class the model gave, that of the contrast, any other


@dataclass(frozen=True)
class Histogram:
    """How many training rows of each side fall in each bin. Of a number, `edges` are the limits of the
    bins, and the first and last bin hold whatever lies beyond; of a category, a bin is a category."""

    edges: tuple[float, ...]
    original: tuple[int, ...]
    contrast: tuple[int, ...]

    def fits(self) -> bool:
        """Whether there is a count for each bin."""
        bins = len(self.edges) - 1 if self.edges else len(self.original)
        return len(self.original) == len(self.contrast) == bins > 0 and list(self.edges) == sorted(set(self.edges))


@dataclass(frozen=True)
class Curve:
    """The model along one feature, all other changes made: the probability of both classes and of the
    strongest other one at some values (of a category: positions), and the stretches of each side. Of a model that
    predicts a number, `original` and `contrast` are that number; of one that gives no probabilities, they are empty."""

    values: tuple[float, ...]
    original: tuple[float, ...]
    contrast: tuple[float, ...]
    other: tuple[float, ...]
    stretches: tuple[tuple[float, float, str], ...]

    @property
    def flips(self) -> tuple[float, ...]:
        """Where the model changes its mind."""
        return tuple(stop for _, stop, _ in self.stretches[:-1])

    def fits(self) -> bool:
        """Whether there is a number for each value, or none at all."""
        lengths = {len(self.original), len(self.contrast), len(self.other)} - {0}
        return bool(self.values) and lengths <= {len(self.values)} and all(s in SIDES for *_, s in self.stretches)


@dataclass(frozen=True)
class Map:
    """The model over two features: by how much each class leads all others, in scores, at every (y, x), and
    some training rows (x, y, side)."""

    features: tuple[str, str]
    x: tuple[float, ...]
    y: tuple[float, ...]
    original: tuple[tuple[float, ...], ...]
    contrast: tuple[tuple[float, ...], ...]
    points: tuple[tuple[float, float, str], ...]

    def fits(self) -> bool:
        """Whether there is a number for each (y, x)."""
        square = [len(self.x)] * len(self.y)
        same = all([len(line) for line in lead] == square for lead in (self.original, self.contrast))
        return same and len(self.x) > 1 < len(self.y) and all(side in SIDES for *_, side in self.points)


@dataclass(frozen=True)
class Backdrop:
    """Behind the changed features of one explanation. `rows` counts the training rows that the model puts in
    the original and in the contrast class, None if there are none to count."""

    rows: tuple[int, int] | None
    histograms: Mapping[str, Histogram]
    curves: Mapping[str, Curve]
    map: Map | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; probabilities and leads to five digits."""
        out: dict[str, Any] = {
            "rows": None if self.rows is None else list(self.rows),
            "histograms": {k: plain_parts(v) for k, v in self.histograms.items()},
            "curves": {k: plain_parts(v) for k, v in self.curves.items()},
        }
        return out if self.map is None else {**out, "map": plain_parts(self.map)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Backdrop:
        """The backdrop that `to_dict` wrote."""
        found = cls(**record(cls, data, "the backdrop is damaged: it"))
        if not all(part.fits() for part in (*found.histograms.values(), *found.curves.values(), found.map) if part):
            raise GraceError("the backdrop is damaged: its parts have not as many numbers each; leave it out")
        return found


def plain_parts(part: Histogram | Curve | Map) -> dict[str, Any]:
    return {name: _plain(value, 5 if name in SIDES else 17) for name, value in vars(part).items()}


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, tuple):
        return [_plain(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
