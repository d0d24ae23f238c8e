"""Simulated readers: programs that edit a row by a text about it, and predict which other edits change the class.

A reader sees the text, the row and the probability of its class, as the paper's participants did, and statistics of the
table: ranges, central ranges, and typical values of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from grace.errors import GraceError
from grace.experiments.reproduction import reading
from grace.explain.explainer import Explainer
from grace.explain.scorecards.typical_rows import typical_row
from grace.schema.features import Bools, Categorical, Floats, Numeric, Value
from grace.schema.formatting import decimal
from grace.schema.schema import Schema
from grace.text.precision import (
    ABOVE_TENFOLD,
    BELOW_TENTH,
    SLIGHT,
    AnyCategory,
    AtLeast,
    Delta,
    Difference,
    NewCategory,
    Ratio,
    Replacement,
    Within,
    ratio_value,
)

K = 5
BEYOND_TEN = 2  # "more than ten times" is read as 20 times, "less than a tenth" as a 20th
POLICIES: Mapping[str, tuple[str, ...]] = {
    "grace": ("exact", "magnitude", "relative"),
    "lime": ("edge", "typical", "far"),
    "shap": ("typical", "far"),
    "none": ("typical", "far"),
}
"""For GRACE, the style of the text. Other texts do not say how far to move a feature: just across the named edge, to
the typical value of the other classes ("typical"), or to the end of the central range in that direction ("far")."""


@dataclass(frozen=True)
class TableStatistics:
    """What readers know of the table: its schema with the ranges of all values, the same with central ranges, and
    typical rows (k, d) of each class and of all other classes together."""

    schema: Schema
    central: Schema
    typical: Floats
    others: Floats
    classes: tuple[Value, ...]

    @classmethod
    def of(cls, explainer: Explainer) -> TableStatistics:
        rows, classes = explainer.background_rows, explainer.background_classes()
        if rows is None or classes is None:
            raise GraceError("a reader needs training rows; give train= to Explainer")
        schema, central = explainer.schema_for("minmax"), explainer.schema_for("central")
        labels = range(len(explainer.model.classes))
        categorical = np.array([isinstance(f, Categorical) for f in schema.features])
        typical = np.stack([typical_row(categorical, rows[classes == c], rows) for c in labels])
        others = np.stack([typical_row(categorical, rows[classes != c], rows) for c in labels])
        return cls(schema, central, typical, others, explainer.model.classes)


@dataclass(frozen=True)
class Shown:
    """What readers see of a row: its values, its class (as a position) and the probability of the class. `seed` is for
    random choices."""

    row: Floats
    label: int
    probability: float
    seed: int = 0


@dataclass(frozen=True)
class Belief:
    """What a reader concludes from a text: the edited row that should change the class, the positions of the features
    that the text names, and a function that predicts which of other edits (n, d) change the class."""

    edit: Floats
    named: tuple[int, ...]
    expects: Callable[[Floats], Bools]


def believe(method: str, text: str, shown: Shown, known: TableStatistics, policy: str) -> Belief:
    """The belief of the reader for a method's text."""
    readers = {"grace": of_grace, "lime": of_lime, "shap": of_shap, "none": of_nothing}
    return readers[method](text, shown, known, policy)


# -- GRACE: apply the changes in the sentence -----------------------------------------------------------


def of_grace(text: str, shown: Shown, known: TableStatistics, policy: str) -> Belief:
    """Applies the changes in the text. Another edit is expected to change the class if it makes these changes fully, on
    average over the features. (`policy` is the style of the text.)"""
    parsed = reading.contrast(text, known.schema)
    edit = shown.row.copy()
    if parsed is None:
        return Belief(edit, (), lambda rows: np.zeros(len(rows), dtype=bool))
    named = [known.schema.index(name) for name, _ in parsed.moves]
    after = known.classes.index(parsed.after)
    for j, (_, difference) in zip(named, parsed.moves, strict=True):
        edit[j] = _applied(known, j, float(shown.row[j]), difference, float(known.typical[after, j]))
    moving = [j for j in named if edit[j] != shown.row[j]]

    def expects(rows: Floats) -> Bools:
        shares = [_share_of_move(known, j, shown.row[j], edit[j], rows[:, j]) for j in moving]
        return np.mean(shares, axis=0) >= 1 - 1e-9 if shares else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(named), expects)


