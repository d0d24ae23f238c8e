"""Explainable boosting machines of interpret: each term is a table over the bins of its features, read as a tree.

Numbers are compared in float64: a cut belongs to the bin above it. A table begins with the bin of missing cells, and
ends with that of unknown categories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grace.models.trees.assembly import Growing
from grace.models.trees.nodes import Nodes
from grace.models.trees.own_classes import own
from grace.schema.features import Floats

CLASSIFIER, REGRESSOR = "ExplainableBoostingClassifier", "ExplainableBoostingRegressor"
LINKS = {CLASSIFIER: {"logit": "logistic", "mlogit": "softmax"}, REGRESSOR: {"identity": "identity", "log": "exp"}}

Bins = Any  # of a feature: cuts in ascending order, or the number of the bin of each label


def read(model: Any) -> Nodes | None:
    """The terms of a fitted machine as trees, or None."""
    if not own(model, "interpret", LINKS) or not hasattr(model, "term_scores_"):
        return None
    link = LINKS[type(model).__name__].get(model.link_)
    base = np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    if link is None or not len(model.term_scores_) or (link != "softmax" and len(base) > 1):
        return None
    codes = _codes(model.bins_)
    growing = Growing(len(base))
    for features, scores in zip(model.term_features_, model.term_scores_, strict=True):
        bins = [model.bins_[f][min(len(model.bins_[f]), len(features)) - 1] for f in features]
        table = np.asarray(scores, dtype=np.float64).reshape(*scores.shape[: len(features)], len(base))
        placed = enumerate(zip(features, bins, strict=True))
        if not all(_complete(b, f, codes) and _unknown_is_missing(table, b, d) for d, (f, b) in placed):
            return None
        growing.roots.append(_term(growing, table, list(zip(features, bins, strict=True)), codes))
    columns = len(model.feature_names_in_)
    named = {column: _aliases(own_codes) for column, own_codes in codes.items()}
    return growing.nodes(base, columns, strict=True, dtype="float64", link=link, codes=named)


def _codes(bins: Sequence[Sequence[Bins]]) -> dict[int, dict[str, int]]:
    """A code for each label; labels may share bins."""
    named = {column: levels[0] for column, levels in enumerate(bins) if levels and isinstance(levels[0], dict)}
    return {column: {label: code for code, label in enumerate(labels)} for column, labels in named.items()}


def _aliases(codes: dict[str, int]) -> dict[Any, int]:
    """The codes also by number, where the label is how interpret writes that number."""
    out: dict[Any, int] = dict(codes)
    for label, code in codes.items():
        try:
            number = float(label)
        except ValueError:
            continue
        if str(np.float64(number)).removesuffix(".0") == label:
            out[int(number) if number.is_integer() else number] = code
    return out


def _complete(bins: Bins, column: int, codes: dict[int, dict[str, int]]) -> bool:
    """Whether the bins of a term have all labels of a column."""
    return not isinstance(bins, dict) or bins.keys() == codes[column].keys()


def _unknown_is_missing(table: Floats, bins: Bins, dimension: int) -> bool:
    """Whether unknown categories count as missing cells do: in nodes they always do."""
    moved = np.moveaxis(table, dimension, 0)
    return not isinstance(bins, dict) or bool(np.array_equal(moved[0], moved[-1]))


def _term(
    growing: Growing, table: Floats, features: Sequence[tuple[int, Bins]], codes: dict[int, dict[str, int]]
) -> int:
    """The root of a tree over the first feature's bins, that ends in trees over the other features."""
    if not features or (table == table.reshape(-1, table.shape[-1])[0]).all():
        return growing.leaf(table.reshape(-1, table.shape[-1])[0])
    (column, bins), *others = features
    missing = _term(growing, table[0], others, codes)
    if isinstance(bins, dict):
        by_bin = [frozenset(codes[column][k] for k, b in bins.items() if b == n) for n in range(1, len(table) - 1)]
        if not by_bin:
            return missing
        known = _halved(growing, column, table[1:-1], by_bin, others, codes)
        return growing.split_set(column, frozenset().union(*by_bin), False, known, missing)
    numbers = _halved(growing, column, table[1:-1], bins, others, codes)
    # no number is below the lowest: only missing cells go left
    return growing.split(column, -np.inf, True, missing, numbers)


def _halved(
    growing: Growing, column: int, table: Floats, bins: Any, others: Any, codes: dict[int, dict[str, int]]
) -> int:
    """A balanced tree over bins, which are cuts between them or the codes in each."""
    if len(table) == 1 or (table == table[0]).all():
        return _term(growing, table[0], others, codes)
    middle = len(table) // 2
    if isinstance(bins, list):
        left = _halved(growing, column, table[:middle], bins[:middle], others, codes)
        right = _halved(growing, column, table[middle:], bins[middle:], others, codes)
        return growing.split_set(column, frozenset().union(*bins[:middle]), False, left, right)
    left = _halved(growing, column, table[:middle], bins[: middle - 1], others, codes)
    right = _halved(growing, column, table[middle:], bins[middle:], others, codes)
    return growing.split(column, float(bins[middle - 1]), False, left, right)
