"""The search for answers of tree ensembles over many rows, in compiled code: one row is one loop over the number of
changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.methods.trees.branch import (
    LOST,
    STOPPED,
    UNSURE,
    Aims,
    Search,
    advance,
    begin_row,
    search_arrays,
)
from grace.methods.trees.steps import Steps, descend, settle, steps_arrays
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined
from grace.models.trees.compiled import Trees

TRIED = 24  # features that a descent tries, by what each could bring alone
CELLS = 32  # cells of a row in question that are kept
COMPLETE, PARTIAL = 0, 1


class TreeWork(NamedTuple):
    """Arrays to work with, one set per thread."""

    search: Search
    steps: Steps
    tried: Ints  # (TRIED,)
    answer: Floats  # (d,)


class Found(NamedTuple):
    """What is found for each of n rows."""

    rows: Floats  # (n, d) the answers; the row itself where there is none
    changes: Ints  # (n,) the number of changes at which the search ended
    state: Ints  # (n,) COMPLETE if nothing with as few changes was left out
    least: Floats  # (n,) no answer with as few changes costs less
    unsure: Floats  # (n, CELLS, d) rows that the model itself has to decide about,
    cells: Ints  # (n,) and how many


def tree_work(trees: Trees, columns: Columns, d: int, most: int) -> TreeWork:
    search = search_arrays(trees, columns, d, most, CELLS)
    return TreeWork(search, steps_arrays(trees), np.zeros(TRIED, dtype=np.int64), np.zeros(d))


def found_arrays(rows: Floats) -> Found:
    n, d = rows.shape

    def whole() -> Ints:
        return np.zeros(n, dtype=np.int64)

    return Found(rows.copy(), whole(), whole(), np.full(n, np.inf), np.zeros((n, CELLS, d)), whole())


@inlined
def allow(free: Bools, s: Search) -> None:
    for f in range(len(free)):
        s.free[f] = free[f]


@compiled
def search_rows(
    trees: Trees, aims: Aims, columns: Columns, table: Table, begin: int, end: int, first: Ints, most: int,
    nearest: bool, visits: int, found: Found, work: TreeWork,
) -> None:  # fmt: skip
    """The answers to some rows with at least `first` (n,) and at most so many changes: with the fewest, and of those
    the nearest; or with `nearest`, the nearest of all. Each number of changes may visit so many nodes of trees."""
    s = work.search
    for i in range(begin, end):
        allow(table.free[i], s)
        found.cells[i], found.state[i], found.changes[i] = 0, COMPLETE, most + 1
        answered = False
        for changes in range(most if nearest else first[i], most + 1):
            begin_row(trees, aims, columns, table, i, changes, s)
            code = advance(trees, aims, columns, table, i, nearest, visits, work.answer, s)
            if code == STOPPED or s.state[LOST]:
                found.state[i] = PARTIAL
            if s.best[0] < np.inf or s.state[UNSURE] > 0:
                answered = s.best[0] < np.inf
                found.changes[i] = changes
                break
        if not answered and s.state[UNSURE] == 0 and found.state[i] == PARTIAL:
            answered = by_descent(trees, aims, columns, table, i, most, visits, work)
            found.changes[i] = most
        found.least[i] = s.best[1]
        found.cells[i] = s.state[UNSURE]
        for place in range(s.state[UNSURE]):
            for f in range(len(work.answer)):
                found.unsure[i, place, f] = s.unsure[place, f]
        if answered:
            settle(trees, aims, columns, table, i, work.answer, work.steps)
            for f in range(len(work.answer)):
                found.rows[i, f] = work.answer[f]


@inlined
def by_descent(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, visits: int, work: TreeWork
) -> bool:  # fmt: skip
    """An answer found by descent, and then the fewest and nearest changes of the same features."""
    s, d, count = work.search, table.rows.shape[1], 0
    for place in range(d):  # in the order of what they could bring, as the search before has left it
        f = s.order[place]
        if table.free[i, f] and count < len(work.tried):
            work.tried[count] = f
            count += 1
    for place in range(count, len(work.tried)):
        work.tried[place] = -1
    if not descend(trees, aims, columns, table, i, most, work.tried, work.steps):
        s.state[UNSURE] = 0
        return False
    changed = 0
    for f in range(d):
        s.free[f] = work.steps.changed[f]
        changed += s.free[f]
    for changes in range(1, changed + 1):
        begin_row(trees, aims, columns, table, i, changes, s)
        advance(trees, aims, columns, table, i, False, visits, work.answer, s)
        if s.best[0] < np.inf:
            break
    if not s.best[0] < np.inf:
        for f in range(d):
            work.answer[f] = work.steps.row[f]
    s.state[UNSURE] = 0
    s.best[1] = 0.0
    return True
