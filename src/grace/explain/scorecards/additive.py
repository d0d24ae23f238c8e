"""Additive forecasts of edits, and how their parts are chosen.

The forecast of an edit x' of a row x adds up what its changes do alone, and what chosen pairs of changes do beyond
that: for every class c, f_c(x) + s · (Σ_j Δ_c(j, x'_j) + Σ_pairs I_c(a, b, x'_a, x'_b)), where s = 1 if one feature
changes and else a factor of the row: effects of several changes rarely add up exactly. Pairs are chosen greedily on one
set of edits, each followed by the best factor; their number on another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from grace.explain.scorecards.edits import Edits, Ints
from grace.schema.features import Floats

GROWTHS = (0.0, -0.4, -0.2, 0.2, 0.4)
FACTORS = np.array(
    sorted(product((k / 10 for k in range(2, 21)), GROWTHS), key=lambda f: abs(np.log(f[0])) + abs(f[1]))
)
"""The factors (A, 2) that are tried, see `counted`; no change of the sum is the first: it wins ties."""
TOLERANCE = 1e-9  # two objectives that differ by less are equal
LEAST_GAIN = 0.002  # of the objective, by each pair


@dataclass(frozen=True)
class Rule:
    """How scores decide: the class with the largest one, the first of equal ones; or for a regression, 1 if the number
    is within [low, high] of its row, else 0. `own` (n,) is what is decided for the rows themselves."""

    own: Ints
    low: Floats | None = None
    high: Floats | None = None

    def select(self, here: Ints) -> Rule:
        ends = (None if end is None else end[here] for end in (self.low, self.high))
        return Rule(self.own[here], *ends)

    def decide(self, scores: Floats) -> Ints:
        """The decisions (n, ...) by scores (n, ..., classes)."""
        if self.low is None:
            return np.asarray(scores.argmax(axis=-1))
        return np.asarray(self._inside(scores) >= 0, dtype=np.int64)

    def margin(self, scores: Floats) -> Floats:
        """By how much the decision changes (n, ...); negative where it stays."""
        if self.low is not None:
            inside = self._inside(scores)
            return np.where(_across(self.own, inside) == 1, -inside, inside)
        classes = scores.shape[-1]
        if classes == 2:
            lead = scores[..., 1] - scores[..., 0]
            return np.where(_across(self.own, lead) == 1, -lead, lead)
        own = np.take_along_axis(scores, self.own.reshape(-1, *[1] * (scores.ndim - 1)), axis=-1)[..., 0]
        others = np.full(own.shape, -np.inf)
        for c in range(classes):  # several times faster than a maximum over a short last axis
            np.maximum(others, np.where(_across(self.own, own) == c, -np.inf, scores[..., c]), out=others)
        return np.asarray(others - own)

    def _inside(self, scores: Floats) -> Floats:
        assert self.low is not None
        assert self.high is not None
        number = scores[..., 0]
        return np.minimum(number - _across(self.low, number), _across(self.high, number) - number)


def _across(values: Floats | Ints, like: Floats) -> Floats:
    """Values (n,) with as many axes as another array."""
    return np.asarray(values.reshape(len(values), *[1] * (like.ndim - 1)))


def counted(changed: Ints, factor: Floats, growth: Floats) -> Floats:
    """What changes count, of their sum, if so many features change: all of it for one feature, else factor times
    (number / 2) ** growth."""
    several = np.maximum(changed, 2) / 2
    return np.asarray(np.where(changed > 1, factor * several**growth, 1.0))


@dataclass(frozen=True)
class Terms:
    """What is added up for edits (n, m): the sums of what their changes do alone (n, m, classes), what Q pairs do
    beyond that (n, Q, m, classes), how many features change, and the model's scores (n, m, classes)."""

    edits: Edits
    alone: Floats
    pairs: Floats
    changed: Ints
    truth: Floats

    def forecast(self, start: Floats, factor: Floats, extra: Floats) -> Floats:
        """Sums (n, A, m, classes) for factors (n, A or 1, 2) and sums of pairs (n, A or 1, m, classes)."""
        count = counted(self.changed[:, None], factor[:, :, :1], factor[:, :, 1:])
        return np.asarray(start[:, None, None] + (self.alone[:, None] + extra) * count[..., None])

    def chosen(self, pairs: Ints) -> Floats:
        """The sum (n, m, classes) of some pairs (n, K), of which -1 is none."""
        out = np.zeros_like(self.alone)
        for pair in pairs.T:
            part = np.take_along_axis(self.pairs, np.maximum(pair, 0)[:, None, None, None], axis=1)[:, 0]
            out += np.where((pair >= 0)[:, None, None], part, 0.0)
        return out


