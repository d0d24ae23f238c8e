"""One level of the beam search in compiled code: what one more feature brings to each state, and the next states."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.polish import BEAM, Work, margin_of
from grace.models.compiled import (
    BLOCK,
    Floats,
    Ints,
    Layers,
    compiled,
    forward_block,
    inlined,
    largest_first,
    move_feature,
)

FOLLOWED = 6  # features of a state that are tried at values between the ends of their ranges,
SAMPLES = 10  # at so many values each
ASCENT = 16  # values of each changed feature that are tried when a state is improved


@inlined
def ascend(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, now: int, size: int, work: Work
) -> None:
    """Coordinate ascent: each changed feature of a state in turn takes the value with the best margin of some on its
    line."""
    state, x = work.states[now, b], table.rows[i]
    margin = margin_of(net, goal, table, i, state, work)
    for place in range(size):
        j = work.sets[now, b, place]
        old = state[j]
        move_feature(net, work.first, j, old, x[j])
        number = columns.begins[j + 1] == columns.begins[j]
        for closer in range(2 if number else 1):
            if number:
                count = add_samples(columns, table, i, j, ASCENT, closer, state[j], 0, work)
            else:
                count = add_ends(columns, table, i, j, 0, work)
            for begin in range(0, count, BLOCK):
                some = min(BLOCK, count - begin)
                margins_of_moves(net, goal, table, i, work.first, begin, some, work)
                for c in range(some):
                    if work.moved_margin[c] > margin + 1e-9:
                        margin, state[j] = work.moved_margin[c], work.moved_to[begin + c]
        move_feature(net, work.first, j, x[j], state[j])


@inlined
def allowed(table: Table, i: int, j: int, used: Ints, size: int) -> bool:
    """Whether feature j may be changed beside those that are."""
    clashes = 0
    for place in range(size):
        clashes += used[place] == j or table.conflict[used[place], j]
    return table.free[i, j] and clashes == 0


@inlined
def add_ends(columns: Columns, table: Table, i: int, j: int, count: int, work: Work) -> int:
    """Moves of feature j to the ends of its range, or to every other category, after those that there are; returns how
    many there are then."""
    x, first, last = table.rows[i, j], columns.begins[j], columns.begins[j + 1]
    for c in range(first, max(last, first + 2)):
        new = columns.choices[c] if last > first else (table.low[i, j] if c == first else table.high[i, j])
        if new != x and table.low[i, j] <= new <= table.high[i, j]:
            work.moved[count], work.moved_to[count] = j, new
            count += 1
    return count


@inlined
def add_samples(
    columns: Columns, table: Table, i: int, j: int, samples: int, closer: int, best: float, count: int, work: Work
) -> int:
    """Moves of number j to values between the ends of its range, or so many times closer to the best one of these,
    after those moves that there are; returns how many there are then."""
    x, low, high, last = table.rows[i, j], table.low[i, j], table.high[i, j], np.nan
    if closer > 0:  # between the values beside it
        step = 0.5 * (high - low) * (2.0 / (samples + 1.0)) ** closer
        low, high = max(low, best - step), min(high, best + step)
    for place in range(samples):
        new = low + (high - low) * ((place + 1.0) / (samples + 1.0))
        if columns.whole[j]:
            new = np.rint(new)
        if new != x and new != last and low <= new <= high:
            work.moved[count], work.moved_to[count] = j, new
            count += 1
        last = new
    return count


@compiled
def try_ends(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, used: Ints, size: int, work: Work
) -> None:
    """The best margin that each further feature brings to a state among its categories, or at the end of its range
    where it brought most alone."""
    x, margin, count = table.rows[i], work.margin[b], 0
    for j in range(len(x)):
        margin[j] = -np.inf
        if work.tried[j] and allowed(table, i, j, used, size):
            begun = count
            count = add_ends(columns, table, i, j, count, work)
            if columns.begins[j + 1] == columns.begins[j] and count == begun + 2:
                low, high = work.moved_to[begun], work.moved_to[begun + 1]
                if low < x[j] < high:
                    work.moved_to[begun] = low if work.end[j] < x[j] else high
                    count = begun + 1
    best_moves(net, goal, table, i, b, count, work)


@inlined
def best_moves(net: Layers, goal: CompiledGoal, table: Table, i: int, b: int, count: int, work: Work) -> None:
    """Try single moves of a state; where the margin is better than what is known of a feature, it is kept."""
    margin, value = work.margin[b], work.value[b]
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
    for c in range(size):
        place_move(net, table, i, start, work.moved[begin + c], work.moved_to[begin + c], c, work)
    margins_of_block(net, goal, i, size, work)


@inlined
def place_move(net: Layers, table: Table, i: int, start: Floats, j: int, new: float, c: int, work: Work) -> None:
    """The first layer after a move of feature j of row i from a state whose pre-activations are `start`, into a column
    of `block`."""
    values, at = work.block, net.begins[j]
    if at >= 0:
        before, after = net.tables[at + np.int64(table.rows[i, j])], net.tables[at + np.int64(new)]
        for u in range(len(before)):
            values[u, c] = start[u] + (after[u] - before[u])
    else:
        weights, step = net.first[j], new - table.rows[i, j]
        for u in range(len(weights)):
            values[u, c] = start[u] + step * weights[u]


@inlined
def margins_of_block(net: Layers, goal: CompiledGoal, i: int, size: int, work: Work) -> None:
    """The margins of the states whose first layers are the columns of `block`."""
    values, trial, scores = work.block, work.lines.trial, net.units[len(net.leak)]
    forward_block(net, values, work.active, size)
    for c in range(size):
        for k in range(len(trial)):
            trial[k] = values[scores + k, c]
        work.moved_margin[c] = margin_at(goal, i, trial, 0, len(trial))


@compiled
def follow(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, tolerance: float, work: Work
) -> None:
    """Try those numbers that bring most to a state at the ends of their ranges at values between them, too, unless they
    reach the goal there."""
    margin, value, d = work.margin[b], work.value[b], table.rows.shape[1]
    some = largest_first(margin, work.order, d, FOLLOWED)
    for closer in range(2):
        count = 0
        for place in range(some):
            j = work.order[place]
            inside = closer == 0 or table.low[i, j] < value[j] < table.high[i, j]
            if -np.inf < margin[j] < tolerance and columns.begins[j + 1] == columns.begins[j] and inside:
                count = add_samples(columns, table, i, j, SAMPLES, closer, value[j], count, work)
        best_moves(net, goal, table, i, b, count, work)


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
