"""Rows on which a reader of trees could err, and the comparison of nodes with their library."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.models.trees.nodes import Nodes
from grace.models.trees.reading import read_trees
from grace.models.trees.reference import evaluate, predicted

Rows = npt.NDArray[np.float64]
ROUNDING = {"float32": 1e-5, "float64": 1e-12}


def neighbours(threshold: float) -> list[float]:
    """The threshold, the floats next to it in both precisions, and the middles between those of float32, about which
    numbers are rounded to one or the other."""
    near = [threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf)]
    with np.errstate(over="ignore"):
        single = np.float32(threshold)
        around = [np.nextafter(single, np.float32(-np.inf)), single, np.nextafter(single, np.float32(np.inf))]
    singles = [float(v) for v in around]
    for low, high in pairwise(singles):
        middle = (low + high) / 2
        near += [middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)]
    return [float(v) for v in (*near, *singles) if np.isfinite(v)]


def probes(nodes: Nodes, rows: Rows, missing: bool, seed: int = 0) -> Rows:
    """Rows of training, random ones, ones beside every threshold, and ones with missing cells."""
    rng = np.random.default_rng(seed)
    coded = {int(c) for c in nodes.column[nodes.members >= 0]} | set(nodes.codes)
    plain = [c for c in range(nodes.columns) if c not in coded]
    random = rows[rng.integers(0, len(rows), 60)].copy()
    random[:, plain] += rng.normal(size=(60, len(plain)))
    found = [rows, random]
    thresholds = {
        (int(c), float(t))
        for c, t, m in zip(nodes.column, nodes.threshold, nodes.members, strict=True)
        if c >= 0 and m < 0 and np.isfinite(t)
    }
    for column, threshold in sorted(thresholds):
        values = neighbours(threshold)
        beside = rows[rng.integers(0, len(rows), len(values))].copy()
        beside[:, column] = values
        found.append(beside)
    if missing:
        gaps = np.concatenate(found)[rng.integers(0, sum(map(len, found)), 150)].copy()
        gaps[rng.random(gaps.shape) < 0.4] = np.nan
        found += [gaps, np.full((1, nodes.columns), np.nan)]
    return np.concatenate(found)


def agrees(
    model: Any,
    rows: Rows,
    ask: Callable[[Rows], Any],
    missing: bool = False,
    categorical: list[int] | None = None,
) -> Nodes:
    """The nodes of a model, after what they predict was compared with what it says itself."""
    nodes = read_trees(model, categorical)
    assert nodes is not None
    tried = probes(nodes, rows, missing)
    own = np.asarray(ask(tried), dtype=np.float64)
    read = predicted(nodes, evaluate(nodes, tried), classes=own.ndim == 2)
    assert read.shape == own.shape
    np.testing.assert_allclose(read, own, rtol=ROUNDING[nodes.precision], atol=ROUNDING[nodes.precision])
    assert np.ptp(own, axis=0).min() > 1e-3  # it depends on the row
    return nodes
