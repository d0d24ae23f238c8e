"""A simulated reader: one who has only a text about a row edits the row by it, and expects things of other edits.

No people are involved. Every reader sees the row and how sure the model is, as the paper's participants did, and
knows of the table what an expert would: the ranges, the usual values, and what is typical of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from grace.errors import GraceError
from grace.experiments.reproduction import reading
from grace.explain.explainer import Explainer
from grace.schema.features import Bools, Categorical, Floats, Numeric, Value
from grace.schema.formatting import decimal
from grace.schema.schema import Schema
from grace.text.precision import (
    ABOVE_TENFOLD,
    BELOW_TENTH,
    SLIGHT,
    Delta,
    Difference,
    NewCategory,
    Ratio,
    Replacement,
    Within,
    ratio_value,
)

K = 5
FAR = 2  # "more than ten times" is taken as twice as much as it names, "less than a tenth" as half
POLICIES: Mapping[str, tuple[str, ...]] = {
    "grace": ("exact", "magnitude", "relative"),
    "lime": ("edge", "typical", "far"),
    "shap": ("typical", "far"),
    "none": ("typical", "far"),
}
"""GRACE's three styles; where the others leave open how far to go: just across the edge that is named, to what is
typical of the other classes, or to the end of the usual range in that direction."""


@dataclass(frozen=True)
class Known:
    """What any reader knows of the table: the schema with the ranges of all values, the same with those of usual
    values, and what is typical (k, d) of each class and of all other classes together."""

    schema: Schema
    usual: Schema
    typical: Floats
    others: Floats
    classes: tuple[Value, ...]

    @classmethod
    def of(cls, explainer: Explainer) -> Known:
        rows, classes = explainer.background_rows, explainer.background_classes()
        if rows is None or classes is None:
            raise GraceError("a reader needs training rows; give train= to Explainer")
        schema, usual = explainer.schema_for("minmax"), explainer.schema_for("central")
        labels = range(len(explainer.model.classes))
        typical = np.stack([_middle(schema, rows[classes == c], rows) for c in labels])
        others = np.stack([_middle(schema, rows[classes != c], rows) for c in labels])
        return cls(schema, usual, typical, others, explainer.model.classes)


@dataclass(frozen=True)
class Shown:
    """What is shown of a row: its values, the class, and how sure the model is. `draw` is for those who guess."""

    row: Floats
    label: int
    probability: float
    draw: int = 0


@dataclass(frozen=True)
class Belief:
    """What a reader makes of a text: the edit that should change the model's mind, the features that the text names,
    and which of other edits (n, d) should change it."""

    edit: Floats
    named: tuple[int, ...]
    expects: Callable[[Floats], Bools]


def believe(method: str, text: str, shown: Shown, known: Known, policy: str) -> Belief:
    """The reader of a method's text."""
    readers = {"grace": of_grace, "lime": of_lime, "shap": of_shap, "none": of_nothing}
    return readers[method](text, shown, known, policy)


# -- GRACE: go where the sentence says ----------------------------------------------------------------


def of_grace(text: str, shown: Shown, known: Known, policy: str) -> Belief:
    """Edits as told. Of other edits, expects a change of mind once they go the whole way in the features that are
    named, on average over those features. (`policy` is the style: it is in the text already.)"""
    told = reading.contrast(text, known.schema)
    edit = shown.row.copy()
    if told is None:
        return Belief(edit, (), lambda rows: np.zeros(len(rows), dtype=bool))
    named = [known.schema.index(name) for name, _ in told.moves]
    after = known.classes.index(told.after)
    for j, (_, how) in zip(named, told.moves, strict=True):
        edit[j] = _moved(known, j, float(shown.row[j]), how, float(known.typical[after, j]))
    moving = [j for j in named if edit[j] != shown.row[j]]

    def expects(rows: Floats) -> Bools:
        way = [_way(known, j, shown.row[j], edit[j], rows[:, j]) for j in moving]
        return np.mean(way, axis=0) >= 1 - 1e-9 if way else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(named), expects)


