"""DeepFool (Moosavi-Dezfooli et al. 2016), the paper's baseline: all features, no domain."""

from __future__ import annotations

import torch
from torch import Tensor

from grace.problem.goal import MarginFunction
from grace.problem.problem import Problem

STEPS = 50
OVERSHOOT = 0.02


def deepfool(problem: Problem) -> Tensor:
    """Step onto the nearest linearised boundary, over and over. Numbers may leave their range and
    whole numbers their grid; a category still has to be one."""
    space, model = problem.space, problem.model
    start = space.embed(problem.rows)
    total = torch.zeros_like(start)
    current = problem.rows.clone()
    live = torch.arange(len(current), device=current.device)
    for _ in range(STEPS + 1):
        goal = problem.goal.select(live)
        scores, slopes = model.slopes(current[live], MarginFunction(goal))
        margins = goal.margins(scores)
        unit = slopes * space.scale
        grad_norm = unit.norm(dim=2).clamp_min(1e-12)
        nearest = torch.where(torch.isfinite(margins), margins.abs() / grad_norm, torch.inf).argmin(dim=1)
        here = torch.arange(len(live), device=live.device)
        go = (margins.amax(dim=1) < model.tolerance) & (unit[here, nearest] != 0).any(dim=1)
        here, nearest, live = here[go], nearest[go], live[go]
        if len(live) == 0:
            break
        length = (margins[here, nearest].abs() + 1e-4) / grad_norm[here, nearest].square()
        total[live] += length[:, None] * unit[here, nearest] * space.scale
        moved = unbounded(problem, start[live] + (1 + OVERSHOOT) * total[live])
        current[live] = torch.where(space.missing(problem.rows[live]), problem.rows[live], moved)
    return torch.where(problem.reached(current)[:, None], current, problem.rows)


def unbounded(problem: Problem, point: Tensor) -> Tensor:
    """The row at a point, with numbers as they are."""
    low, high = point.new_full((1, 1), -torch.inf), point.new_full((1, 1), torch.inf)
    rows = problem.space.project(point, low, high)
    rows[:, problem.space.is_numeric] = point[:, : problem.space.n_numeric]
    return rows
