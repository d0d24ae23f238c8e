"""Between which values of one changed number, the other changes being as they are, an answer stays an answer."""

from __future__ import annotations

import torch
from torch import Tensor

from grace.arrays import own
from grace.decimals import Decimals, digits_of
from grace.problem import Problem
from grace.profiles import profiles_of

BRITTLE = 0.01  # of a spread: an answer that ends so soon beyond its value is worth a note


def spans_of(problem: Problem, contrast: Tensor) -> Tensor:
    """The lowest and the highest value (n, d, 2) of each changed number between which, it alone moving, the goal is
    reached: the end of its range, or a value that can be said, each checked by the model. NaN elsewhere."""
    out = contrast.new_full((*contrast.shape, 2), torch.nan)
    row, column = torch.nonzero((contrast != problem.rows) & problem.space.is_numeric, as_tuple=True)
    if len(row) == 0:
        return out
    part, rows = problem.select(row), contrast[row]
    at = column[:, None]
    value, bottom, top = (t.gather(1, at) for t in (rows, part.low, part.high))
    low, high = (end[:, None] for end in profiles_of(part, rows, column).around(value[:, 0]))
    ends = tuple(own(t) for t in (low, high, value))
    grid = Decimals.of(digits_of(problem.space, at, torch.zeros_like(row), *ends))
    below = torch.where(low == bottom, low, torch.as_tensor(grid.values(grid.ceil(ends[0]))))
    above = torch.where(high == top, high, torch.as_tensor(grid.values(grid.floor(ends[1]))))
    below, above = torch.minimum(below, value), torch.maximum(above, value)
    tried = rows[:, None].repeat(1, 2, 1).scatter_(2, at[:, None].expand(-1, 2, 1), torch.stack([below, above], dim=1))
    said = torch.where(part.reached(tried), torch.cat([below, above], dim=1), value)
    out[row, column] = said
    return out
