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
from grace.web.decision_views import pair_points, points_along
from grace.web.service import Served
from problems import CASES
from studies import EVIL
from visitors import Tags

PARTS = ("alone", "reasons", "because")


def points_of(html: str) -> dict[str, Any]:
    (data,) = [t["data-points"] for t in Tags(html).of("div") if t.get("id") == "points"]
    found: dict[str, Any] = json.loads(data)
    return found


def test_both_parts_come_after_the_answer(client: TestClient) -> None:
    page = Tags(client.get("/?model=cancer95&row=0").text)
    late = {t["id"]: t["hx-get"] for t in page.of("div") if t.get("id") in PARTS}
    assert late == {part: f"/{part}?model=cancer95&row=0" for part in PARTS}
    whole = client.get("/?model=cancer95&row=0&more=yes").text  # without scripts
    for part in PARTS:
        text = client.get(late[part]).text
        assert re.sub(r"\s+", "", text) in re.sub(r"\s+", "", whole)


def test_what_each_feature_does_alone(client: TestClient, cancer: Served) -> None:
    html = client.get("/alone?model=cancer95&row=0").text
    profile = cancer.quick.explainer.profile(cancer.example(0), forecasts=True)[0]
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


def test_what_suffices_is_said_where_it_is_proven(client: TestClient, cancer: Served) -> None:
    enough = cancer.quick.explainer.because(cancer.example(0))[0]
    for code in ("en", "de"):
        assert (
            enough.text(language=code) in Tags(client.get(f"/because?model=cancer95&row=0&language={code}").text).words
        )
    sent = client.post("/api/because", json={"row": cancer.example(0), "language": "de"}).json()
    assert sent == json.loads(enough.to_json(language="de"))
    black_box = CASES[0].explainer()
    unproven = client_of(Served("black box", black_box))
    assert unproven.get("/because?row=0").text.strip() == ""
    refused = unproven.post("/api/because", json={"row": dict(CASES[0].rows.iloc[0])})
    assert refused.status_code == 422
    assert "ReLU network" in refused.json()["error"]


def test_pairs_are_those_of_the_scorecard(cancer: Served) -> None:
    explainer = cancer.quick.explainer
    card = explainer.profile(cancer.example(0), forecasts=True)[0].scorecard
    assert card is not None
    assert card.pairs
    for pair in card.pairs:
        sent = pair_points(pair, card, cancer.schema)
        a, b = card.names[pair.a], card.names[pair.b]
        assert sent["inputs"] == [f"f{cancer.schema.index(name)}" for name in (a, b)]
        for i, x in enumerate(sent["values"][0]):
            for j, y in enumerate(sent["values"][1]):
                assert sent["points"][i][j] == pytest.approx(card.together(a, x, b, y), abs=0.06)


def test_limits_hold_and_names_are_escaped(alone: TestClient, evil: Served) -> None:
    html = alone.get("/alone", params={"row": "0", "freeze": EVIL}).text
    assert f"f{evil.schema.index(EVIL)}" not in points_of(html)["features"]
    assert "<b>" not in html
    assert "<b>" not in alone.get("/reasons?row=0").text
    everything = {"row": "0", "freeze": [EVIL, "age", "home"]}
    assert "<svg" in alone.get("/alone", params=everything).text
    assert 'class="button"' not in alone.get("/reasons", params=everything).text


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
    for part in PARTS:
        answer = client.get(f"/{part}?row=0")
        assert answer.status_code == 200
        assert answer.text.strip() == ""