@dataclass(frozen=True)
class Fit:
    """The factor and its growth (n, 2), and the pairs (n, K), -1 for none, of each row; the factor without pairs; the
    objective on the edits by which the number of pairs was chosen."""

    factor: Floats
    pairs: Ints
    factor_alone: Floats
    objective: Floats


def right(rule: Rule, terms: Terms, sums: Floats) -> tuple[Floats, Floats]:
    """The weighted share of edits (n, A) for which sums (n, A, m, classes) forecast whether the decision changes, and
    for which they forecast the decision itself."""
    found, true = rule.decide(sums), terms.edits.decided[:, None]
    own = rule.own[:, None, None]
    return terms.edits.mean((found != own) == (true != own)), terms.edits.mean(found == true)


def objective(rule: Rule, terms: Terms, sums: Floats) -> Floats:
    """How good the forecasts (n, A, m, classes) are (n, A): the share of right ones, less the error of their margins in
    units of the usual margin, beyond which errors do not count."""
    true = rule.margin(terms.truth)
    unit = _across(np.maximum(terms.edits.mean(np.abs(true)), 1e-300), sums[..., 0])
    with np.errstate(over="ignore"):
        error = np.abs(np.tanh(rule.margin(sums) / unit) - np.tanh(true[:, None] / unit))
    change, exactly = right(rule, terms, sums)
    return np.asarray((change + exactly) / 2 - terms.edits.mean(error) / 4)


def fit(rule: Rule, start: Floats, choose: Terms, check: Terms, max_pairs: int) -> Fit:
    """Choose the factor and at most `max_pairs` pairs of each row. `choose` decides which pairs, `check` how many."""
    n = len(start)
    every = np.broadcast_to(FACTORS, (n, *FACTORS.shape))
    nothing = np.zeros_like(choose.alone)[:, None]
    factor = _best_factor(rule, choose, start, every, nothing)
    pairs = np.full((n, min(max_pairs, choose.pairs.shape[1])), -1, dtype=np.int64)
    factors = [factor]
    free = np.ones(choose.pairs.shape[:2], dtype=bool)
    extra = nothing
    for k in range(pairs.shape[1]):
        value = objective(rule, choose, choose.forecast(start, factor[:, None], extra + choose.pairs))
        pairs[:, k] = np.where(free, value, -np.inf).argmax(axis=1)
        np.put_along_axis(free, pairs[:, k : k + 1], False, axis=1)
        extra = choose.chosen(pairs[:, : k + 1])[:, None]
        factor = _best_factor(rule, choose, start, every, extra)
        factors.append(factor)
    values = []
    for k, factor in enumerate(factors):
        sums = check.forecast(start, factor[:, None], check.chosen(pairs[:, :k])[:, None])
        values.append(objective(rule, check, sums)[:, 0])
    return _cut(np.stack(values, axis=1), np.stack(factors, axis=1), pairs)


def _cut(values: Floats, factors: Floats, pairs: Ints) -> Fit:
    """The fit with the best number of pairs, by the objective (n, K + 1) of each number."""
    numbers = np.arange(values.shape[1])
    best = (values - LEAST_GAIN * numbers).argmax(axis=1)[:, None]
    kept = np.where(np.arange(pairs.shape[1]) < best, pairs, -1)
    factor = np.take_along_axis(factors, best[:, :, None], axis=1)[:, 0]
    return Fit(factor, kept, factors[:, 0], np.take_along_axis(values, best, axis=1)[:, 0])


def _best_factor(rule: Rule, terms: Terms, start: Floats, factors: Floats, extra: Floats) -> Floats:
    value = objective(rule, terms, terms.forecast(start, factors, extra))
    first = (value >= value.max(axis=1, keepdims=True) - TOLERANCE).argmax(axis=1)
    return np.asarray(np.take_along_axis(factors, first[:, None, None], axis=1)[:, 0])
