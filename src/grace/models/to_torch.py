"""Estimators that are networks at heart, as exact torch layers: gradients, float64, and proofs.

Linear models, k-means, and scikit-learn's and Keras's perceptrons, alone or behind a scaler in a pipeline; behind other
preprocessing they are read when the columns are known, see `grace.models.preprocessing.layers`. Only the
libraries' own classes are turned into layers: a subclass may decide otherwise. The layers are compared with the
original first, and on every answer; what differs is a black box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from grace.models.base import Model, softmax
from grace.models.checking import Origin
from grace.models.threshold import Cutoffs
from grace.models.torch import TorchModel
from grace.schema.features import Bools, Floats, Numeric, plain
from grace.schema.schema import Schema

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
TIED = 1e-7  # of scores that are nearer to each other, relative to them, either class may be decided
SINGLE = 1e-3  # how far outputs computed in single precision may be from those in double precision
LINES = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "LinearSVR")


def exact(
    model: Any,
    task: str,
    classes: Sequence[Any] | None,
    schema: Schema | None,
    black_box: Callable[[Cutoffs | None], Model],
) -> TorchModel | None:
    """The estimator or pipeline as layers that give the same scores, or None if it is no such thing. `black_box` makes
    the model that it is otherwise."""
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    last = steps[-1]
    if not all(_untouched(part) for part in {id(part): part for part in (model, *steps)}.values()):
        return None
    read = estimator_layers(last)
    folded = None if read is None else _folded(steps[:-1], len(read[0][0][0]))
    if read is None or folded is None:
        return None
    layers, activation = read
    (weight, bias), scale, shift = layers[0], *folded
    layers[0] = (weight * scale[:, None], bias + shift @ weight)
    names = getattr(model, "feature_names_in_", None)
    if schema is None and names is not None:
        schema = Schema(features=tuple(Numeric(name=str(n)) for n in names))
    own = [] if task == "regression" else _classes(last, layers)
    labels = own if classes is None or task == "regression" else list(classes)
    keras = _is_keras(model)
    if labels != own and set(labels) & set(own) and not keras:  # its own names in another order
        return None
    out = TorchModel(module(layers, activation), labels, outputs="logits", schema=schema, task=task)
    named = f"the {type(model).__name__}"
    if keras:
        end = model.layers[-1].activation.__name__
        out.origin = Origin(named, KerasOutputs(model), SameOutputs(end), black_box)
        out.no_probabilities_because = sigmoids(end, len(layers[-1][1]))
    else:
        out.origin = Origin(named, OwnDecisions(model), SameDecisions(task, tuple(own)), black_box)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, len(weight))) * 10.0 ** rng.integers(-1, 3, size=(200, 1))
    scores = out.scores(torch.as_tensor(rows)).numpy()
    response = out.origin.respond(rows)
    if np.shape(response)[0] != len(rows) or not out.origin.agrees(scores, response).all():
        return None
    if not keras and task != "regression":
        out.no_probabilities_because = probabilities_missing(model, _input(model, rows), scores)
    return out


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


def _untouched(part: Any) -> bool:
    """Whether a part is of a library's own class, and none of its methods was replaced."""
    if isinstance(part, str):
        return True
    own = type(part).__module__.startswith(("sklearn.", "keras."))
    return own and not any(
        callable(getattr(type(part), name, None)) for name in ("predict", "call", "transform") if name in vars(part)
    )


def _is_keras(model: Any) -> bool:
    return type(model).__module__.startswith("keras.")


def estimator_layers(last: Any) -> tuple[Layers, str] | None:
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
    if _is_keras(last) and kind == "Sequential":
        return _keras(last)
    return None


def _keras(model: Any) -> tuple[Layers, str] | None:
    """A Keras model of dense layers; a softmax or sigmoid at its end is left out, as scores are logits."""
    dense = [layer for layer in model.layers if type(layer).__name__ not in ("Dropout", "Flatten", "InputLayer")]
    if not dense or any(type(layer).__name__ != "Dense" or not layer.use_bias for layer in dense):
        return None
    if not all(_untouched(layer) for layer in model.layers) or not all(_is_keras_function(d.activation) for d in dense):
        return None
    named = [layer.activation.__name__ for layer in dense]
    inner = set(named[:-1]) or {"identity"}
    if len(inner) > 1 or not inner <= set(ACTIVATIONS) or named[-1] not in ("linear", "softmax", "sigmoid"):
        return None
    pairs = (layer.get_weights() for layer in dense)
    return [(_floats(weight), _floats(bias)) for weight, bias in pairs], inner.pop()


