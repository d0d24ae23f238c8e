"""Bounds on what changes of a row can bring in a tree ensemble, in compiled code.

Each feature is FIXED at the row's own value, MOVED to a range of values (or to one category), or OPEN: up to r of the
open ones may move too, anywhere within their limits. Every tree is followed into all leaves that this allows. The sum
of the best leaves that need no open feature, over all trees, bounds what the moved features reach by themselves. What
leaves that need open features would bring beyond that is shared out to the slots (`slots`) of these features from which
they are reached, so that the shares of the features of a leaf add up to at least what it brings: r features, each in
one slot, then bring at most the sum of their shares. Leaves that cost more than the best answer do not count.

Most trees do not split on any of the few features that are moved. What open features bring in such a tree is at most
what they bring in the row itself, which is remembered.
"""

from __future__ import annotations

import numpy as np

from grace.methods.trees.regions import (
    LIMIT,
    LIMITS,
    LIVE,
    MARK,
    MARKED,
    MOVED,
    OPEN,
    SPENT,
    SPLITS,
    VISITS,
    Region,
    Terms,
    at_most,
    below,
    of_leaf,
    terms_of,
)
from grace.methods.trees.slots import add_gain, cheapest, first_slot, last_slot, raise_share, with_slot
from grace.models.compiled import Floats, compiled, inlined
from grace.models.trees.compiled import Trees, goes_left


@compiled
def without_open(trees: Trees, t: int, terms: Terms, x: Floats, collect: bool, r: Region) -> tuple[float, float]:
    """The largest and the smallest value of the leaves of a tree that need no open feature. Collects the thresholds
    that lie within the range of a moved number, if asked to."""
    stack, top, largest, smallest = r.stack, 0, -np.inf, np.inf
    first = r.counts[SPLITS]
    stack[0] = trees.roots[t]
    while top >= 0:
        node = stack[top]
        top -= 1
        r.counts[VISITS] += 1
        f = trees.feature[node]
        if f < 0:
            value = of_leaf(trees, t, node, terms)
            largest, smallest = max(largest, value), min(smallest, value)
        elif r.status[f] != MOVED:
            top += 1
            stack[top] = trees.left[node] if goes_left(trees, node, x[f]) else trees.right[node]
        elif trees.members[node] >= 0:
            top += 1
            stack[top] = trees.left[node] if goes_left(trees, node, r.low[f]) else trees.right[node]
        else:
            at = trees.threshold[node]
            if r.high[f] >= at:
                top += 1
                stack[top] = trees.right[node]
            if r.low[f] < at:
                top += 1
                stack[top] = trees.left[node]
                if collect and r.high[f] >= at and r.counts[SPLITS] < len(r.split_at):
                    place = r.counts[SPLITS]
                    r.split_feature[place], r.split_at[place] = f, at
                    r.counts[SPLITS] += 1
    for place in range(first, r.counts[SPLITS]):
        r.split_weight[place] = largest - smallest
    if largest == smallest:  # they decide nothing
        r.counts[SPLITS] = first
    return largest, smallest


