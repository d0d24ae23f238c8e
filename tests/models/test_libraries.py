"""Models of other libraries, as they come: boosted trees, ONNX files, skorch and Keras."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from grace.models import Predictor, TorchModel
from grace.models.relu import relu_network
from problems import BOX

os.environ["KERAS_BACKEND"] = "torch"

RNG = np.random.default_rng(2)
SIZE = 240
LOANS = pd.DataFrame(
    {
        "income": np.round(RNG.normal(50, 15, SIZE), 1),
        "kids": RNG.integers(0, 5, SIZE),
        "job": pd.Categorical(RNG.choice(["clerk", "cook", "nurse"], SIZE)),
        "grade": pd.Categorical(RNG.choice(["low", "mid", "high"], SIZE), ["low", "mid", "high"], ordered=True),
        "owner": RNG.random(SIZE) < 0.4,
    }
)
GOOD = (LOANS["income"] / 10 + LOANS["grade"].cat.codes + 2 * LOANS["owner"] - LOANS["kids"] > 4.5).to_numpy()
NAMES = np.where(GOOD, "good", "bad")
TARGET = (BOX["a"] + 0.8 * BOX["b"] - 0.5 * BOX["c"] > 0.3).to_numpy()


def check(explainer: grace.Explainer, rows: pd.DataFrame, predict: Any, methods: tuple[str, ...]) -> None:
    for method in methods:
        batch = explainer.explain(rows, method=method)
        assert batch.success.mean() > 0.8
        assert (np.asarray(predict(rows)) == batch.original_class).all()
        assert (np.asarray(predict(batch.contrast))[batch.success] == batch.contrast_class[batch.success]).all()
        assert list(batch.contrast.dtypes.astype(str)) == list(rows.dtypes.astype(str))


METHODS = ("search", "gradient", "local", "nearest")


def test_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(LOANS, NAMES)
    check(grace.Explainer(model, LOANS), LOANS.head(6), model.predict, METHODS)
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(LOANS, GOOD), 20)
    explainer = grace.Explainer(grace.wrap(booster, classes=["bad", "good"]), LOANS)
    check(explainer, LOANS.head(6), lambda f: np.where(booster.predict(f) > 0.5, "good", "bad"), ("search",))


def test_xgboost() -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=20, enable_categorical=True, n_jobs=1).fit(LOANS, GOOD.astype(int))
    check(grace.Explainer(model, LOANS), LOANS.head(6), model.predict, METHODS)
    booster = model.get_booster()
    explainer = grace.Explainer(grace.wrap(booster, classes=["bad", "good"]), LOANS)
    assert isinstance(explainer.model, Predictor)
    check(explainer, LOANS.head(6), lambda f: np.where(model.predict(f) == 1, "good", "bad"), ("search",))


def onnx_file(path: Path, *nodes: Any, constants: dict[str, np.ndarray], out: int = 2) -> str:
    onnx = pytest.importorskip("onnx")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **parts) for kind, inputs, output, parts in nodes],
        "net",
        [helper.make_tensor_value_info("x", number, [None, 3])],
        [helper.make_tensor_value_info("y", number, [None, out])],
        [onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))
    return str(path)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {
        "w": rng.normal(size=(6, 3)),
        "b": rng.normal(size=6),
        "v": rng.normal(size=(6, 2)),
        "c": rng.normal(size=2),
    }


def by_hand(rows: pd.DataFrame, squash: Any = lambda z: np.maximum(z, 0)) -> np.ndarray:
    k = {name: v.astype(np.float32).astype(np.float64) for name, v in weights().items()}
    return squash(rows.to_numpy() @ k["w"].T + k["b"]) @ k["v"] + k["c"]


def test_onnx_layers_are_read_exactly(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    first = ("Gemm", ["x", "w", "b"], "h", {"transB": 1})
    second = [("MatMul", ["r", "v"], "m", {}), ("Add", ["m", "c"], "s", {}), ("Softmax", ["s"], "y", {})]
    file = onnx_file(tmp_path / "net.onnx", first, ("Relu", ["h"], "r", {}), *second, constants=weights())
    explainer = grace.Explainer(grace.wrap(file, classes=["no", "yes"]), BOX, gamma=1.0)
    assert isinstance(explainer.model, TorchModel)
    assert relu_network(explainer.model) is not None
    assert np.allclose(explainer.model.scores(torch.tensor(np.array(BOX))).numpy(), by_hand(BOX))
    assert explainer.explain(BOX.head(4), prove=True, budget=5)[0].proof["verdict"] in ("minimal", "impossible")


def test_other_onnx_models_run_as_black_boxes(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    first = ("Gemm", ["x", "w", "b"], "h", {"transB": 1})
    second = [("MatMul", ["r", "v"], "m", {}), ("Add", ["m", "c"], "y", {})]
    file = onnx_file(tmp_path / "net.onnx", first, ("Sin", ["h"], "r", {}), *second, constants=weights())
    explainer = grace.Explainer(grace.wrap(file, classes=["no", "yes"]), BOX)
    assert isinstance(explainer.model, Predictor)
    expected = np.array(["no", "yes"])[by_hand(BOX, np.sin).argmax(axis=1)]
    assert (explainer.model.predict(BOX) == expected).all()
    batch = explainer.explain(BOX.head(5))
    assert (explainer.model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_damaged_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x00nothing")
    with pytest.raises(grace.GraceError, match=r"bad\.onnx cannot be read"):
        grace.wrap(tmp_path / "bad.onnx", classes=["no", "yes"])


def test_skorch() -> None:
    skorch = pytest.importorskip("skorch")
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    net = skorch.NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, max_epochs=20, lr=0.1, verbose=0)
    net.fit(np.array(BOX, dtype=np.float32), TARGET.astype(np.int64))
    explainer = grace.Explainer(net, BOX)
    assert relu_network(explainer.model) is not None
    given = net.predict_proba(np.array(BOX, dtype=np.float32))
    assert np.allclose(explainer.model.predict_proba(BOX), given, atol=1e-5)
    assert explainer.explain(BOX.head(5)).success.all()


@pytest.mark.filterwarnings("ignore")  # Keras's own, about numpy and torch
def test_keras_on_torch() -> None:
    keras = pytest.importorskip("keras")
    assert keras.backend.backend() == "torch"
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(2, activation="softmax")])
    model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.Adam(0.05))
    model.fit(BOX.to_numpy(), TARGET.astype(int), epochs=15, verbose=0)
    explainer = grace.Explainer(grace.wrap(model, classes=["no", "yes"]), BOX, gamma=1.0)
    given = model.predict(BOX.to_numpy(), verbose=0)
    assert np.allclose(explainer.model.predict_proba(BOX), given, atol=1e-5)
    assert relu_network(explainer.model) is not None
    batch = explainer.explain(BOX.head(5))
    assert batch.success.any()
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(6, activation="gelu")(inputs)
    both = keras.layers.Concatenate()([inputs, hidden])
    other = keras.Model(inputs, keras.layers.Dense(2)(both))
    explainer = grace.Explainer(grace.wrap(other, classes=["no", "yes"], outputs="logits"), BOX, domain="minmax")
    expected = np.array(["no", "yes"])[other.predict(BOX.to_numpy(), verbose=0).argmax(axis=1)]
    assert (explainer.model.predict(BOX) == expected).all()
    assert explainer.explain(BOX.head(5), method="gradient").success.any()


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(5, random_state=0).fit(BOX, TARGET)
    explainer = grace.Explainer(model, polars.from_pandas(BOX))
    mine, theirs = explainer.explain(polars.from_pandas(BOX.head(5))), explainer.explain(BOX.head(5))
    assert (mine.answers.contrast == theirs.answers.contrast).all()
    assert polars.from_pandas(LOANS)["grade"].dtype in (polars.Enum(["low", "mid", "high"]), polars.Categorical)
