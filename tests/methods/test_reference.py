"""The reference itself, held against cases worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from reference import (
    Model,
    average_features,
    average_features_all,
    bins,
    conditional_entropy,
    deepfool,
    domain_share,
    entropy,
    fidelity,
    flipped,
    generate_contrastive_sample_as_printed,
    grace_as_printed,
    influence,
    info_gain_mdlp,
    info_gain_raw,
    information_gain,
    local_weights,
    mdlp_cuts,
    nearest_class,
    nearest_rows,
    quantile_bins,
    rank_gradient_as_printed,
    rank_gradient_gain,
    scores_and_gradients,
    symmetrical_uncertainty,
    w_entropy,
)

pytestmark = pytest.mark.quick


def linear(W: Sequence[Sequence[float]], b: Sequence[float]) -> Model:
    """Scores W x + b."""
    weights = torch.tensor(W, dtype=torch.float64)
    offsets = torch.tensor(b, dtype=torch.float64)
    return lambda x: weights @ x + offsets


def wide(features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A domain that never binds: low, high, integer."""
    return np.full(features, -1e9), np.full(features, 1e9), np.zeros(features, dtype=bool)


OPPOSITE = linear([[3.0, 4.0], [-3.0, -4.0]], [0.0, 0.0])  # at (1, 1): 7 against -7
ROW = np.array([1.0, 1.0])


# Information --------------------------------------------------------------------------------------


def test_entropy_of_coins_and_dice() -> None:
    assert entropy(["head", "tail"]) == 1.0
    assert entropy([0, 1, 2, 3] * 3) == 2.0
    assert entropy([7, 7, 7]) == 0.0
    assert entropy([0, 0, 0, 1]) == pytest.approx(2 - 0.75 * math.log2(3))


def test_information_of_a_worked_pair() -> None:
    a, b = [0, 0, 1, 1], [0, 0, 0, 1]
    # H(a) = 1, H(b) = 2 - 3/4 log2 3, and of the three rows with b = 0 one has a = 1.
    left = 0.75 * (math.log2(3) - 2 / 3)
    assert conditional_entropy(a, b) == pytest.approx(left)
    assert conditional_entropy(b, a) == pytest.approx(0.5)
    assert information_gain(a, b) == pytest.approx(1 - left)
    assert information_gain(a, b) == pytest.approx(information_gain(b, a))
    assert symmetrical_uncertainty(a, b) == pytest.approx(0.3437110, abs=1e-7)


