"""Boosted trees of XGBoost, from the JSON that it saves.

A number is converted to float32, and goes left if it is below the threshold. The set that XGBoost stores for a split by
category is the one that goes right, and any other code goes left; nodes have the set on the left, so the children
change places. Leaves are added up in float32.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np

from grace.models.trees.assembly import together
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own
from grace.schema.features import Floats

CLASSIFIERS = ("XGBClassifier", "XGBRFClassifier")
REGRESSORS = ("XGBRegressor", "XGBRFRegressor")
OBJECTIVES = {
    "reg:squarederror": "identity",
    "reg:linear": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:quantileerror": "identity",
    "reg:logistic": "logistic",
    "binary:logistic": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
}


def read(model: Any) -> Nodes | None:
    """The trees of a fitted estimator or a Booster of XGBoost, or None."""
    if not own(model, "xgboost", (*CLASSIFIERS, *REGRESSORS, "Booster")):
        return None
    name = type(model).__name__
    booster = model
    if name != "Booster":
        booster = getattr(model, "_Booster", None)
        # another mark of missing cells would make some numbers missing
        if not own(booster, "xgboost", ("Booster",)) or not math.isnan(model.missing):
            return None
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    objective = learner["objective"]["name"]
    link = OBJECTIVES.get(objective)
    if name in CLASSIFIERS and (link not in ("logistic", "softmax") or objective == "reg:logistic"):
        return None
    # a Booster with this objective predicts numbers of classes instead of probabilities
    if link is None or (name == "Booster" and objective == "multi:softmax"):
        return None
    return _ensemble(learner, link, best=name != "Booster")


def _ensemble(learner: dict[str, Any], link: str, best: bool) -> Nodes | None:
    """The trees up to the best iteration, if `best`, as estimators do and Boosters do not."""
    booster = learner["gradient_booster"]
    model = (booster["gbtree"] if booster["name"] == "dart" else booster).get("model", {})
    param = learner["learner_model_param"]
    outputs = max(1, int(param["num_class"]))
    if "trees" not in model or int(param.get("num_target", 1)) > 1 or (outputs > 1) != (link == "softmax"):
        return None
    trees, columns = model["trees"], int(param["num_feature"])
    if best and "best_iteration" in learner["attributes"]:
        trees = trees[: model["iteration_indptr"][int(learner["attributes"]["best_iteration"]) + 1]]
    codes = _codes(model.get("cats") or {})
    if not trees or codes is None:
        return None
    weights = np.asarray(booster.get("weight_drop", np.ones(len(trees))), dtype=np.float32)
    base = _base(param["base_score"], outputs, link)
    read: list[Nodes] = []
    for tree, output, weight in zip(trees, model["tree_info"], weights, strict=False):
        value = _values(tree, output, outputs)
        if value is None:
            return None
        value = (value * weight).astype(np.float64)
        read.append(_tree(tree, value, base if not read else np.zeros(outputs), columns, link, codes))
    return together(read)


def _base(stored: str, outputs: int, link: str) -> Floats:
    """The sums at the beginning. XGBoost stores what would be predicted from them."""
    score = np.atleast_1d(np.asarray(json.loads(stored.strip().lower()), dtype=np.float32))
    if link == "logistic":
        score = -np.log(np.float32(1) / score - np.float32(1))
    elif link == "exp":
        score = np.log(score)
    return np.broadcast_to(score, outputs).astype(np.float64)


def _values(tree: dict[str, Any], output: int, outputs: int) -> Any:
    """What each leaf adds, (N, k), in float32."""
    leaf = np.asarray(tree["left_children"]) < 0
    size = int(tree["tree_param"]["size_leaf_vector"])
    out = np.zeros((len(leaf), outputs), dtype=np.float32)
    if size <= 1:
        out[leaf, output] = np.asarray(tree["split_conditions"], dtype=np.float32)[leaf]
    elif size == outputs and "leaf_weights" in tree:  # a leaf's place in them is where its right child would be
        vectors = np.asarray(tree["leaf_weights"], dtype=np.float32).reshape(-1, size)
        out[leaf] = vectors[np.asarray(tree["right_children"])[leaf]]
    else:
        return None
    return out


def _tree(
    tree: dict[str, Any], value: Floats, base: Floats, columns: int, link: str, codes: dict[int, dict[Any, int]]
) -> Nodes:
    left, right = np.asarray(tree["left_children"]), np.asarray(tree["right_children"])
    inner = left >= 0
    categorical = inner & (np.asarray(tree["split_type"]) == 1)
    members = np.full(len(inner), -1)
    stored = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
    sets = []
    for place, (node, begin, size) in enumerate(stored):
        members[node] = place
        sets.append(frozenset(tree["categories"][begin : begin + size]))
    threshold = np.asarray(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    return Nodes(
        roots=np.zeros(1, dtype=np.int64),
        column=np.where(inner, tree["split_indices"], -1).astype(np.int64),
        threshold=np.where(inner & ~categorical, threshold, 0.0),
        members=members,
        missing_left=inner & (np.asarray(tree["default_left"], dtype=bool) != categorical),
        left=np.where(inner, np.where(categorical, right, left), -1).astype(np.int64),
        right=np.where(inner, np.where(categorical, left, right), -1).astype(np.int64),
        value=value,
        base=base,
        columns=columns,
        strict=True,
        dtype="float32",
        link=link,
        precision="float32",
        sets=tuple(sets),
        codes=codes,
    )


def _codes(cats: dict[str, Any]) -> dict[int, dict[Any, int]] | None:
    """The codes of labels by column, where the booster has them: it has none of columns that were given as codes. None
    if a label is not plain ASCII: XGBoost 3 cuts the bytes of labels by their numbers of characters, and may then take
    one label for another."""
    out = {}
    for column, stored in enumerate(cats.get("enc", ())):
        labels: list[Any] = list(stored["values"])
        if "offsets" in stored:
            if not all(0 <= byte < 128 for byte in labels):
                return None
            ends, text = stored["offsets"], bytes(labels).decode("ascii")
            labels = [text[a:b] for a, b in pairwise(ends)]
        if labels:
            out[column] = {label: code for code, label in enumerate(labels)}
    return out
