"""The search for answers of tree ensembles over many rows, in compiled code: one row is one loop over the number of
changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.trees.bounds import remember
from grace.methods.trees.branch import DONE, STOPPED, advance, begin_level, begin_row, open_all
from grace.methods.trees.cells import Cells, cells_of
from grace.methods.trees.first_level import single_change
from grace.methods.trees.margins import Aims
from grace.methods.trees.regions import LIVE, VISITS
from grace.methods.trees.search_nodes import CROWDED, LOST, UNSURE, Search, limit_moves, search_arrays
from grace.methods.trees.slots import joined
from grace.methods.trees.steps import Steps, descend, settle, steps_arrays
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined, sort_by
from grace.models.trees.compiled import Trees

TRIED = 24  # features that a descent tries, by what each could bring alone
CELLS = 32  # cells of a row in question that are kept
EARLY = 8  # the part of its visits after which a search without an answer begins anew with one from descents
EXACT = 2  # changes up to which the search for the nearest answer of all does not begin with descents
GROUPS = 3  # classes towards which a descent is tried
STARTS = 8  # features from which further descents begin
COMPLETE, PARTIAL = 0, 1


class TreeWork(NamedTuple):
    """Arrays to work with, one set per thread."""

    search: Search
    steps: Steps
    tried: Ints  # (TRIED,)
    answer: Floats  # (d,)
    guess: Floats  # (d,)
    cells: Cells


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
    tried, answer, guess = np.zeros(TRIED, dtype=np.int64), np.zeros(d), np.zeros(d)
    return TreeWork(search, steps_arrays(trees), tried, answer, guess, cells_of(trees, columns))


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
        guessed, cost, answered, fresh = -1, np.inf, False, True
        for changes in range(most if nearest else first[i], most + 1):
            known, code = guessed > 0 and (nearest or guessed <= changes), STOPPED
            if changes == 1:
                s.region.counts[VISITS] += single_change(trees, aims, columns, table, i, work.answer, work.cells, s)
                code = DONE
            elif fresh or known:
                begin_with(trees, aims, columns, table, i, changes, known, cost, work)
                fresh = False
            else:
                begin_level(aims, changes, s)
            if changes > 1 and (not nearest or most <= EXACT):
                code = advance(trees, aims, columns, table, i, nearest, visits // EARLY, work.answer, s)
            if code == STOPPED and guessed < 0 and s.best[0] == np.inf:  # begin again with an answer, if one is found
                guessed, cost = by_descent(trees, aims, columns, table, i, most, visits // 64, work)
                known = guessed > 0 and (nearest or guessed <= changes)
                begin_with(trees, aims, columns, table, i, changes, known, cost, work)
            if code == STOPPED:
                left = max(visits - s.region.counts[VISITS], visits // (2 * most))
                code = advance(trees, aims, columns, table, i, nearest, left, work.answer, s)
            if code == STOPPED or s.state[LOST] or s.state[CROWDED]:
                found.state[i] = PARTIAL
            if s.best[0] < np.inf or s.state[UNSURE] > 0:
                answered = s.best[0] < np.inf
                found.changes[i], found.least[i] = changes, s.best[1]
                break
        found.cells[i] = s.state[UNSURE]
        for place in range(s.state[UNSURE]):
            for f in range(d):
                found.unsure[i, place, f] = s.unsure[place, f]
        if answered and found.state[i] == PARTIAL:
            nearest_within(trees, aims, columns, table, i, visits // 8, work)
        if answered:
            settle(trees, aims, columns, table, i, work.answer, work.steps)
            for f in range(d):
                found.rows[i, f] = work.answer[f]


@inlined
def begin_with(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, changes: int, known: bool, cost: float,
    work: TreeWork,
) -> None:  # fmt: skip
    """Begin to look for answers with so many changes; only for nearer ones than `guess`, if that is `known`."""
    allow(table.free[i], work.search)
    begin_row(trees, aims, columns, table, i, changes, work.search)
    if known:
        work.search.best[0] = cost
        limit_moves(trees, columns, table, i, work.search)
        for f in range(len(work.answer)):
            work.answer[f] = work.guess[f]


@inlined
def nearest_within(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, visits: int, work: TreeWork
) -> None:  # fmt: skip
    """The nearest changes to the features that an answer changes, in its place."""
    s, changes, total = work.search, 0, 0.0
    for f in range(len(work.answer)):
        s.free[f] = work.answer[f] != table.rows[i, f]
        changes += s.free[f]
        total = joined(columns, total, cost_of(columns, f, table.rows[i, f], work.answer[f]))
    begin_row(trees, aims, columns, table, i, changes, s)
    s.best[0] = total
    limit_moves(trees, columns, table, i, s)
    advance(trees, aims, columns, table, i, False, visits, work.answer, s)


@inlined
def by_descent(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, visits: int, work: TreeWork
) -> tuple[int, float]:
    """The best of some descents, each improved to the fewest and nearest changes of the same features, in `guess`;
    returns how many there are, 0 if there is none, and what they cost."""
    d = table.rows.shape[1]
    count = most_promising(trees, aims, table, i, work)
    fewest, least = 0, np.inf
    for start in range(-1, min(STARTS, count)):
        feature = -1 if start < 0 else work.tried[start]
        for turn in range(GROUPS):
            reached = descend(trees, aims, columns, table, i, turn, feature, most, work.tried, work.steps)
            if reached or start >= 0:
                break
        if not reached:
            continue
        changes, cost = nearest_of_descent(trees, aims, columns, table, i, visits, work)
        if fewest == 0 or changes < fewest or (changes == fewest and cost < least):
            fewest, least = changes, cost
            for f in range(d):
                work.guess[f] = work.answer[f]
    return fewest, least


@inlined
def most_promising(trees: Trees, aims: Aims, table: Table, i: int, work: TreeWork) -> int:
    """The features that could bring most to any functional by themselves, in `tried`; returns how many there are."""
    s, d, count = work.search, table.rows.shape[1], 0
    open_all(s)
    for q in range(aims.functional.shape[1]):
        remember(trees, aims.functional[aims.kind[i], q], table.rows[i], 1, q, s.region)
        for at in range(s.region.counts[LIVE]):
            slot = s.region.live[at]
            f = s.region.slot_feature[slot]
            s.of_feature[f] = max(s.of_feature[f], s.region.gain[slot])
    for f in range(d):
        s.order[f] = f
    sort_by(s.of_feature, -1.0, s.order, d)
    for place in range(d):
        f = s.order[place]
        s.of_feature[f] = 0.0
        if table.free[i, f] and count < len(work.tried):
            work.tried[count] = f
            count += 1
    for place in range(count, len(work.tried)):
        work.tried[place] = -1
    return count


@compiled
def nearest_of_descent(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, visits: int, work: TreeWork
) -> tuple[int, float]:
    """The fewest and nearest changes to the features that a descent has changed, in `answer`; returns how many there
    are, and what they cost."""
    s, d, changed, total = work.search, table.rows.shape[1], 0, 0.0
    for f in range(d):
        s.free[f] = work.steps.changed[f]
        changed += s.free[f]
    for changes in range(1, changed + 1):
        begin_row(trees, aims, columns, table, i, changes, s)
        advance(trees, aims, columns, table, i, False, visits, work.answer, s)
        if s.best[0] < np.inf:
            return changes, s.best[0]
    for f in range(d):
        work.answer[f] = work.steps.row[f]
        total = joined(columns, total, cost_of(columns, f, table.rows[i, f], work.answer[f]))
    return changed, total
