"""Native boosters of XGBoost, LightGBM and CatBoost, which have no predict_proba: they are asked for probabilities, or
for numbers where they predict numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.schema.features import Value, plain

CLASSES_OF_CATBOOST = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")


def is_booster(model: Any) -> bool:
    """Whether the model is a native booster; the estimators of these libraries are none."""
    library, kind = type(model).__module__.split(".")[0], type(model).__name__
    return (library, kind) in (("xgboost", "Booster"), ("lightgbm", "Booster"), ("catboost", "CatBoost"))


def booster_task(model: Any) -> str:
    """By the objective that it was trained with."""
    library = type(model).__module__.split(".")[0]
    if library == "catboost":
        known = model.get_all_params().get("loss_function", "")
        found = len(model.classes_) > 0 or str(known).split(":")[0] in CLASSES_OF_CATBOOST
    elif library == "lightgbm":
        objective = str(model.params.get("objective", "regression"))
        found = objective.startswith(("binary", "multi", "softmax", "cross_entropy"))
    else:
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        found = objective.startswith(("binary:", "multi:"))
    return "classification" if found else "regression"


def booster_classes(model: Any) -> list[Value] | None:
    """The classes it was trained on, where it knows them; CatBoost does."""
    found = [plain(c) for c in np.asarray(getattr(model, "classes_", ())).tolist()]
    return found or None


def booster_asked(model: Any, task: str) -> Callable[[pd.DataFrame], Any]:
    """The booster as a function from frames to probabilities or numbers."""
    library = type(model).__module__.split(".")[0]
    if library == "catboost":
        return CatboostOutputs(model, "RawFormulaVal" if task == "regression" else "Probability")
    return LightgbmOutputs(model) if library == "lightgbm" else XgboostOutputs(model)


def booster_columns(model: Any) -> list[str] | None:
    """The columns it was trained on, where it knows them."""
    library = type(model).__module__.split(".")[0]
    if library == "catboost":
        return catboost_columns(model)
    names = model.feature_name() if library == "lightgbm" else model.feature_names
    return None if not names or names[0] == "Column_0" else list(names)


def catboost_columns(model: Any) -> list[str] | None:
    """The columns of a model of CatBoost, which calls those of an array by their numbers."""
    names = [str(n) for n in model.feature_names_]
    return None if names == [str(i) for i in range(len(names))] else names


@dataclass(frozen=True)
class LightgbmOutputs:
    model: Any

    def __call__(self, frame: pd.DataFrame) -> Any:
        return np.asarray(self.model.predict(as_categories(frame)))


@dataclass(frozen=True)
class XgboostOutputs:
    model: Any

    def __call__(self, frame: pd.DataFrame) -> Any:
        import xgboost

        named = self.model.feature_names is not None
        rows = as_categories(frame) if named else frame.to_numpy(dtype=np.float64)
        if named and rows is not frame and _nameless(self.model):
            raise GraceError(
                "the Booster does not hold the names of its categories, as XGBoost before 3.1 did not: which is which "
                "cannot be told; train it again, or wrap a function that encodes them"
            )
        return self.model.predict(xgboost.DMatrix(rows, enable_categorical=named))


@dataclass(frozen=True)
class CatboostOutputs:
    """`kind` is CatBoost's name for what is to come back."""

    model: Any
    kind: str

    def __call__(self, frame: pd.DataFrame) -> Any:
        return np.asarray(self.model.predict(frame, prediction_type=self.kind))


def as_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with text as categories, as boosters take it; they find the categories of training by name."""
    words = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c]) and frame[c].dtype != "category"]
    return frame.astype(dict.fromkeys(words, "category")) if words else frame


def _nameless(booster: Any) -> bool:
    """Whether a booster of XGBoost has categories, but not their names."""
    known = getattr(booster, "get_categories", None)
    return "c" in (booster.feature_types or ()) and (known is None or known().empty())
