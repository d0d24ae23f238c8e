"""Both studies over HTTP, from the maker's command to the analysis; answers survive kill -9."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx2 as httpx
import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from torch import nn

import grace
from grace import GraceError, datasets
from grace.cli import main
from grace.study import design, making
from grace.study.controls import controls, read
from grace.study.pages import create_app
from grace.study.responses import responses_of
from grace.study.store import Store
from server_process import serving
from studies import EVIL, begin, explainer, form, people, study, written

RATED = {"intuitive": "7", "comprehensible": "9"}


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["study", *map(str, args)], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, design.Study]:
    return {task: study(task, pictures="both", items=2) for task in design.TASKS}


@contextmanager
def visiting(directory: Path, made: design.Study) -> Iterator[TestClient]:
    making.write(made, explainer(), directory)
    yield TestClient(create_app(directory))


def attention(made: design.Study, item: int, right: bool = True) -> str:
    code = made.schema.classes.index(made.items[item].predicted)
    return str(code if right else 1 - code)


class Tags(HTMLParser):
    """The elements of a page, as a browser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_ratings_from_consent_to_debriefing(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        place = begin(client)
        who = Store(tmp_path / "s" / "responses.sqlite").participants()[0]
        answer = {**RATED, "attention": attention(made["rate"], who.item)}
        assert client.post(place, data=answer).status_code == 200
        page = client.get(place).text
        assert "Your answer has been saved" in page
        assert client.get("/", follow_redirects=False).headers["location"] == place  # the cookie knows them
        [response] = responses_of(tmp_path / "s")
        assert (response.intuitive, response.comprehensible, response.attention) == (7, 9, True)
        assert response.participant in page  # the completion code
        assert who.token not in run("export", tmp_path / "s").output


def test_back_reload_and_double_clicks_change_nothing(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        token = form(client.get("/").text)["token"]
        for _ in range(2):
            place = client.post("/start", data={"token": token, "agree": "yes"}, follow_redirects=False).headers[
                "location"
            ]
        answer = {**RATED, "attention": "0"}
        client.post(place, data=answer)
        client.post(place, data={**answer, "intuitive": "1"})
        client.post("/start", data={"token": token, "agree": "yes"})
        client.post(place, data={})
        assert [r.intuitive for r in responses_of(tmp_path / "s")] == [7]
        assert client.get(place).headers["cache-control"] == "no-store"  # going back asks the server


def test_two_tabs_are_one_person(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        tabs = [form(client.get("/").text)["token"] for _ in range(2)]
        places = {
            client.post("/start", data={"token": t, "agree": "yes"}, follow_redirects=False).headers["location"]
            for t in tabs
        }
        assert len(places) == len(Store(tmp_path / "s" / "responses.sqlite").participants()) == 1


def test_adjusting_is_judged_by_the_model_on_submit_only(tmp_path: Path, made: dict[str, design.Study]) -> None:
    found = made["adjust"]
    with visiting(tmp_path / "s", found) as client:
        verdicts = []
        for wanted in (True, False):
            client.cookies.clear()
            place = begin(client)
            who = Store(tmp_path / "s" / "responses.sqlite").participants()[-1]
            item = found.items[who.item]
            page = client.get(place).text
            assert "has not changed its mind" not in page
            fields = form(page)
            inputs = controls(found.schema, item.row)
            number = next(c for c in inputs if c.feature.name == EVIL)
            ends = {end: client_row(found, item.row, end) for end in number.limits}
            target = next(end for end, label in ends.items() if (label != item.predicted) == wanted)
            fields[number.key] = target
            sent = client.post(place, data={**fields, "attention": attention(found, who.item)})
            assert ("you have changed its mind" in sent.text) == wanted
            verdicts.append(responses_of(tmp_path / "s")[-1])
        assert [v.correct for v in verdicts] == [True, False]
        for v in verdicts:
            row = json.loads(v.adjusted)
            assert str(explainer().model.predict(pd.DataFrame([row]))[0]) == v.predicted


def client_row(found: design.Study, row: object, value: str) -> object:
    changed = pd.DataFrame([row]).assign(**{EVIL: float(value)})  # type: ignore[list-item]
    return explainer().model.predict(changed)[0]


def test_what_grace_proposes_can_be_entered_and_is_right() -> None:
    made = study("adjust", items=12)
    for item in made.items:
        e = explainer().explain([dict(item.row)])[0]
        assert e.text() == item.accounts["grace"].text
        inputs = controls(made.schema, item.row)
        entered = controls(made.schema, e.contrast)  # the same inputs, showing the contrast
        row, errors = read({a.key: b.input_value for a, b in zip(inputs, entered, strict=True)}, inputs)
        assert (row, errors) == (e.contrast, [])
        assert explainer().model.predict(pd.DataFrame([row]))[0] != item.predicted


@pytest.mark.parametrize("task", design.TASKS)
def test_every_name_and_word_is_escaped(tmp_path: Path, made: dict[str, design.Study], task: str) -> None:
    with visiting(tmp_path / "s", made[task]) as client:
        pages = [client.get("/")]
        for _ in range(4):  # each arm
            client.cookies.clear()
            place = begin(client)
            pages += [client.get(place), client.post(place, data={"f0": EVIL, "intuitive": EVIL, "attention": EVIL})]
            picture = client.get(f"{place}/picture.svg")
            assert picture.status_code in (200, 404)
            assert "<script" not in picture.text
        pages.append(client.get(f"/p/{EVIL}"))
        for page in pages:
            tags = Tags(page.text)
            assert {t for t, _ in tags.found}.isdisjoint({"script", "b", "i", "style"})
            assert not any(name.startswith("on") or name == "style" for _, attrs in tags.found for name in attrs)
            assert "script" in page.text  # it is there, as text
            assert page.headers["content-security-policy"].startswith("default-src 'self'")
            assert page.headers["referrer-policy"] == "same-origin"
            outside = [v for _, attrs in tags.found for k, v in attrs.items() if k in ("src", "href", "action")]
            assert all(v is not None and v.startswith(("/", "#", "data:,")) for v in outside)


@pytest.mark.parametrize("task", design.TASKS)
def test_every_input_has_a_label(tmp_path: Path, made: dict[str, design.Study], task: str) -> None:
    with visiting(tmp_path / "s", made[task]) as client:
        page = client.get(begin(client)).text
    tags = Tags(page).found
    labelled = {attrs.get("for") for tag, attrs in tags if tag == "label"}
    for tag, attrs in tags:
        if tag == "select" or attrs.get("type") == "number":
            assert attrs["id"] in labelled
    radios = sum(attrs.get("type") == "radio" for _, attrs in tags)
    assert len(re.findall(r"<label><input type=\"radio\"", page)) == radios > 0
    assert [attrs.get("lang") for tag, attrs in tags if tag == "html"] == ["en"]


def test_wrong_answers_are_sent_back_with_what_was_entered(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        place = begin(client)
        for bad in (
            {"intuitive": "11", "comprehensible": "9"},
            {"comprehensible": "9"},
            {"intuitive": "٣", "comprehensible": "9"},
        ):
            page = client.post(place, data=bad)
            assert page.status_code == 422
            assert 'role="alert"' in page.text
            assert 'href="#intuitive"' in page.text
            assert 'name="comprehensible" value="9" required checked' in page.text
        assert responses_of(tmp_path / "s") == []
        assert client.post("/start", data={"token": "a" * 22}).status_code == 422
        assert client.post("/start", data={"token": "short", "agree": "yes"}).status_code == 400


def test_adjusted_values_stay_inside_their_ranges(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["adjust"]) as client:
        place = begin(client)
        fields = form(client.get(place).text)
        assert client.post(place, data={**fields, "attention": "0"}).text.count("Change at least one value") == 1
        for key, values in {
            "f0": ["", "1e9", "nan", "inf", "-1", "x"],
            "f1": ["30.5", "17", "999"],
            "f2": ["2", "-1", "", "²"],
        }.items():
            for value in values:
                page = client.post(place, data={**fields, key: value, "attention": "0"})
                assert page.status_code == 422, (key, value)
                assert f'href="#{key}"' in page.text
        assert responses_of(tmp_path / "s") == []


def test_strangers_and_floods_are_turned_away(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        assert client.get(f"/p/{'x' * 22}").status_code == 404
        assert client.post(f"/p/{'x' * 22}", data=RATED).status_code == 404
        assert client.get("/nothing").status_code == 404
        assert client.get("/start").status_code == 405
        assert client.get("/docs").status_code == client.get("/openapi.json").status_code == 404
        assert client.post("/start", content=b"x" * (1 << 21)).status_code == 413
        assert client.post("/start", content=b"a=1&" * 30_000).status_code == 413
        assert client.get("/static/../study.json").status_code == 404


def test_a_full_disk_is_no_lost_answer(
    tmp_path: Path, made: dict[str, design.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    with visiting(tmp_path / "s", made["rate"]) as client:
        place = begin(client)

        def full(*args: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "submit", full)
            page = client.post(place, data={**RATED, "attention": "0"})
        assert page.status_code == 503
        assert "could not be saved" in page.text
        assert client.post(place, data={**RATED, "attention": "0"}).status_code == 200
        assert len(responses_of(tmp_path / "s")) == 1


def test_who_withdraws_is_deleted(tmp_path: Path, made: dict[str, design.Study]) -> None:
    with visiting(tmp_path / "s", made["rate"]) as client:
        place = begin(client)
        client.post(place, data={**RATED, "attention": "0"})
        page = client.post(f"{place}/withdraw")
        assert "your answer has been deleted" in page.text
        client.post(place, data={**RATED, "attention": "0"})
        assert responses_of(tmp_path / "s") == []


# -- a real server ----------------------------------------------------------------------------


def test_accepted_answers_survive_kill_9(tmp_path: Path) -> None:
    """People answer from several threads while the server is killed: whatever it had accepted is there."""
    written(tmp_path / "s", "rate")
    accepted: list[str] = []
    enough = threading.Event()
    with serving("study", "serve", str(tmp_path / "s")) as (server, address):

        def take_part() -> None:
            try:
                for _ in range(200):
                    with httpx.Client(base_url=address) as client:
                        place = begin(client)
                        sent = client.post(place, data={**RATED, "attention": "0"})
                        if sent.status_code == 303:
                            accepted.append(place.removeprefix("/p/"))
                            if len(accepted) >= 6:
                                enough.set()
            except httpx.HTTPError:
                return  # the server is gone

        threads = [threading.Thread(target=take_part) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        server.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    kept = {p.token for p in Store(tmp_path / "s" / "responses.sqlite").participants() if p.answer is not None}
    assert len(accepted) >= 6
    assert set(accepted) <= kept
    with serving("study", "serve", str(tmp_path / "s")) as (_, address), httpx.Client(base_url=address) as client:
        again = f"/p/{accepted[-1]}"
        assert "Your answer has been saved" in client.get(again).text
        client.post(again, data={**RATED, "intuitive": "1", "attention": "0"})
    assert {r.intuitive for r in responses_of(tmp_path / "s")} == {7}


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    written(tmp_path / "s", "rate")
    with serving("study", "serve", str(tmp_path / "s")) as (_, address):
        said = run("serve", tmp_path / "s", "--port", address.rstrip("/").rsplit(":", 1)[1])
    assert (said.exit_code, "choose another --port" in said.output) == (1, True)


def test_serving_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "s", "rate")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = run("serve", tmp_path / "s")
    assert (said.exit_code, "pip install fastapi python-multipart" in said.output) == (1, True)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    written(tmp_path / "s", "rate")
    (tmp_path / "s" / "responses.sqlite").write_text("no database" * 100)
    for command in ("serve", "export", "analyse"):
        said = run(command, tmp_path / "s")
        assert (said.exit_code, "responses.sqlite cannot be read" in said.output) == (1, True)
    (tmp_path / "s" / "responses.sqlite").unlink()
    assert "is missing" in run("export", tmp_path / "s").output


def test_inputs_keep_what_the_schema_says() -> None:
    schema = grace.Schema(
        features=(
            grace.Numeric(name="up", low=0, high=10, integer=True, increase_only=True),
            grace.Numeric(name="down", low=0, high=10, decrease_only=True),
            grace.Numeric(name="out", low=0, high=10, integer=True),
            grace.Numeric(name="open"),
            grace.Numeric(name="fixed", frozen=True),
            grace.Categorical(name="home", categories=("own", "rent", "missing"), never=("missing",)),
            grace.Categorical(name="odd", categories=("own", "rent", "missing"), never=("missing",)),
        )
    )
    row = {"up": 4, "down": 2.5, "out": 12.5, "open": 1e-7, "fixed": 3, "home": "rent", "odd": "missing"}
    up, down, out, free, fixed, home, odd = controls(schema, row)
    assert (up.limits, up.step, up.allowed_text) == (("4", "10"), "1", "4 to 10, whole numbers")
    assert (down.limits, down.step, down.allowed_text) == (("0", "2.5"), "any", "0 to 2.5")
    assert (out.limits, out.step, out.read("12.5")) == (("0", "12.5"), "any", 12.5)  # the row's own value may stay
    assert (free.limits, free.input_value, free.allowed_text) == (("", ""), "0.0000001", "any")
    assert fixed.read("99") == 3
    assert home.choices == [("0", "own"), ("1", "rent")]
    assert (odd.choices[-1], odd.input_value, odd.read("2")) == (("2", "missing"), "2", "missing")
    unchanged = {c.key: c.input_value for c in (up, down, out, free, fixed, home, odd)}
    found, errors = read(unchanged, [up, down, out, free, fixed, home, odd])
    assert found == row
    assert errors == [("f0", "Change at least one value: as it is, the model says what it said before.")]
    assert read({**unchanged, "f0": "5"}, [up, down, out, free, fixed, home, odd]) == ({**row, "up": 5}, [])


# -- making -----------------------------------------------------------------------------------


def test_a_study_is_the_same_every_time(tmp_path: Path, made: dict[str, design.Study]) -> None:
    again = study("rate", pictures="both", items=2)
    assert again == made["rate"]
    assert again.to_json() == made["rate"].to_json()
    assert again.name == made["rate"].name != study("rate", seed=1).name
    assert design.Study.from_json(again.to_json()) == again


def test_the_command_takes_a_saved_model_and_a_table(tmp_path: Path) -> None:
    explainer().save(str(tmp_path / "model"))
    people().head(9).to_csv(tmp_path / "rows.csv", index=False)
    source = ("--model", tmp_path / "model", "--rows", tmp_path / "rows.csv")
    (tmp_path / "consent.txt").write_text("First.\n\nSecond <b>.")
    said = run(
        "new",
        tmp_path / "s",
        "--task",
        "adjust",
        *source,
        "--row",
        3,
        "--row",
        5,
        "--consent",
        tmp_path / "consent.txt",
    )
    assert said.exit_code == 0, said.output
    made = design.load(tmp_path / "s")
    assert [dict(i.row)["age"] for i in made.items] == people()["age"].iloc[[3, 5]].tolist()
    page = TestClient(create_app(tmp_path / "s")).get("/").text
    assert "<p>First.</p>" in page
    assert "<p>Second &lt;b&gt;.</p>" in page
    assert not (tmp_path / "s" / "model" / "training.safetensors").read_bytes().count(b"background")
    assert "not empty" in run("new", tmp_path / "s", "--task", "rate", *source).output
    assert "rows 0 to 8" in run("new", tmp_path / "t", "--task", "rate", *source, "--row", 9).output
    assert run("new", tmp_path / "t", "--task", "rate", "--model", tmp_path / "model").exit_code == 2
    assert run("new", tmp_path / "t", "--task", "rate", "--row", 1).exit_code == 2
    assert not (tmp_path / "t").exists()


def test_the_papers_patient_by_default(tmp_path: Path) -> None:
    said = run("new", tmp_path / "s", "--task", "rate")
    assert said.exit_code == 0, said.output
    made = design.load(tmp_path / "s")
    [item] = made.items
    assert dict(item.row) == dict(datasets.CASE_STUDY)
    assert (item.predicted, made.min_minutes) == ("malignant", 1.5)
    assert item.accounts["grace"].text.startswith("Had ")
    assert item.accounts["lime"].text.count("on average") == 5
    assert item.accounts["lime"].text_beside_picture.count("on average") == 2


def test_a_module_that_cannot_be_saved_cannot_judge(tmp_path: Path) -> None:
    frame = people().drop(columns=["verdict", "home"])
    linear = nn.Linear(2, 2)
    linear.load_state_dict({"weight": torch.tensor([[1.0, 0], [-1.0, 0]]), "bias": torch.tensor([-5.0, 5.0])})
    own = grace.Explainer(grace.wrap(linear, classes=["a", "b"]), frame)
    made = making.make(own, frame.head(3), task="adjust", source="own", ranges={"age": (0, 200)})
    assert (made.schema["age"].high, made.schema.classes) == (200, ("a", "b"))  # type: ignore[union-attr]
    with pytest.raises(GraceError, match="wrapped module"):
        making.write(made, own, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("harm", ["{", "{}", '{"format": 9}', '{"format": 1, "task": "sing"}'])
def test_a_damaged_study_is_said(tmp_path: Path, harm: str) -> None:
    with pytest.raises(GraceError, match=r"no study\.json"):
        design.load(tmp_path)
    (tmp_path / "study.json").write_text(harm)
    with pytest.raises(GraceError, match=r"study\.json"):
        design.load(tmp_path)
