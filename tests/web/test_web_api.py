"""The page's API over HTTP, downloads, what works behind them, and the command."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

import grace
from grace import GraceError
from grace.cli import main
from grace.web import queues
from grace.web.middleware import MAX_BYTES
from grace.web.pages import create_app
from grace.web.service import Answer, RowQuestion, Served
from studies import EVIL, explainer, people
from visitors import Tags

CLASS = "<i>yes</i>"
PARTS = ("predict", "explain", "profile", "reasons", "because", "schema")


# -- the API ----------------------------------------------------------------------------------


def test_predict_and_explain_agree_with_the_library(client: TestClient, cancer: Served) -> None:
    row = cancer.example(0)
    said = client.post("/api/predict", json={"row": row}).json()
    model = cancer.quick.explainer.model
    assert said["class"] == model.predict(pd.DataFrame([row]))[0] == "malignant"
    wanted = model.predict_proba(pd.DataFrame([row])).iloc[0]
    assert {p["class"]: p["probability"] for p in said["probabilities"]} == pytest.approx(dict(wanted))
    asked = {"row": row, "max_features": 3, "frozen": ["bare_nuclei"], "n": 2, "prove": True, "language": "de"}
    got = client.post("/api/explain", json=asked).json()
    e = cancer.quick.explainer.explain(row, max_features=3, frozen=["bare_nuclei"], n=2, prove=True)[0]
    assert got["text"] == e.text(language="de")
    assert got["changes"] == json.loads(json.dumps(e.to_dict()))["changes"]
    assert got["proof"]["verdict"] == "minimal"
    assert len(got["alternatives"]) == len(e.alternatives)
    assert grace.Explanation.from_dict({**got, "text": ""}).changes == e.changes


def test_profile_and_reasons_agree_with_the_library(client: TestClient, cancer: Served) -> None:
    row, explainer = cancer.example(0), cancer.quick.explainer
    asked = {"row": row, "frozen": ["bare_nuclei"], "language": "de"}
    profile = explainer.profile(row, frozen=["bare_nuclei"])[0]
    got = client.post("/api/profile", json=asked).json()
    assert got == json.loads(profile.to_json(language="de"))
    assert got["text"] == profile.text(language="de")
    assert {f["feature"] for f in got["features"] if f["verdict"] == "fixed"} == {"bare_nuclei"}
    assert client.post("/api/profile", json={**asked, "forecasts": True}).json()["scorecard"]["figure"]["claim"] > 0.5
    found = client.post("/api/reasons", json={**asked, "max_features": 3, "seconds": 5, "shown": 2}).json()
    reasons = explainer.reasons(row, 3, seconds=5, shown=2, frozen=["bare_nuclei"])[0]
    assert found["text"] == reasons.text(language="de")
    assert found["complete"] is reasons.complete is True
    assert found["counts"] == list(reasons.counts)
    assert [s["features"] for s in found["sets"]] == [list(r.features) for r in reasons.sets]
    assert [s["explanation"] is not None for s in found["sets"]] == [True] * 2 + [False] * (len(reasons.sets) - 2)


@pytest.mark.parametrize(
    ("path", "part", "words"),
    [
        ("profile", {"n": 2}, "n is unknown"),
        ("profile", {"language": "xx"}, "language='xx'"),
        ("profile", {"frozen": ["nose"]}, "no feature 'nose'"),
        ("profile", {"forecasts": "yes"}, "forecasts: "),
        ("because", {"smallest": 1}, "smallest: "),
        ("reasons", {"max_features": 9}, "max_features: "),
        ("reasons", {"seconds": 60}, "seconds: "),
        ("reasons", {"shown": "all"}, "shown: "),
        ("reasons", {"against": "neither"}, "unknown class 'neither'"),
    ],
)
def test_errors_of_profile_and_reasons(alone: TestClient, evil: Served, path: str, part: Any, words: str) -> None:
    answer = alone.post(f"/api/{path}", json={"row": evil.example(0), **part})
    assert answer.status_code == 422
    assert words in answer.json()["error"]


def test_ranges_of_numbers_and_categories(alone: TestClient, evil: Served) -> None:
    row = evil.example(0)
    label = alone.post("/api/predict", json={"row": row}).json()["class"]
    other = next(c for c in evil.classes if c != label)
    low, high = evil.schema[EVIL].bounds  # type: ignore[union-attr]
    span = [low, None] if label == "no & never" else [None, high]
    asked = {"row": row, "against": other, "ranges": {EVIL: span, "home": [row["home"]]}}
    got = alone.post("/api/explain", json=asked).json()
    assert got["success"]
    assert "home" not in [c["feature"] for c in got["changes"]]
    assert got["contrast_class"] == other


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "row is missing"),
        ([], 422, "must be a JSON object"),
        ({"row": {"nose": 1}}, 422, "'nose' is unknown"),
        ({"row": {}}, 422, f"column {EVIL!r}: the column is missing"),
        ({"row": "ROW", "colour": 1}, 422, "colour is unknown"),
        ({"row": "ROW", "max_features": 0}, 422, "max_features: "),
        ({"row": "ROW", "n": 99}, 422, "n: "),
        ({"row": "ROW", "against": "neither"}, 422, "unknown class 'neither'"),
        ({"row": "ROW", "frozen": ["nose"]}, 422, "no feature 'nose'"),
        ({"row": "ROW", "ranges": {"age": [1]}}, 422, "'age' needs [low, high]"),
        ({"row": "ROW", "ranges": {"age": [50, 20]}}, 422, "lies above"),
        ({"row": "ROW", "ranges": {"home": ["tent"]}}, 422, "'home': unknown category 'tent'"),
        ({"row": "ROW", "style": "vague"}, 422, "style='vague'"),
        ({"row": "ROW", "method": "magic"}, 422, "method='magic'"),
        ({"row": "ROW", "model": "other"}, 422, "no model 'other'"),
        ({"row": "ROW", "increase_only": ["home"]}, 422, "no direction"),
    ],
)
def test_api_errors_say_what_to_do(alone: TestClient, evil: Served, body: object, status: int, words: str) -> None:
    if isinstance(body, dict) and body.get("row") == "ROW":
        body = {**body, "row": evil.example(0)}
    answer = alone.post("/api/explain", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_what_is_not_json_too_long_or_elsewhere(alone: TestClient, evil: Served) -> None:
    broken = alone.post("/api/explain", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 422
    assert "not JSON" in broken.json()["error"]
    long = alone.post("/api/predict", json={"row": {"x": "y" * MAX_BYTES}})
    assert long.status_code == 413
    assert "too long" in long.json()["error"]
    assert alone.post("/row", files={"text": (None, "y" * MAX_BYTES)}).status_code == 413
    assert alone.post("/row", data={"text": "x"}).status_code == 415
    assert alone.get("/api/nothing").json() == {"error": "There is no such page."}
    assert alone.get("/api/explain").status_code == 405
    assert alone.get("/download/why.exe").status_code == 404
    assert "no such page" in alone.get("/nothing").text


def test_schema_and_description(client: TestClient) -> None:
    said = client.get("/api/schema").json()
    assert [m["model"] for m in said["models"]] == ["cancer95", "evil<b>"]
    nuclei = next(f for f in said["models"][0]["features"] if f["name"] == "bare_nuclei")
    assert (nuclei["low"], nuclei["high"], nuclei["whole"]) == (1, 10, True)
    home = said["models"][1]["features"][2]
    assert home["categories"] == ["<b>owned</b>", "rented"]
    spec = client.get("/openapi.json").json()
    assert set(spec["paths"]) == {f"/api/{part}" for part in PARTS} | {"/health"}
    page = client.get("/api").text
    for body in ("Why", "Alone", "WhichSets", "Enough"):
        assert all(name in page for name in spec["components"]["schemas"][body]["properties"])


def test_a_bug_is_not_shown_to_visitors(monkeypatch: pytest.MonkeyPatch, alone: TestClient, evil: Served) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(evil, "predict", fails)
    for answer in (alone.get("/"), alone.post("/api/predict", json={"row": evil.example(0)})):
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.headers["content-security-policy"]


# -- downloads --------------------------------------------------------------------------------


def test_downloads_parse(client: TestClient) -> None:
    for query in ("model=cancer95&row=0", "model=cancer95&row=0&k=1&freeze=bare_nuclei"):
        parts = {kind: client.get(f"/download/why.{kind}?{query}") for kind in ("json", "html", "svg", "png")}
        for kind, answer in parts.items():
            assert answer.status_code == 200
            assert answer.headers["content-disposition"] == f'attachment; filename="why.{kind}"'
        e = grace.Explanation.from_json(parts["json"].text)
        assert e.proof is not None
        assert e.text() in ElementTree.fromstring(parts["svg"].text)[1].text  # type: ignore[operator]
        assert e.text() in "".join(Tags(parts["html"].text).words)
        assert "What each feature does alone" in Tags(parts["html"].text).words
        assert "All the reasons" in Tags(parts["html"].text).words
        assert parts["png"].content[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", parts["png"].content[16:24])
        assert width > 1000
        assert height > 200


# -- behind it --------------------------------------------------------------------------------


def test_a_proof_does_not_hold_up_predictions(evil: Served) -> None:
    release = threading.Event()
    row = evil.example(0)

    async def both() -> list[float]:
        slow = asyncio.ensure_future(evil.slow.run(lambda _: release.wait(10)))
        await asyncio.sleep(0)
        plain = await evil.explain(RowQuestion(row, {"max_features": 2}))
        quick = asyncio.ensure_future(evil.quick.run(lambda _: release.wait(10)))
        await asyncio.sleep(0)
        _, shares = await evil.predict(row)
        assert not slow.done()
        assert not quick.done()
        release.set()
        assert await slow
        assert await quick
        assert plain.e.success
        return shares

    assert sum(asyncio.run(both())) == pytest.approx(1)


def test_a_crowd_is_turned_away(monkeypatch: pytest.MonkeyPatch, alone: TestClient, evil: Served) -> None:
    monkeypatch.setattr(queues, "MAX_WAITING", 0)
    answer = alone.post("/api/predict", json={"row": evil.example(0)})
    assert answer.status_code == 503
    assert "Try again" in answer.json()["error"]
    assert int(answer.headers["retry-after"]) > 0


def test_answers_are_remembered_and_the_same(evil: Served) -> None:
    async def ask() -> tuple[float, float]:
        question = RowQuestion(evil.example(2), {"max_features": 3, "prove": True, "n": 2})
        evil.answers.clear()
        start = time.perf_counter()
        first = await evil.explain(question)
        middle = time.perf_counter()
        again = await evil.explain(RowQuestion(evil.example(2), {"n": 2, "prove": True, "max_features": 3}))
        assert again is first
        return middle - start, time.perf_counter() - middle

    first, again = asyncio.run(ask())
    assert again < first


def test_without_training_rows_a_typical_row_is_shown(tmp_path: Path) -> None:
    explainer().save(str(tmp_path), background=False)
    served = Served("bare", grace.load(str(tmp_path)))
    assert len(served.examples) == 1
    page = TestClient(create_app([served])).get("/")
    assert page.status_code == 200
    row = served.example(0)
    assert row["age"] == served.schema["age"].typical


def test_a_model_without_proofs_says_so() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    frame = people().drop(columns=["home", "verdict"])
    model = grace.wrap(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), classes=["a", "b"])
    client = TestClient(create_app([Served("tanh", grace.Explainer(model, frame))]))
    assert "No proof:" in client.get("/more?row=0").text
    assert client.get("/download/why.json?row=0").status_code == 200


def test_the_command_says_what_is_wrong() -> None:
    def run(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["serve", *args])
        return result.exit_code, result.output

    assert run()[0] == 2
    assert "MODEL_DIR" in run()[1]
    assert run("--data", "spam")[0] == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, said = run("--demo", "--port", port)
        assert code == 1
        assert f"port {port}" in said
        assert "choose another --port" in said
        assert "Training" not in said
    code, said = run("--demo", "--data", "nothing", "--port", "0")
    assert code == 1
    assert "no table 'nothing'" in said


def test_serving_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    explainer().save(str(tmp_path / "model"))
    for missing in ("uvicorn", "grace.web.pages"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            said = CliRunner().invoke(main, ["serve", str(tmp_path / "model"), "--port", "0"])
            assert (said.exit_code, "pip install fastapi python-multipart" in said.output) == (1, True)


def test_questions_that_wait_together_get_the_answers_they_get_alone(cancer: Served) -> None:
    questions = [RowQuestion(cancer.example(i), {"max_features": 3}, with_pictures=i % 2 == 0) for i in range(39)]
    bad = RowQuestion({**cancer.example(0), "mitoses": float("inf")}, {"max_features": 3})

    async def together() -> list[Any]:
        cancer.answers.clear()
        return await asyncio.gather(*(cancer.explain(q) for q in [*questions, bad]), return_exceptions=True)

    async def alone(question: RowQuestion) -> Answer:
        cancer.answers.clear()
        return await cancer.explain(question)

    *found, failed = asyncio.run(together())
    assert isinstance(failed, GraceError)
    for question, answer in zip(questions, found, strict=True):
        single = asyncio.run(alone(question))
        assert (answer.e.text(), answer.e.changes) == (single.e.text(), single.e.changes)
        assert answer.e.after == pytest.approx(single.e.after)  # the last digit may hang on the size of a batch
        assert bool(answer.columns) == question.with_pictures


def test_the_documented_bodies_work(client: TestClient, cancer: Served) -> None:
    text = (Path(__file__).parents[2] / "docs" / "page.md").read_text(encoding="utf-8")
    patient, more = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    assert patient["row"] == cancer.example(0)
    plain = client.post("/api/explain", json=patient).json()
    assert plain["text"].startswith("Had bare nuclei been 8 points lower")
    rich = client.post("/api/explain", json={**more, **patient}).json()
    assert rich["proof"]["verdict"] == "minimal"
    assert rich["text"].startswith("Wäre")
