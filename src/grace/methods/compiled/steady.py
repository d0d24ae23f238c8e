"""Answers of ReLU networks with room around them, in compiled code; `methods.steady` does the same for any model.

A single change whose value stands in a steady run is moved a tenth of it inside; else every feature's line is followed,
and the nearest steady run of all is taken, or the widest. Several changes are moved in turn, each along its own line,
until all of them are steady. Where they cannot be, the other sets of features compete that the search has polished.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import FLIP, RANGE, CompiledGoal, margin_at, margin_towards, may_reach, part_of_piece
from grace.methods.compiled.lines import ROUNDING, Columns, Table, cost_of, margin_of_line, margin_with
from grace.methods.compiled.polish import Work, differing, distance, margin_of, polish_row, smallest_subset
from grace.methods.compiled.runs import Run, better_run, inside_run, is_wider, wholes_needed
from grace.methods.compiled.search import search_rows
from grace.methods.steady import DEEPER, INSIDE, STEADY, TURNS, WHOLE
from grace.models.compiled import Floats, Layers, activate, compiled, forward, inlined, move_feature
from grace.models.compiled_lines import walk

SECTION = 128  # breakpoints that are looked at before it is asked whether a line has to be followed further
OTHERS = 4  # sets of features that compete with one that stays on a spike


@compiled
def steady_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, tolerance: float,
    rows: Floats, work: Work,
) -> None:  # fmt: skip
    """Replace the nearest answers to some rows by steady ones with as few changes."""
    for i in range(begin, end):
        going = True
        while going:
            count = differing(table.rows[i], rows[i], work.features)
            if count == 1:
                steady_change(net, goal, columns, table, i, work.features[0], tolerance, rows[i], work)
            going = count > 1 and steady_changes(
                net, goal, columns, table, i, min(most, count), tolerance, rows[i], work
            )


# -- lines ------------------------------------------------------------------------------------------------------------


@compiled
def run_on_line(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, k: int, start: Floats,
    direction: float, limit: float, at: float, tolerance: float, work: Work,
) -> Run:  # fmt: skip
    """The run of number j to take in a direction from x, of values for which class k wins, or any that counts if k is
    -1, of those that begin within a limit; `start` are the pre-activations with the row's own value. `at` is where the
    answer is."""
    lines, x = work.lines, table.rows[i, j]
    best = (np.inf, np.inf, -np.inf, -np.inf)
    begin = table.low[i, j] - x if direction > 0.0 else x - table.high[i, j]
    reach = table.high[i, j] - x if direction > 0.0 else x - table.low[i, j]
    # a run that begins within the limit shows whether it is steady
    reach = min(reach, limit + (WHOLE + 1.0 if columns.whole[j] else 1.01 * STEADY * columns.spread[j]))
    if not (reach > 0.0 and reach >= begin):
        return best
    begin, targets, last = max(begin, 0.0), 1 if goal.kind == RANGE else lines.scores.shape[1], -1
    wholes = wholes_needed(x, table.low[i, j], table.high[i, j])
    places = lines.places[: min(SECTION, len(lines.places))]
    for c in range(len(lines.since)):
        lines.since[c] = np.nan
    while True:
        count = walk(net, start, j, direction, reach, places, lines.scores, lines.scratch, last)
        complete = places[count - 1] >= reach
        for p in range(count):
            lines.margins[p] = margin_at(goal, i, lines.scores[p], 0, lines.scores.shape[1])
        pending = np.inf
        for c in range(targets):
            counts = goal.kind == RANGE or (c == k if k >= 0 else (c != goal.target[i]) == (goal.kind == FLIP))
            if counts:
                best = runs_of_class(
                    goal,
                    columns,
                    i,
                    j,
                    c,
                    x,
                    direction,
                    begin,
                    wholes,
                    at,
                    count,
                    complete,
                    tolerance + ROUNDING,
                    best,
                    work,
                )
                if not np.isnan(lines.since[c]):
                    pending = min(pending, lines.since[c])
        if complete or (best[2] >= 1.0 and pending >= best[0] and min(pending, places[count - 1]) > at):
            return best
        last = count - 1


@inlined
def runs_of_class(
    goal: CompiledGoal, columns: Columns, i: int, j: int, k: int, x: float, direction: float, begin: float,
    wholes: float, at: float, count: int, complete: bool, threshold: float, best: Run, work: Work,
) -> Run:  # fmt: skip
    """The best run so far and those of one class that end in a section of a line; a run that goes on in the next
    section, if the line is not complete, is kept."""
    lines = work.lines
    places, since, until = lines.places, lines.since[k], lines.until[k]
    for p in range(count if complete else count - 1):
        first, last = 1.0, 0.0
        if p + 1 < count and may_reach(goal, i, lines.scores, lines.margins, p, threshold):
            first, last = part_of_piece(goal, i, k, lines.scores, p, threshold, lines.trial)
        goes_on = first == 0.0 and last >= 0.0
        if not np.isnan(since) and not (goes_on and until == places[p]):
            best = better_run(columns, j, x, direction, since, until, begin, wholes, at, best)
            since = np.nan
        if first <= last:
            length = places[p + 1] - places[p]
            if np.isnan(since):
                since = places[p] + first * length
            until = places[p + 1] if last == 1.0 else places[p] + last * length
    lines.since[k], lines.until[k] = since, until
    return best


# -- single changes ---------------------------------------------------------------------------------------------------


@compiled
def steady_change(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, f: int, tolerance: float, row: Floats,
    work: Work,
) -> None:  # fmt: skip
    """Move the nearest single change, of feature f, into its run, or replace it by that whose run is the nearest steady
    one of all features, or the widest."""
    x = table.rows[i]
    if columns.begins[f + 1] > columns.begins[f]:
        return
    activate(net, x, work.origin)
    side, at = 1.0 if row[f] > x[f] else -1.0, abs(row[f] - x[f])
    near, far, width, _ = run_on_line(
        net, goal, columns, table, i, f, -1, work.origin, side, np.inf, at, tolerance, work
    )
    if width >= 1.0 and near <= at:
        value = inside_run(columns, f, x[f], side, near, far, INSIDE)
    else:
        f, value = nearest_run(net, goal, columns, table, i, tolerance, work)
        if f < 0:
            return
    if margin_with(net, goal, i, work.origin, f, x[f], value, work.lines) >= tolerance:  # not NaN
        for j in range(len(x)):
            row[j] = x[j]
        row[f] = value


@compiled
def nearest_run(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, tolerance: float, work: Work
) -> tuple[int, float]:
    """The nearest single change that stands inside a steady run, or in the widest run if there is none: the feature, -1
    if there is none, and its value. `origin` are the pre-activations of the row."""
    x, feature, value, width, least = table.rows[i], -1, np.nan, -np.inf, np.inf
    for j in range(len(x)):
        if not table.free[i, j]:
            continue
        for c in range(columns.begins[j], columns.begins[j + 1]):
            code = columns.choices[c]
            cost = cost_of(columns, j, x[j], code)
            if (
                code != x[j] and table.low[i, j] <= code and code <= table.high[i, j]
                and is_wider(np.inf, cost, width, least)
                and margin_with(net, goal, i, work.origin, j, x[j], code, work.lines) >= tolerance
            ):  # fmt: skip
                feature, value, width, least = j, code, np.inf, cost
        if columns.begins[j + 1] > columns.begins[j]:
            continue
        unit = columns.weight[j] / columns.spread[j]
        for turn in range(2):
            side = 1.0 if turn == 0 else -1.0
            limit = least / unit if width >= 1.0 and unit > 0.0 and columns.magnitude[j] else np.inf
            if not may_improve(net, goal, table, i, j, side, limit, tolerance, work):
                continue
            near, far, wide, _ = run_on_line(
                net, goal, columns, table, i, j, -1, work.origin, side, limit, -1.0, tolerance, work
            )
            if wide >= 1.0 and limit < np.inf:  # to its end
                near, far, wide, _ = run_on_line(
                    net, goal, columns, table, i, j, -1, work.origin, side, np.inf, -1.0, tolerance, work
                )
            if wide > -np.inf:
                said = inside_run(columns, j, x[j], side, near, far, INSIDE)
                cost = cost_of(columns, j, x[j], said)
                if not np.isnan(said) and is_wider(wide, cost, width, least):
                    feature, value, width, least = j, said, wide, cost
    return feature, value


@inlined
def may_improve(
    net: Layers, goal: CompiledGoal, table: Table, i: int, j: int, direction: float, limit: float, tolerance: float,
    work: Work,
) -> bool:  # fmt: skip
    """False only if no value of number j within a limit reaches the goal."""
    x = table.rows[i, j]
    reach = min(limit, table.high[i, j] - x if direction > 0.0 else x - table.low[i, j])
    if not reach > 0.0:
        return False
    there = margin_with(net, goal, i, work.origin, j, x, x + direction * reach, work.lines)
    return there >= tolerance or margin_of_line(net, goal, i, work.origin, work.lines) >= tolerance


# -- several changes --------------------------------------------------------------------------------------------------


@compiled
def steady_changes(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, most: int, tolerance: float, row: Floats,
    work: Work,
) -> bool:  # fmt: skip
    """Move the numbers of the nearest answer into their runs; where that leaves a spike, what the search has found with
    other features competes. Returns whether this left fewer changes, which may then move further."""
    x, count = table.rows[i], differing(table.rows[i], row, work.features)
    activate(net, x, work.origin)
    width = move_inside(net, goal, columns, table, i, row, tolerance, work)
    if width >= 1.0 or differing(x, row, work.features) < count:
        return width < 1.0
    least = distance(columns, x, row)
    found = work.found.reshape((1, len(x)))
    nearest = most < 0  # never; a constant would have the function compiled once more
    begun = search_rows(net, goal, columns, table, i, i + 1, most, nearest, tolerance, found, work)
    for turn in range(min(begun, OTHERS)):
        for j in range(len(x)):
            work.found[j] = work.starts[turn, j]
        polish_row(net, goal, columns, table, i, work.found, tolerance, work)
        wide = move_inside(net, goal, columns, table, i, work.found, tolerance, work)
        far, some = distance(columns, x, work.found), differing(x, work.found, work.features)
        if some < count or (some == count and is_wider(wide, far, width, least)):
            width, least = wide, far
            for j in range(len(x)):
                row[j] = work.found[j]
        if some < count:
            return True
    return False


@compiled
def move_inside(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> float:
    """Move each changed number of an answer into the nearest steady run of its line, or into the widest, and again
    while one that moves leaves another on a spike; where one stays on a spike, the others move to the middle of their
    runs, if that gives it room. Returns the width of the narrowest run; what is no answer afterwards stays as it was.
    `origin` is the first layer of x."""
    x, narrowest, before, share = table.rows[i], np.inf, -np.inf, INSIDE
    for j in range(len(x)):
        work.current[j] = row[j]
    for turn in range(TURNS + 1):
        every = turn == 0
        if turn > 1 and share == INSIDE and narrowest < 1.0:
            every, share, before = True, DEEPER, narrowest
            for j in range(len(x)):
                work.kept[j] = work.current[j]
        moved, narrowest = False, np.inf
        for j in range(len(x)):
            if work.current[j] == x[j] or columns.begins[j + 1] > columns.begins[j]:
                continue
            value, wide, own = run_of_change(net, goal, columns, table, i, j, share, tolerance, work)
            if turn < TURNS and not np.isnan(value) and (every or own < 1.0):
                moved, work.current[j], own = moved or value != work.current[j], value, wide
            narrowest = min(narrowest, own)
        if not moved and (turn > 1 or narrowest >= 1.0):
            break
    if narrowest < 1.0 and share > INSIDE:
        narrowest = before
        for j in range(len(x)):
            work.current[j] = work.kept[j]
    if margin_of(net, goal, table, i, work.current, work) < tolerance:
        return 0.0
    for j in range(len(x)):
        row[j] = work.current[j]
    # fewer changes have not been moved
    return 0.0 if smallest_subset(net, goal, columns, table, i, row, tolerance, work) else narrowest


@compiled
def run_of_change(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, share: float, tolerance: float,
    work: Work,
) -> tuple[float, float, float]:  # fmt: skip
    """The value of a changed number of the row in `current` that stands a share inside the run to take, NaN if there is
    none; the width of that run, and of the one that the number is in."""
    x, old = table.rows[i, j], work.current[j]
    margin_of(net, goal, table, i, work.current, work)
    k = class_of(net, goal, i, work.first)
    move_feature(net, work.first, j, old, x)
    forward(net, work.first)
    side, at = 1.0 if old > x else -1.0, abs(old - x)
    near, far, wide, own = run_on_line(
        net, goal, columns, table, i, j, k, work.first, side, np.inf, at, tolerance, work
    )
    if wide < 1.0:
        other, until, wider, _ = run_on_line(
            net, goal, columns, table, i, j, k, work.first, -side, np.inf, -1.0, tolerance, work
        )
        if wider > wide:
            side, near, far, wide = -side, other, until, wider
    value = np.nan
    if wide > -np.inf:
        value = inside_run(columns, j, x, side, near, far, share)
        if not margin_with(net, goal, i, work.first, j, x, value, work.lines) >= tolerance:
            value = np.nan
    return value, wide, own


@inlined
def class_of(net: Layers, goal: CompiledGoal, i: int, values: Floats) -> int:
    """The class that counts and wins in a row with these pre-activations; -1 where the goal is a range."""
    best, top, scores, classes = -1, -np.inf, net.units[len(net.leak)], net.widths[len(net.leak)]
    if goal.kind == RANGE:
        return best
    for c in range(classes):
        if (c != goal.target[i]) == (goal.kind == FLIP):
            margin = margin_towards(goal, i, c, values, scores, classes)
            if margin > top:
                best, top = c, margin
    return best
