"""The sums of a row wherever one feature alone is changed, in compiled code.

Every leaf that a row reaches by changing one feature alone is visited once. Thresholds divide a number into cells in
which all sums stay the same, so that such a leaf adds to the sums of a run of cells: to the first of them, and it is
taken off again after the last. Adding up outwards from the cell of the row gives the sums everywhere along the number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined
from grace.models.trees.compiled import Trees, goes_left


class Cells(NamedTuple):
    """Arrays to work with, one set per thread. Each number has a cell between thresholds, and one after the last; each
    category is a cell. D is the depth of the deepest tree, and B the most categories of a feature."""

    begins: Ints  # (d + 1,) where the cells of each feature begin
    sums: Floats  # (cells, k) how much more than in the cell before; of a category, than those of the row
    changes: Bools  # (cells,) whether sums of a number change there. Between two rows all is zero
    eight: Ints  # (cells / 8,) the same memory
    size: Floats  # (k,) a bound on the sums of absolute values of leaves, one of each tree
    first: Ints  # (d,) the first cell of each number within its limits,
    last: Ints  # (d,) and the last;
    path_first: Ints  # (d,) and those, or the categories, with which the row stays on its path in a tree
    path_last: Ints
    path_codes: Bools  # (choices,)
    path: Ints  # (D + 2,) the features that may change on that path
    stack: Ints  # (D + 2,) nodes to visit,
    moves: Ints  # (D + 2,) which feature has to move there, or -1,
    since: Ints  # (D + 2,) between which of its cells,
    until: Ints
    codes: Bools  # (D + 2, B) or to which of the categories that may be chosen;
    now: Bools  # (B,) those of the node that is visited
    own: Floats  # (k,) the sums of the row
    here: Floats  # (k,)
    error: Floats  # (1,) a bound on the rounding errors of functionals of the sums of cells


def cells_of(trees: Trees, columns: Columns) -> Cells:
    d, k, deep = len(trees.missing), len(trees.base), trees.depth + 2
    counts, most = np.diff(trees.cuts.begins) + 2, 1
    for j in range(d):
        choices = columns.choices[columns.begins[j] : columns.begins[j + 1]]
        if len(choices):
            counts[j], most = int(choices.max()) + 1, max(most, len(choices))
    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    largest = np.maximum(np.abs(trees.lowest[trees.roots]), np.abs(trees.highest[trees.roots])).sum(axis=0)

    def whole(size: int) -> Ints:
        return np.zeros(size, dtype=np.int64)

    eight = np.zeros(begins[-1] // 8 + 1, dtype=np.int64)
    return Cells(
        begins=begins,
        sums=np.zeros((begins[-1], k)),
        changes=eight.view(np.bool_),
        eight=eight,
        size=np.abs(trees.base) + largest,
        first=whole(d),
        last=whole(d),
        path_first=whole(d),
        path_last=whole(d),
        path_codes=np.ones(len(columns.choices), dtype=np.bool_),
        path=whole(deep),
        stack=whole(deep),
        moves=whole(deep),
        since=whole(deep),
        until=whole(deep),
        codes=np.zeros((deep, most), dtype=np.bool_),
        now=np.zeros(most, dtype=np.bool_),
        own=np.zeros(k),
        here=np.zeros(k),
        error=np.zeros(1),
    )


@inlined
def limit_cells(trees: Trees, columns: Columns, table: Table, i: int, cells: Cells) -> None:
    """The first and the last cell of each number that lie within the limits of row i."""
    for j in range(table.rows.shape[1]):
        if table.free[i, j] and columns.begins[j + 1] == columns.begins[j]:
            cells.first[j] = cells.path_first[j] = cell_of(trees, j, table.low[i, j])
            cells.last[j] = cells.path_last[j] = cell_of(trees, j, table.high[i, j])


@inlined
def cell_of(trees: Trees, j: int, value: float) -> int:
    """The cell in which a value of number j lies: how many thresholds are not above it."""
    begin, end = trees.cuts.begins[j], trees.cuts.begins[j + 1]
    return int(np.searchsorted(trees.cuts.threshold[begin:end], value, side="right"))


@compiled
def visit_leaves(trees: Trees, columns: Columns, table: Table, i: int, t: int, cells: Cells) -> int:
    """Add the value of the row's own leaf of a tree to the sums of the row; and of each leaf that is reached by
    changing one feature, what it brings beyond that, to the cells from which it is reached. Returns how many nodes were
    visited."""
    x, stack, moves, since, until = table.rows[i], cells.stack, cells.moves, cells.since, cells.until
    path_first, path_last = cells.path_first, cells.path_last
    top, node, moved, low, high, visits, home, passed = -1, trees.roots[t], -1, 0, 0, 0, -1, 0
    while True:  # the row's own path first, then what branches off it
        visits += 1
        f = trees.feature[node]
        if f < 0:
            if moved < 0:
                home = node
                for c in range(len(cells.own)):
                    cells.own[c] += trees.value[node, c]
                for p in range(passed):
                    f = cells.path[p]
                    path_first[f], path_last[f] = cells.first[f], cells.last[f]
                    for q in range(columns.begins[f], columns.begins[f + 1]):
                        cells.path_codes[q] = True
            else:
                add_leaf(trees, columns, t, node, home, moved, low, high, cells)
            if top < 0:
                return visits
            node, moved, low, high = stack[top], moves[top], since[top], until[top]
            for p in range(columns.begins[moved + 1] - columns.begins[moved]):
                cells.now[p] = cells.codes[top, p]
            top -= 1
            continue
        category, place = trees.members[node] >= 0, trees.cuts.place[node]
        if f != moved:
            leftwards = goes_left(trees, node, x[f])
            if moved < 0 and table.free[i, f]:  # the other side waits
                stack[top + 1], moves[top + 1] = trees.right[node] if leftwards else trees.left[node], f
                cells.path[passed] = f
                passed += 1
                if category:
                    top += choose_codes(trees, columns, table, i, node, f, leftwards, top + 1, cells)
                else:
                    since[top + 1] = max(path_first[f], place + 1) if leftwards else path_first[f]
                    until[top + 1] = path_last[f] if leftwards else min(path_last[f], place)
                    top += since[top + 1] <= until[top + 1]
                    if leftwards:
                        path_last[f] = min(path_last[f], place)
                    else:
                        path_first[f] = max(path_first[f], place + 1)
            node = trees.left[node] if leftwards else trees.right[node]
        elif category:
            left, right = divide_codes(trees, columns, node, f, top + 1, cells)
            if left and right:
                top += 1
                stack[top], moves[top] = trees.right[node], f
            node = trees.left[node] if left else trees.right[node]
        else:
            if low <= place and high > place:
                top += 1
                stack[top], moves[top], since[top], until[top] = trees.right[node], f, place + 1, high
            if low <= place:
                node, high = trees.left[node], min(high, place)
            else:
                node = trees.right[node]


@inlined
def choose_codes(
    trees: Trees, columns: Columns, table: Table, i: int, node: int, f: int, leftwards: bool, top: int, cells: Cells
) -> bool:
    """The categories that row i may be changed to and with which it leaves its path at a node; whether there are any.
    Others are left of those with which it stays on its path."""
    begin, some = columns.begins[f], False
    for p in range(columns.begins[f + 1] - begin):
        code = columns.choices[begin + p]
        leaves = cells.path_codes[begin + p] and goes_left(trees, node, code) != leftwards
        inside = code != table.rows[i, f] and table.low[i, f] <= code and code <= table.high[i, f]
        cells.codes[top, p] = leaves and inside
        cells.path_codes[begin + p] = cells.path_codes[begin + p] and not leaves
        some = some or cells.codes[top, p]
    return some


@inlined
def divide_codes(trees: Trees, columns: Columns, node: int, f: int, top: int, cells: Cells) -> tuple[bool, bool]:
    """Of the current categories, those that go left stay unless there are none; those that go right wait, or stay if
    they are all. Whether there are any on each side."""
    begin, left, right = columns.begins[f], False, False
    for p in range(columns.begins[f + 1] - begin):
        leftwards = goes_left(trees, node, columns.choices[begin + p])
        cells.codes[top, p] = cells.now[p] and not leftwards
        right = right or cells.codes[top, p]
        left = left or (cells.now[p] and leftwards)
    if left and right:
        for p in range(columns.begins[f + 1] - begin):
            cells.now[p] = cells.now[p] and not cells.codes[top, p]
    return left, right


@inlined
def add_leaf(
    trees: Trees, columns: Columns, t: int, node: int, home: int, f: int, low: int, high: int, cells: Cells
) -> None:
    """Add what a leaf brings beyond the row's own to a run of cells of number f, of which only the first one and the
    one after the last are changed; or to each category in question."""
    only, begin = trees.output[t], cells.begins[f]
    for c in range(len(cells.own)) if only < 0 else range(only, only + 1):
        more = trees.value[node, c] - trees.value[home, c]
        if columns.begins[f + 1] == columns.begins[f]:
            cells.sums[begin + low, c] += more
            cells.sums[begin + high + 1, c] -= more
            cells.changes[begin + low] = cells.changes[begin + high + 1] = True
        else:
            for p in range(columns.begins[f + 1] - columns.begins[f]):
                if cells.now[p]:
                    cells.sums[begin + np.int64(columns.choices[columns.begins[f] + p]), c] += more


@inlined
def next_change(cells: Cells, begin: int, end: int) -> int:
    """The first cell from `begin` to `end` in which sums change; -1 if there is none."""
    place = begin
    while place <= end:
        if place % 8 == 0 and cells.eight[place // 8] == 0:
            place += 8
        elif cells.changes[place]:
            return place
        else:
            place += 1
    return -1


@inlined
def last_change(cells: Cells, begin: int, end: int) -> int:
    """The last cell from `begin` to `end` in which sums change; -1 if there is none."""
    place = end
    while place >= begin:
        if place % 8 == 7 and cells.eight[place // 8] == 0:
            place -= 8
        elif cells.changes[place]:
            return place
        else:
            place -= 1
    return -1


@inlined
def clear_numbers(begin: int, end: int, cells: Cells) -> None:
    place = next_change(cells, begin, end - 1)
    while place >= 0:
        cells.changes[place] = False
        for c in range(cells.sums.shape[1]):
            cells.sums[place, c] = 0.0
        place = next_change(cells, place + 1, end - 1)