def test_su_of_twins_strangers_and_constants() -> None:
    a = [0, 0, 1, 1, 2, 2]
    assert symmetrical_uncertainty(a, a) == pytest.approx(1.0)
    assert symmetrical_uncertainty(a, ["x", "x", "y", "y", "z", "z"]) == pytest.approx(1.0)
    assert symmetrical_uncertainty([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0.0)
    constant = [5] * 6
    assert symmetrical_uncertainty(a, constant) == 0.0
    assert symmetrical_uncertainty(constant, a) == 0.0
    assert symmetrical_uncertainty(constant, constant) == 0.0


# Discretisation -----------------------------------------------------------------------------------


def test_mdlp_cuts_between_two_separated_classes() -> None:
    # Gain 1 against log2(9)/10 + (log2 7 - 2)/10 = 0.398; both sides are pure.
    assert mdlp_cuts(list(range(1, 11)), ["a"] * 5 + ["b"] * 5) == [5.5]


def test_mdlp_does_not_depend_on_the_order_of_rows() -> None:
    values = [4.0, 9.0, 1.0, 7.0, 3.0, 10.0, 2.0, 8.0, 5.0, 6.0]
    assert mdlp_cuts(values, [value > 5 for value in values]) == [5.5]


def test_mdlp_takes_no_cut_in_noise() -> None:
    # Best: one row against seven, gain 1 - 7/8 H(3/7) = 0.138, below log2(7)/8 = 0.351 alone.
    assert mdlp_cuts(list(range(8)), [0, 1] * 4) == []


def test_mdlp_cuts_twice_for_three_classes() -> None:
    # 3.5 and 7.5 tie; 3.5 goes first: gain 0.918 > log2(11)/12 + (log2 25 - (3 log2 3 - 2))/12 = 0.446.
    # Then 7.5 on the right: gain 1 > log2(7)/8 + (log2 7 - 2)/8 = 0.452.
    assert mdlp_cuts(list(range(12)), ["a"] * 4 + ["b"] * 4 + ["c"] * 4) == [3.5, 7.5]


def test_mdlp_with_one_wrong_label() -> None:
    # Gain 0.717 > log2(15)/16 + (log2 7 - 2 (0.989 - 0.544))/16 = 0.364; the left side gains at most 0.138.
    labels = [0, 0, 0, 1, 0, 0, 0, 0] + [1] * 8
    assert mdlp_cuts(list(range(16)), labels) == [7.5]


def test_mdlp_counts_classes_on_each_side() -> None:
    # Cut 2.5: S = 3 a, 3 b; gain 1. Threshold log2(5)/6 + (log2 7 - 2)/6 = 0.522.
    assert mdlp_cuts(list(range(6)), "aaabbb") == [2.5]
    # Cut 1.5 leaves 2 a against a, b, b, b: gain 1 - 4/6 H(1/4) = 0.459.
    # Threshold log2(5)/6 + (log2 7 - 2 (1 - H(1/4)))/6 = 0.387 + 0.405 = 0.792.
    assert mdlp_cuts(list(range(6)), "aababb") == []


def test_mdlp_of_two_rows_follows_the_formula() -> None:
    # Gain 1 > log2(1)/2 + (log2 7 - 2)/2 = 0.404.
    assert mdlp_cuts([0.0, 1.0], [0, 1]) == [0.5]
    assert mdlp_cuts([0.0, 1.0], [1, 1]) == []
    assert mdlp_cuts([0.0, 0.0], [0, 1]) == []
    assert mdlp_cuts([0.0], [0]) == []


def test_mdlp_keeps_equal_values_together() -> None:
    values = [0.0] * 6 + [1.0] * 6
    assert mdlp_cuts(values, ["a"] * 6 + ["b"] * 6) == [0.5]
    assert mdlp_cuts([1.0] * 12, ["a"] * 6 + ["b"] * 6) == []


def test_bins_put_a_value_on_a_cut_to_the_left() -> None:
    assert bins([0.0, 0.5, 0.6, 1.5, 9.0], [0.5, 1.5]) == [0, 0, 1, 1, 2]
    assert bins([1.0, 2.0], []) == [0, 0]


def test_quantile_bins() -> None:
    # The lower quantiles 0.1 ... 0.9 of 0 ... 20 are 2, 4, ..., 18; 0, 1 and 2 share the first bin.
    assert quantile_bins([float(i) for i in range(21)]) == [0, 0] + [i // 2 for i in range(1, 20)]
    assert quantile_bins([0.0] * 95 + [1.0, 2.0, 3.0, 4.0, 5.0]) == [0] * 95 + [1] * 5
    assert quantile_bins([3.0] * 7) == [0] * 7
    assert quantile_bins([1.0, 2.0, 3.0, 4.0, 5.0], count=2) == [0, 0, 0, 1, 1]


# Algorithm 3 --------------------------------------------------------------------------------------

SU = [
    [1.0, 0.6, 0.5, 0.1],
    [0.6, 1.0, 0.2, 0.3],
    [0.5, 0.2, 1.0, 0.7],
    [0.1, 0.3, 0.7, 1.0],
]


@pytest.mark.parametrize(
    ("order", "gamma", "most", "kept"),
    [
        ([0, 1, 2, 3], 0.5, 4, [0, 2]),  # 1 clashes with 0; 0.5 is not above 0.5; 3 clashes with 2
        ([1, 0, 3, 2], 0.5, 4, [1, 3]),
        ([1, 0, 2, 3], 0.5, 4, [1, 2]),
        ([0, 1, 2, 3], 1.0, 4, [0, 1, 2, 3]),
        ([0, 1, 2, 3], 1.0, 3, [0, 1, 2]),
        ([3, 2, 1, 0], 0.0, 4, [3]),
        ([2, 1, 0, 3], 0.5, 1, [2]),
        ([0, 1, 2, 3], 0.5, 0, []),
    ],
)
def test_w_entropy(order: list[int], gamma: float, most: int, kept: list[int]) -> None:
    assert w_entropy(order, SU, gamma, most) == kept


# Algorithm 2 --------------------------------------------------------------------------------------


def test_scores_and_gradients_of_a_curved_model() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[0] ** 2, x[0] * x[1], torch.ones((), dtype=torch.float64)])

    scores, gradients = scores_and_gradients(f, np.array([3.0, 2.0]))
    assert scores.tolist() == [9.0, 6.0, 1.0]
    assert gradients.tolist() == [[6.0, 0.0], [2.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("scores", "answer"),
    [
        ([1.0, 1.0, 0.0], False),
        ([1.0, 1.0 + 5e-7, 0.0], False),
        ([1.0, 1.0 + 2e-6, 0.0], True),
        ([1.0, 2.0, 3.0], True),
        ([1.0, 3.0, 3.0], False),
        ([3.0, 1.0, 2.0], False),
    ],
)
def test_flipped(scores: list[float], answer: bool) -> None:
    assert flipped(np.array(scores), 0) is answer


def test_nearest_class() -> None:
    scores = np.array([5.0, 1.0, 4.0, 3.0])
    gradients = np.array([[0.0, 0.0], [3.0, 4.0], [0.1, 0.0], [0.0, 2.0]])
    # Ratios to class 0: 4/5, 1/0.1, 2/2.
    assert nearest_class(scores, gradients, 0) == 1
    assert nearest_class(scores, gradients * np.array([100.0, 1.0]), 0) == 1
    assert nearest_class(scores, gradients * np.array([1.0, 0.01]), 0) == 1  # 4/3.0003, 10, 100
    # Without feature 0, 4/4 and 2/2 tie, and class 2 is out of reach.
    assert nearest_class(scores, gradients * np.array([0.0, 1.0]), 0) == 1
    assert nearest_class(scores, np.zeros((4, 2)), 0) == 1
    assert nearest_class(scores, np.zeros((4, 2)), 1) == 0


def test_algorithm_2_on_all_features_reaches_the_boundary_and_then_crosses_it() -> None:
    low, high, integer = wide(2)
    # w = (-6, -8): the first step, 14/100 w, ends on the boundary; the second is |0 - 7|/100 w.
    once = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0, 1], low, high, integer, 1)
    assert once == pytest.approx([0.16, -0.12])
    row = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0, 1], low, high, integer, 200)
    assert row == pytest.approx([-0.26, -0.68])
    assert ROW.tolist() == [1.0, 1.0]


