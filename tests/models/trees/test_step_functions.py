"""Linear models of bins and categories are read as one tree per feature, and their answers are the best there are."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, KBinsDiscretizer, OneHotEncoder, StandardScaler

import grace
from grace.models.predictor import tree_ensemble
from grace.proofs.certificate import EXCEPT_TIES, PROVEN

N = 160
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 40, N),
        "income": RNG.normal(50, 20, N).round(1),
        "debt": RNG.normal(0, 1, N).round(2),
        "job": RNG.choice(["clerk", "smith", "nurse", "none"], N),
    }
)
NUMBERS = ["age", "income", "debt"]
WORTH = (
    np.sin(FRAME["age"] / 3) + FRAME["income"] / 40 - np.abs(FRAME["debt"]) + FRAME["job"].map(len) / 4
) + RNG.normal(0, 0.3, N)
TWO = np.where(WORTH.median() < WORTH, "yes", "no")
THREE = np.digitize(WORTH, WORTH.quantile([0.3, 0.7]))
BINS: dict[str, Any] = {
    "one-hot": KBinsDiscretizer(5),
    "ordinal": make_pipeline(KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), StandardScaler()),
    "binary": Binarizer(threshold=20.0),
}
LAST: dict[str, tuple[Any, Any]] = {
    "two classes": (LogisticRegression(), TWO),
    "three classes": (LogisticRegression(), THREE),
    "calibrated": (CalibratedClassifierCV(LogisticRegression(), ensemble=False, cv=3), TWO),
    "a number": (Ridge(), WORTH),
}


def holes(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(income=frame["income"].where(np.arange(N) % 5 > 0))


def pipeline(bins: str, last: str, frame: pd.DataFrame) -> Any:
    model, target = LAST[last]
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), BINS[bins])
    before = ColumnTransformer([("n", numbers, NUMBERS), ("k", OneHotEncoder(), ["job"])])
    with warnings.catch_warnings(action="ignore"):  # of bins of a column that says where cells are missing
        return make_pipeline(before, model).fit(frame, target)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("bins", BINS)
def test_linear_models_of_bins_are_trees(bins: str, last: str, gaps: bool) -> None:
    frame = holes(FRAME) if gaps else FRAME
    model = pipeline(bins, last, frame)
    explainer = grace.Explainer(model, frame, gamma=1.0, domain="minmax")
    ensemble = tree_ensemble(explainer.model)
    assert ensemble is not None
    assert len(ensemble.trees.roots) <= len(explainer.schema)
    own = model.predict(frame)[:, None] if last == "a number" else model.predict_proba(frame)
    read = ensemble.predicted(ensemble.sums(explainer.schema.encode(frame)))
    np.testing.assert_allclose(read, own, atol=1e-9)
    own = model.predict(frame)
    least = float(np.quantile(own, 0.7)) if last == "a number" else np.inf
    against = {"against": grace.above(least)} if last == "a number" else {}
    batch = explainer.explain(frame.head(12), prove=True, **against)
    hits = batch.success
    assert hits.any()
    after = model.predict(batch.contrast)
    if last == "a number":
        assert (after[hits] >= least).all()
    else:
        assert (after[hits] == batch.contrast_class[hits]).all()
    asked = own[:12] < least if last == "a number" else np.ones(12, dtype=bool)
    assert np.isin(batch.answers.proof[asked], [PROVEN, EXCEPT_TIES]).all()


def candidates(explainer: grace.Explainer, name: str) -> list[Any]:
    """A value of each cell of a feature within its range."""
    feature, j = explainer.schema[name], explainer.schema.index(name)
    if name == "job":
        return list(feature.categories)
    low, high = feature.bounds
    if feature.integer:
        return list(range(int(low), int(high) + 1))
    trees = explainer.model.trees.trees
    cuts = trees.threshold[(trees.feature == j) & (trees.members < 0)]
    return [low, *cuts[(low < cuts) & (cuts <= high)]]


@pytest.mark.parametrize(("bins", "confidence"), [("one-hot", 0.0), ("ordinal", 0.9)])
def test_no_answer_has_fewer_changes(bins: str, confidence: float) -> None:
    model = pipeline(bins, "two classes", FRAME)
    explainer = grace.Explainer(model, FRAME, gamma=1.0, domain="minmax", max_features=4)
    values = {name: candidates(explainer, name) for name in FRAME}
    every = pd.DataFrame(list(itertools.product(*values.values())), columns=list(FRAME))
    decided = np.where(model.predict_proba(every).max(axis=1) >= confidence, model.predict(every), "")
    rows = FRAME.head(25)
    batch = explainer.explain(rows, confidence=confidence)
    met = set()
    for i, (_, row) in enumerate(rows.iterrows()):
        # a value in the cell of the row's own counts as no change
        same = pd.DataFrame({name: cell_of(explainer, name, every[name], row[name]) for name in FRAME})
        flips = (decided != model.predict(rows.iloc[[i]])[0]) & (decided != "")
        fewest = (~same).sum(axis=1)[flips].min()
        assert batch.success[i] == np.isfinite(fewest)
        if not batch.success[i]:
            continue
        assert batch.changed.iloc[i].sum() == fewest
        met.add(int(fewest))
    assert len(met) > 1


def cell_of(explainer: grace.Explainer, name: str, values: pd.Series[Any], own: Any) -> Any:
    """Whether values lie in the same cell as the row's own."""
    if name == "job":
        return values == own
    trees = explainer.model.trees.trees
    cuts = np.sort(trees.threshold[(trees.feature == explainer.schema.index(name)) & (trees.members < 0)])
    return np.searchsorted(cuts, values, "right") == np.searchsorted(cuts, own, "right")


def test_a_number_that_is_scaled_beside_bins_is_no_step_function() -> None:
    before = ColumnTransformer([("b", KBinsDiscretizer(3), ["age"]), ("n", StandardScaler(), ["income"])])
    model = make_pipeline(before, LogisticRegression()).fit(FRAME, TWO)
    explainer = grace.Explainer(model, FRAME)
    assert tree_ensemble(explainer.model) is None
    assert explainer.explain(FRAME.head(3)).success.any()
