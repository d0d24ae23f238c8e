"""scikit-learn's estimators and whatever behaves like them: boosted trees, pipelines, searches, skorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from torch import nn

from grace.errors import GraceError
from grace.models.array_questions import array_question
from grace.models.base import Model
from grace.models.boosting import catboost_columns
from grace.models.checking import Origin
from grace.models.predictor import OutputReader, Predictor
from grace.models.preprocessing.layers import read_layers
from grace.models.threshold import Cutoffs
from grace.models.thresholded import thresholded
from grace.models.to_torch import SameOutputs, exact
from grace.models.torch import TorchModel
from grace.models.trees.binding import attach_trees
from grace.schema.features import Floats, Value, plain
from grace.schema.schema import Schema

UNSURE_SCORES = "its scores are those of a decision function"
SKORCH = {"CrossEntropyLoss": "logits", "BCEWithLogitsLoss": "logits", "NLLLoss": "probabilities"}


def is_estimator(model: Any) -> bool:
    return hasattr(model, "predict") and not isinstance(model, type)


def task_of(model: Any) -> str:
    """What the model is for, by its own words."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    kind = getattr(last, "_estimator_type", None) or _tagged(last)
    if kind in ("regressor", "DensityEstimator", "density_estimator", "clusterer"):
        return "regression" if kind == "regressor" else "clustering"
    return "classification"


def _tagged(model: Any) -> str | None:
    try:
        from sklearn.utils import get_tags

        kind: str | None = get_tags(model).estimator_type
        return kind
    except Exception:  # a class of one's own has no tags, which is no error
        return None


def estimator(
    model: Any, *, classes: Sequence[Value] | None, inputs: str | None, schema: Schema | None, task: str | None
) -> Model:
    """The estimator as a model: exact layers where it is a network, a network it holds, or a black box."""
    task = task or task_of(model)
    check_fitted(model)

    if hasattr(model, "module_") and isinstance(model.module_, nn.Module):
        return _skorch(model, classes, schema, task, partial(_itself, model, classes, inputs or "array", schema, task))
    behind = thresholded(model)
    if behind is not None:
        inner = estimator(behind.model, classes=classes, inputs=inputs, schema=schema, task=task)
        decided = behind.on(inner)
        return _black_box(model, classes, inputs, schema, task) if decided is None else decided
    itself = partial(_itself, model, classes, inputs, schema, task)
    found = exact(model, task, classes, schema, itself)
    if found is not None:
        return found
    asked = _black_box(model, classes, inputs, schema, task)
    asked.reading = partial(read_inside, model, itself)
    return asked


def read_inside(model: Any, itself: Callable[[Cutoffs | None], Model], asked: Predictor, rows: Floats) -> Model:
    """The estimator as layers, where it is a network; else the black box that it is, with the trees inside it."""
    found = read_layers(model, itself, asked, rows)
    return attach_trees(model, asked, rows) if found is None else found


def _black_box(
    model: Any, classes: Sequence[Value] | None, inputs: str | None, schema: Schema | None, task: str
) -> Predictor:
    """The estimator as a model that is known by its answers alone."""
    names = _names(model)
    known = None if task == "regression" else classes if classes is not None else _classes(model)
    inputs = inputs or ("array" if names is None and hasattr(model, "n_features_in_") else "frame")
    ways, labels = _ways(model, task, _named(model, known))
    found = Predictor(
        ways,
        known,
        labels=labels,
        inputs=inputs,
        columns=names if inputs == "frame" else None,
        schema=schema,
        task=task,
        name=f"the {type(model).__name__}",
    )
    found.array_question = partial(array_question, model, task)
    return found


def _itself(
    model: Any,
    classes: Sequence[Value] | None,
    inputs: str | None,
    schema: Schema | None,
    task: str,
    cutoffs: Cutoffs | None,
) -> Model:
    """The estimator as a black box with these cut-offs."""
    return _black_box(model, classes, inputs, schema, task).with_cutoffs(cutoffs)


def check_fitted(model: Any) -> None:
    """An estimator of scikit-learn that has not been fitted cannot be explained."""
    try:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    except NotFittedError as reason:
        raise GraceError(f"the {type(model).__name__} is not fitted yet; call fit first") from reason
    except TypeError:  # not an estimator of scikit-learn
        return


