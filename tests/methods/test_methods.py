"""The methods against Algorithms 1 and 2 written out slowly, and against brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

import grace
import reference
from grace import datasets
from grace.explain.diagnosis import limit_change
from problems import Formula
from random_cases import function, random_case
from subsets import first

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("seed", first(2, range(5)))
def test_as_printed_is_the_paper_to_the_letter(seed: int) -> None:
    explainer, rows = random_case(seed, classes=3)
    space = explainer._space(explainer.schema)
    low, high, integer = space.low.numpy(), space.high.numpy(), space.is_integer.numpy()
    f = function(explainer)
    batch = explainer.explain(explainer.schema.decode(rows), method="gradient", as_printed=True, polish=False, steps=40)
    for i, x in enumerate(rows):
        order = reference.rank_gradient_as_printed(f, x)
        slow = reference.grace_as_printed(f, x, order, explainer.su, 0.5, 5, low, high, integer, 40)
        assert batch.answers.contrast[i] == pytest.approx(slow, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_deepfool_as_in_the_reference(seed: int) -> None:
    explainer, rows = random_case(seed, classes=3)
    spread = explainer._space(explainer.schema).spread.numpy()
    f = function(explainer)
    batch = explainer.explain(explainer.schema.decode(rows), method="deepfool")
    assert batch.success.all()
    for i, x in enumerate(rows):
        slow = reference.deepfool(f, x, spread)
        assert np.abs(batch.answers.contrast[i] - slow).sum() < 0.02 * np.abs(slow - x).sum() + 1e-3 * spread.sum()


def test_nearest_is_the_nearest_training_row_of_another_class() -> None:
    explainer, rows = random_case(4)
    spread = explainer._space(explainer.schema).spread.numpy()
    background, f = explainer.background_rows, function(explainer)
    classes = np.array([int(f(torch.as_tensor(r)).argmax()) for r in background])
    batch = explainer.explain(explainer.schema.decode(rows), method="nearest")
    for i, x in enumerate(rows):
        own = int(f(torch.as_tensor(x)).argmax())
        others = background[classes != own]
        best = others[np.argmin((((others - x) / spread) ** 2).sum(axis=1))]
        assert (batch.answers.contrast[i] == best).all()


def test_more_features_allowed_never_lose_a_row() -> None:
    explainer, rows = random_case(6)
    frame = explainer.schema.decode(rows)
    reached = [explainer.explain(frame, max_features=k, gamma=1.0).success for k in (1, 2, 3, 6)]
    for few, more in pairwise(reached):
        assert (few <= more).all()


def test_a_category_is_one_feature() -> None:
    table = datasets.load("german_credit")
    from grace import Explainer, training

    model = training.fit(table, max_epochs=20)
    parts = table.split(0)
    batch = Explainer(model, parts.train).explain(parts.test.head(40))
    assert batch.changed.shape[1] == 20
    kinds = {c.name: c.feature for e in batch for c in e.changes}
    assert any(hasattr(f, "categories") for f in kinds.values())
    assert batch.success.mean() > 0.9


@pytest.mark.parametrize("rows", [3, 60])
@pytest.mark.parametrize("method", ["gradient", "local", "search"])
def test_nothing_may_change(method: str, rows: int) -> None:
    """With every feature frozen there is no answer, and no error, for few rows and for many."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    frame["class"] = np.where(frame.a + frame.b > 0, "up", "down")
    explainer = grace.Explainer(grace.training.fit(frame, "class", max_epochs=5), frame, target="class")
    batch = explainer.explain(frame.drop(columns="class").head(rows), method=method, frozen=list("abc"))
    assert not batch.success.any()
    assert (batch.answers.contrast == batch.answers.rows).all()


def test_what_gamma_forbade_on_the_way_need_not_be_in_the_answer() -> None:
    """a promises most and stops short; b, redundant beside it, does it alone."""
    train = pd.DataFrame({"a": np.tile(np.arange(11) / 10, 4), "b": np.tile(np.arange(11) / 5, 4)})
    score = lambda x: (3 * x[:, 0]).clamp_max(0.5) + x[:, 1] - 1  # noqa: E731
    module = Formula(lambda x: torch.stack([torch.zeros(len(x), dtype=x.dtype), score(x)], dim=1))
    model = grace.wrap(module, classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=0.0, method="gradient")
    row = {"a": 0.0, "b": 0.0}
    none, alone, both = explainer.explain(row), explainer.explain(row, frozen=["a"]), explainer.explain(row, gamma=1.0)
    assert [batch.changed.to_numpy().sum() for batch in (none, alone, both)] == [0, 1, 2]
    assert limit_change(none, alone, 0, {"gamma": 1.0}) == {"limit": "gamma", "value": 1.0}
    su = float(np.ceil(explainer.su[0, 1] * 100) / 100)
    assert limit_change(none, both, 0, {"gamma": 1.0}) == {"limit": "gamma", "value": su}
    # a wider search may need no more changes than were allowed; what is said to suffice is more all the same
    allowed = none.call["max_features"]
    assert limit_change(none, both, 0, {"max_features": 2 * allowed}) == {"limit": "max_features", "value": allowed + 1}
