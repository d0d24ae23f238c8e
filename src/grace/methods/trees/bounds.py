"""Bounds on what changes of a row can bring in a tree ensemble, in compiled code.

Each feature is FIXED at the row's own value, MOVED to a range of values (or to one category), or OPEN: up to r of the
open ones may move too, anywhere within their limits. Every tree is followed into all leaves that this allows. The sum
of the best leaves that need no open feature, over all trees, bounds what the moved features reach by themselves. What
leaves that need open features would bring beyond that is shared out to these features, so that the shares of the
features of a leaf add up to at least what it brings: the best r features then bring at most the sum of their shares.

Most trees do not split on any of the few features that are moved. What open features bring in such a tree is at most
what they bring in the row itself, which is remembered.
"""

from __future__ import annotations

import numpy as np

from grace.methods.trees.regions import (
    LIMITS,
    MARK,
    MOVED,
    OPEN,
    SPLITS,
    VISITS,
    Region,
    Terms,
    at_most,
    below,
    of_leaf,
    terms_of,
)
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
    """The leaves of a tree that need at least one and at most so many open features and bring more than `base`; returns
    how many."""
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
            if n > 0:
                r.brings[found], r.needs[found] = of_leaf(trees, t, node, terms) - base, n
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


@compiled
def with_one_open(trees: Trees, t: int, terms: Terms, x: Floats, base: float, r: Region) -> None:
    """The share of each open feature alone in what a tree brings beyond `base`: the best of the leaves that need it.
    The same as `with_open` and `share_out` for one feature."""
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
                    r.share[moves] = max(r.share[moves], of_leaf(trees, t, node, terms) - base)
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
    """Share what leaves bring out to the features that they need, so that the shares of a leaf add up to at least what
    it brings."""
    for n in range(1, more + 1):
        for at in range(found):
            if r.needs[at] != n:
                continue
            lack = r.brings[at]
            for p in range(n):
                lack -= r.share[r.needed[at, p]]
            if lack > 0.0:
                for p in range(n):
                    r.share[r.needed[at, p]] += lack / n


@inlined
def shares_of(trees: Trees, t: int, terms: Terms, x: Floats, more: int, base: float, r: Region) -> None:
    """The share of each open feature in what up to so many of them bring in a tree beyond `base`."""
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
    base, terms = begin_bound(trees, functional, r)
    largest = smallest = base
    known = q >= 0 and is_held(more, q, r) and r.held[more, q] == r.counts[LIMITS]
    for t in range(len(trees.roots)):
        only = trees.output[t]
        if only >= 0 and functional[only] == 0.0:
            continue
        begin, end = trees.uses.begins[t], trees.uses.begins[t + 1]
        if known and r.touched[t] != r.counts[MARK]:
            largest, smallest = largest + r.value[q, t], smallest + r.value[q, t]
            if more > 0:
                for use in range(begin, end):
                    r.gain[trees.uses.features[use]] += r.shares[more, q, use]
            continue
        high, low = without_open(trees, t, terms, x, collect, r)
        largest, smallest = largest + high, smallest + low
        shares_of(trees, t, terms, x, more, high, r)
        if more > 0:
            for use in range(begin, end):
                f = trees.uses.features[use]
                r.gain[f] += r.share[f]
                r.share[f] = 0.0
    return largest, smallest


@inlined
def is_held(more: int, q: int, r: Region) -> bool:
    """Whether there is room to remember the bounds of functional q with so many open features."""
    return more < r.held.shape[0] and q < r.held.shape[1]


@compiled
def remember(trees: Trees, functional: Floats, x: Floats, more: int, q: int, r: Region) -> None:
    """The bound of the row itself with so many open features, none being moved, of which each tree's part is remembered
    as that of functional q. Where fewer features are open, the shares are not the least possible, and bounds still."""
    _, terms = begin_bound(trees, functional, r)
    kept = is_held(more, q, r)
    for t in range(len(trees.roots)):
        only = trees.output[t]
        if only >= 0 and functional[only] == 0.0:
            continue
        high, _ = without_open(trees, t, terms, x, False, r)
        shares_of(trees, t, terms, x, more, high, r)
        if kept:
            r.value[q, t] = high
        for use in range(trees.uses.begins[t], trees.uses.begins[t + 1]):
            f = trees.uses.features[use]
            if kept:
                r.shares[more, q, use] = r.share[f]
            r.gain[f] += r.share[f]
            r.share[f] = 0.0
    if kept:
        r.held[more, q] = r.held[0, q] = r.counts[LIMITS]


@inlined
def begin_bound(trees: Trees, functional: Floats, r: Region) -> tuple[float, Terms]:
    """What a functional is without any tree, and its terms; no gains and no thresholds yet."""
    base = 0.0
    for c in range(len(functional)):
        base += functional[c] * trees.base[c]
    r.counts[SPLITS] = 0
    for f in range(len(r.gain)):
        r.gain[f] = 0.0
    return base, terms_of(functional)
