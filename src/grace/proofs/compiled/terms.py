"""The bound of a node of the branch and bound, in compiled code: terms of its changed features and open ways.

By Jensen's inequality (`majorant`) the bound is that in the middle of the node, a term of the changed features, and one
of each open way that is taken. Changed features have one term together, the largest over the corners of their ranges,
where there are few of them; a convex function has its maximum in a corner.

The shares of the majorant begin with tangents in the middle of the node, or with those of its parent if these are
better, and are improved by subgradient steps.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Table
from grace.models.compiled import Layers, compiled, inlined, sort_by
from grace.proofs.compiled.blocks import POINTS, majorise_block
from grace.proofs.compiled.majorant import add_gradient, descend, majorise, prepare
from grace.proofs.compiled.rows import CHANGED, EVALUATIONS, LEFT, OPENED, Search, amount

LIGHTEST = 1e-6  # the least weight of a change in Jensen's inequality, relative to all
ROOT_STEPS, STEPS = 60, 6  # of subgradient descent on the shares of the majorant
FIRST, LONGER, SHORTER, LONGEST = 1.0, 1.5, 0.4, 2.0  # lengths of steps, relative to what a bound of zero takes
GROUPED = 5  # changed features whose corners are all tried; more are bounded one by one
MANY = 16  # points that are better taken in blocks


@compiled
def value_at(net: Layers, s: Search, w: int, by: float) -> float:
    """The majorant after a move along the direction of a way, from the middle of the node."""
    direction = s.directions[s.direction[w]]
    for u in range(net.widths[0]):
        s.point[u] = s.base[u] + by * direction[u]
    s.state[EVALUATIONS] += 1
    return majorise(net, s.bound, s.point)


@inlined
def open_terms(net: Layers, table: Table, i: int, f: int, s: Search, opened: int, middle: float) -> None:
    """The terms of the first open ways, many at a time."""
    points, share = s.block.points, s.weight[s.counts[f, CHANGED]]
    for begin in range(0, opened, POINTS):
        count = min(POINTS, opened - begin)
        for p in range(count):
            w = s.open[f, begin + p]
            by, direction = amount(net, table, i, s, w, s.far[w]) / share, s.directions[s.direction[w]]
            for u in range(net.widths[0]):
                points[u, p] = s.base[u] + by * direction[u]
        majorise_block(net, s.bound, s.block, count)
        for p in range(count):
            s.gain[s.open[f, begin + p]] = max(0.0, share * (s.block.values[p] - middle))
    s.state[EVALUATIONS] += opened


@inlined
def corner_terms(net: Layers, f: int, s: Search, middle: float) -> float:
    """The largest term of the changed features together, over all corners of their ranges; `end` is that corner."""
    changed, share, best, largest = s.counts[f, CHANGED], 0.0, 0, -np.inf
    for a in range(changed):
        share += s.weight[a]
    if share == 0.0:
        for a in range(changed):
            s.end[a] = s.high[f, a]
        return 0.0
    for corner in range(1 << changed):
        place_corner(net, f, s, corner, share)
        value = majorise(net, s.bound, s.point)
        if value > largest:
            best, largest = corner, value
    s.state[EVALUATIONS] += 1 << changed
    for a in range(changed):
        s.end[a] = s.high[f, a] if best >> a & 1 else s.low[f, a]
    return share * (largest - middle)


@compiled
def place_corner(net: Layers, f: int, s: Search, corner: int, share: float) -> None:
    """A corner of the ranges of changed features, from the middle of the node, in `point`; the bits say which ends are
    high."""
    for u in range(net.widths[0]):
        s.point[u] = s.base[u]
    for a in range(s.counts[f, CHANGED]):
        if s.weight[a] > 0.0:
            half, direction = 0.5 * (s.high[f, a] - s.low[f, a]) / share, s.directions[s.direction[s.taken[f, a]]]
            by = half if corner >> a & 1 else -half
            for u in range(net.widths[0]):
                s.point[u] += by * direction[u]


@inlined
def single_terms(net: Layers, f: int, s: Search, middle: float) -> float:
    """The sum of the terms of all changed features, each by itself."""
    total = 0.0
    for a in range(s.counts[f, CHANGED]):
        w, share = s.taken[f, a], s.weight[a]
        s.moves[a], s.end[a] = 0.0, s.high[f, a]
        if share > 0.0:
            half = 0.5 * (s.high[f, a] - s.low[f, a]) / share
            rise, fall = value_at(net, s, w, half), value_at(net, s, w, -half)
            s.moves[a] = share * (max(rise, fall) - middle)
            s.end[a] = s.high[f, a] if rise >= fall else s.low[f, a]
            total += s.moves[a]
    return total


@inlined
def corner_moves(net: Layers, f: int, s: Search) -> None:
    """What each changed feature adds to the term of the corner `end`: what is lost with it in its middle instead."""
    changed, share, corner = s.counts[f, CHANGED], 0.0, 0
    for a in range(changed):
        share += s.weight[a]
        corner |= (1 << a) if s.end[a] == s.high[f, a] else 0
        s.moves[a] = 0.0
    if share == 0.0:
        return
    place_corner(net, f, s, corner, share)
    whole = majorise(net, s.bound, s.point)
    for a in range(changed):
        if s.weight[a] > 0.0:
            place_corner(net, f, s, corner, share)
            half, direction = 0.5 * (s.high[f, a] - s.low[f, a]) / share, s.directions[s.direction[s.taken[f, a]]]
            by = -half if corner >> a & 1 else half
            for u in range(net.widths[0]):
                s.point[u] += by * direction[u]
            s.moves[a] = share * (whole - majorise(net, s.bound, s.point))
    s.state[EVALUATIONS] += changed + 1


@compiled
def evaluate(net: Layers, table: Table, i: int, f: int, s: Search, opened: int) -> float:
    """The terms of the changed features and of the first open ways, which are sorted by them; returns the bound without
    open ways."""
    prepare(net, s.bound)
    middle = majorise(net, s.bound, s.base)
    s.state[EVALUATIONS] += 1
    changed, total = s.counts[f, CHANGED], middle
    total += corner_terms(net, f, s, middle) if changed <= GROUPED else single_terms(net, f, s, middle)
    if opened >= MANY and len(net.leak) <= 2:
        open_terms(net, table, i, f, s, opened, middle)
    else:
        for o in range(opened):
            w, share = s.open[f, o], s.weight[changed]
            by = amount(net, table, i, s, w, s.far[w]) / share
            s.gain[w] = max(0.0, share * (value_at(net, s, w, by) - middle))
    sort_by(s.gain, -1.0, s.open[f], opened)
    return total


@inlined
def set_weights(net: Layers, table: Table, i: int, f: int, s: Search) -> None:
    """The weights of Jensen's inequality: any are sound; here, as the sizes of the moves."""
    changed, left, opened = s.counts[f, CHANGED], s.counts[f, LEFT], s.counts[f, OPENED]
    total = 0.0
    for a in range(changed):
        w = s.taken[f, a]
        width, whole = s.high[f, a] - s.low[f, a], abs(amount(net, table, i, s, w, s.far[w]))
        s.weight[a] = 0.5 * s.size[w] * width / whole if width > 0.0 else 0.0
        total += s.weight[a]
    size = 0.0
    for o in range(opened):
        size += s.size[s.open[f, o]]
    s.weight[changed] = size / opened if left > 0 else 0.0
    total += left * s.weight[changed]
    sum_of_all = 0.0
    for a in range(changed + 1):
        if s.weight[a] > 0.0:
            s.weight[a] = max(s.weight[a], LIGHTEST * total)
            sum_of_all += s.weight[a] * (left if a == changed else 1)
    for a in range(changed + 1):
        if s.weight[a] > 0.0:
            s.weight[a] /= sum_of_all


