"""The search for answers of tree ensembles over many rows, in compiled code: one row is one loop over the number of
changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.trees.bounds import VISITS
from grace.methods.trees.branch import (
    LOST,
    STOPPED,
    UNSURE,
    Aims,
    Search,
    advance,
    begin_row,
    joined,
    limit_moves,
    search_arrays,
)
from grace.methods.trees.steps import Steps, descend, settle, steps_arrays
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined
from grace.models.trees.compiled import Trees

TRIED = 24  # features that a descent tries, by what each could bring alone
CELLS = 32  # cells of a row in question that are kept
EXACT = 2  # changes up to which the search needs no answer to begin with
GROUPS = 3  # classes towards which a descent is tried
COMPLETE, PARTIAL = 0, 1


class TreeWork(NamedTuple):
    """Arrays to work with, one set per thread."""

    search: Search
    steps: Steps
    tried: Ints  # (TRIED,)
    answer: Floats  # (d,)
    guess: Floats  # (d,)


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
    return TreeWork(search, steps_arrays(trees), np.zeros(TRIED, dtype=np.int64), np.zeros(d), np.zeros(d))


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
    the nearest; or with `nearest`, the nearest of all. A row may visit so many nodes of trees, and half as many again
    for a number of changes that it has not begun with by then."""
    s, d = work.search, table.rows.shape[1]
    for i in range(begin, end):
        s.region.counts[VISITS] = 0
        found.cells[i], found.state[i], found.changes[i], found.least[i] = 0, COMPLETE, most + 1, np.inf
        guessed, cost, answered = -1, np.inf, False
        for changes in range(most if nearest else first[i], most + 1):
            if guessed < 0 and changes > EXACT:  # an answer from which on only fewer or nearer changes are sought
                guessed, cost = by_descent(trees, aims, columns, table, i, most, visits // 8, work)
            allow(table.free[i], s)
            begin_row(trees, aims, columns, table, i, changes, s)
            if guessed > 0 and (nearest or guessed <= changes):
                s.best[0] = cost
                limit_moves(columns, table, i, s)
                for f in range(d):
                    work.answer[f] = work.guess[f]
            left = max(visits - s.region.counts[VISITS], visits // (2 * most))
            code = advance(trees, aims, columns, table, i, nearest, left, work.answer, s)
            if code == STOPPED or s.state[LOST]:
                found.state[i] = PARTIAL
            if s.best[0] < np.inf or s.state[UNSURE] > 0:
                answered = s.best[0] < np.inf
                found.changes[i], found.least[i] = changes, s.best[1]
                break
        found.cells[i] = s.state[UNSURE]
        for place in range(s.state[UNSURE]):
            for f in range(d):
                found.unsure[i, place, f] = s.unsure[place, f]
        if answered:
            settle(trees, aims, columns, table, i, work.answer, work.steps)
            for f in range(d):
                found.rows[i, f] = work.answer[f]


@inlined
def by_descent(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, visits: int, work: TreeWork
) -> tuple[int, float]:
    """An answer found by descent, improved to the fewest and nearest changes of the same features, in `guess`; returns
    how many there are, 0 if there is none, and what they cost."""
    s, d, count = work.search, table.rows.shape[1], 0
    for place in range(d):  # in the order of what they could bring, as the search before has left it
        f = s.order[place]
        if table.free[i, f] and count < len(work.tried):
            work.tried[count] = f
            count += 1
    for place in range(count, len(work.tried)):
        work.tried[place] = -1
    for turn in range(GROUPS):
        if descend(trees, aims, columns, table, i, turn, most, work.tried, work.steps):
            break
        if turn == GROUPS - 1:
            return 0, np.inf
    changed = 0
    for f in range(d):
        s.free[f] = work.steps.changed[f]
        changed += s.free[f]
    for changes in range(1, changed + 1):
        begin_row(trees, aims, columns, table, i, changes, s)
        advance(trees, aims, columns, table, i, False, visits, work.guess, s)
        if s.best[0] < np.inf:
            return changes, s.best[0]
    total = 0.0
    for f in range(d):
        work.guess[f] = work.steps.row[f]
        total = joined(columns, total, cost_of(columns, f, table.rows[i, f], work.guess[f]))
    return changed, total
