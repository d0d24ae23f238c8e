"""Polish: any contrastive row made irreducible, pulled back to the boundary, and given values a person
can say. Every step is checked by the model, so that what reached the goal still does.

Order of preference: fewest features, smallest distance, fewest digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from grace.decimals import Decimals
from grace.memory import at_once
from grace.models.relu import relu_network
from grace.moves import Moves
from grace.problem import Problem, positions
from grace.space import first_true, nearly_first, nearly_sorted

EXHAUSTIVE = 10  # up to this many changes every subset is tried
MORE_DIGITS = 6  # how many digits beyond the usual ones a value may get if nothing coarser works
SCAN = 16  # values tried between x and the candidate before the first that works is closed in on
ROUNDING = 1e-9  # what a margin may differ by that is not worked out from the whole row
HALVINGS = 64  # enough for any number of steps
ROUNDS = 4
CHUNK_BYTES = 1 << 27


def polish(problem: Problem, contrast: Tensor) -> Tensor:
    """Polished copies of contrastive rows; every row of `contrast` must reach the goal."""
    contrast, more = sayable(problem, contrast)
    contrast = irreducible(problem, contrast)
    left, part = torch.arange(len(contrast), device=contrast.device), problem
    for _ in range(ROUNDS):
        pulled = pull_back(part, contrast[left], more[left])
        contrast[left] = irreducible(part, pulled)
        # a value pulled back may have made another change superfluous: pull again there
        left = left[(contrast[left] != pulled).any(dim=1)]
        if len(left) == 0:
            break
        part = problem.select(left)
    return contrast


def first_columns(changed: Tensor) -> Tensor:
    """The columns that are true in each row (n, d), then others: as many as the row with most of them has."""
    most = int(changed.sum(dim=1).max()) if len(changed) else 0
    return changed.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]


# -- values a person can say ----------------------------------------------------------------------


def sayable(problem: Problem, contrast: Tensor) -> tuple[Tensor, Tensor]:
    """Round changed numbers away from x to as many digits as a person would use, more only where
    nothing coarser works. Returns the rows, and how many more digits (n,) they have."""
    more = torch.zeros(len(contrast), dtype=torch.int64, device=contrast.device)
    rounded, works = round_away(problem, contrast, more)
    out = torch.where(works[:, None], rounded, contrast)
    left = positions(~works)
    while len(left):
        more[left] += 1
        if int(more[left[0]]) > MORE_DIGITS:  # nothing sayable works: the values stay as they were found
            break
        rounded, works = round_away(problem.select(left), contrast[left], more[left])
        out[left[works]] = rounded[works]
        left = left[~works]
    return out, more


def digits_of(problem: Problem, columns: Tensor, more: Tensor) -> Tensor:
    """The digits of some features (n, c) when so many more (n,) are allowed; a whole number never gets decimals."""
    digits = problem.space.digits[columns] + more[:, None]
    return torch.where(problem.space.is_integer[columns], digits.clamp_max(0), digits)


def round_away(problem: Problem, candidate: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """Changed numbers rounded away from x, and whether that kept every change a change that reaches the goal."""
    changed = (candidate != problem.rows) & problem.space.is_numeric
    columns = first_columns(changed)
    mask = changed.gather(1, columns)
    x, value, low, high = (t.gather(1, columns) for t in (problem.rows, candidate, problem.low, problem.high))
    grid = Decimals.of(digits_of(problem, columns, more))
    steps, least, most = grid.steps(torch.stack([value, low, high]))
    up = value > x
    steps = torch.maximum(torch.minimum(torch.where(up, steps.ceil(), steps.floor()), most.floor()), least.ceil())
    near = grid.values(steps)
    near = grid.values(torch.where(near > high, steps - 1, torch.where(near < low, steps + 1, steps)))
    kept = (near >= low) & (near <= high) & torch.where(up, near > x, near < x)
    rounded = candidate.scatter(1, columns, torch.where(mask, near, value))
    return rounded, (kept | ~mask).all(dim=1) & problem.reached(rounded)


# -- irreducible ----------------------------------------------------------------------------------


def irreducible(problem: Problem, contrast: Tensor) -> Tensor:
    """The smallest subset of each row's changes that still reaches the goal; the nearest of those."""
    out = contrast.clone()
    count = (out != problem.rows).sum(dim=1)
    large = positions(count > EXHAUSTIVE)
    if len(large):
        out[large] = drop_one_by_one(problem.select(large), out[large])
        count = (out != problem.rows).sum(dim=1)
    for size, many in enumerate(count.bincount(minlength=2).tolist()):
        if many == 0 or not 2 <= size <= EXHAUSTIVE:
            continue
        these = positions(count == size)
        chunk = max(1, at_once(CHUNK_BYTES, out.device) // (8 * out.shape[1] << size))
        for start in range(0, many, chunk):
            part = these[start : start + chunk]
            out[part] = smallest_subset(problem.select(part), out[part], size)
    return out


def smallest_subset(problem: Problem, contrast: Tensor, size: int) -> Tensor:
    """The smallest proper subset of exactly `size` changes that works, and of those the nearest."""
    rows = problem.rows[:, None]
    chosen = [choice for few in range(1, size) for choice in combinations(range(size), few)]
    taken = torch.tensor([[j in choice for j in range(size)] for choice in chosen], device=contrast.device)
    columns = first_columns(contrast != problem.rows)[:, None].expand(-1, len(taken), -1)
    keep = torch.zeros(len(contrast), *taken.shape[:1], contrast.shape[1], dtype=torch.bool, device=contrast.device)
    keep.scatter_(2, columns, taken.expand(len(contrast), -1, -1))
    tried = torch.where(keep, contrast[:, None], rows)
    works = problem.reached(tried)
    some = works.any(dim=1)
    if not some.any():
        return contrast
    cost = problem.space.distance(rows, tried)
    beyond = cost.amax(dim=1, keepdim=True) * 2 + 1
    best = nearly_first(torch.where(works, cost + taken.sum(dim=1) * beyond, size * beyond))
    least = tried.gather(1, best[:, None, None].expand(-1, 1, contrast.shape[1]))[:, 0]
    return torch.where(some[:, None], least, contrast)


def drop_one_by_one(problem: Problem, contrast: Tensor) -> Tensor:
    """Take back one change after another, the farthest first, as long as the goal holds."""
    out = contrast.clone()
    cost = problem.space.cost(problem.rows, out)
    order = nearly_sorted(cost)
    for place in range(int((cost > 0).sum(dim=1).max())):
        feature = order[:, [place]]
        tried = out.scatter(1, feature, problem.rows.gather(1, feature))
        works = problem.reached(tried)
        out[works] = tried[works]
    return out


# -- back to the boundary -------------------------------------------------------------------------


def pull_back(problem: Problem, contrast: Tensor, more: Tensor) -> Tensor:
    """Move each changed number, one after another, as far back towards x as the goal allows; first the
    one that gives up least margin for its distance."""
    out = contrast.clone()
    changed = (out != problem.rows) & problem.space.is_numeric & (more <= MORE_DIGITS)[:, None]
    order = cheapest_first(problem, out, changed)
    moved = changed.gather(1, order)
    for place in range(order.shape[1]):
        these = positions(moved[:, place])
        if len(these) == len(out):
            out = pull_back_one(problem, out, order[:, [place]], more)
        elif len(these):
            out[these] = pull_back_one(problem.select(these), out[these], order[these][:, [place]], more[these])
    return out


def cheapest_first(problem: Problem, contrast: Tensor, changed: Tensor) -> Tensor:
    """Changed features by margin lost per distance won when the change is taken back, least first."""
    order = first_columns(changed)
    count = order.shape[1]
    if count <= 1:
        return order
    restored = contrast[:, None].repeat(1, count, 1)
    restored.scatter_(2, order[:, :, None], problem.rows.gather(1, order)[:, :, None])
    lost = problem.margin(contrast)[:, None] - problem.margin(restored)
    won = problem.space.cost(problem.rows, contrast).gather(1, order)
    rate = torch.where(changed.gather(1, order), lost / won.clamp_min(1e-300), torch.inf)
    finite = rate.masked_fill(torch.isinf(rate), 0).abs().amax(dim=1, keepdim=True).clamp_min(1e-300)
    key = torch.where(torch.isinf(rate), 2e9, (rate / finite * 1e9).round())
    return order.gather(1, key.argsort(dim=1, stable=True))


def pull_back_one(problem: Problem, contrast: Tensor, column: Tensor, more: Tensor) -> Tensor:
    """The nearest decimal number for one feature (n, 1) per row: a scan, then the first that works is closed in on,
    where the margins say it should be."""
    x, value, low, high = (t.gather(1, column) for t in (problem.rows, contrast, problem.low, problem.high))
    grid = Decimals.of(digits_of(problem, column, more))
    at, end, least, most = torch.split(grid.steps(torch.cat([x, value, low, high], dim=1)), 1, dim=1)
    up = value > x
    sign = torch.where(up, 1.0, -1.0)
    # the first step beyond x that lies in the range
    begin = torch.where(up, torch.maximum(at.floor() + 1, least.ceil()), torch.minimum(at.ceil() - 1, most.floor()))
    line = Line(problem, contrast, column, grid, begin, sign)
    length = ((end.round() - begin) * sign).clamp_min(0)
    tried = (length * torch.linspace(0, 1, SCAN, dtype=x.dtype, device=x.device)).floor()
    margin = line.margin(tried)
    hits = margin >= problem.model.tolerance
    hits[:, -1] = True  # the candidate itself
    first = first_true(hits)
    last = (first - 1).clamp_min(0)
    works = tried.gather(1, first)
    fails = torch.where(first > 0, torch.minimum(tried.gather(1, last), works - 1), works - 1)
    works = closed_in(line, fails, works, margin.gather(1, last), margin.gather(1, first))
    return contrast.scatter(1, column, torch.where(works == length, value, line.values(works)))


@dataclass(frozen=True)
class Line:
    """Rows in which one feature moves by whole steps from where it begins, away from x."""

    problem: Problem
    rows: Tensor
    column: Tensor
    grid: Decimals
    begin: Tensor
    sign: Tensor

    def values(self, steps: Tensor) -> Tensor:
        return self.grid.values(self.begin + self.sign * steps)

    def margin(self, steps: Tensor) -> Tensor:
        """The margin (n, m) after so many steps (n, m), less what rounding may make of it."""
        network = relu_network(self.problem.model)
        moves = Moves(self.column.expand(-1, steps.shape[1]), self.values(steps), network)
        return moves.margins(self.problem, self.rows) - ROUNDING

    def select(self, index: Tensor) -> Line:
        parts = (self.rows[index], self.column[index], self.grid.select(index), self.begin[index], self.sign[index])
        return Line(self.problem.select(index), *parts)


def closed_in(line: Line, fails: Tensor, works: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """The number of steps (n, 1), after one that fails, that works: between two such, and their margins, is tried where
    the margin should change its sign, were it straight, and the middle."""
    tolerance = line.problem.model.tolerance
    found, left = works.clone(), torch.arange(len(works), device=works.device)
    for _ in range(HALVINGS):
        apart = works - fails
        going = apart > 1
        many = int(going.sum())
        if many == 0:
            break
        if 2 * many <= len(going):
            found[left] = works
            keep = positions(going[:, 0])
            left, line = left[keep], line.select(keep)
            fails, works, below, above, apart = (t[keep] for t in (fails, works, below, above, apart))
        share = ((tolerance - below) / (above - below)).nan_to_num(0.5, 0.5, 0.5).clamp(0, 1)
        guess = fails + (apart * share).floor()
        tried = torch.cat([guess, guess + 1, fails + (apart / 2).floor()], dim=1)
        tried = torch.maximum(torch.minimum(tried, works - 1), fails + 1).sort(dim=1).values
        margin = line.margin(tried)
        steps, margins = torch.cat([fails, tried, works], dim=1), torch.cat([below, margin, above], dim=1)
        hits = torch.cat([margin >= tolerance, works > fails], dim=1)
        first = first_true(hits)
        fails, works = steps.gather(1, first), steps.gather(1, first + 1)
        below, above = margins.gather(1, first), margins.gather(1, first + 1)
    found[left] = works
    return found
