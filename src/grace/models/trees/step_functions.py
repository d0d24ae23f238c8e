"""Linear models whose numbers are bins: each feature adds a step function, or a table of its categories, and is read as
a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grace.models.predictor import Predictor
from grace.models.preprocessing.columns import STEPS
from grace.models.preprocessing.first_layer import FirstLayer
from grace.models.preprocessing.reading import Preprocessing
from grace.models.preprocessing.transformers import untouched
from grace.models.to_torch import estimator_layers
from grace.models.trees.assembly import Growing
from grace.models.trees.compiled import Trees, trees_of
from grace.models.trees.ensemble import TreeEnsemble
from grace.models.trees.nodes import Nodes
from grace.schema.columns import is_temporal
from grace.schema.features import Categorical, Floats, Numeric
from grace.schema.low_precision import is_low_precision


def read_step_functions(last: Any, before: Preprocessing | None, asked: Predictor, rows: Floats) -> TreeEnsemble | None:
    """A linear model behind preprocessing as an ensemble of one tree per feature; None if it is not linear, or a number
    has another effect than steps. `asked` is the whole as a black box, bound to a schema, and `rows` are samples of its
    domain."""
    layers = estimator_layers(last) if untouched(last, "predict", "predict_proba", "decision_function") else None
    if layers is None or before is None or len(layers[0]) > 1 or hasattr(last, "cluster_centers_"):
        return None
    first = FirstLayer(*layers[0][0], before, asked, rows)
    try:
        return _read(first) if first.fits else None
    except Exception:  # whatever a pipeline raises on a value that it does not take
        return None


def _read(first: FirstLayer) -> TreeEnsemble | None:
    growing, base = Growing(len(first.bias)), first.bias.copy()
    for j, feature in enumerate(first.schema.features):
        columns = [column for c, column in first.columns(j) if first.weight[c].any()]
        if not columns:  # what it adds is the same for all values, and 0
            continue
        if isinstance(feature, Categorical):
            growing.roots.append(_table(growing, j, first.added(j, np.arange(float(len(feature.categories))))))
            continue
        if is_low_precision(feature) or is_temporal(feature) or any(column.kind != STEPS for column in columns):
            return None
        edges = np.unique([edge for column in columns for edge in column.edges])
        inside = np.concatenate([[np.nextafter(edges[0], -np.inf) if len(edges) else 0.0], edges])
        root = _steps(growing, j, edges, first.added(j, inside))
        if feature.gaps:  # no number is below the lowest: only missing cells go left
            absent = growing.leaf(first.added(j, np.array([feature.missing_code]))[0])
            root = growing.split(j, -np.inf, True, absent, root)
        growing.roots.append(root)
    if not growing.splits:
        return None
    link = "identity" if first.asked.task == "regression" else "logistic" if len(base) == 1 else "softmax"
    nodes = growing.nodes(base, len(first.schema), strict=True, dtype="float64", link=link)
    features = first.schema.features
    sizes = [len(f.categories) if isinstance(f, Categorical) else 0 for f in features]
    missing = np.array([f.missing_code if isinstance(f, Numeric) else np.nan for f in features])
    return TreeEnsemble(on_features(nodes, sizes, missing), nodes.link, nodes.precision)


def on_features(nodes: Nodes, sizes: Sequence[int], missing: Floats) -> Trees:
    """Nodes whose columns are encoded features as trees: with the number of categories of each feature, and the number
    that stands for a missing cell."""
    members, bits = nodes.members.copy(), [np.zeros(0, dtype=bool)]
    for at in np.flatnonzero(nodes.members >= 0):
        members[at] = sum(map(len, bits))
        bits.append(np.isin(np.arange(sizes[nodes.column[at]]), list(nodes.sets[nodes.members[at]])))
    return trees_of(
        nodes.roots, nodes.column, nodes.threshold, members, np.concatenate(bits), nodes.missing_left, nodes.left,
        nodes.right, nodes.value, nodes.base, missing,
    )  # fmt: skip


def _steps(growing: Growing, j: int, edges: Floats, values: Floats) -> int:
    """The root of a balanced tree over values (m + 1, k) between m edges."""
    if (values == values[0]).all():
        return growing.leaf(values[0])
    middle = len(values) // 2
    left = _steps(growing, j, edges[: middle - 1], values[:middle])
    return growing.split(j, float(edges[middle - 1]), False, left, _steps(growing, j, edges[middle:], values[middle:]))


def _table(growing: Growing, j: int, values: Floats, start: int = 0) -> int:
    """The root of a balanced tree over values (m, k) of categories, the codes of which begin at `start`."""
    if (values == values[0]).all():
        return growing.leaf(values[0])
    middle = len(values) // 2
    left = _table(growing, j, values[:middle], start)
    right = _table(growing, j, values[middle:], start + middle)
    return growing.split_set(j, frozenset(range(start, start + middle)), False, left, right)
