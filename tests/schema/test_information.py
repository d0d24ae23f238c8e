"""Entropy, MDLP and SU against the slow versions and cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from grace import Categorical, Numeric, Schema, datasets
from grace.schema import information as info

pytestmark = pytest.mark.quick

COLUMN = st.lists(st.integers(0, 4), min_size=2, max_size=40)


@given(COLUMN, st.randoms(use_true_random=False))
def test_entropy_and_su_as_in_the_reference(a: list[int], random) -> None:
    b = [random.randint(0, 3) for _ in a]
    assert info.entropy(a) == pytest.approx(reference.entropy(a), abs=1e-12)
    assert info.conditional_entropy(a, b) == pytest.approx(reference.conditional_entropy(a, b), abs=1e-12)
    assert info.symmetrical_uncertainty(a, b) == pytest.approx(reference.symmetrical_uncertainty(a, b), abs=1e-12)


def test_by_hand() -> None:
    assert info.entropy([0, 1, 0, 1]) == 1
    assert info.conditional_entropy([0, 1, 0, 1], [0, 0, 1, 1]) == 1
    assert info.conditional_entropy([0, 0, 1, 1], [5, 5, 7, 7]) == 0
    assert info.symmetrical_uncertainty([0, 0, 1, 1], [5, 5, 7, 7]) == 1
    assert info.symmetrical_uncertainty([0, 1, 0, 1], [0, 0, 1, 1]) == 0
    assert info.symmetrical_uncertainty([0, 1, 0, 1], [2, 2, 2, 2]) == 0


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(5, 120), st.integers(1, 30))
@settings(max_examples=60)
def test_mdlp_as_in_the_reference(seed: int, classes: int, n: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, distinct, n) / 4
    labels = np.where(rng.random(n) < 0.8, (values * 4 * classes / distinct).astype(int), rng.integers(0, classes, n))
    assert info.mdlp(values, labels) == pytest.approx(reference.mdlp_cuts(list(values), list(labels)))


def test_mdlp_of_a_thousand_classes_is_finite() -> None:
    assert len(info.mdlp(np.arange(2000.0), np.arange(2000) // 2)) >= 0


def test_a_feature_without_cuts_falls_back_to_quantiles() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    rows = np.stack([noise, noise * 2 + 1, rng.integers(0, 3, 400)], axis=1)
    schema = Schema(features=(Numeric(name="a"), Numeric(name="b"), Categorical(name="c", categories=("x", "y", "z"))))
    codes = info.discretise(rows, rng.integers(0, 2, 400), schema)
    assert list(codes[:, 0]) == reference.quantile_bins(list(noise))
    assert set(codes[:, 2]) == {0, 1, 2}
    su = info.su_matrix(codes)
    assert su[0, 1] == 1  # twins are recognised
    assert su[0, 2] < 0.1


@pytest.mark.parametrize("path", ["dense", "sorted"])
@pytest.mark.parametrize("name", ["cancer95", "german_credit"])
def test_all_pairs_at_once(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "DENSE_SYMBOLS", 10**9 if path == "dense" else 0)
    monkeypatch.setattr(info, "ROW_BLOCK", 100)
    table = datasets.load(name)
    frame = table.frame.dropna().head(300)
    rows = table.schema.encode(frame)
    codes = info.discretise(rows, info.symbols(frame["class"]), table.schema)
    su = info.su_matrix(codes)
    assert (su == su.T).all()
    for i in range(0, len(su), 3):
        for j in range(len(su)):
            slow = reference.symmetrical_uncertainty(list(codes[:, i]), list(codes[:, j]))
            assert su[i, j] == pytest.approx(slow, abs=1e-9)


def test_raw_symbols_tell_every_float_apart() -> None:
    rows = np.array([[0.1, 5], [0.2, 5], [0.1, 6]])
    assert info.raw_symbols(rows).tolist() == [[0, 0], [1, 0], [0, 1]]


def test_a_constant_has_no_redundancy_with_anything() -> None:
    su = info.su_matrix(np.array([[0, 1, 1], [0, 0, 0], [0, 1, 1]]))
    assert su.tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 1]]
