"""The models that are asked about: one network for each embedded table, and one small model of every
kind. All are seeded and made in one thread, so that two runs of the same code make the same models bit for bit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from torch import nn

import grace

ROWS = 8  # that are explained of each table
MOST_TRAINING = 800  # rows for models that were not trained here
SMALL: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
COLUMNS = {
    "adult": ["age", "education", "education_num", "relationship", "sex", "hours_per_week"],
    "german_credit": ["checking_status", "duration_months", "credit_amount", "age", "housing", "residence_since"],
}  # of wide tables, for models that are asked row by row
RULES = {
    "diabetes": ["if triceps_skin_fold == 0 then serum_insulin == 0"],
    "cancer95": ["cell_size_uniformity <= cell_shape_uniformity + 4"],
    "segment": ["rawblue_mean = intensity_mean + exblue_mean / 3", "exgreen_mean = -exred_mean - exblue_mean"],
    "magic": ["fConc1 <= fConc", "fWidth <= fLength"],
    "biodeg": ["if `F02[C-N]` != 0 then nN != 0"],
    "spam": ["capital_run_length_longest <= capital_run_length_total"],
    "cancer92": ["mean_area <= worst_area", "mean_radius <= worst_radius"],
    "musk": ["oxy_z <= oxy_dis"],
    "adult": ["education_num follows education", "if relationship == 'Husband' then sex == 'Male'"],
    "german_credit": ["duration_months <= 2 * age", "if housing == 'own' then residence_since >= 1"],
    "california_housing": ["total_bedrooms <= total_rooms"],
}


@dataclass(frozen=True)
class World:
    """An explainer, rows to ask about, and what some of the questions need."""

    explainer: grace.Explainer
    rows: pd.DataFrame
    wanted: Any = None  # what a predicted number should have been
    rules: Sequence[str] = ()
    others: Sequence[Any] = ()  # models for which answers have to hold too


def network(name: str, **how: Any) -> World:
    """The network of an embedded table, trained for a few epochs, and another one with a different seed."""
    table = grace.datasets.load(name)
    model, other = (grace.training.fit(table, seed=seed, max_epochs=8, **how) for seed in (0, 1))
    parts = table.split(seed=0)
    rows = model.impute(parts.test.head(ROWS)).drop(columns=table.target)
    wanted = grace.by("+10 %") if model.task == "regression" else None
    return World(grace.Explainer(model, parts.train), rows, wanted, RULES.get(name, ()), [other])


def table(name: str) -> tuple[pd.DataFrame, pd.Series[Any], pd.DataFrame]:
    """Training rows, their labels, and rows to ask about, of an embedded table."""
    known = grace.datasets.load(name)
    parts = known.split(seed=0)
    train = parts.train.head(MOST_TRAINING).dropna()
    columns = COLUMNS.get(name, [c for c in train.columns if c != known.target])
    return train[columns], train[known.target], parts.test[columns].dropna().head(ROWS)


def fitted(name: str, model: Any, **how: Any) -> World:
    """An estimator on an embedded table."""
    train, labels, rows = table(name)
    wrapped = grace.wrap(model.fit(train, labels), **how)
    other = grace.wrap(clone(model).fit(train[::2], labels[::2]), **how)
    wanted = grace.by("+10 %") if wrapped.task == "regression" else None
    return World(grace.Explainer(wrapped, train), rows, wanted, RULES.get(name, ()), [other])


def one_hot() -> Any:
    words = make_column_selector(dtype_include=["object", "string", "category"])
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), remainder=StandardScaler())


def with_categories(name: str, model: Callable[[], Any]) -> World:
    """An estimator that takes categories as pandas has them."""
    train, labels, rows = table(name)
    kinds = {c: pd.CategoricalDtype(sorted(train[c].unique())) for c in train.select_dtypes(["object", "string"])}
    train, rows = train.astype(kinds), rows.astype(kinds)
    codes = (labels == labels.iloc[0]).astype(int)
    return World(grace.Explainer(model().fit(train, codes), train), rows)


def with_holes() -> World:
    """Missing cells that the model takes."""
    train, labels, rows = table("cancer95")
    holes = np.random.default_rng(0).random(train.shape) < 0.1
    train = train.astype(float).mask(holes)
    model = HistGradientBoostingClassifier(max_iter=10).fit(train, labels)
    rows = rows.astype(float).mask(np.random.default_rng(1).random(rows.shape) < 0.1)
    return World(grace.Explainer(model, train), rows)


def single_precision() -> World:
    train, labels, rows = table("phoneme")
    model = RandomForestClassifier(4, **SMALL).fit(train.astype(np.float32), labels)
    return World(grace.Explainer(model, train.astype(np.float32)), rows.astype(np.float32))


def clusters(model: Any) -> World:
    train, _, rows = table("phoneme")
    return World(grace.Explainer(model.fit(train), train), rows)


def one_of_several() -> World:
    """Columns of which one is 1, which are one feature."""
    train, labels, rows = table("german_credit")
    names = ["age", "duration_months", "housing", "checking_status"]
    wide = pd.get_dummies(pd.concat([train[names], rows[names]]), columns=names[2:])
    model = LogisticRegression(max_iter=2000).fit(wide.iloc[: len(train)], labels)
    schema = grace.Schema.infer(wide)
    for name in names[2:]:
        schema = schema.group(name, [c for c in wide.columns if c.startswith(f"{name}_")])
    return World(grace.Explainer(model, wide.iloc[: len(train)], schema=schema), wide.iloc[len(train) :])


def columns_of_all_kinds() -> pd.DataFrame:
    """Numbers, whole numbers, categories, grades, truth values and dates."""
    rng = np.random.default_rng(11)
    n = 200
    frame = pd.DataFrame({"size": rng.normal(0, 2, n).round(2), "count": rng.integers(0, 6, n)})
    frame["kind"] = pd.Categorical(rng.choice(["bolt", "nut"], n))
    frame["grade"] = pd.Categorical(rng.choice(["C", "B", "A"], n), ["C", "B", "A"], ordered=True)
    frame["flag"] = rng.random(n) < 0.5
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return frame


def goodness(frame: pd.DataFrame) -> np.ndarray[Any, np.dtype[Any]]:
    total = frame["size"] + frame["count"] + 2.0 * frame["flag"] - frame["grade"].cat.codes
    return np.asarray(total - 2, dtype=float)


def dates(number: bool) -> World:
    frame = columns_of_all_kinds()
    target = goodness(frame) if number else np.where(goodness(frame) > 0, "good", "bad")
    model = grace.training.fit(frame.assign(y=target), "y", batch_size=32, max_epochs=30)
    wanted = grace.by(0.5) if number else None
    return World(grace.Explainer(model, frame), frame.head(ROWS), wanted, ["count <= size + 9"])


def function(labels: bool) -> World:
    """A function that gives probabilities, or names classes alone."""
    frame = columns_of_all_kinds()

    def chance(rows: pd.DataFrame) -> Any:
        return 1 / (1 + np.exp(-goodness(rows)))

    def label(rows: pd.DataFrame) -> Any:
        return np.where(goodness(rows) > 0, "good", "bad")

    model = grace.wrap(label if labels else chance, classes=["bad", "good"])
    return World(grace.Explainer(model, frame), frame.head(ROWS))


def own_network(number: bool) -> World:
    """A module that was made elsewhere."""
    train, _, rows = table("phoneme")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(train.shape[1], 8), nn.Tanh(), nn.Linear(8, 1 if number else 2))
    model = grace.wrap(net, task="regression") if number else grace.wrap(net, classes=["low", "high"])
    return World(grace.Explainer(model, train), rows, grace.by(0.3) if number else None)


def xgboost() -> World:
    from xgboost import XGBClassifier

    return with_categories(
        "german_credit", lambda: XGBClassifier(n_estimators=10, max_depth=3, enable_categorical=True, **SMALL)
    )


def xgboost_file() -> World:
    from xgboost import XGBClassifier

    train, labels, rows = table("diabetes")
    codes = (labels == "tested_positive").astype(int)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        XGBClassifier(n_estimators=10, max_depth=3, **SMALL).fit(train, codes).save_model(path)
        model = grace.wrap(str(path), classes=["tested_negative", "tested_positive"])
    return World(grace.Explainer(model, train), rows)


def lightgbm() -> World:
    from lightgbm import LGBMClassifier

    return with_categories("german_credit", lambda: LGBMClassifier(n_estimators=10, verbose=-1, **SMALL))


def catboost() -> World:
    from catboost import CatBoostClassifier

    how = {"iterations": 10, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return fitted("diabetes", CatBoostClassifier(**how))


def onnx(activation: str) -> World:
    """A file of ONNX: with ReLU it is read as layers, with sines it is a black box."""
    from onnx import TensorProto, helper, numpy_helper, save

    train, _, rows = table("phoneme")
    rng = np.random.default_rng(1)
    shapes = {"w": (train.shape[1], 6), "b": (6,), "v": (6, 2), "c": (2,)}
    weights = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), k) for k, s in shapes.items()]
    steps = [("Gemm", ["x", "w", "b"], "h"), (activation, ["h"], "r"), ("Gemm", ["r", "v", "c"], "y")]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, size])
        for name, size in (("x", train.shape[1]), ("y", 2))
    ]
    nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in steps]
    model = helper.make_model(
        helper.make_graph(nodes, "net", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        save(model, path)
        wrapped = grace.wrap(str(path), classes=["oral", "nasal"])
    return World(grace.Explainer(wrapped, train), rows)


def keras() -> World:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as library

    train, _, rows = table("phoneme")
    library.utils.set_random_seed(3)
    size = train.shape[1]
    net = library.Sequential([library.Input((size,)), library.layers.Dense(8, "relu"), library.layers.Dense(2)])
    return World(grace.Explainer(grace.wrap(net, classes=["oral", "nasal"]), train), rows)


def worlds(quick: bool) -> Iterator[tuple[str, Callable[[], World]]]:
    """Every network and model by name, made when it is asked for."""
    few = ("diabetes", "cancer95", "segment", "german_credit", "california_housing")
    for name in few if quick else grace.datasets.names():
        yield f"{name}: network", partial(network, name)
    forest = RandomForestClassifier(4, **SMALL)
    scaled = make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=60, random_state=0))
    logistic = LogisticRegression(max_iter=2000)
    yield "diabetes: network with a cut-off", lambda: network("diabetes", threshold=0.3)
    yield "diabetes: logistic regression", lambda: fitted("diabetes", logistic)
    yield (
        "diabetes: logistic regression with a cut-off",
        lambda: fitted("diabetes", FixedThresholdClassifier(logistic, threshold=0.4, pos_label="tested_positive")),
    )
    yield "segment: perceptron behind a scaler", lambda: fitted("segment", scaled)
    yield "diabetes: forest", lambda: fitted("diabetes", forest)
    yield "diabetes: forest with a cut-off", lambda: fitted("diabetes", forest, threshold=0.3)
    yield "german_credit: pipeline", lambda: fitted("german_credit", make_pipeline(one_hot(), logistic))
    yield "adult: pipeline", lambda: fitted("adult", make_pipeline(one_hot(), forest))
    yield "cancer95: histogram boosting, missing cells", with_holes
    yield "phoneme: SVC", lambda: fitted("phoneme", SVC())
    yield "phoneme: forest, float32", single_precision
    yield "phoneme: k-means", lambda: clusters(KMeans(3, n_init=1, random_state=0))
    yield "phoneme: mixture", lambda: clusters(GaussianMixture(3, random_state=0))
    yield "california_housing: linear regression", lambda: fitted("california_housing", LinearRegression())
    yield "california_housing: forest", lambda: fitted("california_housing", RandomForestRegressor(4, **SMALL))
    yield "german_credit: groups of columns", one_of_several
    yield "dates and grades: network", lambda: dates(number=False)
    yield "dates and grades: network, number", lambda: dates(number=True)
    yield "function: probabilities", lambda: function(labels=False)
    yield "function: labels", lambda: function(labels=True)
    yield "phoneme: module", lambda: own_network(number=False)
    yield "phoneme: module, number", lambda: own_network(number=True)
    yield "german_credit: XGBoost", xgboost
    yield "diabetes: XGBoost, file", xgboost_file
    yield "german_credit: LightGBM", lightgbm
    yield "diabetes: CatBoost", catboost
    yield "phoneme: ONNX, layers", lambda: onnx("Relu")
    yield "phoneme: ONNX, sines", lambda: onnx("Sin")
    if not quick:
        yield "phoneme: Keras", keras
