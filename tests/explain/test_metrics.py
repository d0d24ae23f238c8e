"""The measures against the formulas written out slowly."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from grace.explain.metrics import info_gain, info_gain_raw, measure
from problems import CASES

pytestmark = pytest.mark.quick


def test_as_in_the_reference() -> None:
    rng = np.random.default_rng(0)
    n, d = 40, 7
    su = rng.random((d, d))
    su = (su + su.T) / 2
    np.fill_diagonal(su, 1)
    su[3, 3] = 0
    success = rng.random(n) < 0.7
    changed = (rng.random((n, d)) < 0.3) & success[:, None]
    changed[success, 0] |= ~changed[success].any(axis=1)
    inside = rng.random((n, d)) < 0.9
    distance = rng.random(n)
    m = measure(changed, success, inside, distance, su=su, su_raw=su, max_features=5)
    sets = [set(np.flatnonzero(row).tolist()) for row in changed[success]]
    every = [set(np.flatnonzero(row).tolist()) for row in changed]
    assert m.fidelity == pytest.approx(success.mean())
    assert m.features == pytest.approx(reference.average_features(sets))
    assert m.features_all == pytest.approx(reference.average_features_all(every, success.tolist(), 5))
    assert m.info_gain == pytest.approx(reference.info_gain_mdlp(sets, su))
    assert m.info_gain_raw == pytest.approx(reference.info_gain_raw(sets, su))
    assert m.domain == pytest.approx(np.mean([inside[i][changed[i]].all() for i in np.flatnonzero(success)]))
    assert m.influence == pytest.approx(reference.influence(m.fidelity, m.info_gain, m.domain, m.features))
    assert m.distance == pytest.approx(distance[success].mean())


def test_one_feature_has_info_gain_one() -> None:
    su = np.ones((3, 3))
    sets = np.array([[True, False, False], [True, True, False]])
    assert info_gain(sets, su).tolist() == [1, 0]
    assert info_gain_raw(sets, su).tolist() == [1, 0]


def test_no_answers_at_all() -> None:
    case = next(c for c in CASES if c.name == "plateau")
    m = case.explainer().explain(case.rows).metrics(raw=True)
    assert (m.fidelity, m.influence, m.features_all) == (0, 0, 5)
    assert np.isnan(m.features)
    assert np.isnan(m.distance)


def test_of_a_batch() -> None:
    case = CASES[0]
    m = case.explainer().explain(case.rows).metrics(raw=True)
    assert m.fidelity == 1
    assert m.domain == 1
    assert 0 < m.influence <= 1
    assert set(m.to_dict()) >= {"fidelity", "features", "info_gain", "info_gain_raw", "domain", "influence", "distance"}
