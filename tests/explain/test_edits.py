"""Edits of rows: where their values come from, and how they are balanced."""

from __future__ import annotations

import numpy as np

from grace.explain.scorecards.edits import Draw, balanced_edits

POOL = np.random.default_rng(3).normal(size=(200, 5))


def score(rows: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros(len(rows)), rows[:, 0] + rows[:, 1] - 0.8], axis=1)


def decide(scores: np.ndarray) -> np.ndarray:
    return scores.argmax(axis=-1)


def test_an_edit_copies_features_of_one_training_row() -> None:
    draw = Draw.of(POOL, 300, 0)
    row = np.full((1, 5), 99.0)
    for edit in draw.applied(row)[0]:
        changed = edit != 99.0
        assert changed.any()
        assert (POOL[:, changed] == edit[changed]).all(axis=1).any()


def test_few_features_change_as_often_as_many() -> None:
    size = Draw.of(np.zeros((2, 63)), 20_000, 0).swap.sum(axis=1)
    shares = [((size >= a) & (size < 2 * a)).mean() for a in (1, 2, 4, 8, 16, 32)]
    np.testing.assert_allclose(shares, 1 / 6, atol=0.02)


def test_half_of_the_weight_is_on_edits_that_change_the_decision() -> None:
    rows = POOL[:20]
    own = decide(score(rows))
    (edits,) = balanced_edits(rows, own, [Draw.of(POOL, 400, 1)], [30], score, decide)
    assert edits.rows.shape == (20, 60, 5)
    np.testing.assert_array_equal(edits.decided, decide(score(edits.rows.reshape(-1, 5))).reshape(20, 60))
    for i in np.flatnonzero(edits.balanced):
        changes = edits.decided[i] != own[i]
        np.testing.assert_allclose([edits.weight[i][changes].sum(), edits.weight[i][~changes].sum()], 0.5)
        assert (edits.rows[i][edits.weight[i] > 0] != rows[i]).any(axis=1).all()
    np.testing.assert_allclose(edits.mean(np.ones((20, 60)))[edits.balanced], 1)
    assert edits.balanced.sum() > 10


def test_a_row_that_no_edit_changes_is_not_balanced() -> None:
    row = np.array([[-100.0, -100.0, 0.0, 0.0, 0.0]])
    pool = POOL[(POOL[:, 0] + POOL[:, 1]) < 0.5]
    (edits,) = balanced_edits(row, np.array([0]), [Draw.of(pool, 200, 1)], [30], score, decide)
    assert not edits.balanced[0]


def test_the_effective_number_of_equal_weights_is_their_number() -> None:
    rows = np.zeros((1, 5))
    (edits,) = balanced_edits(rows, np.array([0]), [Draw.of(POOL, 2000, 1)], [40], score, decide)
    np.testing.assert_allclose(edits.effective(), 80)
