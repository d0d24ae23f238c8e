"""Polish: any contrastive row made irreducible, pulled back to the boundary, and given values a person
can say. Every step is checked by the model, so that what reached the goal still does.

Order of preference: fewest features, smallest distance, fewest digits.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from grace.memory import at_once
from grace.problem import Problem, positions
from grace.space import nearly_first, nearly_sorted

EXHAUSTIVE = 10  # up to this many changes every subset is tried
MORE_DIGITS = 6  # how many digits beyond the usual ones a value may get if nothing coarser works
SCAN = 16  # values tried between x and the candidate before bisection
ROUNDS_OF_FOUR = 30  # of four parts each: enough for any number of steps
QUARTERS = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
ROUNDS = 4
CHUNK_BYTES = 1 << 27


def polish(problem: Problem, contrast: Tensor) -> Tensor:
    """Polished copies of contrastive rows; every row of `contrast` must reach the goal."""
    contrast, digits = sayable(problem, contrast)
    contrast = irreducible(problem, contrast)
    left = torch.arange(len(contrast), device=contrast.device)
    for _ in range(ROUNDS):
        part = problem.select(left)
        pulled = pull_back(part, contrast[left], digits[left])
        contrast[left] = irreducible(part, pulled)
        # a value pulled back may have made another change superfluous: pull again there
        left = left[(contrast[left] != pulled).any(dim=1)]
        if len(left) == 0:
            break
    return contrast


# -- values a person can say ----------------------------------------------------------------------


def sayable(problem: Problem, contrast: Tensor) -> tuple[Tensor, Tensor]:
    """Round changed numbers away from x to as many digits as a person would use, more only where
    nothing coarser works. Returns the rows and the digits (n, d) they were rounded to."""
    space = problem.space
    out = contrast.clone()
    digits = space.digits.to(out.dtype).repeat(len(out), 1)
    left = torch.arange(len(out), device=out.device)
    for more in range(MORE_DIGITS + 1):
        if len(left) == 0:
            break
        level = digits_at(problem, more)
        part = problem.select(left)
        rounded, fits = round_away(part, contrast[left], level)
        works = fits & part.reached(rounded)
        out[left[works]] = rounded[works]
        digits[left] = level.to(digits.dtype)
        left = left[~works]
    digits[left] = torch.nan  # nothing sayable works: the values stay as they were found
    return out, digits


def digits_at(problem: Problem, more: int) -> Tensor:
    """The digits of each feature when `more` are allowed; a whole number never gets decimals."""
    level = problem.space.digits + more
    return torch.where(problem.space.is_integer, level.clamp_max(0), level)


def power(digits: Tensor) -> Tensor:
    """10**digits, exact for the digits that occur."""
    return torch.pow(torch.full_like(digits, 10.0, dtype=torch.float64), digits.abs().to(torch.float64)).round()


def on_grid(steps: Tensor, digits: Tensor) -> Tensor:
    """The double nearest to the decimal number steps x 10**-digits."""
    ten = power(digits)
    return torch.where(digits >= 0, steps / ten, steps * ten)


def to_grid(values: Tensor, digits: Tensor) -> Tensor:
    """values x 10**digits, with what is whole but for rounding made whole."""
    ten = power(digits)
    steps = torch.where(digits >= 0, values * ten, values / ten)
    whole = steps.round()
    return torch.where((steps - whole).abs() < 1e-7 * whole.abs().clamp_min(1), whole, steps)


def within(problem: Problem, steps: Tensor, digits: Tensor) -> Tensor:
    """Grid steps moved inside the range of each feature."""
    steps = torch.minimum(steps, to_grid(problem.high, digits).floor())
    steps = torch.maximum(steps, to_grid(problem.low, digits).ceil())
    value = on_grid(steps, digits)
    return torch.where(value > problem.high, steps - 1, torch.where(value < problem.low, steps + 1, steps))


def round_away(problem: Problem, candidate: Tensor, digits: Tensor) -> tuple[Tensor, Tensor]:
    """Changed numbers rounded away from x onto the grid, and whether that kept every change a change."""
    rows = problem.rows
    up = candidate > rows
    steps = to_grid(candidate, digits)
    steps = within(problem, torch.where(up, steps.ceil(), steps.floor()), digits)
    value = on_grid(steps, digits)
    changed = (candidate != rows) & problem.space.is_numeric
    inside = (value >= problem.low) & (value <= problem.high)
    kept = inside & torch.where(up, value > rows, value < rows)
    return torch.where(changed, value, candidate), (kept | ~changed).all(dim=1)


# -- irreducible ----------------------------------------------------------------------------------


def irreducible(problem: Problem, contrast: Tensor) -> Tensor:
    """The smallest subset of each row's changes that still reaches the goal; the nearest of those."""
    out = contrast.clone()
    count = (out != problem.rows).sum(dim=1)
    large = positions(count > EXHAUSTIVE)
    if len(large):
        out[large] = drop_one_by_one(problem.select(large), out[large])
        count = (out != problem.rows).sum(dim=1)
    for size in range(2, EXHAUSTIVE + 1):
        these = positions(count == size)
        if len(these) == 0:
            continue
        chunk = max(1, at_once(CHUNK_BYTES, out.device) // (8 * out.shape[1] << size))
        for start in range(0, len(these), chunk):
            part = these[start : start + chunk]
            out[part] = smallest_subset(problem.select(part), out[part], size)
    return out


def smallest_subset(problem: Problem, contrast: Tensor, size: int) -> Tensor:
    """Try every proper subset of exactly `size` changes, small ones first."""
    rows = problem.rows
    where = (contrast != rows).to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :size]
    out = contrast.clone()
    left = torch.arange(len(out), device=out.device)
    for few in range(1, size):
        choices = torch.tensor(list(combinations(range(size), few)), device=out.device)
        keep = torch.zeros(len(left), len(choices), rows.shape[1], dtype=torch.bool, device=out.device)
        keep.scatter_(2, where[left][:, choices], True)
        tried = torch.where(keep, contrast[left][:, None], rows[left][:, None])
        part = problem.select(left)
        works = part.reached(tried)
        cost = problem.space.distance(rows[left][:, None], tried)
        best = nearly_first(torch.where(works, cost, cost.amax(dim=1, keepdim=True) * 2 + 1))
        some = works.any(dim=1)
        out[left[some]] = tried[some, best[some]]
        left = left[~some]
        if len(left) == 0:
            break
    return out


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


