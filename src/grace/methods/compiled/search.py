"""The search for a ReLU network on a CPU, in compiled code: one row is one loop, rows are shared between threads.

Level one follows every feature along its exact line, unless a bound says that the line does not reach the goal: it
finds the nearest single change, or proves that there is none (`first_level`). Later levels are a beam search over
features, each tried at the ends of its range and the most promising at values between (`beam`). At the first level
where a row reaches its goal, several sets of features are polished: each value is pulled back as far as the goal
allows, those first that give up least margin for their cost.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.beam import add_samples, ascend, follow, margins_of_block, next_beam, place_move, try_ends
from grace.methods.compiled.first_level import first_beam, follow_first, single_change
from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.compiled.polish import FINALISTS, STRONGEST, Work, distance, margin_of, pull_back_both_ways, tighten
from grace.models.compiled import BLOCK, Floats, Layers, activate, compiled, inlined, largest_first

CLOSER = 5  # how often values of the last feature are tried, each time closer to the best one


@compiled
def search_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, begin: int, end: int, most: int, nearest: bool,
    tolerance: float, found: Floats, work: Work,
) -> int:  # fmt: skip
    """The answers to some rows, into `found`; the row itself where there is none. `nearest` prefers the nearest answer
    with at most so many changes to the fewest changes. Returns how many sets of features were polished at the last
    level of the last row; what they began with is left in `starts`."""
    begun = 0
    for i in range(begin, end):
        begun = search_row(net, goal, columns, table, i, most, nearest, tolerance, found[i - begin], work)
    return begun


@inlined
def search_row(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, most: int, nearest: bool,
    tolerance: float, answer: Floats, work: Work,
) -> int:  # fmt: skip
    """The answer to a row; the row itself where there is none. Returns how many sets of features were polished at the
    last level; what they began with is left in `starts`."""
    enough = np.inf if nearest else tolerance
    least, begun = single_change(net, goal, columns, table, i, enough, tolerance, answer, work), 0
    if (least < np.inf and not nearest) or most < 2:
        return begun
    follow_first(net, goal, columns, table, i, work)
    width, now = first_beam(table, i, work), 0
    for level in range(2, min(most, table.rows.shape[1]) + 1):
        if least < np.inf and not nearest:
            break
        for b in range(width):
            if level > 2:
                ascend(net, goal, columns, table, i, b, now, level - 1, work)
            activate(net, work.states[now, b], work.layers[b])
            try_ends(net, goal, columns, table, i, b, work.sets[now, b], level - 1, work)
            follow(net, goal, columns, table, i, b, tolerance, work)
        least, begun = finish(net, goal, columns, table, i, now, width, least, tolerance, answer, work)
        if level < most:
            width = next_beam(table, i, now, width, level, work)
            now = 1 - now
    return begun


@inlined
def finish(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int,
    least: float, tolerance: float, answer: Floats, work: Work,
) -> tuple[float, int]:  # fmt: skip
    """Polish the most promising sets of features that reach the goal. The nearest answer, if it is nearer than `least`,
    its distance, and how many were polished."""
    d, begun = table.rows.shape[1], 0
    for turn in range(choose_finalists(net, goal, columns, table, i, now, width, tolerance, work)):
        b, j = work.finalists[turn] // d, work.finalists[turn] % d
        for c in range(d):
            work.best[c] = work.states[now, b, c]
        work.best[j] = work.value[b, j]
        if is_known(work.starts, begun, work.best) or margin_of(net, goal, table, i, work.best, work) < tolerance:
            continue
        for c in range(d):
            work.starts[begun, c] = work.best[c]
        begun += 1
        far = pull_back_both_ways(net, goal, columns, table, i, work.best, least, tolerance, work)
        if far < least:
            least = far
            for c in range(d):
                answer[c] = work.best[c]
    if least < np.inf:
        least = tighten(net, goal, columns, table, i, answer, tolerance, work)
    return least, begun


@inlined
def choose_finalists(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, now: int, width: int, tolerance: float,
    work: Work,
) -> int:  # fmt: skip
    """The states and further features that reach the goal and should cost least, were the last feature's line straight,
    and those with the best margins. They leave the beam, and each feature takes the value with the best margin of some
    on its line. Returns how many there are."""
    x, d, hidden, margins = table.rows[i], table.rows.shape[1], len(net.leak), work.margin.reshape(-1)
    for b in range(width):
        base = distance(columns, x, work.states[now, b])
        here = margin_at(goal, i, work.layers[b], net.units[hidden], net.widths[hidden])
        for j in range(d):
            margin, work.worth[b * d + j] = work.margin[b, j], -np.inf
            if margin >= tolerance:
                share = 1.0
                if columns.begins[j + 1] == columns.begins[j]:
                    share = min(1.0, max(0.0, (tolerance - here) / (margin - here)))
                work.worth[b * d + j] = -(base + share * cost_of(columns, j, x[j], work.value[b, j]))
    count = 0
    for part in range(2):
        keys, most = work.worth if part == 0 else margins, FINALISTS if part == 0 else STRONGEST
        some = largest_first(keys, work.finalists[count:], width * d, most)
        for place in range(count, count + some):
            at = work.finalists[place]
            if margins[at] >= tolerance:
                work.worth[count], margins[at] = margins[at], -np.inf
                work.finalists[count] = at
                count += 1
    for closer in range(CLOSER):
        moves = 0
        for turn in range(count):
            b, j, begun = work.finalists[turn] // d, work.finalists[turn] % d, moves
            inside = table.low[i, j] < work.value[b, j] < table.high[i, j]
            if columns.begins[j + 1] == columns.begins[j] and (closer == 0 or inside):
                samples = BLOCK // (FINALISTS + STRONGEST)
                moves = add_samples(columns, table, i, j, samples, closer, work.value[b, j], moves, work)
            for c in range(begun, moves):
                place_move(net, table, i, work.layers[b], j, work.moved_to[c], c, work)
                work.moved[c] = turn
        margins_of_block(net, goal, i, moves, work)
        for c in range(moves):
            turn = work.moved[c]
            if work.moved_margin[c] > work.worth[turn]:
                work.worth[turn] = work.moved_margin[c]
                work.value[work.finalists[turn] // d, work.finalists[turn] % d] = work.moved_to[c]
    return count


@inlined
def is_known(rows: Floats, count: int, row: Floats) -> bool:
    """Whether a row is among the first ones."""
    for other in range(count):
        same = 0
        for j in range(len(row)):
            same += rows[other, j] == row[j]
        if same == len(row):
            return True
    return False
