"""Answers of tree ensembles with room around them, in compiled code; `methods.steady` does the same for any model.

A single change whose value stands in a steady run is moved a tenth of it inside; else the steps of every feature are
looked at, and the nearest steady run of all is taken, or the widest. Several changes are moved in turn, each along its
own steps, until all of them are steady. Where they cannot be, the branch and bound goes through further answers with as
few changes, within a limit.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.compiled.polish import EXHAUSTIVE, differing, distance
from grace.methods.compiled.runs import Run, better_run, inside_run, is_wider, wholes_needed
from grace.methods.steady import DEEPER, INSIDE, TURNS
from grace.methods.trees.branch import FOUND, begin_row, next_answer
from grace.methods.trees.margins import Aims, margin_of, reaches
from grace.methods.trees.regions import VISITS
from grace.methods.trees.rows import TreeWork, allow
from grace.methods.trees.search_nodes import limit_moves
from grace.methods.trees.steps import staircase
from grace.models.compiled import Floats, compiled, inlined
from grace.models.trees.compiled import Trees, add_up

OTHERS = 64  # further answers of a row that are looked at


@compiled
def steady_rows(
    trees: Trees, aims: Aims, columns: Columns, table: Table, begin: int, end: int, visits: int, rows: Floats,
    work: TreeWork,
) -> None:  # fmt: skip
    """Replace the nearest answers to some rows by steady ones with as few changes. A row may visit so many nodes of
    trees to look for further answers."""
    for i in range(begin, end):
        going = True
        while going:
            count = differing(table.rows[i], rows[i], work.search.chosen)
            if count == 1:
                steady_change(trees, aims, columns, table, i, work.search.chosen[0], rows[i], work)
            going = count > 1 and steady_changes(trees, aims, columns, table, i, count, visits, rows[i], work)


# -- steps ------------------------------------------------------------------------------------------------------------


@compiled
def run_of_steps(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, f: int, group: int, row: Floats, direction: float,
    at: float, best: Run, work: TreeWork,
) -> Run:  # fmt: skip
    """The run of number f of a row to take in a direction from x, of values that reach the goal by a group, or by any
    if that is -1. `at` is where the answer is."""
    s, x = work.steps, table.rows[i, f]
    low = max(table.low[i, f], np.nextafter(x, np.inf)) if direction > 0.0 else table.low[i, f]
    high = table.high[i, f] if direction > 0.0 else min(table.high[i, f], np.nextafter(x, -np.inf))
    if not low <= high:
        return best
    count = staircase(trees, row, f, low, high, s)
    wholes = wholes_needed(x, table.low[i, f], table.high[i, f])
    for g in range(len(aims.groups) - 1):
        since = -1
        for p in range(count + 1 if group in (-1, g) else 0):
            if p < count and margin_of(aims, i, g, s.sums[p]) >= 0.0:
                since = p if since < 0 else since
            elif since >= 0:
                first, last = s.start[since], np.nextafter(s.start[p], -np.inf) if p < count else high
                near, far = (first - x, last - x) if direction > 0.0 else (x - last, x - first)
                best = better_run(columns, f, x, direction, near, far, 0.0, wholes, at, best)
                since = -1
    return best


@inlined
def group_of(aims: Aims, i: int, sums: Floats) -> int:
    """The group by which sums of row i reach the goal, or come nearest to it."""
    best, top = 0, -np.inf
    for g in range(len(aims.groups) - 1):
        margin = margin_of(aims, i, g, sums)
        if margin > top:
            best, top = g, margin
    return best


# -- single changes ---------------------------------------------------------------------------------------------------


@compiled
def steady_change(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, f: int, row: Floats, work: TreeWork
) -> None:
    """Move the nearest single change, of feature f, into its run, or replace it by that whose run is the nearest steady
    one of all features, or the widest."""
    x = table.rows[i]
    if columns.begins[f + 1] > columns.begins[f]:
        return
    side, at, none = 1.0 if row[f] > x[f] else -1.0, abs(row[f] - x[f]), (np.inf, np.inf, -np.inf, -np.inf)
    near, far, width, _ = run_of_steps(trees, aims, columns, table, i, f, -1, x, side, at, none, work)
    value = inside_run(columns, f, x[f], side, near, far, INSIDE) if width >= 1.0 and near <= at else np.nan
    if np.isnan(value):
        f, value = nearest_run(trees, aims, columns, table, i, work)
    if np.isnan(value):
        return
    for j in range(len(x)):
        work.guess[j] = x[j]
    work.guess[f] = value
    add_up(trees, work.guess, work.search.sums)
    if reaches(aims, i, work.search.sums):
        for j in range(len(x)):
            row[j] = work.guess[j]


@compiled
def nearest_run(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, work: TreeWork) -> tuple[int, float]:
    """The nearest single change that stands inside a steady run, or in the widest run if there is none: the feature,
    and its value, NaN if there is none."""
    x, feature, value, width, least = table.rows[i], -1, np.nan, -np.inf, np.inf
    for j in range(len(x)):
        if not table.free[i, j]:
            continue
        if columns.begins[j + 1] > columns.begins[j]:
            for f in range(len(x)):
                work.guess[f] = x[f]
            for c in range(columns.begins[j], columns.begins[j + 1]):
                code = columns.choices[c]
                cost = cost_of(columns, j, x[j], code)
                if code != x[j] and table.low[i, j] <= code and code <= table.high[i, j] and (
                    is_wider(np.inf, cost, width, least)):  # fmt: skip
                    work.guess[j] = code
                    add_up(trees, work.guess, work.search.sums)
                    if reaches(aims, i, work.search.sums):
                        feature, value, width, least = j, code, np.inf, cost
            continue
        for turn in range(2):
            side, none = 1.0 if turn == 0 else -1.0, (np.inf, np.inf, -np.inf, -np.inf)
            near, far, wide, _ = run_of_steps(trees, aims, columns, table, i, j, -1, x, side, -1.0, none, work)
            if wide > -np.inf:
                said = inside_run(columns, j, x[j], side, near, far, INSIDE)
                cost = cost_of(columns, j, x[j], said)
                if not np.isnan(said) and is_wider(wide, cost, width, least):
                    feature, value, width, least = j, said, wide, cost
    return feature, value


# -- several changes --------------------------------------------------------------------------------------------------


@compiled
def steady_changes(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, count: int, visits: int, row: Floats,
    work: TreeWork,
) -> bool:  # fmt: skip
    """Move the numbers of the nearest answer into their runs; where that leaves a spike, further answers with as few
    changes compete. Returns whether this left fewer changes, which may then move further."""
    s, x = work.search, table.rows[i]
    width = move_inside(trees, aims, columns, table, i, row, work)
    fewer = fewer_changes(trees, aims, table, i, row, work)
    if fewer or width >= 1.0:
        return fewer
    least, tries = distance(columns, x, row), 0
    allow(table.free[i], s)
    s.region.counts[VISITS] = 0
    begin_row(trees, aims, columns, table, i, count, s)
    while tries < OTHERS and s.region.counts[VISITS] < visits:
        left = visits - s.region.counts[VISITS]
        if next_answer(trees, aims, columns, table, i, left, work.answer, s) != FOUND:
            break
        tries += 1
        wide = move_inside(trees, aims, columns, table, i, work.answer, work)
        far = distance(columns, x, work.answer)
        if is_wider(wide, far, width, least):
            width, least = wide, far
            for j in range(len(x)):
                row[j] = work.answer[j]
        s.best[0] = np.inf
        if width >= 1.0:
            s.best[0] = least * least if columns.norm == 2.0 else least
        limit_moves(trees, columns, table, i, s)
    return fewer_changes(trees, aims, table, i, row, work)


@compiled
def move_inside(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, row: Floats, work: TreeWork) -> float:
    """Move each changed number of an answer into the nearest steady run of its steps, or into the widest, and again
    while one that moves leaves another on a spike; where one stays on a spike, the others move to the middle of their
    runs, if that gives it room. Returns the width of the narrowest run; what is no answer afterwards stays as it
    was."""
    x, trial, sums, kept = table.rows[i], work.guess, work.search.sums, work.steps.row
    narrowest, before, share = np.inf, -np.inf, INSIDE
    for j in range(len(x)):
        trial[j] = row[j]
    add_up(trees, trial, sums)
    group = group_of(aims, i, sums)
    for turn in range(TURNS + 1):
        every = turn == 0
        if turn > 1 and share == INSIDE and narrowest < 1.0:
            every, share, before = True, DEEPER, narrowest
            for j in range(len(x)):
                kept[j] = trial[j]
        moved, narrowest = False, np.inf
        for j in range(len(x)):
            if trial[j] == x[j] or columns.begins[j + 1] > columns.begins[j]:
                continue
            side, at, none = 1.0 if trial[j] > x[j] else -1.0, abs(trial[j] - x[j]), (np.inf, np.inf, -np.inf, -np.inf)
            near, far, wide, own = run_of_steps(trees, aims, columns, table, i, j, group, trial, side, at, none, work)
            if wide < 1.0:
                other, until, wider, _ = run_of_steps(
                    trees, aims, columns, table, i, j, group, trial, -side, -1.0, none, work
                )
                if wider > wide:
                    side, near, far, wide = -side, other, until, wider
            if turn < TURNS and wide > -np.inf and (every or own < 1.0):
                value = inside_run(columns, j, x[j], side, near, far, share)
                if not np.isnan(value):
                    moved, trial[j], own = moved or value != trial[j], value, wide
            narrowest = min(narrowest, own)
        if not moved and (turn > 1 or narrowest >= 1.0):
            break
    if narrowest < 1.0 and share > INSIDE:
        narrowest = before
        for j in range(len(x)):
            trial[j] = kept[j]
    add_up(trees, trial, sums)
    if not reaches(aims, i, sums):
        return 0.0
    for j in range(len(x)):
        row[j] = trial[j]
    return narrowest


@compiled
def fewer_changes(trees: Trees, aims: Aims, table: Table, i: int, row: Floats, work: TreeWork) -> bool:
    """Take back changes of an answer that the goal does not need, as many as possible; returns whether there are any.
    Answers with more than EXHAUSTIVE changes stay as they are."""
    x, s = table.rows[i], work.search
    count = differing(x, row, s.chosen)
    for size in range(1, count if count <= EXHAUSTIVE else 0):
        for subset in range(1, (1 << count) - 1):
            kept = 0
            for place in range(count):
                kept += (subset >> place) & 1
            if kept != size:
                continue
            for j in range(len(x)):
                work.guess[j] = x[j]
            for place in range(count):
                if (subset >> place) & 1:
                    work.guess[s.chosen[place]] = row[s.chosen[place]]
            add_up(trees, work.guess, s.sums)
            if reaches(aims, i, s.sums):
                for j in range(len(x)):
                    row[j] = work.guess[j]
                return True
    return False
