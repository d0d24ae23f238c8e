"""Observed values of black boxes: which are asked about first, and the complete scan of single changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace.methods import observed
from grace.methods.observed import FEW, MOST, ObservedValues, shares

RNG = np.random.default_rng(3)
TRAIN = pd.DataFrame(
    {
        "a": np.sort(RNG.normal(size=300)).round(4),
        "b": RNG.integers(0, 40, 300),
        "c": RNG.exponential(2.0, 300).round(3),
        "k": RNG.choice(list("pqr"), 300),
    }
)


def explainer_of(flips: pd.DataFrame, train: pd.DataFrame = TRAIN, **options: object) -> grace.Explainer:
    """Of a model that says yes only where a column has exactly one of some values (column, value)."""

    def model(frame: pd.DataFrame) -> np.ndarray:
        yes = np.zeros(len(frame), dtype=bool)
        for column, value in flips.itertuples(index=False):
            yes |= (frame[column] == value).to_numpy()
        return np.where(yes, 0.9, 0.1)

    options = {"domain": "minmax", "gamma": 1.0, **options}
    return grace.Explainer(grace.wrap(model, classes=["no", "yes"]), train, **options)


def flipping(*cells: tuple[str, float]) -> pd.DataFrame:
    return pd.DataFrame(cells, columns=["column", "value"])


def test_what_numbers_with_few_values_leave_goes_to_the_others() -> None:
    assert shares([2, 60, 33, 5], 16) == [2, 29, 28, 5]
    assert shares([], 16) == []


def test_few_and_others_are_all_values() -> None:
    explainer = explainer_of(flipping(("a", 9.0)))
    batch = explainer.explain(TRAIN.head(1))
    rows = torch.as_tensor(np.asarray(explainer.schema.encode(TRAIN)))
    seen = ObservedValues._among(explainer._space(batch.schema), rows)
    for k, j in enumerate((0, 1, 2)):
        few, others = seen.few[seen.feature == j], seen.others[seen.begins[k] : seen.begins[k + 1]]
        assert torch.equal(torch.cat([few, others]).sort().values, rows[:, j].unique())
        assert len(few) >= FEW or len(others) == 0
        assert (few[0], few[-1]) == (rows[:, j].min(), rows[:, j].max())


def test_every_single_observed_value_is_found() -> None:
    """Values of a narrow flip that lie between those that are tried first, too."""
    row = pd.DataFrame({"a": [9.0], "b": [55], "c": [50.0], "k": ["p"]})
    for column in "ac":
        for value in np.sort(TRAIN[column])[5::37]:
            e = explainer_of(flipping((column, value))).explain(row, among="nearest")[0]
            assert [(c.name, c.new) for c in e.changes] == [(column, value)]


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_of_all_observed_values(seed: int) -> None:
    """Brute force over the observed values of all numbers: the answer is the nearest that flips."""
    rng = np.random.default_rng(seed)
    cells = [(c, v) for c in "abc" for v in rng.choice(TRAIN[c].unique(), 3, replace=False)]
    rows = pd.DataFrame(
        {
            "a": rng.uniform(-1, 1, 6) + 1e-6,
            "b": rng.integers(0, 40, 6) + 100,
            "c": rng.uniform(0, 5, 6) + 1e-7,
            "k": "q",
        }
    )
    explainer = explainer_of(flipping(*cells))
    batch = explainer.explain(rows, among="nearest")
    spread = {f.name: f.spread or 1.0 for f in batch.schema.features}
    for i, e in enumerate(batch):
        least = min(abs(v - rows[c].iloc[i]) / spread[c] for c, v in cells)
        assert len(e.changes) == 1
        assert e.distance == pytest.approx(least, rel=1e-9)


def test_not_one_observed_value_is_told_apart_from_two() -> None:
    """Where no observed value flips alone, none is reported; within the limits of the row only."""
    value = float(np.sort(TRAIN["a"])[150])
    row = pd.DataFrame({"a": [9.0], "b": [55], "c": [50.0], "k": ["p"]})
    explainer = explainer_of(flipping(("a", value)))
    assert explainer.explain(row, among="nearest").success.all()
    assert not explainer.explain(row, among="nearest", ranges={"a": (value + 0.01, 10.0)}).success.any()
    assert not explainer.explain(row, among="nearest", frozen=["a"]).success.any()


def test_answers_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    cells = [(c, v) for c in "abc" for v in rng.choice(TRAIN[c].unique(), 2, replace=False)]
    explainer = explainer_of(flipping(*cells))
    rows = TRAIN.sample(12, random_state=0)
    whole = explainer.explain(rows, among="nearest")
    monkeypatch.setattr(observed, "CHUNK_BYTES", 1)  # a row at a time
    for i in range(len(rows)):
        alone = explainer.explain(rows.iloc[[i]], among="nearest")
        assert np.array_equal(alone.answers.contrast[0], whole.answers.contrast[i])
    assert np.array_equal(explainer.explain(rows, among="nearest").answers.contrast, whole.answers.contrast)


def test_beyond_the_limit_some_values_are_asked_about_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    row = pd.DataFrame({"a": [9.0], "b": [55], "c": [50.0], "k": ["p"]})
    explainer = explainer_of(flipping(("a", 77.0)))
    everything = explainer.explain(row).calls
    monkeypatch.setattr(observed, "MOST", 10)
    others = sum(TRAIN[c].nunique() for c in "abc") - 3 * FEW
    assert everything - explainer.explain(row).calls == others - 10


def test_the_limit_on_questions_is_kept() -> None:
    rows = TRAIN.head(5)
    explainer = explainer_of(flipping(("a", float(np.sort(TRAIN["a"])[101]))))
    whole = explainer.explain(rows, among="nearest")
    some = explainer.explain(rows, among="nearest", max_calls=whole.calls // 2)
    assert some.calls <= whole.calls // 2
    assert not some.success.all()
    assert sum(TRAIN[c].nunique() for c in "abc") - 3 * FEW <= MOST
