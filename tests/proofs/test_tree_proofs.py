"""Proofs about tree ensembles against an integer program, and where rounding, ties and cut-offs could deceive them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import grace
from grace.models.predictor import tree_ensemble
from grace.proofs.certificate import OPEN
from subsets import first
from tree_cases import Case, stumps
from tree_promises import kept
from tree_reference import question_of

CALL = {"prove": True, "gamma": 1.0, "domain": "minmax", "max_features": 4, "budget": 20.0}


def ensemble(seed: int) -> tuple[Any, pd.DataFrame]:
    """An ensemble of many trees on a table whose columns are partly the same, and its table."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(200, 7)).round(2), columns=list("abcdefg"))
    frame["c"] = rng.integers(0, 6, 200)
    frame["g"] = frame["a"]
    sums = frame["a"] * frame["b"] + frame["c"] / 3 - frame["d"] + 0.5 * rng.normal(size=200)
    classes = 2 + seed % 3
    target = np.digitize(sums, np.quantile(sums, np.arange(1, classes) / classes))
    if seed % 2:
        return RandomForestClassifier(9 + seed % 5, max_leaf_nodes=9, random_state=seed).fit(frame, target), frame
    return GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=seed).fit(frame, target), frame


@pytest.mark.parametrize("seed", first(2, range(16)))
def test_an_integer_program_finds_no_fewer_changes_than_are_proven(seed: int) -> None:
    pytest.importorskip("ortools", reason="ortools is not installed: no integer program")
    from tree_program import fewest

    model, frame = ensemble(seed)
    explainer, rows = grace.Explainer(model, frame), frame.iloc[:4]
    call = CALL | ({"against": seed % 2, "frozen": ["b"]} if seed % 4 < 2 else {"gamma": 0.3, "max_features": 2})
    question = question_of(explainer, model, rows, call)
    answers = explainer.explain(rows, **call).answers
    for i in np.flatnonzero(~answers.trivial):
        count = int((answers.contrast[i] != answers.rows[i]).sum())
        certain, possible = (fewest(question, i, sure) for sure in (True, False))
        if answers.success[i]:
            assert possible is not None
            assert possible <= count
            assert certain is None or count <= certain
        else:
            assert certain is None
        if answers.proof[i] != OPEN:
            assert certain is None or certain >= count > 0
        assert answers.proof[i] != OPEN or certain != possible, "what is clear is proven"


def test_a_proof_covers_a_range_however_far_it_goes() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40)})
    model = stumps(frame, 2, [("a", 5e7, 0, 1)])
    explainer = grace.Explainer(model, frame)
    for high in (1e9, 1e7):
        met = kept(Case(explainer, model, frame.iloc[:2], {**CALL, "ranges": {"a": (-1.0, high)}}))
        assert met["answers" if high == 1e9 else "misses"] == met["proven"] == 2
    far = frame.iloc[:2].assign(a=[3e9, -3e9])
    assert kept(Case(explainer, model, far, {**CALL, "against": 0}))["answers"] == 1


def test_a_range_without_an_end_goes_beyond_all_thresholds() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40)})
    model = stumps(frame, 2, [("a", 5e7, 0, 1)])
    features = (grace.Numeric(name="a", low=-np.inf, high=np.inf), grace.Numeric(name="b"))
    explainer = grace.Explainer(model, frame, schema=grace.Schema(features=features))
    answers = explainer.explain(frame.iloc[:2], **CALL).answers
    assert answers.success.all()
    assert (answers.contrast[:, 0] > 5e7).all()


def test_what_two_other_classes_share_is_no_answer() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40) ** 3})
    model = stumps(frame, 3, [("a", 0.1, 0, 1), ("a", 0.1, 0, 2), ("b", 0.2, 2, 1), ("b", 0.2, 1, 2)])
    explainer = grace.Explainer(model, frame)
    question = {**CALL, "frozen": ["b"]}
    assert kept(Case(explainer, model, frame.iloc[:4], question))["misses"] == 4
    assert tree_ensemble(explainer.model) is not None


