"""Regions: the box around an answer in which the model decides as it does there, grown side by side.

Each changed number has an interval, each changed category a set; all other features keep the row's values. A side of an
interval moves in steps that can be said, first away from the row, the largest change first, then towards it, and as far
as a proof (`boxes`) allows: the line of the feature alone says how far to try, counterexamples limit it, and bisection
does the rest. What fails in a box fails in any larger one, so that no side could go further in the end, unless the work
that a row may take ended it. Categories are added last, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from grace.methods.profiles import FARTHEST, profiles_of
from grace.models.predictor import tree_ensemble
from grace.models.relu import relu_network
from grace.problem.decimals import Decimals, digits_of
from grace.problem.numpy_or_torch import to_native, to_numpy
from grace.problem.problem import Problem
from grace.proofs.boxes import HOLDS, OUT_OF_WORK, BoxChecker, Ints, checker_of
from grace.schema.features import Bools, Floats

SECONDS = 0.04  # of work that a row may take, as it is counted
PART = 1 / 8  # of it for a single box
ASKED_BOXES = 4  # of a side, for a model that is asked at points
COMBINATIONS = 64  # of categories that a box may have


@dataclass(frozen=True)
class Regions:
    """Boxes around n answers. `known` where there is one; `complete` where no limit of work ended its growth; `points`
    at which the model was asked if nothing is `proven`."""

    low: Floats  # (n, d)
    high: Floats
    categories: dict[int, Bools]  # (n, codes) of each categorical feature: those that the box contains
    known: Bools  # (n,)
    complete: Bools  # (n,)
    points: Ints  # (n,)
    proven: bool


def regions_of(problem: Problem, contrast: Tensor, seconds: float = SECONDS) -> Regions:
    """The boxes around contrastive rows (n, d). The goal of the problem is the decision that has to hold: a class, or a
    target range. There is none for a row without an answer, or with one that is not within its limits."""
    changed = contrast != problem.rows
    known = (changed.any(dim=1) & problem.inside(contrast).all(dim=1) & problem.reached(contrast)).cpu().numpy()
    rows = contrast.cpu().numpy()
    categories = {
        j: rows[:, [j]] == np.arange(len(problem.space.vectors[j])) for j in problem.space.categorical
    }  # fmt: skip
    out = Regions(
        rows.copy(), rows.copy(), categories, known, known.copy(), known.astype(np.int64), proven=True
    )  # fmt: skip
    index = torch.as_tensor(np.flatnonzero(known), device=contrast.device)
    if len(index) == 0:
        return out
    growth = Growth(problem.select(index), contrast[index], seconds)
    growth.grow_numbers()
    growth.grow_categories()
    out.low[known], out.high[known], out.complete[known] = growth.low, growth.high, growth.complete
    out.points[known] = growth.points
    for j, codes in growth.categories.items():
        out.categories[j][known] = codes
    return replace(out, proven=growth.checker.proves)


@dataclass(frozen=True)
class Sides:
    """The sides (M,) of all boxes, those of a row one after another in the order in which they grow."""

    row: Ints
    column: Ints
    up: Bools
    value: Floats  # the value of the answer
    end: Floats  # the end of the range,
    steps: Floats  # and in how many steps it is reached
    limit: Floats  # the most steps that the feature alone can go,
    hint: Floats  # and so many that it is likely to
    base: Floats  # the decimal number from which steps are counted
    grid: Decimals = field(repr=False)

    def value_at(self, side: Ints, step: Floats) -> Floats:
        """The end of an interval after so many steps: the answer, a decimal number, or the end of the range."""
        signed = np.where(self.up[side], step, -step)
        said = self.grid.select(side).values(self.base[side] + signed)
        return np.where(step <= 0, self.value[side], np.where(step >= self.steps[side], self.end[side], said))

    def steps_before(self, side: Ints, value: Floats) -> Floats:
        """The most steps that do not reach a value beyond the answer."""
        sign, grid = np.where(self.up[side], 1.0, -1.0), self.grid.select(side)
        first = np.where(self.up[side], grid.ceil(value), grid.floor(value))
        return np.asarray(np.maximum(0.0, sign * (first - self.base[side]) - 1))

    def select(self, order: Ints) -> Sides:
        """The sides in another order."""
        parts = {name: getattr(self, name)[order] for name in vars(self) if name != "grid"}
        return Sides(**parts, grid=self.grid.select(order))


def sides_of(problem: Problem, contrast: Tensor, low: Tensor, high: Tensor) -> Sides:
    """The sides of boxes within `low` and `high` around contrastive rows."""
    row, column = torch.nonzero((contrast != problem.rows) & problem.space.is_numeric, as_tuple=True)
    part, rows, at = problem.select(row), contrast[row], column[:, None]
    x, value, bottom, top = (t.gather(1, at)[:, 0] for t in (part.rows, rows, low[row], high[row]))
    ends, missed = ends_of_lines(part, rows, column)
    size = problem.space.cost_of(value - x, column)
    host = [t.cpu().numpy() for t in (row, column, x, value, bottom, top, size)]
    row_, column_, x_, value_, bottom_, top_, size_ = (np.concatenate([t, t]) for t in host)
    up = np.arange(len(row_)) < len(row)
    inward = up == (value_ < x_)
    order = np.lexsort((column_, -size_, inward, row_))
    sizes = (to_native(t[:, None]) for t in (value, bottom, top))
    digits = to_numpy(digits_of(problem.space, at, torch.zeros_like(row), *sizes))[:, 0]
    grid = Decimals.of(np.concatenate([digits, digits]))
    end = np.where(up, top_, bottom_)
    base = np.where(up, grid.floor(value_), grid.ceil(value_))
    none = np.zeros_like(end)
    out = Sides(row_, column_, up, value_, end, none, none, none, base, grid)
    every = np.arange(len(end))
    steps = np.where(end == value_, 0.0, out.steps_before(every, end) + 1)
    reach, fails = (np.concatenate([pair[1].cpu().numpy(), pair[0].cpu().numpy()]) for pair in (ends, missed))
    hint = np.where(reach == end, steps, np.minimum(steps, out.steps_before(every, reach) + 1))
    # no limit: a miss between two whole numbers; of trees, one by less than the tolerance, which proofs do not ask for
    exact = tree_ensemble(problem.model) is None and relu_network(problem.model) is not None
    limited = exact & np.isfinite(fails) & ~problem.space.is_integer.cpu().numpy()[column_]
    limit = np.where(limited, out.steps_before(every, np.where(limited, fails, value_)), steps)
    limit = np.minimum(limit, steps)
    return replace(out, steps=steps, limit=limit, hint=np.minimum(hint, limit)).select(order)


def ends_of_lines(
    problem: Problem, rows: Tensor, column: Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Along each number (N,) of rows: the ends of the interval around its value in which the goal is sure to be reached
    if it alone moves, and the nearest points below and above at which it is missed, infinite if there are none."""
    value = rows.gather(1, column[:, None])
    if len(rows) == 0:
        return (value[:, 0], value[:, 0]), (value[:, 0], value[:, 0])
    lines = profiles_of(problem, rows, column)
    below = torch.where(~lines.holds & (lines.points < value), lines.points, -torch.inf).amax(dim=1)
    above = torch.where(~lines.holds & (lines.points > value), lines.points, torch.inf).amin(dim=1)
    return lines.around(value[:, 0]), (below, above)


