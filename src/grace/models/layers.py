"""Estimators that are networks at heart, as exact torch layers: gradients, float64, and proofs.

Linear models, k-means, and scikit-learn's and Keras's perceptrons, alone or behind a scaler in a pipeline. What is
turned into layers is compared with the original first; what differs stays a black box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from grace.features import Floats, Numeric
from grace.models.torch import TorchModel
from grace.schema import Schema

ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
    "linear": nn.Identity,
}
Layers = list[tuple[Floats, Floats]]  # weights (in, out) and biases of each layer
LINEAR = (
    "LogisticRegression",
    "LogisticRegressionCV",
    "LinearSVC",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "Perceptron",
    "LinearDiscriminantAnalysis",
)
LINES = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "LinearSVR")


def exact(model: Any, task: str, classes: Sequence[Any] | None, schema: Schema | None = None) -> TorchModel | None:
    """The estimator or pipeline as layers that give the same scores, or None if it is no such thing."""
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    last = steps[-1]
    read = _layers(last)
    folded = None if read is None else _folded(steps[:-1], len(read[0][0][0]))
    if read is None or folded is None:
        return None
    layers, activation = read
    (weight, bias), scale, shift = layers[0], *folded
    layers[0] = (weight * scale[:, None], bias + shift @ weight)
    names = getattr(model, "feature_names_in_", None)
    if schema is None and names is not None:
        schema = Schema(features=tuple(Numeric(name=str(n)) for n in names))
    labels = () if task == "regression" else _classes(last, layers) if classes is None else classes
    out = TorchModel(module(layers, activation), labels, outputs="logits", schema=schema, task=task)
    return out if _same(out, model, len(weight), labels) else None


def module(layers: Layers, activation: str) -> nn.Sequential:
    """Linear layers with an activation between them."""
    parts: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(weight.T.copy()))
            linear.bias.copy_(torch.as_tensor(bias))
        parts += [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*parts[:-1]).eval().requires_grad_(False)


def _layers(last: Any) -> tuple[Layers, str] | None:
    """The layers of an estimator, and the activation between them."""
    kind = type(last).__name__
    own = type(last).__module__.startswith("sklearn.")
    if own and kind in ("MLPClassifier", "MLPRegressor") and hasattr(last, "coefs_"):
        return [(_floats(w), _floats(b)) for w, b in zip(last.coefs_, last.intercepts_, strict=True)], last.activation
    if own and kind in (*LINEAR, *LINES) and hasattr(last, "coef_"):
        weight = np.atleast_2d(_floats(last.coef_)).T
        return [(weight, np.broadcast_to(_floats(last.intercept_), weight.shape[1]).copy())], "identity"
    if own and kind in ("KMeans", "MiniBatchKMeans") and hasattr(last, "cluster_centers_"):
        centres = _floats(last.cluster_centers_)  # the nearest centre: -|x - c|^2 but for |x|^2, which all share
        return [(2 * centres.T, -np.square(centres).sum(axis=1))], "identity"
    if type(last).__module__.startswith("keras.") and kind == "Sequential":
        return _keras(last)
    return None


def _keras(model: Any) -> tuple[Layers, str] | None:
    """A Keras model of dense layers; a softmax or sigmoid at its end is left out, as scores are logits."""
    dense = [layer for layer in model.layers if type(layer).__name__ not in ("Dropout", "Flatten", "InputLayer")]
    if not dense or any(type(layer).__name__ != "Dense" or not layer.use_bias for layer in dense):
        return None
    named = [layer.activation.__name__ for layer in dense]
    inner = set(named[:-1]) or {"identity"}
    if len(inner) > 1 or not inner <= set(ACTIVATIONS) or named[-1] not in ("linear", "softmax", "sigmoid"):
        return None
    pairs = (layer.get_weights() for layer in dense)
    return [(_floats(weight), _floats(bias)) for weight, bias in pairs], inner.pop()


def _folded(scalers: Sequence[Any], width: int) -> tuple[Floats, Floats] | None:
    """What scalers do together, x * scale + shift; None if one of them does something else."""
    scale, shift = np.ones(width), np.zeros(width)
    for step in scalers:
        kind = type(step).__name__
        if kind == "StandardScaler":
            by = 1 / step.scale_ if step.scale_ is not None else np.ones(width)
            add = -step.mean_ * by if step.mean_ is not None else np.zeros(width)
        elif kind == "MinMaxScaler" and not step.clip:
            by, add = step.scale_, step.min_
        elif kind == "MaxAbsScaler" and not getattr(step, "clip", False):
            by, add = 1 / step.scale_, np.zeros(width)
        elif kind == "RobustScaler":
            by = 1 / step.scale_ if step.scale_ is not None else np.ones(width)
            add = -step.center_ * by if step.center_ is not None else np.zeros(width)
        elif isinstance(step, str) and step == "passthrough":
            continue
        else:
            return None
        scale, shift = scale * by, shift * by + add
    return scale, shift


def _classes(last: Any, layers: Layers) -> list[Any]:
    if hasattr(last, "classes_"):
        return list(last.classes_)
    return list(range(max(2, len(layers[-1][1]))))


def _same(found: TorchModel, model: Any, width: int, labels: Sequence[Any]) -> bool:
    """Whether the layers decide as the original does, on rows of many sizes."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, width)) * 10.0 ** rng.integers(-1, 3, size=(200, 1))
    ask: Any = rows
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        import pandas as pd

        ask = pd.DataFrame(rows, columns=names)
    own = found.scores(torch.as_tensor(rows)).numpy()
    if type(model).__module__.startswith("keras."):
        out = np.asarray(model.predict(rows.astype(np.float32), verbose=0), dtype=np.float64)
        return _keras_same(own, out, found.task)
    out = np.asarray(model.predict(ask))
    if out.size != len(rows):  # several targets at once
        return False
    if found.task == "regression":
        return bool(np.allclose(out.reshape(-1), own[:, 0], rtol=1e-6, atol=1e-8))
    lead = np.sort(own, axis=1)
    sure = lead[:, -1] - lead[:, -2] > 1e-4  # of a tie, either may win
    return bool((np.asarray(labels, dtype=object)[own.argmax(axis=1)] == out.astype(object))[sure].all())


def _keras_same(own: Floats, out: Floats, task: str) -> bool:
    if task == "regression":
        return bool(np.allclose(out.reshape(-1), own[:, 0], rtol=1e-3, atol=1e-3))
    if out.shape[1] == 1:
        return bool(((out[:, 0] > 0.5) == (own[:, 1] > 0))[np.abs(own[:, 1]) > 1e-2].all())
    lead = np.sort(own, axis=1)
    sure = lead[:, -1] - lead[:, -2] > 1e-2
    return bool((own.argmax(axis=1) == out.argmax(axis=1))[sure].all())


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
