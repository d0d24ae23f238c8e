"""Records: what they hold, what replaying them gives, and what it says when something has changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import grace
from grace.cli import main
from grace.explain.audit_record import read_record, record, replay
from kinds import MIXED, NUMBERS, SUM, YES

FRAME = NUMBERS.assign(y=YES)


def network() -> grace.Explainer:
    return grace.Explainer(grace.training.fit(FRAME, target="y", seed=0), FRAME, target="y")


def forest(seed: int = 0) -> grace.Explainer:
    return grace.Explainer(RandomForestClassifier(8, random_state=seed, n_jobs=1).fit(NUMBERS, YES), NUMBERS)


def test_a_record_is_complete_and_replays_to_the_byte() -> None:
    explainer = network()
    asked: dict[str, Any] = {"frozen": ["b"], "ranges": {"a": (None, 3)}, "costs": {"c": 2.0}, "confidence": 0.6}
    batch = explainer.explain(NUMBERS.head(4), prove=True, n=2, budget=2.0, **asked)
    for i in range(4):
        known = json.loads(json.dumps(record(batch, i, {"row": i})))
        assert known["model"]["of"] == "weights"
        assert {"schema", "settings", "su", "background"} <= set(known["explainer"])
        assert known["question"]["asked"]["frozen"] == ["b"]
        assert known["answer"]["proof"]["verdict"] == batch[i].proof["verdict"]
        again = replay(known, explainer)
        assert again.same, again.different
        assert again.changed == []
        assert again.answer["text"] == batch[i].text()


@pytest.mark.parametrize("kind", ["forest", "regression", "missing", "function"])
def test_black_boxes_and_other_questions(kind: str) -> None:
    rows: Any = NUMBERS.head(2)
    asked: dict[str, Any] = {}
    if kind == "forest":
        explainer = forest()
    elif kind == "regression":
        model = RandomForestRegressor(8, random_state=0, n_jobs=1).fit(NUMBERS, SUM)
        explainer, asked = grace.Explainer(model, NUMBERS), {"against": [grace.by(1.0), grace.below(-1.0)]}
    elif kind == "missing":
        explainer, asked = network(), {"missing": "fill"}
        rows = rows.astype(float).mask(np.eye(2, 3) > 0)
    else:
        share = grace.wrap(logistic, classes=["no", "yes"])
        explainer, rows = grace.Explainer(share, MIXED), MIXED.head(2)
    batch = explainer.explain(rows, **asked)
    for i in range(2):
        again = replay(json.loads(json.dumps(record(batch, i))), explainer)
        assert again.same, again.different


def logistic(frame: pd.DataFrame) -> Any:
    return (1 / (1 + np.exp(-frame["a"] - frame["count"] + 2))).to_numpy()


def test_another_model_is_named_and_its_answer_shown() -> None:
    first, second = forest(0), forest(1)
    rows = NUMBERS.head(8)
    batch = first.explain(rows)
    found = [replay(record(batch, i), second) for i in range(8)]
    assert all("the model: what it has learnt has another hash" in one.changed[0] for one in found)
    assert any(not one.same and one.different for one in found)


def test_other_training_rows_and_versions_are_named() -> None:
    explainer = forest()
    known = record(explainer.explain(NUMBERS.head(1), rules=["a <= c + 100"]), 0)
    assert known["question"]["asked"]["rules"] == ["a <= c + 100"]
    known["libraries"]["numpy"] = "1.0"
    assert explainer.background_rows is not None
    explainer.use(explainer.model, replace(explainer.background, rows=explainer.background_rows[:-1], scores=None))
    said = replay(known, explainer).changed
    assert "the training rows kept of the explainer" in said
    assert any(line.startswith("numpy 1.0 → ") for line in said)


def test_an_altered_record_is_refused(tmp_path: Path) -> None:
    known = record(forest().explain(NUMBERS.head(1)), 0)
    path = tmp_path / "why.json"
    path.write_text(json.dumps(known))
    assert read_record(path)["sha256"] == known["sha256"]
    known["answer"]["text"] = "Had pigs wings ..."
    path.write_text(json.dumps(known))
    with pytest.raises(grace.GraceError, match="has been altered"):
        read_record(path)
    path.write_text("[" * 100_000)
    with pytest.raises(grace.GraceError, match="nested more than"):
        read_record(path)
    path.write_text("{}")
    with pytest.raises(grace.GraceError, match="is not a record"):
        read_record(path)


def test_the_command(tmp_path: Path) -> None:
    network().save(str(tmp_path / "model"))
    rows = tmp_path / "rows.csv"
    NUMBERS.head(5).to_csv(rows, index=False)
    words = ["explain", str(tmp_path / "model"), str(rows), "--row", "2", "--prove"]
    done = CliRunner().invoke(main, [*words, "--record", str(tmp_path / "why.json")])
    assert done.exit_code == 0, done.output
    same = CliRunner().invoke(main, ["replay", str(tmp_path / "why.json")])
    assert same.exit_code == 0, same.output
    assert same.stdout.startswith("The same answer: ")
    assert same.stderr == ""
    known = read_record(tmp_path / "why.json")
    assert known["source"]["row"] == 2
    all_rows = CliRunner().invoke(main, [*words[:3], "--record", str(tmp_path / "why.jsonl"), "--json"])
    assert all_rows.exit_code == 0
    assert len((tmp_path / "why.jsonl").read_text().splitlines()) == 5
    grace.Explainer(grace.training.fit(FRAME, target="y", seed=5), FRAME, target="y").save(str(tmp_path / "other"))
    other = CliRunner().invoke(main, ["replay", str(tmp_path / "why.json"), "--folder", str(tmp_path / "other")])
    assert other.exit_code == 1
    assert "Changed since: the model: its weights" in other.stderr
    assert "Different: " in other.stderr
