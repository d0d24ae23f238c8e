"""Polish: makes a contrastive row irreducible, moves it to the decision boundary, and rounds its values to few digits.
Every step is checked by the model, so that what reached the goal still does.

Order of preference: fewest features, smallest distance, fewest digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from grace.methods.gpu_kernels import polish_at_once
from grace.methods.line_search import Segment, nearest_working_value
from grace.methods.requirements import serves
from grace.models.predictor import tree_ensemble
from grace.models.relu import relu_network
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.budget import at_once
from grace.problem.decimals import Decimals, digits_of
from grace.problem.goal import Against, Between, Flip
from grace.problem.numpy_or_torch import library, places, to_native
from grace.problem.problem import Problem, positions
from grace.problem.space import nearly_first, nearly_sorted

EXHAUSTIVE = 10  # up to this many changes every subset is tried
MORE_DIGITS = 6  # how many digits beyond the usual ones a value may get if nothing coarser works
ROUNDS = 4
CHUNK_BYTES = 1 << 27


def polish(problem: Problem, contrast: Tensor) -> Tensor:
    """Polished copies of contrastive rows; every row of `contrast` must reach the goal."""
    begun = contrast
    if is_compiled(problem) or serves(problem) is not None:
        from grace.methods.compiled import polish_compiled  # numba takes a second to import

        contrast = polish_compiled(problem, contrast)
        return torch.where(problem.reached(contrast)[:, None], contrast, begun)
    if (ensemble := trees_of(problem)) is not None:
        from grace.methods.trees import polish_trees

        return polish_trees(problem, ensemble, contrast)
    if (by_kernel := polish_at_once(problem, contrast)) is not None:
        return torch.where(problem.reached(by_kernel)[:, None], by_kernel, begun)
    contrast, more = round_values(problem, contrast)
    contrast, again = tightened(problem, irreducible(problem, contrast), more)
    for _ in range(ROUNDS - 1):
        if len(again) == 0:
            break
        contrast[again], rest = tightened(problem.select(again), contrast[again], more[again])
        again = again[rest]
    if problem.model.black_box:
        return contrast
    # margins by rank-one updates of the first layer round differently from those of whole rows
    return torch.where(problem.reached(contrast)[:, None], contrast, begun)


def is_compiled(problem: Problem) -> bool:
    """Whether there is compiled code for a problem: ReLU networks on a CPU."""
    serves = problem.rows.is_cpu and isinstance(problem.goal, Flip | Against | Between)
    return serves and relu_network(problem.model) is not None


def trees_of(problem: Problem) -> TreeEnsemble | None:
    """The tree ensemble of a problem for which there is an exact search."""
    serves = problem.origin is None and isinstance(problem.goal, Flip | Against | Between)
    return tree_ensemble(problem.model) if serves else None


def tightened(problem: Problem, contrast: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """The rows moved to the boundary, and those where this made another change superfluous, to be moved again."""
    pulled = pull_back(problem, contrast, more)
    fewer = irreducible(problem, pulled)
    return fewer, positions((fewer != pulled).any(dim=1))


def first_columns(changed: Tensor) -> Tensor:
    """The columns that are true in each row (n, d), then others: as many as the row with most of them has."""
    flags = to_native(changed)
    most = int(flags.sum(axis=1).max()) if len(flags) else 0
    if isinstance(flags, Tensor):
        return flags.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]
    return torch.as_tensor((~flags).argsort(axis=1, kind="stable")[:, :most])


# -- values a person can say ----------------------------------------------------------------------


def round_values(problem: Problem, contrast: Tensor) -> tuple[Tensor, Tensor]:
    """Round changed numbers away from x to as many digits as a person would use, more only where
    nothing coarser works. Returns the rows, and how many more digits (n,) they have."""
    more = torch.zeros(len(contrast), dtype=torch.int64, device=contrast.device)
    rounded, works = round_away(problem, contrast, more)
    left = positions(~works)
    if len(left) == 0:
        return rounded, more
    out = torch.where(works[:, None], rounded, contrast)
    while len(left):
        more[left] += 1
        if int(more[left[0]]) > MORE_DIGITS:  # no rounded value works: keep the values as found
            break
        rounded, works = round_away(problem.select(left), contrast[left], more[left])
        out[left[works]] = rounded[works]
        left = left[~works]
    return out, more


def round_away(problem: Problem, candidate: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """Changed numbers rounded away from x, and whether that kept every change a change that reaches the goal."""
    changed = (candidate != problem.rows) & problem.space.is_numeric
    columns = first_columns(changed)
    cells = (changed, problem.rows, candidate, problem.low, problem.high)
    mask, x, value, low, high = (to_native(t.gather(1, columns)) for t in cells)
    lib = library(x)
    grid = Decimals.of(digits_of(problem.space, columns, more, x, value))
    up = value > x
    steps = lib.where(up, grid.ceil(value), grid.floor(value))
    near = grid.values(lib.maximum(lib.minimum(steps, grid.floor(high)), grid.ceil(low)))
    kept = (near >= low) & (near <= high) & lib.where(up, near > x, near < x)
    rounded = candidate.scatter(1, columns, torch.as_tensor(lib.where(mask, near, value)))
    return rounded, torch.as_tensor((kept | ~mask).all(axis=1)) & problem.reached(rounded)


# -- irreducible ----------------------------------------------------------------------------------


def irreducible(problem: Problem, contrast: Tensor) -> Tensor:
    """The smallest subset of each row's changes that still reaches the goal; the nearest of those."""
    count = (contrast != problem.rows).sum(dim=1)
    most = int(count.max()) if len(count) else 0
    if most < 2:
        return contrast
    out = contrast.clone()
    if most > EXHAUSTIVE:
        large = positions(count > EXHAUSTIVE)
        out[large] = drop_one_by_one(problem.select(large), out[large])
        count = (out != problem.rows).sum(dim=1)
    for part, size in equal_counts(count, out.shape[1]):
        out[part] = smallest_subset(problem.select(part), out[part], size)
    return out


