"""Final checks of answers in compiled code: what has changed, whether it may, how far, and whether it all has to."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns
from grace.methods.compiled.polish import distance
from grace.models.compiled import Bools, Floats, Ints, Layers, activate, compiled, forward, inlined, move_feature

NEEDED, REDUCIBLE, UNSURE = 1, 0, 2


@compiled
def check_rows(
    columns: Columns, rows: Floats, low: Floats, high: Floats, free: Bools, conflict: Bools, found: Floats,
    count: Ints, inside: Bools, informative: Bools, length: Floats,
) -> None:  # fmt: skip
    """How many features of each row (n,) were changed, whether all of them as they may, whether no two of them are
    redundant, and the distance."""
    for i in range(len(rows)):
        x, new = rows[i], found[i]
        count[i], inside[i], informative[i] = 0, True, True
        for j in range(len(x)):
            if new[j] == x[j]:
                continue
            count[i] += 1
            if not (free[i, j] and low[i, j] <= new[j] <= high[i, j] and is_possible(columns, j, new[j])):
                inside[i] = False
            for k in range(j):
                if conflict[j, k] and new[k] != x[k]:
                    informative[i] = False
        length[i] = distance(columns, x, new)


@inlined
def is_possible(columns: Columns, j: int, value: float) -> bool:
    """Whether a value is whole where it has to be, and a category one that may be chosen."""
    begin, end = columns.begins[j], columns.begins[j + 1]
    possible = not columns.whole[j] or value == np.rint(value)
    if begin < end:
        possible = False
        for c in range(begin, end):
            if columns.choices[c] == value:
                possible = True
    return possible


@compiled
def need_every_change(
    net: Layers, goal: CompiledGoal, rows: Floats, found: Floats, begin: int, end: int, most: int, tolerance: float,
    needed: Ints, changed: Ints, origin: Floats, values: Floats,
) -> None:  # fmt: skip
    """Whether no proper subset of the changes to some rows, at most so many each, reaches the goal (n,): NEEDED, or
    REDUCIBLE, or UNSURE where a margin is too small to tell what the model decides. `changed` (most,), `origin` and
    `values` (units,) are room to work."""
    at, classes = net.units[len(net.leak)], net.widths[len(net.leak)]
    for i in range(begin, end):
        x, new, count = rows[i], found[i], 0
        for j in range(len(x)):
            if new[j] != x[j]:
                if count < most:
                    changed[count] = j
                count += 1
        needed[i] = NEEDED if count <= most else UNSURE
        if not 2 <= count <= most:
            continue
        activate(net, x, origin)
        for subset in range(1, (1 << count) - 1):
            for u in range(net.widths[0]):
                values[u] = origin[u]
            for place in range(count):
                if subset >> place & 1:
                    move_feature(net, values, changed[place], x[changed[place]], new[changed[place]])
            forward(net, values)
            margin, size = margin_at(goal, i, values, at, classes), 1.0
            for k in range(classes):
                size = max(size, abs(values[at + k]))
            if margin > tolerance * size:
                needed[i] = REDUCIBLE
                break
            if not margin < -tolerance * size:
                needed[i] = UNSURE
