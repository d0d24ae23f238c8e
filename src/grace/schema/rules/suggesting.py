"""Suggests rules: those that no row of a table breaks, though many would by chance.

The score of a rule is the expected number of rows that break it after one of its features has been permuted, the
minimum over its features. A rule that holds because ranges do not overlap scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError
from grace.schema.features import MISSING, Bools, Categorical, Feature, Floats, Numeric, Value
from grace.schema.frames import as_frame
from grace.schema.rules import AtMost, Condition, Equal, Follows, IfThen, Rule, Sum
from grace.schema.rules.keeping import encode_rules, with_learnt_values
from grace.schema.schema import Schema

MIN_ROWS = 50
MIN_BROKEN = 20.0  # expected violations by chance; none occurs with probability e**-20
SHUFFLES = 5
MAX_ROWS = 20_000
MAX_TRIED = 200  # rules of a kind
MAX_TERMS = 3  # of a sum
MAX_TRIPLES = 60  # features up to which sums of three are searched
MAX_DENOMINATOR = 12  # of a factor
EXACT = 1e-6  # the residual share of variance up to which an equation holds


@dataclass(frozen=True)
class Suggestion:
    """A rule that holds in all `rows` rows, and the number that would break it by chance."""

    rule: Rule
    rows: int
    by_chance: float

    def __str__(self) -> str:
        return f"{self.rule}  (holds in all {self.rows} rows; by chance {self.by_chance:.0f} would break it)"


def suggest(schema: Schema, frame: Any, *, most: int = 20) -> list[Suggestion]:
    """Inequalities, sums, implications and dependences on a category that no row breaks, by descending score. Whether a
    suggestion is a law or a coincidence needs domain knowledge."""
    table = as_frame(frame)
    rows = schema.encode(table[[c for c in table.columns if c in schema.columns]], missing=True)
    rows = rows[~np.isnan(rows).any(axis=1)]
    if len(rows) < MIN_ROWS:
        raise GraceError(f"rules are suggested from {MIN_ROWS} complete rows at least; there are {len(rows)}")
    rng = np.random.default_rng(0)
    if len(rows) > MAX_ROWS:
        rows = rows[np.sort(rng.choice(len(rows), MAX_ROWS, replace=False))]
    decided = follows(schema, rows)
    covered = {frozenset(r.features) for r in decided}
    candidates: list[Rule] = [*decided, *sums(schema, rows), *ordered_pairs(schema, rows)]
    candidates += [r for r in implications(schema, rows) if frozenset(r.features) not in covered]
    known = {str(r) for r in schema.rules}
    out = [Suggestion(r, len(rows), by_chance(schema, r, rows)) for r in candidates if str(r) not in known]
    return sorted((s for s in out if s.by_chance >= MIN_BROKEN), key=lambda s: -s.by_chance)[:most]


def by_chance(schema: Schema, rule: Rule, rows: Floats) -> float:
    """The number of rows that break the rule after a permutation of one of its features; 0 if some row breaks it."""
    (encoded,) = encode_rules(schema, [rule])
    if (encoded.violation(torch.as_tensor(rows)) > 0).any():
        return 0.0
    rng = np.random.default_rng(0)
    least = np.inf
    for j in encoded.columns:
        broken = 0.0
        for _ in range(SHUFFLES):
            permuted = rows.copy()
            permuted[:, j] = rng.permutation(permuted[:, j])
            broken += float((encoded.violation(torch.as_tensor(permuted)) > 0).sum()) / SHUFFLES
        least = min(least, broken)
    return float(least)


def numeric_columns(schema: Schema, rows: Floats) -> list[int]:
    """The numeric columns without missing cells that are not constant."""
    vary = (rows != rows[0]).any(axis=0)
    return [j for j, f in enumerate(schema.features) if isinstance(f, Numeric) and not f.gaps and vary[j]]


# -- inequalities ---------------------------------------------------------------------------------


def ordered_pairs(schema: Schema, rows: Floats) -> list[Rule]:
    """Pairs of numbers of which one is never above the other though it would be by chance, by descending score; without
    a <= c where a <= b and b <= c (transitive reduction)."""
    columns = numeric_columns(schema, rows)
    values, rng = rows[:, columns], np.random.default_rng(0)
    above = np.zeros((len(columns), len(columns)))
    for j in range(len(columns)):
        never = (values[:, [j]] <= values).all(axis=0) & (values[:, [j]] < values).any(axis=0)
        above[j, never] = (rng.permutation(values[:, j])[:, None] > values[:, never]).sum(axis=0)
    known = above >= MIN_BROKEN / 2
    above[(known.astype(np.int64) @ known.astype(np.int64) > 0) | ~known] = 0
    order = np.argsort(-above, axis=None, kind="stable")[: min(MAX_TRIED, int((above > 0).sum()))]
    pairs = [[schema.names[columns[i]] for i in np.unravel_index(index, above.shape)] for index in order]
    return [AtMost(Sum(((a, 1.0),)), Sum(((b, 1.0),))) for a, b in pairs]


# -- sums -----------------------------------------------------------------------------------------


def sums(schema: Schema, rows: Floats) -> list[Rule]:
    """Numbers that are linear combinations of up to MAX_TERMS others with simple factors; linearly independent
    equations only."""
    columns = numeric_columns(schema, rows)
    if len(columns) < 2:
        return []
    centred = rows[:, columns] - rows[:, columns].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=0)
    correlation = unit.T @ unit
    out: list[Rule] = []
    span = np.zeros((0, len(columns)))
    for count in range(1, MAX_TERMS + 1):
        if count >= len(columns) or (count == MAX_TERMS and len(columns) > MAX_TRIPLES):
            break
        sets = np.array(list(combinations(range(len(columns)), count)))
        for target, parts in exact_fits(correlation, sets):
            rule = simple_sum(schema, rows, columns[target], [columns[p] for p in parts])
            if rule is None:
                continue
            line = np.zeros(len(columns))
            for name, factor in ((rule.feature, -1.0), *rule.right.terms):
                line[columns.index(schema.index(name))] = factor * float(np.std(rows[:, schema.index(name)]))
            wider = np.concatenate([span, line[None] / np.linalg.norm(line)])
            if np.linalg.matrix_rank(wider, tol=1e-3) == len(wider):
                span = wider
                out.append(rule)
    return out


def exact_fits(correlation: Floats, sets: np.ndarray[Any, np.dtype[np.int64]]) -> list[tuple[int, tuple[int, ...]]]:
    """Pairs of a column and a set of others that determine it linearly, from the `correlation` matrix; combinations
    with positive weights first."""
    size = sets.shape[1]
    inner = correlation[sets[:, :, None], sets[:, None, :]]
    independent = np.linalg.det(inner) > EXACT  # skip linearly dependent sets
    sets, inner = sets[independent], inner[independent]
    if len(sets) == 0:
        return []
    outer = correlation[sets]  # (sets, size, columns)
    weights = np.linalg.solve(inner, outer)
    residual = 1 - (weights * outer).sum(axis=1)
    for k in range(size):
        residual[np.arange(len(sets)), sets[:, k]] = np.inf
    hits = np.argwhere((residual < EXACT) & (np.abs(weights).min(axis=1) > np.sqrt(EXACT)))
    # totals before their terms: all factors are positive
    positive = [bool((weights[i, :, t] > 0).all()) for i, t in hits]
    order = sorted(range(len(hits)), key=lambda h: (not positive[h], tuple(hits[h])))
    return [(int(hits[h][1]), tuple(sets[hits[h][0]].tolist())) for h in order]


def simple_sum(schema: Schema, rows: Floats, target: int, parts: list[int]) -> Equal | None:
    """The equation with factors of small denominators and a short constant, if it holds."""
    points = np.column_stack([rows[:, parts], np.ones(len(rows))])
    weights, *_ = np.linalg.lstsq(points, rows[:, target], rcond=None)
    factors = [float(Fraction(float(w)).limit_denominator(MAX_DENOMINATOR)) for w in weights[:-1]]
    if not all(factors):
        return None
    feature = schema.features[target]
    assert isinstance(feature, Numeric)
    rest = float(np.median(rows[:, target] - rows[:, parts] @ np.array(factors)))
    constant = round(rest, max(0, feature.digits))
    terms = tuple((schema.names[p], w) for p, w in zip(parts, factors, strict=True))
    rule = Equal(feature.name, Sum(terms, constant))
    (encoded,) = encode_rules(schema, [rule])
    return None if (encoded.violation(torch.as_tensor(rows)) > 0).any() else rule


# -- dependences on a category --------------------------------------------------------------------


def follows(schema: Schema, rows: Floats) -> list[Rule]:
    """Features that have a single value for each category of another one; of two categories that determine each other,
    the second follows the first."""
    out: list[Rule] = []
    for of, category in enumerate(schema.features):
        if not isinstance(category, Categorical) or len(category.categories) > len(rows) / 5:
            continue
        for j, feature in enumerate(schema.features):
            if j == of or len(np.unique(rows[:, j])) < 2 or _decided(out, schema.names[j], category.name):
                continue
            pairs = np.unique(rows[:, [of, j]], axis=0)
            if len(pairs) == len(np.unique(pairs[:, 0])):
                rule = Follows(feature.name, category.name)
                (learnt,) = with_learnt_values(replace(schema, rules=(rule,)), rows).rules
                out.append(learnt)
    return out


def _decided(rules: list[Rule], feature: str, of: str) -> bool:
    return any(isinstance(r, Follows) and (r.feature, r.of) == (of, feature) for r in rules)


# -- implications ---------------------------------------------------------------------------------


def implications(schema: Schema, rows: Floats) -> list[Rule]:
    """For each category, and for numbers that are 0 or not, the values of other features that never co-occur with it
    though MIN_BROKEN co-occurrences are expected."""
    values, marks = symbols(schema, rows)
    if len(values) == 0:
        return []
    points = marks.astype(np.float64)
    cooccurrence = points.T @ points
    count = np.diag(cooccurrence)
    never = (cooccurrence == 0) & (np.outer(count, count) / len(rows) >= MIN_BROKEN)
    owner = np.array([j for j, _ in values])
    expected = np.where(never & (owner[:, None] != owner), np.outer(count, count) / len(rows), 0.0)
    weight = np.stack([expected[:, owner == k].sum(axis=1) for k in np.unique(owner)], axis=1)
    order = np.argsort(-weight, axis=None, kind="stable")[: min(MAX_TRIED, int((weight > 0).sum()))]
    out: list[Rule] = []
    covered = np.zeros_like(never)
    for i, group in zip(*np.unravel_index(order, weight.shape), strict=True):
        k = np.unique(owner)[group]
        here = (expected[i] > 0) & (owner == k)
        if (covered[i] | covered[:, i])[here].all():  # the contrapositive has been added
            continue
        covered[i] |= here
        present, absent = ([values[m][1] for m in np.flatnonzero(m_)] for m_ in (~here & (owner == k), here))
        if present:
            j, value = values[i]
            then = _condition(schema.features[k], present, absent)
            out.append(IfThen((_is(schema.features[j], value),), (then,)))
    return out


def symbols(schema: Schema, rows: Floats) -> tuple[list[tuple[int, Value]], Bools]:
    """Pairs of a feature and a value, and which rows have it (n, pairs): categories; of numbers 0, and True for
    non-zero."""
    values: list[tuple[int, Value]] = []
    marks: list[Bools] = []
    for j, feature in enumerate(schema.features):
        if isinstance(feature, Categorical):
            for code, category in enumerate(feature.categories):
                if not (feature.gaps and category == MISSING):
                    values.append((j, category))
                    marks.append(rows[:, j] == code)
        elif (rows[:, j] == 0).any() and (rows[:, j] != 0).any():
            values += [(j, 0), (j, True)]
            marks += [rows[:, j] == 0, rows[:, j] != 0]
    return values, np.stack(marks, axis=1) if marks else np.zeros((len(rows), 0), dtype=bool)


def _is(feature: Feature, value: Value) -> Condition:
    if isinstance(feature, Numeric):
        return Condition(feature.name, "!=" if value is True else "==", (0,))
    return Condition(feature.name, "==", (value,))


def _condition(feature: Feature, present: list[Value], absent: list[Value]) -> Condition:
    """That a feature is one of the present values and none of the absent ones, in the shortest form."""
    if isinstance(feature, Numeric):
        return _is(feature, present[0])
    if len(present) == 1:
        return Condition(feature.name, "==", (present[0],))
    if len(absent) == 1:
        return Condition(feature.name, "!=", (absent[0],))
    return Condition(feature.name, "in", tuple(present))
