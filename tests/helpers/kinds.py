"""One small model of every kind, fitted to tables of every kind of column."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PowerTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from torch import nn

import grace

os.environ["KERAS_BACKEND"] = "torch"
N = 150
RNG = np.random.default_rng(11)
NUMBERS = pd.DataFrame(RNG.normal(0, 2, (N, 3)).round(2), columns=["a", "b", "c"])
SUM = NUMBERS["a"] + 0.6 * NUMBERS["b"] - 0.4 * NUMBERS["c"]
YES = np.where(SUM > 0, "yes", "no")
MIXED = NUMBERS[["a"]].assign(
    count=RNG.integers(0, 6, N),
    kind=pd.Categorical(RNG.choice(["bolt", "nut"], N)),
    grade=pd.Categorical(RNG.choice(["C", "B", "A"], N), ["C", "B", "A"], ordered=True),
    flag=RNG.random(N) < 0.5,
)
GOOD = np.where(MIXED["a"] + MIXED["count"] - 2 + 2 * MIXED["flag"] - MIXED["grade"].cat.codes > 0.5, "yes", "no")
DATED = MIXED.assign(since=pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"))
HOLES = MIXED.assign(a=MIXED["a"].where(RNG.random(N) < 0.8))
CLASSES = ["no", "yes"]
CATEGORIES = ["kind", "grade", "flag"]


@dataclass(frozen=True)
class Kind:
    """A model, the rows it was fitted on, and what it itself decides about rows."""

    name: str
    make: Callable[[], tuple[Any, Callable[[pd.DataFrame], Any]]]
    frame: pd.DataFrame
    columns: str = "numbers"
    against: Any = None
    library: str = ""  # that it is skipped without


def fitted(model: Any, frame: pd.DataFrame = NUMBERS, target: Any = YES) -> Callable[[], tuple[Any, Any]]:
    return lambda: (model.fit(frame, target), model.predict)


def encoded() -> Any:
    words = make_column_selector(dtype_include="category")
    return make_column_transformer((OneHotEncoder(), words), remainder="passthrough")


def transformed() -> Any:
    bins = KBinsDiscretizer(3, strategy="uniform")
    return make_column_transformer((PowerTransformer(), ["a"]), (bins, ["count"]), (OneHotEncoder(), CATEGORIES))


def chance(frame: pd.DataFrame) -> np.ndarray:
    return 1 / (1 + np.exp(-(frame["a"] + frame["count"] - 2 + 2 * frame["flag"] - frame["grade"].cat.codes - 0.5)))


def label(frame: pd.DataFrame) -> np.ndarray:
    return np.where(chance(frame) > 0.5, "yes", "no")


def module(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs))


def torch_module() -> tuple[Any, Any]:
    wrapped = grace.wrap(module(2), classes=CLASSES)
    return wrapped, lambda frame: wrapped.predict(frame)


def torch_number() -> tuple[Any, Any]:
    wrapped = grace.wrap(module(1), task="regression")
    return wrapped, lambda frame: wrapped.predict(frame)


def trained(target: Any) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        model = grace.training.fit(DATED.assign(target=target), "target", batch_size=32, max_epochs=40)
        return model, model.predict

    return make


def skorch() -> tuple[Any, Any]:
    net = pytest.importorskip("skorch").NeuralNetClassifier(
        module(2), criterion=nn.CrossEntropyLoss, max_epochs=15, lr=0.1, verbose=0, train_split=None
    )
    net.fit(np.array(NUMBERS, dtype=np.float32), (YES == "yes").astype(np.int64))
    return net, lambda frame: net.predict(np.array(frame, dtype=np.float32))


def keras() -> tuple[Any, Any]:
    library = pytest.importorskip("keras")
    library.utils.set_random_seed(3)
    model = library.Sequential([library.Input((3,)), library.layers.Dense(8, "relu"), library.layers.Dense(2)])
    wrapped = grace.wrap(model, classes=CLASSES)
    return wrapped, lambda f: np.array(CLASSES)[model.predict(np.array(f), verbose=0).argmax(axis=1)]


def lightgbm() -> tuple[Any, Any]:
    model = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1)
    return model.fit(HOLES, GOOD), model.predict


def xgboost() -> tuple[Any, Any]:
    model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=15, n_jobs=1, enable_categorical=True)
    return model.fit(MIXED, (GOOD == "yes").astype(int)), model.predict


def catboost(frame: pd.DataFrame, target: Any, categories: list[str]) -> Callable[[], tuple[Any, Any]]:
    settings = {"iterations": 15, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}

    def make() -> tuple[Any, Any]:
        model = pytest.importorskip("catboost").CatBoostClassifier(**settings, cat_features=categories)
        return model.fit(frame, target), model.predict

    return make


def onnx() -> tuple[Any, Any]:
    """Sine layers, which only onnxruntime knows."""
    library, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    helper, number = library.helper, library.TensorProto.FLOAT
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(size=(3, 6)), "b": rng.normal(size=6), "v": rng.normal(size=(6, 2)), "c": np.zeros(2)}
    steps = [("Gemm", ["x", "w", "b"], "h"), ("Sin", ["h"], "r"), ("Gemm", ["r", "v", "c"], "y")]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output]) for kind, inputs, output in steps],
        "net",
        [helper.make_tensor_value_info("x", number, [None, 3])],
        [helper.make_tensor_value_info("y", number, [None, 2])],
        [library.numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def predict(frame: pd.DataFrame) -> Any:
        return np.array(CLASSES)[session.run(None, {"x": np.array(frame, dtype=np.float32)})[0].argmax(axis=1)]

    return grace.wrap(session, classes=CLASSES), predict


FOREST = RandomForestClassifier(8, random_state=0, n_jobs=1)
TREES = HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype")
NUMBER = {"against": grace.by(+0.5)}
KINDS = [
    Kind("`grace.training.fit`", trained(GOOD), DATED, "mixed, dates"),
    Kind("`torch.nn.Module`", torch_module, NUMBERS),
    Kind("Keras 3 on torch", keras, NUMBERS),
    Kind("skorch", skorch, NUMBERS),
    Kind("scikit-learn: linear models", fitted(LogisticRegression()), NUMBERS),
    Kind(
        "scikit-learn: `MLPClassifier`, also behind a scaler",
        fitted(make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=2000, random_state=0))),
        NUMBERS,
    ),
    Kind(
        "scikit-learn: linear models and perceptrons behind encoders",
        fitted(make_pipeline(encoded(), LogisticRegression()), MIXED, GOOD),
        MIXED,
        "mixed",
    ),
    Kind(
        "scikit-learn: the same behind logarithms, powers, quantiles or bins of numbers",
        fitted(make_pipeline(transformed(), LogisticRegression()), MIXED, GOOD),
        MIXED,
        "mixed",
    ),
    Kind("scikit-learn: `SVC`", fitted(SVC()), NUMBERS),
    Kind(
        "scikit-learn: forests behind encoders",
        fitted(make_pipeline(encoded(), FOREST), MIXED, GOOD),
        MIXED,
        "mixed",
    ),
    Kind("scikit-learn: histogram boosting", fitted(TREES, HOLES, GOOD), HOLES, "mixed, missing"),
    Kind("LightGBM", lightgbm, HOLES, "mixed, missing"),
    Kind("XGBoost", xgboost, MIXED, "mixed"),
    Kind("CatBoost", catboost(NUMBERS, YES, []), NUMBERS, library="catboost"),
    Kind("CatBoost, categories of its own", catboost(MIXED, GOOD, CATEGORIES), MIXED, "mixed", library="catboost"),
    Kind("ONNX, layers that torch has not", onnx, NUMBERS),
    Kind("a function: probabilities", lambda: (grace.wrap(chance, classes=CLASSES), label), MIXED, "mixed"),
    Kind("a function: labels alone", lambda: (grace.wrap(label, classes=CLASSES), label), MIXED, "mixed"),
    Kind("clusters: `KMeans`", lambda: ((m := KMeans(3, n_init=1, random_state=0).fit(NUMBERS)), m.predict), NUMBERS),
    Kind("clusters: `GaussianMixture`", fitted(GaussianMixture(3, random_state=0), NUMBERS, None), NUMBERS),
    Kind("numbers: `grace.training.fit`", trained(MIXED["a"] + MIXED["count"]), DATED, "mixed, dates", **NUMBER),
    Kind("numbers: `torch.nn.Module`", torch_number, NUMBERS, **NUMBER),
    Kind("numbers: linear models", fitted(LinearRegression(), NUMBERS, SUM), NUMBERS, **NUMBER),
    Kind("numbers: forests", fitted(RandomForestRegressor(8, random_state=0), NUMBERS, SUM), NUMBERS, **NUMBER),
    Kind("numbers: `SVR`, or any other regressor", fitted(SVR(), NUMBERS, SUM), NUMBERS, **NUMBER),
]
