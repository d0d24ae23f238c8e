"""What each feature does alone and all the reasons, as parts of the page that come after the answer."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import client_of
from fastapi.testclient import TestClient

import grace
from grace.web.decision_views import points_along
from grace.web.service import Served
from studies import EVIL
from visitors import Tags


def points_of(html: str) -> dict[str, Any]:
    (data,) = [t["data-points"] for t in Tags(html).of("div") if t.get("id") == "points"]
    found: dict[str, Any] = json.loads(data)
    return found


def test_both_parts_come_after_the_answer(client: TestClient) -> None:
    page = Tags(client.get("/?model=cancer95&row=0").text)
    late = {t["id"]: t["hx-get"] for t in page.of("div") if t.get("id") in ("alone", "reasons")}
    assert late == {part: f"/{part}?model=cancer95&row=0" for part in ("alone", "reasons")}
    whole = client.get("/?model=cancer95&row=0&more=yes").text  # without scripts
    for part in ("alone", "reasons"):
        text = client.get(late[part]).text
        assert re.sub(r"\s+", "", text) in re.sub(r"\s+", "", whole)


def test_what_each_feature_does_alone(client: TestClient, cancer: Served) -> None:
    html = client.get("/alone?model=cancer95&row=0").text
    profile = cancer.quick.explainer.profile(cancer.example(0))[0]
    tags = Tags(html)
    assert profile.text() in tags.words
    assert len(tags.of("svg")) == 2  # wide, and for a phone
    sent = points_of(html)
    assert set(sent["features"]) == {f"f{i}" for i in range(9)}
    known = profile["bare_nuclei"]
    curve = sent["features"][f"f{cancer.schema.index('bare_nuclei')}"]
    assert curve["kind"] == known.kind == "line"
    np.testing.assert_allclose(curve["values"], known.values, rtol=1e-6)
    np.testing.assert_allclose(curve["points"], known.points, atol=0.051)
    assert "{n}" in sent["words"]["total"]
    assert "benign" in sent["words"]["total"]
    german = client.get("/alone?model=cancer95&row=0&language=de").text
    assert profile.text(language="de") in Tags(german).words
    assert points_of(german)["words"]["points"] == "{n} Punkte"


def test_reasons_move_the_row_to_their_answers(client: TestClient, cancer: Served) -> None:
    html = client.get("/reasons?model=cancer95&row=0").text
    reasons = cancer.quick.explainer.reasons(cancer.example(0))[0]
    assert reasons.text() in Tags(html).words
    links = [t for t in Tags(html).of("a") if "data-move" in t]
    assert len(links) == len(reasons.shown) > 1
    for link, reason in zip(links, reasons.shown, strict=True):
        assert reason.explanation is not None
        wanted = {f"f{cancer.schema.index(c.name)}": str(c.new) for c in reason.explanation.changes}
        assert json.loads(link["data-move"]) == wanted
        there = client.get(link["href"].partition("#")[0])
        assert "Now the model says <strong>benign" in there.text


def test_limits_hold_and_names_are_escaped(alone: TestClient, evil: Served) -> None:
    html = alone.get("/alone", params={"row": "0", "freeze": EVIL}).text
    assert f"f{evil.schema.index(EVIL)}" not in points_of(html)["features"]
    assert "<b>" not in html
    assert "<b>" not in alone.get("/reasons?row=0").text
    for part in ("alone", "reasons"):
        wrong = alone.get(f"/{part}?row=0&freeze={EVIL}&freeze=age&freeze=home")
        assert wrong.status_code == 200


def test_points_of_categories_and_dates_are_those_of_the_inputs() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"open": rng.random(90) > 0.5, "kind": rng.choice(["a", "b"], 90)})
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 90), unit="D")
    frame["class"] = np.where(frame["open"] ^ (frame["since"] > "2021-03-01"), "x", "y")
    model = grace.training.fit(frame, "class", max_epochs=5)
    explainer = grace.Explainer(model, frame, target="class")
    profile = explainer.profile(frame.head(1))[0]
    sent = {f.name: points_along(f) for f in profile.features}
    assert sent["open"]["values"] == [str(not frame["open"][0])]
    assert sent["kind"]["kind"] == "categories"
    assert sent["since"]["date"]
    assert 18262 <= sent["since"]["values"][0] <= 18300  # days since 1970
    json.dumps(sent)
    served = Served("dates", explainer)
    assert client_of(served).get("/alone?row=0").status_code == 200


def test_a_row_that_does_not_fit_has_no_parts(cancer: Served) -> None:
    rows = pd.DataFrame([{**cancer.example(0), "mitoses": None}])
    client = client_of(Served("unfit", cancer.quick.explainer, rows=rows))
    for part in ("alone", "reasons"):
        answer = client.get(f"/{part}?row=0")
        assert answer.status_code == 200
        assert answer.text.strip() == ""


@pytest.mark.parametrize("part", ["alone", "reasons"])
def test_a_question_that_cannot_be_asked_is_said_once(client: TestClient, part: str) -> None:
    everything = "&".join(f"freeze={name}" for name in cancer_names(client))
    answer = client.get(f"/{part}?model=cancer95&row=0&{everything}")
    assert answer.status_code == 200


def cancer_names(client: TestClient) -> list[str]:
    return [f["name"] for f in client.get("/api/schema").json()["models"][0]["features"]]
