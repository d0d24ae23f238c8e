"""Trees behind a single calibrator: answers, proofs and confidences by calibrated probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import grace

TABLE = grace.datasets.load("diabetes")
PARTS = TABLE.split(0)
ROWS, LABELS = PARTS.train[TABLE.schema.names], PARTS.train[TABLE.target]
ASKED = PARTS.test[TABLE.schema.names].head(12)
MODELS = {
    "histogram": HistGradientBoostingClassifier(max_iter=15),
    "forest": RandomForestClassifier(9, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=10, random_state=0)),
}


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("name", MODELS)
def test_calibrated_trees_are_read(name: str, method: str) -> None:
    model = CalibratedClassifierCV(MODELS[name], ensemble=False, method=method, cv=3).fit(ROWS, LABELS)
    for decided in (model, FixedThresholdClassifier(model, threshold=0.3).fit(ROWS, LABELS)):
        check(decided)
    batch = grace.Explainer(model, ROWS).explain(ASKED, confidence=0.7)
    shares = model.predict_proba(batch.contrast[TABLE.schema.names]).max(axis=1)
    assert (shares[batch.success] >= 0.7 - 1e-9).all()


def check(model: Any) -> None:
    explainer = grace.Explainer(model, ROWS)
    assert explainer.model.trees.calibration is not None
    assert np.allclose(explainer.model.predict_proba(ROWS), model.predict_proba(ROWS), atol=1e-9)
    batch = explainer.explain(ASKED, prove=True)
    flipped = model.predict(batch.contrast[TABLE.schema.names]) != model.predict(ASKED)
    assert (flipped == batch.success).all()
    changed = batch.changed.sum(axis=1).to_numpy()
    explainer.use(explainer.model.without_layers())
    asked = explainer.explain(ASKED)
    proven = np.array([e.proof["verdict"] == "minimal" for e in batch])
    assert proven.any()
    assert (changed <= asked.changed.sum(axis=1).to_numpy())[proven & asked.success].all()


def test_several_calibrators_stay_a_black_box() -> None:
    model = CalibratedClassifierCV(MODELS["forest"], cv=2).fit(ROWS, LABELS)
    assert grace.Explainer(model, ROWS).model.trees is None
