"""The last value of a feature, on the way from a candidate back to x, at which a row still reaches the goal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.arrays import first_true, library, own, pick, places
from grace.decimals import Decimals, digits_of
from grace.memory import at_once
from grace.models.relu import relu_network
from grace.moves import Moves
from grace.problem import Problem

SCAN = 16  # values tried between x and the candidate before the first that works is closed in on
ROUNDING = 1e-9  # what a margin may differ by that is not worked out from the whole row
HALVINGS = 64  # enough for any number of steps
CHUNK_BYTES = 1 << 21  # of the first layer of a network: what stays in the caches of a core


def pull_back_one(problem: Problem, contrast: Tensor, column: Tensor, more: Tensor) -> Tensor:
    """The nearest decimal number for one feature (n, 1) per row: a scan, then the first that works is closed in on,
    where the margins say it should be."""
    x, value, low, high = (own(t.gather(1, column)) for t in (problem.rows, contrast, problem.low, problem.high))
    lib = library(x)
    grid = Decimals.of(digits_of(problem.space, column, more))
    at, end, least, most = grid.steps(lib.stack([x, value, low, high]))
    up = value > x
    sign = lib.where(up, 1.0, -1.0)
    # the first step beyond x that lies in the range
    after, before = lib.maximum(lib.floor(at) + 1, lib.ceil(least)), lib.minimum(lib.ceil(at) - 1, lib.floor(most))
    begin = lib.where(up, after, before)
    line = Line(problem, contrast, column, value, grid, begin, sign, first_layer(problem, contrast, column))
    length = (end.round() - begin) * sign
    length = lib.where(length > 0, length, 0.0)
    tried = lib.floor(length * own(shares(column.device)))
    margin = line.margin(tried)
    hits = margin >= problem.model.tolerance
    hits[:, -1] = True  # the candidate itself
    first = first_true(hits)
    last = first - (first > 0)
    works = pick(tried, first)
    fails = lib.where(first > 0, lib.minimum(pick(tried, last), works - 1), works - 1)
    works = closed_in(line, fails, works, pick(margin, last), pick(margin, first))
    return contrast.scatter(1, column, torch.as_tensor(lib.where(works == length, value, line.values(works))))


@cache
def shares(device: torch.device) -> Tensor:
    """The parts of the way that a scan tries."""
    return torch.linspace(0, 1, SCAN, dtype=torch.float64, device=device)


@dataclass(frozen=True)
class Line:
    """Rows in which one feature moves by whole steps from where it begins, away from x."""

    problem: Problem
    rows: Tensor
    column: Tensor
    value: Any  # of the feature in the rows
    grid: Decimals
    begin: Any
    sign: Any
    layer: tuple[Tensor, Tensor] | None  # see `first_layer`

    def values(self, steps: Any) -> Any:
        return self.grid.values(self.begin + self.sign * steps)

    def margin(self, steps: Any) -> Any:
        """The margin (n, m) after so many steps (n, m), less what rounding may make of it."""
        values = self.values(steps)
        if self.layer is None:
            moves = Moves(self.column.expand(-1, steps.shape[1]), torch.as_tensor(values), None)
            return own(moves.margins(self.problem, self.rows)) - ROUNDING
        return own(self._margin(*self.layer, torch.as_tensor(values - self.value)[:, :, None])) - ROUNDING

    def _margin(self, first: Tensor, weight: Tensor, far: Tensor) -> Tensor:
        """In a ReLU network a move adds a multiple of one column to the first layer."""
        goal, network = self.problem.goal, relu_network(self.problem.model)
        assert network is not None
        chunk = max(1, at_once(CHUNK_BYTES, far.device) // (8 * far.shape[1] * first.shape[2]))
        if len(far) <= chunk:
            return goal.margin(network.rest(torch.addcmul(first, far, weight)))
        parts = []
        for here in torch.split(torch.arange(len(far), device=far.device), chunk):
            z = torch.addcmul(first[here], far[here], weight[here])
            parts.append(goal.select(here).margin(network.rest(z)))
        return torch.cat(parts)

    def select(self, index: Any) -> Line:
        at = torch.as_tensor(index)
        parts = (self.value[index], self.grid.select(index), self.begin[index], self.sign[index])
        layer = None if self.layer is None else (self.layer[0][at], self.layer[1][at])
        return Line(self.problem.select(at), self.rows[at], self.column[at], *parts, layer)


def first_layer(problem: Problem, rows: Tensor, column: Tensor) -> tuple[Tensor, Tensor] | None:
    """Of a ReLU network: what its first layer, before its ReLU, makes of the rows (n, 1, h), and what it adds (n, 1, h)
    for each unit of one feature (n, 1)."""
    network = relu_network(problem.model)
    return None if network is None else (network.first(rows)[:, None], network.weight.T[column])


def closed_in(line: Line, fails: Any, works: Any, below: Any, above: Any) -> Any:
    """The number of steps (n, 1), after one that fails, that works: between two such, and their margins, is tried where
    the margin should change its sign, were it straight, and the middle."""
    tolerance, lib = line.problem.model.tolerance, library(works)
    found, left = works + 0, own(torch.arange(len(works), device=line.column.device))
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
