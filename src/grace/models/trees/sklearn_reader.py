"""Trees and forests of scikit-learn, and bags and votes of them; its boosted trees are read by `sklearn_boosting`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from grace.models.trees.assembly import on_columns, scaled, together
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own
from grace.models.trees.sklearn_boosting import HISTOGRAMS, STAGES, read_histograms, read_stages
from grace.models.trees.sklearn_tree import tree_nodes
from grace.schema.features import Floats

TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
BAGS = ("BaggingClassifier", "BaggingRegressor")
VOTES = ("VotingClassifier", "VotingRegressor")


def read(model: Any) -> Nodes | None:
    """The trees of a fitted estimator of scikit-learn, or None."""
    if not own(model, "sklearn", (*TREES, *FORESTS, *BAGS, *VOTES, *STAGES, *HISTOGRAMS)):
        return None
    name = type(model).__name__
    if name in TREES:
        return _tree(model) if hasattr(model, "tree_") else None
    if name in STAGES:
        return read_stages(model)
    if name in HISTOGRAMS:
        return read_histograms(model)
    if not hasattr(model, "estimators_"):
        return None
    if name in FORESTS:
        return _forest(model)
    return _bag(model) if name in BAGS else _vote(model)


def _tree(model: Any) -> Nodes | None:
    if model.n_outputs_ != 1:
        return None
    link = "probabilities" if hasattr(model, "classes_") else "identity"
    value = model.tree_.value[:, 0, :]  # of a classifier: fractions of the samples
    return tree_nodes(model.tree_, value, int(model.n_features_in_), link)


def _forest(model: Any) -> Nodes | None:
    members = [read(member) for member in model.estimators_]
    return _mean(members, np.ones(len(members)))


def _bag(model: Any) -> Nodes | None:
    """The mean of members that see some of the columns each. A member may lack classes that its sample lacked."""
    width, classes = int(model.n_features_in_), len(getattr(model, "classes_", ()))
    members: list[Nodes | None] = []
    for member, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        nodes = read(member)
        if nodes is None:
            return None
        nodes = on_columns(nodes, columns, width)
        members.append(nodes if nodes.link == "identity" else _with_classes(nodes, member.classes_, classes))
    return _mean(members, np.ones(len(members)))


def _vote(model: Any) -> Nodes | None:
    if getattr(model, "voting", "soft") != "soft":
        return None
    members = [read(member) for member in model.estimators_]
    weights = model._weights_not_none
    return _mean(members, np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64))


def _mean(members: list[Nodes | None], weights: Floats) -> Nodes | None:
    """The weighted mean of what members predict, where that is their sums."""
    read = [m for m in members if m is not None and m.link in ("probabilities", "identity")]
    if not read or len(read) < len(members):
        return None
    return together([scaled(m, float(w / weights.sum())) for m, w in zip(read, weights, strict=True)])


def _with_classes(nodes: Nodes, own_classes: Any, classes: int) -> Nodes | None:
    """Sums for all classes, of which the nodes have those with these numbers."""
    if nodes.value.shape[1] == classes:
        return nodes
    places = np.asarray(own_classes)
    if places.dtype.kind not in "iu":
        return None
    value, base = np.zeros((len(nodes.value), classes)), np.zeros(classes)
    value[:, places], base[places] = nodes.value, nodes.base
    return replace(nodes, value=value, base=base)
