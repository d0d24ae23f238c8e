"""Boosted trees of LightGBM, from its own description of the model.

Numbers are compared in float64: `x <= threshold` goes left. Numbers of at most 1e-35 (as a float32) in size are zero to
LightGBM before they are compared. The set of a split by category goes left, missing and unknown categories go right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grace.models.trees.assembly import Growing, scaled
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own

ESTIMATORS = ("LGBMClassifier", "LGBMRegressor")
OBJECTIVES = {
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
} | dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity")
ZERO = float(np.float32(1e-35))
INFINITE = 1e300  # as which the description of a model has infinity
OF_PREDICTION = ("pred", "raw_score", "is_predict", "start_iteration", "num_iteration_predict")


def read(model: Any, categorical: Sequence[int] | None = None) -> Nodes | None:
    """The trees of a fitted estimator or a Booster of LightGBM, or None. `categorical` are the columns that are
    categories of pandas in the frames that it is given."""
    if not own(model, "lightgbm", (*ESTIMATORS, "Booster")):
        return None
    booster: Any = model if type(model).__name__ == "Booster" else getattr(model, "_Booster", None)
    if not own(booster, "lightgbm", ("Booster",)):
        return None
    # an estimator hands its further parameters to `predict`, where some of these change what is predicted
    if booster is not model and any(name.startswith(OF_PREDICTION) for name in model.get_params()):
        return None
    described = booster.dump_model()  # up to the best iteration, as `predict`
    name, *settings = described.get("objective", "regression").split()
    link = OBJECTIVES.get(name)
    if link is None or "sqrt" in settings:
        return None
    if type(model).__name__ == "LGBMClassifier" and ("objective" not in described or link in ("identity", "exp")):
        return None
    if link != "softmax" and described["num_tree_per_iteration"] > 1:
        return None
    nodes = _ensemble(described, link, categorical)
    if nodes is None or name != "binary":
        return nodes
    steepness = [float(s.split(":")[1]) for s in settings if s.startswith("sigmoid:")]
    return scaled(nodes, steepness[0]) if steepness else nodes


def _ensemble(described: dict[str, Any], link: str, categorical: Sequence[int] | None) -> Nodes | None:
    codes = _codes(described, categorical)
    trees, outputs = described["tree_info"], int(described["num_tree_per_iteration"])
    if codes is None or not trees:
        return None
    growing = Growing(outputs)
    for place, tree in enumerate(trees):
        root = _grow(growing, tree["tree_structure"], place % outputs, codes)
        if root is None:
            return None
        growing.roots.append(root)
    columns = int(described["max_feature_idx"]) + 1
    nodes = growing.nodes(np.zeros(outputs), columns, strict=False, dtype="float64", link=link, codes=codes)
    # random forests average their trees
    rounds = len(trees) // outputs
    return replace(nodes, value=nodes.value / rounds) if described["average_output"] else nodes


def _grow(growing: Growing, tree: dict[str, Any], output: int, codes: dict[int, dict[Any, int]]) -> int | None:
    """The root of a tree, whose parts are visited after their children."""
    grown: dict[int, int] = {}
    waiting = [tree]
    while waiting:
        part = waiting[-1]
        if "split_index" not in part:
            if "leaf_const" in part:  # a linear function
                return None
            value = np.zeros(growing.outputs)
            value[output] = part["leaf_value"]
            grown[id(waiting.pop())] = growing.leaf(value)
            continue
        left, right = part["left_child"], part["right_child"]
        if id(left) not in grown:
            waiting += [left, right]
            continue
        node = _split(growing, waiting.pop(), grown[id(left)], grown[id(right)], codes)
        if node is None:
            return None
        grown[id(part)] = node
    return grown[id(tree)]


def _split(
    growing: Growing, part: dict[str, Any], left: int, right: int, codes: dict[int, dict[Any, int]]
) -> int | None:
    column = int(part["split_feature"])
    if part["decision_type"] == "==":
        members = frozenset(int(code) for code in str(part["threshold"]).split("||"))
        return growing.split_set(column, members, False, left, right)
    threshold, missing, default = float(part["threshold"]), part["missing_type"], bool(part["default_left"])
    if abs(threshold) == INFINITE:
        threshold = float(np.copysign(np.inf, threshold))
    if missing == "Zero":  # zero goes where missing cells go, whatever the threshold
        if abs(threshold) > ZERO and default != (threshold > 0):
            return None
        zero_left = default
    else:
        zero_left = threshold >= 0
    if abs(threshold) <= ZERO:
        threshold = ZERO if zero_left else float(np.nextafter(-ZERO, -np.inf))
    missing_left = default if missing == "NaN" else zero_left  # elsewhere a missing cell is zero
    if column in codes:  # ordered categories are split as numbers
        members = frozenset(code for code in codes[column].values() if code <= threshold)
        return growing.split_set(column, members, missing_left, left, right)
    return growing.split(column, threshold, missing_left, left, right)


def _codes(described: dict[str, Any], categorical: Sequence[int] | None) -> dict[int, dict[Any, int]] | None:
    """The codes of labels by column. LightGBM keeps the labels of the categories of a frame in the order of its
    columns, but not which columns they are: those that it splits by category, unless a category was ordered, or another
    column was declared to be one. None if it cannot be those."""
    labels = described.get("pandas_categorical") or []
    infos = [described["feature_infos"].get(name, {}) for name in described["feature_names"]]
    if categorical is None:
        categorical = [column for column, info in enumerate(infos) if labels and info.get("values")]
    if len(categorical) != len(labels):
        return None
    pairs = list(zip(categorical, labels, strict=True))
    if any(infos[column].get("max_value", 0) >= len(own) for column, own in pairs):
        return None
    return {column: {label: code for code, label in enumerate(own)} for column, own in pairs}
