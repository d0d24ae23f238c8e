"""The state of the walks of a batch: where each row is, its step control, and the feasible steps it can take."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from grace.problem.goal import MarginFunction
from grace.problem.numpy_or_torch import first_true, library, to_native
from grace.problem.problem import Problem

OVERSHOOT = 0.02  # the share by which a step aims past the linearised boundary
MARGIN = 1e-4  # and an absolute bit, for rows that sit on it
POOR = 0.25  # a step that closes less than this share of what it aimed at is doubled
PUSHES = 12  # how often in a row
PATIENCE = 12  # steps after which a row is given up if none of them closed
PROGRESS = 1e-3  # this share of the gap
LARGEST_K = 1 << 30


@dataclass(frozen=True)
class WalkState:
    """The walks that are still going, one entry per walk."""

    index: Tensor  # (n,) in the batch
    rows: Tensor  # (n, d) current points
    subset: Tensor  # (n, d) S as a mask
    towards: MarginFunction
    step: FeasibleStep
    control: StepControl

    def select(self, keep: Tensor) -> WalkState:
        """Some of the walks."""
        return WalkState(
            self.index[keep],
            self.rows[keep],
            self.subset[keep],
            self.towards.select(keep),
            self.step.select(keep),
            self.control.select(keep),
        )


class StepControl:
    """Step lengths and stopping rules, per walk (n, 1): a step that closes too little of its gap is doubled, and a walk
    is over when it arrives, makes no progress, or a shorter one of the same row has arrived."""

    def __init__(self, owner: Tensor, k: Tensor) -> None:
        """`owner` and `k` (n,): walks of the same owner stop once one with a smaller k has arrived."""
        ones = to_native(torch.ones(len(owner), 1, dtype=torch.float64, device=owner.device))
        self._library = library(ones)
        self._where: Any = self._library.where
        self.push = self.aim = ones
        self.idle = self.grad_sq_norm = 0 * ones
        self.best = self.margin = -torch.inf * ones
        self.done = ones < 0
        self.owner, self.k = to_native(owner), to_native(k[:, None])
        self._first = to_native(
            torch.full((int(self.owner.max()) + 1,), LARGEST_K, device=owner.device)
        )  # smallest k that has arrived

    @np.errstate(all="ignore")
    def update(self, margin: Any, hit: Any, grad_sq_norm: Any) -> int:
        """Take the margin and the squared gradient norm at each row, and whether it reaches the goal. Returns how many
        walks are over."""
        last, self.margin, self.grad_sq_norm = self.margin, margin, grad_sq_norm
        closed = (self.margin - last) / self.aim
        self.push = self._where(closed < POOR, self._where(closed > -1e-6, self.push * 2, 1.0), self.push)
        better = self.margin > self.best + PROGRESS * abs(self.margin)
        self.best = self._where(better, self.margin, self.best)
        self.idle = self._where(better, 0.0, self.idle + 1)
        over = (self.idle >= PATIENCE) | (self.push >= 2.0**PUSHES) | ~(self.grad_sq_norm > 0)
        at = self._where(hit, self.k, LARGEST_K)[:, 0]
        if isinstance(at, Tensor):
            self._first = self._first.scatter_reduce(0, self.owner, at, "amin")
        else:
            np.minimum.at(self._first, self.owner, at)
        self.done = self.done | hit | over | (self._first[self.owner][:, None] < self.k)
        return int(self._library.count_nonzero(self.done))

    @np.errstate(all="ignore")
    def lengths(self) -> Tensor:
        """The multiple of the gradient that reaches the linearised boundary, times `push`; 0 where the walk is over."""
        self.aim = self._where(self.margin < 0, -self.margin, 0.0) * (1 + OVERSHOOT) + MARGIN
        return torch.as_tensor(self._where(self.done, 0.0, self.push * self.aim / self.grad_sq_norm))

    def select(self, index: Tensor) -> StepControl:
        """Some of the walks."""
        place, part = to_native(index), copy(self)
        for name in ("push", "aim", "idle", "best", "margin", "grad_sq_norm", "done", "owner", "k"):
            setattr(part, name, getattr(self, name)[place])
        return part


class FeasibleStep(Protocol):
    """Projected steps on the features S of each walk."""

    def unit(self, rows: Tensor, slope: Tensor) -> Tensor:
        """The gradient (n, coordinates) of the margin as a step direction: in units of each feature's scale, on S,
        without features at a bound that it points out of."""

    def moved(self, rows: Tensor, stride: Tensor) -> Tensor:
        """The rows after a step, projected with P. May work in place."""

    def select(self, index: Tensor) -> FeasibleStep:
        """The steps of some of the walks."""


def feasible_step(problem: Problem, chosen: Tensor, taken: Tensor, subset: Tensor) -> FeasibleStep:
    """Steps on the features `chosen` (n, K) that are `taken`; `subset` (n, d) is the same as a mask."""
    return EmbeddedStep(problem, subset) if problem.space.categorical else NumericStep.of(problem, chosen, taken)


@dataclass(frozen=True)
class NumericStep:
    """Steps on the K numbers of each walk alone."""

    column: Tensor  # (n, K)
    scale: Tensor  # 0 where a feature is not in S
    low: Tensor
    high: Tensor
    whole: Tensor | None

    @classmethod
    def of(cls, problem: Problem, chosen: Tensor, taken: Tensor) -> NumericStep:
        space, column = problem.space, chosen
        taken = taken & (chosen >= 0)
        if bool((chosen < 0).any()):  # padding points to a feature that is not chosen, with scale 0
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

    def select(self, index: Tensor) -> NumericStep:
        whole = None if self.whole is None else self.whole[index]
        return NumericStep(self.column[index], self.scale[index], self.low[index], self.high[index], whole)


@dataclass(frozen=True)
class EmbeddedStep:
    """Steps in all coordinates, categories embedded."""

    problem: Problem
    subset: Tensor  # (n, d)

    def unit(self, rows: Tensor, slope: Tensor) -> Tensor:
        space, problem = self.problem.space, self.problem
        x, g = space.numbers(rows), slope[:, : space.n_numeric]
        room = torch.where(g > 0, space.numbers(problem.high) - x, x - space.numbers(problem.low))
        inward = torch.cat([g.masked_fill(room <= 0, 0), slope[:, space.n_numeric :]], dim=1)
        return inward * space.per_coordinate(self.subset) * space.scale

    def moved(self, rows: Tensor, stride: Tensor) -> Tensor:
        space = self.problem.space
        step = stride * space.scale
        landed = self.problem.project(space.embed(rows) + step)
        return torch.where(space.per_feature(step.abs()) > 0, landed, rows)

    def select(self, index: Tensor) -> EmbeddedStep:
        return EmbeddedStep(self.problem.select(index), self.subset[index])
