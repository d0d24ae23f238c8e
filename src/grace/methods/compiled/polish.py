"""Polish in compiled code: values are pulled back along their lines, and superfluous changes are taken back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_of_values
from grace.methods.compiled.lines import (
    Columns,
    Lines,
    Table,
    cost_of,
    decimal_step,
    is_usual,
    margin_with,
    nearest_value,
)
from grace.models.compiled import (
    Bools,
    Floats,
    Ints,
    Layers,
    activate,
    compiled,
    copy_row,
    forward,
    inlined,
    move_feature,
    sort_by,
)

BEAM = 8
FINALISTS = 8  # sets of features that the search polishes since they should cost least,
STRONGEST = 2  # and since their margins are best
EXHAUSTIVE = 10  # up to so many changes every subset is tried


class Work(NamedTuple):
    """Arrays to work with, one set per thread; k is the most features that may change."""

    lines: Lines
    states: Floats  # (2, BEAM, d) of this level and the next
    sets: Ints  # (2, BEAM, k) the features that are changed in each
    starts: Floats  # (FINALISTS + STRONGEST, d) rows that have been polished
    top: Floats  # (2 BEAM,) the best margins of this level, falling
    layers: Floats  # (BEAM, units) pre-activations of each state
    margin: Floats  # (BEAM, d) the best margin found by one more move,
    value: Floats  # and its value
    moved: Ints  # (M,) the feature of each of up to M single moves,
    moved_to: Floats  # its new value,
    moved_margin: Floats  # (BLOCK,) and the margins of some of them
    block: Floats  # (units, BLOCK) pre-activations after each of these,
    active: Floats  # (widest layer, BLOCK) and the activations of a layer
    gain: Floats  # (d,)
    order: Ints  # (d,)
    rising: Floats  # (d,) a bound on the margins of the row with larger values of each feature,
    falling: Floats  # and with smaller ones
    begun: Floats  # (d,) a row that is polished, before,
    current: Floats  # and as it is tried
    first: Floats  # (units,) its pre-activations,
    origin: Floats  # (units,) and those of x
    best: Floats  # (d,) the best answer so far
    kept: Floats  # (d,)
    found: Floats  # (d,) another answer, that competes
    features: Ints  # (d,) that differ
    tried: Bools  # (d,) which are tried beyond level one,
    end: Floats  # (d,) and the value of each whose margin was best at level one


@compiled
def distance(columns: Columns, row: Floats, other: Floats) -> float:
    """The norm of the costs of all changes."""
    total = 0.0
    for j in range(len(row)):
        if row[j] != other[j]:
            cost = cost_of(columns, j, row[j], other[j])
            if columns.norm == 1.0:
                total += cost
            elif columns.norm == 2.0:
                total += cost * cost
            else:
                total = max(total, cost)
    return np.sqrt(total) if columns.norm == 2.0 else total


@compiled
def margin_of(net: Layers, goal: CompiledGoal, table: Table, i: int, row: Floats, work: Work) -> float:
    """The margin of a row that differs from row i, whose first layer is `origin`, in few features; its pre-activations
    are left in `first`."""
    x, values = table.rows[i], work.first
    copy_row(net, work.origin, values)
    for j in range(len(x)):
        if row[j] != x[j]:
            move_feature(net, values, j, x[j], row[j])
    forward(net, values)
    return margin_of_values(goal, i, values, net.units[len(net.leak)], net.widths[len(net.leak)])


@compiled
def differing(row: Floats, other: Floats, features: Ints) -> int:
    """The features in which rows differ, and how many."""
    count = 0
    for j in range(len(row)):
        if row[j] != other[j]:
            features[count] = j
            count += 1
    return count


@inlined
def pull_back(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, reverse: bool,
    most: float, tolerance: float, work: Work,
) -> bool:  # fmt: skip
    """Move each changed value as near to x as the goal allows, first the one that gives up least margin for its cost,
    or last. Returns whether the row may be nearer than `most`; if not, the rest is left as it is."""
    x, features = table.rows[i], work.features
    count = differing(x, row, features)
    whole = margin_of(net, goal, table, i, row, work)
    for place in range(count):
        j = features[place]
        without = margin_with(net, goal, i, work.first, j, row[j], x[j], work.lines)
        work.gain[place] = (whole - without) / max(cost_of(columns, j, x[j], row[j]), 1e-300)
        work.order[place] = place
    sort_by(work.gain, -1.0 if reverse else 1.0, work.order, count)
    for j in range(len(x)):
        work.kept[j] = x[j]
    for place in range(count):
        j = features[work.order[place]]
        if may_move(net, goal, columns, table, i, j, row, tolerance, work):
            pull_value(net, goal, columns, table, i, j, row, tolerance, work)
        work.kept[j] = row[j]
        if place + 1 < count and distance(columns, x, work.kept) >= most:
            return False
    return True


@inlined
def may_move(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, row: Floats, tolerance: float,
    work: Work,
) -> bool:  # fmt: skip
    """Whether the line of a changed value is worth following: not if it is a decimal number with the usual digits, and
    the next one towards x does not reach the goal. `first` are the pre-activations of the row."""
    x, old, step = table.rows[i, j], row[j], decimal_step(columns, j)
    if columns.begins[j + 1] > columns.begins[j] or abs(old - x) <= step or not is_usual(columns, j, old):
        return True
    nearer = old - step if old > x else old + step
    return margin_with(net, goal, i, work.first, j, old, nearer, work.lines) >= tolerance


@inlined
def pull_value(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, j: int, row: Floats, tolerance: float,
    work: Work,
) -> None:  # fmt: skip
    """Move a changed value as near to x as the goal allows; `first` are the pre-activations of the row."""
    x, old = table.rows[i], row[j]
    move_feature(net, work.first, j, old, x[j])
    forward(net, work.first)
    number = columns.begins[j + 1] == columns.begins[j]
    limit = cost_of(columns, j, x[j], old)
    if number:  # a value that cannot be said may have to move a step away
        limit += columns.weight[j] / columns.spread[j] * decimal_step(columns, j)
    value, cost, _, _ = nearest_value(
        net, goal, columns, table, i, j, work.first, limit, tolerance, tolerance, np.inf, np.inf, work.lines
    )
    row[j] = old if np.isnan(value) or (not number and cost >= limit) else value
    move_feature(net, work.first, j, x[j], row[j])


@compiled
def smallest_subset(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> bool:
    """Take back those changes that the goal does not need: the smallest proper subset that reaches it, and of those the
    nearest; of more than EXHAUSTIVE changes, one after another. Returns whether there is any."""
    x, features = table.rows[i], work.features
    count = differing(x, row, features)
    reduced, going = False, count > EXHAUSTIVE
    while going:  # the costliest change that can be taken back
        dearest, most = -1, -1.0
        for place in range(count):
            j = features[place]
            old = row[j]
            cost = cost_of(columns, j, x[j], old)
            if cost > most:
                row[j] = x[j]
                if margin_of(net, goal, table, i, row, work) >= tolerance:
                    dearest, most = j, cost
                row[j] = old
        going = dearest >= 0
        if going:
            row[dearest] = x[dearest]
            reduced = True
            count = differing(x, row, features)
            going = count > EXHAUSTIVE
    chosen = -1
    if 2 <= count <= EXHAUSTIVE:
        fewest, least = count, np.inf
        for j in range(len(x)):
            work.kept[j] = row[j]
        for subset in range(1, (1 << count) - 1):
            size = 0
            for place in range(count):
                size += (subset >> place) & 1
            if size <= fewest:
                for place in range(count):
                    j = features[place]
                    row[j] = work.kept[j] if (subset >> place) & 1 else x[j]
                if margin_of(net, goal, table, i, row, work) >= tolerance:
                    far = distance(columns, x, row)
                    if size < fewest or far < least:
                        fewest, least, chosen = size, far, subset
        for place in range(count):
            j = features[place]
            row[j] = work.kept[j] if chosen < 0 or (chosen >> place) & 1 else x[j]
    return reduced or chosen >= 0


@compiled
def pull_back_both_ways(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, most: float,
    tolerance: float, work: Work,
) -> float:  # fmt: skip
    """Pull values back in both orders and keep the nearer row, if it is nearer than `most`; returns its distance,
    infinite if there is none."""
    least = np.inf
    for j in range(len(row)):
        work.begun[j] = row[j]
    for reverse in range(2 if differing(table.rows[i], row, work.features) > 1 else 1):
        for j in range(len(row)):
            work.current[j] = work.begun[j]
        limit = min(most, least)
        if not pull_back(net, goal, columns, table, i, work.current, reverse == 1, limit, tolerance, work):
            continue
        far = distance(columns, table.rows[i], work.current)
        if far < least * (1.0 - 1e-9):
            least = far
            for j in range(len(row)):
                row[j] = work.current[j]
    return least


@inlined
def tighten(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> float:
    """Take back superfluous changes and pull the others back, until nothing moves; returns the distance."""
    least, going = distance(columns, table.rows[i], row), True
    for j in range(len(row)):
        work.best[j] = row[j]
    while going:
        reduced = smallest_subset(net, goal, columns, table, i, work.best, tolerance, work)
        far = pull_back_both_ways(net, goal, columns, table, i, work.best, np.inf, tolerance, work)
        going = reduced or far < least * (1.0 - 1e-9)
        if going:
            least = far
            for j in range(len(row)):
                row[j] = work.best[j]
    return least


@compiled
def polish_row(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, row: Floats, tolerance: float, work: Work
) -> float:
    """Make a row that reaches the goal of row i, whose first layer is `origin`, irreducible and near; returns its
    distance."""
    pull_back_both_ways(net, goal, columns, table, i, row, np.inf, tolerance, work)  # to values that can be said
    return tighten(net, goal, columns, table, i, row, tolerance, work)


@compiled
def polish_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, rows: Floats,
    tolerance: float, work: Work,
) -> None:  # fmt: skip
    """Make rows that reach the goal irreducible and near."""
    for i in range(begin, end):
        activate(net, table.rows[i], work.origin)
        polish_row(net, goal, columns, table, i, rows[i], tolerance, work)
