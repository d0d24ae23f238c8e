"""Triton kernels for problems about ReLU networks on a GPU: whether one serves, and problems as its arguments."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor

from grace.methods.line_search import ROUNDING
from grace.methods.moves import Moves
from grace.models.gpu_layout import GpuLayout
from grace.models.relu import relu_network
from grace.problem.goal import Against, Flip
from grace.problem.problem import Problem, positions
from grace.problem.space import NORMS

FARTHEST = 1e6  # spreads: as far as one looks where a range has no end


def layout_for(problem: Problem, kernel: str) -> GpuLayout | None:
    """The network of a problem for the kernel of a module `<kernel>_triton`; None where it does not serve. It is tried
    once per network."""
    goal, network = problem.goal, relu_network(problem.model)
    if network is None or not isinstance(goal, Flip | Against) or not goal.leads or problem.origin is not None:
        return None
    packed = network.packed(problem.rows.device)
    if packed is None:
        return None
    if kernel not in network.kernels:
        network.kernels[kernel] = import_module(f"grace.methods.{kernel}_triton").works(packed)
    return packed if network.kernels[kernel] else None


def key_of(problem: Problem) -> tuple[Tensor, bool]:
    """The class (n,) to leave, and True; or the class to arrive at, and False."""
    goal = problem.goal
    return (goal.original, True) if isinstance(goal, Flip) else (goal.wanted, False)  # type: ignore[attr-defined]


def nearest_single_changes(problem: Problem) -> Tensor | None:
    """The rows with the nearest single change that reaches the goal, along exact lines of numbers and by every
    category; the original row where there is none, and None where no kernel serves."""
    packed = layout_for(problem, "single")
    if packed is None:
        return None
    from grace.methods.single_triton import Lines, singles

    space, rows = problem.space, problem.rows
    far = FARTHEST * space.spread
    limits = (torch.maximum(problem.low, rows - far), torch.minimum(problem.high, rows + far), problem.free)
    key, flip = key_of(problem)
    lines = Lines(packed, packed.start(rows), rows, *limits, key, flip, problem.model.tolerance + ROUNDING)
    columns = (space.weight / space.spread, space.digits, space.is_integer)
    cost, feature, value = singles(lines, positions(space.is_numeric), columns)
    if space.categorical:
        cost, feature, value = nearer_category(problem, cost, feature, value)
    column = feature.clamp_min(0)[:, None]
    old = rows.gather(1, column)[:, 0]
    found = rows.scatter(1, column, torch.where(feature >= 0, value, old)[:, None])
    fits = problem.reached(found) & problem.inside(found).all(dim=1)  # the model has the last word
    return torch.where(fits[:, None], found, rows)


def nearer_category(problem: Problem, cost: Tensor, feature: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest single changes, or changes of a category that are nearer."""
    space, rows = problem.space, problem.rows
    owner = torch.cat([torch.full_like(space.choices[j], j) for j in space.categorical])
    codes = torch.cat([space.choices[j] for j in space.categorical]).to(rows.dtype).expand(len(rows), -1)
    moves = Moves(owner[None], codes.contiguous(), relu_network(problem.model))
    allowed = moves.allowed(problem, rows) & (codes >= problem.low[:, owner]) & (codes <= problem.high[:, owner])
    hits = allowed & (moves.margins(problem, rows) >= problem.model.tolerance + ROUNDING)
    price = torch.where(hits, moves.cost(problem), torch.inf)
    least, place = price.min(dim=1)
    nearer = (least < cost) | ((least == cost) & (least < torch.inf) & (owner[place] < feature))
    code = codes.gather(1, place[:, None])[:, 0]
    return (
        torch.where(nearer, least, cost),
        torch.where(nearer, owner[place], feature),
        torch.where(nearer, code, value),
    )


def is_polished_at_once(problem: Problem) -> bool:
    """Whether a kernel polishes answers to a problem."""
    return layout_for(problem, "polish") is not None


def polish_at_once(problem: Problem, contrast: Tensor) -> Tensor | None:
    """What `polish` returns, by a kernel; None where none serves."""
    packed = layout_for(problem, "polish")
    if packed is None or len(contrast) == 0:
        return None
    from grace.methods.polish_triton import MOST, polished

    changed = contrast != problem.rows
    count = changed.sum(dim=1)
    most = int(count.max())
    if not 0 < most <= MOST:
        return None
    space = problem.space
    row, column = torch.nonzero(changed, as_tuple=True)
    place = torch.arange(len(row), device=row.device) - (count.cumsum(dim=0) - count)[row]
    chosen = count.new_full((len(contrast), most), -1)
    chosen[row, place] = column
    real, chosen = chosen >= 0, chosen.clamp_min(0)
    x, value, low, high = (t.gather(1, chosen) for t in (problem.rows, contrast, problem.low, problem.high))
    begins = packed.begins[chosen]
    last = len(packed.tables) - 1
    come, go = (torch.where(begins >= 0, begins + code.long(), last) for code in (value, x))
    units = torch.where(space.has_magnitude, space.weight / space.spread, space.weight)
    columns = (units, space.has_magnitude, space.digits, space.is_integer)
    key, flip = key_of(problem)
    new = polished(
        packed, packed.start(problem.rows), torch.where(real, chosen, -1), (x, value, low, high), (come, go), columns,
        key, flip, problem.model.tolerance + ROUNDING, NORMS[space.norm],
    )  # fmt: skip
    return contrast.index_put((row, column), new[row, place])
