"""Regions around a row in which a tree ensemble is bounded, and functionals of its sums, in compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Bools, Floats, Ints, inlined
from grace.models.trees.compiled import Trees

FIXED, MOVED, OPEN = 0, 1, 2
VISITS = 0  # in `Region.counts`: nodes of trees that were looked at
SPLITS = 1  # thresholds that were collected
LIMITS = 2  # how often the row, its limits or its free features were set: what is remembered counts until then
MARK = 3  # what `touched` is for the trees that split on a moved feature
LIVE = 4  # slots with a gain
MARKED = 5  # slots with a share in the tree that is followed
HELD = 16  # functionals of which the trees of the row itself are remembered,
HELD_OPEN = 5  # for up to so many open features,
HELD_SHARES = 128  # with room for so many shares of a tree on average
SIDE = 8  # slots of a number on each side of the row's own value
SPENT, LIMIT = 0, 1  # in `Region.costs`: of a node, and of the best answer; costs in between can be afforded


class Region(NamedTuple):
    """What is asked about a row with d features of which at most K change, and arrays to work with; one set per
    thread. D is the depth of the deepest tree, L the number of leaves of the largest. What open features can bring is
    bounded slot by slot (`slots`): a slot is a range of values on one side of the row's own."""

    status: Ints  # (d,)
    low: Floats  # (d,) the range of a moved number, both ends included; a moved category is at `low`
    high: Floats
    least: Floats  # (d,) the limits of open numbers
    most: Floats
    slots: Ints  # (d + 1,) where the slots of each feature begin,
    slot_low: Floats  # (B,) their ranges in rising order; a category has one slot for all of its codes,
    slot_high: Floats
    slot_cost: Floats  # (B,) and the least cost of a value in each, as it enters the distance
    slot_feature: Ints  # (B,)
    costs: Floats  # (2,)
    farthest: Bools  # (1,) whether the largest cost is the distance, not their sum
    counts: Ints  # (6,)
    stack: Ints  # (D + 2,) nodes to visit,
    size: Ints  # (D + 2,) how many open features lead there,
    path: Ints  # (D + 2, K) which,
    path_low: Floats  # (D + 2, K) the ranges that are left of them,
    path_high: Floats
    path_first: Ints  # (D + 2, K) their slots there,
    path_last: Ints
    path_share: Floats  # (D + 2, K) the least share of these,
    covered: Floats  # (D + 2,) and the sum of these shares
    brings: Floats  # (L,) of the leaves of a tree that need open features: how much more than without,
    needs: Ints  # (L,) how many of them,
    first: Ints  # (L, K) and the slots of each from which they are reached
    last: Ints
    share: Floats  # (B,) of each slot in a tree,
    marked: Ints  # (B,) and the slots that have one
    gain: Floats  # (B,) the sum of the shares over all trees,
    live: Ints  # (B,) and the slots that have one
    split_feature: Ints  # (S,) thresholds within the ranges of moved features,
    split_at: Floats  # (S,)
    split_weight: Floats  # (S,) and how far apart the leaves are between which they decide
    touched: Ints  # (T,)
    held: Ints  # (O + 1, H) the limits for which trees of the row itself are remembered, for each number of open
    # features that may move and each functional:
    value: Floats  # (H, T) their values,
    held_begins: Ints  # (O + 1, H, T) where the shares of each tree begin, beyond all where there is no room for them,
    held_ends: Ints  # (O + 1, H, T) and end
    held_slot: Ints  # (O + 1, H, E)
    held_share: Floats


def region(trees: Trees, d: int, most: int) -> Region:
    deep, leaves, k = trees.depth + 2, trees.leaves, max(most, 1)

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    count, classes = len(trees.roots), len(trees.base)
    splits, held, opened = 4096, min(HELD, classes**2), min(k, HELD_OPEN) + 1
    slots = int(np.minimum(np.diff(trees.cuts.begins) + 4, 2 * SIDE + 2).sum()) + d
    shares = most_trees(trees) * min(HELD_SHARES, slots)
    return Region(
        status=whole(d),
        low=np.zeros(d),
        high=np.zeros(d),
        least=np.zeros(d),
        most=np.zeros(d),
        slots=whole(d + 1),
        slot_low=np.zeros(slots),
        slot_high=np.zeros(slots),
        slot_cost=np.zeros(slots),
        slot_feature=whole(slots),
        costs=np.array([0.0, np.inf]),
        farthest=np.zeros(1, dtype=np.bool_),
        counts=whole(6),
        stack=whole(deep),
        size=whole(deep),
        path=whole(deep, k),
        path_low=np.zeros((deep, k)),
        path_high=np.zeros((deep, k)),
        path_first=whole(deep, k),
        path_last=whole(deep, k),
        path_share=np.zeros((deep, k)),
        covered=np.zeros(deep),
        brings=np.zeros(leaves),
        needs=whole(leaves),
        first=whole(leaves, k),
        last=whole(leaves, k),
        share=np.zeros(slots),
        marked=whole(slots),
        gain=np.zeros(slots),
        live=whole(slots),
        split_feature=whole(splits),
        split_at=np.zeros(splits),
        split_weight=np.zeros(splits),
        touched=whole(count),
        held=whole(opened, held) - 1,
        value=np.zeros((held, count)),
        held_begins=whole(opened, held, count),
        held_ends=whole(opened, held, count),
        held_slot=whole(opened, held, shares),
        held_share=np.zeros((opened, held, shares)),
    )


def most_trees(trees: Trees) -> int:
    """The most trees that add to a functional of two sums."""
    several = (trees.output < 0) & (trees.lowest[trees.roots] < trees.highest[trees.roots]).any(axis=1)
    single = np.sort(np.bincount(trees.output[trees.output >= 0], minlength=2))
    return int(several.sum() + single[-2:].sum())


class Terms(NamedTuple):
    """A functional of the sums: at most two of them, with their weights. Of one, the second has no weight."""

    first: int
    second: int
    of_first: float
    of_second: float


@inlined
def terms_of(functional: Floats) -> Terms:
    """A functional (k,) by its terms, of which it has two at most: the lead of one class over another, or one sum."""
    first = 0
    for c in range(len(functional)):
        if functional[c] != 0.0:
            first = c
            break
    second, weight = first, 0.0
    for c in range(first + 1, len(functional)):
        if functional[c] != 0.0:
            second, weight = c, functional[c]
    return Terms(first, second, functional[first], weight)


@inlined
def of_leaf(trees: Trees, t: int, node: int, terms: Terms) -> float:
    """What a leaf adds to a functional of the sums."""
    only = trees.output[t]
    if only >= 0:
        return (terms.of_first if only == terms.first else terms.of_second) * trees.value[node, only]
    return terms.of_first * trees.value[node, terms.first] + terms.of_second * trees.value[node, terms.second]


@inlined
def at_most(trees: Trees, t: int, node: int, terms: Terms) -> float:
    """A bound on what any leaf below a node adds to a functional."""
    only = trees.output[t]
    if only >= 0:
        weight = terms.of_first if only == terms.first else terms.of_second
        return weight * (trees.highest[node, only] if weight > 0.0 else trees.lowest[node, only])
    most = trees.highest if terms.of_first > 0.0 else trees.lowest
    rest = trees.highest if terms.of_second > 0.0 else trees.lowest
    return terms.of_first * most[node, terms.first] + terms.of_second * rest[node, terms.second]


@inlined
def below(value: float) -> float:
    """The largest number below another."""
    return np.nextafter(value, -np.inf)


@inlined
def above(value: float) -> float:
    """The smallest number above another."""
    return np.nextafter(value, np.inf)
