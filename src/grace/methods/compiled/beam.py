"""One level of the beam search in compiled code: what one more feature brings to each state, and the next states."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_of_values
from grace.methods.compiled.lines import Columns, Table, nearest_value
from grace.methods.compiled.polish import BEAM, Work, margin_of
from grace.methods.compiled.required import linear_after_move
from grace.models.compiled import (
    BLOCK,
    Floats,
    Ints,
    Layers,
    compiled,
    forward,
    forward_block,
    inlined,
    move_feature,
    sort_by,
)

FOLLOWED = 6  # features of a state that are followed along their lines


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
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        margins_of_moves(net, goal, table, i, work.layers[b], begin, size, work)
        for c in range(begin, begin + size):
            j = work.moved[c]
            if work.moved_margin[c - begin] > margin[j]:
                margin[j], value[j] = work.moved_margin[c - begin], work.moved_to[c]


@compiled
def margins_of_moves(
    net: Layers, goal: CompiledGoal, table: Table, i: int, start: Floats, begin: int, size: int, work: Work
) -> None:
    """The margins after each of up to BLOCK single moves of row i from a state whose pre-activations are `start`; those
    of the moves are left in `block`."""
    hidden, values, trial = len(net.leak), work.block, work.lines.trial
    scores, classes = net.units[hidden], net.widths[hidden]
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
    forward_block(net, values, work.active, size)
    for c in range(size):
        for k in range(classes):
            trial[k] = values[scores + k, c]
        if len(net.linear_bias) > 0:
            j, new = work.moved[begin + c], work.moved_to[begin + c]
            linear_after_move(net, start, j, table.rows[i, j], new, trial, classes)
        work.moved_margin[c] = margin_of_values(goal, i, trial, 0, classes)


@inlined
def follow(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, useful: float, tolerance: float,
    work: Work,
) -> None:  # fmt: skip
    """The best margins anywhere on the lines of those numbers that bring most to a state at the ends of their ranges,
    unless they reach the goal there; lines whose margins are all below what is useful are left out."""
    d, margin = table.rows.shape[1], work.margin[b]
    for j in range(d):
        work.order[j] = j
    sort_by(margin, -1.0, work.order, d)
    for place in range(min(FOLLOWED, d)):
        j = work.order[place]
        if -np.inf < margin[j] < tolerance:
            follow_line(net, goal, columns, table, i, b, j, useful, work)


@compiled
def follow_line(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, j: int, useful: float, work: Work
) -> None:
    """The best margin anywhere on the line that feature j, if it is a number, brings to a state."""
    if columns.begins[j + 1] == columns.begins[j]:
        _, _, best, where = nearest_value(
            net, goal, columns, table, i, j, work.layers[b], np.inf, max(useful, work.margin[b, j]), np.inf, np.inf,
            np.inf, work.lines,
        )  # fmt: skip
        if best > work.margin[b, j]:
            work.margin[b, j], work.value[b, j] = best, where


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