def _applied(known: TableStatistics, j: int, value: float, difference: Difference, typical: float) -> float:
    """The new value of a feature by the difference that a text names."""
    feature = known.schema.features[j]
    if isinstance(difference, NewCategory | AnyCategory):
        assert isinstance(feature, Categorical)
        first = difference.new[0] if isinstance(difference, AnyCategory) else difference.new
        return float(feature.categories.index(first))
    assert isinstance(feature, Numeric)
    old = decimal(value)
    if isinstance(difference, Replacement):
        return float(difference.new)
    if isinstance(difference, Within):
        return _feasible(feature, value, float(difference.low + difference.high) / 2)
    if isinstance(difference, Delta | AtLeast):
        return _feasible(feature, value, float(old + (difference.size if difference.up else -difference.size)))
    if isinstance(difference, Ratio):
        return _feasible(feature, value, float(old * _ratio(difference)))
    if (typical > value) == difference.up and typical != value:
        return typical
    return _end(known, j, value, difference.up)


def _ratio(difference: Ratio) -> Decimal:
    if difference.ratio == "slightly":  # the largest change that the word is used for
        return Decimal(1 + SLIGHT if difference.up else 1 - SLIGHT)
    if difference.ratio in (ABOVE_TENFOLD, BELOW_TENTH):
        return Decimal(10 * BEYOND_TEN) if difference.ratio == ABOVE_TENFOLD else Decimal(1) / (10 * BEYOND_TEN)
    return ratio_value(difference.ratio)


# -- LIME: leave the bins with positive weight -----------------------------------------------------------


def of_lime(text: str, shown: Shown, known: TableStatistics, policy: str) -> Belief:
    """Moves features out of the bins with positive weight. Another edit is expected to change the class if the
    probability minus the weights of the bins that it leaves is below one half."""
    bins = reading.outsides(text, known.schema)
    named = [known.schema.index(o.name) for o in bins]
    edit = shown.row.copy()
    for j, o in list(zip(named, bins, strict=True))[:K]:
        if o.weight > 0:
            edit[j] = _outside_value(known, shown, j, o, policy)

    def expects(rows: Floats) -> Bools:
        losses = [o.weight * _is_outside(known, shown, j, o, rows[:, j]) for j, o in zip(named, bins, strict=True)]
        return shown.probability - np.sum(losses, axis=0) < 0.5 if losses else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(named), expects)


def _is_outside(known: TableStatistics, shown: Shown, j: int, o: reading.Outside, values: Floats) -> Floats:
    if isinstance(known.schema.features[j], Categorical):
        return np.asarray(values != shown.row[j], dtype=float)
    out = np.zeros(len(values), dtype=bool)
    if o.low is not None:
        out |= values <= o.low
    if o.high is not None:
        out |= values > o.high
    return out.astype(float)


def _outside_value(known: TableStatistics, shown: Shown, j: int, o: reading.Outside, policy: str) -> float:
    """A value outside a bin."""
    feature, value = known.schema.features[j], float(shown.row[j])
    target = float(known.others[shown.label, j])
    if isinstance(feature, Categorical):
        others = (float(c) for c in range(len(feature.categories)) if c != value)
        return target if target != value else next(others, value)
    step = 10.0**-feature.digits
    above = None if o.high is None else np.floor(o.high) + 1 if feature.integer else o.high + step
    down = None if o.low is None else _feasible(feature, value, o.low)
    up = None if above is None else _feasible(feature, value, above)
    if down is None or up is None:
        higher = down is None
    else:  # the side of the typical value, or else of the nearer edge
        higher = target > value if target <= down or target >= up else up - value < value - down
    edge = up if higher else down
    assert edge is not None
    if policy == "far":
        return _beyond(_end(known, j, value, higher), edge, higher)
    return _beyond(target, edge, higher) if policy == "typical" else edge


