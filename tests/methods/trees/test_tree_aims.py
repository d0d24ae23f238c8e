"""Goals at the very values where a tree ensemble decides: cut-offs, confidence, and sums in single precision."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import grace
from tree_cases import Case, members, stumps
from tree_promises import kept

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(90, 3)).round(2), columns=list("abc"))
SUMS = FRAME["a"] + 0.5 * FRAME["b"] + 0.3 * RNG.normal(size=90)
CALL = {"gamma": 1.0, "domain": "minmax", "max_features": 2}


def asked(model: Any, rows: int = 6, threshold: Any = None, **call: Any) -> Counter[str]:
    given = model if threshold is None else grace.wrap(model, threshold=threshold)
    return kept(Case(grace.Explainer(given, FRAME), model, FRAME.iloc[:rows], CALL | call))


@pytest.mark.parametrize("prove", [False, True])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_votes_that_are_just_the_cut_off_are_enough(threshold: float, prove: bool) -> None:
    model = RandomForestClassifier(10, max_leaf_nodes=4, random_state=0).fit(FRAME, (SUMS > 0.3).astype(int))
    for tree in members(model):
        tree.value[:, 0] = np.eye(2)[tree.value[:, 0].argmax(axis=1)]
    assert asked(model, threshold=threshold, prove=prove)["answers"] == 6


def test_one_vote_that_is_just_the_cut_off_is_enough() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40) ** 3})
    model = stumps(frame, 2, [("a", 0.1, 0, 1), ("b", 0.2, 0, 0), ("b", 0.3, 0, 0), ("b", 0.4, 0, 0)])
    explainer = grace.Explainer(grace.wrap(model, threshold=0.25), frame)
    assert kept(Case(explainer, model, frame.iloc[:3], CALL))["answers"] == 3


def test_rows_whose_own_probability_is_the_cut_off() -> None:
    model = RandomForestClassifier(7, max_leaf_nodes=6, random_state=0).fit(FRAME, (SUMS > 0.3).astype(int))
    shares = model.predict_proba(FRAME)[:, 1]
    for i in range(0, 40, 5):
        explainer = grace.Explainer(grace.wrap(model, threshold=float(shares[i])), FRAME)
        kept(Case(explainer, model, FRAME.iloc[[i]], CALL | {"prove": True}))


@pytest.mark.parametrize("confidence", [0.4, 0.6, 0.9])
def test_the_nearest_of_several_classes_that_are_probable_enough(confidence: float) -> None:
    target = np.digitize(SUMS, [-0.5, 0, 0.5])
    model = GradientBoostingClassifier(n_estimators=12, max_depth=2, learning_rate=0.5, random_state=0)
    met = asked(model.fit(FRAME, target), 4, confidence=confidence, prove=True)
    assert met["proven"] == met["answers"] == met["tight"] == 4


def test_a_probability_that_just_lacks_the_tolerance_is_not_enough() -> None:
    model = DecisionTreeClassifier(max_leaf_nodes=3, random_state=0).fit(FRAME, np.digitize(SUMS, [-0.5, 0.5]))
    tree, leaves = model.tree_, np.flatnonzero(model.tree_.children_left < 0)
    for share in (0.8, 0.8 + 1e-7, 0.8 + 3e-7, 0.8 + 2e-6):  # the tolerance is one of logits: here 1.6e-7
        for place, leaf in enumerate(leaves):
            tree.value[leaf, 0] = (1 - share) / 2
            tree.value[leaf, 0, place] = share
        met = asked(model, confidence=0.8, prove=True)
        assert met["answers" if share > 0.8 + 2e-7 else "misses"] == 6


def test_a_lead_that_is_just_the_tolerance_is_enough() -> None:
    model = DecisionTreeClassifier(max_leaf_nodes=3, random_state=0).fit(FRAME, np.digitize(SUMS, [-0.5, 0.5]))
    tree, leaves = model.tree_, np.flatnonzero(model.tree_.children_left < 0)
    for lead, met in ((2e-7, "misses"), (5e-7, "answers"), (2e-6, "answers")):  # of logarithms of a third
        for place, leaf in enumerate(leaves):
            tree.value[leaf, 0] = 1 / 3 - lead / 3
            tree.value[leaf, 0, place] = 1 / 3 + lead * 2 / 3
        assert asked(model, prove=True)[met] == 6


@pytest.mark.parametrize("place", [0, 3, -4, -1])
def test_cut_offs_among_the_very_probabilities_in_single_precision(place: int) -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=30, max_depth=2, learning_rate=1.0, max_bin=8, n_jobs=1)
    model.fit(FRAME, (SUMS > 0.3).astype(int))
    share = np.unique(model.predict_proba(FRAME)[:, 1])[place]
    for threshold in (share, np.nextafter(share, np.float32(1)), np.nextafter(share, np.float32(0))):
        asked(model, 3, threshold=float(threshold), prove=True)


def test_many_classes() -> None:
    frame = pd.DataFrame({"a": np.arange(800.0), "b": np.linspace(1, 0, 800) ** 3})
    model = DecisionTreeClassifier(random_state=0).fit(frame, np.arange(800) // 2)
    answers = grace.Explainer(model, frame).explain(frame.iloc[[3, 200]], max_features=1, gamma=1.0, prove=True).answers
    assert answers.success.all()
    assert (answers.proof == 1).all()
