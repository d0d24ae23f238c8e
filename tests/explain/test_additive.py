"""The choice of the factor and of pairs, against a slow literal reference."""

from __future__ import annotations

import numpy as np
import pytest

from grace.explain.scorecards.additive import FACTORS, LEAST_GAIN, TOLERANCE, Rule, Terms, fit, objective, right
from grace.explain.scorecards.edits import Edits

N, M, Q = 6, 40, 5


def terms(rng: np.random.Generator, start: np.ndarray, classes: int, mix: np.ndarray) -> Terms:
    """Random effects; the model is a mixture of the sum and of some pairs, with noise."""
    alone, pairs = rng.normal(size=(N, M, classes)), rng.normal(size=(N, Q, M, classes))
    truth = start[:, None] + 0.7 * alone + (pairs * mix[:, :, None, None]).sum(axis=1)
    truth += 0.2 * rng.normal(size=truth.shape)
    weight = rng.random((N, M))
    edits = Edits(alone, truth, truth.argmax(axis=2), weight / weight.sum(axis=1, keepdims=True))
    return Terms(edits, alone, pairs, rng.integers(1, 6, (N, M)), truth)


def case(classes: int, seed: int) -> tuple[Rule, np.ndarray, Terms, Terms]:
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(N, classes))
    mix = (rng.random((N, Q)) < 0.4) * rng.uniform(0.5, 1.5, (N, Q))
    return Rule(start.argmax(axis=1)), start, terms(rng, start, classes, mix), terms(rng, start, classes, mix)


def literal_objective(own: int, start: np.ndarray, t: Terms, i: int, factor: np.ndarray, pairs: list[int]) -> float:
    """One row, one edit after another."""
    total, unit = 0.0, 0.0
    margins = []
    for e in range(M):
        sums = t.alone[i, e].copy()
        for p in pairs:
            sums = sums + t.pairs[i, p, e]
        changed = t.changed[i, e]
        sums = start + sums * (factor[0] * (changed / 2) ** factor[1] if changed > 1 else 1.0)
        margin = {}
        for name, scores in (("found", sums), ("true", t.truth[i, e])):
            margin[name] = max(scores[c] for c in range(len(scores)) if c != own) - scores[own]
        margins.append((margin["found"], margin["true"], int(sums.argmax()), int(t.truth[i, e].argmax())))
        unit += t.edits.weight[i, e] * abs(margin["true"])
    for e, (found, true, decided, really) in enumerate(margins):
        error = abs(np.tanh(found / unit) - np.tanh(true / unit))
        good = ((decided != own) == (really != own)) / 2 + (decided == really) / 2
        total += t.edits.weight[i, e] * (good - error / 4)
    return total


def literal_fit(
    own: int, start: np.ndarray, choose: Terms, check: Terms, i: int, most: int
) -> tuple[np.ndarray, list[int]]:
    def factor_for(pairs: list[int]) -> np.ndarray:
        values = [literal_objective(own, start, choose, i, s, pairs) for s in FACTORS]
        return next(s for s, v in zip(FACTORS, values, strict=True) if v >= max(values) - TOLERANCE)

    pairs: list[int] = []
    history = [(factor_for([]), [])]
    for _ in range(most):
        left = [p for p in range(Q) if p not in pairs]
        pairs = [*pairs, max(left, key=lambda p: literal_objective(own, start, choose, i, history[-1][0], [*pairs, p]))]
        history.append((factor_for(pairs), pairs))
    values = [literal_objective(own, start, check, i, s, p) - LEAST_GAIN * len(p) for s, p in history]
    return history[int(np.argmax(values))]


@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (2, 1), (3, 2)])
def test_the_greedy_choice_is_that_of_the_literal_reference(classes: int, seed: int) -> None:
    rule, start, choose, check = case(classes, seed)
    found = fit(rule, start, choose, check, 3)
    for i in range(N):
        factor, pairs = literal_fit(int(rule.own[i]), start[i], choose, check, i, 3)
        assert found.factor[i].tolist() == factor.tolist()
        assert [p for p in found.pairs[i] if p >= 0] == pairs
        expected = literal_objective(int(rule.own[i]), start[i], check, i, factor, pairs)
        assert found.objective[i] == pytest.approx(expected)


def test_what_is_exactly_additive_gets_the_factor_one_and_no_pairs() -> None:
    rng = np.random.default_rng(4)
    start = rng.normal(size=(N, 2))
    parts = []
    for _ in range(2):
        t = terms(rng, start, 2, np.zeros((N, Q)))
        truth = start[:, None] + t.alone
        edits = Edits(t.edits.rows, truth, truth.argmax(axis=2), t.edits.weight)
        parts.append(Terms(edits, t.alone, t.pairs, t.changed, truth))
    rule = Rule(start.argmax(axis=1))
    found = fit(rule, start, *parts, 3)
    assert (found.factor == [1, 0]).all()
    assert (found.pairs == -1).all()
    np.testing.assert_allclose(found.objective, 1)


def test_more_of_a_pair_that_matters_is_chosen() -> None:
    rule, start, choose, check = case(2, 7)
    assert (fit(rule, start, choose, check, 4).objective >= fit(rule, start, choose, check, 0).objective).all()


def test_no_pairs_to_choose_among() -> None:
    rule, start, choose, check = case(2, 8)
    none = [Terms(t.edits, t.alone, t.pairs[:, :0], t.changed, t.truth) for t in (choose, check)]
    assert fit(rule, start, *none, 5).pairs.shape == (N, 0)


def test_a_regression_is_right_on_the_right_side_of_its_range() -> None:
    rule = Rule(np.array([0]), np.array([10.0]), np.array([np.inf]))
    truth = np.array([[[12.0], [9.0], [15.0], [3.0]]])
    edits = Edits(truth, truth, rule.decide(truth), np.full((1, 4), 0.25))
    t = Terms(edits, truth, np.zeros((1, 0, 4, 1)), np.full((1, 4), 2), truth)
    sums = np.array([[[[11.0], [2.0], [9.5], [10.0]]]])
    np.testing.assert_array_equal(rule.decide(sums), [[[1, 0, 0, 1]]])
    np.testing.assert_allclose(rule.margin(truth), [[2, -1, 5, -7]])
    assert right(rule, t, sums)[0][0, 0] == 0.5
    assert objective(rule, t, truth[:, None])[0, 0] == 1
