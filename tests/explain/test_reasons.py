"""Reasons beside all rows of a grid: minimal sets, counts, proofs that there are no others, and their values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import grace
from decision_cases import is_close, network_case, tree_case
from decision_reference import check_reasons, network_rows, problem_of_call
from grace.explain.decisions.reasons import Reasons
from grids import explainer_of, grid
from problems import CASES
from subsets import first

BOXES = {case.name: case for case in CASES}


@pytest.mark.parametrize("seed", first(12, range(40)))
def test_every_row_of_a_grid(seed: int) -> None:
    asked = network_case(seed)
    for i, reasons in enumerate(asked.batch.reasons(1 + seed % 4, seconds=20.0)):
        if not asked.batch.answers.trivial[i]:
            check_reasons(reasons, asked.true[i], complete=asked.exact)


@pytest.mark.parametrize("seed", first(18, range(90)))
def test_every_cell_of_trees(seed: int) -> None:
    asked = tree_case(seed)
    for i, reasons in enumerate(asked.batch.reasons(1 + seed % 4, seconds=20.0)):
        true = asked.true[i]
        if true is not None and not asked.batch.answers.trivial[i]:
            check_reasons(reasons, true, complete=asked.exact and not is_close(true))


def test_shown_sets_are_changed_and_flip() -> None:
    explainer, frame = explainer_of(grid(4), 4), grid(4)
    for reasons in explainer.reasons(frame.head(5), 3):
        assert reasons.shown == reasons.sets[: len(reasons.shown)]
        for reason in reasons.shown:
            e = reason.explanation
            assert e is not None
            assert sorted(c.feature.name for c in e.changes) == sorted(reason.features)
            assert explainer.model.predict(pd.DataFrame([e.contrast]))[0] != e.original_class


def test_no_time_proves_nothing_about_pairs() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(3)
    for reasons in explainer.reasons(frame, seconds=0.0):
        assert not reasons.complete
        assert reasons.complete_to <= 1
        assert all(len(s.features) == 1 or not s.minimal for s in reasons.sets)


@pytest.mark.parametrize("name", ["two classes", "kinked", "categories"])
def test_of_a_black_box_nothing_is_proven(name: str) -> None:
    case = BOXES[name]
    explainer = case.explainer()
    for reasons, fewest in zip(explainer.reasons(case.rows, 2), case.fewest, strict=True):
        assert not reasons.complete
        assert reasons.complete_to == 0
        assert not any(s.minimal for s in reasons.sets if len(s.features) > 1)
        assert "proven" not in reasons.text()
        assert "nachgewiesen" not in reasons.text(language="de")
        assert fewest == 0 or min(len(s.features) for s in reasons.sets) == fewest


def test_rows_alone_as_in_a_batch_and_on_any_number_of_threads() -> None:
    explainer, frame = explainer_of(grid(3), 3), grid(3)
    together = [sets_of(r) for r in explainer.reasons(frame.head(6), seconds=20.0)]
    assert [sets_of(explainer.reasons(frame.iloc[[i]], seconds=20.0)[0]) for i in range(6)] == together
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [sets_of(r) for r in explainer.reasons(frame.head(6), seconds=20.0)] == together
    finally:
        torch.set_num_threads(before)


def sets_of(reasons: Reasons) -> list[object]:
    return [(r.features, r.minimal, r.explanation and r.explanation.contrast) for r in reasons.sets]


def test_a_row_that_is_as_asked_for_already() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(1)
    reasons = explainer.reasons(frame, against="c0")[0]
    assert not reasons.sets
    assert not reasons.complete
    assert reasons.text() == "The model classified the row as c0. That is what was asked for already."


@pytest.mark.parametrize("against", [grace.above(2.0), grace.below(-2.0), grace.within(1.0, 1.5), grace.by(1.0)])
def test_numbers(against: object) -> None:
    """Whole numbers, by trying all rows."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 4, (80, 3)), columns=list("abc"))
    target = frame.a - frame.b + 0.5 * frame.c * (frame.a > 1) - 1
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(frame, target)
    explainer = grace.Explainer(model, frame, domain="minmax")
    rows = frame.head(4)
    batch = explainer.explain(rows, against=against)
    problem = problem_of_call(explainer, rows, {"against": against})
    for i, reasons in enumerate(batch.reasons(3, seconds=20.0)):
        if not batch.answers.trivial[i]:
            check_reasons(reasons, network_rows(problem, i, list("abc")))


def test_a_pipeline_of_trees_is_proven() -> None:
    frame = grid(2)[["a", "b", "d"]]
    target = (frame.a * frame.b + frame.d > 1).astype(int)
    boosting = HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=2, early_stopping=False)
    model = make_pipeline(StandardScaler(), boosting).fit(frame, target)
    explainer = grace.Explainer(model, frame, domain="minmax")
    problem = problem_of_call(explainer, frame.head(4), {})
    for i, reasons in enumerate(explainer.reasons(frame.head(4), 3, seconds=20.0)):
        check_reasons(reasons, network_rows(problem, i, list("abd")))
