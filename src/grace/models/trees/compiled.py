"""Tree ensembles in compiled code, on the features of a schema: their nodes as arrays, and their sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Bools, Floats, Ints, compiled


class Uses(NamedTuple):
    """Which of T trees split on which of d features, S pairs of them, and at which thresholds."""

    begins: Ints  # (T + 1,) where the features of each tree begin
    features: Ints  # (S,)
    tree_begins: Ints  # (d + 1,) where the trees of each feature begin
    trees: Ints  # (S,)


class Cuts(NamedTuple):
    """The thresholds of each of d numbers: C different ones in all. They divide a number into cells, in which all sums
    stay the same: cell c is from threshold c - 1 on and below threshold c."""

    begins: Ints  # (d + 1,) where the thresholds of each feature begin
    threshold: Floats  # (C,) in rising order
    place: Ints  # (N,) of the threshold of each node among those of its feature; -1 for leaves and categories


class Trees(NamedTuple):
    """N nodes of T trees with k sums. A number goes left if it is below the threshold; a category by its code."""

    roots: Ints  # (T,)
    feature: Ints  # (N,) -1 for a leaf
    threshold: Floats  # (N,)
    members: Ints  # (N,) where the codes of a split by category begin in `goes_left`; -1 for a split of numbers
    goes_left: Bools
    missing_left: Bools  # (N,)
    left: Ints  # (N,)
    right: Ints
    value: Floats  # (N, k) of leaves
    lowest: Floats  # (N, k) of all leaves below a node
    highest: Floats
    output: Ints  # (T,) the only sum to which the tree adds; -1 if there are several
    base: Floats  # (k,)
    missing: Floats  # (d,) the number that stands for a missing cell; NaN where there is none
    depth: int  # of the deepest tree
    leaves: int  # of the largest tree
    uses: Uses
    cuts: Cuts


def trees_of(
    roots: Ints, feature: Ints, threshold: Floats, members: Ints, goes_left: Bools, missing_left: Bools, left: Ints,
    right: Ints, value: Floats, base: Floats, missing: Floats,
) -> Trees:  # fmt: skip
    """The trees with what is derived from their nodes: limits of subtrees, sums that a tree adds to, and sizes."""
    lowest, highest = value.copy(), value.copy()
    rank = np.full(len(feature), -1)  # distance from the root
    depth, level = 0, roots
    levels = []
    while len(level):
        rank[level] = depth
        levels.append(level)
        inner = level[feature[level] >= 0]
        level, depth = np.concatenate([left[inner], right[inner]]), depth + 1
    for level in reversed(levels):
        inner = level[feature[level] >= 0]
        lowest[inner] = np.minimum(lowest[left[inner]], lowest[right[inner]])
        highest[inner] = np.maximum(highest[left[inner]], highest[right[inner]])
    used = (lowest[roots] != 0) | (highest[roots] != 0)
    output = np.where(used.sum(axis=1) == 1, used.argmax(axis=1), -1)
    owner = np.zeros(len(feature), dtype=np.int64)
    owner[roots] = np.arange(len(roots))
    for level in levels:
        inner = level[feature[level] >= 0]
        owner[left[inner]] = owner[right[inner]] = owner[inner]
    leaf = (feature < 0) & (rank >= 0)
    leaves = int(np.bincount(owner[leaf]).max()) if leaf.any() else 1
    return Trees(
        roots=np.ascontiguousarray(roots),
        feature=feature,
        threshold=threshold,
        members=members,
        goes_left=goes_left,
        missing_left=missing_left,
        left=left,
        right=right,
        value=np.ascontiguousarray(value),
        lowest=lowest,
        highest=highest,
        output=output.astype(np.int64),
        base=np.ascontiguousarray(base),
        missing=missing,
        depth=depth,
        leaves=leaves,
        uses=_uses_of(owner[feature >= 0], feature[feature >= 0], len(roots), len(missing)),
        cuts=_cuts_of(feature, threshold, members, len(missing)),
    )


def _uses_of(tree: Ints, feature: Ints, trees: int, d: int) -> Uses:
    """From the tree and the feature of each split."""
    pairs = np.unique(tree * d + feature)
    tree, feature = pairs // d, pairs % d
    by_feature = np.argsort(feature, kind="stable")

    def begins(of: Ints, count: int) -> Ints:
        return np.searchsorted(of, np.arange(count + 1)).astype(np.int64)

    return Uses(begins(tree, trees), feature, begins(feature[by_feature], d), tree[by_feature])


def _cuts_of(feature: Ints, threshold: Floats, members: Ints, d: int) -> Cuts:
    begins, found, place = [0], [np.zeros(0)], np.full(len(feature), -1, dtype=np.int64)
    numeric = np.flatnonzero((feature >= 0) & (members < 0))
    numeric = numeric[np.argsort(feature[numeric], kind="stable")]
    ends = np.searchsorted(feature[numeric], np.arange(d + 1))
    for j in range(d):
        mine = numeric[ends[j] : ends[j + 1]]
        at, place[mine] = np.unique(threshold[mine], return_inverse=True)
        found.append(at)
        begins.append(begins[-1] + len(at))
    return Cuts(np.array(begins, dtype=np.int64), np.concatenate(found), place)


@compiled
def goes_left(trees: Trees, node: int, x: float) -> bool:
    """Whether a value of the feature on which a node splits goes left."""
    if trees.members[node] >= 0:
        return trees.goes_left[trees.members[node] + np.int64(x)]
    if x == trees.missing[trees.feature[node]]:
        return trees.missing_left[node]
    return x < trees.threshold[node]


@compiled
def add_up(trees: Trees, row: Floats, sums: Floats) -> None:
    """The sums (k,) of a row."""
    for c in range(len(sums)):
        sums[c] = trees.base[c]
    for t in range(len(trees.roots)):
        node = trees.roots[t]
        while trees.feature[node] >= 0:
            node = trees.left[node] if goes_left(trees, node, row[trees.feature[node]]) else trees.right[node]
        for c in range(len(sums)):
            sums[c] += trees.value[node, c]


@compiled
def add_up_rows(trees: Trees, rows: Floats, begin: int, end: int, sums: Floats) -> None:
    """The sums (n, k) of some rows."""
    for i in range(begin, end):
        add_up(trees, rows[i], sums[i])
