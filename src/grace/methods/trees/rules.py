"""Linear rules between numbers within the search of trees, in compiled code: a sum of multiples is not negative.

A rule applies to a row in which one of its features has changed. Ranges of a node are narrowed to what rules leave of
them, and if the nearest values of a node break a rule, the cheapest values within that satisfy it take their place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, said_within
from grace.methods.requirements import active_rules, slack_of
from grace.methods.trees.regions import MOVED, OPEN, Region
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined
from grace.problem.problem import Problem
from grace.problem.requirements.consequences import Consequences
from grace.schema.rules import AtMost

ROUNDS = 16  # of narrowing ranges, and of mending values
ALLOWED = 2.5e-10  # by how much a sum may be negative: half of what the constants leave to rounding


class LinearRules(NamedTuple):
    """Rules about n rows, in units in which an allowance of 1e-9 is left to rounding."""

    begins: Ints  # (R + 1,) where the terms of each rule begin:
    feature: Ints  # (E,) numbers,
    factor: Floats  # (E,) and by what they are multiplied
    constant: Floats  # (R,)
    active: Bools  # (n, R) whether a rule is about a row


def no_rules(n: int) -> LinearRules:
    none = np.zeros(0)
    return LinearRules(np.zeros(1, dtype=np.int64), none.astype(np.int64), none, none, np.zeros((n, 0), dtype=bool))


def linear_rules(problem: Problem, consequences: Consequences) -> LinearRules:
    """The linear rules among those of a call."""
    rules = [rule for rule in consequences.rules if isinstance(rule.rule, AtMost)]
    begins, feature = [0], list[int]()
    factor, constant = list[float](), list[float]()
    for rule in rules:
        terms, slack = slack_of(consequences.schema, rule)
        feature += [j for j, _ in terms]
        factor += [weight for _, weight in terms]
        begins.append(len(feature))
        constant.append(slack)
    return LinearRules(
        begins=np.array(begins, dtype=np.int64),
        feature=np.array(feature, dtype=np.int64),
        factor=np.array(factor, dtype=np.float64),
        constant=np.array(constant, dtype=np.float64),
        active=np.ascontiguousarray(active_rules(problem, rules).numpy()),
    )


@inlined
def is_ruled(table: Table) -> bool:
    return len(table.rules.begins) > 1


@compiled
def factor_in(rules: LinearRules, r: int, f: int) -> float:
    """The factor of a feature in a rule, 0 if it is none of the rule's."""
    for e in range(rules.begins[r], rules.begins[r + 1]):
        if rules.feature[e] == f:
            return rules.factor[e]
    return 0.0


@compiled
def in_rules(rules: LinearRules, f: int) -> bool:
    """Whether a rule is about a feature."""
    uses = 0
    for e in range(len(rules.feature)):
        uses += rules.feature[e] == f
    return uses > 0


@compiled
def limits_by_rules(table: Table, i: int, row: Floats, f: int, low: float, high: float) -> tuple[float, float]:
    """What is left of the limits of number f by the rules that it is in, with the other values of a row."""
    rules = table.rules
    for r in range(len(rules.constant)):
        factor = factor_in(rules, r, f)
        if factor == 0.0 or not rules.active[i, r]:
            continue
        rest = rules.constant[r]
        for e in range(rules.begins[r], rules.begins[r + 1]):
            if rules.feature[e] != f:
                rest += rules.factor[e] * row[rules.feature[e]]
        if factor > 0.0:
            low = max(low, -rest / factor)
        else:
            high = min(high, -rest / factor)
    return low, high


@compiled
def lacking(table: Table, i: int, r: int, row: Floats) -> float:
    """By how much a row, some of whose values have changed, breaks rule r; 0 if it does not, or need not keep it."""
    rules, total, applies = table.rules, table.rules.constant[r], False
    for e in range(rules.begins[r], rules.begins[r + 1]):
        f = rules.feature[e]
        total += rules.factor[e] * row[f]
        applies = applies or row[f] != table.rows[i, f]
    return -total if applies and rules.active[i, r] and total < -ALLOWED else 0.0


@compiled
def keeps_rules(table: Table, i: int, row: Floats) -> bool:
    """Whether a row, some of whose values have changed, satisfies the rules that apply to it."""
    most = 0.0
    for r in range(len(table.rules.constant)):
        most = max(most, lacking(table, i, r, row))
    return most == 0.0


