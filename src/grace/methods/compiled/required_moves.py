"""What one more feature brings to a state of the beam where more is required than the goal, in compiled code.

Beside the ends of its range, a number is tried at the ends of the interval in which all requirements are satisfied, and
in both directions: a change that brings nothing to the goal may be what makes another one admissible.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import allowed, place_move
from grace.methods.compiled.goal import FLIP, RANGE, CompiledGoal
from grace.methods.compiled.lines import ROUNDING, Columns, Table
from grace.methods.compiled.polish import Work
from grace.methods.compiled.required import follow_requirements, linear_after_move, move_feature
from grace.methods.compiled.required_goal import margin_of_values
from grace.methods.compiled.required_lines import nearest_value
from grace.methods.compiled.required_polish import margin_of
from grace.models.compiled import BLOCK, Floats, Ints, Layers, compiled, forward, forward_block, sort_by

FOLLOWED = 64  # features of a state that are followed along their lines
TRIED_PER_NUMBER = 6  # both ends of the range, and two of an interval to each side


@compiled
def margins_of_moves(
    net: Layers, goal: CompiledGoal, table: Table, i: int, start: Floats, begin: int, size: int, work: Work
) -> None:
    """The margins after each of up to BLOCK single moves of row i from a state whose layers and linear functions are
    `start`; the pre-activations of the moves are left in `block`."""
    trial, scores, classes = work.lines.trial, net.units[len(net.leak)], net.widths[len(net.leak)]
    for c in range(size):
        place_move(net, table, i, start, work.moved[begin + c], work.moved_to[begin + c], c, work)
    forward_block(net, work.block, work.active, size)
    for c in range(size):
        j, new = work.moved[begin + c], work.moved_to[begin + c]
        for k in range(classes):
            trial[k] = work.block[scores + k, c]
        linear_after_move(net, start, j, table.rows[i, j], new, trial, classes)
        work.moved_margin[c] = margin_of_values(goal, i, trial, 0, classes)


@compiled
def try_required_moves(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, used: Ints, size: int,
    tolerance: float, work: Work,
) -> None:  # fmt: skip
    """The best margin that each further feature brings to a state, and its value."""
    x, margin, value, count = table.rows[i], work.margin[b], work.value[b], 0
    for j in range(len(x)):
        margin[j] = -np.inf
        if not allowed(table, i, j, used, size):
            continue
        for c in range(columns.begins[j], columns.begins[j + 1]):
            code = columns.choices[c]
            if code != x[j] and table.low[i, j] <= code <= table.high[i, j]:
                work.moved[count], work.moved_to[count] = j, code
                count += 1
        if columns.begins[j + 1] == columns.begins[j]:
            count = moves_of_number(net, goal, columns, table, i, j, b, tolerance, count, work)
    for begin in range(0, count, BLOCK):
        many = min(BLOCK, count - begin)
        margins_of_moves(net, goal, table, i, work.layers[b], begin, many, work)
        for c in range(many):
            j = work.moved[begin + c]
            if work.moved_margin[c] > margin[j]:
                margin[j], value[j] = work.moved_margin[c], work.moved_to[begin + c]


@compiled
def moves_of_number(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, b: int, tolerance: float,
    count: int, work: Work,
) -> int:  # fmt: skip
    """Append the values of number j that are tried in a state; returns how many moves there are now."""
    x, low, high, line = table.rows[i, j], table.low[i, j], table.high[i, j], work.lines.required
    for side in range(2):
        direction, end = (1.0, high) if side == 0 else (-1.0, low)
        if direction * (end - x) <= 0.0:
            continue
        work.moved[count], work.moved_to[count] = j, end
        count += 1
        follow_requirements(goal.required, net, i, j, work.layers[b], direction, tolerance + ROUNDING, line)
        least, most = np.inf, -np.inf
        for k in range(goal.required.classes):
            counts = goal.kind == RANGE or (k != goal.target[i]) == (goal.kind == FLIP)
            if counts and line.least[k] <= line.most[k]:
                least, most = min(least, line.least[k]), max(most, line.most[k])
        for turn in range(2):
            new = x + direction * (least if turn == 0 else most)
            if columns.whole[j]:
                new = np.ceil(new) if (turn == 0) == (direction > 0.0) else np.floor(new)
            if low <= new <= high and direction * (new - x) > 0.0 and new != end:
                work.moved[count], work.moved_to[count] = j, new
                count += 1
    return count


@compiled
def follow_required(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, b: int, useful: float, tolerance: float,
    work: Work,
) -> None:  # fmt: skip
    """The nearest value on the line of each further feature with which a state reaches the goal, and the best margin
    anywhere on it: of those that bring most, unless all margins on a line are below what is useful."""
    d, margin, line = table.rows.shape[1], work.margin[b], work.lines.required
    for j in range(d):
        work.order[j], line.price[b, j] = j, np.inf
    sort_by(margin, -1.0, work.order, d)
    for place in range(min(FOLLOWED, d)):
        j = work.order[place]
        if margin[j] == -np.inf:
            continue
        least = min(tolerance, max(useful, margin[j]))
        found, cost, best, where = nearest_value(
            net, goal, columns, table, i, j, work.layers[b], np.inf, least, tolerance, np.inf, np.inf, work.lines
        )
        if best > margin[j]:
            margin[j], work.value[b, j] = best, where
        if not np.isnan(found):
            line.near[b, j], line.price[b, j] = found, cost


@compiled
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