@compiled
def best_open(f: int, s: Search, begin: int, count: int) -> float:
    """The sum of the terms of the next open ways from a place in their order."""
    total = 0.0
    for o in range(begin, min(begin + count, s.counts[f, OPENED])):
        total += s.gain[s.open[f, o]]
    return total


@inlined
def find_gradient(net: Layers, table: Table, i: int, f: int, s: Search, skip: int) -> None:
    """The gradient of the bound without the first open ways in the shares, from the features that now make it."""
    for p in range(len(s.bound.gradient)):
        s.bound.gradient[p] = 0.0
    rest, changed = 1.0, s.counts[f, CHANGED]
    if changed <= GROUPED:
        share, corner = 0.0, 0
        for a in range(changed):
            share += s.weight[a]
            corner |= (1 << a) if s.end[a] == s.high[f, a] else 0
        if share > 0.0:
            place_corner(net, f, s, corner, share)
            majorise(net, s.bound, s.point)
            add_gradient(net, s.bound, s.point, share)
            rest -= share
    for a in range(changed if changed > GROUPED else 0):
        if s.weight[a] > 0.0:
            half = 0.5 * (s.high[f, a] - s.low[f, a]) / s.weight[a]
            value_at(net, s, s.taken[f, a], half if s.end[a] == s.high[f, a] else -half)
            add_gradient(net, s.bound, s.point, s.weight[a])
            rest -= s.weight[a]
    for o in range(skip, min(skip + s.counts[f, LEFT], s.counts[f, OPENED])):
        w = s.open[f, o]
        if s.gain[w] > 0.0:
            value_at(net, s, w, amount(net, table, i, s, w, s.far[w]) / s.weight[changed])
            add_gradient(net, s.bound, s.point, s.weight[changed])
            rest -= s.weight[changed]
    majorise(net, s.bound, s.base)
    s.state[EVALUATIONS] += 1
    add_gradient(net, s.bound, s.base, max(rest, 0.0))


