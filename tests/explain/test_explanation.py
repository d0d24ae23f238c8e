"""Explanations and batches: what they hold, and their way through JSON, frames and pages."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import grace
from problems import CASES, Formula, two_class

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def batch() -> grace.Explanations:
    return CASES[0].explainer().explain(CASES[0].rows)


@pytest.fixture(scope="module")
def miss() -> grace.Explanation:
    case = next(c for c in CASES if c.name == "plateau")
    return case.explainer().explain(case.rows)[0]


def test_definitions(batch: grace.Explanations) -> None:
    one, two = batch[0], batch[2]
    assert one.predicate == "a = 0.01"
    assert one.influence() == one.influence(3) == 1
    assert len(two.changes) == 2
    assert (two.influence(), two.influence(0), two.influence(2)) == (0.5, 1, 0.25)
    assert sum(one.before) == pytest.approx(1)
    assert one.probability("yes") < 0.5 < one.probability("yes", after=True)
    with pytest.raises(grace.GraceError, match="maybe"):
        one.probability("maybe")


def test_a_miss(miss: grace.Explanation) -> None:
    assert not miss.success
    assert (miss.changes, miss.contrast_class, miss.influence(), miss.distance) == ((), None, 0, 0)
    assert miss.contrast == miss.row
    assert "at most 5 changes" in miss.reason
    assert miss.text() == f"The model classified the row as no; {miss.reason}."
    assert "no contrast" in repr(miss)
    assert grace.Explanation.from_json(miss.to_json()) == miss


def test_json(batch: grace.Explanations) -> None:
    everything = json.loads(batch.to_json())
    assert [grace.Explanation.from_dict(d) for d in everything] == list(batch)
    assert everything[0]["text"] == batch[0].text()
    assert everything[0]["changes"][0]["difference"] == 1.01


def test_sequence(batch: grace.Explanations) -> None:
    assert len(batch) == 4
    assert batch[-1] == batch[3]
    with pytest.raises(IndexError):
        batch[4]
    assert "4 of 4 rows explained" in repr(batch)
    assert "'yes' rather than 'no'" in repr(batch[0])


def test_frames_keep_the_index(batch: grace.Explanations) -> None:
    rows = CASES[0].rows.set_axis(["w", "x", "y", "z"])
    again = CASES[0].explainer().explain(rows)
    for frame in (again.contrast, again.changed, again.to_frame()):
        assert list(frame.index) == ["w", "x", "y", "z"]
    assert list(again.to_frame()["features"]) == [1, 1, 2, 2]
    assert again.to_frame()["text"].tolist() == [e.text() for e in batch]


def test_a_row_outside_the_domain_is_explained_with_a_note() -> None:
    row = pd.DataFrame([[-1.0, 0, 99.5]], columns=list("abc"))
    e = CASES[0].explainer().explain(row)[0]
    assert e.notes == ("the value given for c, 99.5, lies outside the allowed range \N{MINUS SIGN}4 to 4",)
    assert e.success
    for change in e.changes:
        assert -4 <= change.new <= 4


def test_page_escapes_names_and_values() -> None:
    evil = "<script>alert(1)</script>"
    train = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=[evil, "b", "c"])
    model = grace.wrap(Formula(two_class), classes=["no", evil], outputs="logits")
    for e in grace.Explainer(model, train).explain(train.head(3)):
        page = e.to_html()
        assert evil not in page
        assert "&lt;script&gt;" in page
        assert "http" not in page


def test_page_of_a_miss(miss: grace.Explanation) -> None:
    assert "no contrast was found" in miss.to_html()
