"""What counts as an answer, as functionals of the sums of a tree ensemble.

Sums of a library that adds up in single precision differ from ours in double precision. So each functional has two
limits: from one on the model is sure to decide as was asked for, below the other it is sure not to. Between them lies
more than rounding can explain, and the model itself is asked.
"""

from __future__ import annotations

import numpy as np

from grace.methods.trees.branch import Aims
from grace.models.trees.ensemble import LINK, TreeEnsemble
from grace.problem.goal import Against, Between, ClassGoal, Flip, logit
from grace.problem.problem import Problem
from grace.schema.features import Floats


def aims_of(problem: Problem, ensemble: TreeEnsemble, ties: bool = False) -> Aims:
    """The goal of a problem as functionals. With `ties`, rows are not excluded that the model decides as was asked for
    by less than the margin that an answer needs."""
    aims = _aims_of(problem, ensemble)
    return aims._replace(excluded=(aims.excluded - aims.needed) / 2) if ties else aims  # by rounding alone


def _aims_of(problem: Problem, ensemble: TreeEnsemble) -> Aims:
    goal = problem.goal
    if isinstance(goal, Between):
        return _range(goal, ensemble, problem.model.tolerance)
    assert isinstance(goal, Flip | Against)
    if ensemble.link == "logistic":
        return _two_classes(goal, ensemble, problem.model.tolerance)
    return _classes(goal, ensemble, problem.model.tolerance)


def _range(goal: Between, ensemble: TreeEnsemble, tolerance: float) -> Aims:
    """Two functionals: the number is not below the range, and not above it."""
    low, high, room = goal.low.numpy(), goal.high.numpy(), tolerance * goal.scale
    least, most = ensemble.sum_of(low), ensemble.sum_of(high)
    constant = np.stack([-least, most], axis=1)
    size = 1 + np.abs(np.where(np.isfinite(constant), constant, 0.0))
    slack = np.maximum(ensemble.rounding, LINK[ensemble.precision] * size)
    with np.errstate(invalid="ignore"):  # a range without an end
        inside = np.stack([ensemble.sum_of(low + room) - least, most - ensemble.sum_of(high - room)], axis=1)
    inside = np.where(np.isfinite(inside), inside, 0.0)
    functional = np.array([[[1.0], [-1.0]]])
    return _aims(functional, np.zeros(len(low), dtype=np.int64), constant, inside, slack, [0, 2])


def _two_classes(goal: Flip | Against, ensemble: TreeEnsemble, tolerance: float) -> Aims:
    """One functional: the sum is the lead of the second class."""
    wanted = 1 - goal.original if isinstance(goal, Flip) else goal.wanted
    shift = np.zeros(2) if goal.shift is None else goal.shift.double().numpy()
    second, apart = wanted.numpy() == 1, shift[1] - shift[0]
    if goal.confidence > 0:
        odds = logit(goal.confidence)
        limit = np.where(second, max(apart, odds), min(apart, -odds))
    else:
        limit = np.full(len(second), apart)
    functional = np.array([[[-1.0]], [[1.0]]])
    constant = np.where(second, -limit, limit)[:, None]
    slack = np.full_like(constant, max(ensemble.rounding, LINK[ensemble.precision])) * (1 + np.abs(constant))
    return _aims(functional, second.astype(np.int64), constant, np.full_like(constant, tolerance), slack, [0, 1])


def _classes(goal: ClassGoal, ensemble: TreeEnsemble, tolerance: float) -> Aims:
    """The lead of a class over each other one. Any other class than the original only has to lead that; a class that
    was asked for, or has to be as probable, leads all."""
    classes = len(ensemble.trees.base)
    shift = np.zeros(classes) if goal.shift is None else goal.shift.double().numpy()
    given = (goal.original if isinstance(goal, Flip) else goal.wanted).numpy()  # type: ignore[attr-defined]
    shares, sure = ensemble.link == "probabilities", goal.confidence > 0
    functional, constant, groups = [], [], [0]
    winner: list[list[int]] = []
    for own in range(classes):
        lines: list[Floats] = []
        offsets: list[float] = []
        ends, winners = [0], []
        for c in range(classes):
            if (c == own) == isinstance(goal, Flip):
                continue
            rivals = [k for k in range(classes) if k != c]
            for k in rivals if sure or not isinstance(goal, Flip) else [own]:
                line = np.zeros(classes)
                line[c], line[k] = (np.exp(-shift[c]), -np.exp(-shift[k])) if shares else (1.0, -1.0)
                apart = 0.0 if shares else shift[k] - shift[c]
                if sure and not shares:
                    apart -= max(0.0, logit(goal.confidence) - shift[c] + shift[k])
                lines.append(line)
                offsets.append(apart)
            if sure and shares:
                lines.append(np.eye(classes)[c])
                offsets.append(-goal.confidence)
            ends.append(len(lines))
            winners.append(c)
        functional.append(lines)
        constant.append(offsets)
        groups, winner = ends, [*winner, winners]
    table, offset = np.array(functional), np.array(constant)[given]
    size = np.abs(table).max(axis=2)[given]
    slack = size * max(ensemble.rounding, LINK[ensemble.precision]) * (1 + np.abs(offset))
    odds = logit(goal.confidence) if sure and not shares else -np.inf
    return _aims(table, given, offset, tolerance * size, slack, groups, winner, odds)


def _aims(
    functional: Floats,
    kind: np.ndarray,
    constant: Floats,
    inside: Floats,
    slack: Floats,
    groups: list[int],
    winner: list[list[int]] | None = None,
    odds: float = -np.inf,
) -> Aims:
    own = [[0] * (len(groups) - 1)] * len(functional) if winner is None else winner
    return Aims(
        functional=np.ascontiguousarray(functional, dtype=np.float64),
        kind=np.ascontiguousarray(kind, dtype=np.int64),
        constant=np.ascontiguousarray(constant, dtype=np.float64),
        needed=np.ascontiguousarray(inside + slack, dtype=np.float64),
        excluded=np.ascontiguousarray(inside - slack, dtype=np.float64),
        groups=np.array(groups, dtype=np.int64),
        winner=np.array(own, dtype=np.int64),
        odds=float(odds),
    )
