"""Answers as arrays: what is the same everywhere takes no memory, and chunks join to what one batch gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace.problem import budget
from grace.problem.answers import NOT_ASKED, Answers, Cells, repeated

RNG = np.random.default_rng(4)
FRAME = pd.DataFrame(RNG.normal(0, 2, (60, 3)).round(2), columns=list("abc"))


def answers(n: int, seed: int = 0, **parts: object) -> Answers:
    """Answers to n rows of three features, a change in each but the last."""
    rng = np.random.default_rng(seed)
    cells = Cells(np.arange(n - 1), rng.integers(0, 3, n - 1), rng.normal(size=n - 1))
    made = Answers(
        rows=rng.normal(size=(n, 3)),
        differing=cells,
        success=np.arange(n) < n - 1,
        trivial=np.zeros(n, dtype=bool),
        before=rng.normal(size=(n, 2)),
        after=rng.normal(size=(n, 2)),
        distance=rng.random(n),
        proof=repeated(NOT_ASKED, n),
        nearest=repeated(np.nan, n),
        checks={"flip": rng.random(n) < 0.5},
    )
    return replace(made, **parts)


def test_what_nothing_follows_takes_no_memory() -> None:
    found = answers(5)
    assert found.followed.shape == (5, 3)
    assert not found.followed.any()
    assert found.followed.strides == (0, 0)
    assert (found.changed == (found.contrast != found.rows)).all()
    assert found.changed.sum() == 4
    assert found.moved is found.contrast


def test_what_follows_is_not_changed_but_by_others() -> None:
    following = np.zeros((5, 3), dtype=bool)
    following[1, answers(5).differing.column[1]] = True
    found = answers(5, following=following)
    assert found.followed is following
    assert found.changed.sum() == 3
    assert (found.moved[1] == found.rows[1]).all()
    assert (found.moved[[0, 2, 3, 4]] == found.contrast[[0, 2, 3, 4]]).all()
    assert (found.select(np.array([1, 4])).followed == following[[1, 4]]).all()
    assert not found.missed().followed.any()


def test_chunks_stand_one_after_another() -> None:
    parts = [answers(n, n) for n in (4, 1, 7)]
    whole = Answers.join(parts)
    for name in ("rows", "contrast", "changed", "success", "before", "after", "distance", "proof", "nearest"):
        expected = np.concatenate([getattr(p, name) for p in parts])
        found = getattr(whole, name)
        assert found.tobytes() == expected.tobytes()
        assert found.dtype == expected.dtype
    assert (whole.checks["flip"] == np.concatenate([p.checks["flip"] for p in parts])).all()
    assert whole.following is None
    assert whole.proof.strides == whole.nearest.strides == (0,)
    assert [p.differing.row.max(initial=0) for p in parts] == [2, 0, 5]  # those of the parts are as before


@pytest.mark.parametrize("asked", [0, 1])
def test_chunks_with_and_without_what_is_the_same(asked: int) -> None:
    following = RNG.random((4, 3)) < 0.5
    known = {"following": following, "proof": np.arange(4), "nearest": repeated(2.5, 4)}
    parts = [answers(4, k, **(known if k == asked else {})) for k in range(2)]
    whole = Answers.join(parts)
    assert (whole.followed == np.concatenate([p.followed for p in parts])).all()
    assert whole.proof.tolist() == [*parts[0].proof, *parts[1].proof]
    assert np.array_equal(whole.nearest, np.concatenate([p.nearest for p in parts]), equal_nan=True)


@pytest.mark.parametrize("how", [{}, {"n": 2}, {"prove": True}, {"rules": ["a <= b"]}, {"method": "gradient"}])
def test_rows_in_chunks_are_answered_as_together(how: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    explainer = grace.Explainer(grace.wrap(net, classes=["no", "yes"]), FRAME)
    together = explainer.explain(FRAME, **how)
    for method, cost in budget.COSTS.items():
        monkeypatch.setitem(budget.COSTS, method, replace(cost, most=7))
    apart = explainer.explain(FRAME, **how)
    pd.testing.assert_frame_equal(apart.contrast, together.contrast)
    pd.testing.assert_frame_equal(apart.changed, together.changed)
    pd.testing.assert_frame_equal(apart.followed, together.followed)
    assert (apart.answers.rows == FRAME.to_numpy()).all()
    assert apart.answers.rows.flags.c_contiguous
    assert (apart.answers.proof == together.answers.proof).all()
    assert not np.shares_memory(apart.answers.rows, FRAME.to_numpy())


def test_tables_of_what_follows_may_be_written_to() -> None:
    explainer = grace.Explainer(grace.wrap(lambda t: t["a"] > 0, classes=[False, True]), FRAME)
    table = explainer.explain(FRAME.head(3)).followed
    table.iloc[0, 0] = True
    assert table.to_numpy().sum() == 1
