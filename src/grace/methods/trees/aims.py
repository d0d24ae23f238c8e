"""What counts as an answer, as functionals of the sums of a tree ensemble.

Sums of a library that adds up in single precision differ from ours in double precision. So each functional has two
limits: from one on the model is sure to decide as was asked for, below the other it is sure not to. Between them lies
more than rounding can explain, and the model itself is asked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from grace.methods.trees.margins import Aims
from grace.models.predictor import LEAST
from grace.models.preprocessing.thresholds import first_where
from grace.models.trees.ensemble import LINK, TreeEnsemble
from grace.problem.goal import Against, Between, ClassGoal, Flip, logit
from grace.problem.problem import Problem
from grace.schema.caching import cached_on_first
from grace.schema.features import Bools, Floats

Ints = npt.NDArray[np.int64]
FARTHEST = 1e6  # sums beyond which no calibration changes


def aims_of(problem: Problem, ensemble: TreeEnsemble, ties: bool = False, contest: bool = True) -> Aims:
    """The goal of a problem as functionals. With `ties`, rows are not excluded that the model decides as was asked for
    by less than the margin that an answer needs. Without `contest`, the functionals say it all, of a flip to one of
    several classes, too."""
    aims = _aims_of(problem, ensemble, contest)
    if not ties:
        return aims
    slack = (aims.needed - aims.excluded) / 2
    return aims._replace(
        excluded=np.minimum(aims.excluded, -slack),
        unlikely=aims.unlikely - problem.model.tolerance,
        behind=min(aims.behind, float(-slack.max(initial=0.0))),
    )


def _aims_of(problem: Problem, ensemble: TreeEnsemble, contest: bool) -> Aims:
    goal, tolerance, cutoffs = problem.goal, problem.model.tolerance, problem.model.cutoffs
    if isinstance(goal, Between):
        return _range(goal, ensemble, tolerance)
    assert isinstance(goal, Flip | Against)
    whole = cutoffs is None or cutoffs.positive is None  # else the side of the cut-off decides, however near it is
    if len(problem) != 1:
        return _of_classes(goal, ensemble, tolerance, whole, contest)
    given = goal.original if isinstance(goal, Flip) else goal.wanted
    shift = None if goal.shift is None else tuple(goal.shift.tolist())
    return _of_one_row(ensemble, type(goal), int(given), goal.confidence, shift, tolerance, whole, contest)


@cached_on_first
def _of_one_row(
    ensemble: TreeEnsemble,
    kind: type[Flip] | type[Against],
    given: int,
    confidence: float,
    shift: tuple[float, ...] | None,
    tolerance: float,
    whole: bool,
    contest: bool,
) -> Aims:
    """The aims of a single row, which are asked for again and again."""
    apart = None if shift is None else torch.tensor(shift, dtype=torch.float64)
    return _of_classes(kind(torch.tensor([given]), confidence, apart), ensemble, tolerance, whole, contest)


def _of_classes(goal: Flip | Against, ensemble: TreeEnsemble, tolerance: float, whole: bool, contest: bool) -> Aims:
    if ensemble.calibration is not None:
        return _calibrated(goal, ensemble, tolerance, whole)
    if ensemble.link == "logistic":
        return _two_classes(goal, ensemble, tolerance, whole)
    return _classes(goal, ensemble, tolerance, whole, contest)


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
    return plain_aims(functional, np.zeros(len(low), dtype=np.int64), constant, inside, slack, [0, 2])


def _two_classes(goal: ClassGoal, ensemble: TreeEnsemble, tolerance: float, whole: bool) -> Aims:
    """One functional: the sum is the lead of the second class. The lead itself has to exceed the tolerance, unless it
    is `whole` on one side of a cut-off."""
    inside = tolerance if whole else 0.0
    second, limit = _odds(goal, tolerance - inside)
    aims = _either_class(ensemble, limit[0].item(), limit[1].item(), inside)
    parts = {name: getattr(aims, name)[second] for name in ("constant", "needed", "excluded")}
    return aims._replace(kind=np.ascontiguousarray(second), **parts)


@cached_on_first
def _either_class(ensemble: TreeEnsemble, first_limit: float, second_limit: float, inside: float) -> Aims:
    """The aims of two rows, for the first class, and for the second."""
    constant = np.array([[first_limit], [-second_limit]])
    slack = max(ensemble.rounding, LINK[ensemble.precision]) * (1 + np.abs(constant))
    slack = slack + 4 * np.finfo(ensemble.precision).eps * np.exp(np.abs(constant))  # of shares that are near to 1
    functional = np.array([[[-1.0]], [[1.0]]])
    return plain_aims(functional, np.arange(2), constant, np.full_like(constant, inside), slack, [0, 1])


def _odds(goal: ClassGoal, more: float) -> tuple[Ints, Floats]:
    """Of two classes, which is wanted (n,), and for either (2,) which odds of the second, as a logarithm, may not be
    exceeded, or have to be reached; for a confidence, by so much more."""
    wanted = 1 - goal.original.numpy() if isinstance(goal, Flip) else goal.wanted.numpy()  # type: ignore[attr-defined]
    shift = np.zeros(2) if goal.shift is None else goal.shift.double().numpy()
    apart = shift[1] - shift[0]
    if goal.confidence <= 0:
        return wanted, np.array([apart, apart])
    odds = logit(goal.confidence) + more
    return wanted, np.array([min(apart, -odds), max(apart, odds)])


def _calibrated(goal: ClassGoal, ensemble: TreeEnsemble, tolerance: float, whole: bool) -> Aims:
    """One functional: the sum of the second class, beside the first one whose calibrated odds are large enough, or too
    large. The calibration never falls, and is only called."""
    inside = tolerance if whole else 0.0
    second, limit = _odds(goal, tolerance - inside)
    sign = np.array([-1.0, 1.0])

    def first(level: Floats) -> Floats:
        def beyond(sums: Floats) -> Bools:
            share = np.clip(ensemble.calibrated(sums), 0, 1)
            odds = np.log(np.maximum(share, LEAST)) - np.log(np.maximum(1 - share, LEAST))
            return np.where(sign > 0, odds >= level, odds > level)

        return first_where(beyond, np.full(2, -FARTHEST), np.full(2, FARTHEST))

    border, needed = first(limit), first(limit + sign * inside)
    room = np.where(np.isfinite(border) & np.isfinite(needed), sign * (needed - border), 0.0)
    classes = len(ensemble.trees.base)
    functional = np.zeros((2, 1, classes))
    functional[:, 0, -1] = sign
    constant = (-sign * border)[second][:, None]
    slack = np.full_like(constant, max(ensemble.rounding, LINK[ensemble.precision]))
    return plain_aims(functional, second, constant, room[second][:, None], slack, [0, 1])


def _classes(goal: ClassGoal, ensemble: TreeEnsemble, tolerance: float, whole: bool, contest: bool) -> Aims:
    """The lead of a class over each other one. Of any class but the original, the lead over that; its further rivals
    are looked at where it has it. A class that was asked for, or has to be as probable, leads all."""
    classes = len(ensemble.trees.base)
    shift = np.zeros(classes) if goal.shift is None else goal.shift.double().numpy()
    given = (goal.original if isinstance(goal, Flip) else goal.wanted).numpy()  # type: ignore[attr-defined]
    kinds, kind = np.unique(given, return_inverse=True)
    shares, sure = ensemble.link == "probabilities", goal.confidence > 0
    contested = contest and isinstance(goal, Flip) and not sure and classes > 2
    functional, constant, groups = [], [], [0]
    winner: list[list[int]] = []
    for own in kinds.tolist():
        lines: list[Floats] = []
        offsets: list[float] = []
        ends, winners = [0], []
        for c in range(classes):
            if (c == own) == isinstance(goal, Flip):
                continue
            rivals = [k for k in range(classes) if k != c]
            for k in [own] if contested else rivals:
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
    table = np.array(functional).reshape(len(kinds), -1, classes)
    offset = np.array(constant).reshape(len(kinds), -1)[kind]
    size = np.abs(table).max(axis=2)[kind]
    rounding = max(ensemble.rounding, LINK[ensemble.precision])
    slack = size * rounding * (1 + np.abs(offset))
    inside = least = tolerance * size
    if shares:  # the tolerance is one of their logarithms: at most this, and of the most probable at least that
        inside = tolerance * (1 + tolerance) * size if whole else np.zeros_like(size)
        least = np.minimum(inside, tolerance * (1 - tolerance) / np.exp(shift).sum())
    if sure and shares:
        share = 1 / (1 + np.exp(-logit(goal.confidence) - tolerance)) - goal.confidence
        alone = (table != 0).sum(axis=2)[kind] == 1
        inside, least = np.where(alone, share, inside), np.where(alone, share, least)
    odds, room = -np.inf, 0.0
    if sure and not shares:
        odds = logit(goal.confidence) + tolerance
        room = rounding * (1 + abs(odds))
    aims = plain_aims(table, kind, offset, inside, slack, groups, winner, odds, room)._replace(
        excluded=np.ascontiguousarray(least - slack)
    )
    if not contested or len(kind) == 0:
        return aims
    return aims._replace(
        contested=True,
        own=kinds.astype(np.int64),
        weight=np.exp(-shift) if shares else np.ones(classes),
        shift=np.zeros(classes) if shares else shift,
        ahead=float(aims.needed.max()),
        behind=float(aims.excluded.min()),
    )


def plain_aims(
    functional: Floats,
    kind: np.ndarray,
    constant: Floats,
    inside: Floats,
    slack: Floats,
    groups: list[int],
    winner: list[list[int]] | None = None,
    odds: float = -np.inf,
    room: float = 0.0,
) -> Aims:
    """The aims with limits that lie `slack` apart on both sides of `inside`."""
    own = [[0] * (len(groups) - 1)] * len(functional) if winner is None else winner
    return Aims(
        functional=np.ascontiguousarray(functional, dtype=np.float64),
        kind=np.ascontiguousarray(kind, dtype=np.int64),
        constant=np.ascontiguousarray(constant, dtype=np.float64),
        needed=np.ascontiguousarray(inside + slack, dtype=np.float64),
        excluded=np.ascontiguousarray(inside - slack, dtype=np.float64),
        groups=np.array(groups, dtype=np.int64),
        winner=np.array(own, dtype=np.int64),
        odds=float(odds + room),
        unlikely=float(odds - room),
        contested=False,
        own=np.zeros(len(functional), dtype=np.int64),
        weight=np.ones(functional.shape[2]),
        shift=np.zeros(functional.shape[2]),
        ahead=0.0,
        behind=0.0,
    )
