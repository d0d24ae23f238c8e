"""Cells on the page that are more than numbers: dates, and missing ones that the model takes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from conftest import client_of
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

import grace
from grace.schema.features import Numeric
from grace.web.rows import format_cell, parse_cell, read_row
from grace.web.service import Served
from visitors import Tags, says

DATE = Numeric(name="since", kind="date", dtype="datetime64[ns]", integer=True, observed=(0.0, 20_000.0))
N = 300


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 900, N), unit="D")
    frame = pd.DataFrame({"age": rng.integers(18, 80, N), "since": pd.Timestamp("2020-01-01") + days})
    return frame.assign(ward=rng.choice(["a", "b"], N))


@pytest.fixture(scope="module")
def dated() -> Served:
    frame = table()
    frame["class"] = np.where(frame["since"] > "2021-06-01", "late", "early")
    network = grace.training.fit(frame, "class", max_epochs=60)
    return Served("dated", grace.Explainer(network, frame, target="class"))


@pytest.fixture(scope="module")
def gappy() -> Served:
    frame = table().drop(columns="since").astype({"age": float, "ward": "category"})
    frame.loc[::7, "age"] = np.nan
    frame.loc[1::7, "ward"] = np.nan
    labels = np.where((frame["age"] > 50) | frame["ward"].isna(), "yes", "no")
    model = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype").fit(frame, labels)
    return Served("gappy", grace.Explainer(model, frame))


@given(st.one_of(st.integers(-100_000, 2_900_000), st.floats(0, 40_000)))
def test_dates_come_back_as_they_were_sent(day: float) -> None:
    assert parse_cell(DATE, format_cell(DATE, day)) == day
    assert format_cell(DATE, 18262.0) == "2020-01-01"
    assert format_cell(DATE, 18262.5) == "2020-01-01T12:00"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("soon", "'soon' is not a date"),
        (20200101, "no day that there is"),
        ("nan", "not a finite"),
        (True, "not a num"),
    ],
)
def test_what_is_no_date_is_said(sent: object, words: str) -> None:
    with pytest.raises(grace.GraceError, match=words):
        parse_cell(DATE, sent)


def test_a_date_is_shown_moved_and_limited_as_one(dated: Served) -> None:
    client: TestClient = client_of(dated)
    assert isinstance(dated.example(0)["since"], int)
    page = client.get("/?is.age=40&is.since=2021-01-05&is.ward=a")
    assert page.status_code == 200
    assert re.search(r"Had since been \d+ days later", says(page.text))
    (date,) = [t for t in Tags(page.text).of("input") if t.get("name") == "now.since"]
    assert date["type"] == "date"
    assert date["value"] == date["data-own"] == "2021-01-05"
    assert "is 2021-01-05" in page.text
    assert not [t for t in Tags(page.text).of("input") if t.get("data-for") == date["id"]]  # no slider
    fields = [(k, v) for k, v in Tags(page.text).fields if k != "high.since"]
    limited = client.get("/", params=[*fields, ("high.since", "2021-02-01")])
    assert limited.url.params["high.since"] == "2021-02-01"
    assert "since" not in says(limited.text).split("had")[0].lower() or "no contrast" in says(limited.text)
    moved = client.get("/moved", params=[*page.url.params.multi_items(), ("now.since", "2022-05-01")])
    assert "Now the model says <strong>late" in moved.text
    noon = client.get("/?is.age=40&is.since=2021-01-05T12:30&is.ward=a")
    assert 'type="datetime-local"' in noon.text
    api = client.post("/api/explain", json={"row": {"age": 40, "since": "2021-01-05", "ward": "a"}}).json()
    assert api["text"] == says(page.text)
    # the row as it was downloaded has days
    again = client.post("/api/explain", json={"row": api["row"]}).json()
    assert again["text"] == api["text"]


def test_what_the_model_takes_as_missing_stays_missing(gappy: Served) -> None:
    client: TestClient = client_of(gappy)
    for number in (0, 1, 2):
        page = client.get(f"/?row={number}")
        assert page.status_code == 200, page.text
        assert ("is missing" in page.text) == (number < 2)
    own = client.get("/?is.age=&is.ward=b")
    assert own.status_code == 200
    assert "is missing" in own.text
    assert "filled in" not in own.text
    for row in ({"age": None, "ward": "b"}, {"age": 60, "ward": None}):
        for impute in (False, True):
            said = client.post("/api/explain", json={"row": row, "impute": impute}).json()
            assert said["row"] == row
            assert said["notes"] == []
            proba = gappy.quick.explainer.model.predict_proba(pd.DataFrame([row])).iloc[0]
            told = client.post("/api/predict", json={"row": row, "impute": impute}).json()
            assert {p["class"]: p["probability"] for p in told["probabilities"]} == pytest.approx(dict(proba))
    with pytest.raises(grace.GraceError, match="the column is missing"):
        read_row(gappy.schema, {"age": 3})
    moved = client.get("/moved?is.age=&is.ward=b&now.age=70")
    assert "the model says <strong>yes" in moved.text


def test_numbers_of_single_precision_are_shown_as_they_are_printed() -> None:
    ages = pd.Series(np.arange(N) % 61 / 10 + 0.1).round(1)
    frame = pd.DataFrame({"age": ages.astype("float32"), "size": np.arange(N) / 8})
    model = grace.wrap(lambda rows: np.where(rows["age"] > 2, 0.9, 0.1), classes=["no", "yes"])
    served = Served("single", grace.Explainer(model, frame, gamma=1.0))
    assert [served.example(i)["age"] for i in range(30)] == ages.head(30).tolist()
    assert parse_cell(served.schema["age"], "0.30000001192092896") == parse_cell(served.schema["age"], "0.3") == 0.3
    assert parse_cell(served.schema["age"], 1 / 3) == 1 / 3
