"""Proofs about networks that get functions of numbers: what holds for the values of the functions holds for rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from grace.models.preprocessing.formulas import Bins
from grace.models.preprocessing.inputs import Function
from grace.problem.problem import Problem, positions
from grace.problem.transformed import (
    Transformed,
    has_known_values,
    transformed,
    transformed_inputs,
    with_sum_of_costs,
)
from grace.proofs.verdicts import FOUND, OPEN, Verdicts

PARTS = 64  # of a distance among values of functions, in which it is divided among features
SLACK = 1e-9  # by which numbers are taken nearer, as inverses of functions are rounded

Prove = Callable[[Problem, Tensor, float], Verdicts]
Bound = Callable[[Problem, Tensor, float], Tensor]


def prove_transformed(problem: Problem, most: Tensor, budget: float, prove: Prove) -> Verdicts:
    """Decide rows by proofs among the values of the functions. An answer there that is none among the numbers that
    there are leaves a row open."""
    inputs = transformed_inputs(problem.model)
    assert inputs is not None
    n, rows, device = len(problem), positions(has_known_values(problem, inputs)), problem.rows.device
    status, found = torch.full((n,), OPEN, device=device), problem.rows.clone()
    nodes = torch.zeros(n, dtype=torch.int64, device=device)
    seconds = torch.zeros(n, dtype=torch.float64, device=device)
    if len(rows):
        part, at_most = problem.select(rows), most.to(device).expand(n)[rows]
        inside = transformed(part, inputs)
        verdicts = prove(inside.inner, at_most, budget)
        answers = inside.original(verdicts.rows)
        real = part.inside(answers).all(dim=1) & ~part.redundant(answers) & part.reached(answers)
        real &= (verdicts.status == FOUND) & ((answers != part.rows).sum(dim=1) <= at_most)
        status[rows] = torch.where((verdicts.status == FOUND) & ~real, OPEN, verdicts.status)
        found[rows] = torch.where(real[:, None], answers, part.rows)
        nodes[rows], seconds[rows] = verdicts.nodes, verdicts.seconds
    return Verdicts(status, found, nodes, seconds)


def distance_bound_transformed(problem: Problem, contrast: Tensor, budget: float, bound: Bound) -> Tensor:
    """The distance (n,) below which no row reaches the goal, from the least sum of costs among the values of the
    functions: however that is divided among the changed features, each has to move so far that its value does."""
    out = problem.rows.new_zeros(len(problem))
    inputs = transformed_inputs(problem.model)
    assert inputs is not None
    rows = positions(has_known_values(problem, inputs))
    if len(rows):
        part, answers = problem.select(rows), contrast[rows]
        inside = transformed(part, inputs)
        sums, changed = with_sum_of_costs(inside.inner), answers != part.rows
        least = bound(sums, _changed_inside(inside, answers, changed), budget)
        out[rows] = _least_distance(inside, sums, changed, least).to(out)
    return out


def _changed_inside(inside: Transformed, answers: Tensor, changed: Tensor) -> Tensor:
    """Answers as transformed rows in which all features are changed that are changed in the answers: a number may move
    within a bin, or where a function is constant, but it might have moved on."""
    inner, out = inside.inner, inside.inputs.transformed(answers)
    farther = torch.where(inner.high - inner.rows > inner.rows - inner.low, inner.high, inner.low)
    return torch.where(changed & (out == inner.rows), farther, out)


def _least_distance(inside: Transformed, sums: Problem, changed: Tensor, least: Tensor) -> Tensor:
    """The distance (n,) of rows whose changed features cost at least so much in sum among the values of the functions.
    A feature that takes up m parts and not m + 1 costs at least what m parts cost."""
    outer, n = inside.problem, len(least)
    functions, norm = dict(inside.inputs.functions), outer.space.norm
    several = np.maximum(changed.sum(dim=1).cpu().numpy(), 1)
    parts = least[:, None] * torch.arange(PARTS + 1, device=least.device) / PARTS
    total = np.full((n, PARTS + 1), np.inf)
    total[:, 0] = 0.0
    for j in positions(changed.any(dim=0)).tolist():
        rows = positions(changed[:, j])
        price = _price(inside, sums, functions[j], j, rows, parts[rows]) if j in functions else parts[rows]
        own, at = price.cpu().numpy(), rows.cpu().numpy()
        total[at] = _divided(total[at], own**2 if norm == "l2" else own, norm == "linf")
    enough = np.arange(PARTS + 1) >= (PARTS + 1 - several)[:, None]
    found = np.where(enough, total, np.inf).min(axis=1)
    found = np.sqrt(found) if norm == "l2" else found
    return torch.from_numpy(np.where(np.isfinite(found), found, 0.0))


def _divided(total: np.ndarray, price: np.ndarray, largest: bool) -> np.ndarray:
    """The least cost (n, PARTS + 1) of so many parts, by what they cost of other features and of one more."""
    out = np.full_like(total, np.inf)
    for m in range(PARTS + 1):
        before, own = total[:, : PARTS + 1 - m], price[:, m : m + 1]
        np.minimum(out[:, m:], np.maximum(before, own) if largest else before + own, out=out[:, m:])
    return out


def _price(inside: Transformed, sums: Problem, function: Function, j: int, rows: Tensor, costs: Tensor) -> Tensor:
    """What a feature costs at least (m, P) whose values of the function cost at least so much; infinitely much if there
    are no such values. If they need not cost anything, neither does the feature."""
    outer, space, formula = inside.problem, sums.space, function.formula
    x, own = outer.rows[rows, j][:, None], sums.rows[rows, j][:, None]
    low, high = outer.low[rows, j][:, None], outer.high[rows, j][:, None]
    apart = costs * space.spread[j] / space.weight[j]
    out = torch.full_like(costs, torch.inf)
    for sign in (-1.0, 1.0):
        if isinstance(formula, Bins):
            code = own + sign * (apart - SLACK).ceil().clamp_min(0)
            exists = (code >= 0) & (code <= len(formula.edges))
            reached = formula.nearest(code.clamp(0, len(formula.edges)), x.expand_as(code))
        else:
            ends = sums.low[rows, j][:, None], sums.high[rows, j][:, None]
            value = own + sign * apart
            exists = value <= ends[1] if sign > 0 else value >= ends[0]
            value = torch.minimum(torch.maximum(value, ends[0]), ends[1])
            reached = x + (formula.inverse(value) - x) * (1 - SLACK)
            near = (formula(reached.clamp(function.low, function.high)) - own).abs() <= (value - own).abs()
            reached = torch.where(near, reached, x)
        within = torch.minimum(torch.maximum(reached, torch.minimum(low, x)), torch.maximum(high, x))
        cost = outer.space.cost_of(within - x, slice(j, j + 1))
        out = torch.minimum(out, torch.where(exists, cost, torch.inf))
    out[:, 0] = 0.0
    return out.cummax(dim=1).values  # what is farther away costs no less, however inverses are rounded
