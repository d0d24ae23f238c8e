"""Curves of scores along each feature, against the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import grace
from grace.explain.scorecards.row_effects import curves_at
from grace.methods.curves import curves_of, decisive, interpolate
from grace.schema.features import Categorical
from kinds import GOOD, HOLES, MIXED, NUMBERS, YES


def explainer_of(kind: str) -> grace.Explainer:
    if kind == "network":
        return grace.Explainer(MLPClassifier((8, 6), max_iter=60, random_state=0).fit(NUMBERS, YES), NUMBERS)
    if kind == "function":
        model = LogisticRegression().fit(NUMBERS, YES)
        return grace.Explainer(grace.wrap(lambda rows: model.predict_proba(rows), classes=["no", "yes"]), NUMBERS)
    frame = HOLES if kind == "trees with gaps" else MIXED
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0, categorical_features="from_dtype")
    return grace.Explainer(model.fit(frame, GOOD), frame)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("kind", ["network", "trees", "trees with gaps"])
def test_exact_curves_are_the_model_itself(kind: str) -> None:
    explainer = explainer_of(kind)
    features, pool = explainer.schema.features, explainer.background_rows
    assert pool is not None
    rows, donors = pool[:8], pool[10:60]
    missing = np.array([getattr(f, "missing_code", np.nan) for f in features])
    assert (rows == missing).any() == (kind == "trees with gaps")
    low = np.where(pool == missing, np.inf, pool).min(axis=0)
    curves = curves_of(explainer.model, features, rows, low, pool.max(axis=0), pool[:5].T)
    assert curves.exact
    found = curves_at(curves, np.broadcast_to(donors, (8, *donors.shape)))
    for j in range(len(features)):
        tried = np.repeat(rows[:, None], len(donors), axis=1)
        tried[:, :, j] = donors[:, j]
        true = decisive(explainer.model, tried.reshape(-1, rows.shape[1])).reshape(8, len(donors), -1)
        np.testing.assert_allclose(_lead(found[:, :, j]), _lead(true), atol=1e-6)


def _lead(scores: np.ndarray) -> np.ndarray:
    return scores[..., 1] - scores[..., 0]


def test_a_black_box_is_right_on_the_grid_and_at_the_rows_own_values() -> None:
    explainer = explainer_of("function")
    pool = explainer.background_rows
    assert pool is not None
    grid = np.sort(pool[:6], axis=0).T
    curves = curves_of(explainer.model, explainer.schema.features, pool[:3], pool.min(axis=0), pool.max(axis=0), grid)
    assert not curves.exact
    assert curves.values.shape[2] == 7
    np.testing.assert_allclose(
        curves_at(curves, pool[:3, None])[:, 0], np.repeat(decisive(explainer.model, pool[:3])[:, None], 3, axis=1)
    )
    tried = pool[:1].copy()
    tried[0, 1] = grid[1, 2]
    found = curves_at(curves, np.repeat(tried[None], 3, axis=0))[0, 0, 1]
    np.testing.assert_allclose(found, decisive(explainer.model, tried)[0])


def test_every_category_has_a_point() -> None:
    explainer = explainer_of("trees")
    pool, features = explainer.background_rows, explainer.schema.features
    assert pool is not None
    curves = curves_of(explainer.model, features, pool[:2], pool.min(axis=0), pool.max(axis=0), pool[:5].T)
    for j, feature in enumerate(features):
        if isinstance(feature, Categorical):
            assert set(curves.values[0, j]) == set(range(len(feature.categories)))


def test_interpolation_is_linear_between_points_and_constant_beyond_them() -> None:
    values = np.array([[0.0, 1.0, 3.0, 3.0]])
    heights = np.array([[[0.0], [2.0], [-2.0], [-2.0]]])
    found = interpolate(values, heights, np.array([[-5.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0]]))
    np.testing.assert_allclose(found[0, :, 0], [0, 0, 1, 2, 0, -2, -2])


def test_interpolation_keeps_a_step_between_neighbouring_numbers() -> None:
    before = np.nextafter(1.0, 0.0)
    values, heights = np.array([[0.0, before, 1.0, 2.0]]), np.array([[[5.0], [5.0], [7.0], [7.0]]])
    np.testing.assert_array_equal(interpolate(values, heights, np.array([[before, 1.0]]))[0, :, 0], [5.0, 7.0])
