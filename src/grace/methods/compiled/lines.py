"""Single features in compiled code: the nearest value that reaches the goal, and the value with the best margin.

A number is followed along its exact line, see `models.compiled_lines`; every category is tried. The nearest value is a
decimal number of as few digits as the feature usually has, and of more only where the span that reaches the goal
contains none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grace.methods.compiled.goal import (
    FLIP,
    RANGE,
    CompiledGoal,
    largest_margin,
    margin_at,
    may_reach,
    part_of_piece,
)
from grace.models.compiled import (
    Bools,
    Floats,
    Ints,
    Layers,
    compiled,
    embedded,
    forward,
    inlined,
    move_feature,
)
from grace.models.compiled_lines import Scratch, bound_line, walk

MORE_DIGITS = 6  # how many digits beyond the usual ones a value may get if nothing coarser works
MOST_STEPS = 15  # decimal digits of the largest number of steps
ROUNDING = 1e-9  # by how much margins on a line have to exceed the tolerance
TENS = np.array([float(f"1e{n}") for n in range(309)])


class Columns(NamedTuple):
    """What is known of each of d features."""

    spread: Floats
    weight: Floats  # the cost of a change by one spread
    digits: Ints
    whole: Bools
    magnitude: Bools  # whether a change is measured by its size
    begins: Ints  # (d + 1,) where the categories that may be chosen begin in `choices`
    choices: Floats
    norm: float  # the order of the norm of the costs


class Table(NamedTuple):
    """The rows to answer, the limits of their cells, and which pairs of features are redundant."""

    rows: Floats  # (n, d)
    low: Floats
    high: Floats
    free: Bools
    conflict: Bools  # (d, d)
    rules: Any = ()  # between numbers, in a search of trees; see `trees.rules`


class Lines(NamedTuple):
    """Arrays to work with, one set per thread."""

    scratch: Scratch
    places: Floats  # (P,) breakpoints of a section of a line
    scores: Floats  # (P, classes)
    margins: Floats  # (P,)
    values: Floats  # (units,) of a single trial, or of the end of a line
    trial: Floats  # (classes,)
    above: Floats  # (classes,) how far scores lie above the chord of a line
    below: Floats  # (classes,)
    since: Floats  # (classes,) the span that reaches the goal up to the current section,
    until: Floats  # (classes,) NaN if there is none
    required: Any = ()  # room for what else is required; see `required.Line`


@embedded
def cost_of(columns: Columns, j: int, old: float, new: float) -> float:
    """What changing feature j costs."""
    if old == new:
        return 0.0
    return columns.weight[j] * (abs(new - old) / columns.spread[j] if columns.magnitude[j] else 1.0)


@embedded
def decimal_step(columns: Columns, j: int) -> float:
    """The distance of decimal numbers with the usual digits."""
    digits = min(columns.digits[j], 0) if columns.whole[j] else columns.digits[j]
    return TENS[max(-digits, 0)] / TENS[max(digits, 0)]


@embedded
def is_usual(columns: Columns, j: int, value: float) -> bool:
    """Whether a value is a decimal number with the usual digits."""
    digits = min(columns.digits[j], 0) if columns.whole[j] else columns.digits[j]
    up, down = TENS[max(digits, 0)], TENS[max(-digits, 0)]
    return np.rint(value * up / down) / up * down == value


@compiled
def floor_steps(value: float, up: float, down: float) -> float:
    """The most steps of down / up whose decimal number is not above a value."""
    steps = np.rint(value * up / down)
    if (steps + 1.0) / up * down <= value:
        steps += 1.0
    if steps / up * down > value:
        steps -= 1.0
    return steps


@inlined
def decimal_within(columns: Columns, j: int, more: int, x: float, near: float, far: float) -> float:
    """The decimal number with so many digits more than usual that lies nearest to x between two values on one side of
    it; NaN if there is none."""
    digits = columns.digits[j] + more
    if columns.whole[j]:
        digits = min(digits, 0)
    size = max(abs(x), abs(near), 1.0)
    digits = min(digits, MOST_STEPS - np.int64(np.ceil(np.log10(size))))
    up, down = TENS[max(digits, 0)], TENS[max(-digits, 0)]
    if far > x:
        value = -floor_steps(-near, up, down) / up * down
        if value == x:
            value = (-floor_steps(-near, up, down) + 1.0) / up * down
        return value if x < value <= far else np.nan
    value = floor_steps(near, up, down) / up * down
    if value == x:
        value = (floor_steps(near, up, down) - 1.0) / up * down
    return value if far <= value < x else np.nan


@compiled
def said_within(columns: Columns, j: int, x: float, near: float, far: float) -> float:
    """The nearest decimal number of few digits between two values, or their middle where there is none."""
    for more in range(MORE_DIGITS + 1):
        value = decimal_within(columns, j, more, x, near, far)
        if not np.isnan(value):
            return value
    return np.nan if columns.whole[j] else 0.5 * (near + far)


@embedded
def margin_with(
    net: Layers, goal: CompiledGoal, i: int, start: Floats, j: int, old: float, new: float, lines: Lines
) -> float:
    """The margin of row i after feature j moves from an old value, whose pre-activations are `start`, to a new one."""
    for u in range(net.widths[0]):
        lines.values[u] = start[u]
    move_feature(net, lines.values, j, old, new)
    forward(net, lines.values)
    return margin_at(goal, i, lines.values, net.units[len(net.leak)], net.widths[len(net.leak)])


@inlined
def margin_of_line(net: Layers, goal: CompiledGoal, i: int, start: Floats, lines: Lines) -> float:
    """A bound on the margins of row i along the line between states whose pre-activations are `start` and
    `lines.values`."""
    scores, target = net.units[len(net.leak)], -1 if goal.kind == RANGE else goal.target[i]
    bound_line(net, start, lines.values, target, lines.above, lines.below, lines.scratch)
    return largest_margin(goal, i, start[scores:], lines.values[scores:], lines.above, lines.below)


@embedded
def nearest_value(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, start: Floats, limit: float,
    useful: float, tolerance: float, rising: float, falling: float, lines: Lines,
) -> tuple[float, float, float, float]:  # fmt: skip
    """The nearest value of feature j with which row i reaches the goal, and its cost; then the best margin on the line,
    and where. `start` are the pre-activations with the row's own value. What costs more than `limit` is left out, and
    so is a line whose margins are all below what is `useful`; `rising` and `falling` bound those above and below the
    row's value, and are infinite if no bounds are known. NaN where there is no value."""
    x, best, best_value = table.rows[i, j], -np.inf, np.nan
    found, cost = np.nan, limit
    if columns.begins[j + 1] > columns.begins[j]:
        return nearest_choice(net, goal, columns, table, i, j, start, limit, tolerance, lines)
    unit, scores, classes = columns.weight[j] / columns.spread[j], net.units[len(net.leak)], lines.scores.shape[1]
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
            here = margin_at(goal, i, start, scores, classes)
            if here + reach * net.steepest[j] / goal.scale < useful:
                continue
            there = margin_with(net, goal, i, start, j, x, x + direction * reach, lines)
            if there < useful and margin_of_line(net, goal, i, start, lines) < useful:
                continue
        last, nearest = -1, np.nan
        for k in range(len(lines.since)):
            lines.since[k] = np.nan
        while True:
            count = walk(net, start, j, direction, reach, lines.places, lines.scores, lines.scratch, last)
            complete = lines.places[count - 1] >= reach
            margin, value = best_on_line(goal, columns, i, j, x, direction, max(begin, 0.0), count, lines)
            if margin > best:
                best, best_value = margin, value
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