def test_a_proof_leaves_out_ties_that_the_model_decides() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40) ** 3})
    model = stumps(frame, 2, [("a", 0.1, 1, 0), ("b", 0.2, 1, 1)])
    explainer = grace.Explainer(model, frame)
    met = kept(Case(explainer, model, frame.iloc[:4], CALL))
    assert met["misses"] == met["except ties"] == 4  # one change makes a tie, which goes to the first class
    tied = model.predict(frame.iloc[:4].assign(a=0.5))
    assert (tied != model.predict(frame.iloc[:4])).all()
    e = explainer.explain(frame.iloc[:1], **CALL)[0]
    assert (e.proof["verdict"], e.proof["except_ties"]) == ("impossible", True)
    assert "within the observed ranges, ties between classes aside;" in e.text()
    assert "(Gleichstände zwischen Klassen ausgenommen)" in e.text(language="de")


def test_a_tie_on_the_way_is_neither_an_answer_nor_farther_than_claimed() -> None:
    """Two changes are an answer, and one of them makes a tie: it is named, and the bound on the distance covers it."""
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.linspace(1, 0, 40) ** 3})
    model = stumps(frame, 2, [("a", 0.1, 1, 0), ("b", 0.2, 0, 1)])
    explainer = grace.Explainer(model, frame)
    rows = frame.iloc[:4]
    met = kept(Case(explainer, model, rows, CALL))
    assert met["answers"] == met["except ties"] == met["tight"] == 4
    e = explainer.explain(rows.iloc[:1], **CALL)[0]
    assert e.proof["distance_at_least"] < 0.9 * e.distance
    assert e.text().endswith(" Within these ranges, ties between classes aside, no single change could have done it.")


def test_votes_that_tie_are_decided() -> None:
    """Forests of an even number of trees, each sure of its class: no row stays open."""
    met: Counter[str] = Counter()
    for seed in range(8):
        rng, classes = np.random.default_rng(seed), 2 + seed % 2
        frame = pd.DataFrame(rng.normal(size=(60, 4)).round(1), columns=list("abcd"))
        votes = [rng.permutation(classes)[:2].tolist() for _ in range(8)]
        forest = stumps(frame, classes, [("abcd"[t % 4], rng.normal(), *votes[t]) for t in range(8)])
        explainer = grace.Explainer(forest, frame)
        met += kept(Case(explainer, forest, frame.head(12), {**CALL, "max_features": 3}))
    assert met["open"] == 0
    assert met["except ties"] > 10
    assert met["proven"] > 30


def test_more_ties_than_are_kept_are_left_out_too() -> None:
    """Two trees tie where one column is large. Pairs of others, which cancel out, divide that into many cells."""
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 20, size=(60, 2)).astype(float), columns=list("ab"))
    frame.iloc[0] = 0.0
    pairs = [(name, at + 0.5, *votes) for name in "ab" for at in range(19) for votes in ((0, 1), (1, 0))]
    model = stumps(frame, 2, [("a", 10.5, 1, 0), ("b", 0.5, 1, 1), *pairs])
    explainer = grace.Explainer(model, frame)
    met = kept(Case(explainer, model, frame.head(1), {**CALL, "max_features": 2}))
    assert met["misses"] == met["except ties"] == 1


def test_the_nearest_of_all_is_proven() -> None:
    """With prefer="nearest", the bound on the distance is one for any features, and no answer is replaced."""
    rng = np.random.default_rng(3)
    train = pd.DataFrame(np.round(rng.normal(size=(150, 4)), 2), columns=list("abcd"))
    forest = RandomForestClassifier(7, random_state=0).fit(train, (train.a + train.b * train.c > 0).astype(int))
    explainer = grace.Explainer(forest, train, gamma=1.0, domain="minmax", max_features=3)
    rows = train.head(15)
    nearest = explainer.explain(rows, prefer="nearest", prove=True, budget=10)
    fewest = explainer.explain(rows, prove=True, budget=10)
    assert nearest.success.all()
    assert (nearest.answers.distance <= fewest.answers.distance + 1e-9).all()
    assert (nearest.answers.nearest <= nearest.answers.distance + 1e-9).all()
    step = sum(0.01 / f.spread for f in explainer.schema.features)  # by which decimals may be farther
    assert (nearest.answers.distance - nearest.answers.nearest <= step + 1e-9).all()
