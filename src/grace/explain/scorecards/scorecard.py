"""A scorecard: what each change of a row does alone, and how well adding that up forecasts the model.

100 points are the way from the original class to the contrast class, f_C(x) - f_v(x) in the scale of the scorecard, and
a change is worth its share of that way, alone. Of two classes, a single change flips the row from 100 points on;
several changes flip it from 100 / `counts` points on, what pairs do together included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from grace.errors import GraceError
from grace.explain.scorecards.additive import counted
from grace.explain.scorecards.edits import Ints
from grace.explain.scorecards.pair_tables import grid_weights, looked_up
from grace.methods.curves import interpolate
from grace.schema.features import Floats, Value

SCALES = ("scores", "probabilities", "number")


@dataclass(frozen=True)
class Figure:
    """How often the forecast was right about edits that had no part in making it, half of which (by weight) change the
    decision. `claim` is the lower end of Wilson's interval of one standard error: what may be said."""

    claim: float
    right: float
    """The share for which it is right whether the decision changes."""
    exactly: float
    """The share for which it is right about the class, too."""
    alone: float
    """`right` without pairs, with the best factor for that."""
    changing: int
    """The number of edits that changed the decision, and of those that did not."""
    staying: int

    def to_dict(self) -> dict[str, float]:
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Figure:
        return cls(**data)


