"""What is worked out directly, without recording or in numpy, is what the plain way finds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import grace
from grace.methods import line_search, polish, walk, walk_state
from grace.problem import decimals
from grace.problem.goal import Against, Between, Flip, Goal, MarginFunction


def table(n: int = 150) -> pd.DataFrame:
    """Numbers, whole numbers and a category, of which the class depends on all."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 5)).round(2), columns=list("abcde"))
    frame["i"] = rng.integers(0, 20, n)
    frame["k"] = rng.choice(["x", "y", "z"], n)
    score = frame.a * frame.b + frame.c - frame.d + frame.i / 10 + (frame.k == "x")
    return frame.assign(label=np.select([score > 1.5, score > 0.3], ["high", "middle"], "low"))


def explainer_of(frame: pd.DataFrame) -> grace.Explainer:
    model = grace.training.fit(frame, "label", hidden=(12, 8), max_epochs=30)
    return grace.Explainer(model, frame, target="label")


@pytest.fixture(scope="module", params=["three classes", "two classes", "numbers alone"])
def trained(request: pytest.FixtureRequest) -> tuple[grace.Explainer, pd.DataFrame]:
    frame = table()
    if request.param != "three classes":
        frame["label"] = np.where(frame.label == "high", "high", "low")
    if request.param == "numbers alone":
        frame = frame.drop(columns="k")
    return explainer_of(frame), frame.drop(columns="label").head(40)


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_books_kept_in_torch_say_the_same(
    trained: tuple[grace.Explainer, pd.DataFrame], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are for tensors on a GPU."""
    explainer, rows = trained
    usual = explainer.explain(rows, method=method).answers
    for module in (line_search, decimals, polish, walk_state, walk):
        monkeypatch.setattr(module, "to_native", lambda values: values)
    other = explainer.explain(rows, method=method).answers
    assert usual.success.any()
    assert (usual.contrast == other.contrast).all()


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_nothing_of_an_answer_is_left_that_could_not_be_recorded(
    trained: tuple[grace.Explainer, pd.DataFrame], method: str
) -> None:
    """A model may be asked in ways that record, and be trained on, after it was asked in one that does not."""
    explainer, rows = trained
    first = explainer.explain(rows, method=method)
    for other in ({"confidence": 0.9}, {"as_printed": True, "method": "gradient"}, {"prove": True, "max_features": 1}):
        explainer.explain(rows.head(3), **{"method": method, **other})
    module = explainer.model.module
    weights = [p.requires_grad_(True) for p in module.parameters()]
    module(explainer.tensor(explainer.schema.encode(rows))).square().sum().backward()
    assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in weights)
    module.zero_grad()
    module.requires_grad_(False)
    assert (explainer.explain(rows, method=method).answers.contrast == first.answers.contrast).all()


def goals(scores: Tensor) -> list[Goal]:
    original = scores.argmax(dim=1)
    if scores.shape[1] == 1:
        return [Between(scores[:, 0] - 1, scores[:, 0] + 2, 0.5)]
    codes = (original + 1) % scores.shape[1]
    return [kind(of, sure) for kind, of in ((Flip, original), (Against, codes)) for sure in (0.0, 0.8)]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_one_alternative_is_that_of_the_best_margin(classes: int) -> None:
    scores = torch.randn(30, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    many = torch.randn(30, 7, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for goal in goals(scores):
        for some in (scores, many):
            assert (goal.margin(some) == goal.margins(some).amax(dim=-1)).all()
        margins, only = goal.margins(scores), goal.single_target(classes)
        alternative = margins.argmax(dim=1) if only is None else only
        assert (only is None) == (isinstance(goal, Flip) and classes > 2)
        own, best = MarginFunction(goal, alternative[:, None]).with_best(scores)
        assert (own == margins.gather(1, alternative[:, None])).all()
        assert (best == margins.amax(dim=1, keepdim=True)).all()
        part = torch.tensor([3, 3, 5])
        assert (goal.select(part).margin(scores[part]) == goal.margin(scores)[part]).all()


KINDS = {
    "float": lambda v: v,
    "single": lambda v: v.astype("float32"),
    "whole": lambda v: v.round().astype("int64"),
    "tiny": lambda v: v.round().astype("int8"),
    "nullable": lambda v: v.round().astype("Int64"),
    "hole": lambda v: v.round().astype("Int64").where(v.index != 0),
    "objects": lambda v: v.astype(object),
    "truth": lambda v: v > 0,
    "text": lambda v: v.astype(str),
}


@pytest.mark.parametrize("target", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_read_alone_as_among_others(kind: str, target: bool) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 3)).round(3) * 10, columns=list("abc"))
    schema = grace.Schema.infer(frame.assign(y="t"), "y")
    given = frame.assign(b=KINDS[kind](frame.b))
    given = given.assign(y="t")[["y", "c", "a", "b"]] if target else given
    together = schema.encode(given, missing=True)
    alone = np.concatenate([schema.encode(given.iloc[[i]], missing=True) for i in range(len(given))])
    np.testing.assert_array_equal(alone, together)
    assert alone.flags.writeable
