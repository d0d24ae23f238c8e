"""All single changes of a row that reach the goal, in compiled code: the nearest is an answer, and if there is none,
two changes are needed.

Every leaf that a row reaches by changing one feature alone is visited once. Thresholds divide a number into cells in
which all sums stay the same, so that such a leaf adds to the sums of a run of cells: to the first of them, and it is
taken off again after the last. Adding up from cell to cell gives the sums everywhere along the number. These have been
rounded in another order than the sums of a row; cells that come near to the goal are therefore added up again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of, said_within
from grace.methods.trees.margins import Aims, logit_of
from grace.methods.trees.regions import below
from grace.methods.trees.search_nodes import CROWDED, LOST, NODES, UNSURE, Search, joined, record_doubt
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined
from grace.models.trees.compiled import Trees, add_up, goes_left

EPSILON = float(np.finfo(np.float64).eps)
DROPPED, ACCEPTED, IN_DOUBT = 0, 1, 2


class Cells(NamedTuple):
    """Arrays to work with, one set per thread. Each number has a cell between thresholds, and one after the last; each
    category is a cell. D is the depth of the deepest tree, and B the most categories of a feature."""

    begins: Ints  # (d + 1,) where the cells of each feature begin
    sums: Floats  # (cells, k) how much more than those of the row; all zero between two rows
    size: Floats  # (k,) a bound on the sums of absolute values of leaves, one of each tree
    first: Ints  # (d,) the first cell of each number within its limits,
    last: Ints  # (d,) and the last,
    path_first: Ints  # (d,) and those from which the path of the row in a tree is not left
    path_last: Ints
    path: Ints  # (D + 2,) the nodes of that path
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

    return Cells(
        begins=begins,
        sums=np.zeros((begins[-1], k)),
        size=np.abs(trees.base) + largest,
        first=whole(d),
        last=whole(d),
        path_first=whole(d),
        path_last=whole(d),
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


@compiled
def single_change(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, answer: Floats, cells: Cells, s: Search
) -> int:
    """The nearest single change of row i that reaches the goal, in `answer`, and its cost in `best`, infinite if there
    is none; cells in question in `unsure`. Returns how many nodes of trees were visited."""
    s.best[0] = s.best[1] = np.inf
    s.state[NODES] = s.state[UNSURE] = s.state[LOST] = s.state[CROWDED] = 0
    x, k = table.rows[i], len(trees.base)
    limit_cells(trees, columns, table, i, cells)
    for c in range(k):
        cells.own[c] = trees.base[c]
    visits = 0
    for t in range(len(trees.roots)):
        visits += visit_leaves(trees, columns, table, i, t, cells)
    most, heaviest, offset = 0.0, 1.0, 0.0
    for q in range(aims.functional.shape[1]):
        for c in range(k):
            most, heaviest = max(most, cells.size[c]), max(heaviest, abs(aims.functional[aims.kind[i], q, c]))
        if abs(aims.constant[i, q]) < np.inf:
            offset = max(offset, abs(aims.constant[i, q]))
    for j in range(len(x)):
        begin, end = cells.begins[j], cells.begins[j + 1]
        # each leaf is added and taken off, each cell is added to the next, each to at most four times the size; a
        # functional has two terms and an offset
        additions = len(trees.roots) + 2 * visits + (end - begin)
        cells.error[0] = 8.0 * EPSILON * ((additions + 8) * most * heaviest + offset)
        if table.free[i, j]:
            if columns.begins[j + 1] > columns.begins[j]:
                try_categories(trees, aims, columns, table, i, j, answer, cells, s)
            else:
                try_numbers(trees, aims, columns, table, i, j, answer, cells, s)
        for cell in range(begin, end):
            for c in range(k):
                cells.sums[cell, c] = 0.0
    return visits


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
                    f = trees.feature[cells.path[p]]
                    path_first[f], path_last[f] = cells.first[f], cells.last[f]
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
                cells.path[passed] = node
                passed += 1
                if category:
                    top += choose_codes(trees, columns, table, i, passed, f, top + 1, cells)
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
    trees: Trees, columns: Columns, table: Table, i: int, passed: int, f: int, top: int, cells: Cells
) -> bool:
    """The categories that row i may be changed to and with which it leaves its path at the last node; whether there are
    any."""
    begin, some = columns.begins[f], False
    for p in range(columns.begins[f + 1] - begin):
        x, code = table.rows[i, f], columns.choices[begin + p]
        inside = code != x and table.low[i, f] <= code and code <= table.high[i, f]
        for q in range(passed):
            node = cells.path[q]
            if trees.feature[node] == f:
                inside = inside and (goes_left(trees, node, code) == goes_left(trees, node, x)) == (q < passed - 1)
        cells.codes[top, p] = inside
        some = some or inside
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
        else:
            for p in range(columns.begins[f + 1] - columns.begins[f]):
                if cells.now[p]:
                    cells.sums[begin + np.int64(columns.choices[columns.begins[f] + p]), c] += more


@inlined
def try_categories(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, f: int, answer: Floats, cells: Cells, s: Search
) -> None:
    for p in range(columns.begins[f], columns.begins[f + 1]):
        code = columns.choices[p]
        if code == table.rows[i, f] or code < table.low[i, f] or code > table.high[i, f]:
            continue
        for c in range(len(cells.own)):
            cells.here[c] = cells.own[c] + cells.sums[cells.begins[f] + np.int64(code), c]
        if may_reach(aims, i, cells.here, cells.error[0]):
            take(trees, aims, columns, table, i, f, code, code, answer, cells, s)


@inlined
def try_numbers(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, f: int, answer: Floats, cells: Cells, s: Search
) -> None:
    """Number f from cell to cell: outwards from that of the row, in both directions."""
    x, begin, first, last = table.rows[i, f], cells.begins[f], cells.first[f], cells.last[f]
    own = cell_of(trees, f, x)
    for cell in range(first + 1, last + 1):
        for c in range(len(cells.own)):
            cells.sums[begin + cell, c] += cells.sums[begin + cell - 1, c]
    cuts = trees.cuts.threshold[trees.cuts.begins[f] : trees.cuts.begins[f + 1]]
    for turn in range(2):
        step = 1 if turn == 0 else -1
        cell = max(own + 1, first) if turn == 0 else min(own - 1, last)
        while first <= cell and cell <= last:
            for c in range(len(cells.own)):
                cells.here[c] = cells.own[c] + cells.sums[begin + cell, c]
            if may_reach(aims, i, cells.here, cells.error[0]):
                low = table.low[i, f] if cell == 0 else max(table.low[i, f], cuts[cell - 1])
                high = table.high[i, f] if cell == len(cuts) else min(table.high[i, f], below(cuts[cell]))
                if columns.whole[f]:
                    low, high = np.ceil(low), np.floor(high)
                near = low if turn == 0 else high
                if low <= high:
                    if not joined(columns, 0.0, cost_of(columns, f, x, near)) < s.best[0]:
                        break
                    if take(trees, aims, columns, table, i, f, low, high, answer, cells, s):
                        break
            cell += step


@compiled
def take(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, f: int, low: float, high: float, answer: Floats,
    cells: Cells, s: Search,
) -> bool:  # fmt: skip
    """Add up the sums of a cell of feature f again, and if the goal is reached, take its nearest value as the answer
    unless there is a nearer one; note a cell in question. Returns whether the goal is reached."""
    x = table.rows[i]
    for j in range(len(x)):
        s.trial[j] = x[j]
    near, value = low, low
    if columns.begins[f + 1] == columns.begins[f]:
        upwards = low > x[f]
        near = low if upwards else high
        value = said_within(columns, f, x[f], near, high if upwards else low)
        if not (value >= low and value <= high):
            value = near
    s.trial[f] = value
    add_up(trees, s.trial, s.sums)
    verdict = verdict_of(aims, i, s.sums)
    if verdict == DROPPED:
        return False
    s.best[1] = min(s.best[1], joined(columns, 0.0, cost_of(columns, f, x[f], near)))
    cost = joined(columns, 0.0, cost_of(columns, f, x[f], value))
    if verdict == IN_DOUBT:
        record_doubt(cost, s)
        return False
    if cost < s.best[0]:
        s.best[0] = cost
        for j in range(len(x)):
            answer[j] = s.trial[j]
    return True


@compiled
def may_reach(aims: Aims, i: int, sums: Floats, error: float) -> bool:
    """False only if sums that differ from these by rounding, within such an error, are sure not to reach the goal."""
    kind = aims.kind[i]
    if aims.contested:  # some class has to lead the original one
        own, best = aims.own[kind], -np.inf
        for c in range(len(sums)):
            if c != own:
                best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
        return best - (aims.weight[own] * sums[own] - aims.shift[own]) >= aims.behind - error
    for group in range(len(aims.groups) - 1):
        reached = True
        for q in range(aims.groups[group], aims.groups[group + 1]):
            value = aims.constant[i, q]
            for c in range(len(sums)):
                value += aims.functional[kind, q, c] * sums[c]
            reached = reached and value >= aims.excluded[i, q] - error
        if reached:
            return True
    return False


@compiled
def verdict_of(aims: Aims, i: int, sums: Floats) -> int:
    """Whether the model is sure to decide about sums of row i as was asked for, sure not to, or has to be asked."""
    kind, verdict = aims.kind[i], DROPPED
    for group in range(len(aims.groups) - 1):
        here, winner = ACCEPTED, aims.winner[kind, group]
        for q in range(aims.groups[group], aims.groups[group + 1]):
            value = aims.constant[i, q]
            for c in range(len(sums)):
                value += aims.functional[kind, q, c] * sums[c]
            here = worse(here, value, aims.needed[i, q], aims.excluded[i, q])
        if aims.odds > -np.inf and here != DROPPED:
            here = worse(here, logit_of(winner, sums), aims.odds, aims.unlikely)
        if aims.contested and here != DROPPED:
            here = worse(here, lead_over_others(aims, winner, aims.own[kind], sums), aims.ahead, aims.behind)
        if here == ACCEPTED:
            return ACCEPTED
        if here == IN_DOUBT:
            verdict = IN_DOUBT
    return verdict


@inlined
def lead_over_others(aims: Aims, winner: int, own: int, sums: Floats) -> float:
    """By how much a class leads all others but the original one."""
    best = -np.inf
    for c in range(len(sums)):
        if c not in (winner, own):
            best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
    return aims.weight[winner] * sums[winner] - aims.shift[winner] - best


@inlined
def worse(verdict: int, value: float, needed: float, excluded: float) -> int:
    """A verdict that one more value has to bear out."""
    if verdict == DROPPED or value < excluded:
        return DROPPED
    return verdict if value >= needed else IN_DOUBT
