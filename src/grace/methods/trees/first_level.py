"""All single changes of a row that reach the goal, in compiled code: the nearest is an answer, and if there is none,
two changes are needed.

The sums of cells (see `cells`) have been rounded in another order than the sums of a row; cells that come near to the
goal are therefore added up again.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of, said_within
from grace.methods.trees.cells import Cells, cell_of, clear_numbers, last_change, limit_cells, next_change, visit_leaves
from grace.methods.trees.margins import DROPPED, IN_DOUBT, Aims, may_reach, verdict_of
from grace.methods.trees.regions import below
from grace.methods.trees.rules import limits_by_rules
from grace.methods.trees.search_nodes import CROWDED, LOST, NODES, UNSURE, Search, record_doubt
from grace.methods.trees.slots import joined
from grace.models.compiled import Floats, compiled, inlined
from grace.models.trees.compiled import Trees, add_up

EPSILON = float(np.finfo(np.float64).eps)


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
        # each leaf is added and taken off, to cells and then to sums, each to at most four times the size; a
        # functional has two terms and an offset
        additions = len(trees.roots) + 4 * visits
        cells.error[0] = 8.0 * EPSILON * ((additions + 8) * most * heaviest + offset)
        if not table.free[i, j]:
            continue
        if columns.begins[j + 1] > columns.begins[j]:
            try_categories(trees, aims, columns, table, i, j, answer, cells, s)
            for cell in range(begin, end):
                for c in range(k):
                    cells.sums[cell, c] = 0.0
        else:
            try_numbers(trees, aims, columns, table, i, j, answer, cells, s)
            clear_numbers(begin, end, cells)
    return visits


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
    """Number f from one run of cells with the same sums to the next: outwards from the cell of the row, in both
    directions."""
    x, begin, first, last = table.rows[i, f], cells.begins[f], cells.first[f], cells.last[f]
    lowest, highest = limits_by_rules(table, i, table.rows[i], f, table.low[i, f], table.high[i, f])
    cuts = trees.cuts.threshold[trees.cuts.begins[f] : trees.cuts.begins[f + 1]]
    own = cell_of(trees, f, x)
    for upwards in (True, False):
        for c in range(len(cells.own)):
            cells.here[c] = cells.own[c]
        # going up, sums change at the first cell of a run; going down, they change back after it
        place = (
            next_change(cells, begin + own + 1, begin + last)
            if upwards
            else last_change(cells, begin + first + 1, begin + own)
        )
        while place >= 0:
            for c in range(len(cells.own)):
                cells.here[c] += cells.sums[place, c] if upwards else -cells.sums[place, c]
            cell = place - begin
            beyond = (
                next_change(cells, place + 1, begin + last)
                if upwards
                else last_change(cells, begin + first + 1, place - 1)
            )
            place = beyond
            if not may_reach(aims, i, cells.here, cells.error[0]):
                continue
            low, high = lowest, highest
            if upwards:
                low = max(low, cuts[cell - 1])
                high = high if beyond < 0 else min(high, below(cuts[beyond - begin - 1]))
            else:
                high = min(high, below(cuts[cell - 1]))
                low = low if beyond < 0 else max(low, cuts[beyond - begin - 1])
            if columns.whole[f]:
                low, high = np.ceil(low), np.floor(high)
            if low <= high:
                if not joined(columns, 0.0, cost_of(columns, f, x, low if upwards else high)) < s.best[0]:
                    break
                if take(trees, aims, columns, table, i, f, low, high, answer, cells, s):
                    break


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
