"""Trees that no moved feature touches are bounded once per row: by no less than if all were followed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import grace
from grace.methods.trees.bounds import bound, remember
from grace.methods.trees.regions import FIXED, LIMITS, MARK, MOVED, OPEN, region
from grace.models.predictor import tree_ensemble

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(120, 7)).round(2), columns=list("abcdefg"))
SUMS = FRAME["a"] + 0.5 * FRAME["b"] - FRAME["c"] * FRAME["d"] + 0.3 * RNG.normal(size=120)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", [GradientBoostingClassifier, RandomForestClassifier])
def test_remembered_trees_give_the_same_bounds(kind: type, classes: int) -> None:
    target = np.digitize(SUMS, np.quantile(SUMS, np.linspace(0, 1, classes + 1)[1:-1]))
    model = kind(n_estimators=15, max_depth=3, random_state=0).fit(FRAME, target)
    ensemble = tree_ensemble(grace.Explainer(model, FRAME).model)
    assert ensemble is not None
    trees, d = ensemble.trees, FRAME.shape[1]
    r, rng = region(trees, d, 3), np.random.default_rng(1)
    functional = np.zeros(len(trees.base))
    functional[-1] = 1.0
    if len(trees.base) > 1:
        functional[0] = -1.0
    compared = 0
    for row in FRAME.to_numpy()[:12]:
        r.least[:], r.most[:] = row - rng.uniform(0, 2, d), row + rng.uniform(0, 2, d)
        r.counts[LIMITS] += 1
        free = rng.random(d) < 0.8
        r.status[:] = np.where(free, OPEN, FIXED)
        for more in (1, 2, 3):
            remember(trees, functional, row, more, 0, r)
        for _ in range(10):
            moved = rng.choice(d, size=rng.integers(0, 3), replace=False)
            r.status[:] = np.where(free & (rng.random(d) < 0.7), OPEN, FIXED)
            r.status[moved] = MOVED
            ends = np.sort(rng.normal(size=(d, 2)), axis=1)
            r.low[:], r.high[:] = ends.T
            r.counts[MARK] += 1
            for j in moved:
                r.touched[trees.uses.trees[trees.uses.tree_begins[j] : trees.uses.tree_begins[j + 1]]] = r.counts[MARK]
            for more in (0, 1):
                expected = bound(trees, functional, row, more, True, -1, r)
                gain = np.where(r.status == OPEN, r.gain, 0)
                assert bound(trees, functional, row, more, True, 0, r) == expected
                assert np.array_equal(np.where(r.status == OPEN, r.gain, 0), gain)
                compared += bool((gain > 0).any())
            for more in (
                1,
                2,
                3,
            ):  # shares for other open features may be other ones, and bound what is possible all the same
                high, low = bound(trees, functional, row, more, True, 0, r)
                for _ in range(20):
                    point, moves = row.copy(), rng.permutation(np.flatnonzero(r.status == OPEN))[:more]
                    point[moved] = rng.uniform(r.low[moved], r.high[moved])
                    point[moves] = rng.uniform(r.least[moves], r.most[moves])
                    (sums,) = ensemble.sums(point[None])
                    assert functional @ sums <= high + r.gain[moves].sum() + 1e-9
                    assert len(moves) > 0 or functional @ sums >= low - 1e-9
    assert compared > 50


def test_uses_are_the_features_on_which_each_tree_splits() -> None:
    model = RandomForestClassifier(9, max_depth=3, random_state=0).fit(FRAME, SUMS > 0)
    ensemble = tree_ensemble(grace.Explainer(model, FRAME).model)
    assert ensemble is not None
    uses = ensemble.trees.uses
    expected = {(t, int(f)) for t, tree in enumerate(model.estimators_) for f in tree.tree_.feature if f >= 0}
    by_tree = {(t, int(f)) for t in range(9) for f in uses.features[uses.begins[t] : uses.begins[t + 1]]}
    by_feature = {(int(t), f) for f in range(7) for t in uses.trees[uses.tree_begins[f] : uses.tree_begins[f + 1]]}
    assert by_tree == by_feature == expected
