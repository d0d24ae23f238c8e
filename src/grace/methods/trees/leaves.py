"""The leaves of a tree that changes of a row reach, in compiled code: by moved features alone, and with open ones."""

from __future__ import annotations

import numpy as np

from grace.methods.trees.regions import (
    LIMIT,
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
)
from grace.methods.trees.slots import cheapest, first_slot, last_slot, raise_share, with_slot
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
    """The leaves of a tree that need at least two and at most so many open features, can be afforded, and bring more
    than `base` and than the shares that `with_one_open` has found; returns how many."""
    stack, size, path, low, high = r.stack, r.size, r.path, r.path_low, r.path_high
    found, top = 0, 0
    stack[0], size[0], r.covered[0] = trees.roots[t], 0, 0.0
    while top >= 0:
        node, n, here = stack[top], size[top], top
        top -= 1
        if n < 0:
            continue
        r.counts[VISITS] += 1
        if at_most(trees, t, node, terms) - base <= r.covered[here]:
            continue
        f = trees.feature[node]
        if f < 0:
            spent = r.costs[SPENT]
            for p in range(n):
                r.first[found, p], r.last[found, p] = r.path_first[here, p], r.path_last[here, p]
                spent = with_slot(spent, cheapest(r.path_first[here, p], r.path_last[here, p], r), r)
            if spent < r.costs[LIMIT]:
                r.brings[found], r.needs[found] = of_leaf(trees, t, node, terms) - base, n
                found += 1
            continue
        at, category, status = trees.threshold[node], trees.members[node] >= 0, r.status[f]
        leftwards, rightwards, place = False, False, -1
        if status == MOVED:
            leftwards = goes_left(trees, node, r.low[f]) if category else r.low[f] < at
            rightwards = not leftwards if category else r.high[f] >= at
        else:
            for p in range(n):
                if path[here, p] == f:
                    place = p
            if place >= 0:  # moved already on this path; of categories all are taken to be left
                leftwards, rightwards = category or low[here, place] < at, category or high[here, place] >= at
            else:
                leftwards = goes_left(trees, node, x[f])
                rightwards = not leftwards
        own_left = leftwards
        if place < 0 and status == OPEN and n < more:
            leftwards = leftwards or category or r.least[f] < at
            rightwards = rightwards or category or r.most[f] >= at
        if leftwards and rightwards:  # the right side takes the place of the node, and the left one comes on top
            for p in range(n):
                path[here + 1, p], low[here + 1, p], high[here + 1, p] = path[here, p], low[here, p], high[here, p]
                r.path_first[here + 1, p], r.path_last[here + 1, p] = r.path_first[here, p], r.path_last[here, p]
                r.path_share[here + 1, p] = r.path_share[here, p]
            r.covered[here + 1] = r.covered[here]
        for side in range(2):
            left = side == 0
            if not (leftwards if left else rightwards):
                continue
            top = here + 1 if left and rightwards else max(top, here)
            child = here + 1 if left and rightwards else here
            stack[child], size[child] = (trees.left[node] if left else trees.right[node]), n
            if place >= 0 and not category:
                narrow(child, place, at, left, r)
            elif place < 0 and status == OPEN and left != own_left:
                size[child] = n + 1
                path[child, n], low[child, n], high[child, n] = f, r.least[f], r.most[f]
                r.path_first[child, n], r.path_last[child, n] = r.slots[f], r.slots[f + 1] - 1
                r.path_share[child, n] = 0.0
                if not category:
                    narrow(child, n, at, left, r)
                elif r.slots[f] < r.slots[f + 1]:
                    r.path_share[child, n] = r.share[r.slots[f]]
                    r.covered[child] += r.path_share[child, n]
                else:
                    size[child] = -1
    return found


@inlined
def narrow(child: int, place: int, at: float, left: bool, r: Region) -> None:
    """Narrow the range of a number on the path to a node to one side of a threshold, and the slots that it is reached
    from. A node that is reached from none has a size of -1."""
    if left:
        r.path_high[child, place] = min(r.path_high[child, place], below(at))
    else:
        r.path_low[child, place] = max(r.path_low[child, place], at)
    one, other = r.path_first[child, place], r.path_last[child, place]
    while one <= other and r.slot_high[one] < r.path_low[child, place]:
        one += 1
    while one <= other and r.slot_low[other] > r.path_high[child, place]:
        other -= 1
    if one > other:
        r.size[child] = -1
        return
    share = r.share[one]
    for slot in range(one + 1, other + 1):
        share = min(share, r.share[slot])
    r.covered[child] += share - r.path_share[child, place]
    r.path_first[child, place], r.path_last[child, place], r.path_share[child, place] = one, other, share


@compiled
def with_one_open(trees: Trees, t: int, terms: Terms, x: Floats, base: float, r: Region) -> None:
    """The share of each slot of open features, one of which may move, in what a tree brings beyond `base`: the best of
    the leaves that it reaches."""
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
