"""Whether all changes of an answer are needed: by the trees that were read, and literally by the model itself."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

import grace
from grace.methods.checks import check_answers, needs_every_change
from grace.methods.polish import EXHAUSTIVE
from grace.problem.problem import Problem
from tree_cases import KINDS, TASKS, Case, case, members

SEEDS = st.integers(0, 1 << 20)


def problem_of(asked: Case) -> Problem:
    """The problem that a call poses."""
    seen: list[Problem] = []

    def note(problem: Problem, found: Tensor) -> Any:
        seen.append(problem)
        return check_answers(problem, found)

    with patch("grace.explain.solve.check_answers", note):
        asked.explainer.explain(asked.rows, **asked.call)
    return seen[0]


def mixed_rows(problem: Problem, others: np.ndarray, rng: np.random.Generator) -> Tensor:
    """The rows of a problem, with some cells from other rows."""
    rows = problem.rows.numpy()
    taken = others[rng.integers(len(others), size=len(rows))]
    return torch.from_numpy(np.where(rng.random(rows.shape) < rng.choice([0.3, 0.6, 0.9]), taken, rows))


def needed_literally(problem: Problem, contrast: Tensor) -> list[bool]:
    """Of each row, whether the model decides none of the proper subsets of its changes as was asked for."""
    needed = []
    for i, (x, new) in enumerate(zip(problem.rows, contrast, strict=True)):
        changed = np.flatnonzero(x != new)
        subsets = [chosen for size in range(1, len(changed)) for chosen in combinations(changed.tolist(), size)]
        own = problem.select(torch.tensor([i]))
        enough = False
        for chosen in subsets:
            row = x.clone()
            row[list(chosen)] = new[list(chosen)]
            enough |= bool(own.goal.decided(problem.model.scores(row[None])))
        needed.append(len(changed) <= EXHAUSTIVE and not enough)
    return needed


@pytest.mark.parametrize("task", TASKS)
@given(st.sampled_from(KINDS), SEEDS)
@settings(max_examples=8, derandomize=True)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of libraries, about their own training
def test_all_changes_are_needed_where_the_model_decides_no_part_of_them_as_was_asked_for(
    task: str, kind: str, seed: int
) -> None:
    rng = np.random.default_rng([KINDS.index(kind), TASKS.index(task), seed])
    asked = case(rng, kind, task)
    problem, others = problem_of(asked), asked.explainer.background_rows
    for _ in range(4):
        contrast = mixed_rows(problem, others, rng)
        assert needs_every_change(problem, contrast).tolist() == needed_literally(problem, contrast)


def test_ties_go_as_they_go_in_the_model() -> None:
    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(120, 4)).round(1), columns=list("abcd"))
    model = RandomForestClassifier(4, max_leaf_nodes=3, random_state=1).fit(frame, frame.sum(axis=1) > 0)
    for tree in members(model):
        tree.value[:, 0] = np.eye(2)[tree.value[:, 0].argmax(axis=1)]
    explainer, rng = grace.Explainer(model, frame), np.random.default_rng(0)
    met = set()
    for start in range(0, 60, 10):
        problem = problem_of(Case(explainer, model, frame.iloc[start : start + 10], {"gamma": 1.0}))
        contrast = mixed_rows(problem, explainer.background_rows, rng)
        found = needs_every_change(problem, contrast).tolist()
        assert found == needed_literally(problem, contrast)
        met |= set(found)
    assert met == {True, False}
