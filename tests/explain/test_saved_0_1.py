"""Explainers that version 0.1.0 saved still load, and give the answers that they gave then.

`python tests/test_saved_0_1.py FOLDER` shows how they were made: it writes both into FOLDER, to look at. Those in
`tests/data` stay as that version wrote them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import grace

DATA = Path(__file__).parents[1] / "data"
NETWORK, MODEL = DATA / "explainer-0.1", DATA / "explainer-0.1-model"
RULES = ["duration_months <= 2 * age"]
CALLS: dict[str, list[dict[str, Any]]] = {
    NETWORK.name: [
        {},
        {"rules": [], "prove": True, "budget": 60.0, "max_features": 2},
        {"n": 3, "gamma": 0.3, "confidence": 0.6},
        {"against": "good", "missing": "fill", "domain": "minmax"},
        {"frozen": ["checking_status"], "costs": {"age": 3.0}, "ranges": {"credit_amount": [500, 6000]}},
        {"follow": True, "max_features": 2},
        {"plausible": 0.1},
        {"max_features": 1, "only": ["age"]},
        {"rules": [], "method": "gradient"},
        {"rules": [], "method": "local"},
        {"rules": [], "method": "nearest"},
        {"rules": [], "method": "deepfool"},
    ],
    MODEL.name: [
        {},
        {"n": 2, "max_features": 2},
        {"confidence": 0.6, "prefer": "nearest"},
        {"method": "local"},
        {"method": "nearest"},
    ],
}


def said(explainer: grace.Explainer, rows: pd.DataFrame, call: dict[str, Any]) -> list[dict[str, Any]]:
    """What is to be the same in any later version."""
    return [as_told(e) for e in explainer.explain(rows, **call)]


def as_told(e: grace.Explanation) -> dict[str, Any]:
    return {
        "changes": [[c.name, c.old, c.new] for c in e.changes],
        "follow_on": [[c.name, c.old, c.new] for c in e.follow_on],
        "original_class": e.original_class,
        "contrast_class": e.contrast_class,
        "en": e.text(language="en"),
        "de": e.text(language="de"),
        "notes": list(e.notes),
        "verdict": None if e.proof is None else e.proof["verdict"],
        "checks": dict(e.checks),
        "alternatives": [as_told(other) for other in e.alternatives],
        "before": list(e.before),
        "after": list(e.after),
        "distance": e.distance,
    }


def rounded(answer: dict[str, Any]) -> dict[str, Any]:
    """With what the model computes, whose last bits depend on the machine, to nine digits."""
    near = {k: [f"{v:.9f}" for v in answer[k]] for k in ("before", "after")}
    near["distance"] = [f"{answer['distance']:.9g}"]
    return {**answer, **near, "alternatives": [rounded(other) for other in answer["alternatives"]]}


def cases() -> list[Any]:
    return [pytest.param(DATA / name, i, id=f"{name}-{i}") for name, calls in CALLS.items() for i in range(len(calls))]


@pytest.mark.parametrize(("folder", "place"), cases())
def test_what_was_saved_gives_the_same_answers(folder: Path, place: int) -> None:
    if folder == MODEL:
        pytest.importorskip("xgboost")
    kept = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    call, answers = kept["calls"][place]["call"], kept["calls"][place]["answers"]
    assert call == CALLS[folder.name][place]
    found = json.loads(json.dumps(said(grace.load(folder), pd.DataFrame(kept["rows"]), call)))
    for now, then in zip(map(rounded, found), map(rounded, answers), strict=True):
        if call.keys() & {"plausible", "follow"} and not then["changes"]:  # checks of a miss: of the last candidate
            now, then = now | {"checks": {}}, then | {"checks": {}}
        assert now == then or (folder == MODEL and is_better(now, then))


def is_better(now: dict[str, Any], then: dict[str, Any]) -> bool:
    """Whether an answer to the same question has fewer changes, or is nearer: trees are searched exactly since then."""
    same = all(now[k] == then[k] for k in ("original_class", "contrast_class", "before"))
    fewer, nearer = len(now["changes"]) < len(then["changes"]), float(now["distance"][0]) < float(then["distance"][0])
    return same and (fewer or nearer)


def test_what_was_declared_is_still_there() -> None:
    explainer = grace.load(NETWORK)
    assert [str(rule) for rule in explainer.schema.rules] == RULES
    assert explainer.settings.max_features == 3
    assert explainer.model.cutoffs is not None
    assert explainer.model.cutoffs.named == (("bad", 0.4),)
    assert sorted(explainer.schemas, key=str) == ["central", "minmax"]
    assert explainer.training_rows == len(explainer.background_rows) == 150


def make(folder: Path) -> None:
    """Write both explainers and their answers."""
    table = grace.datasets.load("german_credit")
    train = table.split(seed=0).train.head(150)
    network = grace.training.fit(table, seed=0, hidden=(8,), max_epochs=10, threshold={"bad": 0.4})
    saved = grace.Explainer(network, train, rules=RULES, max_features=3)
    saved.save(str(folder / NETWORK.name))
    write_answers(folder / NETWORK.name, table.split(seed=0).test.drop(columns=table.target).head(4))

    from xgboost import XGBClassifier

    known = grace.datasets.load("diabetes")
    frame = known.split(seed=0).train.head(150)
    frame.to_csv(folder / "rows.csv", index=False)
    codes = (frame[known.target] == "tested_positive").astype(int)
    booster = XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1, random_state=0)
    booster.fit(frame.drop(columns=known.target), codes).save_model(folder / "model.json")
    words = ["save", "rows.csv", "--target", "class", "--model", "model.json", "-o", MODEL.name]
    words += ["--classes", "tested_negative,tested_positive"]
    subprocess.run([Path(sys.executable).with_name("grace"), *words], cwd=folder, check=True)
    (folder / "model.json").rename(folder / MODEL.name / "model.json")  # where it is found
    write_answers(folder / MODEL.name, known.split(seed=0).test.drop(columns=known.target).head(4))


def write_answers(folder: Path, rows: pd.DataFrame) -> None:
    """All that was asked and answered, a line for each call."""
    explainer, given = grace.load(folder), rows.to_dict("records")
    lines = [
        json.dumps({"call": c, "answers": said(explainer, rows, c)}, ensure_ascii=False) for c in CALLS[folder.name]
    ]
    calls = ",\n".join(lines)
    kept = f'{{"version": "{grace.__version__}",\n"rows": {json.dumps(given)},\n"calls": [\n{calls}\n]}}\n'
    (folder / "answers.json").write_text(kept, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
