"""Level one of the search in compiled code: the nearest single change, and the states the beam search begins with."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import SAMPLES, add_ends, add_samples, best_moves, margins_of_moves
from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table, cost_of, margin_of_line, nearest_value
from grace.methods.compiled.polish import BEAM, Work
from grace.models.compiled import BLOCK, Floats, Layers, activate, inlined, largest_first, sort_by

FOLLOWED_FIRST = 12  # features that are followed along their lines where no single change answers
TRIED = 64  # features beyond level one, by how much each brings alone


@inlined
def single_change(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, enough: float, tolerance: float,
    answer: Floats, work: Work,
) -> float:  # fmt: skip
    """Level one: the nearest single change as the answer, and its cost, infinite if there is none. Features that bring
    most margin for their cost come first; once an answer is known, lines are followed no further than it costs. Bounds
    that only later levels need are left out once a single move brings `enough`."""
    x, d, hidden = table.rows[i], table.rows.shape[1], len(net.leak)
    for j in range(d):
        answer[j] = x[j]
    activate(net, x, work.origin)
    for u in range(len(work.origin)):
        work.layers[0, u] = work.origin[u]
    here = margin_at(goal, i, work.layers[0], net.units[hidden], net.widths[hidden])
    try_single_moves(net, goal, columns, table, i, enough, work)
    for j in range(d):
        work.order[j], work.gain[j] = j, -np.inf
        if work.margin[0, j] > -np.inf:
            cost = cost_of(columns, j, x[j], work.value[0, j])
            work.gain[j] = (work.margin[0, j] - here) / max(cost, 1e-12)
    sort_by(work.gain, -1.0, work.order, d)
    least, feature, value = np.inf, -1, 0.0
    for place in range(d):
        j = work.order[place]
        if table.free[i, j] and max(work.rising[j], work.falling[j]) >= tolerance:
            found, cost, best, where = nearest_value(
                net, goal, columns, table, i, j, work.layers[0], least, tolerance, tolerance, work.rising[j],
                work.falling[j], work.lines,
            )  # fmt: skip
            if best > work.margin[0, j]:
                work.margin[0, j], work.value[0, j] = best, where
            if not np.isnan(found) and (cost < least or (cost == least and j < feature)):
                least, feature, value = cost, j, found
    if feature >= 0:
        answer[feature] = value
    return least


@inlined
def try_single_moves(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, enough: float, work: Work
) -> None:
    """The best margin that each feature brings to row i at the ends of its range or among its categories, and bounds on
    all margins above and below its value: infinite ones, which take no time, once a margin is enough."""
    x, count, best = table.rows[i], 0, -np.inf
    for j in range(len(x)):
        work.margin[0, j] = work.rising[j] = work.falling[j] = -np.inf
        if table.free[i, j]:
            count = add_ends(columns, table, i, j, count, work)
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        margins_of_moves(net, goal, table, i, work.layers[0], begin, size, work)
        for c in range(size):
            j, new, margin = work.moved[begin + c], work.moved_to[begin + c], work.moved_margin[c]
            best = max(best, margin)
            if margin > work.margin[0, j]:
                work.margin[0, j], work.value[0, j] = margin, new
        for c in range(size):
            j, new = work.moved[begin + c], work.moved_to[begin + c]
            bound = work.moved_margin[c]
            if columns.begins[j + 1] == columns.begins[j]:
                bound = np.inf
                if best < enough:
                    for u in range(net.units[-1]):
                        work.lines.values[u] = work.block[u, c]
                    bound = margin_of_line(net, goal, i, work.layers[0], work.lines)
                if new < x[j]:
                    work.falling[j] = max(work.falling[j], bound)
                    continue
            work.rising[j] = max(work.rising[j], bound)


@inlined
def follow_first(net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, work: Work) -> None:
    """Where no single change answers a row, try the numbers whose bounds say that they may bring most at values between
    the ends of their ranges, too."""
    d = table.rows.shape[1]
    for j in range(d):
        work.gain[j] = max(work.rising[j], work.falling[j])
        if not table.free[i, j] or work.gain[j] <= work.margin[0, j] or columns.begins[j + 1] > columns.begins[j]:
            work.gain[j] = -np.inf
    some = largest_first(work.gain, work.order, d, FOLLOWED_FIRST)
    for closer in range(2):
        count = 0
        for place in range(some):
            j = work.order[place]
            inside = closer == 0 or table.low[i, j] < work.value[0, j] < table.high[i, j]
            if work.gain[j] > -np.inf and inside:
                count = add_samples(columns, table, i, j, SAMPLES, closer, work.value[0, j], count, work)
        best_moves(net, goal, table, i, 0, count, work)


@inlined
def first_beam(table: Table, i: int, work: Work) -> int:
    """The states with one change whose margins are best; returns how many."""
    d = table.rows.shape[1]
    some, width = largest_first(work.margin[0], work.order, d, min(max(BEAM, TRIED if d > TRIED else 0), d)), 0
    while width < min(BEAM, some) and work.margin[0, work.order[width]] > -np.inf:
        j = work.order[width]
        for c in range(d):
            work.states[0, width, c] = table.rows[i, c]
        work.states[0, width, j] = work.value[0, j]
        work.sets[0, width, 0] = j
        width += 1
    for j in range(d):
        work.tried[j], work.end[j] = d <= TRIED, work.value[0, j]
    for place in range(some):
        work.tried[work.order[place]] = True
    return width
