"""The nodes of the branch and bound of `distance_bound`: boxes of values of the features that answers change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from grace.problem.problem import Problem, positions

THINNEST = 1e-10  # a range of this share of the whole is not halved any more


@dataclass(frozen=True)
class Nodes:
    """A stack of nodes: some features may change, each within a range, the others are left alone."""

    row: Tensor  # (N,) position of the row
    target: Tensor  # (N,) the class that is to win
    feature: Tensor  # (N, k) the changed features, those with `real`
    real: Tensor
    low: Tensor  # (N, k) their ranges
    high: Tensor
    options: Tensor  # (N, all categories) that a changed feature may still have
    bound: Tensor  # (N,) how near an answer in it can be

    def __len__(self) -> int:
        return len(self.row)

    def at(self, index: Tensor | slice) -> Nodes:
        if isinstance(index, slice):
            return Nodes(**{name: getattr(self, name)[index] for name in NAMES})
        return Nodes(**{name: getattr(self, name).index_select(0, index) for name in NAMES})

    @classmethod
    def join(cls, parts: list[Nodes]) -> Nodes:
        return cls(**{name: torch.cat([getattr(p, name) for p in parts]) for name in NAMES})


NAMES = [f.name for f in fields(Nodes)]


def shares(row: Tensor, rows: int, since: float) -> Tensor:
    """The seconds since then (rows,), charged to the rows of the nodes worked on."""
    share = torch.bincount(row, minlength=rows).to(torch.float64)
    return share / share.sum().clamp_min(1) * (time.perf_counter() - since)


def halved(problem: Problem, slots: Mapping[int, slice], nodes: Nodes, rate: Tensor) -> tuple[Nodes, Nodes]:
    """Two nodes for each, with half of the range or the categories of one changed feature: the one whose width
    times `rate` (N, k) is largest. And the nodes with nothing to halve: points, or as good as points."""
    at, row = nodes.feature, nodes.row[:, None]
    width = torch.where(nodes.real & problem.space.is_numeric[at], nodes.high - nodes.low, 0.0)
    span = (problem.high[row, at] - problem.low[row, at]).abs().clamp_min(1e-300)
    wide = width > THINNEST * span
    weight = torch.where(wide, width * rate + 1e-9 * width / span, 0.0)
    for j, slot in slots.items():
        several = (nodes.options[:, slot].sum(dim=1) > 1)[:, None] & (at == j) & nodes.real
        weight = torch.where(several, torch.inf, weight)
    best = weight.max(dim=1)
    can = best.values > 0
    points, nodes, place = nodes.at(positions(~can)), nodes.at(positions(can)), best.indices[can][:, None]
    feature = nodes.feature.gather(1, place)[:, 0]
    low, high = nodes.low.gather(1, place), nodes.high.gather(1, place)
    middle = (low + high) / 2
    number = problem.space.is_numeric[feature][:, None]
    # a box around a fraction in a column of whole numbers is halved like any other, so that no value of it is lost
    whole = problem.space.is_integer[feature][:, None] & (low == low.round()) & (high == high.round())
    end = torch.where(number, torch.where(whole, middle.floor(), middle), high)
    start = torch.where(number, torch.where(whole, middle.floor() + 1, middle), low)
    options, others = nodes.options.clone(), nodes.options.clone()
    for j, slot in slots.items():
        these = (feature == j)[:, None]
        count = nodes.options[:, slot].cumsum(dim=1)
        first = count <= count[:, -1:] // 2
        options[:, slot] &= ~these | first
        others[:, slot] &= ~(these & first)
    lower = replace(nodes, high=nodes.high.scatter(1, place, end), options=options)
    upper = replace(nodes, low=nodes.low.scatter(1, place, start), options=others)
    return Nodes.join([lower, upper]), points


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

    def keep_better(self, index: Tensor, found: Bound) -> None:
        """Put the bounds found for some nodes in the place of worse ones."""
        better = positions(found.value < self.value[index])
        for old, new in zip(self, found, strict=True):
            old[index[better]] = new[better]


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
