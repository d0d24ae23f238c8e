"""Checks that every method passes on every problem and at the edges of its settings."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import grace
from grace.methods import METHODS
from problems import CASES, Case
from promises import check

EDGES = {
    "defaults": {},
    "K = 1": {"max_features": 1},
    "K = d": {"max_features": 50},
    "gamma = 0": {"gamma": 0.0},
    "gamma = 1": {"gamma": 1.0},
    "one step": {"steps": 1},
    "central": {"domain": "central"},
    "no polish": {"polish": False},
    "as printed": {"as_printed": True, "polish": False},
    "tree": {"local_model": "tree"},
}


def same(a: grace.Explanations, b: grace.Explanations, order: np.ndarray | slice) -> None:
    """Equal to the bit after polish; before it, but for the rounding of matrix products."""
    exact = a.settings["polish"] and METHODS[a.settings["method"]].gets_polished
    assert np.allclose(a.answers.contrast[order], b.answers.contrast, rtol=0 if exact else 1e-9, atol=0)
    assert (a.success[order] == b.success).all()


def crossed() -> list[Any]:
    """Every method on every case at every edge; at the edges, three quarters are left to the slow tests, so that each
    method still meets each case and each edge."""
    out = []
    for (m, method), (c, case), (e, edge) in product(enumerate(METHODS), enumerate(CASES), enumerate(EDGES)):
        slow = edge != "defaults" and (m + c + e) % 4 > 0
        marks = [pytest.mark.slow] if slow else []
        out.append(pytest.param(method, case, edge, marks=marks, id=f"{method}-{case.name}-{edge}"))
    return out


@pytest.mark.parametrize(("method", "case", "edge"), crossed())
def test_every_method(method: str, case: Case, edge: str) -> None:
    explainer = case.explainer()
    settings = {"method": method, **EDGES[edge]}
    batch = explainer.explain(case.rows, **settings)
    check(explainer, case.rows, batch, method, settings.get("polish", True))

    again = case.explainer().explain(case.rows, **settings)
    same(batch, again, slice(None))
    order = np.random.default_rng(0).permutation(len(case.rows))
    same(batch, explainer.explain(case.rows.iloc[order], **settings), order)
    for i in range(0, len(case.rows), 3):
        same(batch, explainer.explain(case.rows.iloc[[i]], **settings), slice(i, i + 1))


@pytest.mark.parametrize("case", [c for c in CASES if c.fewest], ids=lambda c: c.name)
@pytest.mark.parametrize("method", ["gradient", "local"])
def test_exact_answers(method: str, case: Case) -> None:
    """No method finds fewer features than have to change; the gradient method finds exactly those."""
    batch = case.explainer().explain(case.rows, method=method, gamma=1.0)
    found = batch.changed.sum(axis=1).to_numpy()
    fewest = np.array(case.fewest)
    assert (batch.success <= (fewest > 0)).all()
    assert (found[batch.success] >= fewest[batch.success]).all()
    if method == "gradient" and len(batch[0].classes) == 2:
        assert (found == fewest).all()


def test_twins_are_not_both_changed() -> None:
    case = next(c for c in CASES if c.name == "twins")
    explainer = case.explainer(method="gradient")
    assert explainer.su[0, 1] == 1
    row = case.rows.head(1)
    assert explainer.explain(row, gamma=1.0)[0].success
    refused = explainer.explain(row, gamma=0.5)[0]
    assert not refused.success
    assert "no contrast was found" in refused.reason
    assert refused.contrast == refused.row


def test_whole_numbers_are_exact() -> None:
    case = next(c for c in CASES if c.name == "whole numbers")
    texts = [e.text() for e in case.explainer(method="gradient").explain(case.rows)]
    assert texts == [
        "Had i been 4 higher, the model would have classified the row as yes rather than no.",
        "Had i been 3 lower, the model would have classified the row as no rather than yes.",
        "Had i been 1 higher, the model would have classified the row as yes rather than no.",
    ]


def test_nearest_on_a_line() -> None:
    """One feature, one boundary: the answer is the first sayable value beyond it."""
    case = CASES[0]
    e = case.explainer(method="gradient").explain(case.rows.head(1))[0]
    assert [(c.name, c.old, c.new) for c in e.changes] == [("a", -1.0, 0.01)]
    assert e.distance == pytest.approx(1.01 / case.explainer().schema["a"].spread)


def test_against_asks_for_one_class() -> None:
    case = CASES[1]
    explainer = case.explainer()
    batch = explainer.explain(case.rows, against="r")
    assert set(batch.contrast_class[batch.success]) == {"r"}
    each = explainer.explain(case.rows, against=["q", "r", "s", "p"])
    for wanted, e in zip("qrsp", each, strict=True):
        assert e.contrast_class in (wanted, None)
    own = explainer.explain(case.rows.head(1), against="q")[0]
    assert not own.success
    assert "already" in own.reason
