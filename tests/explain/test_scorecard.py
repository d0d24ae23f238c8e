"""A scorecard by hand: points, pairs, forecasts and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from grace.errors import GraceError
from grace.explain.scorecards.scorecard import Figure, Pair, Scorecard

CARD = Scorecard(
    names=("age", "kind", "size"),
    categories=(None, ("nut", "bolt", "pin"), None),
    missing=(np.nan, np.nan, -500.0),
    row=np.array([30.0, 0.0, 2.0]),
    original=0,
    contrast=1,
    scale="scores",
    exact=True,
    start=np.array([3.0, 1.0, 0.0]),  # 100 points are 2
    values=(np.array([20.0, 30.0, 50.0]), np.array([0.0, 1.0, 2.0]), np.array([-500.0, 0.0, 2.0, 4.0])),
    effects=(
        np.array([[0, -1.0, 0], [0, 0, 0], [0, 1.0, 0]]),
        np.array([[0, 0, 0], [-0.5, 0.5, 0], [0, 0, 3.5]]),
        np.array([[0, 0, 0.5], [1.0, 0, 0], [0, 0, 0], [-1.0, 0, 0]]),
    ),
    factor=0.5,
    growth=0.0,
    pairs=(
        Pair(
            a=0,
            b=1,
            values_a=np.array([20.0, 30.0, 50.0]),
            values_b=np.array([0.0, 1.0]),
            table=np.array([[[0, 0, 0], [0, 0.2, 0]], [[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0.8, 0]]]),
        ),
    ),
    figure=Figure(claim=0.91, right=0.93, exactly=0.9, alone=0.88, changing=100, staying=120),
)


def test_points_are_shares_of_the_way_to_the_contrast_class() -> None:
    assert CARD.points("age", 30) == 0
    assert CARD.points("age", 50) == pytest.approx(50)
    assert CARD.points("age", 40) == pytest.approx(25)
    assert CARD.points("age", 90) == pytest.approx(50)  # beyond the last value nothing more is known
    assert CARD.points("kind", "bolt") == pytest.approx(50)
    assert CARD.points("kind", "pin") == 0  # it leads to the third class
    assert CARD.points("size", 4) == pytest.approx(50)
    np.testing.assert_allclose(CARD.curve("age")[1], [-50, 0, 50])


def test_pairs_add_what_is_more_than_their_sum() -> None:
    assert CARD.together("age", 50, "kind", "bolt") == pytest.approx(40)
    assert CARD.together("kind", "bolt", "age", 40) == pytest.approx(20)
    assert CARD.together("age", 50, "kind", "pin") == 0  # not in the table
    assert CARD.together("age", 50, "size", 4) == 0


def test_forecasts_add_up_effects_and_pairs_and_multiply_those_of_several_changes() -> None:
    edits = np.array([[50.0, 0, 2], [50, 1, 2], [50, 1, 4], [30, 2, 2], [30, 0, -500]])
    np.testing.assert_allclose(
        CARD.sums(edits),
        [[3, 2, 0], [3 - 0.25, 1 + 0.5 * (1 + 0.5 + 0.8), 0], [3 - 0.75, 1 + 1.15, 0], [3, 1, 3.5], [3, 1, 0.5]],
    )
    np.testing.assert_array_equal(CARD.forecast(edits), [0, 0, 0, 2, 0])
    np.testing.assert_array_equal(replace(CARD, factor=1.0).forecast(edits), [0, 1, 1, 2, 0])
    np.testing.assert_allclose(replace(CARD, growth=1.0).counts(np.array([0, 1, 2, 3, 8])), [1, 1, 0.5, 0.75, 2])
    np.testing.assert_allclose(CARD.total(edits)[:2], [50, 0.5 * (50 + 50 + 40)])


def test_random_forecasts_are_those_of_a_literal_sum() -> None:
    rng = np.random.default_rng(0)
    edits = np.stack([rng.uniform(10, 60, 50), rng.integers(0, 3, 50), rng.uniform(-1, 5, 50)], axis=1)
    edits[:15, 0], edits[10:25, 1], edits[20:40, 2] = 30, 0, 2
    for edit, found in zip(edits, CARD.sums(edits), strict=True):
        total = np.zeros(3)
        for j in range(3):
            for c in range(3):
                total[c] += np.interp(edit[j], CARD.values[j], CARD.effects[j][:, c])
        if edit[1] == 1:
            total[1] += np.interp(edit[0], [20, 30, 50], [0.2, 0, 0.8])
        changes = sum(edit[j] != CARD.row[j] for j in range(3))
        np.testing.assert_allclose(found, CARD.start + total * (0.5 if changes > 1 else 1))


def test_json_gives_the_same_scorecard() -> None:
    again = Scorecard.from_dict(json.loads(json.dumps(CARD.to_dict(), allow_nan=False)))
    assert again.to_dict() == CARD.to_dict()
    edits = np.array([[44.0, 1, 3], [20, 1, -500]])
    np.testing.assert_array_equal(again.sums(edits), CARD.sums(edits))
    ranged = replace(CARD, target=(1.0, np.inf))
    assert Scorecard.from_dict(json.loads(json.dumps(ranged.to_dict(), allow_nan=False))).target == (1.0, np.inf)


def test_unknown_names_are_named() -> None:
    with pytest.raises(GraceError, match="no feature 'colour'; there are age, kind, size"):
        CARD.points("colour", 1)
    with pytest.raises(GraceError, match="'kind' has no category 'rod'; it has nut, bolt, pin"):
        CARD.points("kind", "rod")
