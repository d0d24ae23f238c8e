"""scikit-learn's classifiers with a cut-off of their own, as the model inside and the cut-off.

FixedThresholdClassifier and TunedThresholdClassifierCV, alone or at the end of a pipeline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grace.models.base import Model
from grace.models.predictor import Predictor
from grace.models.threshold import cutoff_of_score
from grace.models.torch import TorchModel
from grace.schema.features import Value, plain

KINDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")


@dataclass(frozen=True)
class Thresholded:
    """A fitted classifier, and the rule by which its responses are decided: `positive` if at least `limit`."""

    model: Any
    classes: tuple[Value, ...]
    positive: int
    limit: float
    by_probability: bool

    def on(self, model: Model) -> Model | None:
        """The rule on the classifier as a model; None where it can only be seen in what it decides."""
        if not isinstance(model, TorchModel | Predictor) or len(model.classes) != 2:
            return None
        if model.classes != self.classes and set(model.classes) & set(self.classes):  # its own names in another order
            return None
        label: Value = model.classes[self.positive]
        if self.by_probability:
            known = not isinstance(model, TorchModel) or model.has_probabilities
            return model.with_threshold({label: self.limit}) if known and 0 < self.limit < 1 else None
        if isinstance(model, TorchModel) and model.has_probabilities:  # the score is the logarithm of the odds
            share = 1 / (1 + math.exp(-self.limit)) if abs(self.limit) < 36 else 0.0
            return model.with_threshold({label: share}) if share else None
        return model.with_cutoffs(cutoff_of_score(self.limit, self.positive)) if self.positive == 1 else None


def thresholded(model: Any) -> Thresholded | None:
    """What is behind a classifier with a cut-off; None if it is none, or not of scikit-learn's own class."""
    if hasattr(model, "steps") and _own(model, ("Pipeline",)):
        (*before, (name, last)) = model.steps
        found = thresholded(last)
        if found is None:
            return None
        pipeline = type(model)([*before, (name, found.model)])
        return replace(found, model=pipeline)
    if not _own(model, KINDS):
        return None
    inner = getattr(model, "estimator_", model.estimator)
    while _own(inner, ("FrozenEstimator",)):
        inner = inner.estimator
    tuned = hasattr(model, "best_threshold_")
    label = model._curve_scorer._get_pos_label() if tuned else model.pos_label
    classes = tuple(plain(c) for c in np.asarray(model.classes_).tolist())
    by_probability = model.response_method == "predict_proba" or (
        model.response_method == "auto" and hasattr(inner, "predict_proba")
    )
    limit = model.best_threshold_ if tuned else model.threshold
    limit = (0.5 if by_probability else 0.0) if limit == "auto" else float(limit)
    return Thresholded(inner, classes, 1 if label is None else classes.index(plain(label)), limit, by_probability)


def _own(model: Any, kinds: tuple[str, ...]) -> bool:
    kind = type(model)
    return kind.__name__ in kinds and kind.__module__.startswith("sklearn.") and "predict" not in vars(model)
