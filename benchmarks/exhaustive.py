"""All single changes and all pairs of them on a grid of up to 48 values a number: what a search could have found.

An answer between the values of the grid is not seen: that a row has none here does not prove that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch

from grace.experiments.task import Task
from grace.schema.features import Categorical, Floats
from grace.schema.information import discretise, su_matrix

VALUES = 48  # tried of a number, of those that occur in training within the domain
CHUNK = 100_000  # rows put to the model at a time
NONE = 3  # more than a pair


def fewest(task: Task, values: int = VALUES) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each row 1 if a single change is an answer, 2 if a pair is, else NONE. A pair is none if it is redundant."""
    columns = [allowed(task, j, values) for j in range(task.rows.shape[1])]
    redundant = su_matrix(discretise(task.train, task.labels, task.schema)) > task.gamma + 1e-12
    pairs = [(i, j) for i, j in combinations(range(len(columns)), 2) if not redundant[i, j]]
    found = np.full(len(task.rows), NONE)
    for i, row in enumerate(task.rows):
        if flips(task, row, [(j,) for j in range(len(columns))], columns):
            found[i] = 1
        elif flips(task, row, pairs, columns):
            found[i] = 2
    return found


def allowed(task: Task, j: int, values: int) -> Floats:
    """Every category that may be chosen; of a number, both ends of its range and values in between that occur."""
    feature = task.schema.features[j]
    if isinstance(feature, Categorical):
        return task.schema.selectable_codes(j).astype(np.float64)
    low, high = feature.bounds
    seen = np.unique(task.train[:, j])
    seen = seen[(seen >= low) & (seen <= high)]
    if len(seen) > values:
        inside = task.train[(task.train[:, j] >= low) & (task.train[:, j] <= high), j]
        quantiles = np.quantile(inside, np.linspace(0, 1, values), method="nearest")
        even = seen[np.linspace(0, len(seen) - 1, values).round().astype(int)]
        seen = np.unique(np.concatenate([quantiles[::2], even[::2]]))
    return np.unique(np.concatenate([seen, [low, high]]))


def flips(task: Task, row: Floats, sets: Sequence[tuple[int, ...]], columns: list[Floats]) -> bool:
    """Whether changing all features of any of the sets is an answer."""
    own, held, size = int(task.classes_of(row[None])[0]), [], 0
    for last, features in enumerate(sets, 1):
        values = [columns[j][columns[j] != row[j]] for j in features]
        grid = np.stack([g.reshape(-1) for g in np.meshgrid(*values, indexing="ij")], axis=1)
        rows = np.repeat(row[None], len(grid), axis=0)
        rows[:, list(features)] = grid
        held, size = [*held, rows], size + len(rows)
        if size >= CHUNK or last == len(sets):
            if reaches(task, np.concatenate(held), own).any():
                return True
            held, size = [], 0
    return False


def reaches(task: Task, rows: Floats, own: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether rows are answers by the margin that GRACE asks for."""
    scores = task.model.scores(torch.as_tensor(rows)).numpy()
    if task.wanted is not None:
        return np.asarray((scores[:, 0] >= task.wanted[0]) & (scores[:, 0] <= task.wanted[1]))
    others = np.delete(scores, own, axis=1).max(axis=1)
    return np.asarray(others - scores[:, own] >= task.model.tolerance)
