"""Preprocessing of scikit-learn: what is said of each column of an estimator's input is true of the fitted pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from grace.models.preprocessing import AFFINE, MONOTONE, STEPS, TABLE, Preprocessing, read_preprocessing
from grace.models.preprocessing.calibration import read_calibration
from grace.models.preprocessing.thresholds import threshold_in_original

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(3)
N = 120
NUMBERS = pd.DataFrame(
    {
        "a": RNG.normal(3, 5, N).round(2),
        "p": RNG.lognormal(1, 1, N).round(3) + 0.001,
        "n": RNG.integers(0, 5, N),
    }
)
LABELS = pd.DataFrame({"k": RNG.choice(["x", "y", "z", "rare"], N, p=[0.5, 0.3, 0.17, 0.03]), "g": RNG.random(N) < 0.4})
MIXED = NUMBERS.join(LABELS)
HOLES = MIXED.assign(
    a=MIXED["a"].where(RNG.random(N) < 0.8),
    n=MIXED["n"].where(RNG.random(N) < 0.9),
    k=MIXED["k"].where(RNG.random(N) < 0.8, None),
)
YES = (MIXED["a"] + 3 * MIXED["g"] > 4).to_numpy()
THREE = np.digitize(MIXED["a"] + MIXED["n"], [2, 6])
TREE = DecisionTreeClassifier(max_depth=1)


def fitted(front: Any, frame: Any = NUMBERS, target: Any = YES) -> Any:
    return make_pipeline(front, TREE).fit(frame, target)


def read(model: Any) -> Preprocessing:
    found = read_preprocessing(model)
    assert found is not None
    assert isinstance(found[0], DecisionTreeClassifier | DecisionTreeRegressor)
    return found[1]


def asked(frame: Any, name: Any, values: Any, base: int = 0) -> Any:
    """One row with other values in one column."""
    if isinstance(frame, np.ndarray):
        rows = np.repeat(frame[[base]], len(values), axis=0)
        rows[:, name] = values
        return rows
    rows = frame.iloc[[base] * len(values)].reset_index(drop=True)
    kept = frame[name].dtype if isinstance(frame[name].dtype, pd.CategoricalDtype) else None
    rows[name] = pd.Series(values, dtype=kept)
    return rows


def check(model: Any, frame: Any) -> Preprocessing:
    """Every claim about every column, against the pipeline itself."""
    prep = read(model)
    names = list(range(frame.shape[1])) if isinstance(frame, np.ndarray) else list(frame.columns)
    assert prep.width == len(names)
    assert prep.names == (() if isinstance(frame, np.ndarray) else tuple(names))
    whole = prep.transform(frame)
    assert whole.shape == (len(frame), len(prep.columns))
    inner = model[:-1].transform(frame)
    inner = inner.toarray() if hasattr(inner, "toarray") else np.asarray(inner)
    np.testing.assert_array_equal(whole, inner.astype(float))
    for source, name in enumerate(names):
        cells = frame[:, source] if isinstance(frame, np.ndarray) else frame[name]
        made = prep.made_from(source)
        observed = pd.Series(cells).drop_duplicates().tolist()
        values = prep.transform(asked(frame, name, observed))
        others = np.setdiff1d(np.arange(len(prep.columns)), made)
        np.testing.assert_array_equal(values[:, others], np.repeat(values[:1, others], len(values), axis=0))
        if pd.api.types.is_numeric_dtype(pd.Series(cells)) and not pd.api.types.is_bool_dtype(pd.Series(cells)):
            for c in made[:: max(1, len(made) // 4)]:
                check_number(prep, frame, name, int(c))
    return prep


def check_number(prep: Preprocessing, frame: Any, name: Any, c: int) -> None:
    """What is said of a column as a function of numbers."""
    column = prep.columns[c]

    def values(numbers: Any) -> Any:
        return prep.transform(asked(frame, name, np.asarray(numbers, dtype=float)))[:, c]

    least, most = prep.limits(column.source)
    low, high = max(least, -1e6), min(most, 1e6)
    near = RNG.normal(2, 6, 60)
    x = np.clip(np.concatenate([near, RNG.normal(0, 1e4, 10), [0.0, 1.0, 2.0, 3.0, low, high]]), low, high)
    if column.kind == AFFINE:
        np.testing.assert_allclose(values(x), column.scale * x + column.shift, rtol=1e-12, atol=1e-12)
    elif column.kind == MONOTONE:
        x = np.sort(np.concatenate([x, np.nextafter(x[x < high], np.inf)]))
        rise = np.diff(values(x)) * (1 if column.rising else -1)
        assert (rise >= -1e-12 * np.abs(values(x))[1:]).all()  # powers and interpolation are rounded
    elif column.kind == STEPS:
        ends = np.array([low, *column.edges, np.nextafter(high, np.inf)])
        first, last = ends[:-1], np.nextafter(ends[1:], -np.inf)
        inside = np.clip(first + RNG.random(len(first)) * (last - first), first, last)
        at_first = values(first)
        np.testing.assert_array_equal(values(last), at_first)
        np.testing.assert_array_equal(values(inside), at_first)


NUMBER_FRONTS = {
    "StandardScaler": (StandardScaler(), AFFINE),
    "no mean": (StandardScaler(with_mean=False), AFFINE),
    "no scale": (StandardScaler(with_std=False), AFFINE),
    "MinMaxScaler": (MinMaxScaler((-1, 3)), AFFINE),
    "clipped": (MinMaxScaler(clip=True), MONOTONE),
    "MaxAbsScaler": (MaxAbsScaler(), AFFINE),
    "RobustScaler": (RobustScaler(), AFFINE),
    "RobustScaler without centre": (RobustScaler(with_centering=False), AFFINE),
    "QuantileTransformer": (QuantileTransformer(n_quantiles=20), MONOTONE),
    "normal quantiles": (QuantileTransformer(n_quantiles=20, output_distribution="normal"), MONOTONE),
    "PowerTransformer": (PowerTransformer(), MONOTONE),
    "KBins ordinal": (KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"), STEPS),
    "KBins onehot": (KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"), STEPS),
    "KBins dense": (KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"), STEPS),
    "Binarizer": (Binarizer(threshold=2.0), STEPS),
    "None": (FunctionTransformer(), AFFINE),
    "negative": (FunctionTransformer(np.negative), AFFINE),
    "passthrough": ("passthrough", AFFINE),
    "SimpleImputer": (SimpleImputer(), AFFINE),
    "a number is missing": (SimpleImputer(missing_values=1), TABLE),
    "MissingIndicator": (MissingIndicator(features="all"), STEPS),
    "numbers one-hot": (OneHotEncoder(handle_unknown="ignore"), STEPS),
    "numbers one-hot, rare ones": (OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=4), STEPS),
    "numbers one-hot, no others": (OneHotEncoder(), TABLE),
    "numbers ordinal": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), STEPS),
    "numbers ordinal, no others": (OrdinalEncoder(), TABLE),
    "numbers by target": (TargetEncoder(), STEPS),
    "two scalers": (make_pipeline(StandardScaler(), RobustScaler()), AFFINE),
    "scaled quantiles": (make_pipeline(StandardScaler(), QuantileTransformer(n_quantiles=20)), MONOTONE),
    "quantiles scaled": (make_pipeline(QuantileTransformer(n_quantiles=20), StandardScaler()), MONOTONE),
    "falling": (make_pipeline(FunctionTransformer(np.negative), MinMaxScaler(clip=True)), MONOTONE),
    "bins of scaled": (make_pipeline(StandardScaler(), KBinsDiscretizer(4, strategy="uniform")), STEPS),
    "bins of a power": (make_pipeline(PowerTransformer(), KBinsDiscretizer(4, strategy="uniform")), STEPS),
    "bins of falling": (
        make_pipeline(FunctionTransformer(np.negative), KBinsDiscretizer(4, strategy="uniform", encode="ordinal")),
        STEPS,
    ),
    "scaled bins": (
        make_pipeline(KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), StandardScaler(), MinMaxScaler()),
        STEPS,
    ),
    "passed on first": (make_pipeline("passthrough", StandardScaler()), AFFINE),
    "passed on beside": (FeatureUnion([("p", make_pipeline("passthrough")), ("s", StandardScaler())]), AFFINE),
    "passed on alone": (make_pipeline("passthrough", "passthrough"), AFFINE),
    "exponents beside": (
        FeatureUnion([("e", FunctionTransformer(np.exp)), ("c", FunctionTransformer(np.cbrt))]),
        MONOTONE,
    ),
    "bins of bins": (
        make_pipeline(KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), OneHotEncoder()),
        STEPS,
    ),
}


@pytest.mark.parametrize("name", NUMBER_FRONTS)
def test_numbers(name: str) -> None:
    front, kind = NUMBER_FRONTS[name]
    prep = check(fitted(front), NUMBERS)
    assert {c.kind for c in prep.columns} == {kind}


@pytest.mark.parametrize(
    "function",
    [np.log, np.log2, np.log10, np.log1p, np.sqrt, np.exp, np.expm1, np.cbrt, np.arcsinh],
    ids=lambda f: f.__name__,
)
def test_functions_of_numbers(function: Any) -> None:
    front = make_pipeline(FunctionTransformer(function), StandardScaler())
    frame = NUMBERS[["p"]]
    prep = check(fitted(front, frame), frame)
    (column,) = prep.columns
    assert column.kind == MONOTONE
    assert np.isfinite(column.evaluate(np.array([column.low, column.high]))).all()
    if function in (np.log, np.log2, np.log10):
        assert column.low == np.nextafter(0.0, 1.0)
    if function is np.log1p:
        assert column.low == np.nextafter(-1.0, 0.0)


def test_power_of_positive_numbers() -> None:
    prep = check(fitted(make_pipeline(PowerTransformer("box-cox"), StandardScaler()), NUMBERS[["p"]]), NUMBERS[["p"]])
    assert prep.columns[0].kind == MONOTONE
    assert prep.columns[0].low > 0


@pytest.mark.parametrize(
    "front",
    [
        VarianceThreshold(3.0),
        SelectKBest(k=1),
        SelectPercentile(percentile=50),
        SelectFromModel(DecisionTreeClassifier(max_depth=2, random_state=0)),
        RFE(DecisionTreeClassifier(max_depth=2, random_state=0), n_features_to_select=2),
    ],
    ids=lambda f: type(f).__name__,
)
def test_selection(front: Any) -> None:
    model = fitted(make_pipeline(StandardScaler(with_std=False), front, MinMaxScaler()))
    prep = check(model, NUMBERS)
    assert 0 < len(prep.columns) < 3


ENCODERS = [
    OneHotEncoder(),
    OneHotEncoder(drop="first"),
    OneHotEncoder(drop="if_binary", sparse_output=False),
    OneHotEncoder(handle_unknown="ignore", dtype=np.float32),
    OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist"),
    OneHotEncoder(max_categories=2, drop="first"),
    OrdinalEncoder(),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=-2),
    OrdinalEncoder(min_frequency=10),
    TargetEncoder(),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
@pytest.mark.parametrize("frame", [LABELS, LABELS.astype("category"), HOLES[["k", "g"]]], ids=["plain", "cat", "gaps"])
def test_labels(encoder: Any, frame: pd.DataFrame) -> None:
    prep = check(fitted(encoder, frame), frame)
    assert {c.kind for c in prep.columns if c.source == 0} == {TABLE}
    assert {c.source for c in prep.columns} == {0, 1}


def test_target_encoding_of_three_classes_and_of_a_number() -> None:
    prep = check(fitted(TargetEncoder(), LABELS, THREE), LABELS)
    assert [c.source for c in prep.columns] == [0, 0, 0, 1, 1, 1]
    model = make_pipeline(TargetEncoder(target_type="continuous"), DecisionTreeRegressor(max_depth=1))
    assert len(check(model.fit(LABELS, np.arange(N)), LABELS).columns) == 2


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("indicator", [False, True])
def test_missing_numbers(strategy: str, indicator: bool) -> None:
    frame = HOLES[["a", "p", "n"]]
    prep = check(fitted(make_pipeline(SimpleImputer(strategy=strategy, add_indicator=indicator)), frame), frame)
    assert [c.kind for c in prep.columns] == [AFFINE] * 3 + [STEPS] * 2 * indicator
    assert [c.source for c in prep.columns] == [0, 1, 2] + [0, 2] * indicator


@pytest.mark.filterwarnings("ignore:Skipping features")
def test_columns_without_values_are_dropped() -> None:
    frame = NUMBERS.assign(p=np.nan)
    for kept in (False, True):
        model = make_pipeline(SimpleImputer(keep_empty_features=kept), TREE).fit(frame, YES)
        assert [c.source for c in read(model).columns] == ([0, 1, 2] if kept else [0, 2])


def number_part() -> Pipeline:
    return make_pipeline(SimpleImputer(), StandardScaler())


def label_part() -> Pipeline:
    return make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))


def column_fronts() -> dict[str, Any]:
    numbers, labels = ["a", "p", "n"], ["k", "g"]
    return {
        "names": ColumnTransformer([("n", number_part(), numbers), ("l", label_part(), labels)]),
        "order": ColumnTransformer([("l", label_part(), ["g", "k"]), ("n", number_part(), ["n", "a"])]),
        "positions": ColumnTransformer([("n", number_part(), [0, -3]), ("l", label_part(), slice(3, 5))]),
        "slice of names": ColumnTransformer([("n", number_part(), slice("a", "n")), ("l", label_part(), ["k"])]),
        "mask": ColumnTransformer(
            [("n", number_part(), [True, False, True, False, False]), ("l", label_part(), ["k"])]
        ),
        "callable": ColumnTransformer(
            [
                ("n", number_part(), make_column_selector(dtype_include="number")),
                ("l", label_part(), make_column_selector(dtype_exclude="number")),
            ]
        ),
        "remainder": ColumnTransformer([("l", label_part(), labels)], remainder="passthrough"),
        "remainder scaled": ColumnTransformer([("l", label_part(), labels)], remainder=number_part()),
        "drop": ColumnTransformer(
            [
                ("d", "drop", ["a"]),
                ("p", "passthrough", ["p"]),
                ("e", StandardScaler(), []),
                ("l", label_part(), labels),
            ]
        ),
        "twice": ColumnTransformer(
            [
                ("n", number_part(), numbers),
                ("b", KBinsDiscretizer(3, strategy="uniform"), ["p"]),
                ("l", label_part(), labels),
            ]
        ),
        "sparse": ColumnTransformer(
            [("n", number_part(), ["a"]), ("l", OneHotEncoder(handle_unknown="ignore"), labels)], sparse_threshold=1.0
        ),
        "pandas": ColumnTransformer(
            [("n", number_part(), numbers), ("l", OneHotEncoder(sparse_output=False), labels)]
        ).set_output(transform="pandas"),
        "nested": ColumnTransformer(
            [
                (
                    "inner",
                    ColumnTransformer([("n", number_part(), [1, 0])], remainder="passthrough"),
                    ["a", "p", "n"],
                ),
                ("l", label_part(), labels),
            ]
        ),
        "union": ColumnTransformer(
            [
                (
                    "u",
                    FeatureUnion(
                        [
                            ("s", number_part()),
                            ("q", QuantileTransformer(n_quantiles=20)),
                            ("no", "drop"),
                            ("p", "passthrough"),
                        ]
                    ),
                    numbers,
                ),
                ("l", label_part(), labels),
            ]
        ),
    }


@pytest.mark.parametrize("name", column_fronts())
def test_column_transformers(name: str) -> None:
    front = column_fronts()[name]
    gaps = name not in ("drop", "twice", "union", "nested", "remainder", "pandas")
    frame = HOLES if gaps and name != "sparse" else MIXED
    after = make_pipeline(front, "passthrough", MaxAbsScaler())
    check(fitted(after, frame), frame)


def test_arrays() -> None:
    rows = NUMBERS.to_numpy()
    front = ColumnTransformer([("s", StandardScaler(), [2]), ("m", MinMaxScaler(), [0])])
    prep = check(fitted(front, rows), rows)
    assert [c.source for c in prep.columns] == [2, 0]


def test_estimators_inside_others() -> None:
    inner = make_pipeline(number_part(), TREE)
    for model in (
        make_pipeline(MinMaxScaler(), inner),
        GridSearchCV(inner, {"decisiontreeclassifier__max_depth": [1, 2]}, cv=2),
        FrozenEstimator(make_pipeline(number_part(), TREE).fit(NUMBERS, YES)),
    ):
        prep = read(model.fit(NUMBERS, YES))
        assert [c.kind for c in prep.columns] == [AFFINE] * 3
    last, prep = read_preprocessing(TREE.fit(NUMBERS, YES)) or (None, None)
    assert last is TREE
    assert prep is not None
    assert prep.stages == ()


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer of one's own."""

    def fit(self, rows: Any, target: Any = None) -> Doubled:
        self.n_features_in_ = rows.shape[1]
        return self

    def transform(self, rows: Any) -> Any:
        return 2 * np.asarray(rows)


