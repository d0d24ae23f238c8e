"""Branch and bound over the changes of one row, depth first, in compiled code.

A node has changed features, each with a range of values, and open ways, of which a few may still be taken. Its bound
(`majorant`) is a sum over features, and is found for all open ways at once. A node that it does not exclude is replaced
by one for each next way that may be taken, those that promise more being left alone in it, or by two with half of the
range of a changed feature.

A node is excluded if its bound is below zero by more than rounding can explain, and a point is an answer if its margin
is at least a tolerance. Between them lie ties: a point there keeps every node that contains it from being excluded, so
that no proof is possible any more. From then on answers alone are looked for, and a node is excluded if its bound is
below the tolerance; else the ties, a layer as thin as the tolerance, would be halved without end.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Layers, compiled, inlined, sort_by
from grace.proofs.compiled.blocks import POINTS, majorise_block
from grace.proofs.compiled.majorant import add_gradient, default_shares, descend, load, majorise, prepare, tangent
from grace.proofs.compiled.points import candidate, differs, lowest_at_point, lowest_in_middle
from grace.proofs.compiled.rows import (
    CHANGED,
    CHILDREN,
    DEPTH,
    EVALUATIONS,
    FUNCTIONAL,
    GROUP,
    KIND,
    LEFT,
    LOADED,
    NEXT,
    NODES,
    OPENED,
    SPLIT,
    STUCK,
    TAKEN,
    UPPER,
    Aims,
    Search,
    amount,
    first_limits,
    inner_limits,
)

THINNEST = 1e-10  # a range of this share of the whole is not halved any more
LIGHTEST = 1e-6  # the least weight of a change in Jensen's inequality, relative to all
ROOT_STEPS, STEPS = 60, 5  # of gradient descent on the shares of the majorant
RATE = 0.2
MANY = 16  # points that are better taken in blocks
HALVED = 0.3  # a range is halved before more ways are taken if its term is this large beside that of the best way,
SMALLEST = 1 / 32  # and as long as it is this share of the whole
PAUSED, CLOSED, CANDIDATE = 0, 1, 2
TAKE, HALVE = 0, 1


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


@compiled
def evaluate(net: Layers, table: Table, i: int, f: int, s: Search, opened: int, fresh: bool) -> float:
    """The terms of the changed features and of the first open ways, which are sorted by them; returns the bound without
    open ways. If it is `fresh`, the lower bounds of the last layer are tangents in the middle of the node."""
    prepare(net, s.bound)
    middle = majorise(net, s.bound, s.base)
    if fresh:
        middle = tangent(net, s.bound)
    s.state[EVALUATIONS] += 1
    changed, total = s.counts[f, CHANGED], middle
    for a in range(changed):
        w, share = s.taken[f, a], s.weight[a]
        s.moves[a], s.end[a] = 0.0, s.high[f, a]
        if share > 0.0:
            half = 0.5 * (s.high[f, a] - s.low[f, a]) / share
            rise, fall = value_at(net, s, w, half), value_at(net, s, w, -half)
            s.moves[a] = share * (max(rise, fall) - middle)
            s.end[a] = s.high[f, a] if rise >= fall else s.low[f, a]
            total += s.moves[a]
    if opened >= MANY and len(net.leak) == 2:
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
def gradient_step(net: Layers, table: Table, i: int, f: int, s: Search, step: int) -> None:
    """Improve the shares for the features that now make the bound."""
    rest, changed = 1.0, s.counts[f, CHANGED]
    for a in range(changed):
        if s.weight[a] > 0.0:
            half = 0.5 * (s.high[f, a] - s.low[f, a]) / s.weight[a]
            value_at(net, s, s.taken[f, a], half if s.end[a] == s.high[f, a] else -half)
            add_gradient(net, s.bound, s.point, s.weight[a])
            rest -= s.weight[a]
    for o in range(min(s.counts[f, LEFT], s.counts[f, OPENED])):
        w = s.open[f, o]
        if s.gain[w] > 0.0:
            value_at(net, s, w, amount(net, table, i, s, w, s.far[w]) / s.weight[changed])
            add_gradient(net, s.bound, s.point, s.weight[changed])
            rest -= s.weight[changed]
    majorise(net, s.bound, s.base)
    s.state[EVALUATIONS] += 1
    add_gradient(net, s.bound, s.base, max(rest, 0.0))
    descend(s.bound, step, RATE)


@compiled
def examine(net: Layers, table: Table, aims: Aims, i: int, f: int, least: float, s: Search) -> bool:
    """Bound a node. True if it is excluded; else its children are set up. Where no proof is possible any more, it is
    enough that functionals are below the `least` that they are in an answer."""
    counts, bound = s.counts[f], s.bound
    s.state[NODES] += 1
    first_limits(net, table, i, f, s)
    inner_limits(net, s)
    set_weights(net, table, i, f, s)
    q = lowest_in_middle(net, aims, i, s)
    if s.state[LOADED] != q:
        load(net, bound, aims.plus[i, q], aims.minus[i, q], aims.sign[i, q])
        s.state[LOADED] = q
    left, opened = counts[LEFT], counts[OPENED]
    allowed = aims.constant[i, q] + (aims.slack[i, q] if s.state[STUCK] == 0 else -least)
    inherit = f > 0 and left > 0 and s.counts[f - 1, FUNCTIONAL] == q
    if inherit:
        for p in range(len(bound.shares)):
            bound.shares[p] = s.shares[f - 1, p]
    else:
        default_shares(net, bound)
    counts[FUNCTIONAL] = q
    for p in range(len(bound.shares)):
        bound.mean[p] = bound.square[p] = bound.gradient[p] = 0.0
    few = min(opened, 3 * left + 4)
    steps = 0 if left == 0 else ROOT_STEPS if f == 0 else STEPS
    some = opened
    for step in range(steps + 1):
        if step > 0:
            gradient_step(net, table, i, f, s, step)
        total = evaluate(net, table, i, f, s, some, step == 0 and not inherit) + allowed
        excluded = total + best_open(f, s, 0, left) < 0.0
        if some < opened and excluded:  # as far as some ways tell
            total = evaluate(net, table, i, f, s, opened, False) + allowed
            excluded = total + best_open(f, s, 0, left) < 0.0
        if excluded:
            return True
        some = opened if step + 1 == steps else few
    s.rest[f] = total
    for p in range(len(bound.shares)):
        s.shares[f, p] = bound.shares[p]
    branch(table, i, f, s)
    return False


@inlined
def widest(table: Table, i: int, f: int, s: Search) -> int:
    """The changed feature whose range is to be halved: the one with the largest term; -1 if all are points."""
    best, most = -1, -1.0
    for a in range(s.counts[f, CHANGED]):
        w = s.taken[f, a]
        width = s.high[f, a] - s.low[f, a]
        span = abs(s.far[w] - table.rows[i, s.feature[w]])
        if width > THINNEST * span and s.moves[a] + 1e-9 * width / span > most:
            best, most = a, s.moves[a] + 1e-9 * width / span
    return best


@inlined
def large(table: Table, i: int, f: int, a: int, s: Search) -> bool:
    """Whether the range of a changed feature is better halved than another way taken. What is left open keeps the bound
    from being exact in points, so that ranges must not be halved without end before all ways are taken."""
    w = s.taken[f, a]
    span = abs(s.far[w] - table.rows[i, s.feature[w]])
    wide: bool = s.high[f, a] - s.low[f, a] > SMALLEST * span
    return wide and s.moves[a] > HALVED * s.gains[f, 0]


@inlined
def branch(table: Table, i: int, f: int, s: Search) -> None:
    """Set up the children of a node that is not excluded: ways to take, or halves of a range."""
    counts, rest = s.counts[f], s.rest[f]
    left, opened = counts[LEFT], counts[OPENED]
    for o in range(opened):
        s.gains[f, o] = s.gain[s.open[f, o]]
    some = 0  # ways that may be the best one of an answer
    while some < opened and not rest + best_open(f, s, some, left) < 0.0:
        some += 1
    a = widest(table, i, f, s)
    counts[NEXT], counts[SPLIT] = 0, a
    if a >= 0 and (some == 0 or (some > 1 and large(table, i, f, a, s))):
        keep = 0  # ways that may be part of an answer
        while keep < opened and not rest + s.gains[f, keep] + best_open(f, s, 0, left - 1) < 0.0:
            keep += 1
        counts[KIND], counts[CHILDREN], counts[OPENED] = HALVE, 2, keep
        counts[UPPER] = s.end[a] == s.high[f, a]  # the half in which the bound is larger comes first
        return
    counts[KIND], counts[CHILDREN], counts[TAKEN] = TAKE, some, some
    if left > 0 and counts[CHANGED] > 0 and not rest < 0.0:
        counts[CHILDREN] += 1  # no more changes
    if counts[CHILDREN] == 0:
        s.state[STUCK] = 1


@inlined
def make_child(columns: Columns, table: Table, f: int, s: Search) -> None:
    """The next child of a node, as the next node on the path."""
    counts, child, n = s.counts[f], s.counts[f + 1], s.counts[f, NEXT]
    counts[NEXT] += 1
    changed, left, opened = counts[CHANGED], counts[LEFT], 0
    for a in range(changed):
        s.taken[f + 1, a], s.low[f + 1, a], s.high[f + 1, a] = s.taken[f, a], s.low[f, a], s.high[f, a]
    if counts[KIND] == HALVE:
        a = counts[SPLIT]
        low, high = s.low[f, a], s.high[f, a]
        middle, step = 0.5 * (low + high), 0.0
        if columns.whole[s.feature[s.taken[f, a]]]:
            middle, step = np.floor(middle), 1.0
        if n == counts[UPPER]:
            s.high[f + 1, a] = middle
        else:
            s.low[f + 1, a] = middle + step
        for o in range(counts[OPENED]):
            s.open[f + 1, o] = s.open[f, o]
        opened = counts[OPENED]
    elif n == counts[TAKEN]:
        left = 0
    else:
        w, gains = s.open[f, n], s.gains[f]
        s.taken[f + 1, changed] = w
        s.low[f + 1, changed], s.high[f + 1, changed] = min(s.near[w], s.far[w]), max(s.near[w], s.far[w])
        changed, left = changed + 1, left - 1
        if left > 0:
            others = s.rest[f] + gains[n]
            for o in range(n + 1, min(n + left, counts[OPENED])):
                others += gains[o]
            for o in range(n + 1, counts[OPENED]):
                v = s.open[f, o]
                if others + gains[o] < 0.0:
                    break
                if s.feature[v] != s.feature[w] and not table.conflict[s.feature[v], s.feature[w]]:
                    s.open[f + 1, opened] = v
                    opened += 1
    child[CHANGED], child[LEFT], child[OPENED] = changed, min(left, opened), opened


@compiled
def advance(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, aims: Aims, i: int, tolerance: float, limit: int,
    s: Search,
) -> int:  # fmt: skip
    """Go on with a row until all is closed, a candidate turns up (in `trial`), or so many evaluations are done."""
    state, limit, least = s.state, s.state[EVALUATIONS] + limit, tolerance * goal.scale
    while state[GROUP] < len(aims.groups) - 1:
        f = state[DEPTH]
        if f >= 0 and s.counts[f, NEXT] == s.counts[f, CHILDREN]:
            state[DEPTH] -= 1
            state[GROUP] += f == 0
            continue
        if f + 2 > len(s.rest):
            s.counts[f, NEXT] = s.counts[f, CHILDREN]
            state[STUCK] = 1
            continue
        if f >= 0:
            make_child(columns, table, f, s)
        if not examine(net, table, aims, i, f + 1, least, s):
            state[DEPTH] = f + 1
            margin = candidate(net, goal, table, i, f + 1, s)
            q, value = lowest_at_point(net, aims, i, s)
            if value + aims.slack[i, q] >= 0.0 and differs(table, i, s):
                state[STUCK] = 1
            if margin >= tolerance:
                return CANDIDATE
        elif f < 0:
            state[GROUP] += 1
        if state[EVALUATIONS] >= limit:
            return PAUSED
    return CLOSED
