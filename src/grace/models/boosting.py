"""The native boosters of XGBoost and LightGBM, which speak neither of classes nor of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


def is_booster(model: Any) -> bool:
    return type(model).__name__ == "Booster" and type(model).__module__.split(".")[0] in ("xgboost", "lightgbm")


def booster_task(model: Any) -> str:
    """By the objective that it was trained with."""
    if type(model).__module__.startswith("lightgbm"):
        objective = str(model.params.get("objective", "regression"))
        return (
            "classification" if objective.startswith(("binary", "multi", "softmax", "cross_entropy")) else "regression"
        )
    import json

    objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    return "classification" if objective.startswith(("binary:", "multi:")) else "regression"


def booster_asked(model: Any) -> Callable[[pd.DataFrame], Any]:
    """The booster as a function from frames to probabilities or numbers."""
    if type(model).__module__.startswith("lightgbm"):
        return lambda frame: np.asarray(model.predict(frame))
    import xgboost

    named = model.feature_names is not None

    def ask(frame: pd.DataFrame) -> Any:
        rows = frame if named else frame.to_numpy(dtype=np.float64)
        return model.predict(xgboost.DMatrix(rows, enable_categorical=named))

    return ask


def booster_columns(model: Any) -> list[str] | None:
    """The columns it was trained on, where it knows them."""
    names = model.feature_name() if type(model).__module__.startswith("lightgbm") else model.feature_names
    return None if not names or names[0] == "Column_0" else list(names)
