"""Frames, sentences and JSON of a batch equal those of its rows explained one by one."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import grace
from grace.explain.json_text import Shared, indented, unshared
from grace.text import sentence

RNG = np.random.default_rng(3)
N = 120
TRAIN = pd.DataFrame(
    {
        "size": RNG.normal(0, 2, N).round(2),
        "count": RNG.integers(0, 6, N),
        "kind": pd.Categorical(RNG.choice(["bolt", "nut"], N)),
        "flag": RNG.random(N) < 0.5,
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
    }
)
SUM = TRAIN["size"] + TRAIN["count"] + 2 * TRAIN["flag"]
ROWS = TRAIN.head(12).assign(id=[None if i % 3 else f"r{i}" for i in range(12)], share=np.arange(12) / 7)
ROWS.loc[::4, "size"] = 99.5  # outside the domain
ROWS.loc[1, "size"] = -0.0
HOLES = ROWS.assign(size=ROWS["size"].where(np.arange(12) % 2 == 0), kind=ROWS["kind"].where(np.arange(12) != 5))
CASES: dict[str, dict[str, Any]] = {
    "mixed": {},
    "alternatives": {"n": 3},
    "misses": {"max_features": 1, "frozen": ["size", "count"], "protected": ["flag"]},
    "proofs": {"prove": True, "max_features": 2},
    "asked for already": {"against": "yes"},
    "consequences": {"follow": {"count": ["size"]}},
    "rules": {"rules": ["size <= count"]},
    "filled": {"missing": "fill"},
    "numbers": {"against": grace.by(+1.0), "n": 2},
    "number misses": {"against": grace.above(1e6)},
}
HOW: list[dict[str, Any]] = [
    {},
    *({"style": style, "language": language} for style in ("magnitude", "relative") for language in ("en", "de")),
    {"language": "de", "template": "because", "hedge": True},
    {"template": "typical", "seed": 4},
]


@cache
def explainer(task: str) -> grace.Explainer:
    """A small network on numbers, categories and dates."""
    torch.manual_seed(0)
    target = SUM if task == "number" else np.where(SUM > 3, "yes", "no")
    return grace.Explainer(grace.training.fit(TRAIN.assign(y=target), "y", batch_size=32, max_epochs=25), TRAIN)


@cache
def both(case: str) -> tuple[grace.Explanations, list[grace.Explanations]]:
    """A batch, and its rows one by one: a batch of one row for each, as scores depend on the batch in the last bit."""
    asked, rows = explainer("number" if "number" in case else "class"), HOLES if case == "filled" else ROWS
    batch = asked.explain(rows, **CASES[case])
    singly = []
    for i in range(len(batch)):
        here, a = np.array([i]), batch.answers
        answers = replace(a.select(here), alternatives=tuple(other.select(here) for other in a.alternatives))
        parts = answers, batch.schema, batch.index[here], batch.call, None, batch.filled.to_numpy()[here]
        singly.append(grace.Explanations(asked, *parts, batch.consequences, batch.extra.iloc[here]))
    return batch, singly


@pytest.mark.parametrize("case", CASES)
def test_sentences_and_notes(case: str) -> None:
    batch, singly = both(case)
    assert [e for (e,) in singly] == list(batch)
    for how in HOW:
        assert [e.text(**how) for e in batch] == [one[0].text(**how) for one in singly]
    assert [e.notes for e in batch] == [one[0].notes for one in singly]


@pytest.mark.parametrize("case", CASES)
def test_json(case: str) -> None:
    batch, singly = both(case)
    for how in HOW[:2]:
        records = [{**next(one.to_dicts()), "text": one[0].text(**how)} for one in singly]
        assert batch.to_json(**how) == json.dumps(records, ensure_ascii=False, indent=1)
    for e, one in zip(batch, singly, strict=True):
        assert e.to_json() == json.dumps(one[0].to_dict(), ensure_ascii=False, indent=1)


@pytest.mark.parametrize("case", CASES)
def test_frames(case: str) -> None:
    batch, singly = both(case)
    frame, lines = batch.to_frame(), [line for one in singly for line in one.to_frame().to_dict("records")]
    every = [e for first in batch for e in (first, *first.alternatives)]
    assert frame["text"].tolist() == [e.text() for e in every]
    assert frame["features"].tolist() == [len(e.changes) for e in every]
    for line, alone in zip(frame.to_dict("records"), lines, strict=True):
        for name, cell in line.items():
            other = alone.get(name)
            assert cell == other if pd.notna(cell) else other is None or pd.isna(other)


def test_rows_of_explanations_are_those_given() -> None:
    batch, _ = both("mixed")
    names = ["size", "count", "kind", "flag"]
    for e, row in zip(batch, ROWS[names].to_dict("records"), strict=True):
        assert {n: e.row[n] for n in names} == row
        assert [type(e.row[n]) for n in (*names, "since")] == [float, int, str, bool, int]


def test_dicts_are_copies() -> None:
    batch, _ = both("mixed")
    known = copy.deepcopy(batch[0].to_dict())
    changed = batch[0].to_dict()
    changed["words"]["class_words"]["yes"] = changed["settings"]["method"] = "other"
    changed["changes"][0]["schema"]["name"] = "other"
    assert batch[0].to_dict() == known


def test_many_classes_and_equal_rows() -> None:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 12)).double()
    frame = pd.DataFrame(RNG.normal(size=(80, 3)).round(3), columns=["a", "b", "c"])
    asked = grace.Explainer(grace.wrap(network, classes=list(range(12))), frame)
    rows = pd.concat([frame.head(20), frame.head(20)])
    batch = asked.explain(rows)
    assert batch.to_json() == json.dumps(list(batch.to_dicts()), ensure_ascii=False, indent=1)
    scores = asked.model.probabilities(batch.answers.before)
    for i, e in enumerate(batch):
        assert e.before == tuple(asked.model.probabilities(batch.answers.before[[i]])[0].tolist()) == tuple(scores[i])
        assert e.text() == asked.explain(rows.iloc[[i]])[0].text()


@pytest.mark.parametrize(
    "value",
    [
        *({}, [], (), 'ä\n"', 1, -0.0, 1e30, float("nan"), float("inf"), True, None, np.float64(0.1)),
        {"a": [], "b": {}, "c": [[1, 2.5], {"d": None}], "%s ä": "%d", "100 %": ()},
        {str(i): i / 7 for i in range(20)} | {"nan": float("nan")},
        {str(i): [i] if i == 7 else i for i in range(20)},
        [Shared({"a": {"b": [1]}}), (Shared({}), {"c": Shared({"d": list(range(12))})})],
    ],
    ids=str,
)
def test_json_text_is_that_of_the_standard_library(value: Any) -> None:
    assert indented(value) == json.dumps(value, ensure_ascii=False, indent=1)
    assert json.dumps(unshared(value)) == json.dumps(value)


@pytest.mark.parametrize("how", [*HOW, {"style": "exact"}, {"style": "auto", "language": "de"}], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_sentences_of_the_batch_are_those_of_its_rows(case: str, how: dict[str, Any]) -> None:
    batch = both(case)[0]
    assert batch.texts(**how) == [e.text(**how) for e in batch]
    lines = [other for e in batch for other in (e, *e.alternatives)]
    frame = batch.to_frame(**how)
    assert frame["text"].tolist() == [e.text(**how) for e in lines]
    assert frame["changes"].tolist() == [e.predicate for e in lines]
    language = how.get("language", "en")
    assert frame["notes"].tolist() == ["; ".join(sentence.notes(e, language)) for e in lines]


@pytest.mark.parametrize("how", HOW[:2], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_json_of_the_batch_is_that_of_its_records(case: str, how: dict[str, Any]) -> None:
    batch = both(case)[0]
    assert batch.to_json(**how) == json.dumps(list(batch.to_dicts(**how)), ensure_ascii=False, indent=1)


def said_twice(batch: grace.Explanations) -> None:
    """Sentences of the batch are those of each answer, alternatives among them."""
    assert batch.texts() == [e.text() for e in batch]
    every = [other for e in batch for other in (e, *e.alternatives)]
    assert batch.to_frame()["text"].tolist() == [e.text() for e in every]


def test_sentences_of_batches_with_other_shapes_before() -> None:
    """What is said of numbers alone must not be taken for what is said beside categories, or the other way round."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.integers(0, 100, 600) * 10.0 for c in "abc"})
    frame["k"] = rng.random(600) < 0.5
    label = np.where((frame.c < 500) | (frame.a > 900) | frame.k, "yes", "no")
    explainer = grace.Explainer(DecisionTreeClassifier(random_state=0).fit(frame, label), frame, gamma=1.0)
    rows = pd.DataFrame({"a": [890.0, 0.0] * 6, "b": 500.0, "c": [510.0 + i for i in range(12)], "k": False})
    said_twice(explainer.explain(rows, only=["c"]))
    said_twice(explainer.explain(rows, n=3))
    said_twice(explainer.explain(rows, frozen=["c"]))


@pytest.mark.parametrize("language", ["en", "de"])
def test_values_of_minus_one_keep_their_sign(language: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"temp": rng.integers(-3, 4, 200), "mass": rng.normal(0, 300, 200).round(3)})
    label = np.where(frame.temp * 100 + frame["mass"] > 0, "warm", "cold")
    explainer = grace.Explainer(LogisticRegression(max_iter=1000).fit(frame, label), frame, among="nearest")
    rows = frame.head(60).astype({"temp": float})
    rows["temp"] += 0.25
    batch = explainer.explain(rows, only=["temp"])
    found = batch.texts(language=language)
    assert found == [e.text(language=language) for e in batch]
    assert any("−1 " in text for text in found)


def test_unknown_options_of_sentences_are_refused() -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 1, 40)})
    explainer = grace.Explainer(DecisionTreeClassifier().fit(frame, frame.a > 0.5), frame)
    batch = explainer.explain(frame)
    for ask in (batch.texts, batch.to_frame):
        with pytest.raises(TypeError, match="langauge"):
            ask(langauge="de")
