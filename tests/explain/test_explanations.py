"""Batches: indexing one makes no model calls."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import grace
from grace.models.base import Model
from problems import two_class, wrapped

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(200, 3)).round(2), columns=["a", "b", "c"])


network = wrapped(two_class, ["no", "yes"])


def black_box() -> Model:
    return grace.wrap(lambda rows: 1 / (1 + np.exp(-(rows["a"] + 0.5 * rows["b"] - 0.3 * rows["c"]))), classes=[0, 1])


@pytest.mark.parametrize("limits", [{}, {"frozen": ["a", "b"], "max_features": 1}], ids=["hits", "misses"])
@pytest.mark.parametrize("make", [network, black_box])
def test_indexing_makes_no_model_calls(
    make: Callable[[], Model], limits: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer = grace.Explainer(make(), FRAME)
    batch = explainer.explain(FRAME.head(30), n=2, **limits)
    assert batch.success.all() != bool(limits)
    calls = []
    for name in ("scores", "slopes"):
        known = getattr(explainer.model, name)
        monkeypatch.setattr(explainer.model, name, lambda *a, f=known, **k: calls.append(f) or f(*a, **k))
    several = [batch[i] for i in range(len(batch))]
    assert [e.success for e in several] == batch.success.tolist()
    assert [e.original_class for e in several] == batch.original_class.tolist()
    assert any(e.alternatives for e in several) or limits
    assert not calls
    assert all(e.text() and e.notes is not None for e in several)
    assert calls
    assert several == list(batch)


def test_computed_fields_need_no_further_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = grace.Explainer(network(), FRAME)
    several = [e.computed() for e in explainer.explain(FRAME.head(10), n=2, max_features=1, frozen=["a"])]
    monkeypatch.setattr(explainer.model, "scores", lambda *_, **__: pytest.fail("the model is called"))
    assert all(a.to_dict() for e in several for a in (e, *e.alternatives))


def test_an_explanation_that_was_not_read_can_be_pickled() -> None:
    batch = grace.Explainer(network(), FRAME).explain(FRAME.head(2))
    assert pickle.loads(pickle.dumps(batch[0])) == batch[0]
    with pytest.raises(AttributeError, match="'Explanation' object has no attribute 'colour'"):
        _ = batch[0].colour
