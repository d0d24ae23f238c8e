"""Goals of proofs as functionals of the scores, and what rounding may cost them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from grace.models.relu import ReluNetwork
from grace.problem.goal import Against, Between, Flip
from grace.problem.problem import Problem
from grace.proofs.compiled.rows import Aims

ROUNDING = 1e-11  # in double precision, relative; far above what sums of a few thousand terms can lose
TERMS = 64  # times the precision of doubles and the number of terms of a sum: more than rounding can cost
SPAN = 5  # limits by intervals lie within so many times the size of the terms


def aims_of(problem: Problem, network: ReluNetwork) -> Aims:
    """The goal as functionals. The allowance for rounding is more in a large network."""
    net, mass = network.compiled, size_of_terms(problem, network)
    rounding = max(ROUNDING, TERMS * np.finfo(np.float64).eps * (problem.rows.shape[1] + int(net.units[-1])))
    importance = np.abs(net.last).max(axis=0)
    for weight, _ in reversed(network.later[:-1]):
        importance = importance @ np.abs(weight.numpy())
    make = _of_range if isinstance(problem.goal, Between) else _of_classes
    return make(problem, network, mass, rounding, importance)


def _of_classes(problem: Problem, network: ReluNetwork, mass: Tensor, rounding: float, importance: np.ndarray) -> Aims:
    """Of a flip, each other class has to lead the original one; a class that was asked for has to lead all others."""
    goal, net = problem.goal, network.compiled
    assert isinstance(goal, Against | Flip)
    n, bias = len(problem), network.later[-1][1]
    target = goal.wanted if isinstance(goal, Against) else goal.original
    others = torch.arange(len(bias)).expand(n, -1)
    others = others[others != target[:, None]].reshape(n, -1)
    winner, rival = others, target[:, None].expand_as(others)
    if goal.asks_for_one:
        winner, rival = rival, others
    constant = bias[winner] - bias[rival] - goal.offset(winner, rival, bias)
    slack = rounding * (mass.gather(1, winner) + mass.gather(1, rival) + constant.abs())
    two = net.widths[-1] == 1  # two classes are one score, the lead of the second
    return Aims(
        plus=0 * winner.numpy() if two else winner.numpy(),
        minus=0 * rival.numpy() - 1 if two else np.ascontiguousarray(rival.numpy()),
        sign=np.where(winner.numpy() == 1, 1.0, -1.0) if two else np.ones(winner.shape),
        constant=constant.numpy(),
        slack=slack.numpy(),
        groups=np.array([0, winner.shape[1]]) if goal.asks_for_one else np.arange(winner.shape[1] + 1),
        importance=importance,
    )


def _of_range(problem: Problem, network: ReluNetwork, mass: Tensor, rounding: float, importance: np.ndarray) -> Aims:
    """The score has to be at least the low end of a range and at most the high one; of a range without one end, the
    other one counts."""
    goal, bias = problem.goal, network.later[-1][1]
    assert isinstance(goal, Between)
    constant = torch.stack([bias - goal.low, goal.high - bias], dim=1)
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).expand_as(constant)
    endless = torch.stack([torch.isneginf(goal.low), torch.isposinf(goal.high)], dim=1)
    constant, sign = (torch.where(endless, t.flip(1), t) for t in (constant, sign))
    count = 1 if bool(endless.any(dim=1).all()) else 2
    constant, sign = constant[:, :count], sign[:, :count]
    slack = rounding * (mass + finite_size(constant))

    def each(value: Tensor) -> np.ndarray:
        return np.ascontiguousarray(value.numpy())

    none = np.zeros(constant.shape, dtype=np.int64)
    return Aims(none, none - 1, each(sign), each(constant), each(slack), np.array([0, count]), importance)


def size_of_terms(problem: Problem, network: ReluNetwork) -> Tensor:
    """What the terms that are summed up in each score (n, classes) come to at most, within the ranges of the rows."""
    x = network.present(problem.rows).abs()
    farthest = torch.where(problem.free, torch.stack([x, problem.low.abs(), problem.high.abs()]).amax(dim=0), x)
    size = farthest @ network.weight.abs().T + network.bias.abs()
    for table in network.tables.values():
        size = size + table.abs().amax(dim=0)
    for _, vector in network.missing.values():
        size = size + vector.abs()
    mass = 1 + SPAN * size
    for weight, bias in network.later:
        mass = 1 + mass @ weight.abs().T + bias.abs()
    return mass


def finite_size(constant: Tensor) -> Tensor:
    """The absolute values of constants; 0 for the end that a range does not have, which takes part in no sum."""
    return torch.where(torch.isfinite(constant), constant.abs(), 0.0)
