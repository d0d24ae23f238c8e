"""Profiles of tree ensembles: every step, and spans that hold up to their ends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.methods.profiles import profiles_of
from tree_cases import KINDS, TASKS, case
from tree_reference import Question, counts, question_of, reached, responses


def check_lines(question: Question) -> int:
    """Compare what profiles say with the library itself; returns how many steps there were."""
    problem, steps = question.problem, 0
    start = reached_by(question, problem.rows.numpy())
    for j in np.flatnonzero(problem.space.is_numeric.numpy()):
        rows = np.flatnonzero(problem.free[:, j].numpy() & ~start)
        if len(rows) == 0:
            continue
        part, place = problem.select(torch.from_numpy(rows)), torch.full((len(rows),), int(j))
        lines = profiles_of(part, part.rows, place)
        assert lines.exact
        assert lines.steps
        low, high = lines.runs()
        for n, i in enumerate(rows):
            points, holds = lines.points[n].numpy(), lines.holds[n].numpy()
            assert (np.diff(points) >= 0).all()
            assert points[0] <= problem.rows[i, j] <= points[-1]
            if len(problem.model.classes) <= 2:  # of more, a profile is about one class
                assert np.array_equal(holds, at(question, i, j, points))
            ends = low[n].numpy(), high[n].numpy()
            beyond = np.nextafter(ends[0], -np.inf), np.nextafter(ends[1], np.inf)
            for end, outside in zip(ends, beyond, strict=True):
                assert at(question, i, j, end[holds]).all()
                within = holds & (outside >= points[0]) & (outside <= points[-1])
                if len(problem.model.classes) <= 2:
                    assert not at(question, i, j, outside[within]).any()
            between = np.nextafter(points[:-1], np.inf) < points[1:]
            middle = (points[:-1] + (points[1:] - points[:-1]) / 2)[between]
            assert np.array_equal(
                responses(question, moved(question, i, j, middle)),
                responses(question, moved(question, i, j, points[:-1][between])),
            )
            steps += len(np.unique(points)) // 2
    return steps


def moved(question: Question, i: int, j: int, values: np.ndarray) -> np.ndarray:
    rows = np.repeat(question.problem.rows[[i]].numpy(), max(len(values), 1), axis=0)
    rows[: len(values), j] = values
    return rows


def at(question: Question, i: int, j: int, values: np.ndarray) -> np.ndarray:
    """Whether row i reaches its goal with values of a feature."""
    return reached(question, i, moved(question, i, j, values))[: len(values)]


def reached_by(question: Question, rows: np.ndarray) -> np.ndarray:
    return np.array([counts(question, i, each) for i, each in enumerate(responses(question, rows))])


@given(st.sampled_from(KINDS), st.sampled_from(TASKS), st.integers(0, 1 << 20))
@settings(max_examples=20, derandomize=True)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of libraries, about their own training
def test_steps_begin_and_end_where_the_model_says(kind: str, task: str, seed: int) -> None:
    asked = case(np.random.default_rng([KINDS.index(kind), TASKS.index(task), seed]), kind, task)
    check_lines(question_of(asked.explainer, asked.estimator, asked.rows, asked.call))


def test_a_threshold_beyond_the_one_before_decides_nothing() -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 10, 41), "b": np.linspace(1, 0, 41) ** 3})
    model = DecisionTreeClassifier(max_depth=2, random_state=0)
    model.fit(frame.assign(b=0.0), np.digitize(frame["a"], [2.5, 5, 7.5]))
    left = model.tree_.children_left[0]
    assert model.tree_.feature[left] == 0
    model.tree_.threshold[left] = 7.0
    assert model.tree_.threshold[0] < 6.0
    explainer = grace.Explainer(model, frame)
    question = question_of(explainer, model, frame.iloc[[2, 30]], {"gamma": 1.0, "domain": "minmax"})
    assert check_lines(question) > 2