def _moved(known: Known, j: int, value: float, how: Difference, typical: float) -> float:
    """Where a reader takes a feature of which it is said how it would have to differ."""
    feature = known.schema.features[j]
    if isinstance(how, NewCategory):
        assert isinstance(feature, Categorical)
        return float(feature.categories.index(how.new))
    assert isinstance(feature, Numeric)
    old = decimal(value)
    if isinstance(how, Replacement):
        return float(how.new)
    if isinstance(how, Within):
        return _possible(feature, value, float(how.low + how.high) / 2)
    if isinstance(how, Delta):
        return _possible(feature, value, float(old + (how.size if how.up else -how.size)))
    if isinstance(how, Ratio):
        return _possible(feature, value, float(old * _ratio(how)))
    if (typical > value) == how.up and typical != value:
        return typical
    return _end(known, j, value, how.up)


def _ratio(how: Ratio) -> Decimal:
    if how.ratio == "slightly":  # as far as the word goes
        return Decimal(1 + SLIGHT if how.up else 1 - SLIGHT)
    if how.ratio in (ABOVE_TENFOLD, BELOW_TENTH):
        return Decimal(10 * FAR) if how.ratio == ABOVE_TENFOLD else Decimal(1) / (10 * FAR)
    return ratio_value(how.ratio)


# -- LIME: leave the bins that speak for the class ------------------------------------------------------


def of_lime(text: str, shown: Shown, known: Known, policy: str) -> Belief:
    """Leaves every bin that is said to make the class likelier. Of other edits, subtracts the weights of the bins that
    they leave, and expects a change of mind below one half."""
    told = reading.outsides(text, known.schema)
    named = [known.schema.index(o.name) for o in told]
    edit = shown.row.copy()
    for j, o in list(zip(named, told, strict=True))[:K]:
        if o.weight > 0:
            edit[j] = _left(known, shown, j, o, policy)

    def expects(rows: Floats) -> Bools:
        gone = [o.weight * _is_out(known, shown, j, o, rows[:, j]) for j, o in zip(named, told, strict=True)]
        return shown.probability - np.sum(gone, axis=0) < 0.5 if gone else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(named), expects)


def _is_out(known: Known, shown: Shown, j: int, o: reading.Outside, values: Floats) -> Floats:
    if isinstance(known.schema.features[j], Categorical):
        return np.asarray(values != shown.row[j], dtype=float)
    out = np.zeros(len(values), dtype=bool)
    if o.low is not None:
        out |= values <= o.low
    if o.high is not None:
        out |= values > o.high
    return out.astype(float)


def _left(known: Known, shown: Shown, j: int, o: reading.Outside, policy: str) -> float:
    """A value outside the bin."""
    feature, value = known.schema.features[j], float(shown.row[j])
    target = float(known.others[shown.label, j])
    if isinstance(feature, Categorical):
        return target if target != value else _another(feature, value)
    step = 10.0**-feature.digits
    down = None if o.low is None else _possible(feature, value, o.low)
    up = (
        None
        if o.high is None
        else _possible(feature, value, np.floor(o.high) + 1 if feature.integer else o.high + step)
    )
    if down is None or up is None:
        higher = down is None
    else:  # both sides are open: that of the typical value, else the nearer edge
        higher = target > value if target <= down or target >= up else up - value < value - down
    edge = up if higher else down
    assert edge is not None
    if policy == "far":
        return _beyond(_end(known, j, value, higher), edge, higher)
    return _beyond(target, edge, higher) if policy == "typical" else edge


# -- SHAP: take away what speaks for the class -----------------------------------------------------------


