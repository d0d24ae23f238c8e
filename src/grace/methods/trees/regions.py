"""Regions around a row in which a tree ensemble is bounded, and functionals of its sums, in compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, inlined
from grace.models.trees.compiled import Trees

FIXED, MOVED, OPEN = 0, 1, 2
VISITS = 0  # in `Region.counts`: nodes of trees that were looked at
SPLITS = 1  # thresholds that were collected
LIMITS = 2  # how often the row, its limits or its free features were set: what is remembered counts until then
MARK = 3  # what `touched` is for the trees that split on a moved feature
HELD = 16  # functionals of which the trees of the row itself are remembered,
HELD_OPEN = 5  # for up to so many open features


class Region(NamedTuple):
    """What is asked about a row with d features of which at most K change, and arrays to work with; one set per
    thread. D is the depth of the deepest tree, L the number of leaves of the largest."""

    status: Ints  # (d,)
    low: Floats  # (d,) the range of a moved number, both ends included; a moved category is at `low`
    high: Floats
    least: Floats  # (d,) the limits of open numbers
    most: Floats
    counts: Ints  # (4,)
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
    touched: Ints  # (T,)
    held: Ints  # (O + 1, H) the limits for which trees of the row itself are remembered, for each number of open
    # features that may move and each functional:
    value: Floats  # (H, T) their values,
    shares: Floats  # (O + 1, H, U) and the share of each feature of each tree


def region(trees: Trees, d: int, most: int) -> Region:
    deep, leaves, k = trees.depth + 2, trees.leaves, max(most, 1)

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    splits, held = 4096, min(HELD, len(trees.base) ** 2)
    return Region(
        status=whole(d),
        low=np.zeros(d),
        high=np.zeros(d),
        least=np.zeros(d),
        most=np.zeros(d),
        counts=whole(4),
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
        touched=whole(len(trees.roots)),
        held=whole(min(k, HELD_OPEN) + 1, held) - 1,
        value=np.zeros((held, len(trees.roots))),
        shares=np.zeros((min(k, HELD_OPEN) + 1, held, len(trees.uses.features))),
    )


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
