"""The page over HTTP: escaping, the state in the address, rows of one's own."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, urlencode

import httpx2 as httpx
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import grace
from grace import GraceError
from grace.schema.features import Categorical, Numeric
from grace.web.rows import format_cell, parse_cell, parse_table, read_row
from grace.web.service import Served
from grace.web.state import read_state
from studies import EVIL
from visitors import Tags, says

CLASS = "<i>yes</i>"


# -- pages ------------------------------------------------------------------------------------


def test_the_patient_of_the_case_study_comes_first(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "Had bare nuclei been 8 points lower" in says(page.text)
    assert "the patient" in page.text
    tags = Tags(page.text)
    assert len(tags.of("svg")) >= 4
    assert [t["name"] for t in tags.of("input") if t.get("name", "").startswith("now.")] != []
    assert tags.of("main")[0]["id"] == "answer"
    assert "Proven" not in page.text  # comes afterwards, or on request
    full = client.get("/?model=cancer95&row=0&more=yes").text
    assert "Within these ranges, no single change could have done it." in says(full)
    assert "Proven:" in full
    assert "It could also have been otherwise" in full
    late = client.get("/more?model=cancer95&row=0").text
    assert 'hx-swap-oob="true"' in late
    assert says(late) == says(full)


def test_changed_features_stand_before_the_others(client: TestClient) -> None:
    page = client.get("/").text
    head, rest = page.split('id="rest"')
    assert head.count('class="card"') == 2
    assert rest.count('class="card"') == 7
    assert 'name="now.bare_nuclei"' in head


def test_no_asset_comes_from_elsewhere_and_headers_forbid_it(client: TestClient) -> None:
    for path in ("/", "/api", "/nothing", "/look.css", "/static/page.css", "/api/schema", "/answer", "/moved"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'"), path
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == ("no-cache" if path.startswith("/static/") else "no-store")
        if answer.headers["content-type"].startswith("text/html"):
            tags = Tags(answer.text)
            links = [t.get(k, "") for _, t in tags.tags for k in ("href", "src", "action", "hx-get")]
            assert all(x == "" or x.startswith(("/", "#", "data:,")) for x in links), path
            assert not any("style" in t or any(k.startswith("on") for k in t) for _, t in tags.tags)
            assert not any("src" not in t for t in tags.of("script"))
    assert client.get("/docs").status_code == 404


def test_every_input_has_a_label(client: TestClient) -> None:
    for path in ("/", "/?" + urlencode({"model": "evil<b>"})):
        html = client.get(path).text
        tags = Tags(html)
        labelled = {t["for"] for t in tags.of("label") if "for" in t}
        for tag in ("input", "select", "textarea"):
            for t in tags.of(tag):
                hidden = t.get("type") == "hidden"
                assert hidden or t.get("id") in labelled or "aria-label" in t or "in-label" in t, t
        ids = [t["id"] for _, t in tags.tags if "id" in t]
        assert len(ids) == len(set(ids))


def test_markup_in_names_values_and_classes_stays_text(alone: TestClient, client: TestClient, evil: Served) -> None:
    row = evil.example(0)
    own = urlencode({f"is.{k}": v for k, v in row.items()})
    pages = ["/", "/?more=yes", f"/?{own}", f"/?{urlencode({'freeze': EVIL, 'against': CLASS})}", "/api"]
    pages += [f"/?{urlencode({f'now.{EVIL}': '<script>1</script>', 'k': '<b>', 'against': '<u>'})}"]
    pages += [f"/moved?{urlencode({f'now.{EVIL}': '3'})}", "/more", f"/answer?{urlencode({'language': '<s>'})}"]
    for path in pages:
        html = alone.get(path).text
        tags = Tags(html)
        assert {t for t, _ in tags.tags}.isdisjoint({"b", "i", "s", "u"}), path
        assert all(t.get("src", "").startswith("/static/") for t in tags.of("script")), path
        assert not tags.words or EVIL in "".join(tags.words) or path in ("/api",) or "moved" in path, path
    assert "<b>" not in "".join(re.findall(r"<nav.*?</nav>", client.get("/").text, re.DOTALL))
    posted = alone.post("/row", files={"text": (None, "<script>alert(1)</script>,x\n1,2")})
    assert posted.status_code == 422
    assert "<script>alert(1)" not in posted.text


# -- the state in the address -----------------------------------------------------------------


def test_a_form_sent_as_it_is_changes_nothing(client: TestClient) -> None:
    """Without scripts the form sends every field; the server finds the short address of it, and stays there."""
    query = "model=cancer95&row=6&now.mitoses=4&freeze=bare_nuclei&low.clump_thickness=2&k=3&style=relative"
    page = client.get(f"/?{query}")
    assert page.status_code == 200
    fields = Tags(page.text).fields
    assert ("from", "6") in fields
    again = client.get("/", params=fields, follow_redirects=False)
    assert again.status_code == 303
    assert parse_qsl(again.headers["location"][2:]) == parse_qsl(query)
    assert client.get(again.headers["location"], follow_redirects=False).text == page.text


def test_the_form_of_a_table_with_few_columns_can_be_sent(alone: TestClient, evil: Served) -> None:
    assert len(evil.schema) < evil.settings.max_features
    fields = [(k, v) for k, v in Tags(alone.get("/").text).fields if k not in ("model", "language")]
    assert ("k", str(len(evil.schema))) in fields
    again = alone.get("/", params=[*fields, ("language", "de")], follow_redirects=False)
    assert again.status_code == 303
    assert again.headers["location"] == "/?row=0&language=de"


def test_buttons_of_the_form(client: TestClient, cancer: Served) -> None:
    fields = Tags(client.get("/?model=cancer95&row=6&now.mitoses=4&style=relative").text).fields

    def where(**more: str) -> dict[str, str]:
        pairs = [(k, v) for k, v in fields if k not in more]
        answer = client.get("/", params=[*pairs, *more.items()], follow_redirects=False)
        assert answer.status_code == 303, answer.text
        return dict(parse_qsl(answer.headers["location"][2:]))

    kept = {"model": "cancer95", "style": "relative"}
    assert where(row="9") == {**kept, "row": "9"}
    assert where(step="next") == {**kept, "row": "7"}
    assert where(step="previous") == {**kept, "row": "5"}
    number = int(where(step="next", of="malignant")["row"])
    assert number > 6
    assert cancer.classes[cancer.example_classes[number]] == "malignant"
    assert (cancer.example_classes[7:number] == cancer.classes.index("benign")).all()
    moved = where(explain="moved")
    assert moved["is.mitoses"] == "4"
    assert "row" not in moved
    assert not any(k.startswith("now.") for k in moved)


def test_wrong_parts_of_an_address_are_named_and_the_rest_is_used(client: TestClient) -> None:
    bad = {"k": "0", "n": "x", "style": "vague", "language": "xx", "against": "neither", "freeze": "nose"}
    bad |= {"now.mitoses": "many", "low.mitoses": "9", "high.mitoses": "2", "row": "99999", "is": "?"}
    page = client.get("/", params={"model": "cancer95", **bad})
    assert page.status_code == 422
    for words in ("k='0'", "n='x'", "vague", "xx", "neither", "nose", "many", "begins above", "99999"):
        assert words in Tags(page.text).words.__repr__().replace("\\'", "'"), words
    assert says(page.text)
    assert client.get("/?model=nothing").status_code == 422
    assert "Traceback" not in page.text


@st.composite
def queries(draw: st.DrawFn) -> list[tuple[str, str]]:
    names = [EVIL, "age", "home", "unknown"]
    keys = ["row", "k", "n", "style", "template", "language", "against", "freeze", "up", "down", "of", "more", "step"]
    keys += [f"{p}.{n}" for p in ("is", "now", "low", "high", "never") for n in names] + [
        "explain",
        "from",
        "model",
        "fill",
    ]
    words = ["de", "relative", "because", "next", "moved", "rented", "<b>owned</b>", CLASS, "no & never", "yes"]
    values = st.sampled_from([*names, *words, "1", "3", "200", "2.5", "1e3", "-4", "", "nan"])
    return draw(st.lists(st.tuples(st.sampled_from(keys), values | st.text(max_size=6)), max_size=12))


@given(queries())
@settings(max_examples=300, deadline=None)
def test_the_short_address_says_the_same(evil: Served, pairs: list[tuple[str, str]]) -> None:
    for several in (False, True):
        state, _ = read_state(pairs, {evil.name: evil})
        again, errors = read_state(
            parse_qsl(state.query(evil.schema, several), keep_blank_values=True), {evil.name: evil}
        )
        assert errors == []
        assert again == state
        assert again.pairs(evil.schema, several) == state.pairs(evil.schema, several)


def test_what_is_asked_reaches_the_answer(client: TestClient) -> None:
    base = {"model": "cancer95", "row": "0"}
    frozen = client.get("/answer", params={**base, "freeze": "bare_nuclei"}).text
    assert "bare nuclei" not in says(frozen)
    ranged = client.get("/download/why.json", params={**base, "low.bare_nuclei": "2", "high.bare_nuclei": "5"}).json()
    assert all(2 <= c["new"] <= 5 for c in ranged["changes"] if c["feature"] == "bare_nuclei")
    up = client.get("/download/why.json", params={**base, "up": "bare_nuclei"}).json()
    assert "bare_nuclei" not in [c["feature"] for c in up["changes"]]
    german = client.get("/answer", params={**base, "language": "de"})
    assert says(german.text).startswith("Wäre")
    assert 'id="says" lang="de"' in german.text
    assert german.headers["hx-push-url"] == "/?model=cancer95&row=0&language=de"
    because = says(client.get("/answer", params={**base, "template": "because", "style": "relative"}).text)
    assert "because bare nuclei were not lower" in because
    same = says(client.get("/answer", params={**base, "against": "malignant"}).text)
    assert "already" in same


def test_a_question_that_cannot_be_asked_is_said(client: TestClient) -> None:
    between = {"model": "cancer95", "row": "0", "low.mitoses": "1.2", "high.mitoses": "1.4"}
    for path in ("/", "/answer", "/more"):
        page = client.get(path, params=between)
        assert page.status_code == 200
        assert "no whole number lies between" in page.text


def test_a_miss_says_what_would_help_and_links_to_it(client: TestClient) -> None:
    page = client.get("/?model=cancer95&row=0&k=1&freeze=bare_nuclei")
    assert page.status_code == 200
    words = "".join(Tags(page.text).words)
    assert "no contrast" in words
    ways = [t["href"] for t in Tags(page.text).of("a") if t.get("class") == "button"]
    assert ways
    assert all("Had" in says(client.get(way).text) for way in ways)
    assert "Proven:" in client.get("/more?model=cancer95&row=0&k=1&freeze=bare_nuclei").text


def test_moving_shows_what_the_model_says(client: TestClient, cancer: Served) -> None:
    state = {"model": "cancer95", "row": "0"}
    still = client.get("/moved", params=state)
    assert "The model says <strong>malignant" in still.text
    moved = client.get("/moved", params={**state, "now.bare_nuclei": "1", "now.normal_nucleoli": "2"})
    assert "Now the model says <strong>benign" in moved.text
    assert moved.headers["hx-replace-url"] == "/?model=cancer95&row=0&now.bare_nuclei=1&now.normal_nucleoli=2"
    one = client.get("/moved", params={**state, "now.bare_nuclei": "1"})
    assert "Still <strong>malignant" in one.text
    bad = client.get("/moved", params={**state, "now.bare_nuclei": "x"})
    assert "is not a number" in bad.text
    assert "hx-replace-url" not in bad.headers


# -- a row of one's own -----------------------------------------------------------------------


def send(client: TestClient, text: str = "", file: bytes | None = None, **more: str) -> httpx.Response:
    parts: dict[str, tuple[str | None, str | bytes]] = {"model": (None, "cancer95"), "text": (None, text)}
    parts |= {k: (None, v) for k, v in more.items()}
    if file is not None:
        parts["file"] = ("row.csv", file)
    return client.post("/row", files=parts)  # type: ignore[arg-type, return-value]


def test_pasted_and_uploaded_rows(client: TestClient, cancer: Served) -> None:
    row = {**cancer.example(4), "mitoses": 3}
    frame = pd.DataFrame([cancer.example(1), row])
    ways = [
        send(client, json.dumps(row)),
        send(client, json.dumps({"row": row, "text": "as downloaded"})),
        send(client, frame.to_csv(index=False), number="1"),
        send(client, frame.to_csv(index=False, sep=";"), number="1"),
        send(client, "", b"\xef\xbb\xbf" + frame[::-1].to_csv(index=False).encode()),
        send(client, frame.assign(mitoses=["", "3"], **{"class": "?"}).to_csv(index=False), number="1"),
    ]
    for answer in ways:
        assert answer.status_code == 200, answer.text
        assert {k: v for k, v in answer.url.params.items() if k != "model"} == {
            f"is.{k}": str(v) for k, v in row.items()
        }
    download = client.get(f"/download/why.json?{ways[0].url.query.decode()}").json()
    assert download["row"] == row


def test_cells_that_were_filled_in_are_said(client: TestClient, cancer: Served) -> None:
    row = {**cancer.example(4), "bare_nuclei": None}
    usual = int(cancer.schema["bare_nuclei"].typical)  # type: ignore[arg-type]
    page = send(client, json.dumps(row), impute="yes")
    assert page.status_code == 200
    assert page.url.params["fill"] == "bare_nuclei"
    assert "is.bare_nuclei" not in page.url.params
    note = f"no value was given for bare nuclei, and {usual} was filled in"
    head = page.text.split('<div class="grace-panels">')[0]
    assert f"{note}." in head.split('id="says"')[1]  # beside the sentence
    assert f"is {usual} point, filled in" in page.text
    kept = client.get(f"/download/why.json?{page.url.query.decode()}").json()
    assert kept["notes"] == [note]
    assert kept["row"]["bare_nuclei"] == usual
    again = client.get("/", params=Tags(page.text).fields, follow_redirects=False)  # as a form, without scripts
    assert parse_qsl(again.headers["location"][2:]) == list(page.url.params.multi_items())
    german = client.get(f"/?{page.url.query.decode()}&language=de")
    assert "fehlte; 1 wurde eingesetzt" in german.text
    # a value that is moved and explained is one's own again
    moved = client.get("/", params=[*page.url.params.multi_items(), ("now.bare_nuclei", "7"), ("explain", "moved")])
    assert moved.url.params["is.bare_nuclei"] == "7"
    assert "filled in" not in moved.text.split('id="question"')[1]
    every = send(client, "{}", impute="yes")
    assert every.status_code == 200
    assert every.text.count(" was filled in") == len(cancer.schema)
    assert send(client, json.dumps(row)).status_code == 422


def test_a_cell_that_was_given_is_not_the_same_question_as_one_filled_in(client: TestClient, cancer: Served) -> None:
    usual = int(cancer.schema["bare_nuclei"].typical)  # type: ignore[arg-type]
    given = {**cancer.example(4), "bare_nuclei": usual}
    for sent, notes in ((None, 1), (usual, 0), (None, 1)):
        body = {"row": {**given, "bare_nuclei": sent}, "impute": True}
        said = client.post("/api/explain", json=body).json()
        assert len(said["notes"]) == len(said["remarks"]) == notes
        assert client.post("/api/predict", json=body).json()["filled"] == ({"bare_nuclei": usual} if notes else {})
    assert "filled" not in client.post("/api/predict", json={"row": given}).json()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no row"),
        ("1,2,3", "one line only"),
        ("{", "not JSON"),
        ("[1]", "must be an object"),
        ("mitoses\n1", "'clump_thickness': the column is missing"),
        ("mitoses,mitoses\n1,2", "'mitoses' occurs twice"),
        ("a,b\n1", "row 0 has 1 cells"),
        ('a,b\n"1,2', "not CSV"),
        ("nose\n1", "'nose' is unknown"),
        ("ROW;mitoses=many", "'mitoses': 'many' is not a number"),
        ("ROW;mitoses=inf", "'mitoses': 'inf' is not a finite number"),
        ("ROW;mitoses=", "'mitoses': the cell is missing"),
    ],
)
def test_a_bad_row_is_named_with_the_remedy(client: TestClient, cancer: Served, text: str, words: str) -> None:
    if text.startswith("ROW;"):
        name, _, value = text[4:].partition("=")
        text = json.dumps({**cancer.example(0), name: value})
    page = send(client, text)
    assert page.status_code == 422
    said = "".join(Tags(page.text).words)
    assert words in said
    assert 'aria-invalid="true"' in page.text
    assert send(client, text, number="x").status_code == 422


def test_cells_come_back_as_they_were_sent() -> None:
    number = Numeric(name="x", integer=False)
    for value in (0.1, 1e-12, -3.25, 123456789.123, 1e300, 5e-324):
        assert parse_cell(number, format_cell(number, value)) == value
    mixed = Categorical(name="c", categories=(True, 1.5, "None", "a"))
    for value in mixed.categories:
        assert (
            parse_cell(mixed, format_cell(mixed, value)) is value
            or parse_cell(mixed, format_cell(mixed, value)) == value
        )
    with pytest.raises(GraceError, match="unknown category"):
        parse_cell(mixed, ["a"])
    schema = grace.Schema(features=(mixed,))
    assert read_row(schema, {"c": "None"}) == ({"c": "None"}, ())
    assert parse_table("c\nNone") == {"c": "None"}
