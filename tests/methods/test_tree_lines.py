"""The sums of trees along single features."""

from __future__ import annotations

import numpy as np
import pytest

from grace.methods.trees.profiles import sums_along
from grace.models.trees.compiled import Trees, trees_of
from grace.models.trees.ensemble import TreeEnsemble


def symmetric(rng: np.random.Generator, features: int, depth: int, count: int) -> Trees:
    """Trees all of whose levels have one split, of any feature and threshold, also such that divide nothing."""
    roots, feature, threshold, left, right, value = [], [], [], [], [], []
    for _ in range(count):
        start = len(feature)
        roots.append(start)
        for level in range(depth):
            j, at = int(rng.integers(features)), float(rng.integers(1, 9))
            first = start + 2**level - 1
            for k in range(2**level):
                feature.append(j)
                threshold.append(at)
                left.append(first + 2**level + 2 * k)
                right.append(first + 2**level + 2 * k + 1)
                value.append(0.0)
        leaves = 2**depth
        feature += [-1] * leaves
        threshold += [0.0] * leaves
        left += [-1] * leaves
        right += [-1] * leaves
        value += rng.normal(size=leaves).tolist()
    n = len(feature)
    return trees_of(
        np.array(roots), np.array(feature), np.array(threshold), np.full(n, -1), np.zeros(0, dtype=bool),
        np.zeros(n, dtype=bool), np.array(left), np.array(right), np.array(value)[:, None], np.zeros(1),
        np.full(features, np.nan),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_sums_along_a_feature_are_those_of_the_rows(seed) -> None:
    rng = np.random.default_rng(seed)
    trees = symmetric(rng, 2, 5, 6)
    rows = rng.uniform(0, 10, size=(20, 2))
    column = rng.integers(0, 2, size=20)
    points, sums = sums_along(trees, rows, column, np.zeros(20), np.full(20, 10.0))
    for i, along in enumerate(points):
        moved = np.repeat(rows[[i]], len(along), axis=0)
        moved[:, column[i]] = along
        np.testing.assert_allclose(sums[i], TreeEnsemble(trees, "logistic", "float64").sums(moved), atol=1e-12)
