"""What nodes say about rows, in plain numpy: the definition that faster code is compared with."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from grace.models.trees.nodes import Ints, Nodes
from grace.schema.features import Bools, Floats


def leaves(nodes: Nodes, rows: Floats) -> Ints:
    """The node of the leaf that each row reaches in each tree, (n, T). Missing cells are NaN, categories are codes."""
    cells = np.asarray(rows, dtype=np.float64)
    with np.errstate(over="ignore"):
        numbers = cells.astype(nodes.dtype).astype(np.float64)
    table = _table(nodes)
    out = np.empty((len(cells), len(nodes.roots)), dtype=np.int64)
    for tree, root in enumerate(nodes.roots):
        at = np.full(len(cells), root)
        inner = np.flatnonzero(nodes.column[at] >= 0)
        while len(inner):
            node = at[inner]
            column, member = nodes.column[node], nodes.members[node]
            cell, number, threshold = cells[inner, column], numbers[inner, column], nodes.threshold[node]
            left = number < threshold if nodes.strict else number <= threshold
            left = np.where(member >= 0, _is_member(table, member, cell), left)
            left = np.where(np.isnan(cell), nodes.missing_left[node], left)
            at[inner] = np.where(left, nodes.left[node], nodes.right[node])
            inner = inner[nodes.column[at[inner]] >= 0]
        out[:, tree] = at
    return out


def evaluate(nodes: Nodes, rows: Floats) -> Floats:
    """The sums of each row, (n, k)."""
    out = np.tile(nodes.base, (len(rows), 1))
    for at in leaves(nodes, rows).T:
        out += nodes.value[at]
    return out


def predicted(nodes: Nodes, sums: Floats, classes: bool) -> Floats:
    """What the library predicts from sums: probabilities (n, classes), or numbers (n,)."""
    if nodes.link == "logistic":
        high = expit(sums[:, 0])
        return np.stack([1 - high, high], axis=1) if classes else high
    if nodes.link == "softmax":
        return np.asarray(softmax(sums, axis=1))
    if nodes.link == "probabilities":
        return sums
    return np.exp(sums[:, 0]) if nodes.link == "exp" else sums[:, 0]


def _table(nodes: Nodes) -> Bools:
    """Which codes are members of each set, (sets, codes)."""
    highest = max((max(s, default=0) for s in nodes.sets), default=0)
    table = np.zeros((max(len(nodes.sets), 1), highest + 1), dtype=bool)
    for place, members in enumerate(nodes.sets):
        table[place, sorted(members)] = True
    return table


def _is_member(table: Bools, member: Ints, cell: Floats) -> Bools:
    known = (member >= 0) & (cell >= 0) & (cell < table.shape[1])
    code = np.where(known, cell, 0).astype(np.int64)
    return np.asarray(known & table[member, code])
