"""Majorants of networks with at most two hidden layers at many points at once, in compiled code.

The same values as `majorant.majorise`, but for rounding. Points stand side by side, so that a weight is read once for
all of them and sums over units are kept in vectors of points; units that add nothing are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, Layers, compiled, inlined
from grace.proofs.compiled.majorant import CONSTANT, LOWER, RELU, SLOPE, Majorant

POINTS = 128  # in a block
TOGETHER = 4  # units that are added to the sums at a time
LANES = 32  # a number of points is rounded up to a multiple of it, so that loops have no rest


class Block(NamedTuple):
    """Points, and arrays to work with; one set per thread. The first layer has h units, and a second one m."""

    points: Floats  # (h, P) of the first layer
    terms: Floats  # (2 h + 4, P) bounds of units after their ReLU,
    rows: Ints  # (2 h + 4,) and the rows of the weights that they are multiplied with
    sums: Floats  # (m, P)
    values: Floats  # (P,) the majorants


def block(net: Layers) -> Block:
    h, m = (int(net.widths[0]), int(net.widths[1])) if len(net.leak) <= 2 else (0, 0)
    rows, wide = 2 * h + TOGETHER, POINTS + 8  # rows of a power of two would share lines of the cache
    return Block(
        points=np.zeros((h, wide)),
        terms=np.zeros((rows, wide)),
        rows=np.zeros(rows, dtype=np.int64),
        sums=np.zeros((m, wide)),
        values=np.zeros(wide),
    )


@inlined
def add_terms(bound: Majorant, block: Block, h: int, wide: int) -> int:
    """The bounds of the units of the first layer at all points; returns how many rows there are, a multiple of
    `TOGETHER`."""
    k, count = bound.coefficients, 0
    for u in range(h):
        r, s, t, low = k[RELU, u], k[SLOPE, u], k[CONSTANT, u], k[LOWER, u]
        z = block.points[u, :wide]
        if r == 0.0 and s == low and t == 0.0:  # on or off: the same above and below
            if s == 0.0:
                continue
            terms, block.rows[count] = block.terms[count, :wide], 2 * h + u
            for p in range(len(terms)):
                terms[p] = s * z[p]
            count += 1
            continue
        terms, block.rows[count] = block.terms[count, :wide], u
        for p in range(len(terms)):
            terms[p] = r * max(z[p], 0.0) + s * z[p] + t
        count += 1
        if low != 0.0:
            terms, block.rows[count] = block.terms[count, :wide], h + u
            for p in range(len(terms)):
                terms[p] = low * z[p]
            count += 1
    while count % TOGETHER > 0:
        terms, block.rows[count] = block.terms[count, :wide], 3 * h
        for p in range(len(terms)):
            terms[p] = 0.0
        count += 1
    return count


@inlined
def multiply_terms(bound: Majorant, block: Block, count: int, wide: int) -> None:
    """Add the products of terms and weights to the sums of the kept units."""
    weights, rows, terms = bound.weights, block.rows, block.terms
    for n in range(0, count, TOGETHER):
        a, b, c, d = weights[rows[n]], weights[rows[n + 1]], weights[rows[n + 2]], weights[rows[n + 3]]
        ta, tb, tc, td = terms[n, :wide], terms[n + 1, :wide], terms[n + 2, :wide], terms[n + 3, :wide]
        for q in range(bound.kept[0]):
            wa, wb, wc, wd, sums = a[q], b[q], c[q], d[q], block.sums[q, :wide]
            for p in range(len(sums)):
                sums[p] += wa * ta[p] + wb * tb[p] + wc * tc[p] + wd * td[p]


@compiled
def majorise_block(net: Layers, bound: Majorant, block: Block, count: int) -> None:
    """The majorants of the functional, without its constant, at the first points of a block."""
    h, wide = net.widths[0], (count + LANES - 1) // LANES * LANES
    values = block.values[:wide]
    for p in range(len(values)):
        values[p] = bound.constant[0]
    for u in range(h):
        after, before, z = bound.parts[0, u], bound.parts[1, u] + bound.parts[2, u], block.points[u, :wide]
        if after != 0.0:
            for p in range(len(values)):
                values[p] += after * max(z[p], 0.0) + before * z[p]
        elif before != 0.0:
            for p in range(len(values)):
                values[p] += before * z[p]
    if bound.kept[0] == 0:
        return
    for q in range(bound.kept[0]):
        sums = block.sums[q, :wide]
        for p in range(len(sums)):
            sums[p] = bound.bias[q]
    multiply_terms(bound, block, add_terms(bound, block, h, wide), wide)
    for q in range(bound.kept[0]):
        sums, factor = block.sums[q, :wide], bound.factor[q]
        for p in range(len(values)):
            values[p] += factor * max(sums[p], 0.0)
