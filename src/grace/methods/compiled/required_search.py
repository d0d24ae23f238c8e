"""The search for ReLU networks where more is required than the goal, in compiled code: as `search`, with lines that
requirements cut. Level one finds the nearest single change that satisfies all of them, unless there is none."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled import first_level as plain
from grace.methods.compiled.beam import next_beam
from grace.methods.compiled.first_level import first_beam
from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.polish import BEAM, Work
from grace.methods.compiled.required import activate, variant
from grace.methods.compiled.required_goal import margin_of_values
from grace.methods.compiled.required_lines import margin_of_line, nearest_value
from grace.methods.compiled.required_moves import ascend, follow_required, margins_of_moves, try_required_moves
from grace.methods.compiled.required_polish import (
    finish_required,
    margin_of,
    polish_required,
    pull_back_both_ways,
    tighten_required,
)
from grace.models.compiled import Floats, Layers, compiled, inlined, sort_by

ASCENTS = 2  # times that each value of a state in turn takes that with the best margin


try_single_moves = inlined(
    variant(plain.try_single_moves, margins_of_moves=margins_of_moves, margin_of_line=margin_of_line)
)
single_change = compiled(
    variant(
        plain.single_change,
        activate=activate,
        margin_at=margin_of_values,
        try_single_moves=try_single_moves,
        nearest_value=nearest_value,
    )
)


@compiled
def search_required_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, nearest: bool,
    tolerance: float, found: Floats, work: Work,
) -> None:  # fmt: skip
    """The answers to some rows, into `found`; the row itself where there is none. `nearest` prefers the nearest answer
    with at most so many changes to the fewest changes."""
    d, enough, top = table.rows.shape[1], np.inf if nearest else tolerance, work.lines.required.top
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
            for place in range(len(top)):
                top[place] = -np.inf
            for b in range(width):
                activate(net, work.states[now, b], work.layers[b])
                try_required_moves(net, goal, columns, table, i, b, work.sets[now, b], level - 1, tolerance, work)
                for j in range(d):
                    keep_top(top, work.margin[b, j])
            useful = min(tolerance, top[len(top) - 1])
            for b in range(width):  # lines that may reach the goal or enter the next beam
                follow_required(net, goal, columns, table, i, b, useful, tolerance, work)
            least = finish_required(net, goal, columns, table, i, now, width, least, tolerance, answer, work)
            if least < np.inf and not nearest:  # others may reach the goal after coordinate ascent, and be nearer
                leave_out(width, tolerance, work)
            width = next_beam(table, i, now, width, level, work)
            now = 1 - now
            least = ascend_all(net, goal, columns, table, i, now, width, level, least, tolerance, answer, work)


@compiled
def follow_first(net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, work: Work) -> None:
    """Follow the lines of a row that no single change answers where they may lead into the first beam, those with the
    largest bounds first."""
    d, margin, top = table.rows.shape[1], work.margin[0], work.lines.required.top[:BEAM]
    for place in range(BEAM):
        top[place] = -np.inf
    for j in range(d):
        work.order[j], work.gain[j] = j, max(work.rising[j], work.falling[j]) if table.free[i, j] else -np.inf
        keep_top(top, margin[j])
    sort_by(work.gain, -1.0, work.order, d)
    for place in range(d):
        j, useful = work.order[place], max(top[BEAM - 1], margin[work.order[place]])
        if work.gain[j] > useful and columns.begins[j + 1] == columns.begins[j]:
            _, _, best, where = nearest_value(
                net, goal, columns, table, i, j, work.layers[0], np.inf, useful, np.inf, work.rising[j],
                work.falling[j], work.lines,
            )  # fmt: skip
            if best > margin[j]:
                margin[j], work.value[0, j] = best, where
                keep_top(top, best)


@inlined
def keep_top(top: Floats, value: float) -> None:
    """Insert a value among the largest ones, which fall."""
    place = len(top) - 1
    if value > top[place]:
        while place > 0 and top[place - 1] < value:
            top[place] = top[place - 1]
            place -= 1
        top[place] = value


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
