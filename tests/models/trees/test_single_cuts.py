"""Trees behind one-hot bins: a split by a bin in the middle cuts the number twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.models.predictor import tree_ensemble
from grace.models.trees import single_cuts
from grace.proofs.certificate import PROVEN

N = 200
RNG = np.random.default_rng(2)
FRAME = pd.DataFrame({"a": RNG.normal(0, 1, N).round(2), "b": RNG.integers(0, 12, N), "c": RNG.normal(0, 1, N)})
CLASS = np.digitize(np.sin(3 * FRAME["a"]) + np.cos(FRAME["b"]) + FRAME["c"], [-0.3, 0.8])
MODELS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(10, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=8, random_state=0),
}


def behind_bins(model: Any, frame: pd.DataFrame) -> Any:
    bins = KBinsDiscretizer(6, encode="onehot-dense")
    binned = make_pipeline(SimpleImputer(strategy="constant", fill_value=0), bins)
    before = ColumnTransformer([("b", binned, ["a", "b"])], remainder="passthrough")
    return make_pipeline(before, model).fit(frame, CLASS)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_trees_behind_one_hot_bins_are_read(name: str, gaps: bool) -> None:
    frame = FRAME.assign(a=FRAME["a"].where(np.arange(N) % 6 > 0)) if gaps else FRAME
    model = behind_bins(MODELS[name], frame)
    explainer = grace.Explainer(model, frame, gamma=1.0, domain="minmax")
    ensemble = tree_ensemble(explainer.model)
    assert ensemble is not None
    some = FRAME.assign(a=RNG.normal(0, 2, N), b=RNG.integers(0, 12, N))
    for rows in (frame, some):
        encoded = explainer.schema.encode(rows)
        np.testing.assert_allclose(ensemble.predicted(ensemble.sums(encoded)), model.predict_proba(rows), atol=1e-12)
    batch = explainer.explain(frame.head(15), prove=True)
    hits = batch.success
    assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()
    assert (batch.answers.proof == PROVEN).mean() > 0.5


def test_trees_that_would_grow_too_large_stay_black_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_cuts, "GROWTH", -1000)
    model = behind_bins(MODELS["tree"], FRAME)
    explainer = grace.Explainer(model, FRAME)
    assert tree_ensemble(explainer.model) is None
    assert explainer.explain(FRAME.head(2)).success.any()
