"""Linear models and perceptrons behind preprocessing: layers on the original columns that agree with the pipeline."""

from __future__ import annotations

import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import LinearSVC

import grace
from grace.models.base import softmax
from grace.models.predictor import Predictor
from grace.models.relu import relu_network
from grace.models.torch import TorchModel
from grace.proofs.certificate import PROVEN

N = 120
RNG = np.random.default_rng(8)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, N),
        "income": RNG.normal(50, 20, N).round(1),
        "job": RNG.choice(["clerk", "smith", "nurse", "none"], N, p=[0.4, 0.3, 0.26, 0.04]),
        "grade": pd.Categorical(RNG.choice(["C", "B", "A"], N), ["C", "B", "A"], ordered=True),
        "own": RNG.random(N) < 0.5,
    }
)
VALUE = FRAME["income"] / 20 - FRAME["age"] / 40 + FRAME["own"] + FRAME["job"].map(len) / 4 + RNG.normal(0, 0.3, N)
GOOD = np.where(VALUE.median() < VALUE, "yes", "no")
THREE = np.array(["low", "mid", "high"])[np.digitize(VALUE, VALUE.quantile([0.3, 0.7]))]
NUMBERS, LABELS = ["age", "income"], ["job", "grade", "own"]
MLP = MLPClassifier((4,), max_iter=2000, random_state=0, solver="lbfgs", alpha=1)


def front(encoder: Any = None, scaler: Any = None) -> ColumnTransformer:
    encoder = OneHotEncoder(handle_unknown="ignore") if encoder is None else encoder
    return ColumnTransformer([("l", encoder, LABELS), ("n", StandardScaler() if scaler is None else scaler, NUMBERS)])


def fitted(last: Any, before: Any = None, frame: pd.DataFrame = FRAME, target: Any = GOOD) -> Any:
    return make_pipeline(front() if before is None else before, last).fit(frame, target)


def explainer_of(model: Any, frame: pd.DataFrame = FRAME, **how: Any) -> grace.Explainer:
    return grace.Explainer(model, frame, gamma=1.0, domain="minmax", **how)


def any_rows(explainer: grace.Explainer, seed: int, n: int = 60) -> np.ndarray:
    """Rows from the whole domain and beyond it."""
    rng = np.random.default_rng(seed)
    low, high = explainer.schema.bounds()
    rows = low + (rng.random((n, len(low))) * 3 - 1) * (high - low)
    for j, feature in enumerate(explainer.schema.features):
        if hasattr(feature, "categories"):
            rows[:, j] = rng.integers(0, len(feature.categories), n)
        elif feature.integer:
            rows[:, j] = rows[:, j].round()
    return rows


MODELS: dict[str, Any] = {
    "logistic": lambda: fitted(LogisticRegression()),
    "three classes": lambda: fitted(LogisticRegression(), target=THREE),
    "perceptron": lambda: fitted(MLP),
    "three classes, perceptron": lambda: fitted(MLP, target=THREE),
    "discriminant": lambda: fitted(LinearDiscriminantAnalysis(), front(OneHotEncoder(drop="first"))),
    "ridge": lambda: fitted(RidgeClassifier()),
    "svc": lambda: fitted(LinearSVC()),
    "ordinal": lambda: fitted(LogisticRegression(), front(OrdinalEncoder())),
    "by target": lambda: fitted(LogisticRegression(), front(TargetEncoder())),
    "by target, three": lambda: fitted(LogisticRegression(), front(TargetEncoder()), target=THREE),
    "rare": lambda: fitted(LogisticRegression(), front(OneHotEncoder(min_frequency=20, drop="if_binary"))),
    "pandas": lambda: fitted(
        LogisticRegression(), front(OneHotEncoder(sparse_output=False)).set_output(transform="pandas")
    ),
    "imputed": lambda: fitted(
        LogisticRegression(),
        make_pipeline(
            front(
                make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
                make_pipeline(SimpleImputer(), MinMaxScaler(), "passthrough"),
            ),
            StandardScaler(),
        ),
    ),
    "twice": lambda: fitted(
        LogisticRegression(max_iter=1000),
        ColumnTransformer(
            [("l", OneHotEncoder(), LABELS), ("o", OrdinalEncoder(), ["grade"]), ("n", StandardScaler(), NUMBERS)],
            remainder="drop",
        ),
    ),
    "searched": lambda: GridSearchCV(
        make_pipeline(front(), LogisticRegression()), {"logisticregression__C": [0.1, 1]}, cv=2
    ).fit(FRAME, GOOD),
    "calibrated": lambda: CalibratedClassifierCV(make_pipeline(front(), LogisticRegression()), ensemble=False).fit(
        FRAME, GOOD
    ),
    "calibrated inside": lambda: fitted(CalibratedClassifierCV(LinearSVC(), ensemble=False)),
    "calibrated later": lambda: CalibratedClassifierCV(FrozenEstimator(fitted(LogisticRegression()))).fit(FRAME, GOOD),
}