class Scaler(StandardScaler):
    """A subclass may do anything."""


def replaced() -> Any:
    model = fitted(StandardScaler())
    model[0].transform = lambda rows: np.asarray(rows) ** 2
    return model


@pytest.mark.parametrize(
    "front",
    [
        Normalizer(),
        PolynomialFeatures(2),
        PCA(2),
        Doubled(),
        Scaler(),
        FunctionTransformer(np.abs),
        FunctionTransformer(np.round, kw_args={"decimals": 1}),
        FeatureUnion([("s", StandardScaler())], transformer_weights={"s": 2.0}),
        ColumnTransformer([("s", StandardScaler(), [0])], transformer_weights={"s": 2.0}),
    ],
    ids=lambda f: type(f).__name__,
)
def test_what_is_not_read(front: Any) -> None:
    assert read_preprocessing(fitted(front)) is None
    assert (
        read_preprocessing(fitted(make_pipeline(StandardScaler(), ColumnTransformer([("f", front, [0, 1, 2])]))))
        is None
    )


def test_replaced_methods_are_not_read() -> None:
    assert read_preprocessing(replaced()) is None


def test_thresholds_behind_a_pipeline_are_exact_in_original_numbers() -> None:
    """A split of a tree behind scalers, at both neighbours and in single precision, as the library compares."""
    front = ColumnTransformer(
        [("s", make_pipeline(StandardScaler(), PowerTransformer()), ["a"])], remainder="passthrough"
    )
    model = make_pipeline(front, DecisionTreeClassifier(max_depth=2, random_state=0)).fit(NUMBERS, YES)
    prep, tree = read(model), model[-1].tree_
    for node in np.flatnonzero(tree.children_left >= 0):
        column = prep.columns[tree.feature[node]]
        name = NUMBERS.columns[column.source]

        def evaluate(numbers: Any, name: str = name, c: int = tree.feature[node]) -> Any:
            return prep.transform(asked(NUMBERS, name, numbers))[:, c].astype(np.float32)

        edge = float(threshold_in_original(evaluate, tree.threshold[node], False, low=column.low, high=column.high))
        left, right = evaluate(np.array([np.nextafter(edge, -np.inf), edge])) <= tree.threshold[node]
        assert left
        assert not right


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("inner", [LogisticRegression(), GaussianNB()], ids=["decision_function", "predict_proba"])
def test_calibration(method: str, inner: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), inner)
    frozen = FrozenEstimator(make_pipeline(StandardScaler(), inner).fit(NUMBERS, YES))
    for model in (
        CalibratedClassifierCV(pipeline, method=method, ensemble=False),
        CalibratedClassifierCV(frozen, method=method, ensemble=False),
    ):
        model.fit(NUMBERS, YES)
        estimator, calibration = read_calibration(model) or (None, None)
        assert estimator is not None
        assert calibration is not None
        response = getattr(estimator, calibration.response)(NUMBERS)
        shares = calibration.calibrate(response if response.ndim == 1 else response[:, 1])
        np.testing.assert_array_equal(shares, model.predict_proba(NUMBERS)[:, 1])
        if calibration.line is not None:
            factor, offset = calibration.line
            raw = response if response.ndim == 1 else response[:, 1]
            np.testing.assert_allclose(1 / (1 + np.exp(-factor * raw - offset)), shares, atol=1e-12)
        found = read_preprocessing(estimator)
        assert found is not None
        assert type(found[0]) is type(inner)


def test_calibrations_that_are_not_read() -> None:
    assert read_calibration(CalibratedClassifierCV(GaussianNB(), cv=3).fit(NUMBERS, YES)) is None
    assert read_calibration(CalibratedClassifierCV(GaussianNB(), ensemble=False).fit(NUMBERS, THREE)) is None
    assert read_calibration(GaussianNB().fit(NUMBERS, YES)) is None
