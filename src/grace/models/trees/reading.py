"""The trees of an ensemble of scikit-learn, XGBoost, LightGBM, CatBoost or interpret, read exactly.

A library is imported only by its own reader, and only if the model is of that library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from grace.models.trees.nodes import Nodes

READERS = {
    "sklearn": "sklearn_reader",
    "xgboost": "xgboost_reader",
    "lightgbm": "lightgbm_reader",
    "catboost": "catboost_reader",
    "interpret": "additive_reader",
}


def read_trees(model: Any, categorical: Sequence[int] | None = None) -> Nodes | None:
    """The trees of a fitted model; None if it is not of a class that is read, or has a part that nodes cannot
    express. `categorical` are the columns that are categories of pandas in the frames that the model is given: LightGBM
    matches them with those of its training by their order, and does not know their names."""
    reader = READERS.get(type(model).__module__.split(".")[0])
    if reader is None:
        return None
    read: Callable[..., Nodes | None] = import_module(f"grace.models.trees.{reader}").read
    return read(model, categorical) if reader == "lightgbm_reader" else read(model)
