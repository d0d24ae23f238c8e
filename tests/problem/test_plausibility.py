"""How typical rows are, against a literal computation; and answers that have to be typical."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import LedoitWolf

import grace

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def made() -> tuple[grace.Explainer, pd.DataFrame]:
    table = grace.datasets.load("diabetes")
    parts = table.split(0)
    model = grace.training.fit(table, seed=0, max_epochs=10)
    return grace.Explainer(model, parts.train), model.impute(parts.test).head(40)


def shares(explainer: grace.Explainer, rows: np.ndarray, label: int) -> np.ndarray:
    """The share of the class's training rows that lie farther out than each row, one by one."""
    known = explainer.background_rows[explainer.background_classes() == label]
    spread = np.array([f.spread for f in explainer.schema.features])
    shape = LedoitWolf().fit(known / spread)

    def far(row: np.ndarray) -> float:
        apart = row / spread - shape.location_
        return float(np.sqrt(apart @ shape.precision_ @ apart))

    own = np.array([far(row) for row in known])
    return np.array([np.mean(own >= far(row)) for row in rows])


def test_plausibility_is_the_share_of_rows_farther_out(made) -> None:
    explainer, rows = made
    batch = explainer.explain(rows)
    label = batch.answers.after.argmax(axis=1)
    for c in (0, 1):
        here = batch.success & (label == c)
        expected = shares(explainer, batch.answers.contrast[here], c)
        np.testing.assert_allclose(batch.plausibility()[here], expected, atol=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_answers_are_as_typical_as_asked(made, share: float) -> None:
    explainer, rows = made
    plain, held = explainer.explain(rows), explainer.explain(rows, plausible=share)
    assert held.success.mean() > 0.5
    assert (held.plausibility()[held.success] >= share).all()
    assert (plain.plausibility() < share).any()
    both = plain.success & held.success
    assert (held.changed.sum(axis=1)[both] >= plain.changed.sum(axis=1)[both]).all()
    checks = held.answers.checks
    assert all(checks[part][held.success].all() for part in ("flip", "features", "gamma", "domain"))
    one = explainer.explain(rows.iloc[[5]], plausible=share)
    np.testing.assert_array_equal(one.answers.contrast, held.answers.contrast[[5]])
    assert len(held[0].after) == 2


def test_it_goes_with_against_robust_and_categories() -> None:
    table = grace.datasets.load("german_credit")
    parts = table.split(0)
    model, other = (grace.training.fit(table, seed=s, max_epochs=6) for s in (0, 1))
    explainer = grace.Explainer(model, parts.train)
    rows = model.impute(parts.test).head(8)
    batch = explainer.explain(rows, against="good", plausible=0.1, robust=[other])
    assert (batch.plausibility()[batch.success] >= 0.1).all()
    assert (batch.validity([other])[batch.success] == 1).all()


def test_what_does_not_go_together_is_said(made) -> None:
    explainer, rows = made
    with pytest.raises(grace.GraceError, match="method='search'"):
        explainer.explain(rows.head(1), plausible=0.1, method="gradient")
    with pytest.raises(grace.GraceError, match="prove"):
        explainer.explain(rows.head(1), plausible=0.1, prove=True)
    with pytest.raises(grace.GraceError, match="plausible=2"):
        explainer.explain(rows.head(1), plausible=2)
    bare = grace.Explainer(explainer.model, schema=explainer.schema, gamma=1.0)
    with pytest.raises(grace.GraceError, match="training rows"):
        bare.explain(rows.head(1), plausible=0.1)
