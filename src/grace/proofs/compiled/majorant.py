"""Convex majorants of a ReLU network over a node of a branch and bound, in compiled code.

A functional of the scores is bounded from above by a convex function of the first layer. Going through the layers,
every unit has a convex upper and a concave lower bound: a ReLU is at most a mixture of itself, which is convex and
monotone, and of its chord between the limits of the unit; and at least a share of its argument. The shares are
parameters of the bound, one set for each hidden layer and sign; any choice is sound, and gradient descent improves it.

At most K features move, so a point of the node is a weighted mean of K points in each of which one feature moves, by
its move divided by the weight. By convexity (Jensen's inequality) the bound at the point is at most the weighted mean
of the bounds at these, so that it adds up by feature, and the best choice of features is that of the largest terms.
Along one feature the bound is convex, so its maximum is at an end of a range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, Layers, compiled, inlined

RELU, SLOPE, CONSTANT, LOWER = 0, 1, 2, 3  # of the upper bound, and the slope of the lower one
PAD = 8  # blocks of the last layer are multiples of it
SHARES = 4  # of the chord and of the lower bound, for upper and for lower bounds of the next layer


class Majorant(NamedTuple):
    """The bound of a node, and arrays to work with. Of the last two hidden layers, with h and m units, the shares are
    optimised; m includes zeros that fill up blocks."""

    low: Floats  # (hidden units,) limits of the pre-activations
    high: Floats
    coefficients: Floats  # (8, hidden units) of the bounds of each ReLU, for upper and for lower bounds of what follows
    shares: Floats  # (4 h + m,) the parameters; of the last layer, that of the bound that is needed
    gradient: Floats  # (4 h + m,)
    mean: Floats  # (4 h + m,) of the gradients
    square: Floats
    sign: Floats  # (m,) the functional's coefficients, in the order below
    order: Ints  # (m,) units of the last hidden layer: those with upper bounds first
    weights: Floats  # (3 h + 1, m) between the last two layers: the next three, and zeros
    rising: Floats  # (h, m) those that are multiplied with upper bounds
    falling: Floats  # (h, m) with lower bounds
    whole: Floats  # (h, m) their sum
    bias: Floats  # (m,)
    upper: Floats  # (hidden units,) bounds of the pre-activations at one point
    lower: Floats
    outer: Floats  # (m,) slopes of the functional in the bounds of the last hidden layer
    ends: Floats  # (4, h) bounds after the ReLU
    active: Ints  # (2, h + 1) units with one value for all bounds, and with several
    blocks: Ints  # the end of the units with upper bounds, and of all; each block is filled up with zeros


def majorant(net: Layers) -> Majorant:
    hidden = int(net.units[len(net.leak)])
    m = int(net.widths[len(net.leak) - 1]) + 2 * PAD
    h = int(net.widths[len(net.leak) - 2]) if len(net.leak) > 1 else 0
    free, weights = SHARES * h + m, np.zeros((3 * h + 1, m))
    return Majorant(
        low=np.zeros(hidden),
        high=np.zeros(hidden),
        coefficients=np.zeros((8, hidden + 2 * PAD)),
        shares=np.zeros(free),
        gradient=np.zeros(free),
        mean=np.zeros(free),
        square=np.zeros(free),
        sign=np.zeros(m),
        order=np.zeros(m, dtype=np.int64),
        weights=weights,
        rising=weights[:h],
        falling=weights[h : 2 * h],
        whole=weights[2 * h : 3 * h],
        bias=np.zeros(m),
        upper=np.zeros(hidden + 2 * PAD),
        lower=np.zeros(hidden),
        outer=np.zeros(m),
        ends=np.zeros((4, h)),
        active=np.zeros((2, h + 1), dtype=np.int64),
        blocks=np.zeros(2, dtype=np.int64),
    )


@compiled
def load(net: Layers, bound: Majorant, plus: int, minus: int, sign: float) -> None:
    """Bound sign times a score, less another one if `minus` is not -1."""
    last = len(net.leak) - 1
    m, count = net.widths[last], 0
    for c in range(len(bound.sign)):
        bound.order[c], bound.sign[c], bound.bias[c] = 0, 0.0, 0.0
        for u in range(len(bound.whole)):
            bound.whole[u, c] = bound.rising[u, c] = bound.falling[u, c] = 0.0
    for turn in range(2):
        for v in range(m):
            slope = sign * net.last[plus, v] - (net.last[minus, v] if minus >= 0 else 0.0)
            if (slope > 0.0) == (turn == 0):
                bound.order[count], bound.sign[count] = v, slope
                count += 1
        count = (count + PAD - 1) // PAD * PAD
        bound.blocks[turn] = count
    if last == 0:
        return
    first = net.units[last] - net.widths[0]
    for c in range(bound.blocks[1]):
        if bound.sign[c] == 0.0:
            continue
        v, up = bound.order[c], c < bound.blocks[0]
        bound.bias[c] = net.biases[first + v]
        for u in range(net.widths[last - 1]):
            weight = net.weights[net.offsets[last - 1] + u * m + v]
            bound.whole[u, c] = weight
            bound.rising[u, c] = max(weight, 0.0) if up else min(weight, 0.0)
            bound.falling[u, c] = min(weight, 0.0) if up else max(weight, 0.0)


@compiled
def default_shares(net: Layers, bound: Majorant) -> None:
    """ReLUs bounded by themselves from above, and from below by 0 or their argument, whichever leaves less room."""
    last = len(net.leak) - 1
    m, h = bound.blocks[1], net.widths[last - 1] if last > 0 else 0
    begin = net.units[last - 1] if last > 0 else 0
    for u in range(h):
        lower = 1.0 if bound.high[begin + u] > -bound.low[begin + u] else 0.0
        bound.shares[u] = bound.shares[2 * h + u] = 0.0
        bound.shares[h + u] = bound.shares[3 * h + u] = lower
    for c in range(m):
        at = net.units[last] + bound.order[c]
        above = bound.high[at] > -bound.low[at]
        bound.shares[SHARES * h + c] = 0.0 if c < bound.blocks[0] or not above else 1.0


@compiled
def set_coefficients(coefficients: Floats, at: int, low: float, high: float, chord: float, lower: float) -> None:
    """The bounds of a ReLU with limits: upper r relu(z) + s z + t, and lower l z."""
    if low >= 0.0:
        r, s, t, lower = 0.0, 1.0, 0.0, 1.0
    elif high <= 0.0:
        r, s, t, lower = 0.0, 0.0, 0.0, 0.0
    else:
        steep = high / (high - low)
        r, s, t = 1.0 - chord, chord * steep, -chord * steep * low
    coefficients[RELU, at], coefficients[SLOPE, at], coefficients[CONSTANT, at] = r, s, t
    coefficients[LOWER, at] = lower


@compiled
def prepare(net: Layers, bound: Majorant) -> None:
    """The coefficients from the limits and the shares."""
    last = len(net.leak) - 1
    m, h = bound.blocks[1], net.widths[last - 1] if last > 0 else 0
    begin = net.units[last - 1] if last > 0 else 0
    for at in range(begin):  # layers whose shares are not optimised
        low, high = bound.low[at], bound.high[at]
        for part in range(2):
            set_coefficients(bound.coefficients[4 * part :], at, low, high, 0.0, 1.0 if high > -low else 0.0)
    for u in range(h):
        low, high = bound.low[begin + u], bound.high[begin + u]
        for part in range(2):
            chord, lower = bound.shares[2 * part * h + u], bound.shares[(2 * part + 1) * h + u]
            set_coefficients(bound.coefficients[4 * part :], begin + u, low, high, chord, lower)
    for c in range(m):
        at, share = net.units[last] + bound.order[c], bound.shares[SHARES * h + c]
        set_coefficients(bound.coefficients, net.units[last] + c, bound.low[at], bound.high[at], share, share)


@compiled
def through_layer(
    net: Layers, bound: Majorant, layer: int, up: Floats, lo: Floats, next_up: Floats, next_lo: Floats
) -> None:
    """Upper and lower bounds of all units of the layer after a hidden one."""
    begin, width = net.units[layer], net.widths[layer + 1]
    first = net.units[layer + 1] - net.widths[0]
    biases = net.biases[first : first + width]
    for q in range(width):
        next_up[q] = next_lo[q] = biases[q]
    c, at = bound.coefficients, net.offsets[layer]
    for u in range(net.widths[layer]):
        a, relu = begin + u, max(up[u], 0.0)
        above, below = c[RELU, a] * relu + c[SLOPE, a] * up[u] + c[CONSTANT, a], c[LOWER, a] * lo[u]
        above2, below2 = c[4, a] * relu + c[5, a] * up[u] + c[6, a], c[7, a] * lo[u]
        weights = net.weights[at : at + width]
        for q in range(width):
            rise, fall = max(weights[q], 0.0), min(weights[q], 0.0)
            next_up[q] += rise * above + fall * below
            next_lo[q] += rise * below2 + fall * above2
        at += width


@compiled
def through_layers(net: Layers, bound: Majorant, layers: int, z: Floats) -> None:
    """Upper and lower bounds of all units of so many layers after the first at a point of the first layer."""
    for u in range(net.widths[0]):
        bound.upper[u] = bound.lower[u] = z[u]
    for layer in range(layers):
        a, b, c = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        through_layer(net, bound, layer, bound.upper[a:b], bound.lower[a:b], bound.upper[b:c], bound.lower[b:c])


@inlined
def after_relu(bound: Majorant, up: Floats, lo: Floats, k: Floats) -> None:
    """Bounds of the units of a layer after their ReLU, for upper and for lower bounds of the next layer."""
    r0, s0, t0, l0, r1, s1, t1, l1 = k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7]
    above, below, above2, below2 = bound.ends[0], bound.ends[1], bound.ends[2], bound.ends[3]
    for u in range(len(r0)):
        value, relu = up[u], max(up[u], 0.0)
        above[u], below[u] = r0[u] * relu + s0[u] * value + t0[u], l0[u] * lo[u]
        above2[u], below2[u] = r1[u] * relu + s1[u] * value + t1[u], l1[u] * lo[u]


@inlined
def multiply(bound: Majorant, first: Floats, second: Floats, h: int) -> None:
    """Add the products of the weights of the last hidden layer with the bounds of the units before it. Several units at
    a time, so that the sums are loaded and stored less often."""
    above, below, above2, below2 = bound.ends[0], bound.ends[1], bound.ends[2], bound.ends[3]
    ups, one, several = len(first), 0, 0
    same, apart = bound.active[0], bound.active[1]
    for u in range(h):
        equal = above[u] == below[u] and above2[u] == below2[u] and above[u] == above2[u]
        same[one] = apart[several] = u
        one += equal and above[u] != 0.0
        several += not equal
    for n in range(0, one, 4):
        a, b, c, d = same[n], same[min(n + 1, one - 1)], same[min(n + 2, one - 1)], same[min(n + 3, one - 1)]
        va, vb = above[a], above[b] if n + 1 < one else 0.0
        vc, vd = above[c] if n + 2 < one else 0.0, above[d] if n + 3 < one else 0.0
        wa, wb, wc, wd = bound.whole[a, :ups], bound.whole[b, :ups], bound.whole[c, :ups], bound.whole[d, :ups]
        for q in range(len(first)):
            first[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]
        wa, wb, wc, wd = bound.whole[a, ups:], bound.whole[b, ups:], bound.whole[c, ups:], bound.whole[d, ups:]
        for q in range(len(second)):
            second[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]
    for n in range(0, several, 2):
        a, b = apart[n], apart[min(n + 1, several - 1)]
        here = 1.0 if n + 1 < several else 0.0
        va, vb, vc, vd = above[a], below[a], here * above[b], here * below[b]
        wa, wb, wc, wd = bound.rising[a, :ups], bound.falling[a, :ups], bound.rising[b, :ups], bound.falling[b, :ups]
        for q in range(len(first)):
            first[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]
        va, vb, vc, vd = above2[a], below2[a], here * above2[b], here * below2[b]
        wa, wb, wc, wd = bound.rising[a, ups:], bound.falling[a, ups:], bound.rising[b, ups:], bound.falling[b, ups:]
        for q in range(len(second)):
            second[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]


@compiled
def majorise(net: Layers, bound: Majorant, z: Floats) -> float:
    """The majorant of the functional, without its constant, at a point of the first layer."""
    last = len(net.leak) - 1
    m, ups = bound.blocks[1], bound.blocks[0]
    y = bound.upper[net.units[last] : net.units[last] + m]
    if last == 0:
        for c in range(m):
            y[c] = z[bound.order[c]]
    else:
        if last > 1:
            through_layers(net, bound, last - 1, z)
        begin, h = net.units[last - 1], net.widths[last - 1]
        up = z if last == 1 else bound.upper[begin : begin + h]
        lo = z if last == 1 else bound.lower[begin : begin + h]
        after_relu(bound, up, lo, bound.coefficients[:, begin : begin + h])
        for c in range(m):
            y[c] = bound.bias[c]
        multiply(bound, y[:ups], y[ups:m], h)
    return functional(net, bound)


@compiled
def functional(net: Layers, bound: Majorant) -> float:
    """The majorant from the bounds of the last hidden layer."""
    last, ups = len(net.leak) - 1, bound.blocks[0]
    begin, m = net.units[last], bound.blocks[1]
    y, k = bound.upper[begin : begin + m], bound.coefficients[:, begin : begin + m]
    r0, s0, t0, l0, total = k[0], k[1], k[2], k[3], 0.0
    for c in range(ups):
        total += bound.sign[c] * (r0[c] * max(y[c], 0.0) + s0[c] * y[c] + t0[c])
    for c in range(ups, m):
        total += bound.sign[c] * l0[c] * y[c]
    return total


@compiled
def tangent(net: Layers, bound: Majorant) -> float:
    """Bound the ReLUs of the last hidden layer from below by their tangents where `majorise` has just been, and return
    the majorant there."""
    last, ups = len(net.leak) - 1, bound.blocks[0]
    begin, m = net.units[last], bound.blocks[1]
    shares = bound.shares[len(bound.shares) - len(bound.sign) :]
    for c in range(ups, m):
        at = begin + bound.order[c]
        if bound.low[at] < 0.0 and bound.high[at] > 0.0:
            shares[c] = bound.coefficients[LOWER, begin + c] = 1.0 if bound.upper[begin + c] > 0.0 else 0.0
    return functional(net, bound)


@compiled
def add_gradient(net: Layers, bound: Majorant, z: Floats, weight: float) -> None:
    """Add the gradient of the majorant at a point in the shares, times a weight. `majorise` has just been there."""
    last = len(net.leak) - 1
    m, ups = bound.blocks[1], bound.blocks[0]
    h = net.widths[last - 1] if last > 0 else 0
    y, outer = bound.upper[net.units[last] : net.units[last] + m], bound.outer
    k = bound.coefficients[:, net.units[last] : net.units[last] + m]
    inner = bound.gradient[SHARES * h :]
    for c in range(m):
        at = net.units[last] + bound.order[c]
        low, high = bound.low[at], bound.high[at]
        unstable, slope = low < 0.0 and high > 0.0, weight * bound.sign[c]
        if c < ups:
            outer[c] = slope * (k[RELU, c] * (1.0 if y[c] > 0.0 else 0.0) + k[SLOPE, c])
            if unstable:
                inner[c] += slope * (high / (high - low) * (y[c] - low) - max(y[c], 0.0))
        else:
            outer[c] = slope * k[LOWER, c]
            if unstable:
                inner[c] += slope * y[c]
    if last == 0:
        return
    begin = net.units[last - 1]
    up = z if last == 1 else bound.upper[begin : begin + h]
    lo = z if last == 1 else bound.lower[begin : begin + h]
    outer_up, outer_lo = outer[:ups], outer[ups:m]
    for u in range(h):
        low, high = bound.low[begin + u], bound.high[begin + u]
        if not (low < 0.0 and high > 0.0):
            continue
        room = high / (high - low) * (up[u] - low) - max(up[u], 0.0)
        rising, falling = bound.rising[u, :ups], bound.falling[u, :ups]
        one = two = 0.0
        for c in range(len(outer_up)):
            one += outer_up[c] * rising[c]
            two += outer_up[c] * falling[c]
        rising, falling = bound.rising[u, ups:], bound.falling[u, ups:]
        three = four = 0.0
        for c in range(len(outer_lo)):
            three += outer_lo[c] * rising[c]
            four += outer_lo[c] * falling[c]
        bound.gradient[u] += one * room
        bound.gradient[h + u] += two * lo[u]
        bound.gradient[2 * h + u] += three * room
        bound.gradient[3 * h + u] += four * lo[u]


@inlined
def descend(bound: Majorant, step: int, rate: float) -> None:
    """One step of Adam on the shares, which stay between 0 and 1; the gradient is reset."""
    shares, mean, square = bound.shares, bound.mean, bound.square
    first, second = 1.0 - 0.9**step, 1.0 - 0.999**step
    for p in range(len(shares)):
        g = bound.gradient[p]
        mean[p] = 0.9 * mean[p] + 0.1 * g
        square[p] = 0.999 * square[p] + 0.001 * g * g
        if square[p] > 0.0:
            shares[p] = min(max(shares[p] - rate * (mean[p] / first) / (np.sqrt(square[p] / second) + 1e-12), 0.0), 1.0)
        bound.gradient[p] = 0.0
