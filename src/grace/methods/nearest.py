"""NearestCT, the paper's baseline: the nearest training row that the model puts into another class."""

from __future__ import annotations

import torch
from torch import Tensor

from grace.problem.neighbours import nearest_rows
from grace.problem.problem import Problem


def nearest(problem: Problem) -> Tensor:
    """The nearest background row that reaches the goal; the original row where there is none."""
    known = problem.known_rows("the nearest method")
    gaps, known_gaps = problem.space.missing(problem.rows), problem.space.missing(known.rows)

    def allowed(index: Tensor) -> Tensor:
        margins = problem.goal.select(index).margin(known.scores.expand(len(index), -1, -1))
        there = ~(gaps[index][:, None] != known_gaps).any(dim=2) if known_gaps.any() or gaps.any() else True
        return (margins >= problem.model.tolerance) & there  # no cell goes missing, and none turns up

    index, found = nearest_rows(problem.space.euclidean(problem.rows), known.points, 1, allowed)
    return torch.where(found, known.rows[index[:, 0]], problem.rows)
