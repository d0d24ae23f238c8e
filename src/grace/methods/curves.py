"""The scores of a model as each feature of a row moves alone through its values.

Along a number, a ReLU network is piecewise linear between breakpoints that are all known, and a tree ensemble is a
staircase of which both ends of every step are known: linear interpolation between these points is exact. Any other
model is queried on a grid of observed values. Categories are queried one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from grace.methods.profiles import network_lines, tree_lines
from grace.models.base import Model, checked_scores
from grace.models.predictor import tree_ensemble
from grace.models.relu import relu_network
from grace.schema.features import Categorical, Feature, Floats

Ints = npt.NDArray[np.int64]
Lines = tuple[Floats, Floats]
"""Values (N, P) of one feature in rising order, and the scores (N, P, classes) there."""


@dataclass(frozen=True)
class Curves:
    """The scores (n, d, P, classes) of n rows whose feature j has one of the values (n, d, P), in rising order; the
    last is repeated. Between two values they are interpolated linearly, which is `exact` for networks and trees."""

    values: Floats
    scores: Floats
    exact: bool


def decisive(model: Model, rows: Floats) -> Floats:
    """The decisive scores (n, classes) of encoded rows."""
    tensor = torch.as_tensor(np.ascontiguousarray(rows), dtype=torch.float64, device=model.device)
    return np.asarray(checked_scores(model, tensor, decisive=True).cpu().numpy())


def interpolate(values: Floats, heights: Floats, at: Floats) -> Floats:
    """Piecewise linear functions through heights (N, P, k) at rising values (N, P), at (N, m); constant beyond."""
    n, most, k = heights.shape
    if most == 1:
        return np.broadcast_to(heights, (n, at.shape[1], k)).copy()
    points, wanted = (torch.from_numpy(np.ascontiguousarray(a)) for a in (values, at))
    place = torch.searchsorted(points, wanted, right=True).numpy()
    place = np.clip(place - 1, 0, most - 2)
    low, high = (np.take_along_axis(values, place + i, axis=1) for i in (0, 1))
    share = np.clip((at - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)[:, :, None]
    below, above = (np.take_along_axis(heights, (place + i)[:, :, None], axis=1) for i in (0, 1))
    return np.asarray(np.where(share < 1, below + share * (above - below), above))


def curves_of(
    model: Model, features: Sequence[Feature], rows: Floats, low: Floats, high: Floats, grid: Floats
) -> Curves:
    """The curves of rows (n, d) over the ranges low, high (d,) and the rows' own values. Models that are neither ReLU
    networks nor trees are queried at the values `grid` (d, G) of numbers, and at the rows' own."""
    numbers = np.array([j for j, f in enumerate(features) if not isinstance(f, Categorical)], dtype=np.int64)
    missing = np.array([np.nan if isinstance(f, Categorical) else f.missing_code for f in features])
    start = np.where(rows == missing, low, rows)
    exact = relu_network(model) is not None or tree_ensemble(model) is not None
    n, d = rows.shape
    parts: dict[int, Lines] = {}
    if len(numbers) and exact:
        found = _exact_lines(model, start, rows, numbers, low, high)
        parts = {int(j): (found[0][:, k], found[1][:, k]) for k, j in enumerate(numbers)}
    asked = {}
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            asked[j] = np.broadcast_to(
                np.arange(len(feature.categories), dtype=np.float64), (n, len(feature.categories))
            )
        else:
            points = [] if exact else [np.broadcast_to(grid[j], (n, grid.shape[1])), rows[:, j : j + 1]]
            points += [np.full((n, 1), missing[j])] if feature.gaps else []
            if points:
                asked[j] = np.sort(np.concatenate(points, axis=1), axis=1)
    for j, line in asked_lines(lambda tried: decisive(model, tried), rows, asked).items():
        parts[j] = _merged(parts[j], line) if j in parts else line
    most = max(values.shape[1] for values, _ in parts.values())
    padded = [_padded(parts[j], most) for j in range(d)]
    return Curves(np.stack([v for v, _ in padded], axis=1), np.stack([s for _, s in padded], axis=1), exact)


def _exact_lines(
    model: Model, start: Floats, rows: Floats, numbers: Ints, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Points (n, k, P) and scores (n, k, P, classes) along k numbers, each from its start value in both directions."""
    n, k = len(rows), len(numbers)
    lines = np.repeat(rows, k, axis=0)
    column = np.tile(numbers, n)
    value = start[:, numbers].reshape(-1)
    lines[np.arange(n * k), column] = value
    tensors = [torch.as_tensor(a) for a in (lines, column)]
    ends = [torch.as_tensor(a)[:, None] for a in (np.tile(low[numbers], n), np.tile(high[numbers], n), value)]
    network, ensemble = relu_network(model), tree_ensemble(model)
    if ensemble is not None:
        points, scores = tree_lines(ensemble, model, tensors[0], tensors[1], *ends)
    else:
        assert network is not None
        points, scores = network_lines(network, tensors[0], tensors[1], *ends)
    found = (points.cpu().numpy(), scores.cpu().numpy())
    return found[0].reshape(n, k, -1), found[1].reshape(n, k, found[0].shape[1], -1)


def asked_lines(score: Callable[[Floats], Floats], rows: Floats, asked: dict[int, Floats]) -> dict[int, Lines]:
    """The scores of rows (n, d) with values (n, P) in the place of each of some features, by one query."""
    if not asked:
        return {}
    tried = []
    for j, values in asked.items():
        part = np.repeat(rows[:, None], values.shape[1], axis=1)
        part[:, :, j] = values
        tried.append(part)
    every = np.concatenate(tried, axis=1)
    scores = score(every.reshape(-1, rows.shape[1])).reshape(*every.shape[:2], -1)
    ends = np.cumsum([values.shape[1] for values in asked.values()])
    split = np.split(scores, ends[:-1], axis=1)
    return {j: (values, part) for (j, values), part in zip(asked.items(), split, strict=True)}


def _merged(a: Lines, b: Lines) -> Lines:
    values = np.concatenate([a[0], b[0]], axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    scores = np.concatenate([a[1], b[1]], axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(scores, order[:, :, None], axis=1)


def _padded(line: Lines, most: int) -> Lines:
    """The line with its last point repeated."""
    wide = most - line[0].shape[1]
    return np.pad(line[0], ((0, 0), (0, wide)), mode="edge"), np.pad(line[1], ((0, 0), (0, wide), (0, 0)), mode="edge")