@compiled
def nearest_choice(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, start: Floats, limit: float,
    tolerance: float, lines: Lines,
) -> tuple[float, float, float, float]:  # fmt: skip
    """`nearest_value` of a category."""
    x, found, cost, best, best_value = table.rows[i, j], np.nan, limit, -np.inf, np.nan
    for c in range(columns.begins[j], columns.begins[j + 1]):
        code = columns.choices[c]
        price = cost_of(columns, j, x, code)
        if code == x or code < table.low[i, j] or code > table.high[i, j] or price > limit:
            continue
        margin = margin_with(net, goal, i, start, j, x, code, lines)
        if margin > best:
            best, best_value = margin, code
        if margin >= tolerance and (price < cost or (np.isnan(found) and price <= cost)):
            found, cost = code, price
    return found, cost, best, best_value


@inlined
def best_on_line(
    goal: CompiledGoal, columns: Columns, i: int, j: int, x: float, direction: float, begin: float, count: int,
    lines: Lines,
) -> tuple[float, float]:  # fmt: skip
    """The breakpoint with the largest margin, of a whole number the best whole number beside one; the margins of all
    breakpoints are kept."""
    places, scores, margins, classes = lines.places, lines.scores, lines.margins, lines.scores.shape[1]
    best, value = -np.inf, np.nan
    for p in range(count):
        margins[p] = margin_at(goal, i, scores[p], 0, classes)
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
                margin = margin_at(goal, i, lines.trial, 0, classes)
                if margin > best:
                    best, value = margin, whole
    return best, value


@inlined
def nearest_on_line(
    net: Layers, goal: CompiledGoal, columns: Columns, i: int, j: int, start: Floats, x: float, direction: float,
    begin: float, count: int, complete: bool, tolerance: float, lines: Lines,
) -> float:  # fmt: skip
    """The nearest value that can be said in a span that reaches the goal and ends in a section of the line, for any
    class that counts; spans that continue in the next section, if the line is not complete, are kept."""
    nearest, reachable = np.nan, False
    for p in range(count - 1):
        reachable = reachable or may_reach(goal, i, lines.scores, lines.margins, p, tolerance)
    for k in range(len(lines.since)):
        reachable = reachable or not np.isnan(lines.since[k])
    if not reachable:
        return nearest
    targets = 1 if goal.kind == RANGE else lines.scores.shape[1]
    for k in range(targets):
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
        if p + 1 < count and may_reach(goal, i, scores, lines.margins, p, threshold):
            first, last = part_of_piece(goal, i, k, scores, p, threshold, lines.trial)
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