@pytest.mark.parametrize("name", MODELS)
def test_layers_say_what_the_pipeline_says(name: str) -> None:
    model = MODELS[name]()
    explainer = explainer_of(model, FRAME.assign(good=THREE if "three" in name else GOOD), target="good")
    assert isinstance(explainer.model, TorchModel)
    assert relu_network(explainer.model) is not None
    assert explainer.schema.columns == list(FRAME.columns)
    rows = any_rows(explainer, 0)
    decoded = explainer.schema.decode(rows)
    scores = explainer.model.scores(torch.as_tensor(rows)).numpy()
    if hasattr(model, "predict_proba"):
        assert explainer.model.has_probabilities
        np.testing.assert_allclose(softmax(scores), model.predict_proba(decoded), atol=1e-9)
        np.testing.assert_allclose(explainer.model.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)
    else:
        np.testing.assert_allclose(scores[:, 1] - scores[:, 0], model.decision_function(decoded), atol=1e-9)
    assert (explainer.model.predict(decoded) == model.predict(decoded)).all()
    batch = explainer.explain(FRAME.head(12))
    assert batch.success.any()
    assert (batch.original_class == model.predict(FRAME.head(12))).all()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    assert (batch.contrast.dtypes == FRAME.dtypes).all()
    assert batch.calls is None  # no rows were put to a black box


@pytest.mark.parametrize("method", ["gradient", "local", "nearest", "deepfool"])
def test_other_methods(method: str) -> None:
    model = fitted(MLP)
    batch = explainer_of(model).explain(FRAME.head(10), method=method)
    assert batch.success.any()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