class Growth:
    """Boxes (n, d) that grow, each on its own: what becomes of a row does not depend on the others."""

    def __init__(self, problem: Problem, contrast: Tensor, seconds: float) -> None:
        self.problem, space = problem, problem.space
        room = FARTHEST * space.spread
        changed = (contrast != problem.rows) & space.is_numeric
        low = torch.where(changed, torch.maximum(problem.low, contrast - room), contrast)
        high = torch.where(changed, torch.minimum(problem.high, contrast + room), contrast)
        low = torch.where(space.is_integer & changed, low.ceil(), low)
        high = torch.where(space.is_integer & changed, high.floor(), high)
        self.sides = sides_of(problem, contrast, low, high)
        self.checker: BoxChecker = checker_of(problem, contrast, low, high)
        self.rows, self.contrast = problem.rows.cpu().numpy(), contrast.cpu().numpy()
        self.low, self.high = self.contrast.copy(), self.contrast.copy()
        self.categories = {
            j: self.contrast[:, [j]] == np.arange(len(space.vectors[j])) for j in space.categorical
        }  # fmt: skip
        n = len(self.low)
        self.left, self.part = np.full(n, seconds), seconds * PART
        self.complete = np.ones(n, dtype=bool)
        self.points = np.zeros(n, dtype=np.int64) if self.checker.proves else np.ones(n, dtype=np.int64)

    def check(self, owner: Ints, low: Floats, high: Floats) -> tuple[Ints, Floats, Ints]:
        """The status of boxes (m, d) of rows (m,), where they fail, and the points at which the model was asked."""
        found = self.checker.check(owner, low, high, np.minimum(self.left[owner], self.part))
        np.subtract.at(self.left, owner, found.seconds)
        self.complete[owner[found.status == OUT_OF_WORK]] = False
        return found.status, found.point, found.points

    def grow_numbers(self) -> None:
        """Move the sides of all boxes, one side per row at a time."""
        sides, most = self.sides, np.inf if self.checker.proves else ASKED_BOXES
        ends = np.searchsorted(sides.row, np.arange(len(self.low)), side="right")
        side = np.searchsorted(sides.row, np.arange(len(self.low)))
        proven, limit, hint, tried = (np.zeros(len(side)) for _ in range(4))
        begun = np.zeros(len(side), dtype=bool)
        while True:
            active = np.flatnonzero(side < ends)
            fresh = active[~begun[active]]
            proven[fresh], tried[fresh], begun[fresh] = 0.0, 0.0, True
            limit[fresh], hint[fresh] = sides.limit[side[fresh]], sides.hint[side[fresh]]
            over = active[(proven[active] >= limit[active]) | (tried[active] >= most) | (self.left[active] <= 0)]
            self.complete[over[proven[over] < limit[over]]] = False
            side[over] += 1
            begun[over] = False
            rows = np.setdiff1d(active, over)
            if len(rows) == 0:
                if len(over) == 0:
                    return
                continue
            step = np.floor((proven[rows] + limit[rows] + 1) / 2)
            second = np.where(proven[rows] > 0, proven[rows] + 1, limit[rows])
            step = np.where(
                tried[rows] == 0, np.minimum(hint[rows], limit[rows]), np.where(tried[rows] == 1, second, step)
            )
            tried[rows] += 1
            here = side[rows]
            column, up, value = sides.column[here], sides.up[here], sides.value_at(here, step)
            low, high = self.low[rows], self.high[rows]
            place = np.arange(len(rows))
            low[place[~up], column[~up]], high[place[up], column[up]] = value[~up], value[up]
            status, point, points = self.check(rows, low, high)
            held = status == HOLDS
            done = rows[held]
            self.low[done], self.high[done], proven[done] = low[held], high[held], step[held]
            self.points[done] = points[held]
            fails = rows[~held]
            before = sides.steps_before(here[~held], point[~held, column[~held]])
            known = status[~held] != OUT_OF_WORK
            before = np.where(known & (point[~held] != low[~held]).any(axis=1), before, np.inf)
            limit[fails] = np.maximum(proven[fails], np.minimum(step[~held] - 1, before))

    def grow_categories(self) -> None:
        """Add categories, one by one; a box with several categories is one box for each combination."""
        space = self.problem.space
        low, high = self.problem.low.cpu().numpy(), self.problem.high.cpu().numpy()
        for j in space.categorical:
            moved = self.contrast[:, j] != self.rows[:, j]
            for code in space.choices[j].tolist():
                fits = moved & ~self.categories[j][:, code] & (self.rows[:, j] != code)
                rows = np.flatnonzero(fits & (low[:, j] <= code) & (code <= high[:, j]))
                if len(rows):
                    self._add(rows, j, code)

    def _add(self, rows: Ints, j: int, code: int) -> None:
        """Add a category to the boxes of some rows, where it holds."""
        count = np.prod([self.categories[k][rows].sum(axis=1) for k in self.categories if k != j] or [1], axis=0)
        possible = (self.left[rows] > 0) & (count <= COMBINATIONS)
        self.complete[rows[~possible]] = False
        owner = rows = rows[possible]
        low, high = self.low[owner], self.high[owner]
        low[:, j] = high[:, j] = code
        for k, codes in self.categories.items():
            if k != j:
                at, others = np.nonzero(codes[owner])
                owner, low, high = owner[at], low[at], high[at]
                low[:, k] = high[:, k] = others
        status, _, points = self.check(owner, low, high)
        fails = np.unique(owner[status != HOLDS])
        added = np.setdiff1d(rows, fails)
        self.categories[j][added, code] = True
        np.add.at(self.points, owner[np.isin(owner, added)], points[np.isin(owner, added)])
