"""Linear bounds on the functionals of a goal over boxes of values of a few features, in compiled code.

What the features of a box can do is followed as one direction of the first layer each, so that the cost of a box does
not grow with the number of all features. Every ReLU lies between two lines (CROWN, Zhang et al. 2018), so that a
functional is at most a linear function of the first layer.

A category takes part as its place in the list of those that it may have, its own first, then by their cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Ints, Layers, compiled, dot, inlined
from grace.proofs.compiled.rows import Aims

PRODUCTS = 1  # a place of the state


class Work(NamedTuple):
    """Arrays to work with, one set per thread. K features change; a category has at most O options."""

    features: Ints  # (K,)
    options: Ints  # (K,) how many there are, 0 for a number
    codes: Floats  # (K, O)
    costs: Floats  # (K, O)
    rates: Floats  # (K,) costs of a unit of each number
    start: Floats  # (units,) pre-activations of the row
    least: Floats  # (hidden units,) limits of the pre-activations in a box
    most: Floats
    lines: Floats  # (3, hidden units) of each ReLU: the slope and height of the line above it, the slope of that below
    rows: Floats  # (2, widest layer) weights of a linear function of a layer
    shifts: Floats  # (K, h) of the first layer by the options of a category
    function: Floats  # (h,) the functional that is lowest, as a function of the first layer
    slopes: Floats  # (K,) of the functional along numbers
    room: Floats  # (K,) what the functional gains along each number from its nearest value on
    order: Ints  # (K,)
    values: Floats  # (units,) of a candidate
    box: Floats  # (2, K) the box that is looked at
    distances: Floats  # (2,) of the nearest answer that is known, and where boxes are points
    state: Ints  # (2,)


def work_of(net: Layers, columns: Columns, changes: int) -> Work:
    most = 1 + int(np.diff(columns.begins).max(initial=0))
    hidden, first, widest = int(net.units[len(net.leak)]), int(net.widths[0]), int(net.widths.max())
    return Work(
        features=np.zeros(changes, dtype=np.int64),
        options=np.zeros(changes, dtype=np.int64),
        codes=np.zeros((changes, most)),
        costs=np.zeros((changes, most)),
        rates=np.zeros(changes),
        start=np.zeros(int(net.units[-1])),
        least=np.zeros(hidden),
        most=np.zeros(hidden),
        lines=np.zeros((3, hidden)),
        rows=np.zeros((2, widest)),
        shifts=np.zeros((changes, first)),
        function=np.zeros(first),
        slopes=np.zeros(changes),
        room=np.zeros(changes),
        order=np.zeros(changes, dtype=np.int64),
        values=np.zeros(int(net.units[-1])),
        box=np.zeros((2, changes)),
        distances=np.zeros(2),
        state=np.zeros(2, dtype=np.int64),
    )


@compiled
def upper_bound(net: Layers, table: Table, aims: Aims, i: int, group: int, k: int, s: Work) -> float:
    """A bound on the functional of a group for which it is lowest, which is left in `function`; below zero, the box
    holds no answer. First with limits of inner layers by intervals, then by lines."""
    first_limits(net, table, i, k, s)
    interval_limits(net, s)
    most = lowest(net, table, aims, i, group, k, s)
    if most < 0.0 or len(net.leak) == 1:
        return most
    line_limits(net, table, i, k, s)
    return lowest(net, table, aims, i, group, k, s)


@inlined
def shift_of(net: Layers, table: Table, i: int, a: int, option: int, s: Work) -> Floats:
    """What an option of a category does to the first layer."""
    at = net.begins[s.features[a]]
    out: Floats = s.shifts[a]
    own, new = net.tables[at + np.int64(table.rows[i, s.features[a]])], net.tables[at + np.int64(s.codes[a, option])]
    for u in range(len(out)):
        out[u] = new[u] - own[u]
    return out


@compiled
def first_limits(net: Layers, table: Table, i: int, k: int, s: Work) -> None:
    """Limits of the first layer, and the lines of its ReLUs."""
    h = net.widths[0]
    low, high, radius = s.least[:h], s.most[:h], s.rows[0]
    for u in range(h):
        low[u], radius[u] = s.start[u], 0.0
    for a in range(k):
        if s.options[a] == 0:
            x, weights = table.rows[i, s.features[a]], net.first[s.features[a]]
            middle, half = 0.5 * (s.box[0, a] + s.box[1, a]) - x, 0.5 * (s.box[1, a] - s.box[0, a])
            for u in range(h):
                low[u] += middle * weights[u]
                radius[u] += half * abs(weights[u])
    for u in range(h):
        low[u], high[u] = low[u] - radius[u], low[u] + radius[u]
    for a in range(k):
        if s.options[a] > 0:
            down, up = s.function, s.rows[1]
            for option in range(np.int64(s.box[0, a]), np.int64(s.box[1, a]) + 1):
                shift, begins = shift_of(net, table, i, a, option, s), option == np.int64(s.box[0, a])
                for u in range(h):
                    down[u] = shift[u] if begins else min(down[u], shift[u])
                    up[u] = shift[u] if begins else max(up[u], shift[u])
            for u in range(h):
                low[u] += down[u]
                high[u] += up[u]
    set_lines(s, 0, h)
    s.state[PRODUCTS] += h * (k + 1)


@inlined
def set_lines(s: Work, begin: int, end: int) -> None:
    """The lines of ReLUs with limits; below one that may be either way, the one that leaves less room."""
    for u in range(begin, end):
        low, high = s.least[u], s.most[u]
        steep = 1.0 if low >= 0.0 else 0.0 if high <= 0.0 else high / (high - low)
        s.lines[0, u] = steep
        s.lines[1, u] = -low * steep if low < 0.0 < high else 0.0
        s.lines[2, u] = 1.0 if low >= 0.0 or (high > 0.0 and high > -low) else 0.0


@compiled
def interval_limits(net: Layers, s: Work) -> None:
    """Limits of the layers after the first by interval arithmetic, and the lines of their ReLUs."""
    for layer in range(len(net.leak) - 1):
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        width, at = end - after, net.offsets[layer]
        middle, radius = s.least[after:end], s.most[after:end]
        biases = net.biases[after - net.widths[0] : end - net.widths[0]]
        for q in range(width):
            middle[q], radius[q] = biases[q], 0.0
        for u in range(begin, after):
            least, most = max(s.least[u], 0.0), max(s.most[u], 0.0)
            if most > 0.0:
                centre, half, weights = 0.5 * (least + most), 0.5 * (most - least), net.weights[at : at + width]
                for q in range(width):
                    middle[q] += centre * weights[q]
                    radius[q] += half * abs(weights[q])
            at += width
        for q in range(width):
            middle[q], radius[q] = middle[q] - radius[q], middle[q] + radius[q]
        set_lines(s, after, end)
        s.state[PRODUCTS] += 2 * width * (after - begin)


@compiled
def line_limits(net: Layers, table: Table, i: int, k: int, s: Work) -> None:
    """Limits of the layers after the first by the lines of the layers before, where these are better."""
    for layer in range(len(net.leak) - 1):
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        width = end - after
        biases = net.biases[after - net.widths[0] : end - net.widths[0]]
        for q in range(width):
            for side in range(2):
                sign, row, at = 1.0 - 2.0 * side, s.rows[0], net.offsets[layer] + q
                for u in range(after - begin):
                    row[u] = sign * net.weights[at]
                    at += width
                value = backward(net, table, i, layer, k, sign * biases[q], s)
                if side == 0:
                    s.most[after + q] = min(s.most[after + q], value)
                else:
                    s.least[after + q] = max(s.least[after + q], -value)
            s.most[after + q] = max(s.most[after + q], s.least[after + q])
        set_lines(s, after, end)


@compiled
def backward(net: Layers, table: Table, i: int, layer: int, k: int, constant: float, s: Work) -> float:
    """The most that a linear function of a hidden layer after its ReLU can be in the box; its weights are the first of
    `rows`, where those as a function of the first layer before its ReLU are left."""
    row, other = s.rows[0], s.rows[1]
    for back in range(layer + 1):
        at = layer - back
        begin, width = net.units[at], net.widths[at]
        for u in range(width):
            weight = row[u]
            constant += max(weight, 0.0) * s.lines[1, begin + u]
            row[u] = weight * (s.lines[0, begin + u] if weight > 0.0 else s.lines[2, begin + u])
        if at > 0:
            biases, before, place = net.biases[begin - net.widths[0] :], net.widths[at - 1], net.offsets[at - 1]
            constant += dot(biases[:width], row[:width])
            for u in range(before):
                other[u] = dot(net.weights[place : place + width], row[:width])
                place += width
            for u in range(before):
                row[u] = other[u]
            s.state[PRODUCTS] += width * before
    h = net.widths[0]
    total = constant + dot(row[:h], s.start[:h])
    for a in range(k):
        if s.options[a] == 0:
            x, slope = table.rows[i, s.features[a]], dot(row[:h], net.first[s.features[a]])
            total += max(slope * (s.box[0, a] - x), slope * (s.box[1, a] - x))
        else:
            total += best_option(net, table, i, a, row, s)
    s.state[PRODUCTS] += h * (k + 1)
    return total


@inlined
def best_option(net: Layers, table: Table, i: int, a: int, row: Floats, s: Work) -> float:
    """The most that an option of a category in the box adds to a function of the first layer."""
    best = -np.inf
    for option in range(np.int64(s.box[0, a]), np.int64(s.box[1, a]) + 1):
        best = max(best, dot(row[: net.widths[0]], shift_of(net, table, i, a, option, s)))
    return best


@compiled
def lowest(net: Layers, table: Table, aims: Aims, i: int, group: int, k: int, s: Work) -> float:
    """A bound on the functional of a group for which it is lowest, with what rounding may have cost; it is left in
    `function`. An answer needs all of them to be at least 0."""
    layer, least, h = len(net.leak) - 1, np.inf, net.widths[0]
    for q in range(aims.groups[group], aims.groups[group + 1]):
        plus, minus, row = aims.plus[i, q], aims.minus[i, q], s.rows[0]
        for u in range(net.widths[layer]):
            row[u] = aims.sign[i, q] * net.last[plus, u] - (net.last[minus, u] if minus >= 0 else 0.0)
        value = backward(net, table, i, layer, k, aims.constant[i, q], s) + aims.slack[i, q]
        if value < least or np.isnan(value):
            least = value
            for u in range(h):
                s.function[u] = row[u]
    return least