@pytest.mark.parametrize("method", ["search", "gradient"])
def test_smooth_perceptrons_have_gradients(method: str) -> None:
    model = fitted(MLPClassifier((4,), activation="tanh", max_iter=2000, random_state=0, solver="lbfgs", alpha=1))
    explainer = explainer_of(model)
    assert isinstance(explainer.model, TorchModel)
    assert relu_network(explainer.model) is None
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)
    batch = explainer.explain(FRAME.head(5), method=method)
    assert batch.success.any()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_numbers_of_a_regression_and_clusters() -> None:
    model = fitted(Ridge(), target=VALUE)
    explainer = explainer_of(model)
    assert isinstance(explainer.model, TorchModel)
    batch = explainer.explain(FRAME.head(10), against=grace.by(0.5))
    done = batch.success
    assert done.any()
    assert (model.predict(batch.contrast)[done] >= model.predict(FRAME.head(10))[done] + 0.5 - 1e-9).all()
    clusters = make_pipeline(front(OneHotEncoder(sparse_output=False)), KMeans(3, n_init=1, random_state=0)).fit(FRAME)
    explainer = explainer_of(clusters)
    assert isinstance(explainer.model, TorchModel)
    batch = explainer.explain(FRAME.head(10))
    assert (clusters.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


# -- proofs -------------------------------------------------------------------------------------------


def fewest_changes(model: Any, row: pd.Series[Any], values: dict[str, list[Any]]) -> int | None:
    """The least number of changed columns with which the class changes, by trying everything."""
    names = list(values)
    every = pd.DataFrame(list(itertools.product(*values.values())), columns=names)
    flips = model.predict(every) != model.predict(row.to_frame().T[names].infer_objects())[0]
    return min(((every != row[names]).sum(axis=1))[flips], default=None)


@pytest.mark.quick
@pytest.mark.parametrize(("seed", "linear"), [(0, True), (1, True), (2, False), (3, False)])
def test_proofs_agree_with_trying_everything(seed: int, linear: bool) -> None:
    rng = np.random.default_rng(seed)
    small = pd.DataFrame(
        {
            "n": rng.integers(0, 4, 60),
            "m": rng.integers(0, 3, 60),
            "k": rng.choice(list("abc"), 60),
            "l": rng.choice(list("xy"), 60),
        }
    )
    target = (small["n"] + 2 * (small["k"] == "a") - 1.5 * (small["l"] == "x") * small["m"] + rng.normal(0, 1, 60)) > 1
    before = ColumnTransformer([("n", StandardScaler(), ["n", "m"]), ("l", OneHotEncoder(), ["k", "l"])])
    last = (
        LogisticRegression()
        if linear
        else MLPClassifier((4,), solver="lbfgs", max_iter=2000, random_state=seed, alpha=1)
    )
    model = make_pipeline(before, last).fit(small, target)
    explainer = explainer_of(model, small)
    assert isinstance(explainer.model, TorchModel)
    batch = explainer.explain(small.head(12), prove=True, max_features=4)
    values = {name: sorted(small[name].unique()) for name in small}
    for i, done in enumerate(batch.success):
        fewest = fewest_changes(model, small.iloc[i], values)
        assert done == (fewest is not None)
        if batch.answers.proof[i] == PROVEN:
            assert batch.changed.iloc[i].sum() == fewest
    assert (batch.answers.proof[batch.success] == PROVEN).sum() >= batch.success.sum() - 1


# -- categories that are missing or new ------------------------------------------------------------------


def with_gaps(frame: pd.DataFrame = FRAME) -> pd.DataFrame:
    return frame.assign(job=frame["job"].where(np.arange(N) % 5 > 0, None))


def gap_front() -> ColumnTransformer:
    labels = make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder(handle_unknown="ignore"))
    return front(labels, make_pipeline(SimpleImputer(), StandardScaler()))