@compiled
def with_open(trees: Trees, t: int, terms: Terms, x: Floats, more: int, base: float, r: Region) -> int:
    """The leaves of a tree that need at least two and at most so many open features, can be afforded and bring more
    than `base`; returns how many. Those that need one raise the shares of its slots at once."""
    stack, size, path, low, high = r.stack, r.size, r.path, r.path_low, r.path_high
    found, top = 0, 0
    stack[0], size[0] = trees.roots[t], 0
    while top >= 0:
        node, n = stack[top], size[top]
        r.counts[VISITS] += 1
        if at_most(trees, t, node, terms) <= base:
            top -= 1
            continue
        f = trees.feature[node]
        if f < 0:
            spent, brings = r.costs[SPENT], of_leaf(trees, t, node, terms) - base
            for p in range(n):
                one = first_slot(path[top, p], low[top, p], r)
                other = last_slot(path[top, p], high[top, p], r)
                spent = with_slot(spent, cheapest(one, other, r), r) if one <= other else np.inf
                r.first[found, p], r.last[found, p] = one, other
            if n == 1 and spent < r.costs[LIMIT]:
                for slot in range(r.first[found, 0], r.last[found, 0] + 1):
                    raise_share(slot, brings, r)
            elif n > 1 and spent < r.costs[LIMIT]:
                r.brings[found], r.needs[found] = brings, n
                found += 1
            top -= 1
            continue
        at, category, status = trees.threshold[node], trees.members[node] >= 0, r.status[f]
        leftwards, rightwards, place = False, False, -1
        if status == MOVED:
            leftwards = goes_left(trees, node, r.low[f]) if category else r.low[f] < at
            rightwards = not leftwards if category else r.high[f] >= at
        else:
            for p in range(n):
                if path[top, p] == f:
                    place = p
            if place >= 0:  # moved already on this path; of categories all are taken to be left
                leftwards, rightwards = category or low[top, place] < at, category or high[top, place] >= at
            else:
                leftwards = goes_left(trees, node, x[f])
                rightwards = not leftwards
        own_left = leftwards
        if place < 0 and status == OPEN and n < more:
            leftwards = leftwards or category or r.least[f] < at
            rightwards = rightwards or category or r.most[f] >= at
        here = top
        top -= 1
        for side in range(2):  # the place of this node is taken by the first child, the next by the second
            if not (rightwards if side == 0 else leftwards):
                continue
            top += 1
            if top > here:
                for p in range(n):
                    path[top, p], low[top, p], high[top, p] = path[here, p], low[here, p], high[here, p]
            stack[top], size[top] = (trees.right[node] if side == 0 else trees.left[node]), n
        # ranges and new features, from the last child on so that the place of the node is overwritten last
        for child in range(top, here - 1, -1):
            left = stack[child] == trees.left[node] and leftwards
            if place >= 0:
                if left:
                    high[child, place] = min(high[child, place], below(at))
                else:
                    low[child, place] = max(low[child, place], at)
            elif status == OPEN and left != own_left:
                path[child, n], low[child, n], high[child, n] = f, r.least[f], r.most[f]
                if left:
                    high[child, n] = min(high[child, n], below(at))
                else:
                    low[child, n] = max(low[child, n], at)
                size[child] = n + 1
    return found


@compiled
def with_one_open(trees: Trees, t: int, terms: Terms, x: Floats, base: float, r: Region) -> None:
    """The share of each slot of open features, one of which may move, in what a tree brings beyond `base`: the best of
    the leaves that it reaches. The same as `with_open` and `share_out` for one feature."""
    stack, which, low, high, top = r.stack, r.size, r.path_low, r.path_high, 0
    stack[0], which[0] = trees.roots[t], -1
    while top >= 0:
        node, moves, since, until = stack[top], which[top], low[top, 0], high[top, 0]
        top -= 1
        while True:
            r.counts[VISITS] += 1
            if at_most(trees, t, node, terms) <= base:
                break
            f = trees.feature[node]
            if f < 0:
                if moves >= 0:
                    brings = of_leaf(trees, t, node, terms) - base
                    for slot in range(first_slot(moves, since, r), last_slot(moves, until, r) + 1):
                        raise_share(slot, brings, r)
                break
            at, category, status = trees.threshold[node], trees.members[node] >= 0, r.status[f]
            if f != moves and status != MOVED:
                leftwards = goes_left(trees, node, x[f])
                other = trees.right[node] if leftwards else trees.left[node]
                if status == OPEN and moves < 0 and (category or (r.most[f] >= at if leftwards else r.least[f] < at)):
                    top += 1
                    stack[top], which[top] = other, f
                    low[top, 0] = max(r.least[f], at) if leftwards else r.least[f]
                    high[top, 0] = r.most[f] if leftwards else min(r.most[f], below(at))
                node = trees.left[node] if leftwards else trees.right[node]
                continue
            if f == moves:  # of categories all are taken to be left
                leftwards, rightwards = category or since < at, category or until >= at
            elif category:
                leftwards = goes_left(trees, node, r.low[f])
                rightwards = not leftwards
            else:
                leftwards, rightwards = r.low[f] < at, r.high[f] >= at
            narrows = f == moves and not category
            if leftwards and rightwards:
                top += 1
                stack[top], which[top], high[top, 0] = trees.right[node], moves, until
                low[top, 0] = max(since, at) if narrows else since
            if leftwards:
                node, until = trees.left[node], min(until, below(at)) if narrows else until
            elif rightwards:
                node, since = trees.right[node], max(since, at) if narrows else since
            else:
                break


