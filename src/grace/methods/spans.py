"""The values of one feature for which a goal is reached while all others stay: intervals of a number.

Between two points of a line the scores are linear, and so is everything that a goal compares. A flip needs one of
several leads, each of which holds from some place on to an end of the piece: what holds is a part at each end. A class
that was asked for, or a range of numbers, needs all of them: what holds is one interval within the piece.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from grace.methods.profiles import ScoreLines
from grace.problem.decimals import Decimals, digits_of
from grace.problem.goal import Against, Between, Flip, Goal, logit
from grace.problem.problem import Problem
from grace.schema.features import Floats

MORE_DIGITS = 6  # that the end of an interval may get if nothing coarser lies in it


class Spans(NamedTuple):
    """Intervals in rising order: the line (M,) to which each belongs, and its ends (M,), both included."""

    line: np.ndarray
    low: Floats
    high: Floats


class Linear(NamedTuple):
    """What has to be at least 0 (N, P, K), linear between points: `all` of them, or any."""

    values: Floats
    all: bool


def linear_parts(goal: Goal, scores: Tensor, tolerance: float) -> Linear | None:
    """What a goal compares, for scores (N, P, classes); None where it is not linear in them."""
    if isinstance(goal, Between):
        low, high = (end[:, None, None] for end in (goal.low, goal.high))
        parts = torch.cat([scores - low, high - scores], dim=2) / goal.scale
        return Linear((parts - tolerance).cpu().numpy(), True)
    if not isinstance(goal, Flip | Against):
        return None
    two = scores.shape[2] == 2
    if goal.confidence > 0 and not two:
        return None
    own = goal.original if isinstance(goal, Flip) else goal.wanted
    mine = scores.gather(2, own[:, None, None].expand(-1, scores.shape[1], 1))
    leads = scores - mine if isinstance(goal, Flip) else mine - scores
    leads = leads.scatter(2, own[:, None, None].expand(-1, scores.shape[1], 1), torch.inf) - tolerance
    every = isinstance(goal, Against) or two
    if goal.confidence > 0:  # the logit of a probability is the lead without what cut-offs have taken off
        shift = torch.zeros(2) if goal.shift is None else goal.shift
        winner = 1 - own if isinstance(goal, Flip) else own
        more = (shift[winner] - shift[1 - winner])[:, None] - logit(goal.confidence)
        leads = torch.cat([leads, (leads.amin(dim=2) + more)[:, :, None]], dim=2)
    elif not every:
        leads = torch.where(torch.isposinf(leads), -torch.inf, leads)
    return Linear(leads.cpu().numpy(), every)


def reaching_spans(lines: ScoreLines, goal: Goal, tolerance: float) -> Spans:
    """The intervals of all lines in which the goal is reached. Of a grid, nothing is said about what lies between two
    of its points, unless both reach the goal; neither of a goal that is not linear. A probability that a class has to
    have is reached between two points if the same class reaches it at both: its logit is concave between them."""
    points = lines.points.cpu().numpy()
    linear = linear_parts(goal, lines.scores, tolerance) if lines.exact else None
    if linear is None:
        margin = goal.margin(lines.scores).cpu().numpy() - tolerance
        low, high = _at_points(margin[:, :-1], margin[:, 1:])
        best = goal.margins(lines.scores).argmax(dim=2).cpu().numpy()
        apart = ((best[:, :-1] != best[:, 1:]) & (low[..., 0] == 0.0) & (high[..., 0] == 1.0))[..., None]
        if not lines.steps and apart.any():  # another class at each end: neither may be probable enough between them
            low = np.concatenate([low, np.where(apart, 1.0, 2.0)], axis=2)
            high = np.concatenate([np.where(apart, 0.0, high), np.where(apart, 1.0, -1.0)], axis=2)
        return _merged(points, low, high)
    first, last = linear.values[:, :-1], linear.values[:, 1:]
    if lines.steps:  # equal at both ends of a step; between steps there is nothing
        return _merged(points, *_at_points(_value(first, linear.all), _value(last, linear.all)))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(first / (first - last), 0.0, 1.0)
    share = np.where(np.isfinite(share), share, 0.0)
    begins, ends = first >= 0, last >= 0
    if linear.all:
        low = np.where(begins, 0.0, np.where(ends, share, 2.0)).max(axis=2)
        high = np.where(ends, 1.0, np.where(begins, share, -1.0)).min(axis=2)
        return _merged(points, low[..., None], high[..., None])
    left = np.where(begins, np.where(ends, 1.0, share), -1.0).max(axis=2)
    right = np.where(ends, np.where(begins, 0.0, share), 2.0).min(axis=2)
    none = np.full_like(left, 2.0)
    joined = left >= right
    low = np.stack([np.where(left >= 0, 0.0, none), np.where(joined, none, right)], axis=2)
    high = np.stack([np.where(joined, 1.0, left), np.where(right <= 1, 1.0, -none)], axis=2)
    return _merged(points, low, high)


def _value(parts: Floats, every: bool) -> Floats:
    return np.asarray(parts.min(axis=2) if every else parts.max(axis=2))


def _at_points(first: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Shares of pieces (N, P - 1, 1): all of a piece if both ends hold, else the ends that do."""
    low = np.where(first >= 0, 0.0, np.where(last >= 0, 1.0, 2.0))
    high = np.where(last >= 0, 1.0, np.where(first >= 0, 0.0, -1.0))
    return low[..., None], high[..., None]


