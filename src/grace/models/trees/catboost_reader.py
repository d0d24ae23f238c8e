"""Boosted trees of CatBoost on numbers, from the JSON that it saves.

A number is converted to float32, and goes right if it is above the border. All nodes on a level of a symmetric tree
have the same border; the first level is the lowest bit of the leaf's number. Leaves are added up in float64.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from grace.models.trees.assembly import Growing
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own

CLASSES = {"Logloss": "logistic", "CrossEntropy": "logistic", "MultiClass": "softmax"}
NUMBERS = ("RMSE", "MAE", "Quantile", "MAPE", "Huber", "Expectile", "Lq", "LogCosh", "Poisson", "Tweedie")
MISSING_LEFT = {"AsIs": True, "AsFalse": True, "AsTrue": False}  # a missing cell is above no border, as it is

Splits = dict[int, tuple[int, bool]]  # column of the input and side of missing cells, by number of the feature


def read(model: Any) -> Nodes | None:
    """The trees of a fitted model of CatBoost, or None."""
    if not own(model, "catboost", ("CatBoostClassifier", "CatBoostRegressor", "CatBoost")) or not model.is_fitted():
        return None
    saved = _saved(model)
    loss = saved["model_info"].get("params", {}).get("loss_function", {}).get("type")
    link = _link(model, loss)
    features = saved["features_info"]
    if link is None or set(features) - {"float_features"}:  # categories, texts, vectors, and what is made of them
        return None
    splits: Splits = {}
    for feature in features["float_features"]:
        if feature["nan_value_treatment"] not in MISSING_LEFT:
            return None
        at = int(feature["flat_feature_index"]), MISSING_LEFT[feature["nan_value_treatment"]]
        splits[int(feature["feature_index"])] = at
    scale, base = saved["scale_and_bias"]
    if len(base) > 1 and link != "softmax":
        return None
    growing = Growing(len(base))
    for tree in saved.get("oblivious_trees", ()):
        growing.roots.append(_symmetric(growing, tree, splits, scale))
    for tree in saved.get("trees", ()):
        growing.roots.append(_nested(growing, tree, splits, scale))
    if not growing.roots:
        return None
    columns = len(model.feature_names_)
    return growing.nodes(np.asarray(base, dtype=np.float64), columns, strict=False, dtype="float32", link=link)


def _saved(model: Any) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        model.save_model(str(file), format="json")
        read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return read


def _link(model: Any, loss: str | None) -> str | None:
    """By the loss, and by what the class predicts with it."""
    name = type(model).__name__
    if loss in CLASSES and name != "CatBoostRegressor":
        # another threshold of probability would change the predicted class, but not the probabilities
        thresholded = name == "CatBoostClassifier" and CLASSES[loss] == "logistic"
        return None if thresholded and model.get_probability_threshold() != 0.5 else CLASSES[loss]
    if loss not in NUMBERS or name == "CatBoostClassifier":
        return None
    if name == "CatBoost":  # it predicts sums, whatever the loss
        return "identity"
    return {"RawFormulaVal": "identity", "Exponent": "exp"}.get(model._get_default_prediction_type())


def _symmetric(growing: Growing, tree: dict[str, Any], splits: Splits, scale: float) -> int:
    levels = tree["splits"] or []
    values = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(2 ** len(levels), growing.outputs)
    nodes = [growing.leaf(value) for value in scale * values]
    for split in levels:  # neighbours differ in the lowest bit, that of the first level
        column, missing_left = splits[int(split["float_feature_index"])]
        border = float(np.float32(split["border"]))
        pairs = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [growing.split(column, border, missing_left, low, high) for low, high in pairs]
    return nodes[0]


def _nested(growing: Growing, tree: dict[str, Any], splits: Splits, scale: float) -> int:
    if "split" not in tree:
        return growing.leaf(scale * np.asarray(tree["value"], dtype=np.float64))
    left, right = (_nested(growing, tree[side], splits, scale) for side in ("left", "right"))
    column, missing_left = splits[int(tree["split"]["float_feature_index"])]
    return growing.split(column, float(np.float32(tree["split"]["border"])), missing_left, left, right)
