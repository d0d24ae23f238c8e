"""Sufficient reasons beside all rows of a grid, random points and a mixed-integer program: that the features entail the
prediction, and that none of them can be left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import grace
from decision_cases import continuous, is_close, network_case, tree_case
from decision_reference import check_sufficient
from grace import datasets
from grace.experiments.task import network_of
from grace.explain.decisions.questions import problem_of
from grace.problem.problem import Problem
from grids import explainer_of, grid
from milp_checker import Question, decide
from milp_network import Weights, weights_of
from milp_question import Aim, Cell, cells_of
from problems import CASES
from subsets import but, first

BOXES = {case.name: case for case in CASES}


@pytest.mark.parametrize("seed", first(12, range(40)))
@pytest.mark.parametrize("smallest", [False, True])
def test_every_row_of_a_grid(seed: int, smallest: bool) -> None:
    asked = network_case(seed)
    for i, reason in enumerate(asked.batch.because(smallest=smallest, seconds=20.0)):
        check_sufficient(reason, asked.flip[i])
        assert reason.smallest == smallest


@pytest.mark.parametrize("seed", first(18, range(90)))
def test_every_cell_of_trees(seed: int) -> None:
    asked = tree_case(seed)
    for i, reason in enumerate(asked.batch.because(smallest=bool(seed % 2), seconds=20.0)):
        true = asked.flip[i]
        if true is None or (asked.batch.answers.trivial[i] and asked.explainer.model.task == "regression"):
            continue
        check_sufficient(reason, true, decided=not is_close(true))


@pytest.mark.parametrize("seed", first(8, range(40)))
def test_no_random_point_is_a_counterexample(seed: int) -> None:
    """10,000 rows that agree with a row in a sufficient reason; some lie at the ends of ranges, or stay as they are."""
    explainer, rows, call = continuous(seed)
    batch, rng = explainer.explain(rows, **call), np.random.default_rng(seed)
    problem, names = problem_of(batch), explainer.schema.names
    own = problem.model.scores(problem.rows).argmax(dim=1)
    for i, reason in enumerate(batch.because(seconds=5.0)):
        assert reason.minimal
        tried = problem.rows[i].repeat(10_000, 1)
        for j in (names.index(name) for name in reason.free if name not in reason.features):
            values = drawn(problem, rng, i, j, len(tried))
            tried[:, j] = torch.from_numpy(np.where(rng.random(len(tried)) < 0.15, float(tried[0, j]), values))
        assert (problem.model.scores(tried).argmax(dim=1) == own[i]).all(), reason


def drawn(problem: Problem, rng: np.random.Generator, i: int, j: int, n: int) -> np.ndarray:
    low, high = problem.low[i, j].item(), problem.high[i, j].item()
    space = problem.space
    if j in space.choices:
        return rng.choice([float(c) for c in space.choices[j] if low <= c <= high], n)
    if space.is_integer[j]:
        return rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, n).astype(float)
    return np.clip(rng.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low), n), low, high)


def test_features_that_flip_alone_are_part_of_it() -> None:
    explainer, frame = explainer_of(grid(5), 5), grid(5).head(8)
    for profile, reason in zip(explainer.profile(frame), explainer.because(frame), strict=True):
        assert {f.name for f in profile.with_verdict("flips")} <= set(reason.features)


def test_what_was_asked_for_does_not_matter_for_classes() -> None:
    explainer, frame = explainer_of(grid(5), 5), grid(5).head(4)
    plain = [r.features for r in explainer.because(frame)]
    assert [r.features for r in explainer.because(frame, against="c2", confidence=0.8)] == plain


def test_rows_alone_as_in_a_batch_and_on_any_number_of_threads() -> None:
    explainer, frame = explainer_of(grid(3), 3), grid(3)

    def found(rows: object) -> list[object]:
        return [(r.features, r.undecided, r.smallest) for r in explainer.because(rows, smallest=True, seconds=20.0)]

    together = found(frame.head(6))
    assert [found(frame.iloc[[i]])[0] for i in range(6)] == together
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert found(frame.head(6)) == together
    finally:
        torch.set_num_threads(before)


def test_without_time_all_features_stay_and_are_undecided() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(1)
    reason = explainer.because(frame, seconds=0.0, smallest=True)[0]
    assert set(reason.features) == set(reason.undecided) == set(reason.free)
    assert not reason.minimal
    assert not reason.smallest
    assert "open" in reason.text()


@pytest.mark.parametrize("name", ["two classes", "kinked"])
def test_of_a_black_box_nothing_can_be_said(name: str) -> None:
    case = BOXES[name]
    with pytest.raises(grace.GraceError, match="proof"):
        case.explainer().because(case.rows)


def test_a_number_in_the_range_asked_for_is_not_entailed() -> None:
    asked = next(
        case
        for case in (tree_case(seed) for seed in range(24, 30))
        if case.explainer.model.task == "regression" and case.batch.answers.trivial.any()
    )
    for reason, already in zip(asked.batch.because(), asked.batch.answers.trivial, strict=True):
        assert ("already" in reason.text()) == already
        assert not already or "proven" not in reason.text()
        assert not already or set(reason.undecided) == set(reason.features) == set(reason.free)


# -- the paper's networks, by a mixed-integer program -----------------------------------------------


def no_flip(weights: Weights, cells: list[Cell], aim: Aim, depth: int = 10) -> bool:
    """Whether the program finds that no values of the cells reach the aim. Where it is unclear, as the best margin is
    close to zero, the widest range is halved: the program is more precise in smaller ranges."""
    answer = decide(weights, Question(cells, aim, len(cells)), seconds=60.0).answer
    wide = [c.rate * (c.high - c.low) if c.free and c.codes is None else 0.0 for c in cells]
    if answer != "unclear" or depth == 0 or max(wide) == 0:
        return answer == "no"
    j = int(np.argmax(wide))
    c, middle = cells[j], 0.5 * (cells[j].low + cells[j].high)
    ends = (c.low, np.floor(middle), np.floor(middle) + 1, c.high) if c.whole else (c.low, middle, middle, c.high)
    parts = [replace(c, value=low, low=low, high=high) for low, high in (ends[:2], ends[2:])]
    if not c.low <= c.value <= c.high:
        parts.append(Cell(c.value, codes=(), free=False))
    return all(no_flip(weights, [*cells[:j], part, *cells[j + 1 :]], aim, depth - 1) for part in parts)


def confirm(name: str, rows: int) -> int:
    """The reasons of some rows that the program confirms: no flip while they stay, and one without each of them."""
    table = datasets.load(name)
    model, parts = network_of(table, 0, 0), table.split(0)
    explainer = grace.Explainer(model, parts.train)
    frame, features = model.impute(parts.test).head(rows), explainer.schema.features
    weights = weights_of(model.module, features, len(model.classes))
    confirmed = 0
    for row, reason in zip(explainer.schema.encode(frame), explainer.because(frame), strict=True):
        cells = cells_of(features, row, {})
        aim = Aim.of(len(model.classes), list(model.classes).index(reason.about.original_class))

        def released(kept: set[str], cells: list[Cell] = cells) -> list[Cell]:
            held = [Cell(c.value, codes=(), free=False) for c in cells]
            return [h if f.name in kept else c for h, c, f in zip(held, cells, features, strict=True)]

        kept = set(reason.features)
        confirmed += no_flip(weights, released(kept), aim)
        for feature in kept - set(reason.undecided):
            answer = decide(weights, Question(released(kept - {feature}), aim, len(cells)), seconds=60.0).answer
            assert answer in ("yes", "unclear"), (name, reason, feature)
    return confirmed


SAMPLES = [("phoneme", 3), ("diabetes", 25), ("cancer95", 25), ("phoneme", 40)]


@pytest.mark.parametrize(("name", "rows"), but(SAMPLES[1:], SAMPLES))
def test_a_mixed_integer_program_confirms_all(name: str, rows: int) -> None:
    assert confirm(name, rows) == rows
