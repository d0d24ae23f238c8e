"""The search for ReLU networks where more is required than the goal, in compiled code: as `search`, with lines that
requirements cut. Level one finds the nearest single change that satisfies all of them, unless there is none."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import ascend, keep_top, next_beam
from grace.methods.compiled.first_level import first_beam, follow_first, single_change
from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.polish import Work, margin_of, pull_back_both_ways
from grace.methods.compiled.required_moves import follow_required, try_required_moves
from grace.methods.compiled.required_polish import finish_required, polish_required, tighten_required
from grace.models.compiled import Floats, Layers, activate, compiled

ASCENTS = 2  # times that each value of a state in turn takes that with the best margin


@compiled
def search_required_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, nearest: bool,
    tolerance: float, found: Floats, work: Work,
) -> None:  # fmt: skip
    """The answers to some rows, into `found`; the row itself where there is none. `nearest` prefers the nearest answer
    with at most so many changes to the fewest changes."""
    d, enough = table.rows.shape[1], np.inf if nearest else tolerance
    for i in range(begin, end):
        answer = found[i]
        least = single_change(net, goal, columns, table, i, enough, tolerance, answer, work)
        if (least < np.inf and not nearest) or most < 2:
            continue
        follow_first(net, goal, columns, table, i, work)
        width, now = first_beam(table, i, work), 0
        for level in range(2, min(most, d) + 1):
            if least < np.inf and not nearest:
                break
            for place in range(len(work.top)):
                work.top[place] = -np.inf
            for b in range(width):
                activate(net, work.states[now, b], work.layers[b])
                try_required_moves(net, goal, columns, table, i, b, work.sets[now, b], level - 1, tolerance, work)
                for j in range(d):
                    keep_top(work.top, work.margin[b, j])
            useful = min(tolerance, work.top[len(work.top) - 1])
            for b in range(width):  # lines that may reach the goal or enter the next beam
                follow_required(net, goal, columns, table, i, b, useful, tolerance, work)
            least = finish_required(net, goal, columns, table, i, now, width, least, tolerance, answer, work)
            if least < np.inf and not nearest:  # others may reach the goal after coordinate ascent, and be nearer
                leave_out(width, tolerance, work)
            width = next_beam(table, i, now, width, level, work)
            now = 1 - now
            least = ascend_all(net, goal, columns, table, i, now, width, level, least, tolerance, answer, work)


@compiled
def leave_out(width: int, tolerance: float, work: Work) -> None:
    """Forget the moves that reach the goal."""
    for b in range(width):
        for j in range(work.margin.shape[1]):
            if work.margin[b, j] >= tolerance:
                work.margin[b, j] = -np.inf


@compiled
def ascend_all(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int, size: int,
    least: float, tolerance: float, answer: Floats, work: Work,
) -> float:  # fmt: skip
    """Coordinate ascent in all states of the beam, which have so many changes: a value that suited one requirement may
    have to suit another one with the last change. Those that reach the goal are polished: the nearest answer, if it is
    nearer than `least`; returns its distance."""
    d, before = table.rows.shape[1], least
    for b in range(width):
        for _ in range(ASCENTS):
            ascend(net, goal, columns, table, i, b, now, size, work)
        for j in range(d):
            work.best[j] = work.states[now, b, j]
        if margin_of(net, goal, table, i, work.best, work) >= tolerance:
            far = pull_back_both_ways(net, goal, columns, table, i, work.best, least, tolerance, work)
            if far < least:
                least = far
                for j in range(d):
                    answer[j] = work.best[j]
    if least < before:
        least = tighten_required(net, goal, columns, table, i, answer, tolerance, work)
    return least


@compiled
def polish_required_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, rows: Floats,
    tolerance: float, work: Work,
) -> None:  # fmt: skip
    """Make rows that reach the goal and satisfy all requirements irreducible and near."""
    for i in range(begin, end):
        activate(net, table.rows[i], work.origin)
        polish_required(net, goal, columns, table, i, rows[i], tolerance, work)
