"""A slow and literal reference for answers about tree ensembles: every set of features, every cell between thresholds.

Nothing of the search is shared. Thresholds come from the nodes as the library holds them; what a candidate is decided
to be is asked of the library itself, and the goal is worked out here from what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import grace
from grace.models.trees.reading import read_trees
from grace.problem.contrast import goal_of
from grace.problem.goal import Against, Between, Flip, Goal
from grace.problem.problem import Problem
from grace.problem.settings import settings_of

Array = npt.NDArray[np.float64]
LIMITS = ("frozen", "only", "protected", "increase_only", "decrease_only", "ranges", "costs")
TOLERANCE = 1e-6  # by how much a goal has to be reached
LEAST = 1e-12  # the smallest probability above zero
AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Question:
    """What was asked about rows: their limits, and the model itself."""

    problem: Problem
    estimator: Any
    threshold: Any = None

    @property
    def goal(self) -> Goal:
        return self.problem.goal


def question_of(explainer: grace.Explainer, estimator: Any, rows: Any, call: dict[str, Any]) -> Question:
    """The question that a call of `explain` asks."""
    limits = {name: call[name] for name in LIMITS if name in call}
    asked = {k: v for k, v in call.items() if k not in (*LIMITS, "against", "domain")}
    settings = settings_of(explainer.settings, asked)
    schema = explainer.schema_for(call.get("domain", explainer.schema.domain)).constrain(**limits)
    encoded = torch.as_tensor(schema.encode(rows))
    goal = goal_of(explainer._view, encoded, call.get("against"), settings)
    cutoffs = explainer.model.cutoffs
    return Question(explainer._problem(encoded, goal, schema, settings), estimator, cutoffs and cutoffs.named)


# -- the model ------------------------------------------------------------------------------------


def responses(question: Question, rows: Array) -> Array:
    """What the library itself says of encoded rows: probabilities (n, classes), or numbers (n, 1)."""
    given = question.problem.model.given(rows)
    if question.problem.model.task == "regression":
        return np.asarray(question.estimator.predict(given), dtype=np.float64).reshape(-1, 1)
    return np.asarray(question.estimator.predict_proba(given), dtype=np.float64)


def reached(question: Question, i: int, rows: Array) -> npt.NDArray[np.bool_]:
    """Whether candidates (m, d) for row i reach its goal."""
    out = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), AT_ONCE):
        part = responses(question, rows[start : start + AT_ONCE])
        out[start : start + AT_ONCE] = [counts(question, i, each) for each in part]
    return out


def decided(question: Question, i: int, rows: Array) -> npt.NDArray[np.bool_]:
    """Whether the library decides candidates (m, d) for row i as was asked for, by however little: by its own `predict`
    where that alone decides."""
    goal = question.goal
    if isinstance(goal, Between) or goal.confidence > 0 or question.threshold:  # type: ignore[attr-defined]
        return np.array([counts(question, i, each, 0.0) for each in responses(question, rows)], dtype=bool)
    classes = list(question.problem.model.classes)
    labels = np.asarray(question.estimator.predict(question.problem.model.given(rows))).reshape(-1)
    return np.isin([classes.index(label) for label in labels.tolist()], wanted(goal, i, len(classes)))


def counts(question: Question, i: int, response: Array, tolerance: float = TOLERANCE) -> bool:
    """Whether what the library says reaches the goal of row i."""
    goal = question.goal
    if isinstance(goal, Between):
        number = response[0]
        room = tolerance * goal.scale
        return bool(number - goal.low[i] >= room and goal.high[i] - number >= room)
    assert isinstance(goal, Flip | Against)
    return any(wins(question, response, c, tolerance) for c in wanted(goal, i, len(response)))


def wanted(goal: Flip | Against, i: int, classes: int) -> list[int]:
    if isinstance(goal, Against):
        return [int(goal.wanted[i])]
    return [c for c in range(classes) if c != int(goal.original[i])]


def wins(question: Question, shares: Array, c: int, tolerance: float) -> bool:
    """Whether a class is decided, by enough, and is as probable as was asked for."""
    classes, confidence = question.problem.model.classes, question.goal.confidence  # type: ignore[attr-defined]
    scores = [math.log(max(p, LEAST)) for p in shares]
    named = dict(question.threshold or ())
    if len(named) == 1:  # of two classes: one is decided if it is at least so probable
        ((label, limit),) = named.items()
        if (shares[classes.index(label)] >= limit) != (classes[c] == label):
            return False
    else:
        leads = [s - math.log(named[label]) for s, label in zip(scores, classes, strict=True)] if named else scores
        if not all(leads[c] - leads[k] >= tolerance for k in range(len(leads)) if k != c):
            return False
    if confidence <= 0:
        return True
    top = max(scores)
    total = sum(math.exp(s - top) for s in scores)
    share = math.exp(scores[c] - top) / total
    rest = max(sum(math.exp(s - top) for k, s in enumerate(scores) if k != c) / total, 1e-16)
    return math.log(share / rest) - math.log(confidence / (1 - confidence)) >= tolerance


# -- cells ----------------------------------------------------------------------------------------


def thresholds(question: Question) -> dict[int, list[float]]:
    """Where numbers go another way, by feature: for models on the very columns of the table."""
    model, schema = question.problem.model, question.problem.model.schema
    categorical = [j for j, f in enumerate(schema.features) if not isinstance(f, grace.Numeric)]
    nodes = read_trees(question.estimator, categorical)
    assert nodes is not None
    names = list(model.columns or schema.names)
    found: dict[int, set[float]] = {j: set() for j in range(len(schema))}
    for column, limit, members in zip(nodes.column, nodes.threshold, nodes.members, strict=True):
        if column >= 0 and members < 0 and np.isfinite(limit):
            found[schema.names.index(names[column])].add(float(limit))
    return {j: sorted(limits) for j, limits in found.items()}


def values(question: Question, limits: dict[int, list[float]], i: int, j: int) -> list[float]:
    """All values of a cell that could be nearest to the row's own in their span between thresholds."""
    problem = question.problem
    x, low, high = (float(t[i, j]) for t in (problem.rows, problem.low, problem.high))
    if not problem.free[i, j]:
        return []
    if j in problem.space.choices:
        return [float(c) for c in problem.space.choices[j] if c != x and low <= c <= high]
    whole = bool(problem.space.is_integer[j])
    tried = {low, high, *beside(x)}
    for limit in limits[j]:
        tried |= set(beside(limit))
    if whole:
        tried = {float(r + step) for v in tried if np.isfinite(v) for r in (math.floor(v),) for step in (-1, 0, 1, 2)}
    return sorted(v for v in tried if np.isfinite(v) and v != x and low <= v <= high)


