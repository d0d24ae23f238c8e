"""Branch and bound over the changes of one row, depth first, in compiled code.

A node has changed features, each with a range of values, and open ways, of which a few may still be taken. Its bound
(`terms`) is a sum over the changed features and open ways. A node that it does not exclude is replaced by one for each
next way that may be taken, those that promise more being left alone in it, or by two with half of the range of a
changed feature. Where many ways may be taken, some are, and the others become one node, which is bounded again: without
the ways that go far, all its bounds are better.

A node is excluded if its bound is below zero by more than rounding can explain, and a point is an answer if its margin
is at least a tolerance. Between them lie ties: a point there keeps every node that contains it from being excluded, so
that no proof is possible any more. From then on answers alone are looked for, and a node is excluded if its bound is
below the tolerance; else the ties, a layer as thin as the tolerance, would be halved without end.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Layers, compiled, inlined
from grace.proofs.compiled.limits import first_limits, inner_limits
from grace.proofs.compiled.majorant import default_shares, keep, load
from grace.proofs.compiled.points import candidate, differs, lowest_at_point, lowest_in_middle
from grace.proofs.compiled.rows import (
    AGAIN,
    CHANGED,
    CHILDREN,
    DEPTH,
    EVALUATIONS,
    FAR,
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
)
from grace.proofs.compiled.terms import (
    GROUPED,
    best_open,
    corner_moves,
    evaluate,
    improve,
    inherit_shares,
    set_weights,
)

THINNEST = 1e-10  # a range of this share of the whole is not halved any more
HALVED = 0.3  # a range is halved before more ways are taken if its term is this large beside that of the best way,
SMALLEST = 1 / 32  # and as long as it is this share of the whole
ALL = 24  # ways that are taken one by one; of more, a share is, and the node is bounded again without them
PAUSED, CLOSED, CANDIDATE = 0, 1, 2
TAKE, HALVE = 0, 1


@compiled
def examine(net: Layers, table: Table, aims: Aims, i: int, f: int, least: float, s: Search) -> bool:
    """Bound a node. True if it is excluded; else its children are set up. Where no proof is possible any more, it is
    enough that functionals are below the `least` that they are in an answer."""
    counts, bound = s.counts[f], s.bound
    s.state[NODES] += 1
    first_limits(net, table, i, f, s)
    inner_limits(net, f, s)
    set_weights(net, table, i, f, s)
    q = lowest_in_middle(net, aims, i, s)
    if s.state[LOADED] != q:
        load(net, bound, aims.plus[i, q], aims.minus[i, q], aims.sign[i, q])
        s.state[LOADED] = q
    left, opened = counts[LEFT], counts[OPENED]
    allowed = aims.constant[i, q] + (aims.slack[i, q] if s.state[STUCK] == 0 else -least)
    keep(net, bound)
    default_shares(net, bound, s.values)
    total = evaluate(net, table, i, f, s, opened) + allowed
    value = total + best_open(f, s, 0, left)
    if value < 0.0:
        return True
    few, skip = min(opened, 3 * left + 10), FAR if opened > 4 * FAR else 0
    if left > 0 and not total + best_open(f, s, skip, left) < 0.0:
        value = total + best_open(f, s, skip, left)
        if f > 0 and s.counts[f - 1, FUNCTIONAL] == q:
            value = inherit_shares(net, table, i, f, s, few, skip, allowed)
        total = improve(net, table, i, f, s, few, skip, value, allowed)
        if total + best_open(f, s, 0, left) < 0.0:
            return True
    counts[FUNCTIONAL] = q
    s.rest[f] = total
    if counts[CHANGED] <= GROUPED:
        corner_moves(net, f, s)
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
    counts[AGAIN] = some > ALL
    if some > ALL:
        counts[TAKEN] = max(FAR, some // 6)
        counts[CHILDREN] = counts[TAKEN] + 1  # the ways that remain, or no more changes
    elif left > 0 and counts[CHANGED] > 0 and not rest < 0.0:
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
    elif n == counts[TAKEN] and counts[AGAIN]:
        others = s.rest[f]
        for o in range(n, min(n + left - 1, counts[OPENED])):
            others += s.gains[f, o]
        while n + opened < counts[OPENED] and not others + s.gains[f, n + opened] < 0.0:
            s.open[f + 1, opened] = s.open[f, n + opened]
            opened += 1
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
