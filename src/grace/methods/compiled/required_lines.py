"""Single features where more is required than the goal, in compiled code: as `lines`, with lines that requirements cut.

The nearest value of a number has to be in the interval in which rules hold and the row is typical enough, and past the
goal in all networks.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled import lines as plain
from grace.methods.compiled.goal import FLIP, RANGE, CompiledGoal
from grace.methods.compiled.lines import ROUNDING, Columns, Lines, Table, cost_of, decimal_step, said_within
from grace.methods.compiled.required import Line, copy_row, cut_piece, follow_requirements, move_feature, variant
from grace.methods.compiled.required_goal import largest_in_all, margin_of_values, margin_on_line, part_in_all
from grace.models import compiled_lines
from grace.models.compiled import Floats, Layers, compiled, forward, inlined
from grace.models.compiled_lines import walk


@inlined
def rival_of(net: Layers, k: int, target: int) -> int:
    """The score with which score k is compared, if there is a target class: that of the same network."""
    return max(target, 0) + k - k % net.linear.group


bound_line = inlined(variant(compiled_lines.bound_line, rival_of=rival_of))


@compiled
def margin_with(
    net: Layers, goal: CompiledGoal, i: int, start: Floats, j: int, old: float, new: float, lines: Lines
) -> float:
    """The margin of row i after feature j moves from an old value, whose pre-activations are `start`, to a new one."""
    copy_row(net, start, lines.values)
    move_feature(net, lines.values, j, old, new)
    forward(net, lines.values)
    return margin_of_values(goal, i, lines.values, net.units[len(net.leak)], net.widths[len(net.leak)])


@compiled
def margin_of_line(net: Layers, goal: CompiledGoal, i: int, start: Floats, lines: Lines) -> float:
    """A bound on the margins of row i along the line between states whose pre-activations are `start` and
    `lines.values`."""
    scores, target = net.units[len(net.leak)], -1 if goal.kind == RANGE else goal.target[i]
    bound_line(net, start, lines.values, target, lines.above, lines.below, lines.scratch)
    return largest_in_all(goal, i, start[scores:], lines.values[scores:], lines.above, lines.below)


nearest_choice = compiled(variant(plain.nearest_choice, margin_with=margin_with))


@compiled
def nearest_value(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, start: Floats, limit: float,
    useful: float, tolerance: float, rising: float, falling: float, lines: Lines,
) -> tuple[float, float, float, float]:  # fmt: skip
    """The nearest value of feature j with which row i reaches the goal, and its cost; then the best margin on the line,
    and where. `start` are the pre-activations with the row's own value. What costs more than `limit` is left out, and
    so is a line whose margins are all below what is `useful`; `rising` and `falling` bound those above and below the
    row's value, and are infinite if no bounds are known. NaN where there is no value, and for the nearest one if
    the tolerance is infinite, which looks for the best margin alone."""
    x, best, best_value = table.rows[i, j], -np.inf, np.nan
    found, cost = np.nan, limit
    if columns.begins[j + 1] > columns.begins[j]:
        return nearest_choice(net, goal, columns, table, i, j, start, limit, tolerance, lines)
    unit = columns.weight[j] / columns.spread[j]
    for side in range(2):
        direction = 1.0 if side == 0 else -1.0
        begin = table.low[i, j] - x if side == 0 else x - table.high[i, j]
        whole = table.high[i, j] - x if side == 0 else x - table.low[i, j]
        reach, bound = whole, rising if side == 0 else falling
        if unit > 0.0 and cost < np.inf:  # and a step more, in which the first decimal number lies
            reach = min(whole, cost / unit + decimal_step(columns, j))
        if not (reach > 0.0 and reach >= begin and bound >= useful):
            continue
        if bound == np.inf or reach < whole:
            there = margin_with(net, goal, i, start, j, x, x + direction * reach, lines)
            if there < useful and margin_of_line(net, goal, i, start, lines) < useful:
                continue
        last, nearest = -1, np.nan
        for k in range(len(lines.since)):
            lines.since[k] = np.nan
        room = (tolerance if tolerance < np.inf else 0.0) + ROUNDING
        follow_requirements(goal.required, net, i, j, start, direction, room, lines.required)
        while True:
            count = walk(net, start, j, direction, reach, lines.places, lines.scores, lines.scratch, last)
            complete = lines.places[count - 1] >= reach
            margin, value = best_on_line(goal, columns, i, j, x, direction, max(begin, 0.0), count, lines)
            if margin > best:
                best, best_value = margin, value
            if tolerance < np.inf:
                value = nearest_on_line(
                    net, goal, columns, i, j, start, x, direction, max(begin, 0.0), count, complete, tolerance, lines
                )
                if not np.isnan(value) and not abs(value - x) >= abs(nearest - x):
                    nearest = value
            if complete:
                break
            last = count - 1
        if not np.isnan(nearest):
            price = cost_of(columns, j, x, nearest)
            if price < cost or (np.isnan(found) and price <= cost):
                found, cost = nearest, price
    return found, cost, best, best_value


@inlined
def best_on_line(
    goal: CompiledGoal, columns: Columns, i: int, j: int, x: float, direction: float, begin: float, count: int,
    lines: Lines,
) -> tuple[float, float]:  # fmt: skip
    """The breakpoint with the largest margin, of a whole number the best whole number beside one; the margins of all
    breakpoints are kept."""
    places, scores, margins, classes = lines.places, lines.scores, lines.margins, lines.scores.shape[1]
    for p in range(count):
        margins[p] = margin_on_line(goal, i, scores[p], places[p], lines.required)
    best, value = best_at_ends(
        goal, i, columns.whole[j], x, direction, begin, places[:count], scores, lines.trial, lines.required
    )
    if not columns.whole[j]:
        for p in range(1, count):
            if margins[p] > best and places[p] >= begin:
                best, value = margins[p], x + direction * places[p]
        return best, value
    for p in range(1, count):
        near, end = x + direction * places[p - 1], x + direction * places[p]
        for side in range(2):  # the first and the last whole number on the piece
            whole = (np.ceil(near) if direction > 0 else np.floor(near)) if side == 0 else (
                np.floor(end) if direction > 0 else np.ceil(end))  # fmt: skip
            share = (whole - near) / (end - near)
            if 0.0 <= share <= 1.0 and whole != x and direction * (whole - x) >= begin:
                for c in range(classes):
                    lines.trial[c] = scores[p - 1, c] + share * (scores[p, c] - scores[p - 1, c])
                margin = margin_on_line(goal, i, lines.trial, abs(whole - x), lines.required)
                if margin > best:
                    best, value = margin, whole
    return best, value


@compiled
def best_at_ends(
    goal: CompiledGoal, i: int, whole: bool, x: float, direction: float, begin: float, places: Floats, scores: Floats,
    trial: Floats, line: Line,
) -> tuple[float, float]:  # fmt: skip
    """The largest margin, and where it is, at the ends of the intervals in which all requirements are satisfied, of
    those within a section of a line, whose breakpoints are at `places`."""
    best, value = -np.inf, np.nan
    for k in range(goal.required.classes):
        for side in range(2):
            end = x + direction * (line.least[k] if side == 0 else line.most[k])
            if whole:
                end = np.ceil(end) if (side == 0) == (direction > 0.0) else np.floor(end)
            place = direction * (end - x)
            if place > 0.0 and place >= max(begin, places[0]) and place <= places[-1]:
                p = 1
                while places[p] < place:
                    p += 1
                share = (place - places[p - 1]) / (places[p] - places[p - 1])
                for c in range(scores.shape[1]):
                    trial[c] = scores[p - 1, c] + share * (scores[p, c] - scores[p - 1, c])
                margin = margin_on_line(goal, i, trial, place, line)
                if margin > best:
                    best, value = margin, end
    return best, value


@inlined
def nearest_on_line(
    net: Layers, goal: CompiledGoal, columns: Columns, i: int, j: int, start: Floats, x: float, direction: float,
    begin: float, count: int, complete: bool, tolerance: float, lines: Lines,
) -> float:  # fmt: skip
    """The nearest value that can be said in a span that reaches the goal and ends in a section of the line, for any
    class that counts; spans that continue in the next section, if the line is not complete, are kept."""
    nearest = np.nan
    for k in range(goal.required.classes):
        if goal.kind != RANGE and (k != goal.target[i]) != (goal.kind == FLIP):
            continue
        value = nearest_of_class(
            net, goal, columns, i, j, k, start, x, direction, begin, count, complete, tolerance, lines
        )
        if not np.isnan(value) and not abs(value - x) >= abs(nearest - x):
            nearest = value
    return nearest


@inlined
def nearest_of_class(
    net: Layers, goal: CompiledGoal, columns: Columns, i: int, j: int, k: int, start: Floats, x: float,
    direction: float, begin: float, count: int, complete: bool, tolerance: float, lines: Lines,
) -> float:  # fmt: skip
    """`nearest_on_line` for one class. Spans that continue from piece to piece are joined."""
    places, scores = lines.places, lines.scores
    threshold = tolerance + ROUNDING
    since, until = lines.since[k], lines.until[k]  # the span that reaches up to the current piece
    for p in range(count if complete else count - 1):
        first, last = 1.0, 0.0
        if p + 1 < count:
            first, last = part_in_all(goal, i, k, scores, p, threshold, lines.trial)
            first, last = cut_piece(lines.required, k, places[p], places[p + 1], first, last)
        goes_on = first == 0.0 and last >= 0.0
        if not np.isnan(since) and not (goes_on and until == places[p]):
            if until >= begin:
                near, far = x + direction * max(since, begin), x + direction * until
                value = said_within(columns, j, x, near, far)
                if margin_with(net, goal, i, start, j, x, value, lines) >= tolerance:  # not NaN
                    lines.since[k] = np.nan
                    return value
            since = np.nan
        if first <= last:
            length = places[p + 1] - places[p]
            if np.isnan(since):
                since = places[p] + first * length
            until = places[p + 1] if last == 1.0 else places[p] + last * length
    lines.since[k], lines.until[k] = since, until
    return np.nan
