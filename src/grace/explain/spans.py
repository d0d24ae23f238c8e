"""Between which values of one changed number, the other changes being as they are, an answer stays an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from grace.methods.profiles import ASKED, profiles_of
from grace.problem.answers import Answers
from grace.problem.decimals import Decimals, digits_of
from grace.problem.goal import Against, Between, Goal
from grace.problem.numpy_or_torch import to_native
from grace.problem.problem import Problem
from grace.schema.features import Bools, Floats
from grace.schema.schema import Schema
from grace.text.vocabulary import Range

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

BRITTLE = 0.01  # of a spread: an answer that is none any more so soon beyond its value is worth a note
ASKED_PER_CELL = ASKED + 2  # questions to a black box


def spans_of(problem: Problem, contrast: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value (n, d, 2) of each changed number between which, it alone moving, the goal is
    reached: the end of its range, or a value that can be said, each checked by the model; NaN elsewhere. And which of
    them (n, d) fail a little beyond the value, as seen from x."""
    out = contrast.new_full((*contrast.shape, 2), torch.nan)
    brittle = torch.zeros_like(contrast, dtype=torch.bool)
    row, column = torch.nonzero((contrast != problem.rows) & problem.space.is_numeric, as_tuple=True)
    if len(row) == 0:
        return out, brittle
    part, rows, at = problem.select(row), contrast[row], column[:, None]
    x, value, bottom, top = (t.gather(1, at) for t in (part.rows, rows, part.low, part.high))
    low, high = (end[:, None] for end in profiles_of(part, rows, column).around(value[:, 0]))
    ends = tuple(to_native(t) for t in (low, high, value))
    grid = Decimals.of(digits_of(problem.space, at, torch.zeros_like(row), *ends))
    below = torch.where(low == bottom, low, torch.as_tensor(grid.values(grid.ceil(ends[0]))))
    above = torch.where(high == top, high, torch.as_tensor(grid.values(grid.floor(ends[1]))))
    below, above = torch.minimum(below, value), torch.maximum(above, value)
    tried = rows[:, None].repeat(1, 2, 1).scatter_(2, at[:, None].expand(-1, 2, 1), torch.stack([below, above], dim=1))
    out[row, column] = torch.where(part.reached(tried), torch.cat([below, above], dim=1), value)
    whole = problem.space.is_integer[at]
    fails_up, fails_down = torch.where(whole, high.floor() + 1, high), torch.where(whole, low.ceil() - 1, low)
    room = torch.where(value > x, fails_up - value, value - fails_down)
    ended = torch.where(value > x, high == top, low == bottom)
    brittle[row, column] = (~ended & (room < (BRITTLE - 1e-9) * problem.space.spread[at]))[:, 0]
    return out, brittle


def spans_of_answers(
    explainer: Explainer, schema: Schema, answers: Answers, here: slice, wanted: Sequence[Range] | None
) -> tuple[Floats, Bools]:
    """`spans_of` some answers, with the class that each has, or the numbers that were asked for. Not of answers that
    other features follow."""
    rows, contrast = (explainer.tensor(part[here]) for part in (answers.rows, answers.contrast))
    follows = torch.as_tensor(answers.followed[here].any(axis=1), device=rows.device)
    contrast = torch.where(follows[:, None], rows, contrast)
    goal: Goal = Against(explainer.tensor(answers.after[here]).argmax(dim=1))
    if wanted is not None:
        low = [-torch.inf if r["low"] is None else r["low"] for r in wanted[here]]
        high = [torch.inf if r["high"] is None else r["high"] for r in wanted[here]]
        goal = Between(rows.new_tensor(low), rows.new_tensor(high), explainer.spread())
    settings = replace(explainer.settings, method="search", gamma=1.0)
    found, brittle = spans_of(explainer._problem(rows, goal, schema, settings), contrast)
    return found.cpu().numpy(), brittle.cpu().numpy()
