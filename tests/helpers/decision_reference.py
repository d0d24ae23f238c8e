"""A slow and literal reference for profiles, reasons and sufficient reasons: every row of a small grid, as the model
itself decides it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import torch

import grace
import tree_reference
from grace.explain.decisions.profile import CANNOT, FIXED, FLIPS, Profile
from grace.explain.decisions.questions import problem_of
from grace.explain.decisions.reasons import Reasons
from grace.explain.decisions.sufficient import SufficientReason
from grace.problem.problem import Problem

Sets = set[tuple[str, ...]]


@dataclass(frozen=True)
class AllRows:
    """All rows (n, d) that differ from a row as they may, one for each cell of a grid: which features differ, which
    rows `reach` the goal by the margin that an answer needs, and which are `decided` as was asked for at all."""

    names: list[str]
    free: np.ndarray
    rows: np.ndarray
    changed: np.ndarray
    reach: np.ndarray
    decided: np.ndarray

    def sets(self, which: np.ndarray) -> set[frozenset[str]]:
        patterns = {tuple(np.flatnonzero(c).tolist()) for c in self.changed[which]}
        return {frozenset(self.names[j] for j in s) for s in patterns if s}

    def minimal(self, which: np.ndarray) -> set[frozenset[str]]:
        sets = self.sets(which)
        return {s for s in sets if not any(t < s for t in sets)}

    def alone(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The values that the feature can take while all others stay, and which of them reach the goal."""
        j = self.names.index(name)
        here = self.changed[:, j] & (self.changed.sum(axis=1) == 1)
        return self.rows[here, j], self.reach[here]


def network_rows(problem: Problem, i: int, names: list[str]) -> AllRows:
    """All rows of a grid of whole numbers and categories, by the scores of the model."""
    x, values = problem.rows[i], []
    for j in range(len(x)):
        own = float(x[j])
        low, high = float(problem.low[i, j]), float(problem.high[i, j])
        if not problem.free[i, j]:
            others: list[float] = []
        elif j in problem.space.choices:
            others = [float(c) for c in problem.space.choices[j] if low <= c <= high]
        else:
            others = [float(v) for v in range(math.ceil(low), math.floor(high) + 1)]
        values.append([own, *(v for v in others if v != own)])
    rows = np.array(list(product(*values)))
    part = problem.select(torch.full((len(rows),), i))
    tried = torch.from_numpy(rows)
    reach = part.reached(tried).numpy()
    decided = part.goal.decided(part.scores(tried)).numpy() | reach
    return AllRows(names, problem.free[i].numpy(), rows, rows != x.numpy(), reach, decided)


def tree_rows(question: tree_reference.Question, i: int, most: int = 60_000) -> AllRows | None:
    """All rows of different leaves, by what the library says; None if they are too many."""
    problem, limits = question.problem, tree_reference.thresholds(question)
    x = problem.rows[i].numpy()
    values = [
        [
            float(x[j]),
            *tree_reference.thinned(question, limits, i, j, tree_reference.values(question, limits, i, j)),
        ]
        for j in range(len(x))
    ]
    if np.prod([float(len(v)) for v in values]) > most:
        return None
    rows = np.array(list(product(*values)))
    reach = tree_reference.reached(question, i, rows)
    part = problem.select(torch.full((len(rows),), i))
    decided = part.goal.decided(part.scores(torch.from_numpy(rows))).numpy() | reach
    return AllRows(problem.model.schema.names, problem.free[i].numpy(), rows, rows != x, reach, decided)


def problem_of_call(explainer: grace.Explainer, rows: Any, call: dict[str, Any]) -> Problem:
    return problem_of(explainer.explain(rows, **call))


# -- what has to hold -------------------------------------------------------------------------------


def check_profile(profile: Profile, true: AllRows, *, whole: bool = True) -> None:
    """Spans and categories are those of the grid, and a feature that cannot flip the row does not. Unless all values
    are on the grid (`whole`), only values in spans are compared."""
    for f in profile.features:
        j = true.names.index(f.name)
        if not true.free[j]:
            assert f.verdict == FIXED, f
            continue
        values, reach = true.alone(f.name)
        if isinstance(f.feature, grace.Categorical):
            inside = np.isin(values, [f.feature.categories.index(c) for c in f.categories])
        else:
            inside = np.array([any(low <= v <= high for low, high in f.spans) for v in values], dtype=bool)
        if whole:
            assert (inside == reach).all(), (f.name, f.spans, f.categories, values, reach)
            assert f.flips == reach.any(), (f.name, f.verdict)
        assert not (inside & ~reach).any(), (f.name, f.spans, f.categories, values[inside & ~reach])
        if f.verdict == CANNOT:
            here = true.changed[:, j] & (true.changed.sum(axis=1) == 1)
            assert not true.decided[here].any(), f
        assert f.verdict != FLIPS or f.spans or f.categories


def check_reasons(reasons: Reasons, true: AllRows, *, complete: bool = True) -> None:
    """The sets are the minimal ones of the grid, with real witnesses."""
    known = true.minimal(true.reach)
    expected = {s for s in known if len(s) <= reasons.max_features}
    found = [frozenset(r.features) for r in reasons.sets]
    assert len(found) == len(set(found))
    everything = true.sets(true.decided)
    for reason, s in zip(reasons.sets, found, strict=True):
        assert s in true.sets(true.reach), (s, expected)
        if reason.minimal:
            assert not any(t < s for t in everything), (s, everything)
    covered = {s for s in true.minimal(true.decided) if len(s) <= reasons.complete_to}
    assert covered <= set(found), (covered, found, reasons.complete_to)
    if complete:
        assert reasons.complete
        assert set(found) == expected, (set(found), expected)
        assert reasons.counts == tuple(
            sum(len(s) == size for s in expected) for size in range(1, reasons.max_features + 1)
        )
        assert all(r.minimal for r in reasons.sets)
        free = [name for name, may in zip(true.names, true.free, strict=True) if may]
        assert reasons.in_all == tuple(n for n in free if expected and all(n in s for s in expected))
        assert reasons.in_none == tuple(n for n in free if not any(n in s for s in expected))
    for reason in reasons.shown:
        e = reason.explanation
        assert e is not None
        assert e.success
        assert {c.feature.name for c in e.changes} == set(reason.features)


def is_sufficient(kept: frozenset[str] | set[str], true: AllRows) -> bool:
    """Whether no row that agrees with the row in some features is decided otherwise."""
    stay = np.array([name in kept for name in true.names])
    return not (true.decided & ~true.changed[:, stay].any(axis=1)).any()


def check_sufficient(reason: SufficientReason, true: AllRows, *, decided: bool = True) -> None:
    """Nothing flips the row while the features stay; of each, that something does if it does not stay."""
    kept = set(reason.features)
    assert kept <= set(reason.free) == {n for n, may in zip(true.names, true.free, strict=True) if may}
    assert is_sufficient(kept, true), (kept, reason)
    for name in kept - set(reason.undecided):
        assert not is_sufficient(kept - {name}, true), (kept, name)
    if decided:
        assert reason.minimal, reason
    if reason.smallest:
        free = reason.free
        fewer = (s for size in range(len(kept)) for s in combinations(free, size))
        assert not any(is_sufficient(set(s), true) for s in fewer), reason
