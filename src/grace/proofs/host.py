"""A problem in host memory, where compiled code is, and proofs are made."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from grace.models.base import Model
from grace.problem.problem import Problem

HOST = torch.device("cpu")


class DistantModel(Model):
    """A model on another device, asked there about rows in host memory: it has the last word on answers."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.schema = model, model.name, model.schema
        self.classes, self.task, self.cutoffs = model.classes, model.task, model.cutoffs
        self.tolerance = model.tolerance

    def scores(self, rows: Tensor) -> Tensor:
        return self.model.scores(rows.to(self.model.device)).to(HOST)


def on_host(problem: Problem) -> Problem:
    """A problem without further requirements in host memory: itself if it is there, else without background rows, which
    no proof needs."""
    if problem.rows.is_cpu:
        return problem
    assert problem.origin is None
    moved = {name: getattr(problem, name).to(HOST) for name in ("rows", "low", "high", "free", "conflict")}
    space, goal = problem.space.on(HOST), problem.goal.on(HOST)
    return replace(problem, model=DistantModel(problem.model), space=space, goal=goal, background=None, **moved)
