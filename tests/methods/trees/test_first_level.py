"""Sums along single features, cell by cell, beside those of the rows themselves; and the nearest single change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

import grace
from grace.methods.trees import own_work, tree_arrays
from grace.methods.trees.cells import limit_cells, visit_leaves
from grace.methods.trees.first_level import single_change
from grace.methods.trees.margins import reaches
from grace.models.predictor import tree_ensemble

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=150).round(2),
        "b": RNG.integers(0, 9, size=150),
        "c": pd.Categorical(RNG.choice(list("uvwxyz"), size=150)),
        "d": RNG.normal(size=150).round(1),
    }
)
SUMS = FRAME["a"] + (FRAME["b"] - 4) / 2 * FRAME["d"] + FRAME["c"].isin(list("ux")) - 0.5
NUMBERS = FRAME.drop(columns="c")
KINDS = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=20, max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(n_estimators=10, random_state=0),
    "categories": lambda: HistGradientBoostingClassifier(
        max_iter=15, categorical_features="from_dtype", random_state=0
    ),
}


def case(kind: str, classes: int) -> tuple[grace.Explainer, pd.DataFrame]:
    frame = FRAME if kind == "categories" else NUMBERS
    target = np.digitize(SUMS, np.quantile(SUMS, np.linspace(0, 1, classes + 1)[1:-1]))
    return grace.Explainer(KINDS[kind]().fit(frame, target), frame), frame


CASES = {(kind, classes): case(kind, classes) for kind in KINDS for classes in (2, 4)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 4])
@given(st.integers(0, 149), st.floats(0, 0.5), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_cells_have_the_sums_of_rows_inside_them(kind: str, classes: int, row: int, cut: float, frozen: int) -> None:
    explainer, frame = CASES[kind, classes]
    ensemble = tree_ensemble(explainer.model)
    assert ensemble is not None
    name = frame.columns[frozen % frame.shape[1]]
    limits = {"frozen": [name]} if cut < 0.1 else {}
    schema = explainer.schema_for("minmax" if cut == 0 else 1 - cut).constrain(**limits)
    x = torch.as_tensor(schema.encode(frame.iloc[[row]]))
    trees, aims, columns, table = tree_arrays(explainer._problem(x, None, schema, explainer.settings), ensemble)
    cells = own_work(trees, columns, frame.shape[1], 5).cells
    limit_cells(trees, columns, table, 0, cells)
    cells.own[:] = trees.base
    for t in range(len(trees.roots)):
        visit_leaves(trees, columns, table, 0, t, cells)
    close = 1e-9
    np.testing.assert_allclose(cells.own, ensemble.sums(x.numpy())[0], atol=close)
    nearest = np.inf
    for j in np.flatnonzero(table.free[0]):
        more = cells.sums[cells.begins[j] : cells.begins[j + 1]].copy()
        choices = columns.choices[columns.begins[j] : columns.begins[j + 1]]
        if len(choices):
            values, places = choices[choices != x[0, j].item()], choices[choices != x[0, j].item()].astype(int)
        else:
            more, at = more.cumsum(axis=0), trees.cuts.threshold[trees.cuts.begins[j] : trees.cuts.begins[j + 1]]
            low, high = table.low[0, j], table.high[0, j]
            ends = [low, high, *at, *np.nextafter(at, -np.inf)]
            if columns.whole[j]:
                ends = list(np.arange(np.ceil(low), np.floor(high) + 1))
            values = np.array([v for v in ends if low <= v <= high])
            places = np.searchsorted(at, values, side="right")
        others = np.repeat(x.numpy(), len(values), axis=0)
        others[:, j] = values
        sums = ensemble.sums(others)
        np.testing.assert_allclose(cells.own + more[places], sums, atol=close)
        reached = np.array([reaches(aims, 0, each) for each in sums], dtype=bool) & (values != x[0, j].item())
        far = np.abs(values - x[0, j].item()) / columns.spread[j] if columns.magnitude[j] else np.ones(len(values))
        nearest = min(nearest, np.min(far, where=reached, initial=np.inf))
    cells.sums[:], cells.eight[:] = 0, 0
    work, answer = own_work(trees, columns, frame.shape[1], 5), np.zeros(frame.shape[1])
    single_change(trees, aims, columns, table, 0, answer, cells, work.search)
    seen = work.search.best[1] if work.search.best[0] < np.inf else np.inf
    assert seen == pytest.approx(nearest, rel=1e-12)
    assert not cells.sums.any()
    assert not cells.changes.any()
    assert cells.path_codes.all()