@inlined
def share_out(found: int, more: int, r: Region) -> None:
    """Share what leaves bring out to the features that they need, so that the shares of any slots from which a leaf is
    reached add up to at least what it brings."""
    for n in range(2, more + 1):
        for at in range(found):
            if r.needs[at] != n:
                continue
            lack = r.brings[at]
            for p in range(n):
                lack -= least_share(at, p, r)
            if lack > 0.0:
                for p in range(n):
                    share = least_share(at, p, r) + lack / n
                    for slot in range(r.first[at, p], r.last[at, p] + 1):
                        raise_share(slot, share, r)


@inlined
def least_share(at: int, p: int, r: Region) -> float:
    """The least share of the slots from which a leaf is reached by one of the features that it needs."""
    least = r.share[r.first[at, p]]
    for slot in range(r.first[at, p] + 1, r.last[at, p] + 1):
        least = min(least, r.share[slot])
    return least


@inlined
def shares_of(trees: Trees, t: int, terms: Terms, x: Floats, more: int, base: float, r: Region) -> None:
    """The share of each slot in what up to so many open features bring in a tree beyond `base`."""
    r.counts[MARKED] = 0
    if more == 1:
        with_one_open(trees, t, terms, x, base, r)
    elif more > 1:
        share_out(with_open(trees, t, terms, x, more, base, r), more, r)


@compiled
def bound(
    trees: Trees, functional: Floats, x: Floats, more: int, collect: bool, q: int, r: Region
) -> tuple[float, float]:  # fmt: skip
    """The largest and the smallest value of a functional that needs no open feature, summed over trees; what up to so
    many open features bring beyond is left in `gain`. Trees that do not split on a moved feature are not followed
    again if `remember` was called for as many open features and functional q; q is -1 if it was not."""
    known = q >= 0 and is_held(more, q, r) and r.held[more, q] == r.counts[LIMITS]
    return over_trees(trees, functional, x, more, collect, max(q, 0), known, False, r)


@compiled
def remember(trees: Trees, functional: Floats, x: Floats, more: int, q: int, r: Region) -> None:
    """The bound of the row itself with so many open features, none being moved, of which each tree's part is remembered
    as that of functional q. Where fewer features are open, the shares are not the least possible, and bounds still."""
    r.costs[SPENT] = 0.0
    over_trees(trees, functional, x, more, False, q, False, is_held(more, q, r), r)
    if is_held(more, q, r):
        r.held[more, q] = r.held[0, q] = r.counts[LIMITS]


@inlined
def is_held(more: int, q: int, r: Region) -> bool:
    """Whether there is room to remember the bounds of functional q with so many open features."""
    return more < r.held.shape[0] and q < r.held.shape[1]


@compiled
def over_trees(
    trees: Trees, functional: Floats, x: Floats, more: int, collect: bool, q: int, known: bool, keep: bool, r: Region
) -> tuple[float, float]:  # fmt: skip
    """See `bound`: what is `known` of trees that no moved feature touches is used; with `keep`, all is remembered."""
    largest = 0.0
    for c in range(len(functional)):
        largest += functional[c] * trees.base[c]
    smallest, terms = largest, terms_of(functional)
    for at in range(r.counts[LIVE]):
        r.gain[r.live[at]] = 0.0
    r.counts[SPLITS] = r.counts[LIVE] = 0
    place, room = 0, r.held_slot.shape[2]
    for t in range(len(trees.roots)):
        only = trees.output[t]
        if only >= 0 and functional[only] == 0.0:
            continue
        if known and r.touched[t] != r.counts[MARK] and r.held_begins[more, q, t] <= room:
            largest, smallest = largest + r.value[q, t], smallest + r.value[q, t]
            if more > 0:
                for at in range(r.held_begins[more, q, t], r.held_ends[more, q, t]):
                    add_gain(r.held_slot[more, q, at], r.held_share[more, q, at], r)
            continue
        high, low = without_open(trees, t, terms, x, collect, r)
        largest, smallest = largest + high, smallest + low
        if more > 0:
            shares_of(trees, t, terms, x, more, high, r)
        if keep:
            fits = place + r.counts[MARKED] <= room
            r.value[q, t], r.held_begins[more, q, t] = high, place if fits else room + 1
            if fits:
                for at in range(r.counts[MARKED]):
                    r.held_slot[more, q, place], r.held_share[more, q, place] = r.marked[at], r.share[r.marked[at]]
                    place += 1
            r.held_ends[more, q, t] = place
        if more > 0:
            for at in range(r.counts[MARKED]):
                slot = r.marked[at]
                add_gain(slot, r.share[slot], r)
                r.share[slot] = 0.0
    return largest, smallest