def test_algorithm_2_on_one_feature_keeps_the_norm_over_all() -> None:
    low, high, integer = wide(2)
    walk = [1.0, 0.16, -0.5288, -1.093616, -1.55676512]
    for steps, expected in enumerate(walk):
        row = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0], low, high, integer, steps)
        assert row == pytest.approx([expected, 1.0])
        assert row[1] == 1.0
    row = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0], low, high, integer, 200)
    assert row == pytest.approx([walk[-1], 1.0])


def test_algorithm_2_as_printed_stalls_on_the_boundary_where_the_score_of_the_class_is_flat() -> None:
    # f_0 = 0 throughout, f_1 = x - 1: the first step ends at x = 1, where f_1(1) - f_0(0) = 0 for good.
    f = linear([[0.0], [1.0]], [0.0, -1.0])
    row = generate_contrastive_sample_as_printed(f, np.array([0.0]), [0], *wide(1), 200)
    assert row.tolist() == [1.0]
    # From the other side the flat class is v, and the second step is as long as the first.
    row = generate_contrastive_sample_as_printed(f, np.array([3.0]), [0], *wide(1), 200)
    assert row.tolist() == [-1.0]


def test_algorithm_2_projects_the_features_in_s_only() -> None:
    low, high = np.array([-1.0, 5.0]), np.array([1.0, 6.0])
    integer = np.array([True, True])
    # Feature 0 goes to 0.16, rounded to 0; to -0.66, rounded to -1; and stays at its bound. Feature 1 is
    # outside its range from the start, and not in S.
    for steps, expected in [(1, 0.0), (2, -1.0), (200, -1.0)]:
        row = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0], low, high, integer, steps)
        assert row.tolist() == [expected, 1.0]
    once = generate_contrastive_sample_as_printed(OPPOSITE, ROW, [0, 1], low, high, integer, 1)
    assert once.tolist() == [0.0, 5.0]


def test_algorithm_2_as_printed_stalls_where_rounding_undoes_the_step() -> None:
    # At (1, 0.25) the scores are 4 and -4, and the step 8/100 * -6 leads to 0.52.
    low, high = np.full(2, -9.0), np.full(2, 9.0)
    x = np.array([1.0, 0.25])
    row = generate_contrastive_sample_as_printed(OPPOSITE, x, [0], low, high, [True, False], 200)
    assert row.tolist() == [1.0, 0.25]


