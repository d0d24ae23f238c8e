"""The benchmark beside PyXAI: the trees that are handed over, and the checks of what comes back."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import grace
from grace.proofs.certificate import FOUND, PROVEN

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
INPUTS = pd.DataFrame(np.random.default_rng(5).normal(size=(200, 3)), columns=list("abc"))
LABELS = ((INPUTS["a"] > 0) & (INPUTS["b"] > 0)).astype(int)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("xgboost")
    monkeypatch.syspath_prepend(BENCHMARKS)
    import pyxai_peer

    return pyxai_peer


@pytest.fixture
def forest(peer: ModuleType) -> RandomForestClassifier:
    return peer.voting(RandomForestClassifier(5, max_depth=2, random_state=0).fit(INPUTS, LABELS))


def voted(nodes: list[list[float]], row: np.ndarray) -> int:
    """The class of a row in a tree that is handed over."""
    at = 0
    while len(nodes[at]) > 1:
        feature, threshold, left, right = nodes[at]
        at = int(right if np.float32(row[int(feature)]) > threshold else left)
    return int(nodes[at][0])


def test_the_trees_that_are_handed_over_vote_as_the_forest_does(
    peer: ModuleType, forest: RandomForestClassifier
) -> None:
    votes = np.array([[voted(nodes, row) for nodes in peer.nodes_of(forest)] for row in INPUTS.to_numpy()])
    np.testing.assert_allclose(forest.predict_proba(INPUTS)[:, 1], votes.mean(axis=1))


def test_reasons_are_proven_or_refuted_and_tried(peer: ModuleType) -> None:
    model = RandomForestClassifier(1, max_features=None, bootstrap=False, random_state=0).fit(INPUTS, LABELS)
    low = INPUTS[INPUTS["a"] < -0.5].head(1)
    explainer = grace.Explainer(model, INPUTS)
    how = {"ranges": dict.fromkeys(INPUTS, (-1000.0, 1000.0))}
    own = low.to_numpy()[0]
    assert peer.entailed(explainer, low, {0}, 5.0, **how) == PROVEN
    assert peer.entailed(explainer, low, {2}, 5.0, **how) == FOUND
    assert peer.holds(model, INPUTS, own, 0, [(0, "LE", -0.5)])
    assert not peer.holds(model, INPUTS, own, 0, [(0, "LE", 2.0)])


def test_the_page_has_a_section_about_pyxai(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import decisions_page

    assert "by GRACE's proofs" in decisions_page.pyxai()
    monkeypatch.setattr(decisions_page, "PYXAI", tmp_path / "none.csv")
    assert decisions_page.pyxai() == ""