@pytest.mark.quick
def test_missing_categories_are_a_category() -> None:
    frame = with_gaps()
    model = fitted(LogisticRegression(), gap_front(), frame)
    explainer = explainer_of(model, frame)
    assert isinstance(explainer.model, TorchModel)
    assert "missing" in explainer.schema["job"].categories
    np.testing.assert_allclose(explainer.model.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    batch = explainer.explain(frame.head(20))
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    assert (batch.contrast.isna() == frame.head(20).isna()).all(axis=None)


def with_missing_numbers() -> pd.DataFrame:
    return with_gaps().assign(
        income=FRAME["income"].where(np.arange(N) % 4 > 0), age=FRAME["age"].where(np.arange(N) % 7 > 0)
    )


FILLED: dict[str, Any] = {
    "mean": SimpleImputer(),
    "constant": SimpleImputer(strategy="constant", fill_value=-3.0),
    "flagged": SimpleImputer(strategy="median", add_indicator=True),
}
LAST: dict[str, Any] = {"line": LogisticRegression(), "perceptron": MLP, "several": LogisticRegression()}


@pytest.mark.quick
@pytest.mark.parametrize("filled", FILLED)
@pytest.mark.parametrize("last", LAST)
def test_missing_numbers_are_filled_in_by_the_layers(filled: str, last: str) -> None:
    frame, target = with_missing_numbers(), THREE if last == "several" else GOOD
    labels = make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder(handle_unknown="ignore"))
    model = fitted(LAST[last], front(labels, make_pipeline(FILLED[filled], StandardScaler())), frame, target)
    explainer = explainer_of(model, frame)
    network = relu_network(explainer.model)
    assert network is not None
    assert set(network.missing) == {explainer.schema.index("age"), explainer.schema.index("income")}
    np.testing.assert_allclose(explainer.model.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    encoded = torch.as_tensor(explainer.schema.encode(frame))
    torch.testing.assert_close(network.scores(encoded), explainer.model.scores(encoded), rtol=0, atol=1e-9)
    for method in ("search", "gradient", "local"):
        batch = explainer.explain(frame.head(30), method=method, prove=method == "search")
        hits = batch.success
        assert hits.any()
        assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()
        assert (batch.contrast.isna() == frame.head(30).isna()).all(axis=None)
        assert "does not compute" not in str(batch[0])


@pytest.mark.quick
def test_rows_with_missing_numbers_are_those_with_what_is_filled_in() -> None:
    """Of a row that is filled in by hand, with the column frozen, the answers and proofs are the same."""
    frame = with_missing_numbers()
    model = fitted(MLP, gap_front(), frame)
    explainer = explainer_of(model, frame)
    rows = frame[frame["income"].isna() & frame["age"].notna()].head(12)
    filled = rows.assign(income=frame["income"].mean())
    first = explainer.explain(rows, prove=True, frozen=["income"])
    second = explainer.explain(filled, prove=True, frozen=["income"])
    others = [c for c in frame if c != "income"]
    pd.testing.assert_frame_equal(first.contrast[others], second.contrast[others])
    assert first.success.tolist() == second.success.tolist()
    assert first.answers.proof.tolist() == second.answers.proof.tolist()
    np.testing.assert_allclose(first.answers.nearest, second.answers.nearest, rtol=1e-6)


@pytest.mark.quick
def test_what_is_required_of_rows_with_missing_numbers() -> None:
    frame = with_missing_numbers()
    model = fitted(LogisticRegression(), gap_front(), frame)
    other = fitted(LogisticRegression(C=0.05), gap_front(), frame)
    explainer = explainer_of(model, frame)
    for asked in ({"robust": [other]}, {"plausible": 0.1}, {"rules": ["age <= income + 60"]}):
        batch = explainer.explain(frame.head(12), **asked)
        hits = batch.success
        assert hits.any(), asked
        assert (model.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()
        if "robust" in asked:
            assert (other.predict(batch.contrast)[hits] == batch.contrast_class[hits]).all()


@pytest.mark.quick
def test_categories_that_the_encoder_does_not_know() -> None:
    known = FRAME["job"] != "none"
    model = fitted(LogisticRegression(), frame=FRAME[known], target=GOOD[known])
    explainer = explainer_of(model)
    assert isinstance(explainer.model, TorchModel)
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)


@pytest.mark.quick
def test_groups_of_columns_are_one_feature() -> None:
    frame = FRAME[NUMBERS].assign(**{f"job_{j}": (FRAME["job"] == j).astype(int) for j in FRAME["job"].unique()})
    groups = [c for c in frame if c.startswith("job_")]
    before = ColumnTransformer([("n", StandardScaler(), NUMBERS)], remainder="passthrough")
    model = fitted(LogisticRegression(), before, frame)
    schema = grace.Schema.infer(frame).group("job", groups)
    explainer = explainer_of(model, frame, schema=schema)
    assert isinstance(explainer.model, TorchModel)
    assert explainer.schema.names == [*NUMBERS, "job"]
    np.testing.assert_allclose(explainer.model.predict_proba(frame), model.predict_proba(frame), atol=1e-9)
    batch = explainer.explain(frame.head(15))
    assert (batch.contrast[groups].sum(axis=1) == 1).all()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


# -- cut-offs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda p: FixedThresholdClassifier(FrozenEstimator(p.fit(FRAME, GOOD)), threshold=0.3, pos_label="yes"),
        lambda p: TunedThresholdClassifierCV(p, cv=2, scoring="balanced_accuracy"),
        lambda p: FixedThresholdClassifier(p, threshold=0.4, response_method="decision_function", pos_label="yes"),
    ],
    ids=["fixed", "tuned", "score"],
)
def test_cut_offs(make: Any) -> None:
    model = make(make_pipeline(front(), LogisticRegression())).fit(FRAME, GOOD)
    explainer = explainer_of(model)
    assert isinstance(explainer.model, TorchModel)
    assert (explainer.model.predict(FRAME) == model.predict(FRAME)).all()
    batch = explainer.explain(FRAME.head(12), prove=True)
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


@pytest.mark.quick
def test_cut_offs_on_calibrated_probabilities() -> None:
    model = MODELS["calibrated"]()
    explainer = explainer_of(grace.wrap(model, threshold=0.35))
    assert isinstance(explainer.model, TorchModel)
    decided = np.where(model.predict_proba(FRAME)[:, 1] >= 0.35, "yes", "no")
    assert (explainer.model.predict(FRAME) == decided).all()


