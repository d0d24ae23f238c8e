"""W_Gradient: features ranked by the gradient towards the nearest contrastive class."""

from __future__ import annotations

import torch
from torch import Tensor

from grace.problem.goal import MarginFunction
from grace.problem.problem import Problem
from grace.problem.space import nearly_first, nearly_sorted


def nearest_alternative(problem: Problem) -> tuple[Tensor, Tensor]:
    """v = argmin |f_c - f_C| / ||grad f_c - grad f_C|| at x (Alg. 2, line 2), and the slope of its margin.

    Lengths are in units of each feature's spread; as printed, in raw units.
    """
    only = problem.goal.single_target(problem.model.width)
    if only is not None:
        return only, problem.model.slopes(problem.rows, MarginFunction(problem.goal, only[:, None]))[1][:, 0]
    scores, slopes = problem.model.slopes(problem.rows, MarginFunction(problem.goal))
    margins = problem.goal.margins(scores)
    scale = torch.ones_like(problem.space.scale) if problem.as_printed else problem.space.scale
    grad_norm = (slopes * scale).norm(dim=2)
    apart = margins.abs() / grad_norm.clamp_min(1e-12)
    # a margin without an alternative, or without a slope, is out of reach
    flat = ~torch.isfinite(margins)
    far = apart.masked_fill(flat, 0).amax(dim=1, keepdim=True) * 2 + 1
    v = nearly_first(torch.where(flat, far, apart))
    return v, slopes[torch.arange(len(v), device=v.device), v]


def rank_gradient(problem: Problem, slope: Tensor) -> Tensor:
    """Best first: the first-order gain that a feature can still bring within its range."""
    return nearly_sorted(problem.space.gain(problem.rows, slope, problem.low, problem.high))


def rank_gradient_as_printed(problem: Problem, v: Tensor) -> Tensor:
    """Best first: |grad f_v| in raw units, as the paper prints it."""
    _, slopes = problem.model.slopes(problem.rows, lambda scores: scores.gather(1, v[:, None]))
    return nearly_sorted(problem.space.per_feature(slopes[:, 0].square()))
