"""The rows of a proof in compiled code: the ways in which each may change, and limits of all units of the network.

A *way* is a direction in which a feature may change: a number upwards or downwards, a category to another one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Ints, Layers, activate, compiled, inlined
from grace.proofs.compiled.blocks import Block, block
from grace.proofs.compiled.majorant import Majorant, majorant, set_coefficients, through_layers

DEPTH, WAYS, EVALUATIONS, NODES, LOADED, STUCK, GROUP = 0, 1, 2, 3, 4, 5, 6  # the state of a row
CHANGED, LEFT, OPENED, KIND, NEXT, CHILDREN, FUNCTIONAL, SPLIT, TAKEN, UPPER = range(10)  # of a node
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
    lowest: Floats  # (units,) limits of the units after the first layer in the root
    highest: Floats
    base: Floats  # (h,) of the middle of a node
    point: Floats  # (h,)
    top: Floats  # (2, K, widest) the largest contributions
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
    counts: Ints  # (F, 10)
    shares: Floats  # (F, parameters) of the majorant
    state: Ints  # (7,)


def search(net: Layers, d: int, most: int) -> Search:
    """Arrays for rows with d features and at most so many changes."""
    h, units, entries = int(net.widths[0]), int(net.units[-1]), len(net.tables)
    ways, frames, bound = 2 * d + entries, (HALVINGS + 1) * most + 2, majorant(net)

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
        lowest=np.zeros(units),
        highest=np.zeros(units),
        base=np.zeros(h),
        point=np.zeros(h),
        top=np.zeros((2, most, int(net.widths.max()))),
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
        counts=whole(frames, 10),
        shares=np.zeros((frames, len(bound.shares))),
        state=whole(7),
    )


@compiled
def begin_row(net: Layers, columns: Columns, table: Table, aims: Aims, i: int, most: int, s: Search) -> None:
    """Make ready for row i with at most so many changes: its ways, and limits of all units."""
    row_ways(net, columns, table, aims, i, most, s)
    row_limits(net, table, i, s)


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


@compiled
def first_limits(net: Layers, table: Table, i: int, f: int, s: Search) -> None:
    """The middle of a node in the first layer, and the limits of that layer: what the changed features can do, and the
    largest contributions of open ways."""
    h, changed, left = net.widths[0], s.counts[f, CHANGED], s.counts[f, LEFT]
    low, high, base = s.bound.low[:h], s.bound.high[:h], s.base
    for u in range(h):
        base[u], high[u] = s.start[u], 0.0
    for a in range(changed):
        w = s.taken[f, a]
        one, two = amount(net, table, i, s, w, s.low[f, a]), amount(net, table, i, s, w, s.high[f, a])
        middle, half, direction = 0.5 * (one + two), 0.5 * (two - one), s.directions[s.direction[w]]
        for u in range(h):
            base[u] += middle * direction[u]
            high[u] += half * abs(direction[u])
    for u in range(h):
        low[u] = base[u] - high[u]
        high[u] = base[u] + high[u]
    if left == 0:
        return
    for t in range(left):
        for u in range(h):
            s.top[0, t, u] = s.top[1, t, u] = 0.0
    for o in range(s.counts[f, OPENED]):
        w = s.open[f, o]
        by, direction = amount(net, table, i, s, w, s.far[w]), s.directions[s.direction[w]]
        for side in range(2):
            for u in range(h):
                s.point[u] = by * direction[u] if side == 0 else -by * direction[u]
            keep_largest(s.top[side], s.point, left)
    for t in range(left):
        for u in range(h):
            high[u] += s.top[0, t, u]
            low[u] -= s.top[1, t, u]


@compiled
def keep_largest(top: Floats, values: Floats, count: int) -> None:
    """Put values (units,) in their places among the largest (count, units) so far; they are overwritten."""
    for t in range(count):
        best = top[t]
        for u in range(len(values)):
            value = values[u]
            values[u] = min(value, best[u])
            best[u] = max(value, best[u])


@compiled
def row_limits(net: Layers, table: Table, i: int, s: Search) -> None:
    """Limits of all layers in the root, which hold in all nodes: from the first to the last, the bounds of the units of
    each as sums over ways, as `majorant` has them, or by interval arithmetic where that is better."""
    bound, left, base = s.bound, s.counts[0, LEFT], s.values
    first_limits(net, table, i, 0, s)
    for layer in range(len(net.leak) - 1):
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        for at in range(begin, after):
            low, high = bound.low[at], bound.high[at]
            for part in range(2):
                set_coefficients(bound.coefficients[4 * part :], at, low, high, 0.0, 1.0 if high > -low else 0.0)
        low, high, up, lo = bound.low[after:end], bound.high[after:end], bound.upper[after:end], bound.lower[after:end]
        through_layers(net, bound, layer + 1, s.base)
        for q in range(len(low)):
            high[q], low[q] = up[q], lo[q]
            base[q] = up[q]
            for t in range(left):
                s.top[0, t, q] = s.top[1, t, q] = 0.0
        for w in range(s.state[WAYS]):
            by, direction = left * amount(net, table, i, s, w, s.far[w]), s.directions[s.direction[w]]
            for u in range(net.widths[0]):
                s.point[u] = s.base[u] + by * direction[u]
            through_layers(net, bound, layer + 1, s.point)
            for q in range(len(low)):
                up[q], lo[q] = (up[q] - base[q]) / left, (low[q] - lo[q]) / left
            keep_largest(s.top[0], up, left)
            keep_largest(s.top[1], lo, left)
        for t in range(left):
            for q in range(len(low)):
                high[q] += s.top[0, t, q]
                low[q] -= s.top[1, t, q]
        by_intervals(net, bound, layer, s.values)
    for at in range(net.widths[0], len(bound.low)):
        s.lowest[at], s.highest[at] = bound.low[at], bound.high[at]


@compiled
def inner_limits(net: Layers, s: Search) -> None:
    """Limits of all layers after the first in a node: by interval arithmetic, within those of the root."""
    first, bound = net.widths[0], s.bound
    for at in range(first, len(bound.low)):
        bound.low[at], bound.high[at] = s.lowest[at], s.highest[at]
    for layer in range(len(net.leak) - 1):
        by_intervals(net, bound, layer, s.values)


@inlined
def by_intervals(net: Layers, bound: Majorant, layer: int, work: Floats) -> None:
    """Limits of the layer after a hidden one that interval arithmetic improves."""
    begin, after, end, width = net.units[layer], net.units[layer + 1], net.units[layer + 2], net.widths[layer + 1]
    biases, at = net.biases[after - net.widths[0] : end - net.widths[0]], net.offsets[layer]
    low, high, middle, radius = bound.low[after:end], bound.high[after:end], bound.lower[after:end], work[:width]
    for q in range(width):
        middle[q], radius[q] = biases[q], 0.0
    for u in range(begin, after):
        least, most = max(bound.low[u], 0.0), max(bound.high[u], 0.0)
        if most > 0.0:
            centre, half, weights = 0.5 * (least + most), 0.5 * (most - least), net.weights[at : at + width]
            for q in range(width):
                middle[q] += centre * weights[q]
                radius[q] += half * abs(weights[q])
        at += width
    for q in range(width):
        low[q], high[q] = max(low[q], middle[q] - radius[q]), min(high[q], middle[q] + radius[q])