def pull_back(problem: Problem, contrast: Tensor, digits: Tensor) -> Tensor:
    """Move each changed number, one after another, as far back towards x as the goal allows; first the
    one that gives up least margin for its distance."""
    out = contrast.clone()
    changed = (out != problem.rows) & problem.space.is_numeric & ~digits.isnan()
    most = int(changed.sum(dim=1).max()) if len(out) else 0
    if most == 0:
        return out
    order = cheapest_first(problem, out, changed)
    for place in range(most):
        feature = order[:, place]
        index = torch.arange(len(out), device=out.device)
        these = positions(changed[index, feature])
        if len(these):
            part = problem.select(these)
            out[these] = pull_back_one(part, out[these], feature[these], digits[these])
    return out


def cheapest_first(problem: Problem, contrast: Tensor, changed: Tensor) -> Tensor:
    """Changed features by margin lost per distance won when the change is taken back, least first."""
    count = int(changed.sum(dim=1).max())
    order = changed.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :count]
    if count == 1:
        return order
    restored = contrast[:, None].repeat(1, count, 1)
    restored.scatter_(2, order[:, :, None], problem.rows.gather(1, order)[:, :, None])
    lost = problem.margin(contrast)[:, None] - problem.margin(restored)
    won = problem.space.cost(problem.rows, contrast).gather(1, order)
    rate = torch.where(changed.gather(1, order), lost / won.clamp_min(1e-300), torch.inf)
    finite = rate.masked_fill(torch.isinf(rate), 0).abs().amax(dim=1, keepdim=True).clamp_min(1e-300)
    key = torch.where(torch.isinf(rate), 2e9, (rate / finite * 1e9).round())
    return order.gather(1, key.argsort(dim=1, stable=True))


def pull_back_one(problem: Problem, contrast: Tensor, feature: Tensor, digits: Tensor) -> Tensor:
    """The nearest value on the grid for one feature per row: a scan, then bisection before the first hit."""
    column = feature[:, None]
    level = digits.gather(1, column)[:, 0]
    x = problem.rows.gather(1, column)[:, 0]
    end = to_grid(contrast.gather(1, column)[:, 0], level).round()
    sign = torch.where(contrast.gather(1, column)[:, 0] > x, 1.0, -1.0)
    # the first step beyond x that lies in the range
    low = to_grid(problem.low.gather(1, column)[:, 0], level).ceil()
    high = to_grid(problem.high.gather(1, column)[:, 0], level).floor()
    at = to_grid(x, level)
    begin = torch.where(sign > 0, torch.maximum(at.floor() + 1, low), torch.minimum(at.ceil() - 1, high))
    length = ((end - begin) * sign).clamp_min(0)

    def reached(offset: Tensor, which: Tensor | slice) -> Tensor:
        """Whether the rows `which` reach the goal `offset` (n, m) steps beyond the first."""
        value = on_grid(begin[which][:, None] + sign[which][:, None] * offset, level[which][:, None])
        rows = contrast[which][:, None].repeat(1, offset.shape[1], 1)
        rows.scatter_(2, column[which][:, None].expand(-1, offset.shape[1], 1), value[:, :, None])
        return (problem if isinstance(which, slice) else problem.select(which)).reached(rows)

    every = slice(None)
    share = torch.linspace(0, 1, SCAN, dtype=contrast.dtype, device=contrast.device)
    tried = (length[:, None] * share).floor()
    tried[:, -1] = length
    hits = reached(tried, every)
    hits[:, -1] = True  # the candidate itself
    first = nearly_first((~hits).to(contrast.dtype))
    works = tried.gather(1, first[:, None])[:, 0]
    fails = torch.where(first > 0, tried.gather(1, (first - 1).clamp_min(0)[:, None])[:, 0], works)
    for _ in range(ROUNDS_OF_FOUR):
        left = positions(works - fails > 1)
        if len(left) == 0:
            break
        open_ = every if len(left) == len(works) else left
        apart = works[open_] - fails[open_]
        tried = fails[open_][:, None] + (apart[:, None] * QUARTERS.to(apart.device)).floor().clamp_min(1)
        ok = reached(tried, open_)
        ends = torch.cat([fails[open_][:, None], tried, works[open_][:, None]], dim=1)
        first = nearly_first((~torch.cat([ok, torch.ones_like(ok[:, :1])], dim=1)).to(apart.dtype))[:, None]
        works[open_], fails[open_] = ends.gather(1, first + 1)[:, 0], ends.gather(1, first)[:, 0]
    value = on_grid(begin + sign * works, level)
    same = works == length
    return contrast.scatter(1, column, torch.where(same, contrast.gather(1, column)[:, 0], value)[:, None])