def _is_keras_function(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("keras.")


def _folded(scalers: Sequence[Any], width: int) -> tuple[Floats, Floats] | None:
    """What scalers do together, x * scale + shift; None if one of them does something else."""
    scale, shift = np.ones(width), np.zeros(width)
    for step in scalers:
        kind = type(step).__name__
        if kind == "StandardScaler":
            by = 1 / step.scale_ if step.scale_ is not None else np.ones(width)
            add = -step.mean_ * by if step.with_mean else np.zeros(width)
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
        return [plain(c) for c in np.asarray(last.classes_).tolist()]
    return list(range(max(2, len(layers[-1][1]))))


@dataclass(frozen=True)
class SameDecisions:
    """Whether scores decide as the labels that a model gives, or are the numbers that it predicts."""

    task: str
    labels: tuple[Any, ...]

    def __call__(self, scores: Floats, out: Any) -> Bools:
        out = np.asarray(out)
        if out.size != len(scores):  # several targets at once
            return np.zeros(len(scores), dtype=bool)
        if self.task == "regression":
            return np.asarray(np.isclose(out.reshape(-1), scores[:, 0], rtol=1e-6, atol=1e-8))
        best = np.array(self.labels, dtype=object)[scores.argmax(axis=1)]
        return np.asarray((best == np.array(out.reshape(-1).tolist(), dtype=object)) | self.tied(scores))

    def tied(self, scores: Floats) -> Bools:
        lead = np.sort(scores, axis=1)
        return np.asarray(lead[:, -1] - lead[:, -2] <= TIED * (1 + np.abs(scores).max(axis=1)))


@dataclass(frozen=True)
class SameOutputs:
    """Whether scores, sent through what a network ends with, are what it returns in single precision."""

    end: str

    def __call__(self, scores: Floats, out: Any) -> Bools:
        out = np.asarray(out, dtype=np.float64)
        if np.shape(out)[:1] != (len(scores),):
            return np.zeros(len(scores), dtype=bool)
        out = out.reshape(len(scores), -1)
        expected = scores[:, 1:] if out.shape[1] == 1 and scores.shape[1] == 2 else scores
        unit = np.maximum(1, np.abs(expected).max(axis=1, keepdims=True))  # by which single precision rounds
        if self.end in ("softmax", "log_softmax"):
            expected = softmax(expected)
            out = np.exp(out) if self.end == "log_softmax" else out
        elif self.end == "sigmoid":
            expected = 1 / (1 + np.exp(-np.clip(expected, -700, 700)))
        if out.shape != expected.shape:
            return np.zeros(len(scores), dtype=bool)
        return np.asarray((np.abs(out - expected) <= SINGLE * unit).all(axis=1))


def sigmoids(end: str, outputs: int) -> str:
    """Why outputs are no probabilities of classes of which one holds, if they are not."""
    return "its outputs, one sigmoid each, do not sum to 1" if end == "sigmoid" and outputs > 1 else ""


def probabilities_missing(model: Any, ask: Any, scores: Floats) -> str:
    """Why softmax of the scores is not what the model calls the probability of its classes, if it is not."""
    if not hasattr(model, "predict_proba"):
        return f"a {type(model).__name__} has no predict_proba"
    with np.errstate(all="ignore"):
        same = np.allclose(np.asarray(model.predict_proba(ask)), softmax(scores), atol=1e-6)
    return "" if same else "its predict_proba is not the softmax of its scores"


def _input(model: Any, rows: Floats) -> Any:
    """Rows as the model was fitted on them: with its columns, and where it knows clusters in their precision, as
    k-means takes no other."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    rows = rows.astype(getattr(getattr(last, "cluster_centers_", None), "dtype", rows.dtype), copy=False)
    names = getattr(model, "feature_names_in_", None)
    return rows if names is None else pd.DataFrame(rows, columns=names)


@dataclass(frozen=True)
class OwnDecisions:
    """What an estimator of scikit-learn predicts for rows of numbers."""

    model: Any

    def __call__(self, rows: Floats) -> Any:
        return self.model.predict(_input(self.model, rows))


@dataclass(frozen=True)
class KerasOutputs:
    """What a Keras model returns for rows of numbers."""

    model: Any

    def __call__(self, rows: Floats) -> Any:
        return self.model.predict(rows.astype(np.float32), verbose=0)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