@inlined
def highest_term(table: Table, i: int, f: int, factor: float, region: Region) -> float:
    """The largest value of a term within the ranges of a node."""
    x, status = table.rows[i, f], region.status[f]
    if status == MOVED:
        return max(factor * region.low[f], factor * region.high[f])
    if status == OPEN:
        return max(factor * x, max(factor * table.low[i, f], factor * table.high[i, f]))
    return factor * x


@compiled
def narrow(columns: Columns, table: Table, i: int, moved: Ints, count: int, region: Region) -> bool:
    """Narrow the ranges of moved numbers to those with which rules can be satisfied, whatever the other features do
    within theirs. False if a rule cannot be."""
    rules = table.rules
    for _ in range(ROUNDS):
        narrower = False
        for r in range(len(rules.constant)):
            applies, most = False, rules.constant[r]
            for e in range(rules.begins[r], rules.begins[r + 1]):
                f = rules.feature[e]
                applies = applies or region.status[f] == MOVED
                most += highest_term(table, i, f, rules.factor[e], region)
            if not applies or not rules.active[i, r]:
                continue
            if most < -ALLOWED:
                return False
            if not most < np.inf:
                continue
            for p in range(count):
                f = moved[p]
                factor = factor_in(rules, r, f)
                if factor == 0.0:
                    continue
                rest = most - highest_term(table, i, f, factor, region)
                end = -rest / factor
                if factor > 0.0 and end > region.low[f]:
                    region.low[f] = np.ceil(end) if columns.whole[f] else end
                    narrower = True
                elif factor < 0.0 and end < region.high[f]:
                    region.high[f] = np.floor(end) if columns.whole[f] else end
                    narrower = True
                if not region.low[f] <= region.high[f]:
                    return False
        if not narrower:
            break
    return True


@compiled
def mend(
    columns: Columns, table: Table, i: int, moved: Ints, low: Floats, high: Floats, count: int, row: Floats
) -> bool:
    """Move values of a row within their ranges until it satisfies the rules: of the numbers that a broken rule has, the
    one that gains most for its cost goes first. Whether that was possible."""
    rules, mended = table.rules, False
    for _ in range(ROUNDS):
        broken = -1
        for r in range(len(rules.constant)):
            if lacking(table, i, r, row) > 0.0:
                broken = r
                break
        if broken < 0:
            break
        mended = True
        while lacking(table, i, broken, row) > 0.0:
            lacks, best, at = lacking(table, i, broken, row), 0.0, -1
            for p in range(count):
                f = moved[p]
                factor = factor_in(rules, broken, f)
                room = high[p] - row[f] if factor > 0.0 else row[f] - low[p]
                if factor == 0.0 or not room > 0.0:
                    continue
                gain = abs(factor) * columns.spread[f] / max(columns.weight[f], 1e-300)
                if gain > best:
                    best, at = gain, p
            if at < 0:
                return False
            f = moved[at]
            factor = factor_in(rules, broken, f)
            step = lacks / abs(factor)
            if factor > 0.0:
                value = row[f] + step
                value = min(high[at], np.ceil(value - ALLOWED) if columns.whole[f] else value)
                row[f] = value if value > row[f] else high[at]
            else:
                value = row[f] - step
                value = max(low[at], np.floor(value + ALLOWED) if columns.whole[f] else value)
                row[f] = value if value < row[f] else low[at]
    if not keeps_rules(table, i, row):
        return False
    if mended:
        for p in range(count):
            say(columns, table, i, moved[p], low[p], high[p], row)
    return True


@inlined
def say(columns: Columns, table: Table, i: int, f: int, low: float, high: float, row: Floats) -> None:
    """Give a number a value of few digits within its range and what rules leave of it, next to the one that it has."""
    x, old = table.rows[i, f], row[f]
    if columns.begins[f + 1] > columns.begins[f]:
        return
    low, high = limits_by_rules(table, i, row, f, low, high)
    value = (
        said_within(columns, f, x, max(old, low), high) if old > x else said_within(columns, f, x, min(old, high), low)
    )
    if value >= low and value <= high:
        row[f] = value
        if not keeps_rules(table, i, row):
            row[f] = old
