"""Calibrated probabilities: scikit-learn's CalibratedClassifierCV on one classifier of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grace.models.preprocessing.transformers import untouched
from grace.schema.features import Floats

METHODS = {"sigmoid": "_SigmoidCalibration", "isotonic": "IsotonicRegression"}


@dataclass(frozen=True)
class Calibration:
    """How the response of a classifier becomes the probability of the second class. `response` is the method whose
    output is calibrated: "decision_function", or "predict_proba", of which the second column."""

    calibrator: Any
    method: str
    response: str

    def calibrate(self, responses: Floats) -> Floats:
        """The probabilities of the second class for responses (n,): by the library's own calibrator."""
        shares = np.asarray(self.calibrator.predict(np.asarray(responses, dtype=np.float64)), dtype=np.float64)
        return np.where((shares > 1) & (shares <= 1 + 1e-5), 1.0, shares)  # as the library rounds them

    @property
    def line(self) -> tuple[float, float] | None:
        """The logarithm of the calibrated odds, factor * response + offset; None if it is not of that form."""
        if self.method != "sigmoid":
            return None
        return -float(self.calibrator.a_), -float(self.calibrator.b_)


def read_calibration(model: Any) -> tuple[Any, Calibration] | None:
    """The classifier inside a calibrated one, and how its response is calibrated; None if there are several, more than
    two classes, or a way of calibrating that is not known. The result decides for the second class above 0.5."""
    if type(model).__name__ != "CalibratedClassifierCV" or not untouched(model, "predict", "predict_proba"):
        return None
    every = model.calibrated_classifiers_
    if len(every) != 1 or len(model.classes_) != 2:
        return None
    (only,) = every
    method = only.method
    if method not in METHODS or len(only.calibrators) != 1 or not untouched(only, "predict_proba"):
        return None
    (calibrator,) = only.calibrators
    if type(calibrator).__name__ != METHODS[method] or not untouched(calibrator, "predict"):
        return None
    inner = only.estimator
    if list(inner.classes_) != list(model.classes_):
        return None
    response = "decision_function" if hasattr(inner, "decision_function") else "predict_proba"
    return inner, Calibration(calibrator, method, response)
