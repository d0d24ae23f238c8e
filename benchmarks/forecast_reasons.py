"""The reader of reasons, by several policies, for benchmarks/forecast.py.

It is given what `explainer.reasons(rows, max_features=2)` says of a row: every minimal set of at most two features that
can change the class, with the nearest values that do; and of single features all values that do so alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from forecast_readers import Forecast, Setting

from grace.explain.decisions.reasons import Reasons
from grace.explain.explanation import Change
from grace.explain.region import Region
from grace.explain.scorecards.edits import Ints
from grace.explain.scorecards.row_effects import curves_at
from grace.methods.curves import Curves, curves_of
from grace.schema.features import Categorical, Floats

SECONDS = 1.0  # of work on a row, as by default
SHOWN = 1000  # sets of a row that are shown with values: in practice all
WAYS = (0.25, 0.5, 0.75, 1.0, 1.5)  # shares of the way to the values of a set from which on the class changes
SUMS = (0.5, 0.75, 1.0, 1.5, 2.0)  # the same, of all changes of an edit together
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Progress = Callable[[int, Floats], Floats]
"""How far (m, sets) edits (m, d) of row i make the changes of each set that is shown."""


@dataclass(frozen=True)
class ShownSets:
    """The sets of a row that are shown with values: the two features (sets, 2) of each, of a single one twice, their
    values, the classes (sets,) that follow, and the regions of pairs."""

    features: Ints
    values: Floats
    labels: Ints
    regions: tuple[Region | None, ...]
    complete: bool

    @property
    def pairs(self) -> Bools:
        return np.asarray(self.features[:, 0] != self.features[:, 1])


def shown_sets(setting: Setting) -> list[ShownSets]:
    """What is shown of the reasons of each row."""
    explainer = setting.explainer
    rows = explainer.schema.decode(setting.rows)
    found = explainer.reasons(rows, 2, seconds=SECONDS, shown=SHOWN, domain="minmax")
    return [_arrays(explainer.schema.names, reasons) for reasons in found]


def _arrays(names: list[str], reasons: Reasons) -> ShownSets:
    shown = [r.explanation for r in reasons.shown if r.explanation is not None]
    ends = [(e.changes[0], e.changes[-1]) for e in shown]
    return ShownSets(
        np.array([[names.index(c.name) for c in both] for both in ends], dtype=int).reshape(-1, 2),
        np.array([[_code(c) for c in both] for both in ends]).reshape(-1, 2),
        np.array([e.classes.index(e.contrast_class) for e in shown if e.contrast_class is not None], dtype=int),
        tuple(e.region if len(e.changes) == 2 else None for e in shown),
        reasons.complete,
    )


def _code(change: Change) -> float:
    feature = change.feature
    return float(feature.categories.index(change.new)) if isinstance(feature, Categorical) else float(change.new)


def single_reasons(setting: Setting) -> Forecast:
    """Reads the values from which on a single feature changes the class: an edit changes it if one of its changes does
    so alone. Of several classes, the forecast is that with the largest margin."""
    schema = setting.explainer.schema_for("minmax")
    low, high = schema.bounds()
    low, high = np.minimum(low, setting.pool.min(axis=0)), np.maximum(high, setting.pool.max(axis=0))
    grid = np.quantile(setting.pool, np.linspace(0, 1, 24), axis=0, method="nearest").T
    curves = curves_of(setting.explainer.model, schema.features, setting.rows, low, high, grid)

    def forecast(i: int, edits: Floats) -> Ints:
        line = Curves(curves.values[i : i + 1], curves.scores[i : i + 1], curves.exact)
        scores = curves_at(line, edits[None])[0]  # (m, d, classes)
        lead = scores - scores[:, :, setting.own[i], None]
        best = lead.max(axis=1)
        return np.asarray(best.argmax(axis=1))

    return forecast


def reasons(setting: Setting, known: list[ShownSets]) -> dict[str, Forecast]:
    """The policies: a single change that flips alone, and nothing else; or also a pair of which both changes are made,
    or are made so far on average, or whose proven region the edit is in; or the changes of all sets added up."""
    alone = single_reasons(setting)

    def share(i: int, edits: Floats) -> Floats:
        """How far (m, sets, 2) edits go to the values of the sets, in [-1, 2]; 1 for the same category."""
        at, end = known[i].features, known[i].values
        row, new = setting.rows[i][at], edits[:, at]
        far = np.clip((new - row) / (end - row), -1, 2)
        return np.where(setting.categorical[at], new == end, far)

    def fully(i: int, edits: Floats) -> Floats:
        return np.asarray(share(i, edits).min(axis=2))

    def on_average(i: int, edits: Floats) -> Floats:
        return np.asarray(share(i, edits).mean(axis=2))

    def inside(i: int, edits: Floats) -> Floats:
        return np.stack([_inside(setting, box, edits) for box in known[i].regions], axis=1, dtype=np.float64)

    def pairs(progress: Progress, least: float) -> Forecast:
        """An edit changes the class as the pair that it makes most of, if no single change does so."""

        def forecast(i: int, edits: Floats) -> Ints:
            found, two = alone(i, edits), known[i].pairs
            if not two.any():
                return found
            made = np.where(two, progress(i, edits), -np.inf)
            changes = (found == setting.own[i]) & (made.max(axis=1) >= least)
            return np.where(changes, known[i].labels[made.argmax(axis=1)], found)

        return forecast

    def added(least: float) -> Forecast:
        """Each change counts as it does in the set in which it counts most; the class is that of the set that is made
        most of."""

        def forecast(i: int, edits: Floats) -> Ints:
            if not len(known[i].labels):
                return alone(i, edits)
            total = _added(setting, known[i], setting.rows[i], edits)
            likely = known[i].labels[on_average(i, edits).argmax(axis=1)]
            return np.where(total >= least, likely, setting.own[i])

        return forecast

    return {
        "single changes that flip": alone,
        "single changes, or both of a pair": pairs(fully, 1.0),
        "single changes, or inside the region of a pair": pairs(inside, 1.0),
        **{f"single changes, or {t:g} of the way to a pair on average": pairs(on_average, t) for t in WAYS},
        **{f"all sets added up, from {t:g} on": added(t) for t in SUMS},
    }


def _inside(setting: Setting, box: Region | None, edits: Floats) -> Bools:
    """Which edits (m,) have values of a box in its features."""
    out = np.full(len(edits), box is not None)
    if box is None:
        return out
    schema = setting.explainer.schema
    for name, (low, high) in box.intervals.items():
        values = edits[:, schema.names.index(name)]
        out &= (values >= low) & (values <= high)
    for name, words in box.categories.items():
        j = schema.names.index(name)
        feature = schema.features[j]
        assert isinstance(feature, Categorical)
        out &= np.isin(edits[:, j], [feature.categories.index(word) for word in words])
    return out


def _added(setting: Setting, sets: ShownSets, row: Floats, edits: Floats) -> Floats:
    """The sum (m,) over the features of an edit. At the value of a set, each of its features counts 1 / size; a number
    in proportion to the way, at most 1, and in a direction in which no set goes it counts against as much as it counts
    for in the other; a category counts as in the set that has it."""
    total = np.zeros(len(edits))
    for j in np.unique(sets.features):
        here, column = np.nonzero(sets.features == j)
        worth, way = np.where(sets.pairs[here], 0.5, 1.0), sets.values[here, column] - row[j]
        moved = edits[:, j] - row[j]
        if setting.categorical[j]:
            total += np.max(np.where(moved[:, None] == way, worth, 0.0), axis=1)
            continue
        up = (worth[way > 0] / way[way > 0]).max(initial=0.0)
        down = (worth[way < 0] / -way[way < 0]).max(initial=0.0)
        rising, falling = up if up else -down, down if down else -up
        total += np.clip(np.where(moved > 0, rising * moved, falling * -moved), -1, 1)
    return total
