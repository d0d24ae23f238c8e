"""Line search from a candidate back to x: the last value of a feature at which the row still reaches the goal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.methods.moves import Moves
from grace.models.relu import ReluNetwork, relu_network
from grace.problem.budget import at_once
from grace.problem.decimals import Decimals, digits_of
from grace.problem.numpy_or_torch import first_true, library, pick, places, to_native
from grace.problem.problem import Problem

SCAN = 16  # values tried between x and the candidate, to bracket the first that works
ROUNDING = 1e-9  # error allowed for margins by rank-one updates of the first layer
HALVINGS = 64  # enough for any number of steps
CHUNK_BYTES = 1 << 21  # of the first layer of a network: what stays in the caches of a core


@dataclass(frozen=True)
class Segment:
    """Features (n, c) on the way from x to candidates: where each begins, the first step beyond x that lies in its
    range, and how many steps (n, c) are between there and the candidate."""

    column: Tensor
    value: Any  # of the candidate
    grid: Decimals
    begin: Any
    sign: Any
    length: Any

    @classmethod
    def of(cls, problem: Problem, contrast: Tensor, column: Tensor, more: Tensor) -> Segment:
        x, value, low, high = (
            to_native(t.gather(1, column)) for t in (problem.rows, contrast, problem.low, problem.high)
        )
        lib = library(x)
        grid = Decimals.of(digits_of(problem.space, column, more, x, value))
        up = value > x
        sign = lib.where(up, 1.0, -1.0)
        above, below = lib.maximum(grid.floor(x) + 1, grid.ceil(low)), lib.minimum(grid.ceil(x) - 1, grid.floor(high))
        begin, end = lib.where(up, above, below), lib.where(up, grid.floor(value), grid.ceil(value))
        length = (end - begin) * sign
        return cls(column, value, grid, begin, sign, lib.where(length > 0, length, 0.0))

    def select(self, index: Any) -> Segment:
        """The segments of some rows."""
        return self._part(self.column[torch.as_tensor(index)], index)

    def feature(self, place: int) -> Segment:
        """The segment of one feature (n, 1) per row."""
        here = (slice(None), slice(place, place + 1))
        return self._part(self.column[here], here)

    def _part(self, column: Tensor, index: Any) -> Segment:
        parts = (self.value[index], self.grid.select(index), self.begin[index], self.sign[index], self.length[index])
        return Segment(column, *parts)

    def values(self, steps: Any) -> Any:
        """The values after so many steps."""
        return self.grid.values(self.begin + self.sign * steps)


def nearest_working_value(problem: Problem, contrast: Tensor, way: Segment) -> Tensor:
    """The rows with the nearest decimal number that reaches the goal for one feature (n, 1) per row: a scan brackets
    it, `closed_in` refines it."""
    lib = library(way.length)
    line = Line.of(problem, contrast, way)
    tried = lib.floor(way.length * to_native(shares(contrast.device)))
    margin = line.margin(tried)
    hits = margin >= problem.model.tolerance
    hits[:, -1] = True  # the candidate itself
    first = first_true(hits)
    last = first - 1 * (first > 0)
    works = pick(tried, first)
    fails = lib.where(first > 0, lib.minimum(pick(tried, last), works - 1), works - 1)
    works = closed_in(line, fails, works, pick(margin, last), pick(margin, first))
    value = lib.where(works == way.length, way.value, way.values(works))
    return contrast.scatter(1, way.column, torch.as_tensor(value))


@cache
def shares(device: torch.device) -> Tensor:
    """The fractions of the segment that a scan tries."""
    return torch.linspace(0, 1, SCAN, dtype=torch.float64, device=device)


@dataclass(frozen=True)
class Line:
    """Rows in which one feature moves along its segment."""

    problem: Problem
    rows: Tensor
    way: Segment
    network: ReluNetwork | None  # on a CPU, where the first layer is updated instead of computed anew
    first: Tensor  # (n, 1, h) pre-activations of the first layer
    weight: Tensor  # (n, 1, h) their derivative in the feature

    @classmethod
    def of(cls, problem: Problem, rows: Tensor, way: Segment) -> Line:
        network = relu_network(problem.model) if rows.is_cpu else None
        if network is None:
            return cls(problem, rows, way, None, rows, rows)
        return cls(problem, rows, way, network, network.first(rows)[:, None], network.weight.T[way.column])

    def margin(self, steps: Any) -> Any:
        """The margin (n, m) after so many steps (n, m), less what rounding may make of it."""
        values = self.way.values(steps)
        if self.network is None:
            column = self.way.column.expand(-1, steps.shape[1])
            moves = Moves(column, torch.as_tensor(values), relu_network(self.problem.model))
            return to_native(moves.margins(self.problem, self.rows)) - ROUNDING
        far = torch.as_tensor(values - self.way.value)[:, :, None]
        return to_native(self._margin(self.network, far)) - ROUNDING

    def _margin(self, network: ReluNetwork, far: Tensor) -> Tensor:
        """In a ReLU network a move adds a multiple of one column to the first layer."""
        goal = self.problem.goal
        chunk = max(1, at_once(CHUNK_BYTES, far.device) // (8 * far.shape[1] * self.first.shape[2]))
        if len(far) <= chunk:
            return goal.margin(network.rest(torch.addcmul(self.first, far, self.weight)))
        parts = []
        for here in torch.split(torch.arange(len(far), device=far.device), chunk):
            z = torch.addcmul(self.first[here], far[here], self.weight[here])
            parts.append(goal.select(here).margin(network.rest(z)))
        return torch.cat(parts)

    def select(self, index: Any) -> Line:
        at = torch.as_tensor(index)
        problem, way = self.problem.select(at), self.way.select(index)
        return Line(problem, self.rows[at], way, self.network, self.first[at], self.weight[at])


def closed_in(line: Line, fails: Any, works: Any, below: Any, above: Any) -> Any:
    """The fewest steps (n, 1) that reach the goal, between a number that fails and one that works, with their margins:
    regula falsi plus bisection."""
    tolerance, lib = line.problem.model.tolerance, library(works)
    found, left = works + 0, to_native(torch.arange(len(works), device=line.rows.device))
    for _ in range(HALVINGS):
        apart = works - fails
        going = apart > 1
        many = int(going.sum())
        if many == 0:
            break
        if 2 * many <= len(going):
            found[left] = works
            keep = places(going[:, 0])
            left, line = left[keep], line.select(keep)
            fails, works, below, above, apart = (t[keep] for t in (fails, works, below, above, apart))
        with np.errstate(all="ignore"):
            share = (tolerance - below) / (above - below)
        guess = fails + lib.floor(apart * lib.where(lib.isfinite(share), share, 0.5))
        middle = fails + lib.floor(apart / 2)
        # in order: the middle lies before the two or after them
        ordered = [lib.minimum(guess, middle), lib.maximum(guess, lib.minimum(guess + 1, middle))]
        tried = lib.concatenate([*ordered, lib.maximum(guess + 1, middle)], axis=1)
        tried = lib.maximum(lib.minimum(tried, works - 1), fails + 1)
        margin = line.margin(tried)
        steps, margins = lib.concatenate([fails, tried, works], axis=1), lib.concatenate([below, margin, above], axis=1)
        hits = lib.concatenate([margin >= tolerance, works > fails], axis=1)
        first = first_true(hits)
        fails, works = pick(steps, first), pick(steps, first + 1)
        below, above = pick(margins, first), pick(margins, first + 1)
    found[left] = works
    return found
