"""Regions as parts of explanations: computed on first use, for many rows at once, and kept in JSON."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import grace
from explained import explainer_of
from grace.explain import details
from grace.explain.region import Region


def test_a_region_is_computed_on_first_use_for_a_block_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, rows = explainer_of("cancer95")
    calls = []
    own = details.regions_of_answers

    def counted(*args: object) -> object:
        calls.append(args)
        return own(*args)

    monkeypatch.setattr(details, "regions_of_answers", counted)
    batch = explainer.explain(rows.head(2 * details.REGION_BLOCK), n=2)
    assert str(batch[0])
    assert batch[0].in_language("de").text()
    assert pickle.loads(pickle.dumps(batch[0])).region is None
    assert calls == []
    found = [e.region for e in batch]
    assert len(calls) == 2
    e = next(e for e in batch if e.alternatives)
    assert e.alternatives[0].region is not None
    assert e.alternatives[0].contrast in e.alternatives[0].region
    assert all(e.contrast in region for e, region in zip(batch, found, strict=True) if region is not None)
    alone = explainer.explain(rows.iloc[[3]])[0].region
    assert alone == found[3]
    german = batch[3].in_language("de")
    assert german.region == found[3]


def test_a_region_in_json() -> None:
    explainer, rows = explainer_of("german_credit")
    batch = explainer.explain(rows.head(12))
    for e in batch:
        data = json.loads(e.to_json())
        assert grace.Explanation.from_dict(data).region == e.region
        older = {k: v for k, v in data.items() if k != "region"}
        assert grace.Explanation.from_dict(older).region is None
        assert "region" not in e.to_dict(region=False)
        assert e.text(room=True).startswith(e.text())
    assert all("region" not in line for line in batch.to_dicts())
    lines = list(batch.to_dicts(region=True))
    assert [line["region"] for line in lines] == [None if e.region is None else e.region.to_dict() for e in batch]
    assert any(line["region"]["categories"] for line in lines if line["region"])


def test_a_damaged_region_is_refused() -> None:
    whole = Region({"a": (1.0, 2.0)}, {"c": ("u",)}).to_dict()
    assert Region.from_dict(whole) == Region({"a": (1.0, 2.0)}, {"c": ("u",)})
    for part in ({"intervals": {"a": [3.0, 2.0]}}, {"intervals": {"a": ["x", 2.0]}}, {"proven": "perhaps"}):
        with pytest.raises(grace.GraceError):
            Region.from_dict({**whole, **part})


def test_no_region_without_an_answer_or_where_features_follow() -> None:
    explainer, rows = explainer_of("cancer95")
    missed = explainer.explain(rows.head(2), frozen=list(explainer.schema.names))
    assert [e.region for e in missed] == [None, None]
    followed = explainer.explain(rows.head(10), follow=True)
    for e in followed:
        if e.follow_on:
            assert e.region is None
            assert e.text("range") == e.text("exact")


def test_a_black_box_is_not_asked_beyond_its_limit() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 2)).round(2), columns=list("ab"))
    model = grace.wrap(lambda rows: np.where(rows["a"] + rows["b"] > 0, "yes", "no"), classes=["no", "yes"])
    explainer = grace.Explainer(model, frame)
    batch = explainer.explain(frame.head(2))
    spent = batch.calls
    region = batch[0].region
    assert region is not None
    assert batch.calls > spent
    cells = int(batch.answers.changed.sum())
    assert batch.calls - spent <= 2 * details.CALLS_PER_SIDE * cells
    limited = explainer.explain(frame.head(2), max_calls=spent + 100)
    assert limited[0].region is None
    assert limited.calls <= spent + 100