def of_shap(text: str, shown: Shown, known: Known, policy: str) -> Belief:
    """Moves each feature that adds to the class towards what is typical of the other classes. Of other edits, subtracts
    of each part as much as they go that way, and expects a change of mind below one half."""
    told = [(known.schema.index(name), weight) for name, weight in reading.shares(text)]
    edit = shown.row.copy()
    for j, weight in told[:K]:
        if weight > 0:
            edit[j] = _towards(known, shown, j, policy)

    def expects(rows: Floats) -> Bools:
        gone = [
            w * np.clip(_way(known, j, shown.row[j], known.others[shown.label, j], rows[:, j]), -1, 1) for j, w in told
        ]
        return shown.probability - np.sum(gone, axis=0) < 0.5 if gone else np.zeros(len(rows), dtype=bool)

    return Belief(edit, tuple(j for j, _ in told), expects)


def of_nothing(text: str, shown: Shown, known: Known, policy: str) -> Belief:
    """Without an explanation: moves features at random as above, and expects a change of mind once a row lies nearer to
    what is typical of the other classes than to what is typical of its own."""
    d = len(known.schema)
    named = np.random.default_rng(shown.draw).choice(d, min(K, d), replace=False)
    edit = shown.row.copy()
    for j in named:
        edit[j] = _towards(known, shown, int(j), policy)
    unit = np.array([1.0 if isinstance(f, Categorical) else f.spread or 1.0 for f in known.schema.features])
    words = np.array([isinstance(f, Categorical) for f in known.schema.features])

    def apart(rows: Floats, typical: Floats) -> Floats:
        return np.asarray(np.where(words, rows != typical, np.abs(rows - typical) / unit).sum(axis=1))

    def expects(rows: Floats) -> Bools:
        return apart(rows, known.others[shown.label]) < apart(rows, known.typical[shown.label])

    return Belief(edit, tuple(int(j) for j in named), expects)


# -- values -----------------------------------------------------------------------------------------


def _towards(known: Known, shown: Shown, j: int, policy: str) -> float:
    """What is typical of the other classes, or the end of the usual range behind it."""
    value, target = float(shown.row[j]), float(known.others[shown.label, j])
    if policy == "typical" or target == value or isinstance(known.schema.features[j], Categorical):
        return target
    return _beyond(_end(known, j, value, target > value), target, target > value)


def _way(known: Known, j: int, start: float, end: float, values: Floats) -> Floats:
    """How much of the way from start to end the values have gone; of a category, all or nothing."""
    if isinstance(known.schema.features[j], Categorical):
        return np.asarray((values == end) & (values != start), dtype=float)
    return np.asarray((values - start) / (end - start)) if end != start else np.zeros(len(values))


def _possible(feature: Numeric, old: float, new: float) -> float:
    """The new value within the range, and whole where it has to be: then one step at least."""
    if feature.integer:
        rounded = float(np.round(new))
        new = rounded if rounded != old or new == old else old + np.sign(new - old)
    return float(np.clip(new, *feature.bounds))


def _end(known: Known, j: int, value: float, up: bool) -> float:
    """The end of the usual range, unless the value lies beyond it."""
    feature = known.usual.features[j]
    assert isinstance(feature, Numeric)
    low, high = feature.bounds
    return max(value, high) if up else min(value, low)


def _beyond(value: float, edge: float, up: bool) -> float:
    return max(value, edge) if up else min(value, edge)


def _another(feature: Categorical, value: float) -> float:
    return next((float(c) for c in range(len(feature.categories)) if c != value), value)


def _middle(schema: Schema, rows: Floats, all_rows: Floats) -> npt.NDArray[np.float64]:
    """What is typical of some rows: medians that occur, and the most frequent categories; of none, of all rows."""
    rows = rows if len(rows) else all_rows
    middle = np.quantile(rows, 0.5, axis=0, method="lower")
    for j, feature in enumerate(schema.features):
        if isinstance(feature, Categorical):
            middle[j] = np.bincount(rows[:, j].astype(int)).argmax()
    return np.asarray(middle)
