"""The spans of lines in which goals are reached, beside the margin at many points between."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grace.methods.profiles import ScoreLines
from grace.methods.spans import Spans, reaching_spans
from grace.problem.goal import Against, Between, Flip, Goal

TOLERANCE = 1e-6
seeds = st.integers(0, 2**32 - 1)


def lines(rng: np.random.Generator, n: int, classes: int) -> ScoreLines:
    """Random lines with kinks at whole numbers, some of them flat or with leads of exactly zero."""
    points = np.sort(rng.choice(np.arange(-9.0, 10.0), (n, 7)), axis=1)
    points += np.arange(7) * (np.diff(points, axis=1, prepend=-99) == 0) * 1e-3
    scores = rng.integers(-3, 4, (n, 7, classes)) * rng.choice([1.0, 0.37], (n, 1, 1))
    points = np.sort(points, axis=1)
    return ScoreLines(torch.from_numpy(points), torch.from_numpy(scores.astype(float)), exact=True, steps=False)


def between(line: ScoreLines, share: float) -> tuple[np.ndarray, Tensor]:
    """Points (n, P - 1) between those of lines, and the scores there."""
    x, s = line.points.numpy(), line.scores
    if share == 1.0:
        return x[:, 1:], s[:, 1:]
    return x[:, :-1] + share * np.diff(x, axis=1), s[:, :-1] + share * (s[:, 1:] - s[:, :-1])


def over_own(goal: Goal, scores: Tensor) -> Tensor:
    """The margin of a goal. If another class leads the row's own, it does not matter whether two others are equal."""
    if not isinstance(goal, Flip) or goal.confidence > 0:
        return goal.margin(scores)
    own = goal.original[:, None, None].expand(*scores.shape[:2], 1)
    return (scores - scores.gather(2, own)).scatter(2, own, -torch.inf).amax(dim=2)


def agree(found: Spans, line: ScoreLines, goal: Goal, *, complete: bool = True) -> None:
    """Points in spans reach the goal; with `complete`, others do not."""
    assert (found.low <= found.high).all()
    for share in (0.0, 0.001, 0.25, 0.5, 0.77, 0.999, 1.0):
        at, scores = between(line, share)
        margin = over_own(goal, scores).numpy()
        for n, p in np.ndindex(at.shape):
            here = found.line == n
            inside = bool(((found.low[here] <= at[n, p]) & (at[n, p] <= found.high[here])).any())
            if abs(margin[n, p] - TOLERANCE) < 1e-9:
                continue
            assert not inside or margin[n, p] >= TOLERANCE, (n, at[n, p], margin[n, p])
            assert inside or margin[n, p] < TOLERANCE or not complete, (n, at[n, p], margin[n, p])


@given(seeds, st.integers(2, 4))
def test_any_other_class(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    line, goal = lines(rng, 6, classes), Flip(torch.from_numpy(rng.integers(0, classes, 6)))
    agree(reaching_spans(line, goal, TOLERANCE), line, goal)


@given(seeds, st.integers(2, 4))
def test_one_class(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    line, goal = lines(rng, 6, classes), Against(torch.from_numpy(rng.integers(0, classes, 6)))
    agree(reaching_spans(line, goal, TOLERANCE), line, goal)


@given(seeds, st.sampled_from([0.3, 0.6, 0.9]), st.booleans(), st.booleans())
def test_confidence_of_two_classes(seed: int, confidence: float, shifted: bool, flip: bool) -> None:
    rng = np.random.default_rng(seed)
    line, classes = lines(rng, 6, 2), torch.from_numpy(rng.integers(0, 2, 6))
    shift = torch.tensor([0.4, -0.8], dtype=torch.float64) if shifted else None
    goal = (Flip if flip else Against)(classes, confidence, shift)
    agree(reaching_spans(line, goal, TOLERANCE), line, goal)


@given(seeds, st.sampled_from([0.3, 0.4, 0.6]), st.booleans())
def test_confidence_of_several_classes_is_not_overstated(seed: int, confidence: float, flip: bool) -> None:
    rng = np.random.default_rng(seed)
    line, classes = lines(rng, 6, 3), torch.from_numpy(rng.integers(0, 3, 6))
    goal = (Flip if flip else Against)(classes, confidence)
    agree(reaching_spans(line, goal, TOLERANCE), line, goal, complete=False)


def test_two_classes_that_are_probable_at_the_ends_but_not_between() -> None:
    points = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    scores = torch.tensor([[[0.0, 3, -3], [0.0, -3, 3]]], dtype=torch.float64)  # in the middle, all are equal
    found = reaching_spans(ScoreLines(points, scores, True, False), Flip(torch.tensor([0]), 0.6), TOLERANCE)
    assert list(zip(found.low, found.high, strict=True)) == [(0.0, 0.0), (1.0, 1.0)]


@given(seeds)
def test_ranges_of_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    line, low = lines(rng, 6, 1), torch.from_numpy(rng.uniform(-2, 1, 6))
    goal = Between(low, low + float(rng.uniform(0.1, 2)), float(rng.choice([1.0, 3.0])))
    agree(reaching_spans(line, goal, TOLERANCE), line, goal)


@pytest.mark.parametrize("exact", [True, False])
def test_steps_and_grids_say_nothing_beyond_their_points(exact: bool) -> None:
    points = torch.tensor([[0.0, 1.0, np.nextafter(1.0, 2), 3.0, 4.0]], dtype=torch.float64)
    lead = torch.tensor([-1.0, -1, 2, 2, -1], dtype=torch.float64)
    scores = torch.stack([torch.zeros(5, dtype=torch.float64), lead], dim=1)[None]
    found = reaching_spans(ScoreLines(points, scores, exact, exact), Flip(torch.tensor([0])), TOLERANCE)
    assert (found.low.tolist(), found.high.tolist()) == ([float(np.nextafter(1.0, 2))], [3.0])
