"""Answers about tree ensembles against a literal reference that tries every set of features and every cell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tree_cases import KINDS, TASKS, Case, case, large_case
from tree_promises import kept

SEEDS = st.integers(0, 1 << 20)
OWN = ("tree", "forest", "stages")


def drawn(kind: str, task: str, seed: int) -> Case:
    return case(np.random.default_rng([KINDS.index(kind), TASKS.index(task), seed]), kind, task)


@pytest.mark.parametrize("task", TASKS)
@given(st.sampled_from(KINDS), SEEDS)
@settings(max_examples=6, derandomize=True)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of libraries, about their own training
def test_no_answer_has_fewer_changes_or_is_nearer(task: str, kind: str, seed: int) -> None:
    kept(drawn(kind, task, seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_answer_has_fewer_changes_or_is_nearer_in_many_cases(kind: str, task: str) -> None:
    met: Counter[str] = Counter()
    for seed in range(12):
        met += kept(drawn(kind, task, seed))
    assert met["answers"] > 5
    assert met["misses"] > 2
    assert met["open"] <= 0.5 * met["proven"]  # votes that tie


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_larger_ensembles(seed: int) -> None:
    kept(large_case(np.random.default_rng([99, seed])))


@given(st.sampled_from(OWN), st.sampled_from(TASKS), SEEDS)
@settings(max_examples=8, derandomize=True)
@example("forest", "threshold", 14)
def test_a_row_has_the_same_answer_alone_and_among_others(kind: str, task: str, seed: int) -> None:
    asked = drawn(kind, task, seed)
    together = asked.explainer.explain(asked.rows, **asked.call).answers
    twice = asked.explainer.explain(asked.rows.iloc[::-1], **asked.call).answers
    assert np.array_equal(together.contrast, twice.contrast[::-1])
    for i in range(len(asked.rows)):
        alone = asked.explainer.explain(asked.rows.iloc[[i]], **asked.call).answers
        assert np.array_equal(alone.contrast[0], together.contrast[i])
        assert alone.distance[0] == together.distance[i]
        assert alone.proof[0] == together.proof[i]
        np.testing.assert_equal(alone.nearest[0], together.nearest[i])


def test_any_number_of_threads_gives_the_same_answers() -> None:
    asked = drawn("forest", "flip", 3)
    rows = asked.explainer.schema.decode(asked.explainer.background_rows)
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            found.append(asked.explainer.explain(rows, gamma=1.0, max_features=3, prove=True).answers)
        finally:
            torch.set_num_threads(1)
    assert found[0].success.any()
    assert np.array_equal(found[0].contrast, found[1].contrast)
    assert np.array_equal(found[0].proof, found[1].proof)
    np.testing.assert_equal(found[0].nearest, found[1].nearest)


def test_the_nearest_of_all_does_not_depend_on_what_was_asked_before() -> None:
    asked = drawn("tree", "against", 7)  # prefers the nearest, by the largest change: several sets are equally near
    first, second = (asked.explainer.explain(asked.rows, **asked.call).answers for _ in range(2))
    assert np.array_equal(first.contrast, second.contrast)
    alone = [asked.explainer.explain(asked.rows.iloc[[i]], **asked.call).answers.contrast[0] for i in (2, 1, 0)]
    assert np.array_equal(np.stack(alone[::-1]), first.contrast)