# -- SHAP: move features with positive weight -----------------------------------------------------------


def of_shap(text: str, shown: Shown, known: TableStatistics, policy: str) -> Belief:
    """Moves features with positive weight towards typical values of the other classes. Another edit is expected to
    change the class if the probability, minus each weight times the share of the move that it makes, is below half."""
    weights = [(known.schema.index(name), weight) for name, weight in reading.shares(text)]
    edit, target = shown.row.copy(), known.others[shown.label]
    for j, weight in weights[:K]:
        if weight > 0:
            edit[j] = _towards(known, shown, j, policy)

    def expects(rows: Floats) -> Bools:
        moves = [np.clip(_share_of_move(known, j, shown.row[j], target[j], rows[:, j]), -1, 1) for j, _ in weights]
        losses = [w * move for (_, w), move in zip(weights, moves, strict=True)]
        return shown.probability - np.sum(losses, axis=0) < 0.5 if losses else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(j for j, _ in weights), expects)


def of_nothing(text: str, shown: Shown, known: TableStatistics, policy: str) -> Belief:
    """Without an explanation: moves random features as above. Another edit is expected to change the class if it is
    nearer to the typical row of the other classes than to that of its class."""
    d = len(known.schema)
    named = np.random.default_rng(shown.seed).choice(d, min(K, d), replace=False)
    edit = shown.row.copy()
    for j in named:
        edit[j] = _towards(known, shown, int(j), policy)
    unit = np.array([1.0 if isinstance(f, Categorical) else f.spread or 1.0 for f in known.schema.features])
    categorical = np.array([isinstance(f, Categorical) for f in known.schema.features])

    def distance(rows: Floats, typical: Floats) -> Floats:
        return np.asarray(np.where(categorical, rows != typical, np.abs(rows - typical) / unit).sum(axis=1))

    def expects(rows: Floats) -> Bools:
        return distance(rows, known.others[shown.label]) < distance(rows, known.typical[shown.label])

    return Belief(edit, tuple(int(j) for j in named), expects)


# -- values -----------------------------------------------------------------------------------------


def _towards(known: TableStatistics, shown: Shown, j: int, policy: str) -> float:
    """The typical value of the other classes, or the end of the central range in its direction."""
    value, target = float(shown.row[j]), float(known.others[shown.label, j])
    if policy == "typical" or target == value or isinstance(known.schema.features[j], Categorical):
        return target
    return _beyond(_end(known, j, value, target > value), target, target > value)


def _share_of_move(known: TableStatistics, j: int, start: float, end: float, values: Floats) -> Floats:
    """(value - start) / (end - start); for a category 1 at the end, else 0."""
    if isinstance(known.schema.features[j], Categorical):
        return np.asarray((values == end) & (values != start), dtype=float)
    return np.asarray((values - start) / (end - start)) if end != start else np.zeros(len(values))


def _feasible(feature: Numeric, old: float, new: float) -> float:
    """The new value clipped to the range; an integer is rounded, but differs from the old value by at least 1."""
    if feature.integer:
        rounded = float(np.round(new))
        new = rounded if rounded != old or new == old else old + np.sign(new - old)
    return float(np.clip(new, *feature.bounds))


def _end(known: TableStatistics, j: int, value: float, up: bool) -> float:
    """The end of the central range, or the value if it lies beyond."""
    feature = known.central.features[j]
    assert isinstance(feature, Numeric)
    low, high = feature.bounds
    return max(value, high) if up else min(value, low)


def _beyond(value: float, edge: float, up: bool) -> float:
    return max(value, edge) if up else min(value, edge)