def test_algorithm_2_chooses_v_at_the_start() -> None:
    # Class 1 is nearest at 0 (1 against 2), and is also the one reached.
    f = linear([[0.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [0.0, -1.0, -2.0])
    row = generate_contrastive_sample_as_printed(f, np.zeros(2), [0, 1], *wide(2), 1)
    assert row.tolist() == [-1.0, 0.0]


# Algorithm 1 --------------------------------------------------------------------------------------


def test_grace_uses_as_few_features_as_it_can() -> None:
    free = np.zeros((2, 2))
    row = grace_as_printed(OPPOSITE, ROW, [0, 1], free, 0.5, 2, *wide(2), 200)
    assert row == pytest.approx([-1.55676512, 1.0])

    # Neither feature suffices within [0, 2] x [-1, 2], both together do.
    low, high, integer = np.array([0.0, -1.0]), np.array([2.0, 2.0]), np.array([False, False])
    f = linear([[3.0, 4.0], [-3.0, -4.0]], [1.5, -1.5])
    alone = generate_contrastive_sample_as_printed(f, ROW, [0], low, high, integer, 200)
    assert alone.tolist() == [0.0, 1.0]
    both = grace_as_printed(f, ROW, [0, 1], free, 0.5, 2, low, high, integer, 200)
    # 17/100 w leads to (-0.02, -0.36) and 0 is the bound; there f_v = -0.06, and 8.56/100 w passes -1.
    assert both.tolist() == [0.0, -1.0]

    # One feature allowed, or the second one a twin of the first: a miss.
    for su, K in [(free, 1), (np.ones((2, 2)), 2)]:
        row = grace_as_printed(f, ROW, [0, 1], su, 0.5, K, low, high, integer, 200)
        assert row.tolist() == [1.0, 1.0]


# Rankings -----------------------------------------------------------------------------------------


def test_rank_gradient_as_printed() -> None:
    f = linear([[9.0, 0.0, 0.0, 0.0], [2.0, -3.0, 0.5, -2.0]], [10.0, 0.0])
    assert rank_gradient_as_printed(f, np.zeros(4)) == [1, 0, 3, 2]


def test_rank_gradient_gain() -> None:
    f = linear([[0.0, 0.0, 0.0], [2.0, -1.0, 0.5]], [0.0, -10.0])
    low, high = np.array([-1.0, -5.0, -1.0]), np.array([1.0, 5.0, 4.0])
    # Gains 2, 5 and 2.
    assert rank_gradient_as_printed(f, np.zeros(3)) == [0, 1, 2]
    assert rank_gradient_gain(f, np.zeros(3), low, high, np.ones(3)) == [1, 0, 2]
    # At their bounds, pushed outwards, features 0 and 1 have nothing left to give.
    assert rank_gradient_gain(f, np.array([1.0, -5.0, 0.0]), low, high, np.ones(3)) == [2, 0, 1]


def test_rank_gradient_gain_chooses_v_in_units_of_spread() -> None:
    f = linear([[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]], [0.0, -1.0, -1.0])
    low, high = np.full(2, -100.0), np.full(2, 100.0)
    assert rank_gradient_gain(f, np.zeros(2), low, high, np.ones(2)) == [0, 1]
    assert rank_gradient_gain(f, np.zeros(2), low, high, np.array([1.0, 10.0])) == [1, 0]


def test_nearest_rows() -> None:
    background = [[3.0, 4.0], [0.0, 1.0], [0.0, -1.0], [6.0, 8.0], [1.0, 0.0], [2.0, 0.0]]
    classes = [2, 0, 0, 2, 0, 0]
    assert nearest_rows(background, classes, np.zeros(2), 2) == {0: [1, 2], 2: [0, 3]}
    assert nearest_rows(background, classes, np.zeros(2), 4) == {0: [1, 2, 4, 5], 2: [0, 3]}
    assert nearest_rows(background, classes, np.array([6.0, 8.0]), 1) == {0: [5], 2: [3]}


def test_local_weights_agree_with_logistic_regression_on_hard_labels() -> None:
    rng = np.random.default_rng(0)
    Q = rng.normal(size=(30, 4))
    labels = np.argmax(Q[:, :3] + rng.normal(size=(30, 3)), axis=1)
    W, b = local_weights(Q, np.eye(3)[labels])
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=100_000).fit(Q, labels)
    np.testing.assert_allclose(W, model.coef_, atol=1e-5)
    np.testing.assert_allclose(b - b.mean(), model.intercept_ - model.intercept_.mean(), atol=1e-5)


def test_local_weights_are_stationary_for_soft_labels() -> None:
    rng = np.random.default_rng(1)
    Q = rng.normal(size=(12, 5))
    soft = rng.dirichlet(np.ones(3), size=12)
    for ridge in (1.0, 0.1):
        W, b = local_weights(Q, soft, ridge)
        logits = Q @ W.T + b
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose((p - soft).T @ Q + ridge * W, 0, atol=1e-6)
        np.testing.assert_allclose((p - soft).sum(axis=0), 0, atol=1e-6)


# DeepFool -----------------------------------------------------------------------------------------


def test_deepfool_is_the_overshot_projection_on_a_linear_model() -> None:
    W = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [0.5, 0.5, 0.0]])
    b = np.array([1.0, 0.0, -2.0])
    x = np.array([1.0, 2.0, 1.0])  # scores 4, 1, -0.5
    w = W[1] - W[0]  # distances 3/sqrt(11) against 4.5/sqrt(4.5)
    f = linear(W.tolist(), b.tolist())
    np.testing.assert_allclose(deepfool(f, x, np.ones(3)), x + 1.02 * 3 / 11 * w, rtol=1e-12)

    spread = np.array([1.0, 10.0, 0.1])
    z = spread * w
    np.testing.assert_allclose(deepfool(f, x, spread), x + 1.02 * 3 / (z @ z) * z * spread, rtol=1e-12)
    np.testing.assert_allclose(deepfool(f, x, np.ones(3), overshoot=0.5), x + 1.5 * 3 / 11 * w, rtol=1e-12)


