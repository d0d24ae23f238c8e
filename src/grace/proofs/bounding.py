"""The parts of an upper bound over a node: what its changed features can do, the lines around a ReLU, the bound."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from grace.problem.problem import positions


class MoveBounds(NamedTuple):
    """What the changed features can do to the first layer: z moves along directions, by shares from low to high."""

    direction: Tensor  # (N, k, v, h); one per number, one per category
    low: Tensor  # (N, k, v)
    high: Tensor
    barred: Tensor | None  # (N, k, v) directions that do not exist, if any

    def at(self, index: Tensor) -> MoveBounds:
        barred = None if self.barred is None else self.barred[index]
        return MoveBounds(self.direction[index], self.low[index], self.high[index], barred)

    def span(self) -> tuple[Tensor, Tensor]:
        """The most (N, h) that the changed features together can raise and lower each neuron."""
        if self.barred is None:
            middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
            centre = (self.direction * middle[..., None]).sum(dim=(1, 2))
            around = (self.direction.abs() * radius[..., None]).sum(dim=(1, 2))
            return around + centre, around - centre
        ends = self.direction * self.low[..., None], self.direction * self.high[..., None]
        up = torch.maximum(*ends).masked_fill(self.barred[..., None], -torch.inf)
        down = torch.minimum(*ends).masked_fill(self.barred[..., None], torch.inf)
        return up.amax(dim=2).sum(dim=1), -down.amin(dim=2).sum(dim=1)

    def most(self, slope: Tensor) -> Tensor:
        """The most (N, m, k) that each changed feature can add, from its slopes (N, m, k, v)."""
        value = torch.maximum(slope * self.low[:, None], slope * self.high[:, None])
        if self.barred is not None:
            value = value.masked_fill(self.barred[:, None], -torch.inf)
        return value.amax(dim=3)


class Bound(NamedTuple):
    """Of each node: an upper bound on the target's margin, what rounding may have cost, and the slope of the
    deciding relaxation in the first layer."""

    value: Tensor  # (N,)
    slack: Tensor  # (N,)
    slope: Tensor  # (N, h)

    def undone(self) -> Tensor:
        """Positions of the nodes that the bound does not exclude; NaN excludes nothing."""
        return positions(~(self.value < -self.slack))

    def unclear(self) -> Tensor:
        """Positions of the nodes for which rounding decides."""
        return positions(~(self.value.abs() > self.slack))

    def at(self, index: Tensor) -> Bound:
        return Bound(*(part.index_select(0, index) for part in self))

    def double(self) -> Bound:
        return Bound(*(part.double() for part in self))

    def put(self, index: Tensor, found: Bound) -> None:
        """Put the bounds found for some nodes in the place of others."""
        for old, new in zip(self, found, strict=True):
            old[index] = new

    def keep_better(self, index: Tensor, found: Bound) -> None:
        """Put the bounds found for some nodes in the place of worse ones."""
        better = positions(found.value < self.value[index])
        self.put(index[better], found.at(better))


class ReluRelaxation(NamedTuple):
    """Linear relaxation of a ReLU: lower_slope z <= relu(z) <= upper_slope z + upper_intercept."""

    upper_slope: Tensor
    upper_intercept: Tensor
    lower_slope: Tensor


def relu_relaxation(low: Tensor, high: Tensor) -> ReluRelaxation:
    """The lines of ReLUs with limits; below one that may be either way, the one that leaves less room."""
    above, below = high.clamp_min(0), low.clamp_max(0)  # one of them is 0 where the ReLU is on or off
    steep = above / (above - below).clamp_min(torch.finfo(low.dtype).tiny)
    return ReluRelaxation(steep, -below * steep, (above > -below).to(low.dtype))


def dot(rows: Tensor, column: Tensor) -> Tensor:
    """The products (N, m) of rows (N, m, h) with a column (N, h)."""
    if rows.shape[1] == 1:  # much faster than many small matrix products
        return (rows * column[:, None]).sum(dim=2)
    return (rows @ column[:, :, None])[..., 0]
