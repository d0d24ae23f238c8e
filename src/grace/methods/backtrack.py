"""The way back: from a training row that reaches the goal towards x, one feature after another.

It asks nothing of a model but its decision, so that it finds answers where margins are flat: between the steps of a
tree, and for models that only say a class.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grace.problem.budget import at_once
from grace.problem.neighbours import nearest_rows
from grace.problem.problem import Problem, positions

STARTS = (4, 256)  # training rows from which the way back is tried; more where it is blocked from all of the first
COMPILED_STARTS = (4, 64)  # the same for several networks, rules and typical rows, where other ways fail less often
CHUNK_BYTES = 1 << 27


def way_back(problem: Problem) -> Tensor:
    """The way back with the fewest changes left from the nearest rows; the original row where none reaches the goal
    with at most K of them and none redundant."""
    found = problem.rows.clone()
    left = torch.arange(len(found), device=found.device)
    for starts in STARTS:
        step = max(1, at_once(CHUNK_BYTES, found.device) // (8 * starts * found.shape[1] ** 2))
        for part in torch.split(left, step):
            found[part] = way_back_from(problem.select(part), starts)
        left = left[(found[left] == problem.rows[left]).all(dim=1)]
        if len(left) == 0:
            break
    return found


def improved_by_way_back(problem: Problem, found: Tensor) -> Tensor:
    """Answers, or rows without one, replaced by better ones on the way back, in compiled code."""
    from grace.methods.compiled import way_back_compiled  # numba takes a second to import

    out, left = found.clone(), torch.arange(len(found))
    for starts in COMPILED_STARTS:
        step = max(1, at_once(CHUNK_BYTES, found.device) // (8 * starts * found.shape[1]))
        for here in torch.split(left, step):
            part = problem.select(here)
            out[here] = way_back_compiled(part, out[here], *way_back_starts(part, starts))
        left = left[(out[left] == problem.rows[left]).all(dim=1)]
        if len(left) == 0:
            break
    return out


def way_back_from(problem: Problem, starts: int) -> Tensor:
    """The way back from so many of the nearest rows."""
    every, found = way_back_starts(problem, starts)
    best = problem.rows.clone()
    fewest = torch.full((len(best),), problem.max_features + 1, device=best.device)
    length = torch.full((len(best),), torch.inf, dtype=best.dtype, device=best.device)
    owner, place = torch.nonzero(found, as_tuple=True)
    if len(owner) == 0:
        return best
    part = problem.select(owner)
    ends = taken_back(part, every[owner, place])
    ok = part.reached(ends) & ~part.redundant(ends)
    count, far = (ends != part.rows).sum(dim=1), part.space.distance(part.rows, ends)
    for start in range(starts):
        here = positions(ok & (place == start))
        row = owner[here]
        better = (count[here] < fewest[row]) | ((count[here] == fewest[row]) & (far[here] < length[row]))
        here, row = here[better], row[better]
        best[row], fewest[row], length[row] = ends[here], count[here], far[here]
    return best


def way_back_starts(problem: Problem, starts: int) -> tuple[Tensor, Tensor]:
    """So many of the nearest training rows (n, starts, d) that reach the goal, with the cells of x where a change to
    theirs is not allowed, and whether there are as many (n, starts)."""
    known = problem.known_rows("the way back")

    def allowed(index: Tensor) -> Tensor:
        margins = problem.goal.select(index).margin(known.scores.expand(len(index), -1, -1))
        return margins >= problem.model.tolerance

    near, found = nearest_rows(problem.space.euclidean(problem.rows), known.points, starts, allowed)
    owner, place = torch.nonzero(found, as_tuple=True)
    ends = problem.rows[:, None].repeat(1, found.shape[1], 1)
    ends[owner, place] = reachable(problem.select(owner), known.rows[near[owner, place]])
    return ends, found


def reachable(problem: Problem, rows: Tensor) -> Tensor:
    """The cells of other rows, where a change to them is allowed; else those of x."""
    return torch.where(problem.inside(rows), rows, problem.rows)


def taken_back(problem: Problem, ends: Tensor) -> Tensor:
    """Restore one cell of x after another as long as the goal holds: the one that leaves most margin for what is
    won, and of equals the one that costs most."""
    current = ends.clone()
    live = positions(problem.reached(current))
    d = current.shape[1]
    each = torch.arange(d, device=current.device)
    while len(live):
        part, here = problem.select(live), current[live]
        tried = here[:, None].repeat(1, d, 1)
        tried[:, each, each] = part.rows
        margin = part.margin(tried)
        works = (margin >= problem.model.tolerance) & (here != part.rows)
        cost = part.space.cost(part.rows, here)
        key = torch.where(works, margin.clamp_max(1e3) * 1e6 + cost, -torch.inf)
        chosen = key.argmax(dim=1)
        go = works.any(dim=1)
        rows = positions(go)
        current[live[rows]] = tried[rows, chosen[rows]]
        live = live[rows]
    return current