# -- what stays a black box --------------------------------------------------------------------------------


class Careful(LogisticRegression):
    """A subclass may decide otherwise."""


def in_single_precision() -> pd.DataFrame:
    return FRAME.assign(income=FRAME["income"].astype(np.float32))


BLACK_BOXES: dict[str, Any] = {
    "a function of one's own": lambda: (front(scaler=FunctionTransformer(lambda n: n**3)), FRAME),
    "a number and its logarithm": lambda: (
        ColumnTransformer([("n", StandardScaler(), NUMBERS), ("log", FunctionTransformer(np.log1p), ["income"])]),
        FRAME,
    ),
    "bins and the number": lambda: (
        ColumnTransformer([("b", KBinsDiscretizer(3), ["age"]), ("n", StandardScaler(), NUMBERS)]),
        FRAME,
    ),
    "components": lambda: (front(scaler=PCA(2)), FRAME),
    "single precision": lambda: (front(), in_single_precision()),
    "numbers as labels": lambda: (
        ColumnTransformer([("l", OneHotEncoder(handle_unknown="ignore"), ["age", "job"])], remainder="drop"),
        FRAME,
    ),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", BLACK_BOXES)
def test_other_pipelines_stay_black_boxes(name: str) -> None:
    before, frame = BLACK_BOXES[name]()
    frame = frame.assign(income=frame["income"].clip(lower=0).astype(frame["income"].dtype))
    model = fitted(LogisticRegression(max_iter=500), before, frame)
    explainer = explainer_of(model, frame)
    assert isinstance(explainer.model, Predictor)
    batch = explainer.explain(frame.head(5))
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


@pytest.mark.parametrize(
    "last",
    [
        Careful(),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        CalibratedClassifierCV(LogisticRegression(), method="isotonic", ensemble=False),
        CalibratedClassifierCV(MLPClassifier((2,), solver="lbfgs", alpha=5, random_state=0), ensemble=False, cv=2),
    ],
    ids=["subclass", "averaged", "isotonic", "of probabilities"],
)
def test_other_estimators_stay_black_boxes(last: Any) -> None:
    model = fitted(last)
    explainer = explainer_of(model)
    assert isinstance(explainer.model, Predictor)
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), model.predict_proba(FRAME), atol=1e-9)


@pytest.mark.quick
def test_classes_in_another_order_are_not_read() -> None:
    explainer = explainer_of(grace.wrap(fitted(LogisticRegression()), classes=["yes", "no"]))
    assert isinstance(explainer.model, Predictor)
    renamed = explainer_of(grace.wrap(fitted(LogisticRegression()), classes=["bad", "good"]))
    assert isinstance(renamed.model, TorchModel)
    assert set(renamed.model.predict(FRAME)) == {"bad", "good"}


@pytest.mark.quick
def test_a_pipeline_that_changes_has_the_last_word() -> None:
    model = fitted(LogisticRegression())
    explainer = explainer_of(model)
    assert isinstance(explainer.model, TorchModel)
    model[-1].coef_ = -model[-1].coef_
    with pytest.warns(UserWarning, match="does not compute what its layers say"):
        batch = explainer.explain(FRAME.head(10))
    assert isinstance(explainer.model, Predictor)
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


# -- elsewhere -----------------------------------------------------------------------------------------------


def test_saved_pickled_and_robust(tmp_path: Path) -> None:
    model, other = fitted(LogisticRegression()), fitted(LogisticRegression(C=0.05))
    explainer = explainer_of(model)
    first = explainer.explain(FRAME.head(8))
    explainer.save(tmp_path / "why")
    for again in (grace.load(tmp_path / "why", model), pickle.loads(pickle.dumps(explainer))):
        assert isinstance(again.model, TorchModel)
        pd.testing.assert_frame_equal(again.explain(FRAME.head(8)).contrast, first.contrast)
    both = explainer.explain(FRAME.head(8), robust=[other])
    done = both.success
    assert (other.predict(both.contrast)[done] == both.contrast_class[done]).all()


def test_the_first_step_may_be_left_out() -> None:
    model = Pipeline([("none", "passthrough"), ("front", front()), ("last", LogisticRegression())]).fit(FRAME, GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(explainer_of(model).model, TorchModel)
