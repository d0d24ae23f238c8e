"""Models that predict a number, on the page and in the API."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pandas as pd
import pytest
from conftest import client_of
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

import grace
from grace import GraceError
from grace.problem.target_range import target_range_of
from grace.web.aims import DEFAULT_AIM, KINDS, Aim, aim_of, read_aim
from grace.web.service import Served
from grace.web.state import read_state
from served_kinds import clusters_model, homes_model, price
from visitors import Tags, says


@pytest.fixture(scope="module")
def homes() -> TestClient:
    return client_of(homes_model())


def asked(homes: TestClient, **more: str) -> Any:
    found = homes.get("/download/why.json", params={"row": "0", **more})
    assert found.status_code == 200, found.text
    return found.json()


def test_the_page_asks_for_ten_per_cent_more(homes: TestClient) -> None:
    page = homes.get("/")
    predicted = float(price(homes_model().examples.head(1))[0])
    said = f"at least {1.1 * predicted:,.0f} rather than {predicted:,.0f}"
    assert said in says(page.text)
    assert f"<h1>Why {predicted:,.0f} rather than at least {1.1 * predicted:,.0f}?</h1>" in page.text
    assert f"The model predicts <strong>{predicted:,.0f}</strong>" in page.text
    fields = dict(Tags(page.text).fields)
    assert (fields["aim"], fields["aim.number"], fields["aim.upper"]) == ("by_more_share", "10", "")
    assert "of" not in fields
    assert "against" not in fields


@pytest.mark.parametrize(
    ("form", "address"),
    [
        (("above", "400000", ""), "above 400000"),
        (("below", "1000.5", "7"), "below 1000.5"),
        (("within", "5", "10"), "within 5 10"),
        (("by_more", "3", ""), "by +3"),
        (("by_less", "3", ""), "by -3"),
        (("by_less_share", "7", ""), "by -7 %"),
    ],
)
def test_what_was_asked_for_is_in_the_address(homes: TestClient, form: tuple[str, ...], address: str) -> None:
    given = dict(zip(("aim", "aim.number", "aim.upper"), form, strict=True))
    fields = [(k, v) for k, v in Tags(homes.get("/?row=3").text).fields if not k.startswith("aim")]
    there = homes.get("/", params=[*fields, *given.items()], follow_redirects=False)
    assert dict(parse_qsl(there.headers["location"][2:])) == {"row": "3", "against": address}
    again = homes.get(there.headers["location"], follow_redirects=False)
    assert again.status_code == 200
    shown = dict(Tags(again.text).fields)
    assert (shown["aim"], shown["aim.number"]) == form[:2]
    assert shown["aim.upper"] == (form[2] if form[0] == "within" else "")


def test_answers_reach_what_was_asked_for(homes: TestClient) -> None:
    above = asked(homes, against="above 340000")
    assert above["contrast_class"] >= 340_000
    assert above["wanted"]["low"] == 340_000
    less = asked(homes, against="by -20 %")
    assert less["contrast_class"] <= 0.8 * less["original_class"]
    page = homes.get("/?row=0&against=above+340000&more=yes").text
    assert "the number is as asked for" in page
    assert "It could also have been otherwise" in page
    impossible = homes.get("/?row=0&against=below+9&k=1&more=yes").text
    assert "no contrast" in says(impossible)
    assert "Proven" not in impossible


def test_moved_values_show_the_number(homes: TestClient) -> None:
    moved = homes.get("/moved", params={"row": "0", "now.area": "190", "against": "above 300000"})
    area = float(price(homes_model().examples.head(1).assign(area=190))[0])
    assert f"<strong>{area:,.0f}</strong>" in moved.text
    assert ("as asked for" in moved.text) == (area >= 300_000)
    short = homes.get("/moved", params={"row": "0", "now.area": "41", "against": "above 900000"})
    assert "not yet at least 900,000" in short.text
    # the answer itself, taken over, is what was asked for
    answer = asked(homes)
    cells = {f"now.{c['feature']}": str(c["new"]) for c in answer["changes"]}
    assert "as asked for" in homes.get("/moved", params={"row": "0", **cells}).text


def test_wrong_aims_are_named(homes: TestClient) -> None:
    for query, words in (
        ({"against": "much"}, "say what the number should have been"),
        ({"against": "above inf"}, "&#39;above inf&#39;"),
        ({"aim": "above", "aim.number": "x"}, "write it like 1.5"),
        ({"aim": "sideways", "aim.number": "1"}, "is unknown"),
        ({"aim": "within", "aim.number": "9", "aim.upper": "3"}, "lies above the second"),
        ({"aim": "by_more", "aim.number": "0"}, "a difference of 0 is none"),
    ):
        page = homes.get("/", params={"row": "0", **query})
        assert page.status_code == 422, query
        assert words in page.text, query
        assert says(page.text).startswith("Had")  # by the usual aim


def test_a_share_of_nothing_is_said() -> None:
    frame = pd.DataFrame({"x": np.arange(60.0) - 3})
    model = grace.wrap(lambda rows: rows["x"].to_numpy(), outputs="numbers", task="regression")
    client = client_of(Served("line", grace.Explainer(model, frame)))
    page = client.get("/?row=3")
    assert page.status_code == 200
    assert "a share of a prediction of 0 is 0" in page.text
    assert "The model predicts <strong>0</strong>" in page.text
    assert "at least 2" in says(client.get("/?row=3&against=by+2").text)


def test_the_api_predicts_and_explains_numbers(homes: TestClient) -> None:
    row = homes_model().example(0)
    predicted = homes.post("/api/predict", json={"row": row}).json()
    assert predicted == {"prediction": float(price(pd.DataFrame([row]))[0])}
    got = homes.post("/api/explain", json={"row": row, "against": "above 340000", "n": 2}).json()
    e = homes_model().quick.explainer.explain(row, against=grace.above(340_000), n=2)[0]
    assert got["text"] == e.text()
    assert len(got["alternatives"]) == len(e.alternatives)
    for against in (None, "house", 7):
        wrong = homes.post("/api/explain", json={"row": row, "against": against})
        assert wrong.status_code == 422
        assert "say what the number should have been" in wrong.json()["error"]
    (model,) = homes.get("/api/schema").json()["models"]
    assert (model["task"], model["classes"]) == ("regression", [])
    assert '"against": "by +10 %"' in homes.get("/api").text.replace("&#34;", '"')


@given(st.sampled_from(KINDS), st.floats(1e-6, 1e12), st.floats(0, 1e12))
def test_aims_are_read_back(kind: str, number: float, more: float) -> None:
    aim = aim_of(kind, repr(number), repr(number + more))
    assert read_aim(aim.text) == aim
    assert aim.kind == kind
    assert aim.number == pytest.approx(number)
    target_range_of(aim.text)
    state, errors = read_state(
        [("aim", kind), ("aim.number", repr(number)), ("aim.upper", repr(number + more))], MODELS
    )
    assert errors == []
    assert read_state(parse_qsl(state.query(MODELS["homes"].schema, False)), MODELS)[0] == state


MODELS = {"homes": homes_model()}


def test_the_usual_aim_is_one() -> None:
    assert read_aim(DEFAULT_AIM) == Aim("by_more_share", 10)
    assert read_aim(DEFAULT_AIM).text == DEFAULT_AIM
    with pytest.raises(GraceError, match="say what"):
        read_aim("")


def test_clusters_are_called_such() -> None:
    client = client_of(clusters_model())
    page = client.get("/?row=0").text
    assert "Why cluster " in page
    assert "The model says <strong>cluster " in page
    assert ">of cluster 1<" in page
    other = client.get(f"/?{urlencode({'row': '0', 'language': 'de', 'against': '2'})}").text
    assert "Cluster 2" in says(other)