def _names(model: Any) -> list[str] | None:
    """The columns it was fitted on, if it was fitted on a frame."""
    if type(model).__module__.startswith("catboost."):
        return catboost_columns(model)
    names = getattr(model, "feature_names_in_", None)
    if names is None or all(str(n) == f"Column_{i}" for i, n in enumerate(names)):  # LightGBM's for an array
        return None
    return [str(n) for n in names]


def _classes(model: Any) -> list[Value] | None:
    found = getattr(model, "classes_", None)
    if found is not None:
        if isinstance(found, list):
            raise GraceError(f"the {type(model).__name__} predicts several targets at once; explain one of them")
        return [plain(c) for c in np.asarray(found).tolist()]
    if hasattr(model, "offset_") or getattr(model, "_estimator_type", "") == "outlier_detector":
        return [-1, 1]
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    for count in ("n_components", "n_clusters"):
        if isinstance(getattr(last, count, None), int):
            return list(range(getattr(last, count)))
    labels = getattr(last, "labels_", None)
    return None if labels is None else sorted(set(np.asarray(labels).tolist()))


def _named(model: Any, classes: Sequence[Value] | None) -> Callable[[Any], Any]:
    """Its decisions by the names that were given to its classes, in their order, where it has others of its own."""
    own = None if classes is None else _classes(model)
    if own is None or classes is None or len(own) != len(classes) or set(own) & set(classes):
        return cast("Callable[[Any], Any]", model.predict)
    return Renamed(model.predict, dict(zip(own, classes, strict=True)))


def _ways(
    model: Any, task: str, predict: Callable[[Any], Any]
) -> tuple[list[OutputReader], Callable[[Any], Any] | None]:
    """How it can be asked, the most telling first; and what it decides itself."""
    if task == "regression":
        return [OutputReader(predict, "numbers")], None
    ways = []
    if hasattr(model, "predict_proba"):
        ways.append(OutputReader(model.predict_proba, "probabilities"))
    if hasattr(model, "decision_function"):
        ways.append(OutputReader(model.decision_function, "logits", UNSURE_SCORES))
    if task == "clustering" and hasattr(model, "transform") and not ways:
        ways.append(OutputReader(Nearness(model), "logits", "its scores are distances"))
    return [*ways, OutputReader(predict, "labels")], predict


@dataclass(frozen=True)
class Renamed:
    """Decisions by other names."""

    ask: Callable[[Any], Any]
    names: Mapping[Value, Value]

    def __call__(self, rows: Any) -> list[Value]:
        return [self.names[plain(c)] for c in np.asarray(self.ask(rows)).reshape(-1).tolist()]


@dataclass(frozen=True)
class Nearness:
    """How near rows are to each cluster: minus the distances of `transform`."""

    model: Any

    def __call__(self, rows: Any) -> Any:
        return -np.asarray(self.model.transform(rows))


@dataclass(frozen=True)
class SingleRows:
    """A method of a skorch net, on rows in single precision."""

    model: Any
    method: str

    def __call__(self, rows: Floats) -> Any:
        return getattr(self.model, self.method)(rows.astype(np.float32))


def _skorch(
    model: Any,
    classes: Sequence[Value] | None,
    schema: Schema | None,
    task: str,
    black_box: Callable[[Cutoffs | None], Model],
) -> Model:
    """A skorch net is a torch module in scikit-learn's clothes. One of a class of its own may decide otherwise."""
    named = f"the {type(model).__name__}"
    if task == "regression":
        found = TorchModel(model.module_, (), outputs="logits", schema=schema, task=task)
        found.origin = Origin(named, SingleRows(model, "predict"), SameOutputs(""), black_box)
    else:
        labels = classes if classes is not None else [plain(c) for c in np.asarray(model.classes_).tolist()]
        outputs = SKORCH.get(type(model.criterion_).__name__)
        found = TorchModel(model.module_, labels, outputs=outputs, schema=schema)
        found.origin = Origin(named, SingleRows(model, "predict_proba"), SameOutputs("softmax"), black_box)
    found.reads_layers = type(model).__module__.startswith("skorch.")
    limit = getattr(model, "threshold", 0.5)  # of a NeuralNetBinaryClassifier
    return found if task == "regression" or limit == 0.5 else found.with_threshold(limit)
