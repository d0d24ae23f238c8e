"""One tree of scikit-learn as nodes. It converts a number to float32 and compares it with a threshold in float64:
`float32(x) <= threshold` goes left."""

from __future__ import annotations

from typing import Any

import numpy as np

from grace.models.trees.nodes import Nodes
from grace.schema.features import Floats


def tree_nodes(tree: Any, value: Floats, columns: int, link: str) -> Nodes:
    """A `Tree` of scikit-learn whose nodes have these values, (N, k); those of leaves count."""
    inner = tree.children_left >= 0
    return Nodes(
        roots=np.zeros(1, dtype=np.int64),
        column=np.where(inner, tree.feature, -1).astype(np.int64),
        threshold=np.where(inner, tree.threshold, 0.0),
        members=np.full(len(inner), -1),
        missing_left=inner & tree.missing_go_to_left.astype(bool),
        left=tree.children_left.astype(np.int64),
        right=tree.children_right.astype(np.int64),
        value=np.where(inner[:, None], 0.0, value),
        base=np.zeros(value.shape[1]),
        columns=columns,
        strict=False,
        dtype="float32",
        link=link,
    )