@dataclass(frozen=True)
class Pair:
    """What changes of two features (positions) do together beyond what each does alone: a table (g, h, classes) over
    values of both, among them the row's own."""

    a: int
    b: int
    values_a: Floats
    values_b: Floats
    table: Floats

    def to_dict(self) -> dict[str, Any]:
        arrays = {k: getattr(self, k).tolist() for k in ("values_a", "values_b", "table")}
        return {"a": self.a, "b": self.b, **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Pair:
        arrays = {k: np.array(data[k], dtype=np.float64) for k in ("values_a", "values_b", "table")}
        return cls(a=data["a"], b=data["b"], **arrays)


@dataclass(frozen=True)
class Scorecard:
    """The scorecard of one row (d,), encoded: one number per feature, a category as its code.

    `values` and `effects` are one curve per feature: at values (P,) in rising order, the change (P, classes) of each
    class's score by that value alone, linear in between; `exact` if that is the model itself, not its values on a grid.
    For a regression there is one number in the place of classes, `target` is the range that it should have been in, and
    decisions are 1 within it, else 0."""

    names: tuple[str, ...]
    categories: tuple[tuple[Value, ...] | None, ...]
    """The categories of each feature; None for a number."""
    missing: tuple[float, ...]
    """The number that encodes a missing cell of each feature; NaN if there is none."""
    row: Floats
    original: int
    contrast: int
    scale: str
    """One of SCALES: what is added up."""
    exact: bool
    start: Floats
    """The scores (classes,) of the row itself."""
    values: tuple[Floats, ...]
    effects: tuple[Floats, ...]
    factor: float
    growth: float
    """What several changes count of their sum, see `counts`."""
    pairs: tuple[Pair, ...]
    figure: Figure
    target: tuple[float, float] | None = None

    # -- points -------------------------------------------------------------------------------

    def points(self, feature: str | int, value: Value) -> float:
        """What a change of one feature is worth, alone. A category is given by its name."""
        j = self._position(feature)
        return float(self._points(self._effect(j, np.array([self._code(j, value)])))[0])

    def curve(self, feature: str | int) -> tuple[Floats, Floats]:
        """The values (P,) of a feature, encoded, and the points (P,) there."""
        j = self._position(feature)
        return self.values[j], self._points(self.effects[j])

    def together(self, a: str | int, value_a: Value, b: str | int, value_b: Value) -> float:
        """How many points more, or less, two changes are worth together than each alone; 0 for pairs not listed."""
        i, j = self._position(a), self._position(b)
        edit = self.row.copy()
        edit[i], edit[j] = self._code(i, value_a), self._code(j, value_b)
        found = [self._interaction(p, edit[None]) for p in self.pairs if {p.a, p.b} == {i, j}]
        return float(self._points(sum(found, np.zeros((1, len(self.start)))))[0])

    def pair_points(self, pair: Pair) -> Floats:
        """The table (g, h) of a pair in points."""
        return self._points(pair.table)

    def strongest(self, pair: Pair) -> tuple[Value, Value, float]:
        """The two values of a pair whose points together differ most from those alone, and by how much."""
        points = self.pair_points(pair)
        a, b = np.unravel_index(np.abs(points).argmax(), points.shape)
        values = (self._cell(j, grid[at]) for j, grid, at in ((pair.a, pair.values_a, a), (pair.b, pair.values_b, b)))
        return (*values, float(points[a, b]))  # type: ignore[return-value]

    def total(self, edits: Floats) -> Floats:
        """The points (m,) of edits (m, d): the sum of all changes and pairs, times what so many changes count."""
        return self._points(self.sums(edits) - self.start)

    def counts(self, changed: Ints | int) -> Floats:
        """What changes count, of the sum of their points, if so many features change at once: 1 for one feature."""
        return counted(np.asarray(changed), np.asarray(self.factor), np.asarray(self.growth))

    # -- forecasts ----------------------------------------------------------------------------

    def sums(self, edits: Floats) -> Floats:
        """The forecast scores (m, classes) of edits (m, d)."""
        out = np.zeros((len(edits), len(self.start)))
        for j in range(len(self.row)):
            out += self._effect(j, edits[:, j])
        for pair in self.pairs:
            out += self._interaction(pair, edits)
        changed = (edits != self.row).sum(axis=1)
        return np.asarray(self.start + out * self.counts(changed)[:, None])

    def forecast(self, edits: Floats) -> Ints:
        """The decision (m,) that is forecast for edits (m, d): the position of a class."""
        sums = self.sums(edits)
        if self.target is None:
            return np.asarray(sums.argmax(axis=1))
        low, high = self.target
        return np.asarray((sums[:, 0] >= low) & (sums[:, 0] <= high), dtype=np.int64)

    def thinned(self, tolerance: float = 0.5) -> Scorecard:
        """The scorecard with fewer points on its curves: at each that is left out, the points of every class are within
        the tolerance of the line between its neighbours, by Douglas and Peucker's method. For pages and files; the
        figure is that of the full curves."""
        allowed = tolerance / 100 * abs(self._way)
        kept = [_douglas_peucker(v, e, allowed, x) for v, e, x in zip(self.values, self.effects, self.row, strict=True)]
        values = tuple(v[k] for v, k in zip(self.values, kept, strict=True))
        effects = tuple(e[k] for e, k in zip(self.effects, kept, strict=True))
        return replace(self, values=values, effects=effects, exact=False)

    # -- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The scorecard as JSON; an end of a target range that is open is null."""
        return {
            "names": list(self.names),
            "categories": [None if c is None else list(c) for c in self.categories],
            "missing": [None if np.isnan(m) else m for m in self.missing],
            "row": self.row.tolist(),
            "original": self.original,
            "contrast": self.contrast,
            "scale": self.scale,
            "exact": self.exact,
            "start": self.start.tolist(),
            "values": [v.tolist() for v in self.values],
            "effects": [e.tolist() for e in self.effects],
            "factor": self.factor,
            "growth": self.growth,
            "pairs": [p.to_dict() for p in self.pairs],
            "figure": self.figure.to_dict(),
            "target": None if self.target is None else [t if np.isfinite(t) else None for t in self.target],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scorecard:
        """The inverse of `to_dict`."""
        low, high = data["target"] or (None, None)
        target = (-np.inf if low is None else low, np.inf if high is None else high)
        return cls(
            names=tuple(data["names"]),
            categories=tuple(None if c is None else tuple(c) for c in data["categories"]),
            missing=tuple(np.nan if m is None else m for m in data["missing"]),
            row=np.array(data["row"], dtype=np.float64),
            original=data["original"],
            contrast=data["contrast"],
            scale=data["scale"],
            exact=data["exact"],
            start=np.array(data["start"], dtype=np.float64),
            values=tuple(np.array(v, dtype=np.float64) for v in data["values"]),
            effects=tuple(np.array(e, dtype=np.float64) for e in data["effects"]),
            factor=data["factor"],
            growth=data["growth"],
            pairs=tuple(map(Pair.from_dict, data["pairs"])),
            figure=Figure.from_dict(data["figure"]),
            target=None if data["target"] is None else target,
        )

    # -- parts --------------------------------------------------------------------------------

    def _position(self, feature: str | int) -> int:
        if isinstance(feature, str):
            if feature not in self.names:
                raise GraceError(f"there is no feature {feature!r}; there are {', '.join(self.names)}")
            return self.names.index(feature)
        return feature

    def _code(self, j: int, value: Value) -> float:
        known = self.categories[j]
        if known is None:
            return float(value)
        if value not in known:
            raise GraceError(
                f"feature {self.names[j]!r} has no category {value!r}; it has {', '.join(map(str, known))}"
            )
        return float(known.index(value))

    def _cell(self, j: int, code: float) -> Value:
        known = self.categories[j]
        return float(code) if known is None else known[int(code)]

    def _effect(self, j: int, values: Floats) -> Floats:
        return np.asarray(interpolate(self.values[j][None], self.effects[j][None], values[None])[0])

    def _interaction(self, pair: Pair, edits: Floats) -> Floats:
        weights = [
            grid_weights(edits[:, j], grid, np.array(self.categories[j] is not None), np.array(self.missing[j]))
            for j, grid in ((pair.a, pair.values_a), (pair.b, pair.values_b))
        ]
        return looked_up(pair.table, weights[0], weights[1])

    def _points(self, effects: Floats) -> Floats:
        """Points (...,) of effects (..., classes)."""
        return np.asarray(100 * (effects @ self._direction) / self._way)

    @property
    def _direction(self) -> Floats:
        """What counts: the contrast class against the original one."""
        if self.target is not None:
            return np.ones(1)
        classes = np.arange(len(self.start))
        return np.asarray((classes == self.contrast) * 1.0 - (classes == self.original) * 1.0)

    @property
    def _way(self) -> float:
        """What there is to go, in the scale: to the contrast class, or to the nearest end of the target range."""
        if self.target is None:
            return float(self.start[self.original] - self.start[self.contrast])
        ways = [end - float(self.start[0]) for end in self.target if np.isfinite(end)]
        return min(ways, key=abs)


def _douglas_peucker(values: Floats, heights: Floats, tolerance: float, own: float) -> Ints:
    """The places of the points that are kept: both ends, the row's own value, and what no line between kept neighbours
    passes within the tolerance."""
    keep = {0, len(values) - 1, *np.flatnonzero(values == own).tolist()}
    spans = list(pairwise(sorted(keep)))
    while spans:
        a, b = spans.pop()
        if b - a < 2 or values[a] == values[b]:
            keep |= set(range(a, b))
            continue
        share = ((values[a + 1 : b] - values[a]) / (values[b] - values[a]))[:, None]
        error = np.abs(heights[a + 1 : b] - heights[a] - share * (heights[b] - heights[a])).max(axis=1)
        if error.max() > tolerance:
            middle = a + 1 + int(error.argmax())
            keep.add(middle)
            spans += [(a, middle), (middle, b)]
    return np.array(sorted(keep), dtype=np.int64)
