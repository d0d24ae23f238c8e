"""`grace.wrap`: anything that can be asked, as a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from grace.errors import GraceError
from grace.models.base import Model
from grace.models.boosting import booster_asked, booster_classes, booster_columns, booster_task, is_booster
from grace.models.estimators import estimator, is_estimator
from grace.models.files import ONNX, ModelFile, model_file, read
from grace.models.onnx import is_onnx, onnx_model
from grace.models.onnx_files import read_proto
from grace.models.predictor import OutputReader, Predictor
from grace.models.threshold import Cutoffs, Threshold
from grace.models.to_torch import exact
from grace.models.torch import Encode, TorchModel
from grace.models.trees.binding import attach_trees
from grace.schema.features import Value
from grace.schema.schema import Schema

TASKS = ("classification", "clustering", "regression")


def wrap(
    model: Any,
    *,
    classes: Sequence[Value] | None = None,
    encode: Encode | None = None,
    outputs: str | None = None,
    inputs: str | None = None,
    schema: Schema | None = None,
    task: str | None = None,
    threshold: Threshold | None = None,
) -> Model:
    """Make a user's own model one that GRACE can explain.

    A `torch.nn.Module` (a Keras model on torch is one), an estimator or pipeline of scikit-learn and what behaves
    like one (XGBoost, LightGBM, CatBoost, skorch), a native booster, an ONNX model or session, a function from rows to
    probabilities, scores, labels or numbers, or the name of a file that holds any of these (see `grace.models.files`).

    classes  the name of each class in the order of the model's outputs, where it does not say
    encode   for a module: maps a float64 tensor of rows, one column per feature in the order of the schema (a category
             as its position among the categories in the schema), to the module's input, in torch operations
    outputs  "logits", "probabilities", for a function also "labels" or "numbers"; left out, it is found out from data
    inputs   for a black box: "frame", a DataFrame with the columns and types of training, or "array"
    task     "classification", "clustering" or "regression", where the model does not say
    threshold  of two classes, the probability from which on the second one is decided, or {class: probability} for
             another; of several, {class: t} for each: the class with the largest p / t is decided. A
             FixedThresholdClassifier or TunedThresholdClassifierCV of scikit-learn brings its own
    """
    if isinstance(model, str | os.PathLike):
        return wrap_file(
            model_file(Path(model)), classes=classes, outputs=outputs, schema=schema, task=task, threshold=threshold
        )
    found = _wrapped(model, classes, encode, outputs, inputs, schema, task)
    found = found if threshold is None else found.with_threshold(threshold)
    if found is not model and found.subject is None and type(model).__name__ != "InferenceSession":
        found.subject = model
    return found


def wrap_file(file: ModelFile, *, known: bool = False, **how: Any) -> Model:
    """The model in a file, with arguments of `wrap`; `known` if its hash is that of one that was read before."""
    inner = read(file, known=known)
    found = wrap(read_proto(inner) if file.kind == ONNX else inner, **how)
    found.file = file
    return found


def _wrapped(
    model: Any,
    classes: Sequence[Value] | None,
    encode: Encode | None,
    outputs: str | None,
    inputs: str | None,
    schema: Schema | None,
    task: str | None,
) -> Model:
    if isinstance(model, Model):
        return model
    if task not in (None, *TASKS):
        raise GraceError(f"task={task!r} is unknown; use one of {', '.join(map(repr, TASKS))}")
    if task == "regression" and classes is not None:
        raise GraceError("a regression has no classes; leave out classes= or task=")
    if isinstance(model, nn.Module):
        return _module(model, classes, encode, outputs, schema, task or "classification")
    if encode is not None:
        raise GraceError(f"encode= is for a torch.nn.Module; a {type(model).__name__} gets rows as they are")
    if is_onnx(model):
        return onnx_model(model, classes=classes, outputs=outputs, schema=schema, task=task)
    if is_booster(model):
        task = task or booster_task(model)
        way = OutputReader(booster_asked(model, task), "numbers" if task == "regression" else outputs)
        known = None if task == "regression" else booster_classes(model) if classes is None else classes
        name = f"the {type(model).__name__}"
        found = Predictor([way], known, schema=schema, columns=booster_columns(model), task=task, name=name)
        found.reading = partial(attach_trees, model)
        return found
    if is_estimator(model):
        return estimator(model, classes=classes, inputs=inputs, schema=schema, task=task)
    if callable(model) and not isinstance(model, type):
        named = f"the function {getattr(model, '__name__', type(model).__name__)}"
        way = OutputReader(model, "numbers" if task == "regression" else outputs)
        task = task or ("regression" if outputs == "numbers" else "classification")
        return Predictor([way], classes, inputs=inputs or "frame", schema=schema, task=task, name=named)
    raise GraceError(
        f"a {type(model).__name__} cannot be explained: grace.wrap takes a torch.nn.Module, an object with predict, "
        "an ONNX file, or a function"
    )


def _module(
    module: nn.Module,
    classes: Sequence[Value] | None,
    encode: Encode | None,
    outputs: str | None,
    schema: Schema | None,
    task: str,
) -> TorchModel:
    if classes is None and task != "regression":
        raise GraceError(
            f"the {type(module).__name__} does not say its classes; name each output: "
            "grace.wrap(module, classes=[...]), or say task='regression'"
        )
    if encode is None and type(module).__module__.startswith("keras.") and outputs is None:
        itself = partial(_keras_itself, module, () if classes is None else classes, schema, task)
        found = exact(module, task, classes, schema, itself)
        if found is not None:
            return found
    return TorchModel(
        module, () if classes is None else classes, encode=encode, outputs=outputs, schema=schema, task=task
    )


def _keras_itself(
    module: nn.Module, classes: Sequence[Value], schema: Schema | None, task: str, cutoffs: Cutoffs | None
) -> TorchModel:
    """A Keras model as a module, whatever its layers are."""
    return TorchModel(module, classes, schema=schema, task=task).with_cutoffs(cutoffs)
