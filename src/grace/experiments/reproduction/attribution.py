"""SHAP's account of a prediction (Lundberg and Lee, NIPS 2017), by KernelSHAP of the `shap` package, in sentences."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError, pip_install
from grace.explain.explainer import Explainer
from grace.models.base import checked_scores, softmax
from grace.schema.features import Floats, Value
from grace.study.lime import FEATURES

BACKGROUND = 50  # training rows that stand for "a feature not known"


@dataclass(frozen=True)
class Attribution:
    """What each of the weightiest features adds to the probability of the class."""

    label: Value
    shares: tuple[tuple[str, float], ...]

    def text(self) -> str:
        """One sentence per feature, the weightiest first."""
        said = [f"“{name}” {'adds' if w >= 0 else 'takes'} {abs(w):.4f}." for name, w in self.shares]
        return f"Compared with an average row, of the probability of this class {' '.join(said)}"


class Shap:
    """KernelSHAP with the model and background rows of an explainer."""

    def __init__(self, explainer: Explainer, *, samples: int, seed: int = 0, features: int = FEATURES) -> None:
        if explainer.background_rows is None:
            raise GraceError("SHAP needs training rows; give train= to Explainer")
        self.model, self.schema = explainer.model, explainer.schema
        self.samples, self.seed, self.features = samples, seed, features
        rows = explainer.background_rows
        keep = np.random.default_rng(seed).choice(len(rows), min(BACKGROUND, len(rows)), replace=False)
        self._kernel = _package().KernelExplainer(self._probabilities, rows[np.sort(keep)])

    def explain(self, row: Floats) -> Attribution:
        """Why one encoded row gets its class."""
        state = np.random.get_state()  # noqa: NPY002  the package draws from NumPy's global numbers
        np.random.seed(self.seed)  # noqa: NPY002
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = self._kernel.shap_values(row, nsamples=self.samples, silent=True, l1_reg=False)
        finally:
            np.random.set_state(state)  # noqa: NPY002
        code = int(self._probabilities(row[None])[0].argmax())
        weights = np.asarray(found)[:, code]
        order = np.argsort(-np.abs(weights), kind="stable")[: self.features]
        shares = tuple((self.schema.names[j], float(weights[j])) for j in order if weights[j] != 0)
        return Attribution(self.model.classes[code], shares)

    def _probabilities(self, rows: Any) -> Floats:
        tensor = torch.as_tensor(np.asarray(rows, dtype=np.float64), device=self.model.device)
        return softmax(np.asarray(checked_scores(self.model, tensor).cpu().numpy()))


def _package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import shap
    except ImportError as reason:
        raise GraceError(f"SHAP needs the package shap; {pip_install('reproduce')}") from reason
    return shap
