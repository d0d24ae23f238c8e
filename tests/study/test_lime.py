"""LIME by the lime package: known weights, the training quartiles as bins, and safe words and pictures."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import grace
from grace.study.lime import Lime, LimeExplanation, Reason
from studies import EVIL, explainer, people


class Step(nn.Module):
    """Says yes just above the third quartile of the first feature; the others do not matter."""

    def __init__(self, edge: float) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, rows: Tensor) -> Tensor:
        above = torch.where(rows[:, 0] > self.edge, 20.0, -20.0)
        return torch.stack([-above, above], dim=1)


@pytest.fixture(scope="module")
def step() -> tuple[pd.DataFrame, Lime]:
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(400, 3)).round(3), columns=["a_b", "b", "c"])
    model = grace.wrap(Step(float(np.percentile(frame["a_b"], 75))), classes=["no", "yes"])
    return frame, Lime(grace.Explainer(model, frame), features=3)


def test_weight_of_the_only_feature_that_matters(step: tuple[pd.DataFrame, Lime]) -> None:
    frame, lime = step
    row = frame.nlargest(1, "a_b")
    e = lime.explain(row)[0]
    first, *others = e.reasons
    assert (e.label, first.name, first.high) == ("yes", "a_b", None)
    assert first.low == np.percentile(frame["a_b"], 75)
    assert first.weight == pytest.approx(1, abs=0.02)
    assert all(abs(other.weight) < 0.02 for other in others)
    against = lime.explain(row, label="no")[0]
    assert against.reasons[0].weight == pytest.approx(-first.weight)


def test_bins_are_the_quartiles_around_the_value(step: tuple[pd.DataFrame, Lime]) -> None:
    frame, lime = step
    cuts = {name: np.percentile(frame[name], [25, 50, 75]) for name in frame}
    for i, e in enumerate(lime.explain(frame.head(6))):
        for r in e.reasons:
            value = frame[r.name].iloc[i]
            assert r.low is None or (r.low in cuts[r.name] and value > r.low)
            assert r.high is None or (r.high in cuts[r.name] and value <= r.high)
            between = [c for c in cuts[r.name] if (r.low is None or c > r.low) and (r.high is None or c < r.high)]
            assert between == []


def test_a_row_alone_in_a_batch_and_again(step: tuple[pd.DataFrame, Lime]) -> None:
    frame, lime = step
    together = lime.explain(frame.head(4))
    assert lime.explain(frame.iloc[[2]])[0] == together[2] == lime.explain(frame.iloc[[2]])[0]
    other = Lime(explainer(), seed=1).explain(people().drop(columns="verdict").head(1))
    assert other != Lime(explainer(), seed=0).explain(people().drop(columns="verdict").head(1))


def test_numbers_of_single_precision_are_shown_as_they_are_printed(step: tuple[pd.DataFrame, Lime]) -> None:
    frame, lime = step
    single = frame.astype("float32")
    model = grace.wrap(Step(float(np.percentile(frame["a_b"], 75))), classes=["no", "yes"])
    found = Lime(grace.Explainer(model, single), features=3).explain(single.head(5))
    assert [e.row for e in found] == frame.head(5).to_dict("records")
    assert [e.probability for e in found] == [e.probability for e in lime.explain(frame.head(5))]


def said(*reasons: Reason) -> LimeExplanation:
    schema = grace.Schema(features=(), classes=("benign", "malignant"), row="the patient")
    return LimeExplanation(row={}, label="malignant", probability=0.88, reasons=reasons, words=schema)


def test_words_are_those_of_the_paper() -> None:
    nuclei = grace.Numeric(name="bare_nuclei")
    home = grace.Categorical(name="home", categories=("own", "rent"), labels={"rent": "rented"})
    e = said(
        Reason(nuclei, 0.15, low=6.0),
        Reason(nuclei, -0.0421, low=2.0, high=3.5),
        Reason(home, 0.002, category="rent"),
    )
    assert e.text() == (
        "The model classified the patient as malignant. "
        "If bare nuclei is less than or equal to 6, on average, this prediction would be 0.15 less malignant. "
        "If bare nuclei is less than or equal to 2 or greater than 3.5, on average, this prediction would be "
        "0.04 more malignant. "
        "If home is not rented, on average, this prediction would be 0.002 less malignant."
    )
    assert e.text(1).endswith("0.15 less malignant.")
    assert [r.inside() for r in e.reasons] == ["bare nuclei > 6", "2 < bare nuclei ≤ 3.5", "home = rented"]
    assert e.to_dict()["reasons"][1:] == [
        {"feature": "bare_nuclei", "low": 2.0, "high": 3.5, "weight": -0.0421},
        {"feature": "home", "category": "rent", "weight": 0.002},
    ]


def test_picture_has_bars_in_proportion() -> None:
    nuclei = grace.Numeric(name="x")
    svg = ElementTree.fromstring(said(Reason(nuclei, 0.4, low=6.0), Reason(nuclei, -0.1, high=6.0)).picture())
    bars = [e for e in svg.iter() if e.tag.endswith("rect")][1:]  # the first is the paper
    assert [b.get("fill") for b in bars] == ["var(--grace-old)", "var(--grace-new)"]
    wide, narrow = (float(b.get("width", 0)) for b in bars)
    assert wide == pytest.approx(4 * narrow, rel=0.01)
    assert float(bars[1].get("x", 0)) + narrow == pytest.approx(float(bars[0].get("x", 0)), abs=0.2)


def test_markup_in_names_stays_text() -> None:
    e = Lime(explainer()).explain(people().drop(columns="verdict").head(1))[0]
    svg = ElementTree.fromstring(e.picture())  # well-formed, or this raises
    assert {e.tag.split("}")[1] for e in svg.iter()} == {"svg", "title", "desc", "style", "text", "path", "rect"}
    assert EVIL.replace("_", " ") in "".join(svg.itertext())
    odd = said(Reason(grace.Numeric(name="a\x00b\ud800"), 1.0, low=0.0))
    ElementTree.fromstring(odd.picture())


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = grace.Explainer(explainer().model, schema=explainer().schema)
    with pytest.raises(grace.GraceError, match="training rows"):
        Lime(bare)
    with pytest.raises(grace.GraceError, match="features=0"):
        Lime(explainer(), features=0)
    with pytest.raises(grace.GraceError, match="maybe"):
        Lime(explainer()).explain(people().drop(columns="verdict").head(1), label="maybe")
    monkeypatch.setitem(sys.modules, "lime.lime_tabular", None)
    with pytest.raises(grace.GraceError, match=r"pip install lime"):
        Lime(explainer())