def beside(value: float) -> list[float]:
    """A number and its neighbours in both precisions, and the middles at which doubles are rounded to one or the
    other."""
    single = np.float32(value)
    lower, upper = (np.nextafter(single, np.float32(end)) for end in (-np.inf, np.inf))
    middles = [(float(a) + float(b)) / 2 for a, b in ((lower, single), (single, upper))]
    near = [value, float(single), float(lower), float(upper), *middles]
    return [float(v) for n in near for v in (n, np.nextafter(n, -np.inf), np.nextafter(n, np.inf))]


def thinned(question: Question, limits: dict[int, list[float]], i: int, j: int, tried: list[float]) -> list[float]:
    """Of values that no threshold divides, the nearest ones."""
    if j in question.problem.space.choices or not tried:
        return tried
    x = float(question.problem.rows[i, j])
    best: dict[tuple[Any, ...], float] = {}
    for v in tried:
        with np.errstate(over="ignore"):
            single = float(np.float32(v))
        key = (v > x, *((v < t, v <= t, single < t, single <= t) for t in limits[j]))
        if key not in best or abs(v - x) < abs(best[key] - x):
            best[key] = v
    return sorted(best.values())


def cost(question: Question, j: int, old: float, new: float) -> float:
    feature = question.problem.model.schema.features[j]
    constrained = float(question.problem.space.weight[j])
    if isinstance(feature, grace.Numeric) or feature.ordered:
        return constrained * abs(new - old) / (feature.spread or 1.0)
    return constrained


def distance(question: Question, costs: Sequence[float]) -> float:
    norm = question.problem.space.norm
    if norm == "l2":
        return math.sqrt(sum(c * c for c in costs))
    return max(costs, default=0.0) if norm == "linf" else math.fsum(costs)


# -- the reference --------------------------------------------------------------------------------

Test = Callable[[Question, int, Array], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class Truth:
    """Of one row: for each set of features with an answer, how near the nearest is."""

    sets: dict[tuple[int, ...], float]

    @property
    def fewest(self) -> int | None:
        return min(map(len, self.sets), default=None)

    def nearest(self, count: int | None = None, within: Sequence[int] | None = None) -> float:
        """The least distance of answers with so many changes, or with changes of some features alone."""
        return min(
            (
                far
                for features, far in self.sets.items()
                if (count is None or len(features) == count) and (within is None or set(features) <= set(within))
            ),
            default=math.inf,
        )


def truth(question: Question, i: int, test: Test = reached) -> Truth:
    """All sets of at most K features with which row i reaches its goal, or is `decided` as was asked for."""
    problem, limits = question.problem, thresholds(question)
    x = problem.rows[i].numpy()
    tried = [thinned(question, limits, i, j, values(question, limits, i, j)) for j in range(len(x))]
    found: dict[tuple[int, ...], float] = {}
    for features in subsets(problem):
        if not all(tried[j] for j in features):
            continue
        grid = np.array(np.meshgrid(*(tried[j] for j in features), indexing="ij")).reshape(len(features), -1).T
        rows = np.repeat(x[None], len(grid), axis=0)
        rows[:, features] = grid
        hit = test(question, i, rows)
        if hit.any():
            found[features] = min(
                distance(question, [cost(question, j, float(x[j]), float(v)) for j, v in zip(features, r, strict=True)])
                for r in grid[hit]
            )
    return Truth(found)


def subsets(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Sets of at most K features no two of which are redundant."""
    for size in range(1, problem.max_features + 1):
        for features in combinations(range(problem.rows.shape[1]), size):
            if not any(problem.conflict[a, b] for a, b in combinations(features, 2)):
                yield features


def said(question: Question, count: int) -> float:
    """By how much farther so many changes may be than they had to, so that their numbers have few digits."""
    space = question.problem.space
    steps = [
        cost(
            question,
            j,
            0.0,
            10.0 ** -int(space.digits[j]),
        )
        for j in range(len(space.spread))
        if space.is_numeric[j]
    ]
    return distance(question, sorted(steps)[-count:]) if count else 0.0