@inlined
def inherit_shares(net: Layers, table: Table, i: int, f: int, s: Search, few: int, skip: int, allowed: float) -> float:
    """Go on with the shares of the parent if they are better than the present ones, as far as a few ways tell; returns
    the bound without the first open ways."""
    shares, left = s.bound.shares, s.counts[f, LEFT]
    usual = evaluate(net, table, i, f, s, few) + allowed
    usual += best_open(f, s, skip, min(left, few - skip))
    for p in range(len(shares)):
        s.shares[f, p], shares[p] = shares[p], s.shares[f - 1, p]
    own = evaluate(net, table, i, f, s, few) + allowed
    own += best_open(f, s, skip, min(left, few - skip))
    if own < usual:
        return own
    for p in range(len(shares)):
        shares[p] = s.shares[f, p]
    usual = evaluate(net, table, i, f, s, few) + allowed
    return usual + best_open(f, s, skip, min(left, few - skip))


@inlined
def improve(
    net: Layers, table: Table, i: int, f: int, s: Search, few: int, skip: int, value: float, allowed: float
) -> float:
    """Improve the shares of a node by subgradient steps towards a bound of zero (Polyak), as far as a few ways tell;
    a step that makes it worse is taken back, and the next one is shorter. The ways that promise most are left out at
    first: one that goes far would have the shares to itself, and is better taken. Returns the bound without ways."""
    bound, left, opened, scale, fresh = s.bound, s.counts[f, LEFT], s.counts[f, OPENED], FIRST, True
    for p in range(len(bound.shares)):
        bound.best[p] = bound.shares[p]
    for _ in range(ROOT_STEPS if f == 0 else STEPS):
        if value < 0.0:  # as far as a few ways tell
            total = evaluate(net, table, i, f, s, opened) + allowed
            if total + best_open(f, s, skip, left) < 0.0:
                skip = 0
            value = total + best_open(f, s, skip, left)
            if value < 0.0:
                return total
        if fresh:
            find_gradient(net, table, i, f, s, skip)
        descend(bound, scale * value)
        total = evaluate(net, table, i, f, s, few) + allowed
        trial = total + best_open(f, s, skip, min(left, few - skip))
        fresh = trial < value
        if not fresh:
            scale *= SHORTER
            continue
        value, scale = trial, min(LONGER * scale, LONGEST)
        for p in range(len(bound.shares)):
            bound.best[p] = bound.shares[p]
    for p in range(len(bound.shares)):
        bound.shares[p] = bound.best[p]
    return evaluate(net, table, i, f, s, opened) + allowed
