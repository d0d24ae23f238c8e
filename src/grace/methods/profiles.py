"""How the goal's margin goes as one feature alone moves through its range.

Along one feature a ReLU network is piecewise linear, and all of its breakpoints are known, see `models.compiled_lines`.
The margin of one class over the others is a minimum of linear functions on every piece, hence concave: it is at least
the straight line between two breakpoints, so that what holds at both holds between them. A tree ensemble has steps, all
of which are known, see `methods.trees.steps`. Any other model is asked on a grid, and nothing is said about what lies
between its points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from grace.models.base import Model
from grace.models.predictor import Predictor, tree_ensemble
from grace.models.relu import ReluNetwork, relu_network
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.budget import at_once
from grace.problem.goal import Against, Flip
from grace.problem.problem import Problem

GRID = 48  # values of a black box's range, evenly spread
OBSERVED = 24  # and as many that occur in training rows
CLOSE = (0.0025, 0.005, 0.01, 0.05)  # of a spread: the nearest values looked at on both sides of the row's own
ASKED = GRID + OBSERVED + 2 * len(CLOSE) + 2
FARTHEST = 1000.0  # spreads: as far as one looks where a range has no end
CHUNK_BYTES = 1 << 25


@dataclass(frozen=True)
class Profiles:
    """Lines (N,), each a row whose `column` moves: the margins (N, P) at values of it (N, P) in rising order. `exact`
    if the margin between two of them is at least what the straight line says; `steps` if the points are both ends of
    every step, so that there is nothing between one step and the next."""

    column: Tensor
    points: Tensor
    margin: Tensor
    tolerance: float
    exact: bool
    steps: bool = False

    @property
    def holds(self) -> Tensor:
        return self.margin >= self.tolerance

    def runs(self) -> tuple[Tensor, Tensor]:
        """The ends (N, P) of the run of values around each point for which the goal is reached; a point for which it
        is not is its own run."""
        holds = self.holds
        place = torch.arange(holds.shape[1], device=holds.device).expand(holds.shape)
        last = torch.where(holds, -1, place).cummax(dim=1).values
        next_ = torch.where(holds, holds.shape[1], place).flip(1).cummin(dim=1).values.flip(1)
        low = self._crossing(last.clamp_min(0), (last + 1).clamp_max(holds.shape[1] - 1), last >= 0)
        high = self._crossing(next_.clamp_max(holds.shape[1] - 1), (next_ - 1).clamp_min(0), next_ < holds.shape[1])
        return torch.where(holds, low, self.points), torch.where(holds, high, self.points)

    def _crossing(self, fails: Tensor, works: Tensor, between: Tensor) -> Tensor:
        """The last value on the way from a point that works to one that fails for which it is known that it works."""
        end = self.points.gather(1, works)
        if not self.exact or self.steps:
            return end
        beyond = self.points.gather(1, fails)
        inside, outside = self.margin.gather(1, works), self.margin.gather(1, fails)
        share = ((inside - self.tolerance) / (inside - outside).clamp_min(1e-300)).clamp(0, 1)
        return torch.where(between, end + share * (beyond - end), end)

    def around(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The ends (N,) of the run around a value (N,), one of the points, of each line."""
        place = (self.points == value[:, None]).to(torch.uint8).argmax(dim=1, keepdim=True)
        low, high = self.runs()
        return low.gather(1, place)[:, 0], high.gather(1, place)[:, 0]


@dataclass(frozen=True)
class ScoreLines:
    """The scores (N, P, classes) at values (N, P) of one number each, in rising order; `exact` if they are linear
    between two of them, `steps` if these are both ends of every step."""

    points: Tensor
    scores: Tensor
    exact: bool
    steps: bool


def profiles_of(problem: Problem, rows: Tensor, column: Tensor) -> Profiles:
    """Lines through rows (N, d), one per row of the problem, along a numeric feature (N,) each. For a class, the margin
    is that of the class that the row itself has."""
    scores = problem.scores(rows)
    goal = problem.goal
    if isinstance(goal, Flip):
        chosen = torch.where(goal.decided(scores), scores.argmax(dim=1), goal.margins(scores).argmax(dim=1))
        goal = Against(chosen, goal.confidence, goal.shift)
    linear = isinstance(goal, Against) or problem.model.task == "regression"
    parts, exact, steps = [], True, False
    for here in _chunks(problem, rows):
        lines = score_lines(problem.select(here), rows[here], column[here], linear)
        exact, steps = lines.exact, lines.steps
        parts.append((lines.points, goal.select(here).margin(lines.scores)))
    most = max((points.shape[1] for points, _ in parts), default=1)
    empty = rows.new_zeros(0, most)
    points, margin = (torch.cat([_padded(p[i], most) for p in parts]) if parts else empty for i in (0, 1))
    return Profiles(column, points, margin, problem.model.tolerance, exact, steps)


