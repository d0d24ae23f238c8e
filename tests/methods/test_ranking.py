"""Rankings against the slow versions, one row at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import grace
import reference
from grace.methods.ranking.entropy import filter_ranking
from grace.methods.ranking.gradient import nearest_alternative, rank_gradient, rank_gradient_as_printed
from grace.methods.ranking.local import gini_importance, logistic_weights, neighbourhood, rank_local, two_class_weights
from grace.problem.neighbours import NeighbourIndex, nearest_rows
from random_cases import function, random_case

pytestmark = pytest.mark.quick


def problem_of(explainer: grace.Explainer, rows: np.ndarray, **settings: object):
    chosen = grace.explain.explainer.settings_of(explainer.settings, {"method": "local", **settings})
    return explainer._problem(torch.as_tensor(rows), None, explainer.schema, chosen)


@pytest.mark.parametrize("seed", range(4))
def test_gradient_as_in_the_reference(seed: int) -> None:
    explainer, rows = random_case(seed)
    f, space = function(explainer), explainer._space(explainer.schema)
    low, high, spread = space.low.numpy(), space.high.numpy(), space.spread.numpy()
    problem = problem_of(explainer, rows)
    v, slope = nearest_alternative(problem)
    order = rank_gradient(problem, slope)
    printed = problem_of(explainer, rows, as_printed=True)
    v_printed, _ = nearest_alternative(printed)
    order_printed = rank_gradient_as_printed(printed, v_printed)
    for i, x in enumerate(rows):
        scores, gradients = reference.scores_and_gradients(f, x)
        original = int(np.argmax(scores))
        assert int(v[i]) == reference.nearest_class(scores, gradients * spread, original)
        assert int(v_printed[i]) == reference.nearest_class(scores, gradients, original)
        assert order[i].tolist() == list(reference.rank_gradient_gain(f, x, low, high, spread))
        assert order_printed[i].tolist() == list(reference.rank_gradient_as_printed(f, x))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.floats(0, 1))
@settings(max_examples=50)
def test_entropy_filter_is_algorithm_3(seed: int, d: int, most: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    su = rng.random((d, d)).round(1)
    su = np.maximum(su, su.T)
    order = np.stack([rng.permutation(d) for _ in range(5)])
    conflict = torch.as_tensor(su > gamma).fill_diagonal_(False)
    kept = filter_ranking(torch.as_tensor(order), conflict, most)
    for i in range(5):
        slow = list(reference.w_entropy(list(order[i]), su, gamma, most))
        assert kept[i].tolist() == slow + [-1] * (min(most, d) - len(slow))


def test_what_is_redundant_is_worked_out_once_for_each_su_and_gamma() -> None:
    explainer, rows = random_case(features=8)
    rng = np.random.default_rng(0)
    for _ in range(2):
        su = rng.random((8, 8)).round(1)
        explainer.use(explainer.model, replace(explainer.background, su=np.maximum(su, su.T)))
        for gamma in (0.5, 0.7, 0.5):
            found = problem_of(explainer, rows, gamma=gamma).conflict
            for i in range(8):
                assert found[i].tolist() == [i != j and bool(explainer.su[i, j] > gamma) for j in range(8)]
            assert problem_of(explainer, rows, gamma=gamma).conflict is found
    nothing = problem_of(explainer, rows, gamma=1.0).conflict
    assert nothing.shape == (8, 8)
    assert not nothing.any()
    assert nothing.untyped_storage().nbytes() == 1  # however many features there are
    explainer.use(explainer.model, replace(explainer.background, su=None))
    with pytest.raises(grace.GraceError, match=r"gamma=0.5 needs SU"):
        problem_of(explainer, rows, gamma=0.5)


@pytest.mark.parametrize(("classes", "features"), [(2, 3), (2, 30), (5, 12)])
def test_local_weights_as_in_the_reference(classes: int, features: int) -> None:
    rng = np.random.default_rng(classes)
    n, m = 6, 4 * classes
    near = rng.normal(size=(n, m, features)) * 3
    soft = rng.dirichlet(np.full(classes, 0.4), size=(n, m))
    used = np.ones((n, m), dtype=bool)
    used[0, 1:3] = False  # a class with too few rows
    for solver in (logistic_weights, two_class_weights) if classes == 2 else (logistic_weights,):
        found = solver(torch.as_tensor(near), torch.as_tensor(soft), torch.as_tensor(used))
        for i in range(n):
            weights, _ = reference.local_weights(near[i][used[i]], soft[i][used[i]])
            apart = weights - weights.mean(axis=0)
            mine = found[i].numpy().T
            assert mine - mine.mean(axis=0) == pytest.approx(apart, abs=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 8), st.floats(0.01, 1000), st.booleans())
@settings(max_examples=50)
def test_both_solvers_find_the_same_weights(seed: int, features: int, q: int, scale: float, sure: bool) -> None:
    rng = np.random.default_rng(seed)
    near = torch.as_tensor(rng.normal(size=(4, 2 * q, features)) * scale)
    near[0] = near[0, :1]  # points that are all the same
    soft = torch.as_tensor(rng.dirichlet(np.full(2, 1e-3 if sure else 1.0), size=(4, 2 * q)))
    soft[1] = soft[1, :1]  # and points that say the same
    used = torch.as_tensor(rng.random((4, 2 * q)) < 0.8)
    one, other = (solver(near, soft, used) for solver in (logistic_weights, two_class_weights))
    apart = (one - one.mean(dim=2, keepdim=True)) - other
    assert float(apart.abs().max()) <= 1e-4
    alone = two_class_weights(near[2:3], soft[2:3], used[2:3])[0]
    assert torch.allclose(other[2], alone, rtol=1e-7, atol=1e-9)


def test_local_ranking_end_to_end() -> None:
    explainer, rows = random_case(7)
    problem = problem_of(explainer, rows, as_printed=True)
    v, _ = nearest_alternative(problem)
    order = rank_local(problem, v)
    known = explainer._view.background_rows
    points, classes = known.coordinates.numpy(), known.classes.numpy()
    spread = explainer._space(explainer.schema).spread.numpy()
    f = function(explainer)
    for i, x in enumerate(rows):
        chosen = reference.nearest_rows(points, classes, x / spread, 4)
        q = np.concatenate([points[index] for index in chosen.values()])
        soft = np.stack([torch.softmax(f(torch.as_tensor(p * spread)), 0).detach().numpy() for p in q])
        weights, _ = reference.local_weights(q, soft)
        original = int(f(torch.as_tensor(x)).argmax())
        size = np.abs(weights[int(v[i])] - weights[original])
        assert size[order[i].numpy()] == pytest.approx(np.sort(size)[::-1], abs=1e-5)


def test_neighbourhood_takes_what_a_small_class_has() -> None:
    explainer, rows = random_case(1)
    problem = problem_of(explainer, rows, neighbours=60)
    index, used = neighbourhood(problem, problem.space.euclidean(problem.rows))
    known = explainer._view.background_rows
    counts = torch.bincount(known.classes)
    assert used.sum(dim=1).tolist() == [int(counts.clamp_max(60).sum())] * len(rows)
    assert (index[used].unique().shape[0]) <= len(known.rows)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_nearest_rows_are_exact(count: int) -> None:
    rng = np.random.default_rng(2)
    background = rng.integers(0, 4, (40, 3)).astype(float)  # many ties
    points = rng.integers(0, 4, (25, 3)).astype(float)
    index, found = nearest_rows(torch.as_tensor(points), NeighbourIndex.of(torch.as_tensor(background)), count)
    for i, x in enumerate(points):
        order = np.lexsort([np.arange(40), ((background - x) ** 2).sum(axis=1)])[:count]
        assert index[i][found[i]].tolist() == order.tolist()
    assert (found.sum(dim=1) == min(count, 40)).all()


def test_gini_importance_as_in_a_regression_tree() -> None:
    """Gini impurity of soft labels is the summed variance that a multi-output regression tree minimises."""
    rng = np.random.default_rng(3)
    near = rng.normal(size=(8, 40, 5))
    soft = np.exp(near[:, :, :3] * [3, 2, 1])  # smooth in the rows, so that no two cuts are equally good
    soft /= soft.sum(axis=2, keepdims=True)
    used = torch.ones(8, 40, dtype=torch.bool)
    found = gini_importance(torch.as_tensor(near), torch.as_tensor(soft), used, depth=2).numpy()
    for i in range(8):
        tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(near[i], soft[i])
        assert found[i] == pytest.approx(tree.feature_importances_, abs=1e-9)


def test_equal_neighbours_are_the_same_alone_and_in_a_batch() -> None:
    """More rows at the same distance than are asked for, told apart by nothing but rounding."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 3, (400, 4), generator=generator)
    background = torch.nn.functional.one_hot(codes, 3).flatten(1).to(torch.float64) / 2**0.5
    points, known = background[:37], NeighbourIndex.of(background)
    together, _ = nearest_rows(points, known, 6)
    alone = torch.cat([nearest_rows(points[[i]], known, 6)[0] for i in range(len(points))])
    assert torch.equal(together, alone)
    exact = torch.cdist(points, background).round(decimals=9)
    expected = exact.argsort(dim=1, stable=True)[:, :6]
    assert torch.equal(together, expected)
