"""How each walk of a batch gets on: a few numbers per walk, and when it is over; see `grace.problem.numpy_or_torch`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.problem.numpy_or_torch import library, own

OVERSHOOT = 0.02  # the share by which a step aims past the linearised boundary
MARGIN = 1e-4  # and an absolute bit, for rows that sit on it
POOR = 0.25  # a step that closes less than this share of what it aimed at is doubled
PUSHES = 12  # how often in a row
PATIENCE = 12  # steps after which a row is given up if none of them closed
PROGRESS = 1e-3  # this share of the gap
LARGEST_K = 1 << 30


class Pace:
    """What `note` is told after each step, and `lengths` says of the next; all of it (n, 1)."""

    def __init__(self, owner: Tensor, k: Tensor) -> None:
        """`owner` and `k` (n,): walks of the same owner need not go on once one with a smaller k is there."""
        ones = own(torch.ones(len(owner), 1, dtype=torch.float64, device=owner.device))
        self._library = library(ones)
        self._where: Any = self._library.where
        self.push = self.aim = ones
        self.idle = self.grad_sq_norm = 0 * ones
        self.best = self.margin = -torch.inf * ones
        self.done = ones < 0
        self.owner, self.k = own(owner), own(k[:, None])
        self._first = own(torch.full((int(self.owner.max()) + 1,), LARGEST_K, device=owner.device))  # k that is there

    @np.errstate(all="ignore")
    def note(self, margin: Any, hit: Any, grad_sq_norm: Any) -> int:
        """The margin and the squared slope at each row, and whether it is there. Returns how many walks are over:
        there, stuck, idle, pushed in vain, or no longer needed."""
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
        """The factor that takes each slope to the boundary, and as far beyond as the row is pushed; 0 where the walk is
        over."""
        self.aim = self._where(self.margin < 0, -self.margin, 0.0) * (1 + OVERSHOOT) + MARGIN
        return torch.as_tensor(self._where(self.done, 0.0, self.push * self.aim / self.grad_sq_norm))

    def select(self, index: Tensor) -> None:
        """Go on with some of the walks."""
        place = own(index)
        for name in ("push", "aim", "idle", "best", "margin", "grad_sq_norm", "done", "owner", "k"):
            setattr(self, name, getattr(self, name)[place])
