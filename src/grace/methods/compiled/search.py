"""The search for a ReLU network on a CPU, in compiled code: one row is one loop, rows are shared between threads.

Level one follows every feature along its exact line: it finds the nearest single change, or proves that there is none.
Later levels are a beam search over features, each tried at both ends of its range and the most promising along their
lines. At the first level where a row reaches its goal, several sets of features are polished: each value is pulled back
as far as the goal allows, those first that give up least margin for their cost.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table, cost_of, margin_of_line, margin_with, nearest_value
from grace.methods.compiled.polish import (
    BEAM,
    FINALISTS,
    STRONGEST,
    Work,
    distance,
    margin_of,
    pull_back_both_ways,
    tighten,
)
from grace.models.compiled import (
    BLOCK,
    Floats,
    Ints,
    Layers,
    activate,
    compiled,
    forward,
    forward_block,
    inlined,
    move_feature,
    sort_by,
)

FOLLOWED = 6  # features of a state that are followed along their lines beyond level one,
FOLLOWED_FIRST = 12  # and of a row that no single change answers
TRIED = 64  # features beyond level one, by how much each brings alone


@compiled
def search_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, nearest: bool,
    tolerance: float, found: Floats, work: Work,
) -> None:  # fmt: skip
    """The answers to some rows, into `found`; the row itself where there is none. `nearest` prefers the nearest answer
    with at most so many changes to the fewest changes."""
    for i in range(begin, end):
        answer = found[i]
        least = single_change(net, goal, columns, table, i, nearest, tolerance, answer, work)
        if (least < np.inf and not nearest) or most < 2:
            continue
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
                expand(net, goal, columns, table, i, b, now, level - 1, tolerance, work)
            least = finish(net, goal, columns, table, i, now, width, least, tolerance, answer, work)
            if level < most:
                width = next_beam(table, i, now, width, level, work)
                now = 1 - now


@inlined
def single_change(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, complete: bool, tolerance: float,
    answer: Floats, work: Work,
) -> float:  # fmt: skip
    """Level one: the nearest single change as the answer, and its cost, infinite if there is none. Features that bring
    most margin for their cost come first; once an answer is known, lines are followed no further than it costs."""
    x, d, hidden = table.rows[i], table.rows.shape[1], len(net.leak)
    for j in range(d):
        answer[j] = x[j]
    activate(net, x, work.origin)
    for u in range(net.units[-1]):
        work.layers[0, u] = work.origin[u]
    here = margin_at(goal, i, work.layers[0], net.units[hidden], net.widths[hidden])
    for j in range(d):
        work.margin[0, j], work.order[j], work.gain[j] = -np.inf, j, -np.inf
        if table.free[i, j]:
            try_feature(net, goal, columns, table, i, j, work)
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
def try_feature(net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, work: Work) -> None:
    """The best margin that feature j brings to row i at the ends of its range or among its categories, and bounds on
    all margins above and below its value."""
    x, start, first, last = table.rows[i, j], work.layers[0], columns.begins[j], columns.begins[j + 1]
    work.rising[j] = work.falling[j] = -np.inf
    for c in range(first, max(last, first + 2)):
        new = columns.choices[c] if last > first else (table.low[i, j] if c == first else table.high[i, j])
        if new != x and table.low[i, j] <= new <= table.high[i, j]:
            margin = margin_with(net, goal, i, start, j, x, new, work.lines)
            if margin > work.margin[0, j]:
                work.margin[0, j], work.value[0, j] = margin, new
            if last > first:
                work.rising[j] = max(work.rising[j], margin)
            elif new > x and c > first:
                work.rising[j] = margin_of_line(net, goal, i, start, work.lines)
            elif new < x and c == first:
                work.falling[j] = margin_of_line(net, goal, i, start, work.lines)


@inlined
def follow_first(net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, work: Work) -> None:
    """Follow the lines of a row that no single change answers where they may lead into the first beam, those with the
    largest bounds first."""
    d, margin = table.rows.shape[1], work.margin[0]
    for place in range(BEAM):
        work.top[place] = -np.inf
    for j in range(d):
        work.order[j], work.gain[j] = j, max(work.rising[j], work.falling[j]) if table.free[i, j] else -np.inf
        keep_top(work.top[:BEAM], margin[j])
    sort_by(work.gain, -1.0, work.order, d)
    for place in range(min(FOLLOWED_FIRST, d)):
        j, useful = work.order[place], max(work.top[BEAM - 1], margin[work.order[place]])
        if work.gain[j] > useful and columns.begins[j + 1] == columns.begins[j]:
            _, _, best, where = nearest_value(
                net, goal, columns, table, i, j, work.layers[0], np.inf, useful, np.inf, work.rising[j],
                work.falling[j], work.lines,
            )  # fmt: skip
            if best > margin[j]:
                margin[j], work.value[0, j] = best, where
                keep_top(work.top[:BEAM], best)


@inlined
def keep_top(top: Floats, value: float) -> None:
    """Insert a value among the largest ones, which fall."""
    place = len(top) - 1
    if value > top[place]:
        while place > 0 and top[place - 1] < value:
            top[place] = top[place - 1]
            place -= 1
        top[place] = value


@inlined
def first_beam(table: Table, i: int, work: Work) -> int:
    """The states with one change whose margins are best; returns how many."""
    d = table.rows.shape[1]
    for j in range(d):
        work.order[j] = j
    sort_by(work.margin[0], -1.0, work.order, d)
    width = 0
    while width < min(BEAM, d) and work.margin[0, work.order[width]] > -np.inf:
        j = work.order[width]
        for c in range(d):
            work.states[0, width, c] = table.rows[i, c]
        work.states[0, width, j] = work.value[0, j]
        work.sets[0, width, 0] = j
        width += 1
    for place in range(d):
        j = work.order[place]
        work.tried[j] = place < TRIED
        work.end[j] = work.value[0, j]
    return width


@inlined
def ascend(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, now: int, size: int, work: Work
) -> None:
    """Coordinate ascent: each changed feature of a state in turn takes the value with the best margin on its line."""
    state, x = work.states[now, b], table.rows[i]
    for place in range(size):
        j = work.sets[now, b, place]
        old = state[j]
        margin = margin_of(net, goal, table, i, state, work)
        move_feature(net, work.first, j, old, x[j])
        forward(net, work.first)
        _, _, best, where = nearest_value(
            net, goal, columns, table, i, j, work.first, np.inf, margin, np.inf, np.inf, np.inf, work.lines
        )
        state[j] = where if best > margin + 1e-9 else old


@inlined
def allowed(table: Table, i: int, j: int, used: Ints, size: int) -> bool:
    """Whether feature j may be changed beside those that are."""
    clashes = 0
    for place in range(size):
        clashes += used[place] == j or table.conflict[used[place], j]
    return table.free[i, j] and clashes == 0


@compiled
def try_ends(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, used: Ints, size: int, work: Work
) -> None:
    """The best margin that each further feature brings to a state at the ends of its range or among its categories."""
    x, margin, value, count = table.rows[i], work.margin[b], work.value[b], 0
    for j in range(len(x)):
        margin[j] = -np.inf
        if work.tried[j] and allowed(table, i, j, used, size):
            first, last = columns.begins[j], columns.begins[j + 1]
            for c in range(first, max(last, first + 2)):
                new = columns.choices[c] if last > first else (table.low[i, j] if c == first else table.high[i, j])
                if last == first and (new < x[j]) != (work.end[j] < x[j]):
                    continue
                if new != x[j] and table.low[i, j] <= new <= table.high[i, j]:
                    work.moved[count], work.moved_to[count] = j, new
                    count += 1
    margins_of_moves(net, goal, table, i, work.layers[b], count, work)
    for c in range(count):
        j = work.moved[c]
        if work.moved_margin[c] > margin[j]:
            margin[j], value[j] = work.moved_margin[c], work.moved_to[c]


@inlined
def margins_of_moves(
    net: Layers, goal: CompiledGoal, table: Table, i: int, start: Floats, count: int, work: Work
) -> None:
    """The margins after each of so many single moves of row i from a state whose pre-activations are `start`."""
    hidden, values, trial = len(net.leak), work.block, work.lines.trial
    scores = net.units[hidden]
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        for c in range(size):
            j, new = work.moved[begin + c], work.moved_to[begin + c]
            at = net.begins[j]
            if at >= 0:
                before, after = net.tables[at + np.int64(table.rows[i, j])], net.tables[at + np.int64(new)]
                for u in range(len(before)):
                    values[u, c] = start[u] + (after[u] - before[u])
            else:
                weights, step = net.first[j], new - table.rows[i, j]
                for u in range(len(weights)):
                    values[u, c] = start[u] + step * weights[u]
        forward_block(net, values, size)
        for c in range(size):
            for k in range(len(trial)):
                trial[k] = values[scores + k, c]
            work.moved_margin[begin + c] = margin_at(goal, i, trial, 0, len(trial))


@inlined
def expand(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, now: int, size: int,
    tolerance: float, work: Work,
) -> None:  # fmt: skip
    """The best margin that each further feature brings to a state: at the ends of its range or among its categories,
    and for the most promising ones anywhere on their lines, if it may reach the goal or enter the next beam."""
    try_ends(net, goal, columns, table, i, b, work.sets[now, b], size, work)
    for j in range(table.rows.shape[1]):
        keep_top(work.top, work.margin[b, j])
    follow(net, goal, columns, table, i, b, min(tolerance, work.top[len(work.top) - 1]), work)


@inlined
def follow(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, useful: float, work: Work
) -> None:
    """The best margins anywhere on the lines of those numbers that bring most to a state at the ends of their ranges;
    lines whose margins are all below what is useful are left out."""
    d, margin = table.rows.shape[1], work.margin[b]
    for j in range(d):
        work.order[j] = j
    sort_by(margin, -1.0, work.order, d)
    for place in range(min(FOLLOWED, d)):
        j = work.order[place]
        if margin[j] > -np.inf and columns.begins[j + 1] == columns.begins[j]:
            _, _, best, where = nearest_value(
                net, goal, columns, table, i, j, work.layers[b], np.inf, max(useful, margin[j]), np.inf, np.inf, np.inf,
                work.lines,
            )  # fmt: skip
            if best > margin[j]:
                margin[j], work.value[b, j] = best, where


@inlined
def finish(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int,
    least: float, tolerance: float, answer: Floats, work: Work,
) -> float:  # fmt: skip
    """Polish the most promising sets of features that reach the goal: those that should cost least, were the last
    feature's line straight, and those with the best margins. The nearest answer, if it is nearer than `least`, and its
    distance."""
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
    return least


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


@inlined
def next_beam(table: Table, i: int, now: int, width: int, level: int, work: Work) -> int:
    """The states with the best margins after one more change, each with another set of features; returns how many."""
    d, count = table.rows.shape[1], 0
    while count < BEAM:
        top, at_b, at_j = -np.inf, -1, -1
        for b in range(width):
            for j in range(d):
                if work.margin[b, j] > top:
                    top, at_b, at_j = work.margin[b, j], b, j
        if at_b < 0:
            break
        work.margin[at_b, at_j] = -np.inf
        for place in range(level - 1):
            work.sets[1 - now, count, place] = work.sets[now, at_b, place]
        work.sets[1 - now, count, level - 1] = at_j
        if is_repeated(work.sets[1 - now], count, level):
            continue
        for j in range(d):
            work.states[1 - now, count, j] = work.states[now, at_b, j]
        work.states[1 - now, count, at_j] = work.value[at_b, at_j]
        count += 1
    return count


@inlined
def is_repeated(sets: Ints, last: int, size: int) -> bool:
    """Whether an earlier state has the same set of features as the last."""
    for b in range(last):
        same = 0
        for place in range(size):
            for other in range(size):
                same += sets[b, place] == sets[last, other]
        if same == size:
            return True
    return False