def _chunks(problem: Problem, rows: Tensor) -> Iterator[Tensor]:
    """The positions of as many rows at a time as fit into memory."""
    known = relu_network(problem.model) is not None or tree_ensemble(problem.model) is not None
    line_bytes = 8 * ASKED * (1 if known else rows.shape[1])
    step = max(1, at_once(CHUNK_BYTES, rows.device) // line_bytes)
    return iter(torch.split(torch.arange(len(rows), device=rows.device), step))


def score_lines(problem: Problem, rows: Tensor, column: Tensor, linear: bool = True) -> ScoreLines:
    """Lines through rows (N, d), one per row of the problem, along a numeric feature (N,) each; of a network on a grid
    unless what is to be read off them is `linear` in the scores."""
    low, high, value = (t.gather(1, column[:, None]) for t in (problem.low, problem.high, rows))
    room = FARTHEST * problem.space.spread[column][:, None]
    low, high = torch.maximum(low, value - room), torch.minimum(high, value + room)
    ensemble = tree_ensemble(problem.model)
    if ensemble is not None:
        return ScoreLines(*tree_lines(ensemble, problem.model, rows, column, low, high, value), exact=True, steps=True)
    network = relu_network(problem.model)
    if network is not None and linear:
        return ScoreLines(*network_lines(network, rows, column, low, high, value), exact=True, steps=False)
    points = _grid(problem, column, low, high, value)
    return ScoreLines(points, _asked(problem, rows, column, points), exact=False, steps=False)


def network_lines(
    network: ReluNetwork, rows: Tensor, column: Tensor, low: Tensor, high: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    """All breakpoints (N, P) and the scores (N, P, classes) there; a row's value may lie outside the range."""
    from grace.methods.compiled import ready  # numba takes a second to import
    from grace.methods.compiled.profiles import scores_along

    ready("profiles")
    ends = torch.minimum(low, value)[:, 0], torch.maximum(high, value)[:, 0]
    at, places, first, last = (t.cpu().numpy() for t in (rows, column, *ends))
    points, scores = scores_along(network.compiled, at, places, first, last)
    if scores.shape[2] == 1 and len(network.later[-1][1]) == 2:  # the lead of the second of two classes
        scores = np.concatenate([np.zeros_like(scores), scores], axis=2)
    return torch.as_tensor(points, device=rows.device), torch.as_tensor(scores, device=rows.device)


def tree_lines(
    ensemble: TreeEnsemble, model: Model, rows: Tensor, column: Tensor, low: Tensor, high: Tensor, value: Tensor
) -> tuple[Tensor, Tensor]:
    """Both ends (N, P) of all steps and the scores (N, P, classes) there; a row's value may lie outside the range."""
    from grace.methods.trees.profiles import sums_along  # numba takes a second to import

    assert isinstance(model, Predictor)
    ends = torch.minimum(low, value)[:, 0], torch.maximum(high, value)[:, 0]
    points, sums = sums_along(ensemble.trees, rows.numpy(), column.numpy(), ends[0].numpy(), ends[1].numpy())
    scores = model.scores_from(ensemble.predicted(sums.reshape(-1, sums.shape[2])))
    return torch.from_numpy(points), torch.from_numpy(scores.reshape(*points.shape, -1))


def _padded(values: Tensor, most: int) -> Tensor:
    """Values (N, P) with the last repeated."""
    return torch.cat([values, values[:, -1:].expand(-1, most - values.shape[1])], dim=1)


def _grid(problem: Problem, column: Tensor, low: Tensor, high: Tensor, value: Tensor) -> Tensor:
    """Values (N, P) to ask a black box about: over the whole range, close to the row's own, and observed ones."""
    spread = problem.space.spread[column][:, None]
    share = torch.linspace(0, 1, GRID, dtype=value.dtype, device=value.device)
    close = torch.tensor([*(-c for c in CLOSE), 0.0, *CLOSE], dtype=value.dtype, device=value.device)
    parts = [low + (high - low) * share, value + spread * close]
    if problem.background is not None:
        quantiles = torch.linspace(0, 1, OBSERVED, dtype=value.dtype, device=value.device)
        features, place = torch.unique(column, return_inverse=True)
        seen = problem.background.rows[:, features].sort(dim=0).values
        parts.append(seen[(quantiles * (len(seen) - 1)).round().long()].T[place])
    points = torch.cat(parts, dim=1)
    whole = problem.space.is_integer[column][:, None]
    points = torch.where(whole & (points != value), points.round(), points)
    return torch.cat([points.clamp(low, high), value], dim=1).sort(dim=1).values


def _asked(problem: Problem, rows: Tensor, column: Tensor, points: Tensor) -> Tensor:
    """The scores (N, P, classes) of rows with points in the place of one feature."""
    tried = rows[:, None].repeat(1, points.shape[1], 1)
    tried.scatter_(2, column[:, None, None].expand(-1, points.shape[1], 1), points[:, :, None])
    return problem.scores(tried)
