"""What two changes do together beyond what each does alone, on a small grid of values of both features.

Between values of numbers the tables are bilinear; for categories that are not in the grid they say nothing (0).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from grace.methods.curves import Ints
from grace.schema.features import Categorical, Feature, Floats

GRID = 5  # values of each feature, beside the row's own


def grids(features: Sequence[Feature], pool: Floats) -> Floats:
    """Values (d, GRID) of each feature: quantiles of the numbers in the pool, the lowest and highest among them, or the
    most frequent categories; the last is repeated where there are fewer."""
    out = np.empty((len(features), GRID))
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            codes, counts = np.unique(pool[:, j], return_counts=True)
            seen = codes[np.argsort(-counts, kind="stable")][:GRID]
        else:
            numbers = pool[pool[:, j] != feature.missing_code, j]
            seen = np.quantile(numbers, np.linspace(0, 1, GRID), method="nearest") if len(numbers) else np.zeros(1)
        out[j] = np.pad(seen, (0, GRID - len(seen)), mode="edge")
    return out


def row_grids(grid: Floats, rows: Floats, top: Ints, categorical: npt.NDArray[np.bool_]) -> Floats:
    """The values (n, q, GRID + 1) of features `top` (n, q), among them the row's own: numbers in rising order,
    categories with the own one first."""
    own = np.take_along_axis(rows, top, axis=1)[:, :, None]
    values = np.concatenate([own, grid[top]], axis=2)
    return np.where(categorical[top][:, :, None], values, np.sort(values, axis=2))


def grid_weights(values: Floats, grid: Floats, categorical: npt.NDArray[np.bool_], missing: Floats) -> Floats:
    """The weights (..., m, g) of the values of a grid (..., g) for values (..., m): of two neighbours for a number, of
    an equal one for a category. 0 for categories and missing cells that are not in the grid."""
    at, v = values[..., None], grid[..., None, :]
    place = np.maximum((at >= v).sum(axis=-1) - 1, 0)
    after = np.minimum(place + 1, grid.shape[-1] - 1)
    low, high = (np.take_along_axis(grid, p, axis=-1) for p in (place, after))
    share = np.clip((values - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)[..., None]
    number = np.arange(grid.shape[-1])
    hat = (number == place[..., None]) * (1 - share) + (number == after[..., None]) * share
    known = (values != missing[..., None]) | (grid == missing[..., None]).any(axis=-1)[..., None]
    equal = at == v
    first = equal & (np.cumsum(equal, axis=-1) == 1)
    return np.asarray(np.where(categorical[..., None, None], first, hat * known[..., None]))


def pairs_of(count: int) -> Ints:
    """All pairs (Q, 2) of so many features."""
    return np.array(list(combinations(range(count), 2)), dtype=np.int64).reshape(-1, 2)


def tried_rows(rows: Floats, top: Ints, values: Floats, pairs: Ints) -> Floats:
    """Rows (n, Q, g, g, d) with every two values of each pair of the features `top` (n, q)."""
    n, d = rows.shape
    g = values.shape[2]
    out = np.broadcast_to(rows[:, None, None, None], (n, len(pairs), g, g, d)).copy()
    for side, axes in ((0, (slice(None), None)), (1, (None, slice(None)))):
        column = top[:, pairs[:, side]]
        value = values[:, pairs[:, side]][(slice(None), slice(None), *axes)]
        index = np.broadcast_to(column[:, :, None, None, None], (n, len(pairs), g, g, 1))
        np.put_along_axis(out, index, np.broadcast_to(value, (n, len(pairs), g, g))[..., None], axis=4)
    return out


def interactions(scores: Floats, own_a: Ints, own_b: Ints) -> Floats:
    """Tables (n, Q, g, g, classes) of what both changes do beyond the sum of each alone, from the scores with both; the
    row's own values are at places own_a, own_b (n, Q)."""
    at_a = np.take_along_axis(scores, own_a[:, :, None, None, None], axis=2)
    at_b = np.take_along_axis(scores, own_b[:, :, None, None, None], axis=3)
    both = np.take_along_axis(at_a, own_b[:, :, None, None, None], axis=3)
    return scores - at_a - at_b + both


def looked_up(table: Floats, weight_a: Floats, weight_b: Floats) -> Floats:
    """Tables (..., g, g, classes) read at values with weights (..., m, g) in both features: (..., m, classes)."""
    g, classes = table.shape[-2:]
    rows = weight_a @ table.reshape(*table.shape[:-2], g * classes)
    rows = rows.reshape(*rows.shape[:-1], g, classes)
    return np.asarray((rows * weight_b[..., None]).sum(axis=-2))
