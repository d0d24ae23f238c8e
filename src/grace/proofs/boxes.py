"""Whether a model decides the same everywhere in a box: by proof for ReLU networks and tree ensembles, else at points.

A box is given by its corners: numbers move between `low` and `high`, whole numbers in whole steps, and every other cell
has the value that both corners have. The decision is the class of the row that the box was grown from, or a number
within its target range. Of a network, the class has to lead by the tolerance that an answer needs, too; of trees, the
model itself decides in cells where rounding could.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grace.models.predictor import tree_ensemble
from grace.models.relu import relu_network
from grace.problem.goal import Against, Between
from grace.problem.problem import Problem
from grace.proofs.host import on_host
from grace.schema.features import Floats

Ints = npt.NDArray[np.int64]

OUT_OF_WORK, HOLDS, FAILS, UNDECIDED = 0, 1, 2, 3
POINTS = 64  # at which a black box is asked, at most
MOST_NUMBERS = 6  # that span a grid of so many points


class Checked(NamedTuple):
    """What is known of m boxes."""

    status: Ints  # (m,) OUT_OF_WORK, HOLDS, FAILS or UNDECIDED
    point: Floats  # (m, d) where it fails
    seconds: Floats  # (m,) the work that it took, as counted
    points: Ints  # (m,) at which the model was asked; 0 for a proof


class BoxChecker(ABC):
    """Checks boxes around contrastive rows (n, d), each for the decision of its row."""

    proves: bool

    @abstractmethod
    def check(self, owner: Ints, low: Floats, high: Floats, seconds: Floats) -> Checked:
        """Check boxes (m, d) of the rows (m,) `owner` with so much work (m,) each, counted, not timed: the outcome
        depends on nothing but the box."""


def checker_of(problem: Problem, contrast: Tensor, low: Tensor, high: Tensor) -> BoxChecker:
    """The checker for a problem whose goal is the decision at `contrast`; boxes lie within `low` and `high` (n, d)."""
    if problem.origin is not None:
        return SampledBoxes(problem)
    widest = replace(problem, rows=contrast, low=low, high=high, free=high > low)
    ensemble, network = tree_ensemble(problem.model), relu_network(problem.model)
    if ensemble is not None:
        from grace.proofs.tree_boxes import TreeBoxes  # numba takes a second to import

        return TreeBoxes(widest, ensemble)
    if network is not None and isinstance(problem.goal, Against | Between):
        from grace.proofs.compiled.boxes import NetworkBoxes

        return NetworkBoxes(on_host(widest), network.on_host)
    return SampledBoxes(problem)


class SampledBoxes(BoxChecker):
    """A model that is asked at points of a grid over each box, its corners among them. Nothing is proven."""

    proves = False

    def __init__(self, problem: Problem) -> None:
        self.problem, self.whole = problem, problem.space.is_integer.cpu().numpy()

    def check(self, owner: Ints, low: Floats, high: Floats, seconds: Floats) -> Checked:
        m, moving = len(low), (high > low).sum(axis=1)
        status, point, points = np.full(m, OUT_OF_WORK), low.copy(), np.zeros(m, dtype=np.int64)
        for k in np.unique(moving[moving <= MOST_NUMBERS]):
            those = np.flatnonzero(moving == k)
            grid = self._grid(low[those], high[those], int(k))
            part = self.problem.select(torch.as_tensor(owner[those], device=self.problem.rows.device))
            reached = part.reached(torch.as_tensor(grid, device=self.problem.rows.device)).cpu().numpy()
            status[those] = np.where(reached.all(axis=1), HOLDS, FAILS)
            point[those] = grid[np.arange(len(those)), (~reached).argmax(axis=1)]
            points[those] = [len(np.unique(rows, axis=0)) for rows in grid]
        return Checked(status, point, np.zeros(m), points)

    def _grid(self, low: Floats, high: Floats, k: int) -> Floats:
        """Points (m, P, d) of boxes in which k numbers move."""
        if k == 0:
            return low[:, None].copy()
        levels = int(POINTS ** (1 / k) + 1e-9)
        shares = np.stack(np.meshgrid(*[np.linspace(0, 1, levels)] * k, indexing="ij"), axis=-1).reshape(-1, k)
        columns = np.nonzero(high > low)[1].reshape(-1, k)
        rows = np.repeat(low[:, None], len(shares), axis=1)
        first, last = (np.take_along_axis(end, columns, axis=1)[:, None] for end in (low, high))
        values = np.where(shares == 1, last, first + shares * (last - first))
        values = np.where(self.whole[columns][:, None], values.round(), values)
        np.put_along_axis(rows, np.broadcast_to(columns[:, None], values.shape), values, axis=2)
        return rows
