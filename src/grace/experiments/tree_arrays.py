"""The trees of a task's model as arrays, for runners of libraries that read trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grace.models.base import Model
from grace.models.predictor import tree_ensemble
from grace.models.trees.ensemble import LINK, TreeEnsemble
from grace.schema.features import Floats

PARTS = ("roots", "feature", "threshold", "members", "goes_left", "missing_left", "left", "right")


def tree_arrays(model: Model, wanted: tuple[float, float] | None) -> dict[str, npt.NDArray[Any]]:
    """Trees with one sum each on the encoded features, empty if the model has none that were read or more than two
    classes. A number goes left if it is below the threshold, a category if `goes_left[members + code]`.

    Of two classes, the sum is the lead of the second one, which is decided above 0. Of a regression, `wanted` are the
    limits of the sum. A sum has to be inside by `needed`, as an answer of GRACE has, so that rounding does not decide.
    """
    ensemble = tree_ensemble(model)
    if ensemble is None or (wanted is None and len(model.classes) != 2):
        return {}
    value, base = _lead(ensemble, model) if wanted is None else (ensemble.trees.value[:, 0], ensemble.trees.base[0])
    limits = [0.0, np.inf] if wanted is None else ensemble.sum_of(np.array(wanted, dtype=np.float64))
    needed = model.tolerance + max(ensemble.rounding, LINK[ensemble.precision])
    out = {name: getattr(ensemble.trees, name) for name in PARTS}
    out |= {"value": value, "base": np.array(base), "wanted": np.array(limits), "needed": np.array(needed)}
    return {f"trees.{name}": array for name, array in out.items()}


def _lead(ensemble: TreeEnsemble, model: Model) -> tuple[Floats, float]:
    """What leaves add to the lead of the second class over the first, and what it begins with."""
    value, base = ensemble.trees.value, ensemble.trees.base
    shift = np.zeros(2) if model.cutoffs is None else np.array(model.cutoffs.shifts)
    if ensemble.link == "logistic":
        return value[:, 0], float(base[0] - shift[1] + shift[0])
    if ensemble.link == "probabilities":
        weight = np.exp(-shift)
        return value @ [-weight[0], weight[1]], float(base @ [-weight[0], weight[1]])
    return value[:, 1] - value[:, 0], float(base[1] - base[0] - shift[1] + shift[0])
