"""Where the walks of a batch may go: on the few numbers that they change or, if there are categories, in all
coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from grace.problem.numpy_or_torch import first_true
from grace.problem.problem import Problem


class Ground(Protocol):
    def unit(self, rows: Tensor, slope: Tensor) -> Tensor:
        """The slope (n, coordinates) of the margin as a direction to step in: in units of each feature's scale, on the
        features in S, without those that sit at their bound and are pushed outwards."""

    def moved(self, rows: Tensor, stride: Tensor) -> Tensor:
        """The rows after such a step, projected with P. They may be written over."""

    def select(self, index: Tensor) -> Ground:
        """The ground of some of the walks."""


def ground_of(problem: Problem, chosen: Tensor, taken: Tensor, subset: Tensor) -> Ground:
    """Where walks go that change the features `chosen` (n, K), as far as they are `taken`; `subset` (n, d) says the
    same."""
    return Coordinates(problem, subset) if problem.space.categorical else Numbers.of(problem, chosen, taken)


@dataclass(frozen=True)
class Numbers:
    column: Tensor  # (n, K)
    scale: Tensor  # 0 where a feature is not in S
    low: Tensor
    high: Tensor
    whole: Tensor | None

    @classmethod
    def of(cls, problem: Problem, chosen: Tensor, taken: Tensor) -> Numbers:
        space, column = problem.space, chosen
        taken = taken & (chosen >= 0)
        if bool((chosen < 0).any()):  # what is not there stands for a feature that stays
            width = problem.rows.shape[1]
            free = torch.ones(len(chosen), width + 1, dtype=torch.bool, device=chosen.device)
            free.scatter_(1, torch.where(chosen < 0, width, chosen), False)
            column = torch.where(chosen < 0, first_true(free[:, :width]), chosen)
        whole = space.is_integer[column] if space.has_integers else None
        return cls(
            column, space.scale[column] * taken, problem.low.gather(1, column), problem.high.gather(1, column), whole
        )

    def unit(self, rows: Tensor, slope: Tensor) -> Tensor:
        x, g = rows.gather(1, self.column), slope.gather(1, self.column)
        room = torch.where(g > 0, self.high - x, x - self.low)
        return g.masked_fill(room <= 0, 0).mul_(self.scale)

    def moved(self, rows: Tensor, stride: Tensor) -> Tensor:
        x, step = rows.gather(1, self.column), stride * self.scale
        landed = (x + step).clamp_(self.low, self.high)
        if self.whole is not None:
            landed = torch.where(self.whole, landed.round(), landed)
        return rows.scatter_(1, self.column, torch.where(step != 0, landed, x))

    def select(self, index: Tensor) -> Numbers:
        whole = None if self.whole is None else self.whole[index]
        return Numbers(self.column[index], self.scale[index], self.low[index], self.high[index], whole)


@dataclass(frozen=True)
class Coordinates:
    problem: Problem
    subset: Tensor  # (n, d)

    def unit(self, rows: Tensor, slope: Tensor) -> Tensor:
        space, problem = self.problem.space, self.problem
        x, g = space.numbers(rows), slope[:, : space.plain]
        room = torch.where(g > 0, space.numbers(problem.high) - x, x - space.numbers(problem.low))
        inward = torch.cat([g.masked_fill(room <= 0, 0), slope[:, space.plain :]], dim=1)
        return inward * space.per_coordinate(self.subset) * space.scale

    def moved(self, rows: Tensor, stride: Tensor) -> Tensor:
        space = self.problem.space
        step = stride * space.scale
        landed = self.problem.project(space.embed(rows) + step)
        return torch.where(space.per_feature(step.abs()) > 0, landed, rows)

    def select(self, index: Tensor) -> Coordinates:
        return Coordinates(self.problem.select(index), self.subset[index])
