"""How much nearer an answer with the same features could be: a proven lower bound on its distance.

Branch and bound over boxes of values of the features that an answer changes. A box is done when its relaxation
(`grace.proofs.relaxation`) excludes an answer, or excludes one that is nearer by more than a hundredth. In the linear
relaxation the nearest point that could still be an answer is a fractional knapsack: the features are moved in the order
of what they bring for their cost.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from grace.models.predictor import tree_ensemble
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem, positions
from grace.problem.space import NORMS
from grace.proofs.certificate import network_of
from grace.proofs.nodes import Nodes, halved, shares
from grace.proofs.relaxation import Relaxation

ENOUGH = 0.01  # a gap that need not be closed
AT_ONCE = 4096
MOST_BOXES = 1 << 18  # kept beyond the first


def distance_bound(problem: Problem, contrast: Tensor, budget: float = 1.0) -> Tensor:
    """The distance (n,) below which no row reaches the goal that changes only features changed in `contrast`,
    answers of the problem. A row gets `budget` seconds of work."""
    ensemble = tree_ensemble(problem.model)
    if ensemble is not None:
        from grace.proofs.trees import least_distance  # numba takes a second to import

        return least_distance(problem, ensemble, contrast, budget)
    relaxation = Relaxation(problem, network_of(problem))
    best = problem.space.distance(problem.rows, contrast)  # of answers, whether or not a person can say them
    least, seconds = best.clone(), torch.zeros_like(best)  # least: of boxes given up
    pool = whole(problem, relaxation, contrast)
    limit = len(pool) + MOST_BOXES
    while len(pool):
        check_cancelled()
        part, pool = pool.at(slice(AT_ONCE)), pool.at(slice(AT_ONCE, None))
        begun = time.perf_counter()
        part = nearer(problem, relaxation, part, best)
        late = (seconds[part.row] >= budget) | (len(pool) > limit)
        going = part.at(positions(~late))
        split, done = halved(problem, relaxation.slots, going, rates(problem, going))
        for given_up in (part.at(positions(late)), done):
            least.scatter_reduce_(0, given_up.row, given_up.bound, "amin")
        pool = Nodes.join([pool, split])
        seconds += shares(part.row, len(best), begun)
    return torch.minimum(least, (1 - ENOUGH) * best)


def whole(problem: Problem, relaxation: Relaxation, contrast: Tensor) -> Nodes:
    """One box per row and class that may win: the changed features anywhere, left alone included."""
    row, target = relaxation.contests((contrast != problem.rows).any(dim=1))
    changed = (contrast != problem.rows)[row]
    count = max(1, int(changed.sum(dim=1).max())) if len(row) else 1
    real, feature = changed.to(torch.uint8).sort(dim=1, descending=True, stable=True)
    real, feature = real[:, :count].bool(), feature[:, :count]
    x = problem.rows[row].gather(1, feature)
    low, high = (torch.where(real, side[row].gather(1, feature), x) for side in (problem.low, problem.high))
    return Nodes(
        row=row,
        target=target,
        feature=feature,
        real=real,
        low=torch.minimum(low, x),
        high=torch.maximum(high, x),
        options=relaxation.options(row),
        bound=x.new_zeros(len(row)),
    )


def nearer(problem: Problem, relaxation: Relaxation, boxes: Nodes, best: Tensor) -> Nodes:
    """The boxes that may hold an answer clearly nearer than `best`; `bound` is how near. An answer at the corner
    that the relaxation likes most lowers `best`."""
    found = relaxation.bound(boxes)
    keep = found.undone()
    boxes, slope_z = boxes.at(keep), found.slope[keep]
    moves = relaxation.moves(boxes)
    slope = (moves.direction @ slope_z[:, None, :, None])[..., 0]  # (N, k, v)
    most = moves.most(slope[:, None])[:, 0]
    base = found.value[keep] - most.sum(dim=1) + found.slack[keep]
    number = problem.space.is_numeric[boxes.feature]
    x = problem.rows[boxes.row].gather(1, boxes.feature)
    rate = rates(problem, boxes)
    point = torch.minimum(torch.maximum(x, boxes.low), boxes.high)
    cost = torch.where(number, (point - x).abs() * rate, category_cost(problem, relaxation, boxes))
    steep = slope[:, :, 0]
    gained = torch.where(number, steep * (point - x), most)
    if NORMS[problem.space.norm] == 1:
        room = torch.where(steep > 0, boxes.high - point, point - boxes.low) * steep.abs()
        room = torch.where(number, room, 0.0)
        need = -(base + gained.sum(dim=1))
        bound = cost.sum(dim=1) + knapsack(need, room, torch.where(number, rate / steep.abs().clamp_min(1e-300), 0.0))
    else:
        bound = torch.linalg.vector_norm(cost, ord=NORMS[problem.space.norm], dim=1)
    corner = problem.rows[boxes.row].scatter(1, boxes.feature, torch.where(steep > 0, boxes.high, boxes.low))
    part = problem.select(boxes.row)
    length = torch.where(part.reached(corner), problem.space.distance(part.rows, corner), torch.inf)
    length = torch.where(part.inside(corner).all(dim=1) & number.all(dim=1), length, torch.inf)
    best.scatter_reduce_(0, boxes.row, length, "amin")
    near = positions(~(bound >= (1 - ENOUGH) * best[boxes.row]))  # NaN excludes nothing
    return replace(boxes.at(near), bound=bound[near])


def rates(problem: Problem, boxes: Nodes) -> Tensor:
    """What a unit of each changed number (N, k) costs."""
    return problem.space.weight[boxes.feature] / problem.space.spread[boxes.feature]


def category_cost(problem: Problem, relaxation: Relaxation, boxes: Nodes) -> Tensor:
    """What the changed categories (N, k) cost at least: the nearest of the options, which may be the row's own."""
    cost, space = torch.zeros_like(boxes.low), problem.space
    for j, slot in relaxation.slots.items():
        codes = torch.arange(slot.stop - slot.start, device=cost.device)
        apart = (codes - problem.rows[boxes.row, j][:, None]).abs()
        each = space.weight[j] * (apart / space.spread[j] if space.has_magnitude[j] else (apart > 0).to(cost.dtype))
        least = each.masked_fill(~boxes.options[:, slot], torch.inf).amin(dim=1, keepdim=True)
        cost = torch.where((boxes.feature == j) & boxes.real, least, cost)
    return cost


def knapsack(need: Tensor, room: Tensor, rate: Tensor) -> Tensor:
    """The least cost (N,) of gaining `need` (N,) from items (N, k) with so much room at such a rate."""
    order = rate.argsort(dim=1)
    room, rate = room.gather(1, order), rate.gather(1, order)
    before = room.cumsum(dim=1) - room
    taken = torch.minimum((need[:, None] - before).clamp_min(0), room)
    return (taken * rate).sum(dim=1)
