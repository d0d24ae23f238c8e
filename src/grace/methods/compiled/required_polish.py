"""Answers that satisfy more than the goal made near, in compiled code.

Several requirements that bind at once make corners: a value that is pulled back as far as possible may keep another one
from being pulled back farther. So each candidate is polished from two starts, and at the end pairs of changed numbers
are exchanged: one moves some steps, and the other as near to x as that allows.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled import polish as plain
from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import TENS, Columns, Table, decimal_step
from grace.methods.compiled.polish import Work, differing, distance
from grace.methods.compiled.required import copy_row, move_feature, variant
from grace.methods.compiled.required_goal import margin_of_values
from grace.methods.compiled.required_lines import margin_with, nearest_value
from grace.models.compiled import Floats, Layers, compiled, forward, inlined

FINALISTS = 24  # sets of features that are polished, those that cost least
FACTOR = 4.0  # between the steps of an exchange
ROUNDS = 8  # of exchanges


@compiled
def margin_of(net: Layers, goal: CompiledGoal, table: Table, i: int, row: Floats, work: Work) -> float:
    """The margin of a row that differs from row i, whose first layer is `origin`, in few features; its pre-activations
    are left in `first`."""
    x, values = table.rows[i], work.first
    copy_row(net, work.origin, values)
    for j in range(len(x)):
        if row[j] != x[j]:
            move_feature(net, values, j, x[j], row[j])
    forward(net, values)
    return margin_of_values(goal, i, values, net.units[len(net.leak)], net.widths[len(net.leak)])


may_move = inlined(variant(plain.may_move, margin_with=margin_with))
pull_value = inlined(variant(plain.pull_value, move_feature=move_feature, nearest_value=nearest_value))
pull_back = inlined(
    variant(plain.pull_back, margin_of=margin_of, margin_with=margin_with, may_move=may_move, pull_value=pull_value)
)
pull_back_both_ways = compiled(variant(plain.pull_back_both_ways, pull_back=pull_back))
smallest_subset = compiled(variant(plain.smallest_subset, margin_of=margin_of))
tighten = compiled(variant(plain.tighten, smallest_subset=smallest_subset, pull_back_both_ways=pull_back_both_ways))
polish_row = inlined(variant(plain.polish_row, pull_back_both_ways=pull_back_both_ways, tighten=tighten))


@compiled
def finish_required(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int, least: float,
    tolerance: float, answer: Floats, work: Work,
) -> float:  # fmt: skip
    """Polish the sets of features that reach the goal and cost least with the last feature at the nearest value that
    does: from there, and from the value with the best margin. The nearest answer, if it is nearer than `least`; returns
    its distance."""
    x, d, line, before = table.rows[i], table.rows.shape[1], work.lines.required, least
    for _ in range(FINALISTS):
        top, at_b, at_j = np.inf, -1, -1
        for b in range(width):
            base = distance(columns, x, work.states[now, b])
            for j in range(d):
                if base + line.price[b, j] < top:
                    top, at_b, at_j = base + line.price[b, j], b, j
        if at_b < 0:
            break
        line.price[at_b, at_j] = np.inf  # not again
        near, best = line.near[at_b, at_j], work.value[at_b, at_j]
        for start in range(1 if near == best else 2):
            for j in range(d):
                work.best[j] = work.states[now, at_b, j]
            work.best[at_j] = near if start == 0 else best
            if margin_of(net, goal, table, i, work.best, work) < tolerance:
                continue
            far = pull_back_both_ways(net, goal, columns, table, i, work.best, least, tolerance, work)
            if far < least:
                least = far
                for j in range(d):
                    answer[j] = work.best[j]
    if least < before:
        least = tighten_required(net, goal, columns, table, i, answer, tolerance, work)
    return least


@compiled
def tighten_required(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> float:
    """Take back superfluous changes, pull the others back and exchange pairs of them, until nothing moves; returns the
    distance."""
    least = tighten(net, goal, columns, table, i, row, tolerance, work)
    for _ in range(ROUNDS):
        if not exchange(net, goal, columns, table, i, row, least, tolerance, work):
            break
        least = tighten(net, goal, columns, table, i, row, tolerance, work)
    return least


@compiled
def exchange(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, least: float,
    tolerance: float, work: Work,
) -> bool:  # fmt: skip
    """Move one changed number by some steps to either side, and another one as near to x as the goal then allows,
    wherever that makes the row nearer; returns whether it did."""
    x, nearer = table.rows[i], False
    count = differing(x, row, work.features)
    for one in range(count if count > 1 else 0):
        a = work.features[one]
        if columns.begins[a + 1] > columns.begins[a]:
            continue
        for two in range(2 * count):  # each other feature, with a step to either side
            c, side = work.features[two // 2], 1.0 if two % 2 == 0 else -1.0
            if c == a or columns.begins[c + 1] > columns.begins[c]:
                continue
            step = side * decimal_step(columns, a)
            while True:
                value = usual_near(columns, a, row[a] + step)
                if value < table.low[i, a] or value > table.high[i, a] or (value - x[a]) * (row[a] - x[a]) <= 0.0:
                    break
                far = with_exchanged(net, goal, columns, table, i, a, value, c, row, least, tolerance, work)
                if far < least * (1.0 - 1e-9):
                    least, nearer = far, True
                    for j in range(len(x)):
                        row[j] = work.current[j]
                else:
                    step *= FACTOR
    return nearer


@inlined
def usual_near(columns: Columns, j: int, value: float) -> float:
    """The decimal number with the usual digits next to a value."""
    digits = min(columns.digits[j], 0) if columns.whole[j] else columns.digits[j]
    up, down = TENS[max(digits, 0)], TENS[max(-digits, 0)]
    return np.rint(value * up / down) / up * down


@compiled
def with_exchanged(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, a: int, value: float, c: int, row: Floats,
    least: float, tolerance: float, work: Work,
) -> float:  # fmt: skip
    """The distance of a row with a new value of one number and the nearest of another one that reaches the goal, which
    is left in `current`; infinite if there is none nearer than `least`."""
    x = table.rows[i]
    for j in range(len(x)):
        work.current[j] = row[j]
    work.current[a], work.current[c] = value, x[c]
    base = distance(columns, x, work.current)
    if base >= least:
        return np.inf
    margin_of(net, goal, table, i, work.current, work)
    limit = least - base if columns.norm == 1.0 else least
    found, _, _, _ = nearest_value(
        net, goal, columns, table, i, c, work.first, limit, tolerance, tolerance, np.inf, np.inf, work.lines
    )
    if np.isnan(found):
        return np.inf
    work.current[c] = found
    return distance(columns, x, work.current)


@compiled
def polish_required(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> float:
    """Make a row that reaches the goal of row i, whose first layer is `origin`, irreducible and near; returns its
    distance."""
    polish_row(net, goal, columns, table, i, row, tolerance, work)
    return tighten_required(net, goal, columns, table, i, row, tolerance, work)
