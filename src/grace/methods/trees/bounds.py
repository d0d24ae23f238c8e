"""Bounds on what changes of a row can bring in a tree ensemble, in compiled code.

Each feature is FIXED at the row's own value, MOVED to a range of values (or to one category), or OPEN: up to r of the
open ones may move too, anywhere within their limits. Every tree is followed into all leaves that this allows. The sum
of the best leaves that need no open feature, over all trees, bounds what the moved features reach by themselves. What
leaves that need open features would bring beyond that is shared out to these features, so that the shares of the
features of a leaf add up to at least what it brings: the best r features then bring at most the sum of their shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, compiled, inlined
from grace.models.trees.compiled import Trees, goes_left

FIXED, MOVED, OPEN = 0, 1, 2
VISITS = 0  # in `Region.counts`: nodes of trees that were looked at
SPLITS = 1  # thresholds that were collected


class Region(NamedTuple):
    """What is asked about a row with d features of which at most K change, and arrays to work with; one set per
    thread. D is the depth of the deepest tree, L the number of leaves of the largest."""

    status: Ints  # (d,)
    low: Floats  # (d,) the range of a moved number, both ends included; a moved category is at `low`
    high: Floats
    least: Floats  # (d,) the limits of open numbers
    most: Floats
    counts: Ints  # (2,)
    stack: Ints  # (D + 2,) nodes to visit,
    size: Ints  # (D + 2,) how many open features lead there,
    path: Ints  # (D + 2, K) which,
    path_low: Floats  # (D + 2, K) and the ranges that are left of them
    path_high: Floats
    brings: Floats  # (L,) of the leaves of a tree that need open features: how much more than without,
    needs: Ints  # (L,) how many of them,
    needed: Ints  # (L, K) and which
    share: Floats  # (d,) of each feature in a tree
    gain: Floats  # (d,) the sum of the shares over all trees
    split_feature: Ints  # (S,) thresholds within the ranges of moved features,
    split_at: Floats  # (S,)
    split_weight: Floats  # (S,) and how far apart the leaves are between which they decide


def region(trees: Trees, d: int, most: int) -> Region:
    deep, leaves, k = trees.depth + 2, trees.leaves, max(most, 1)

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    splits = 4096
    return Region(
        status=whole(d),
        low=np.zeros(d),
        high=np.zeros(d),
        least=np.zeros(d),
        most=np.zeros(d),
        counts=whole(2),
        stack=whole(deep),
        size=whole(deep),
        path=whole(deep, k),
        path_low=np.zeros((deep, k)),
        path_high=np.zeros((deep, k)),
        brings=np.zeros(leaves),
        needs=whole(leaves),
        needed=whole(leaves, k),
        share=np.zeros(d),
        gain=np.zeros(d),
        split_feature=whole(splits),
        split_at=np.zeros(splits),
        split_weight=np.zeros(splits),
    )


@inlined
def of_leaf(trees: Trees, t: int, node: int, functional: Floats) -> float:
    """What a leaf adds to a functional of the sums."""
    only = trees.output[t]
    if only >= 0:
        return functional[only] * trees.value[node, only]
    total = 0.0
    for c in range(len(functional)):
        total += functional[c] * trees.value[node, c]
    return total


@inlined
def at_most(trees: Trees, t: int, node: int, functional: Floats) -> float:
    """A bound on what any leaf below a node adds to a functional."""
    only = trees.output[t]
    if only >= 0:
        weight = functional[only]
        return weight * (trees.highest[node, only] if weight > 0.0 else trees.lowest[node, only])
    total = 0.0
    for c in range(len(functional)):
        weight = functional[c]
        total += weight * (trees.highest[node, c] if weight > 0.0 else trees.lowest[node, c])
    return total


@compiled
def without_open(trees: Trees, t: int, functional: Floats, x: Floats, collect: bool, r: Region) -> tuple[float, float]:
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
            value = of_leaf(trees, t, node, functional)
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
def with_open(trees: Trees, t: int, functional: Floats, x: Floats, more: int, base: float, r: Region) -> int:
    """The leaves of a tree that need at least one and at most so many open features and bring more than `base`; returns
    how many."""
    stack, size, path, low, high = r.stack, r.size, r.path, r.path_low, r.path_high
    found, top = 0, 0
    stack[0], size[0] = trees.roots[t], 0
    while top >= 0:
        node, n = stack[top], size[top]
        r.counts[VISITS] += 1
        if at_most(trees, t, node, functional) <= base:
            top -= 1
            continue
        f = trees.feature[node]
        if f < 0:
            if n > 0:
                r.brings[found], r.needs[found] = of_leaf(trees, t, node, functional) - base, n
                for p in range(n):
                    r.needed[found, p] = path[top, p]
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


@inlined
def below(value: float) -> float:
    """The largest number below another."""
    return np.nextafter(value, -np.inf)


@inlined
def above(value: float) -> float:
    """The smallest number above another."""
    return np.nextafter(value, np.inf)


@inlined
def share_out(found: int, more: int, r: Region) -> None:
    """Share what leaves bring out to the features that they need, so that the shares of a leaf add up to at least what
    it brings; add the shares to the gains."""
    for n in range(1, more + 1):
        for at in range(found):
            if r.needs[at] != n:
                continue
            lack = r.brings[at]
            for p in range(n):
                lack -= r.share[r.needed[at, p]]
            if lack > 0.0:
                for p in range(n):
                    f = r.needed[at, p]
                    r.share[f] += lack / n
    for at in range(found):
        for p in range(r.needs[at]):
            f = r.needed[at, p]
            r.gain[f] += r.share[f]
            r.share[f] = 0.0


@compiled
def bound(trees: Trees, functional: Floats, x: Floats, more: int, collect: bool, r: Region) -> tuple[float, float]:
    """The largest and the smallest value of a functional that needs no open feature, summed over trees; what up to so
    many open features bring beyond is left in `gain`."""
    largest = smallest = 0.0
    for c in range(len(functional)):
        largest += functional[c] * trees.base[c]
    smallest = largest
    r.counts[SPLITS] = 0
    for f in range(len(r.gain)):
        r.gain[f] = 0.0
    for t in range(len(trees.roots)):
        only = trees.output[t]
        if only >= 0 and functional[only] == 0.0:
            continue
        high, low = without_open(trees, t, functional, x, collect, r)
        largest, smallest = largest + high, smallest + low
        if more > 0:
            share_out(with_open(trees, t, functional, x, more, high, r), more, r)
    return largest, smallest
