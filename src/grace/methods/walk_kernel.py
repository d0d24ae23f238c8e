"""Walks by a Triton kernel: `walk.grow` for ReLU networks on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from grace.models.relu import relu_network
from grace.problem.goal import Against, Flip
from grace.problem.problem import Problem

MOST = 32  # features of a walk that a kernel has room for


def grown_at_once(problem: Problem, chosen: Tensor, v: Tensor) -> Tensor | None:
    """What `grow` returns for the features `chosen` (n, K) and the alternatives v; None where no kernel serves."""
    goal, network = problem.goal, relu_network(problem.model)
    if problem.as_printed or problem.space.categorical or network is None or not 0 < chosen.shape[1] <= MOST:
        return None
    if not isinstance(goal, Flip | Against) or not goal.leads:
        return None
    packed = network.packed(chosen.device)
    if packed is None:
        return None
    from grace.methods.walk_triton import walks, works

    if "walk" not in network.kernels:
        network.kernels["walk"] = works(packed)
    if not network.kernels["walk"]:
        return None

    target, own = (v, goal.original) if isinstance(goal, Flip) else (goal.wanted, torch.full_like(v, -1))
    column = chosen.clamp_min(0)
    x, low, high = (t.gather(1, column) for t in (problem.rows, problem.low, problem.high))
    space, tolerance = problem.space, problem.model.tolerance
    values, count, _ = walks(
        packed, packed.start(problem.rows), chosen, x, (low, high), space.scale, space.is_integer, target, own,
        tolerance, problem.steps,
    )  # fmt: skip
    # padding points to feature 0, which must not be written over
    spare = problem.rows.shape[1]
    wide = torch.cat([problem.rows, problem.rows[:, :1]], dim=1)
    taken = (torch.arange(chosen.shape[1], device=chosen.device) < count[:, None]) & (chosen >= 0)
    found = wide.scatter(1, torch.where(taken, chosen, spare), values)[:, :spare]
    # the model has the last word: it may round in another way
    reached = (count > 0) & problem.reached(found)
    return torch.where(reached[:, None], found, problem.rows)
