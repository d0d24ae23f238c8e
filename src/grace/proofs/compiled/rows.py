"""The rows of a proof in compiled code: the ways in which each may change.

A *way* is a direction in which a feature may change: a number upwards or downwards, a category to another one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Ints, Layers, activate, compiled, inlined
from grace.proofs.compiled.blocks import Block, block
from grace.proofs.compiled.majorant import Majorant, majorant

DEPTH, WAYS, EVALUATIONS, NODES, LOADED, STUCK, GROUP = 0, 1, 2, 3, 4, 5, 6  # the state of a row
CHANGED, LEFT, OPENED, KIND, NEXT, CHILDREN, FUNCTIONAL, SPLIT, TAKEN, UPPER, AGAIN = range(11)  # of a node
FAR = 4  # ways that may go much farther than the others
HALVINGS = 40  # of the range of each changed feature, more than `THINNEST` allows


class Aims(NamedTuple):
    """Functionals of the scores: sign times one score, less another, plus a constant. A row is an answer only if all
    functionals of one of its groups are at least 0."""

    plus: Ints  # (n, q)
    minus: Ints  # (n, q) or -1
    sign: Floats  # (n, q)
    constant: Floats  # (n, q)
    slack: Floats  # (n, q) what rounding may have cost
    groups: Ints  # (g + 1,) where the functionals of each group begin
    importance: Floats  # (h,) a bound on the slope of any score in each unit of the first layer


class Search(NamedTuple):
    """The branch and bound of a row, and arrays to work with; one set per thread. W is the number of ways, K of
    changes, F of nodes on the path from the root."""

    bound: Majorant
    block: Block
    directions: Floats  # (features + categories, h) of numbers, and of categories from the row's own
    feature: Ints  # (W,)
    direction: Ints  # (W,)
    near: Floats  # (W,) the values at the ends of each way
    far: Floats
    size: Floats  # (W,) of the move to the far end
    start: Floats  # (units,) the pre-activations of the row
    lowest: Floats  # (F + 1, units) limits of the units after the first layer that hold in all children of a node
    highest: Floats
    base: Floats  # (h,) of the middle of a node
    point: Floats  # (h,)
    top: Floats  # (2, K, widest) the largest contributions
    lines: Floats  # (2, h) slopes of the ReLUs of the first layer between two parallel lines, and half their distance
    shifts: Floats  # (K + 2, units of the second layer) what each changed feature does to it, beside middle and error
    gain: Floats  # (W,) the term of each open way
    moves: Floats  # (K,) the terms of changed features,
    end: Floats  # (K,) and the end of the range where it is largest
    weight: Floats  # (K + 1,) of Jensen's inequality; that of each open way comes last
    values: Floats  # (units,)
    trial: Floats  # (d,) a candidate
    taken: Ints  # (F, K) the ways that are taken,
    low: Floats  # (F, K) and the ranges of values
    high: Floats
    open: Ints  # (F, W) the open ways, by falling gain,
    gains: Floats  # (F, W) and these
    rest: Floats  # (F,) the bound without them
    counts: Ints  # (F, 11)
    shares: Floats  # (F, parameters) of the majorant
    state: Ints  # (7,)


def search(net: Layers, d: int, most: int) -> Search:
    """Arrays for rows with d features and at most so many changes."""
    h, units, entries = int(net.widths[0]), int(net.units[-1]), len(net.tables)
    ways, bound = 2 * d + entries, majorant(net)
    frames = (HALVINGS + 1) * most + ways // FAR + 2

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Search(
        bound=bound,
        block=block(net),
        directions=np.concatenate([net.first, np.zeros((entries, h))]),
        feature=whole(ways),
        direction=whole(ways),
        near=np.zeros(ways),
        far=np.zeros(ways),
        size=np.zeros(ways),
        start=np.zeros(units),
        lowest=np.zeros((frames + 1, units)),
        highest=np.zeros((frames + 1, units)),
        base=np.zeros(h),
        point=np.zeros(h),
        top=np.zeros((2, most, int(net.widths.max()))),
        lines=np.zeros((2, h)),
        shifts=np.zeros((most + 2, int(net.widths[1]))),
        gain=np.zeros(ways),
        moves=np.zeros(most),
        end=np.zeros(most),
        weight=np.zeros(most + 1),
        values=np.zeros(units),
        trial=np.zeros(d),
        taken=whole(frames, most),
        low=np.zeros((frames, most)),
        high=np.zeros((frames, most)),
        open=whole(frames, ways),
        gains=np.zeros((frames, ways)),
        rest=np.zeros(frames),
        counts=whole(frames, 11),
        shares=np.zeros((frames, len(bound.shares))),
        state=whole(7),
    )


@compiled
def row_ways(net: Layers, columns: Columns, table: Table, aims: Aims, i: int, most: int, s: Search) -> None:
    """The ways of row i, and the state in which the search begins."""
    activate(net, table.rows[i], s.start)
    count, features = 0, 0
    for j in range(len(table.rows[i])):
        before = count
        if table.free[i, j]:
            count = find_ways(net, columns, table, i, j, count, s)
        kept = before
        for w in range(before, count):  # a way that changes no score is none
            size = 0.0
            for u in range(net.widths[0]):
                size += abs(s.directions[s.direction[w], u]) * aims.importance[u]
            size *= abs(amount(net, table, i, s, w, s.far[w]))
            if size > 0.0:
                s.feature[kept], s.direction[kept] = s.feature[w], s.direction[w]
                s.near[kept], s.far[kept], s.size[kept] = s.near[w], s.far[w], size
                kept += 1
        count = kept
        features += count > before
    s.state[WAYS], s.state[LOADED], s.state[STUCK] = count, -1, 0
    s.state[EVALUATIONS] = s.state[NODES] = s.state[GROUP] = 0
    s.state[DEPTH] = -1
    s.counts[0, CHANGED], s.counts[0, LEFT], s.counts[0, OPENED] = 0, min(most, features), count
    for w in range(count):
        s.open[0, w] = w


@inlined
def find_ways(net: Layers, columns: Columns, table: Table, i: int, j: int, count: int, s: Search) -> int:
    """Append the ways of a feature. A number moves at least to the next whole one where it is one."""
    x, low, high = table.rows[i, j], table.low[i, j], table.high[i, j]
    if net.begins[j] >= 0:
        own, d = net.tables[net.begins[j] + np.int64(x)], len(table.rows[i])
        for c in range(columns.begins[j], columns.begins[j + 1]):
            code = columns.choices[c]
            if code != x and low <= code <= high:
                at = net.begins[j] + np.int64(code)
                for u in range(net.widths[0]):
                    s.directions[d + at, u] = net.tables[at, u] - own[u]
                s.feature[count], s.direction[count], s.near[count], s.far[count] = j, d + at, code, code
                count += 1
        return count
    above, below = (np.floor(x) + 1.0, np.ceil(x) - 1.0) if columns.whole[j] else (x, x)
    if high > x and max(low, above) <= high:
        s.feature[count], s.direction[count], s.near[count], s.far[count] = j, j, max(low, above), high
        count += 1
    if low < x and min(high, below) >= low:
        s.feature[count], s.direction[count], s.near[count], s.far[count] = j, j, min(high, below), low
        count += 1
    return count


@compiled
def amount(net: Layers, table: Table, i: int, s: Search, w: int, value: float) -> float:
    """How far a way goes along its direction, up to a value."""
    j = s.feature[w]
    return 1.0 if net.begins[j] >= 0 else value - table.rows[i, j]
