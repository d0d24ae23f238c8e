"""The way back in compiled code: from training rows that reach the goal towards x, one feature after another.

It finds answers where no single feature brings a state of the beam nearer to all that is required; see
`methods.backtrack`, which does the same for any model.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.compiled.polish import Work, differing, distance
from grace.methods.compiled.required import activate, linear_after_move, move_feature
from grace.methods.compiled.required_goal import margin_of_values
from grace.methods.compiled.required_polish import margin_of, polish_required
from grace.models.compiled import BLOCK, Bools, Floats, Layers, compiled, forward_block


@compiled
def way_back_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, ends: Floats, usable: Bools,
    most: int, nearest: bool, tolerance: float, found: Floats, work: Work,
) -> None:  # fmt: skip
    """Replace the answers to some rows, or rows without one, by better ones on the way back from the usable rows among
    `ends` (n, starts, d), which are overwritten: fewer changes, or as many that are nearer, or with `nearest` just
    nearer. The best way back is polished."""
    for i in range(begin, end):
        x = table.rows[i]
        activate(net, x, work.origin)
        fewest, least = differing(x, found[i], work.features), distance(columns, x, found[i])
        if fewest == 0:
            fewest, least = most + 1, np.inf
        first, size, length = -1, most + 1, np.inf  # the best start so far, and what is left of it
        for start in range(ends.shape[1]):
            if not usable[i, start]:
                continue
            if not take_back(net, goal, columns, table, i, ends[i, start], tolerance, work):
                continue
            count, far = differing(x, ends[i, start], work.features), distance(columns, x, ends[i, start])
            if count <= most and not clashes(table, count, work):
                better = far < length * (1.0 - 1e-9)
                if (better and (nearest or count == size)) or (count < size and not nearest):
                    first, size, length = start, count, far
        if first < 0 or (size > fewest and not nearest):
            continue
        for j in range(len(x)):
            work.found[j] = ends[i, first, j]
        length = polish_required(net, goal, columns, table, i, work.found, tolerance, work)
        size = differing(x, work.found, work.features)
        better = length < least * (1.0 - 1e-9)
        if (better and (nearest or size == fewest)) or (size < fewest and not nearest):
            for j in range(len(x)):
                found[i, j] = work.found[j]


@compiled
def clashes(table: Table, count: int, work: Work) -> bool:
    """Whether two of the changed features are redundant."""
    for one in range(count):
        for two in range(one):
            if table.conflict[work.features[one], work.features[two]]:
                return True
    return False


@compiled
def take_back(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> bool:
    """Restore one cell of x after another as long as the goal holds: the one that leaves most margin, and of equals the
    one that costs most. Returns whether the row reaches the goal."""
    x = table.rows[i]
    if margin_of(net, goal, table, i, row, work) < tolerance:
        return False
    while True:
        count, best, feature = differing(x, row, work.features), -np.inf, -1
        if count < 2:
            return True
        margins_of_restorations(net, goal, table, i, row, count, work)
        for place in range(count):
            if work.gain[place] >= tolerance:
                j = work.features[place]
                key = min(work.gain[place], 1e3) * 1e6 + cost_of(columns, j, x[j], row[j])
                if key > best:
                    best, feature = key, j
        if feature < 0:
            return True
        move_feature(net, work.first, feature, row[feature], x[feature])
        row[feature] = x[feature]


@compiled
def margins_of_restorations(
    net: Layers, goal: CompiledGoal, table: Table, i: int, row: Floats, count: int, work: Work
) -> None:
    """The margins of a row, whose first layer is `first`, with each of the first `features` restored, into `gain`."""
    hidden, values, trial = len(net.leak), work.block, work.lines.trial
    scores, classes = net.units[hidden], net.widths[hidden]
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        for c in range(size):
            j = work.features[begin + c]
            at, old, new = net.begins[j], row[j], table.rows[i, j]
            if at >= 0:
                before, after = net.tables[at + np.int64(old)], net.tables[at + np.int64(new)]
                for u in range(len(before)):
                    values[u, c] = work.first[u] + (after[u] - before[u])
            else:
                weights, step = net.first[j], new - old
                for u in range(len(weights)):
                    values[u, c] = work.first[u] + step * weights[u]
        forward_block(net, values, work.active, size)
        for c in range(size):
            j = work.features[begin + c]
            for k in range(classes):
                trial[k] = values[scores + k, c]
            linear_after_move(net, work.first, j, row[j], table.rows[i, j], trial, classes)
            work.gain[begin + c] = margin_of_values(goal, i, trial, 0, classes)
