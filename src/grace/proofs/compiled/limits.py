"""Limits of the units of a network over a node of a branch and bound, in compiled code."""

from __future__ import annotations

from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Layers, compiled, inlined
from grace.proofs.compiled.majorant import Majorant, set_coefficients, through_layers
from grace.proofs.compiled.rows import CHANGED, LEFT, OPENED, WAYS, Aims, Search, amount, row_ways


@compiled
def begin_row(net: Layers, columns: Columns, table: Table, aims: Aims, i: int, most: int, s: Search) -> None:
    """Make ready for row i with at most so many changes: its ways, and limits of all units."""
    row_ways(net, columns, table, aims, i, most, s)
    row_limits(net, table, i, s)


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
        s.lowest[0, at], s.highest[0, at] = bound.low[at], bound.high[at]


@compiled
def inner_limits(net: Layers, f: int, s: Search) -> None:
    """Limits of all layers after the first in a node, within those of its parent: by interval arithmetic and, of the
    second layer where no way is open, by parallel lines."""
    first, bound = net.widths[0], s.bound
    for at in range(first, len(bound.low)):
        bound.low[at], bound.high[at] = s.lowest[f, at], s.highest[f, at]
    for layer in range(len(net.leak) - 1):
        by_intervals(net, bound, layer, s.values)
        if layer == 0 and s.counts[f, LEFT] == 0:
            by_lines(net, f, s)
    for at in range(first, len(bound.low)):
        s.lowest[f + 1, at], s.highest[f + 1, at] = bound.low[at], bound.high[at]


@compiled
def by_lines(net: Layers, f: int, s: Search) -> None:
    """Limits of the second layer in a node without open ways, with every ReLU of the first layer between two parallel
    lines (a zonotope, Singh et al. 2018), so that what a feature does by way of several units cancels out."""
    h, width, bound, changed = net.widths[0], net.widths[1], s.bound, s.counts[f, CHANGED]
    slopes, rooms, at = s.lines[0], s.lines[1], net.offsets[0]
    shifts, biases = s.shifts, net.biases[:width]
    for u in range(h):
        low, high = bound.low[u], bound.high[u]
        slopes[u] = 1.0 if low >= 0.0 else 0.0 if high <= 0.0 else high / (high - low)
        rooms[u] = -0.5 * slopes[u] * low if low < 0.0 < high else 0.0
    middle, error = shifts[changed], shifts[changed + 1]
    for q in range(width):
        middle[q], error[q] = biases[q], 0.0
        for a in range(changed):
            shifts[a, q] = 0.0
    for u in range(h):
        if slopes[u] != 0.0:
            weights, centre = net.weights[at : at + width], slopes[u] * s.base[u] + rooms[u]
            for q in range(width):
                middle[q] += centre * weights[q]
                error[q] += rooms[u] * abs(weights[q])
            for a in range(changed):
                w, shift = s.taken[f, a], shifts[a]
                by = slopes[u] * s.directions[s.direction[w], u]
                for q in range(width):
                    shift[q] += by * weights[q]
        at += width
    for a in range(changed):
        half = 0.5 * (s.high[f, a] - s.low[f, a]) if net.begins[s.feature[s.taken[f, a]]] < 0 else 0.0
        for q in range(width):
            error[q] += half * abs(shifts[a, q])
    low, high = bound.low[h : h + width], bound.high[h : h + width]
    for q in range(width):
        low[q], high[q] = max(low[q], middle[q] - error[q]), min(high[q], middle[q] + error[q])


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