def equal_counts(count: Tensor, width: int) -> Iterator[tuple[Tensor, int]]:
    """The positions of rows with equally many changes, two to EXHAUSTIVE, and how many: not too many at a time for all
    subsets of the changes to rows of this width."""
    for size, many in enumerate(count.bincount(minlength=2).tolist()):
        if many == 0 or not 2 <= size <= EXHAUSTIVE:
            continue
        these = positions(count == size)
        chunk = max(1, at_once(CHUNK_BYTES, count.device) // (8 * width << size))
        for part in torch.split(these, chunk):
            yield part, size


def smallest_subset(problem: Problem, contrast: Tensor, size: int) -> Tensor:
    """The smallest proper subset of exactly `size` changes that works, and of those the nearest."""
    taken, tried = with_subsets(problem, contrast, size)
    works = problem.reached(tried)
    some = works.any(dim=1)
    if not some.any():
        return contrast
    cost = problem.space.distance(problem.rows[:, None], tried)
    beyond = cost.amax(dim=1, keepdim=True) * 2 + 1
    best = nearly_first(torch.where(works, cost + taken.sum(dim=1) * beyond, size * beyond))
    least = tried.gather(1, best[:, None, None].expand(-1, 1, contrast.shape[1]))[:, 0]
    return torch.where(some[:, None], least, contrast)


def with_subsets(problem: Problem, contrast: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The proper subsets (s, size) of exactly `size` changes, and the rows (n, s, d) with only those changes."""
    taken = proper_subsets(size, contrast.device)
    columns = first_columns(contrast != problem.rows)[:, None].expand(-1, len(taken), -1)
    keep = torch.zeros(len(contrast), len(taken), contrast.shape[1], dtype=torch.bool, device=contrast.device)
    keep.scatter_(2, columns, taken.expand(len(contrast), -1, -1))
    return taken, torch.where(keep, contrast[:, None], problem.rows[:, None])


@cache
def proper_subsets(size: int, device: torch.device) -> Tensor:
    """Which of so many are in each of their proper subsets, the smallest first."""
    chosen = [choice for few in range(1, size) for choice in combinations(range(size), few)]
    return torch.tensor([[j in choice for j in range(size)] for choice in chosen], device=device)


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
    changed = (contrast != problem.rows) & problem.space.is_numeric & (more <= MORE_DIGITS)[:, None]
    order = cheapest_first(problem, contrast, changed)
    moved, ways = to_native(changed.gather(1, order)), Segment.of(problem, contrast, order, more)
    out = contrast
    for place in range(order.shape[1]):
        way, these = ways.feature(place), places(moved[:, place])
        if len(these) == len(out):
            out = nearest_working_value(problem, out, way)
        elif len(these):
            at = torch.as_tensor(these)
            out = out.index_copy(0, at, nearest_working_value(problem.select(at), out[at], way.select(these)))
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
