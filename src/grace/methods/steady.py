"""Answers with room around them: of equally few features, those whose values may still move without losing the class.

The nearest answer stands at the boundary, and where the model's class changes back soon, on a spike: along age, a
forest may flip eleven times. An answer is steady if each of its numbers, moving alone, keeps it one over at least a
twentieth of a spread (two whole numbers, if its range has two on one side of the row's); it then stands a tenth of that
span inside it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grace.methods.polish import first_columns, irreducible
from grace.methods.profiles import profiles_of
from grace.problem.decimals import Decimals, digits_of
from grace.problem.numpy_or_torch import to_native
from grace.problem.problem import Problem, positions

STEADY = 0.05  # of a spread
WHOLE = 2  # whole numbers
INSIDE = 0.1  # of the span
DEEPER = 0.5  # the same where another number of the answer is on a spike, to which this gives room
TURNS = 4  # in which numbers of an answer may move in compiled code
MORE_DIGITS = 3  # that a value may get if nothing coarser lies in the span


def steadied(problem: Problem, answers: Tensor) -> Tensor:
    """Answers (n, d) with each changed number in turn moved into the nearest span of its line that is steady, or into
    the widest; those that are none afterwards stay as they were."""
    out = answers.clone()
    changed = (out != problem.rows) & problem.space.is_numeric
    order = first_columns(changed)
    for place in range(order.shape[1]):
        these = positions(changed.gather(1, order[:, [place]])[:, 0])
        part, column = problem.select(these), order[these, place]
        out[these] = _moved(part, out[these], column)
    keeps = (
        problem.reached(out)
        & problem.inside(out).all(dim=1)
        & ((out != problem.rows) == (answers != problem.rows)).all(dim=1)
    )
    return irreducible(problem, torch.where(keeps[:, None], out, answers))


def steadiness(problem: Problem, answers: Tensor) -> Tensor:
    """The width (n,) of the narrowest span of each answer's numbers, 1 for one that is just steady; infinite for
    categories alone."""
    out = answers.new_full((len(answers),), torch.inf)
    row, column = torch.nonzero((answers != problem.rows) & problem.space.is_numeric, as_tuple=True)
    if len(row):
        part, rows = problem.select(row), answers[row]
        low, high = profiles_of(part, rows, column).around(rows.gather(1, column[:, None])[:, 0])
        width = _width(part, column[:, None], low[:, None], high[:, None])[:, 0]
        out.scatter_reduce_(0, row, width, "amin")
    return out


def _width(problem: Problem, column: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How wide spans (N, P) of features (N, 1) are, in terms of what is steady. A single whole number is, where the
    range has no two on one side of the row's."""
    x, least, most = (t.gather(1, column) for t in (problem.rows, problem.low.ceil(), problem.high.floor()))
    above = most - torch.maximum(least, x.floor() + 1) + 1
    below = torch.minimum(most, x.ceil() - 1) - least + 1
    needed = torch.maximum(above, below).clamp(1, WHOLE)
    whole = ((high + 1e-9).floor() - (low - 1e-9).ceil() + 1) / needed
    return torch.where(problem.space.is_integer[column], whole, (high - low) / (STEADY * problem.space.spread[column]))


def _moved(problem: Problem, rows: Tensor, column: Tensor) -> Tensor:
    """Rows with one number (n,) each in the nearest steady span of its line, or in the widest."""
    at = column[:, None]
    x, value = problem.rows.gather(1, at), rows.gather(1, at)
    lines = profiles_of(problem, rows, column)
    low, high = lines.runs()
    usable = lines.holds & ((low > x) | (high < x))
    width = _width(problem, at, low, high)
    apart = torch.where(low > x, low - x, x - high)
    steady = usable & (width >= 1)
    none = ~steady.any(dim=1, keepdim=True)
    key = torch.where(none, -width, apart).masked_fill(~torch.where(none, usable, steady), torch.inf)
    best = key.argmin(dim=1, keepdim=True)
    found = torch.isfinite(key.gather(1, best))
    placed = _inside(problem, at, x, low.gather(1, best), high.gather(1, best))
    return rows.scatter(1, at, torch.where(found & torch.isfinite(placed), placed, value))


def _inside(problem: Problem, column: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """A value (n, 1) that can be said, a tenth of the span inside it, as seen from x; NaN where there is none."""
    up = low > x
    aim = torch.where(up, low + INSIDE * (high - low), high - INSIDE * (high - low))
    out = torch.full_like(aim, torch.nan)
    for more in range(MORE_DIGITS + 1):
        extra = torch.full_like(column[:, 0], more)
        grid = Decimals.of(digits_of(problem.space, column, extra, *(to_native(t) for t in (x, low, high))))
        value = torch.where(
            up,
            torch.as_tensor(grid.values(grid.ceil(to_native(aim)))),
            torch.as_tensor(grid.values(grid.floor(to_native(aim)))),
        )
        fits = out.isnan() & (value >= low) & (value <= high)
        out = torch.where(fits, value, out)
    return out
