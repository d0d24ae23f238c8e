"""What lies behind an explanation: how training rows are spread, and what the model says along the changes.

A backdrop is small and plain, so that it can travel with an explanation where the training rows cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grace.errors import GraceError

MOST_SHOWN = 8  # changes that a picture shows, the largest; some methods change everything
SIDES = ("original", "contrast", "other")  # the class the model gave, that of the contrast, any other


@dataclass(frozen=True)
class Histogram:
    """How many training rows of each side fall in each bin. Of a number, `edges` are the limits of the
    bins, and the first and last bin hold whatever lies beyond; of a category, a bin is a category."""

    edges: tuple[float, ...]
    original: tuple[int, ...]
    contrast: tuple[int, ...]


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
        try:
            return cls(
                rows=None if data["rows"] is None else (int(data["rows"][0]), int(data["rows"][1])),
                histograms={k: Histogram(**frozen_parts(v)) for k, v in data["histograms"].items()},
                curves={k: Curve(**frozen_parts(v)) for k, v in data["curves"].items()},
                map=Map(**frozen_parts(data["map"])) if data.get("map") is not None else None,
            )
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as reason:
            raise GraceError(f"the backdrop is damaged ({reason}); leave it out, or write it again") from reason


def plain_parts(part: Histogram | Curve | Map) -> dict[str, Any]:
    return {name: _plain(value, 5 if name in SIDES else 17) for name, value in vars(part).items()}


def frozen_parts(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _frozen(value) for name, value in data.items()}


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, tuple):
        return [_plain(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, Sequence) and not isinstance(value, str) else value
