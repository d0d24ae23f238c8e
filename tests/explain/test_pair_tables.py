"""Tables of pairs, against literal loops."""

from __future__ import annotations

import numpy as np

from grace.explain.scorecards.pair_tables import (
    GRID,
    grid_weights,
    grids,
    interactions,
    looked_up,
    pairs_of,
    row_grids,
    tried_rows,
)
from grace.schema.features import Categorical, Numeric

RNG = np.random.default_rng(0)
FEATURES = (Numeric(name="a"), Categorical(name="b", categories=tuple("uvwxyz!")), Numeric(name="c", gaps=True))
CODE = FEATURES[2].missing_code
POOL = np.stack([RNG.normal(size=60), RNG.integers(0, 7, 60), RNG.normal(size=60)], axis=1)
POOL[:10, 2] = CODE
CATEGORICAL = np.array([False, True, False])
MISSING = np.array([np.nan, np.nan, CODE])


def f(rows: np.ndarray) -> np.ndarray:
    return np.stack([rows[..., 0] * rows[..., 1] + rows[..., 2], rows[..., 0] ** 2 * rows[..., 2]], axis=-1)


def test_grids_hold_the_ends_of_numbers_and_frequent_categories() -> None:
    found = grids(FEATURES, POOL)
    assert found.shape == (3, GRID)
    assert (found[0, 0], found[0, -1]) == (POOL[:, 0].min(), POOL[:, 0].max())
    assert CODE not in found[2]
    counts = np.bincount(POOL[:, 1].astype(int), minlength=7)
    assert min(counts[found[1].astype(int)]) >= max(counts[[c for c in range(7) if c not in found[1]]])


def test_tables_are_what_both_changes_do_beyond_each() -> None:
    rows = POOL[8:12]  # of which two have a missing cell
    top = np.tile([2, 0, 1], (4, 1))
    pairs, values = pairs_of(3), row_grids(grids(FEATURES, POOL), rows, top, CATEGORICAL)
    scores = f(tried_rows(rows, top, values, pairs))
    own = (values == np.take_along_axis(rows, top, axis=1)[:, :, None]).argmax(axis=2)
    found = interactions(scores, own[:, pairs[:, 0]], own[:, pairs[:, 1]])
    assert found.shape == (4, 3, GRID + 1, GRID + 1, 2)
    for i, row in enumerate(rows):
        for q, (a, b) in enumerate(pairs):
            for k, va in enumerate(values[i, a]):
                for m, vb in enumerate(values[i, b]):
                    tried = np.repeat(row[None], 4, axis=0)
                    tried[[1, 3], top[i, a]], tried[[2, 3], top[i, b]] = va, vb
                    none, first, second, both = f(tried)
                    np.testing.assert_allclose(found[i, q, k, m], both - first - second + none, atol=1e-9)


def test_numbers_are_weighted_as_linear_interpolation_does() -> None:
    grid = np.array([0.0, 1.0, 1.0, 4.0])
    at = np.array([-1.0, 0.0, 0.25, 1.0, 2.5, 4.0, 9.0])
    weights = grid_weights(at, grid, np.array(False), np.array(np.nan))
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights @ [5.0, 7.0, 7.0, 1.0], np.interp(at, [0, 1, 4], [5, 7, 1]))


def test_categories_and_missing_cells_outside_of_the_grid_have_no_weight() -> None:
    weights = grid_weights(np.array([2.0, 5.0, 3.0]), np.array([2.0, 5.0, 5.0]), np.array(True), np.array(np.nan))
    np.testing.assert_array_equal(weights, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    gaps = grid_weights(np.array([CODE, 0.5]), np.array([0.0, 1.0]), np.array(False), np.array(CODE))
    np.testing.assert_allclose(gaps, [[0, 0], [0.5, 0.5]])


def test_a_table_is_read_bilinearly() -> None:
    table = RNG.normal(size=(3, 4, 2))
    a, b = RNG.random((5, 3)), RNG.random((5, 4))
    expected = np.einsum("mg,mh,ghc->mc", a, b, table)
    np.testing.assert_allclose(looked_up(table, a, b), expected)
