"""The values that numbers have in training rows: a few of each for the search, and all of them for single changes.

Of a model that is known by its predictions alone, nothing can be said about values that it was not asked about. So it
is asked about single changes to every observed value that is nearer than the nearest answer found so far, which is all
of them where there is none yet: no observed value that reaches the goal alone is overlooked. Where that would be more
than MOST values, a row that has an answer keeps it, and for one without so many are asked about, evenly chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grace.models.predictor import Predictor
from grace.problem.problem import BackgroundRows, Problem, positions
from grace.problem.space import Space

FEW = 48  # values of a number that the search tries, on average
MOST = 1024  # values of all numbers of a row that are asked about in addition
CHUNK_BYTES = 1 << 22  # of rows that are asked about together


@dataclass(frozen=True)
class ObservedValues:
    """Different values of each number in training rows: a few, evenly chosen, with the feature of each; and all others
    in rising order, number by number: those of the k-th from `begins[k]` to `begins[k + 1]`."""

    few: Tensor
    feature: Tensor
    others: Tensor
    begins: list[int]

    @classmethod
    def of(cls, space: Space, background: BackgroundRows) -> ObservedValues:
        """Those of the background rows, computed once."""
        known: ObservedValues | None = background.cache.get("observed values")
        if known is None:
            known = background.cache["observed values"] = cls._among(space, background.rows)
        return known

    @classmethod
    def _among(cls, space: Space, rows: Tensor) -> ObservedValues:
        features = positions(space.is_numeric).tolist()
        distinct = [torch.unique(rows[:, j]) for j in features]
        few, owner, others, begins = [rows.new_zeros(0)], [torch.zeros(0, dtype=torch.long)], [rows.new_zeros(0)], [0]
        for j, seen, take in zip(features, distinct, shares([len(seen) for seen in distinct], FEW), strict=True):
            place = torch.linspace(0, len(seen) - 1, take, device=rows.device).round().long()
            rest = torch.ones_like(seen, dtype=torch.bool).index_fill(0, place, False)
            few.append(seen[place])
            owner.append(torch.full((take,), j))
            others.append(seen[rest])
            begins.append(begins[-1] + len(others[-1]))
        return cls(torch.cat(few), torch.cat(owner).to(rows.device), torch.cat(others), begins)


def shares(sizes: list[int], count: int) -> list[int]:
    """How many of so many values to choose for each number: `count` on average. What numbers with fewer values leave
    goes to the others."""
    left, take = count * len(sizes), [0] * len(sizes)
    for done, j in enumerate(sorted(range(len(sizes)), key=lambda j: sizes[j])):
        take[j] = min(sizes[j], left // (len(sizes) - done))
        left -= take[j]
    return take


def is_scanned(problem: Problem) -> bool:
    """Whether all observed values are asked about: of models that are known by their predictions alone."""
    known = isinstance(problem.model, Predictor) and problem.model.trees is None
    return known and problem.background is not None


def nearest_flips(problem: Problem, reach: Tensor) -> tuple[Tensor, Tensor]:
    """For each number (n, d) the nearest other observed value that reaches the goal alone, at a cost below that of the
    row (n,), and whether there is one; else its own value."""
    assert problem.background is not None
    values = problem.rows.clone()
    least = torch.full_like(values, torch.inf)
    seen = ObservedValues.of(problem.space, problem.background)
    for owner, feature, value in _questions(problem, seen, reach):
        each = problem.select(owner)
        column = feature[:, None]
        tried = each.rows.scatter(1, column, value[:, None])
        cost = problem.space.cost_of(value - each.rows.gather(1, column)[:, 0], feature)
        hit = positions(each.reached(tried) & (cost < reach[owner]))
        cell = owner[hit] * values.shape[1] + feature[hit]
        least.view(-1).scatter_reduce_(0, cell, cost[hit], "amin")
        nearest = hit[cost[hit] == least.view(-1)[cell]].flip(0)  # of two as near, the lower
        values[owner[nearest], feature[nearest]] = value[nearest]
    return values, torch.isfinite(least)


def _questions(problem: Problem, seen: ObservedValues, reach: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The rows, features and values of single changes to observed values, in chunks; all of a row in one."""
    features = positions(problem.space.is_numeric)
    begin, count = _segments(problem, seen, features, reach)
    total = count.sum(dim=1)
    # a part of the nearer values proves nothing, and rarely brings a nearer answer
    asked = torch.where((total > MOST) & torch.isfinite(reach), 0, total.clamp_max(MOST))
    step = max(1, CHUNK_BYTES // (8 * problem.rows.shape[1]))
    chunk = (asked.cumsum(0) - 1).div(step, rounding_mode="floor")
    for rows in torch.split(torch.arange(len(chunk)), torch.unique_consecutive(chunk, return_counts=True)[1].tolist()):
        many = asked[rows]
        if int(many.sum()) == 0:
            continue
        owner = rows.repeat_interleave(many)
        place = torch.arange(len(owner)) - (many.cumsum(0) - many).repeat_interleave(many)
        all_of = total[owner]
        place = torch.where(all_of > MOST, ((2 * place + 1) * all_of).div(2 * MOST, rounding_mode="floor"), place)
        ends = count[rows].flatten().cumsum(0)
        place += (total[rows].cumsum(0) - total[rows]).repeat_interleave(many)
        segment = torch.searchsorted(ends, place, right=True)
        index = begin[rows].flatten()[segment] + place - (ends - count[rows].flatten())[segment]
        yield owner, features[segment // 2 % len(features)], seen.others[index]


def _segments(problem: Problem, seen: ObservedValues, features: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    """Where the values of each number below and above the row's own begin (n, 2 numbers) that are within its limits and
    reach, and how many there are."""
    x, low, high, free = (t[:, features] for t in (problem.rows, problem.low, problem.high, problem.free))
    weight = problem.space.weight[features]
    far = torch.where(weight > 0, reach[:, None] * problem.space.spread[features] / weight, torch.inf)
    low, high = torch.maximum(low, x - far), torch.minimum(high, x + far)
    ends: list[Any] = []
    for k, start in enumerate(seen.begins[:-1]):
        values = seen.others[start : seen.begins[k + 1]]
        sides = ((low, False), (torch.minimum(x, high), False), (torch.maximum(x, low), True), (high, True))
        ends.append([start + torch.searchsorted(values, at[:, k].contiguous(), right=right) for at, right in sides])
    if not ends:
        return (torch.zeros(len(x), 0, dtype=torch.long),) * 2
    first, last, above, end = (torch.stack([e[i] for e in ends], dim=1) for i in range(4))
    begin, stop = (torch.stack(pair, dim=2).flatten(1) for pair in ((first, above), (last, end)))
    return begin, (stop - begin).clamp_min(0) * free.repeat_interleave(2, dim=1)
