"""Whole lines in compiled code: both directions, points outside the range, and room for many breakpoints."""

from __future__ import annotations

import numpy as np
import pytest

from grace.methods.compiled.profiles import scores_along
from grace.models.compiled import Layers, activate, layers_of


@pytest.fixture
def net() -> Layers:
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(6, 9)), rng.normal(size=6)), (rng.normal(size=(3, 6)), rng.normal(size=3))]
    return layers_of(rng.normal(size=(9, 4)), rng.normal(size=9), {}, layers)


def own_scores(net: Layers, row: np.ndarray) -> np.ndarray:
    values = np.empty(net.units[-1])
    activate(net, row, values)
    return values[net.units[-2] :]


def test_lines_pass_through_the_scores_of_the_network(net: Layers) -> None:
    rng = np.random.default_rng(1)
    rows, column = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    x = rows[np.arange(50), column]
    low, high = x - rng.uniform(0, 3, 50).round(0), x + rng.uniform(0, 3, 50).round(0)  # some of them x itself
    points, scores = scores_along(net, rows, column, low, high)
    assert ((points[:, 0] == low) & (points[:, -1] == high)).all()
    assert (np.diff(points, axis=1) >= 0).all()
    assert (points == x[:, None]).any(axis=1).all()
    for i in range(50):
        for value in [*points[i], *rng.uniform(low[i], high[i], 5)]:
            row = rows[i].copy()
            row[column[i]] = value
            mine = [np.interp(value, points[i], scores[i, :, k]) for k in range(3)]
            np.testing.assert_allclose(mine, own_scores(net, row), rtol=0, atol=1e-9)


def test_little_room_gives_the_same_lines(net: Layers) -> None:
    rows, column = np.random.default_rng(2).normal(size=(20, 4)), np.arange(20) % 4
    ends = np.full(20, -5.0), np.full(20, 5.0)
    points, scores = scores_along(net, rows, column, *ends)
    less = scores_along(net, rows, column, *ends, room=2)
    wide = less[0].shape[1]
    assert wide >= points.shape[1]
    np.testing.assert_array_equal(np.pad(points, ((0, 0), (0, wide - points.shape[1])), mode="edge"), less[0])
    np.testing.assert_array_equal(less[1][:, : points.shape[1]], scores)