def _merged(points: Floats, low: Floats, high: Floats) -> Spans:
    """Intervals from shares (N, P - 1, parts) of the pieces between points (N, P); those that touch are joined, and so
    are steps between whose ends no number lies."""
    start, width = points[:, :-1, None], np.diff(points, axis=1)[..., None]
    line, piece, part = np.nonzero(low <= high)
    below, above = low[line, piece, part], high[line, piece, part]
    first, size = start[line, piece, 0], width[line, piece, 0]
    begin = np.where(below == 1.0, points[line, piece + 1], first + below * size)
    end = np.where(above == 1.0, points[line, piece + 1], first + above * size)
    if len(line) == 0:
        return Spans(line, begin, end)
    new = np.concatenate([[True], (line[1:] != line[:-1]) | (begin[1:] > np.nextafter(end[:-1], np.inf))])
    starts = np.flatnonzero(new)
    return Spans(line[starts], begin[starts], np.maximum.reduceat(end, starts))


def sayable(problem: Problem, column: np.ndarray, spans: Spans) -> Spans:
    """The spans of lines along features (N,) with their ends rounded inwards to the decimals of the text, and more
    where nothing coarser lies within; ends of the domain stay as they are. Spans
    without a number that can be said, or a whole one, are left out."""
    which = column[spans.line]
    whole = problem.space.is_integer.cpu().numpy()[which]
    bottom, top = (side.cpu().numpy()[spans.line, which] for side in (problem.low, problem.high))
    low, high = np.maximum(spans.low, bottom), np.minimum(spans.high, top)
    said, first, last = np.zeros(len(low), dtype=bool), low.copy(), high.copy()
    columns = torch.from_numpy(which)[:, None]
    for more in range(MORE_DIGITS + 1):
        extra = torch.full((len(low),), more)
        digits = np.asarray(digits_of(problem.space, columns, extra, low[:, None], high[:, None]))[:, 0]
        grid = Decimals.of(digits)
        begin, end = grid.values(grid.ceil(low)), grid.values(grid.floor(high))
        begin = np.where((low == bottom) & ~whole, low, begin)
        end = np.where((high == top) & ~whole, high, end)
        fits = ~said & (begin <= end)
        first, last = np.where(fits, begin, first), np.where(fits, end, last)
        said |= fits
    kept = np.flatnonzero(said)
    return Spans(spans.line[kept], first[kept], last[kept])
