"""Convex majorants of a ReLU network over a node of a branch and bound, in compiled code.

A functional of the scores is bounded from above by a convex function of the first layer. Going through the layers,
every unit has a convex upper and a concave lower bound: a ReLU is at most a mixture of itself, which is convex and
monotone, and of its chord between the limits of the unit; and at least a share of its argument. The shares are
parameters of the bound, two sets for the units before the last hidden layer and one for those of it; any choice is
sound, and gradient descent improves it.

Of the last hidden layer, all that is linear is added up before the units below are bounded: units that are on, chords,
and lower bounds. Weights of opposite signs then cancel out, as in backward bounds (CROWN, Zhang et al. 2018); and only
units that are bounded by their own ReLU are left to be computed at every point.

At most K features move, so a point of the node is a weighted mean of K points in each of which one feature moves, by
its move divided by the weight. By convexity (Jensen's inequality) the bound at the point is at most the weighted mean
of the bounds at these, so that it adds up by feature, and the best choice of features is that of the largest terms.
Along one feature the bound is convex, so its maximum is at an end of a range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, Layers, compiled, dot, inlined

RELU, SLOPE, CONSTANT, LOWER = 0, 1, 2, 3  # of the upper bound, and the slope of the lower one
PAD = 8  # the units of the last hidden layer that are kept are filled up to a multiple of it
SHARES = 4  # of the chord and of the lower bound, for kept units of the next layer and for the linear part


class Majorant(NamedTuple):
    """The bound of a node, and arrays to work with. The last hidden layer has m units, the one before it h; of a
    network with a single hidden layer, that is the one with h, and m is 0."""

    low: Floats  # (hidden units,) limits of the pre-activations
    high: Floats
    coefficients: Floats  # (8, hidden units) of the bounds of each ReLU, for kept units and for the linear part
    shares: Floats  # (4 h + m,) the parameters; of the last layer, that of the bound that is needed
    gradient: Floats  # (4 h + m,)
    best: Floats  # (4 h + m,) the shares with the lowest bound
    sign: Floats  # (m,) the functional's coefficients
    kept: Ints  # (m + 1,) units of the last hidden layer that are bounded by their ReLU; first, how many
    weights: Floats  # (3 h + 1, m) between the last two layers, of kept units: the next three, and zeros
    rising: Floats  # (h, m) those that are multiplied with upper bounds
    falling: Floats  # (h, m) with lower bounds
    whole: Floats  # (h, m) their sum
    bias: Floats  # (m,) of kept units
    factor: Floats  # (m,) of kept units after their ReLU
    share: Floats  # (m,) the factor of every unit in the linear part
    linear: Floats  # (h,) factors of the units of the layer before it,
    parts: Floats  # (3, h) by which their bounds are multiplied: upper ones after and before the ReLU, and lower ones
    constant: Floats  # (1,) and what is added
    upper: Floats  # (hidden units,) bounds of the pre-activations at one point
    lower: Floats
    inner: Floats  # (m,) of kept units
    outer: Floats  # (m,) slopes of the functional in them
    full: Floats  # (m,) pre-activations of all units as the linear part has them
    ends: Floats  # (2, h) bounds after the ReLU
    active: Ints  # (2, h + 1) units with one value for both bounds, and with two


def majorant(net: Layers) -> Majorant:
    last = len(net.leak) - 1
    hidden, h = int(net.units[len(net.leak)]), int(net.widths[max(last - 1, 0)])
    m = int(net.widths[last]) if last > 0 else 0
    free, wide = SHARES * h + m, m + PAD
    weights = np.zeros((3 * h + 1, wide))
    return Majorant(
        low=np.zeros(hidden),
        high=np.zeros(hidden),
        coefficients=np.zeros((8, hidden)),
        shares=np.zeros(free),
        gradient=np.zeros(free),
        best=np.zeros(free),
        sign=np.zeros(m),
        kept=np.zeros(m + 1, dtype=np.int64),
        weights=weights,
        rising=weights[:h],
        falling=weights[h : 2 * h],
        whole=weights[2 * h : 3 * h],
        bias=np.zeros(wide),
        factor=np.zeros(wide),
        share=np.zeros(m),
        linear=np.zeros(h),
        parts=np.zeros((3, h)),
        constant=np.zeros(1),
        upper=np.zeros(hidden),
        lower=np.zeros(hidden),
        inner=np.zeros(wide),
        outer=np.zeros(wide),
        full=np.zeros(m),
        ends=np.zeros((2, h)),
        active=np.zeros((2, h + 1), dtype=np.int64),
    )


@compiled
def load(net: Layers, bound: Majorant, plus: int, minus: int, sign: float) -> None:
    """Bound sign times a score, less another one if `minus` is not -1."""
    out = bound.sign if len(net.leak) > 1 else bound.linear
    for v in range(len(out)):
        out[v] = sign * net.last[plus, v] - (net.last[minus, v] if minus >= 0 else 0.0)


@compiled
def default_shares(net: Layers, bound: Majorant, values: Floats) -> None:
    """ReLUs bounded by themselves from above, and from below by tangents at a point with these pre-activations."""
    last = len(net.leak) - 1
    m, h, begin = len(bound.sign), len(bound.linear), net.units[max(last - 1, 0)]
    shares = bound.shares
    for u in range(h):
        shares[u] = shares[2 * h + u] = 0.0
        shares[h + u] = shares[3 * h + u] = 1.0 if values[begin + u] > 0.0 else 0.0
    for c in range(m):
        shares[SHARES * h + c] = 1.0 if bound.sign[c] < 0.0 and values[begin + h + c] > 0.0 else 0.0


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
def keep(net: Layers, bound: Majorant) -> None:
    """Find the units of the last hidden layer that are bounded by their ReLU, from the limits, and their weights."""
    last, count = len(net.leak) - 1, 0
    m, h, kept = len(bound.sign), len(bound.linear), bound.kept[1:]
    if m == 0:
        return
    begin = net.units[last]
    for c in range(m):
        kept[count] = c
        count += bound.sign[c] > 0.0 and bound.low[begin + c] < 0.0 and bound.high[begin + c] > 0.0
    bound.kept[0] = count
    wide = (count + PAD - 1) // PAD * PAD
    for u in range(h):
        at = net.offsets[last - 1] + u * m
        weights = net.weights[at : at + m]
        whole, rising, falling = bound.whole[u, :wide], bound.rising[u, :wide], bound.falling[u, :wide]
        for n in range(count):
            whole[n] = weights[kept[n]]
        for n in range(count, wide):
            whole[n] = 0.0
        for n in range(wide):
            rising[n], falling[n] = max(whole[n], 0.0), min(whole[n], 0.0)
    biases = net.biases[begin - net.widths[0] :]
    for n in range(count):
        bound.bias[n] = biases[kept[n]]
    for n in range(count, wide):
        bound.bias[n] = bound.factor[n] = 0.0


@compiled
def prepare(net: Layers, bound: Majorant) -> None:
    """The coefficients from the limits and the shares."""
    last = len(net.leak) - 1
    m, h, begin = len(bound.sign), len(bound.linear), net.units[max(last - 1, 0)]
    for at in range(begin):  # layers whose shares are not optimised
        low, high = bound.low[at], bound.high[at]
        for part in range(2):
            set_coefficients(bound.coefficients[4 * part :], at, low, high, 0.0, 1.0 if high > -low else 0.0)
    for u in range(h):
        low, high = bound.low[begin + u], bound.high[begin + u]
        for part in range(2):
            chord, lower = bound.shares[2 * part * h + u], bound.shares[(2 * part + 1) * h + u]
            set_coefficients(bound.coefficients[4 * part :], begin + u, low, high, chord, lower)
    constant = add_linear(net, bound) if m > 0 else 0.0
    k, parts = bound.coefficients[4:, begin : begin + h], bound.parts
    r, s, t, lower, linear = k[RELU], k[SLOPE], k[CONSTANT], k[LOWER], bound.linear
    after, before, below = parts[0], parts[1], parts[2]
    for u in range(h):
        up = max(linear[u], 0.0)
        after[u], before[u], below[u] = up * r[u], up * s[u], min(linear[u], 0.0) * lower[u]
        constant += up * t[u]
    bound.constant[0] = constant


@inlined
def add_linear(net: Layers, bound: Majorant) -> float:
    """Add up what is linear in the last hidden layer; returns its constant."""
    last, m, h = len(net.leak) - 1, len(bound.sign), len(bound.linear)
    begin, share, shares, constant = net.units[last], bound.share, bound.shares[SHARES * h :], 0.0
    biases = net.biases[begin - net.widths[0] :]
    for c in range(m):
        low, high, sign = bound.low[begin + c], bound.high[begin + c], bound.sign[c]
        if low >= 0.0:
            share[c] = sign
        elif high <= 0.0:
            share[c] = 0.0
        elif sign > 0.0:
            share[c] = sign * shares[c] * high / (high - low)
            constant -= share[c] * low
        else:
            share[c] = sign * shares[c]
        constant += share[c] * biases[c]
    for n in range(bound.kept[0]):
        c = bound.kept[1 + n]
        bound.factor[n] = bound.sign[c] * (1.0 - shares[c])
    at = net.offsets[last - 1]
    for u in range(h):
        bound.linear[u] = dot(net.weights[at : at + m], share)
        at += m
    return constant


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
def multiply(bound: Majorant, up: Floats, lo: Floats, k: Floats) -> None:
    """The upper bounds of kept units from the bounds of the units before them. Several units at a time, so that the
    sums are loaded and stored less often."""
    above, below, count = bound.ends[0], bound.ends[1], (bound.kept[0] + PAD - 1) // PAD * PAD
    r, s, t, lower = k[RELU], k[SLOPE], k[CONSTANT], k[LOWER]
    for u in range(len(r)):
        above[u], below[u] = r[u] * max(up[u], 0.0) + s[u] * up[u] + t[u], lower[u] * lo[u]
    out, one, several = bound.inner[:count], 0, 0
    same, apart = bound.active[0], bound.active[1]
    for u in range(len(r)):
        same[one] = apart[several] = u
        one += above[u] == below[u] and above[u] != 0.0
        several += above[u] != below[u]
    for q in range(len(out)):
        out[q] = bound.bias[q]
    for n in range(0, one, 4):
        a, b, c, d = same[n], same[min(n + 1, one - 1)], same[min(n + 2, one - 1)], same[min(n + 3, one - 1)]
        va, vb = above[a], above[b] if n + 1 < one else 0.0
        vc, vd = above[c] if n + 2 < one else 0.0, above[d] if n + 3 < one else 0.0
        wa, wb, wc, wd = bound.whole[a, :count], bound.whole[b, :count], bound.whole[c, :count], bound.whole[d, :count]
        for q in range(len(out)):
            out[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]
    for n in range(0, several, 2):
        a, b = apart[n], apart[min(n + 1, several - 1)]
        here = 1.0 if n + 1 < several else 0.0
        va, vb, vc, vd = above[a], below[a], here * above[b], here * below[b]
        wa, wb = bound.rising[a, :count], bound.falling[a, :count]
        wc, wd = bound.rising[b, :count], bound.falling[b, :count]
        for q in range(len(out)):
            out[q] += va * wa[q] + vb * wb[q] + vc * wc[q] + vd * wd[q]


@compiled
def majorise(net: Layers, bound: Majorant, z: Floats) -> float:
    """The majorant of the functional, without its constant, at a point of the first layer."""
    last, total = len(net.leak) - 1, float(bound.constant[0])
    begin, h = net.units[max(last - 1, 0)], len(bound.linear)
    up, lo = z, z
    if last > 1:
        through_layers(net, bound, last - 1, z)
        up, lo = bound.upper[begin : begin + h], bound.lower[begin : begin + h]
    after, before, below = bound.parts[0], bound.parts[1], bound.parts[2]
    for u in range(h):
        total += after[u] * max(up[u], 0.0) + before[u] * up[u] + below[u] * lo[u]
    if bound.kept[0] > 0:
        multiply(bound, up, lo, bound.coefficients[:, begin : begin + h])
        for n in range(bound.kept[0]):
            total += bound.factor[n] * max(bound.inner[n], 0.0)
    return total


@compiled
def add_gradient(net: Layers, bound: Majorant, z: Floats, weight: float) -> None:
    """Add the gradient of the majorant at a point in the shares, times a weight. `majorise` has just been there."""
    last = len(net.leak) - 1
    m, h = len(bound.sign), len(bound.linear)
    begin, gradient = net.units[max(last - 1, 0)], bound.gradient
    up = z if last < 2 else bound.upper[begin : begin + h]
    lo = z if last < 2 else bound.lower[begin : begin + h]
    count, outer = bound.kept[0], bound.outer[: bound.kept[0]]
    for n in range(count):
        outer[n] = weight * bound.factor[n] * (1.0 if bound.inner[n] > 0.0 else 0.0)
    for u in range(h):
        low, high = bound.low[begin + u], bound.high[begin + u]
        if not (low < 0.0 and high > 0.0):
            continue
        room = high / (high - low) * (up[u] - low) - max(up[u], 0.0)
        gradient[u] += dot(bound.rising[u, :count], outer) * room
        gradient[h + u] += dot(bound.falling[u, :count], outer) * lo[u]
        gradient[2 * h + u] += weight * max(bound.linear[u], 0.0) * room
        gradient[3 * h + u] += weight * min(bound.linear[u], 0.0) * lo[u]
    if m > 0:
        last_gradient(net, bound, up, lo, weight)


@inlined
def last_gradient(net: Layers, bound: Majorant, up: Floats, lo: Floats, weight: float) -> None:
    """Add the gradient in the shares of the last hidden layer."""
    last, m, h = len(net.leak) - 1, len(bound.sign), len(bound.linear)
    begin, at, full, inner = net.units[last], net.offsets[last - 1], bound.full, bound.gradient[SHARES * h :]
    biases, first = net.biases[begin - net.widths[0] :], net.units[last - 1]
    for c in range(m):
        full[c] = biases[c]
    k = bound.coefficients[4:, first : first + h]
    for u in range(h):
        value = k[LOWER, u] * lo[u]
        if bound.linear[u] > 0.0:
            value = k[RELU, u] * max(up[u], 0.0) + k[SLOPE, u] * up[u] + k[CONSTANT, u]
        if value != 0.0:
            weights = net.weights[at : at + m]
            for c in range(m):
                full[c] += value * weights[c]
        at += m
    for c in range(m):
        low, high = bound.low[begin + c], bound.high[begin + c]
        if low < 0.0 and high > 0.0:
            steep = 1.0 if bound.sign[c] <= 0.0 else high / (high - low)
            inner[c] += weight * bound.sign[c] * steep * (full[c] - (low if bound.sign[c] > 0.0 else 0.0))
    for n in range(bound.kept[0]):
        c = bound.kept[1 + n]
        inner[c] -= weight * bound.sign[c] * max(bound.inner[n], 0.0)


@inlined
def descend(bound: Majorant, fall: float) -> None:
    """Move from the best shares against the gradient, as far as it takes for the bound to fall by so much if it were
    linear; shares stay between 0 and 1."""
    best, gradient, shares, norm = bound.best, bound.gradient, bound.shares, 0.0
    for p in range(len(shares)):
        g = gradient[p]
        norm += g * g if (g > 0.0 and best[p] > 0.0) or (g < 0.0 and best[p] < 1.0) else 0.0
    rate = fall / norm if norm > 0.0 else 0.0
    for p in range(len(shares)):
        shares[p] = min(max(best[p] - rate * gradient[p], 0.0), 1.0)
