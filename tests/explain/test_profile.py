"""Profiles beside trying every value: spans, categories, verdicts, goals and models of all kinds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import grace
from decision_cases import continuous, is_close, network_case, tree_case
from decision_reference import check_profile
from grace.explain.decisions.questions import problem_of
from grace.problem.problem import Problem
from grids import explainer_of, grid
from problems import CASES
from subsets import first

BOXES = {case.name: case for case in CASES}


@pytest.mark.parametrize("seed", first(12, range(40)))
def test_every_value_of_a_grid(seed: int) -> None:
    asked = network_case(seed)
    for i, profile in enumerate(asked.batch.profile()):
        if not asked.batch.answers.trivial[i]:
            check_profile(profile, asked.true[i], whole=asked.exact)


@pytest.mark.parametrize("seed", first(18, range(90)))
def test_every_step_of_trees(seed: int) -> None:
    asked = tree_case(seed)
    for i, profile in enumerate(asked.batch.profile()):
        true = asked.true[i]
        if true is None or asked.batch.answers.trivial[i]:
            continue
        check_profile(profile, true, whole=False)
        for f in profile.features:  # a span may be too thin to be said, but is found
            if f.verdict != "fixed" and true.alone(f.name)[1].any():
                assert f.flips or f.verdict == "undecided", f
                assert f.flips or is_close(true) or not asked.exact, f


@pytest.mark.parametrize("seed", first(6, range(20)))
def test_points_in_spans_flip_and_others_cannot(seed: int) -> None:
    """10,000 random points of a continuous row."""
    explainer, rows, call = continuous(seed)
    batch, rng = explainer.explain(rows, **call), np.random.default_rng(seed)
    problem, names = problem_of(batch), explainer.schema.names
    own = problem.model.scores(problem.rows).argmax(dim=1)
    for i, profile in enumerate(batch.profile()):
        for f in profile.features:
            j, numbers = names.index(f.name), not isinstance(f.feature, grace.Categorical)
            whole, low, high = bool(problem.space.is_integer[j]), problem.low[i, j].item(), problem.high[i, j].item()
            for ends in f.spans:
                values = np.concatenate([ends, rng.uniform(*ends, 10_000 // len(names))])
                assert (classes(problem, i, j, values.round() if whole else values) != own[i]).all(), f
            if f.verdict == "cannot" and numbers:
                values = np.concatenate([[low, high], rng.uniform(low, high, 10_000 // len(names))])
                values = values.round().clip(low, high) if whole else values
                assert (classes(problem, i, j, values) == own[i]).all(), f


def classes(problem: Problem, i: int, j: int, values: np.ndarray) -> torch.Tensor:
    rows = problem.rows[i].repeat(len(values), 1)
    rows[:, j] = torch.from_numpy(values)
    return problem.model.scores(rows).argmax(dim=1)


def test_rows_alone_as_in_a_batch_and_on_any_number_of_threads() -> None:
    explainer, frame = explainer_of(grid(3), 3), grid(3)
    together = [p.to_dict() for p in explainer.profile(frame.head(6))]
    assert [explainer.profile(frame.iloc[[i]])[0].to_dict() for i in range(6)] == together
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [p.to_dict() for p in explainer.profile(frame.head(6))] == together
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["two classes", "four classes", "categories", "kinked"])
def test_of_a_black_box_nothing_is_proven(name: str) -> None:
    case = BOXES[name]
    for profile in case.explainer().profile(case.rows):
        assert not profile.with_verdict("cannot", "undecided")
        assert "proven" not in profile.text()
        assert "nachgewiesen" not in profile.text(language="de")
        for f in profile.with_verdict("flips"):
            assert f.kind in ("grid", "categories")


def test_a_row_that_is_as_asked_for_already() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(1)
    text = explainer.profile(frame, against="c0")[0].text()
    assert text == "The model classified the row as c0. That is what was asked for already."


def test_a_cut_off_that_the_row_just_reaches() -> None:
    """The order of a sum of trees must not decide about a row whose probability is the cut-off itself."""
    asked = tree_case(51)
    assert asked.explainer.model.cutoffs is not None
    for i, profile in enumerate(asked.batch.profile()):
        true = asked.true[i]
        assert true is not None
        check_profile(profile, true, whole=False)


def test_a_probability_asked_for_is_part_of_the_text() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(1)
    profile = explainer.profile(frame, confidence=0.9)[0]
    assert profile.with_verdict("cannot")
    assert "with a probability of at least 90 %" in profile.text()
    assert "mit einer Wahrscheinlichkeit von mindestens 90 %" in profile.text(language="de")


def test_frozen_and_one_way_features() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(4)
    for profile, row in zip(explainer.profile(frame, frozen=["b"], increase_only=["a"]), frame.a, strict=True):
        assert profile["b"].verdict == "fixed"
        assert not profile["b"].values
        assert all(low > row for low, _ in profile["a"].spans)


def test_a_missing_cell() -> None:
    frame = pd.DataFrame({"a": [1.0, 2, np.nan, 4, 5, 6, 7, 8] * 6, "b": np.arange(48) % 5 * 1.0})
    target = (frame.a.fillna(9) + frame.b > 7).astype(int)
    model = HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=2, early_stopping=False).fit(frame, target)
    explainer = grace.Explainer(model, frame, domain="minmax")
    rows = frame.iloc[[2, 3]]
    missing, known = explainer.profile(rows)
    assert missing["a"].value is None
    assert missing["a"].verdict == "fixed"
    assert missing.text().count("one feature that may change") + missing.text().count("its one feature") == 1
    own = model.predict(rows.iloc[[1]])[0]
    flips = [v for v in range(1, 9) if model.predict(rows.iloc[[1]].assign(a=float(v)))[0] != own]
    assert flips == [v for v in range(1, 9) if any(low <= v <= high for low, high in known["a"].spans)]
