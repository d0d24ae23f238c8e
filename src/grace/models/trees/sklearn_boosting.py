"""Boosted trees of scikit-learn: GradientBoosting and HistGradientBoosting.

The trees of GradientBoosting compare as its other trees do; those of HistGradientBoosting compare float64 with float64.
Its preprocessor moves categorical columns to the front and encodes their labels; labels that it does not know are
missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from grace.models.trees.assembly import scaled, together
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own
from grace.models.trees.sklearn_tree import tree_nodes
from grace.schema.features import Floats

STAGES = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HISTOGRAMS = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
CONSTANT = {
    "DummyClassifier": ("prior", "most_frequent", "constant"),
    "DummyRegressor": ("mean", "median", "quantile", "constant"),
}
LINKS_OF_LOSSES = {
    "squared_error": "identity",
    "absolute_error": "identity",
    "quantile": "identity",
    "poisson": "exp",
    "gamma": "exp",
}


def read_stages(model: Any) -> Nodes | None:
    """The trees of GradientBoosting, each of which adds to one sum."""
    begin = _beginning(model)
    if begin is None:
        return None
    classes = len(getattr(model, "classes_", ()))
    link = "identity" if not classes else "logistic" if classes == 2 else "softmax"
    trees = []
    for stage in model.estimators_:
        for output, member in enumerate(stage):
            value = np.zeros((member.tree_.node_count, len(begin)))
            value[:, output] = model.learning_rate * member.tree_.value[:, 0, 0]
            trees.append(tree_nodes(member.tree_, value, int(model.n_features_in_), link))
    read = together(trees)
    if read is None:
        return None
    read = replace(read, base=begin)
    # the probability that belongs to the exponential loss is expit(2 * sum)
    return scaled(read, 2.0) if model.loss == "exponential" else read


def _beginning(model: Any) -> Floats | None:
    """What the sums of GradientBoosting begin with; None if that depends on the row."""
    if not hasattr(model, "estimators_"):
        return None
    init = model.init_
    if not isinstance(init, str):
        if not own(init, "sklearn", CONSTANT) or init.strategy not in CONSTANT[type(init).__name__]:
            return None
    elif init != "zero":
        return None
    return np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0], np.float64)


def read_histograms(model: Any) -> Nodes | None:
    """The trees of HistGradientBoosting."""
    if not hasattr(model, "_predictors") or not hasattr(model, "_baseline_prediction"):
        return None
    classes = len(getattr(model, "classes_", ()))
    link = LINKS_OF_LOSSES.get(model.loss) if not classes else "logistic" if classes == 2 else "softmax"
    if link is None or (classes and model.loss != "log_loss"):
        return None
    order, codes = _columns(model)
    base = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1)
    trees = [
        _histogram_tree(predictor, output, base, order, codes, link)
        for stage in model._predictors
        for output, predictor in enumerate(stage)
    ]
    read = together(trees) if trees else None
    return None if read is None else replace(read, base=base)


def _columns(model: Any) -> tuple[Any, dict[int, dict[Any, int]]]:
    """The column of the input that each column of the encoded rows comes from, and the codes of labels."""
    if model._preprocessor is None:
        return np.arange(model.n_features_in_), {}
    categorical = np.asarray(model.is_categorical_, dtype=bool)
    order = np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])
    encoder = model._preprocessor.named_transformers_["encoder"]
    codes = {
        int(column): {label: code for code, label in enumerate(labels.tolist()) if not pd.isna(label)}
        for column, labels in zip(order, encoder.categories_, strict=False)
    }
    return order, codes


def _histogram_tree(
    predictor: Any, output: int, base: Floats, order: Any, codes: dict[int, dict[Any, int]], link: str
) -> Nodes:
    nodes = predictor.nodes
    inner = ~nodes["is_leaf"].astype(bool)
    categorical = inner & nodes["is_categorical"].astype(bool)
    sets: list[frozenset[int]] = []
    members = np.full(len(nodes), -1)
    for at in np.flatnonzero(categorical):
        members[at] = len(sets)
        sets.append(_members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][at]]))
    value = np.zeros((len(nodes), len(base)))
    value[:, output] = np.where(inner, 0.0, nodes["value"])
    return Nodes(
        roots=np.zeros(1, dtype=np.int64),
        column=np.where(inner, order[np.where(inner, nodes["feature_idx"], 0)], -1).astype(np.int64),
        threshold=np.where(inner & ~categorical, nodes["num_threshold"], 0.0).astype(np.float64),
        members=members,
        missing_left=inner & nodes["missing_go_to_left"].astype(bool),
        left=np.where(inner, nodes["left"].astype(np.int64), -1),
        right=np.where(inner, nodes["right"].astype(np.int64), -1),
        value=value,
        base=np.zeros(len(base)),
        columns=len(order),
        strict=False,
        dtype="float64",
        link=link,
        sets=tuple(sets),
        codes=codes,
    )


def _members(bits: Any) -> frozenset[int]:
    """The codes in a set that is stored as words of 32 bits."""
    return frozenset(32 * word + bit for word, held in enumerate(bits.tolist()) for bit in range(32) if held >> bit & 1)
