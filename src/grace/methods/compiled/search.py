"""The search for a ReLU network on a CPU, in compiled code: one row is one loop, rows are shared between threads.

Level one follows every feature along its exact line, unless a bound says that the line does not reach the goal: it
finds the nearest single change, or proves that there is none (`first_level`). Later levels are a beam search over
features, each tried at the ends of its range and the most promising along their lines (`beam`). At the first level
where a row reaches its goal, several sets of features are polished: each value is pulled back as far as the goal
allows, those first that give up least margin for their cost.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import ascend, follow, follow_line, keep_top, next_beam, try_ends
from grace.methods.compiled.first_level import first_beam, follow_first, single_change
from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.compiled.polish import FINALISTS, STRONGEST, Work, distance, margin_of, pull_back_both_ways, tighten
from grace.models.compiled import Floats, Layers, activate, compiled, inlined


@compiled
def search_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, nearest: bool,
    tolerance: float, found: Floats, work: Work,
) -> None:  # fmt: skip
    """The answers to some rows, into `found`; the row itself where there is none. `nearest` prefers the nearest answer
    with at most so many changes to the fewest changes."""
    for i in range(begin, end):
        search_row(net, goal, columns, table, i, most, nearest, tolerance, found[i], work)


@compiled
def search_row(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, most: int, nearest: bool,
    tolerance: float, answer: Floats, work: Work,
) -> int:  # fmt: skip
    """The answer to a row; the row itself where there is none. Returns how many sets of features were polished at the
    last level; what they began with is left in `starts`."""
    enough = np.inf if nearest else tolerance
    least, begun = single_change(net, goal, columns, table, i, enough, tolerance, answer, work), 0
    if (least < np.inf and not nearest) or most < 2:
        return begun
    follow_first(net, goal, columns, table, i, work)
    width, now = first_beam(table, i, work), 0
    for level in range(2, min(most, table.rows.shape[1]) + 1):
        if least < np.inf and not nearest:
            break
        for place in range(len(work.top)):
            work.top[place] = -np.inf
        for b in range(width):
            if level > 2:
                ascend(net, goal, columns, table, i, b, now, level - 1, work)
            activate(net, work.states[now, b], work.layers[b])
            try_ends(net, goal, columns, table, i, b, work.sets[now, b], level - 1, work)
            for j in range(table.rows.shape[1]):
                keep_top(work.top, work.margin[b, j])
        for b in range(width):  # lines that may reach the goal or enter the next beam
            follow(net, goal, columns, table, i, b, min(tolerance, work.top[len(work.top) - 1]), tolerance, work)
        least, begun = finish(net, goal, columns, table, i, now, width, least, tolerance, answer, work)
        if level < most:
            width = next_beam(table, i, now, width, level, work)
            now = 1 - now
    return begun


@inlined
def finish(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int,
    least: float, tolerance: float, answer: Floats, work: Work,
) -> tuple[float, int]:  # fmt: skip
    """Polish the most promising sets of features that reach the goal: those that should cost least, were the last
    feature's line straight, and those with the best margins. The nearest answer, if it is nearer than `least`, its
    distance, and how many were polished."""
    x, d, hidden, begun = table.rows[i], table.rows.shape[1], len(net.leak), 0
    for turn in range(FINALISTS + STRONGEST):
        top, at_b, at_j = -np.inf, -1, -1
        for b in range(width):
            base = distance(columns, x, work.states[now, b])
            here = margin_at(goal, i, work.layers[b], net.units[hidden], net.widths[hidden])
            for j in range(d):
                margin = work.margin[b, j]
                if margin >= tolerance:
                    share = 1.0
                    if columns.begins[j + 1] == columns.begins[j]:
                        share = min(1.0, max(0.0, (tolerance - here) / (margin - here)))
                    worth = -(base + share * cost_of(columns, j, x[j], work.value[b, j]))
                    worth = margin if turn >= FINALISTS else worth
                    if worth > top:
                        top, at_b, at_j = worth, b, j
        if at_b < 0:
            break
        follow_line(net, goal, columns, table, i, at_b, at_j, -np.inf, work)
        for j in range(d):
            work.best[j] = work.states[now, at_b, j]
        work.best[at_j] = work.value[at_b, at_j]
        work.margin[at_b, at_j] = -np.inf  # not again
        if is_known(work.starts, begun, work.best) or margin_of(net, goal, table, i, work.best, work) < tolerance:
            continue
        for j in range(d):
            work.starts[begun, j] = work.best[j]
        begun += 1
        far = pull_back_both_ways(net, goal, columns, table, i, work.best, least, tolerance, work)
        if far < least:
            least = far
            for j in range(d):
                answer[j] = work.best[j]
    if least < np.inf:
        least = tighten(net, goal, columns, table, i, answer, tolerance, work)
    return least, begun


@inlined
def is_known(rows: Floats, count: int, row: Floats) -> bool:
    """Whether a row is among the first ones."""
    for other in range(count):
        same = 0
        for j in range(len(row)):
            same += rows[other, j] == row[j]
        if same == len(row):
            return True
    return False