def test_deepfool_adds_up_its_steps_on_a_curved_model() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[0] ** 2, torch.ones((), dtype=torch.float64)])

    # From 3, the steps of Newton's rule for x^2 = 1 start -8/6, and the overshoot scales their sum.
    first = 3 - 1.02 * 8 / 6
    second = 3 - 1.02 * (8 / 6 + (first**2 - 1) / (2 * first))
    spread = np.ones(1)
    assert deepfool(f, np.array([3.0]), spread, steps=1) == pytest.approx([first])
    assert deepfool(f, np.array([3.0]), spread, steps=2) == pytest.approx([second])
    assert abs(deepfool(f, np.array([3.0]), spread)[0]) < 1


def test_deepfool_gives_up_where_nothing_slopes() -> None:
    f = linear([[0.0], [0.0]], [1.0, 0.0])
    assert deepfool(f, np.array([2.0]), np.ones(1)).tolist() == [2.0]


# Measures -----------------------------------------------------------------------------------------


def test_counts() -> None:
    assert fidelity([0, 1, 1, 2], [1, 1, 0, 0]) == 0.75
    assert average_features([{0}, {0, 1, 2}]) == 2.0
    assert math.isnan(average_features([]))
    assert average_features_all([{0}, set(), {0, 1, 2}, {4}], [True, False, True, False], K=5) == 3.5


def test_info_gain_in_both_readings() -> None:
    # {0, 1}: (2 + 2 * 0.6)/4 = 0.8; {0, 2, 3}: (3 + 2 * 1.3)/9.
    assert info_gain_raw([{0, 1}], SU) == pytest.approx(0.2)
    assert info_gain_raw([{0, 2, 3}], SU) == pytest.approx(1 - 5.6 / 9)
    assert info_gain_raw([{3}], SU) == 1.0
    assert info_gain_raw([{0, 1}, {3}], SU) == pytest.approx(0.6)
    assert info_gain_mdlp([{0, 1}], SU) == pytest.approx(0.4)
    assert info_gain_mdlp([{0, 2, 3}], SU) == pytest.approx(1 - 1.3 / 3)
    assert info_gain_mdlp([{3}], SU) == 1.0
    assert info_gain_mdlp([{0, 1}, {3}], SU) == pytest.approx(0.7)
    for measure in (info_gain_raw, info_gain_mdlp):
        assert math.isnan(measure([], SU))
        with pytest.raises(ValueError, match="at least one"):
            measure([set()], SU)


def test_domain_share_looks_at_changed_features() -> None:
    rows = [[0.0, 9.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    contrasts = [[0.5, 9.0], [1.5, 1.0], [0.0, 1.5], [1.0, 2.0]]
    # An old value outside, a new value outside, a fraction for an integer, both inside.
    assert domain_share(rows, contrasts, [0.0, 0.0], [1.0, 3.0], [False, True]) == 0.5


def test_influence() -> None:
    assert influence(0.8, 0.5, 0.9, 2.0) == pytest.approx(0.18)
