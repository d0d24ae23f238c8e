"""What was proven is said with all it depends on, recorded in full, and limits that block are named, each that does."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from explained import explainer_of
from grace import Categorical, Change, Explanation, Numeric, Schema
from grace.text import languages
from grace.text.languages import Limits
from grace.text.sentence import least_change, notes
from truth import true

LIMITS = [
    {},
    {"confidence": 0.9},
    {"frozen": ["plasma_glucose"]},
    {"frozen": ["plasma_glucose", "age"], "increase_only": ["pregnancies"], "decrease_only": ["body_mass_index"]},
    {"frozen": ["plasma_glucose", "age", "pregnancies", "serum_insulin"], "confidence": 0.6},
    {"ranges": {"plasma_glucose": (80, 120)}},
    {"gamma": 0.05},
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_proof_is_said_with_every_condition(limits: dict) -> None:
    explainer, rows = explainer_of("diabetes")
    batch = explainer.explain(rows.head(24), prove=True, budget=5.0, **limits)
    said = 0
    for e in batch:
        if not e.success:
            continue
        for code in languages.names():
            for template in ("had", "because"):
                sentence = e.text(language=code, template=template)
                true(sentence, e, batch.schema, explainer.model, "exact", code, sole=True)
                said += "Within these ranges" in sentence or "Innerhalb dieser" in sentence
                assert Explanation.from_json(e.to_json()).text(language=code, template=template) == sentence
    assert said > 3


def test_what_fewer_changes_do_without_a_limit_is_not_denied() -> None:
    """Where the plain question has an answer with fewer changes, the sentence names what keeps it away."""
    explainer, rows = explainer_of("diabetes")
    rows = rows.head(40)
    plain = explainer.explain(rows)
    conditions = {"confidence": "probability of at least", "frozen": "as it is"}
    for limits in ({"confidence": 0.9}, {"frozen": ["plasma_glucose"]}):
        limited, fewer = explainer.explain(rows, prove=True, budget=5.0, **limits), 0
        for i in np.flatnonzero(plain.changed.sum(axis=1) < limited.changed.sum(axis=1)):
            e = limited[int(i)]
            if e.proof["verdict"] == "minimal":
                fewer += 1
                assert conditions[next(iter(limits))] in e.text()
        assert fewer > 3


def test_redundancy_matters_to_two_changes_and_more() -> None:
    explainer, rows = explainer_of("cancer92")
    counts = set()
    for e in explainer.explain(rows.head(30), prove=True, budget=2.0, domain=0.9):
        if e.success and e.proof["verdict"] == "minimal" and len(e.changes) > 1:
            counts.add(min(len(e.changes), 3))
            assert e.proof["redundant"]
            assert ("say much the same" in e.text()) == (len(e.changes) > 2)
            assert ("dasselbe sagen" in e.text(language="de")) == (len(e.changes) > 2)
            free = replace(e, proof={**e.proof, "redundant": False})
            assert "say much the same" not in free.text()
    assert counts == {2, 3}


def test_the_class_asked_for_is_a_condition_where_there_are_others() -> None:
    explainer, rows = explainer_of("segment")
    batch = explainer.explain(rows.head(30), against="window", prove=True, budget=2.0)
    said = [e for e in batch if e.proof and e.success and len(e.changes) > 1 and e.proof["verdict"] == "minimal"]
    assert said
    for e in said:
        assert "could have led to a window." in e.text(template="because")
        assert "zu „Fenster“ geführt." in e.text(language="de")


def test_categories_that_may_not_be_chosen_are_a_condition() -> None:
    explainer, rows = explainer_of("german_credit")
    batch = explainer.explain(rows.head(20), ranges={"purpose": ["education", "business"]}, prove=True, budget=2.0)
    said = [e.text() for e in batch if e.success and e.proof["verdict"] == "minimal" and len(e.changes) > 1]
    assert said
    assert all("Within these ranges and categories" in sentence for sentence in said)
    assert "education" not in batch[0].proof["categories"]["purpose"]


RECORD = {
    "against",
    "box",
    "categories",
    "changes",
    "confidence",
    "decrease_only",
    "distance",
    "distance_at_least",
    "domain",
    "except_ties",
    "frozen",
    "gamma",
    "increase_only",
    "margin",
    "max_features",
    "method",
    "missing",
    "precision",
    "prefer",
    "protected",
    "redundant",
    "cutoffs",
    "verdict",
    "weights",
}


def test_the_record_of_a_proof_is_complete() -> None:
    explainer, rows = explainer_of("diabetes")
    limits = {"frozen": ["age"], "increase_only": ["pregnancies"], "confidence": 0.7, "prefer": "nearest"}
    e = explainer.explain(rows.head(1), prove=True, distance="l2", max_features=4, **limits)[0]
    assert set(e.proof) == RECORD
    assert json.loads(json.dumps(dict(e.proof))) == e.proof
    asked = {"frozen": ["age"], "increase_only": ["pregnancies"], "decrease_only": [], "confidence": 0.7, "gamma": 0.5}
    asked |= {"method": "search", "max_features": 4, "prefer": "nearest", "distance": "l2", "missing": []}
    assert {k: e.proof[k] for k in asked} == asked


def test_an_old_record_says_no_more_than_is_known() -> None:
    """Without the new parts, what could matter is said: the confidence of the settings, and redundancy."""
    explainer, rows = explainer_of("diabetes")
    batch = explainer.explain(rows.head(30), prove=True, budget=5.0, confidence=0.9)
    e = next(e for e in batch if e.success and len(e.changes) > 2 and e.proof["verdict"] == "minimal")
    new = {"increase_only", "decrease_only", "missing", "categories", "redundant", "confidence", "method", "prefer"}
    written = e.to_dict()
    written["proof"] = {k: v for k, v in e.proof.items() if k not in new}
    written["words"]["features"] = []
    old = Explanation.from_dict(json.loads(json.dumps(written)))
    assert "at least 90 %" in old.text()
    assert "without two features that say much the same" in old.text()


def test_a_miss_that_is_proven_names_its_conditions() -> None:
    explainer, rows = explainer_of("diabetes")
    limits = {"frozen": ["plasma_glucose", "age"], "decrease_only": ["pregnancies"]}
    batch = explainer.explain(rows.head(30), prove=True, budget=5.0, max_features=1, confidence=0.8, **limits)
    misses = [e for e in batch if e.proof is not None and e.proof["verdict"] == "impossible"]
    assert misses
    for e in misses:
        assert e.reason.startswith(
            "no contrast with a probability of at least 80 % exists (proven) with at most one change within the usual "
            "ranges, with plasma glucose and age as they are, with the number of pregnancies only going down; "
        )
        german = e.text(language="de")
        assert "(unverändert: der Plasmaglukosewert und das Alter; nur fallend: die Zahl der Schwangersch" in german


@pytest.mark.parametrize(
    ("limits", "english", "german"),
    [
        (
            Limits(1),
            "Within these ranges, no single change could have done it.",
            "Innerhalb dieser Bereiche hätte keine einzelne Änderung genügt.",
        ),
        (
            Limits(2, fixed=tuple(Numeric(name=n, noun=n) for n in "abcd"), distinct=True),
            "Within these ranges, with 4 of the features as they are, without two features that say much the same, "
            "no two changes could have done it.",
            "Innerhalb dieser Bereiche (unverändert: 4 der Merkmale; ohne zwei Merkmale, die weitgehend dasselbe "
            "sagen) hätten keine zwei Änderungen genügt.",
        ),
        (
            Limits(12, rising=(Numeric(name="a", noun="age"),), confidence=0.995, towards="sky"),
            "Within these ranges, with age only going up, no 12 changes could have led to sky with a probability of at "
            "least 99.5 %.",
            "Innerhalb dieser Bereiche (nur steigend: age) hätten keine 12 Änderungen mit einer Wahrscheinlichkeit von "
            "mindestens 99,5 % zu „sky“ geführt.",
        ),
    ],
)
def test_conditions_in_words(limits: Limits, english: str, german: str) -> None:
    assert languages.load("en").minimum(limits, "had") == english
    assert languages.load("de").minimum(limits, "had") == german


# -- limits that block --------------------------------------------------------------------------------


class Above(nn.Module):
    """Says yes where a + b + c / 100 exceeds 1."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        above = rows[:, 0] + rows[:, 1] + rows[:, 2] / 100 - 1
        return torch.stack([-above, above], dim=1)


def either(high: float = 3) -> grace.Explainer:
    words = {"a": {"phrase": "the first", "translations": {"de": {"phrase": "das Erste"}}}, "b": {"noun": "the second"}}
    features = tuple(Numeric(name=n, low=0, high=high, spread=1, **words.get(n, {})) for n in "abc")
    schema = Schema(features=features, classes=("no", "yes"))
    return grace.Explainer(grace.wrap(Above(), classes=["no", "yes"]), schema=schema, gamma=1.0)


ZERO = pd.DataFrame([[0.0, 0.0, 0.0]], columns=list("abc"))


@pytest.mark.parametrize(
    "limits",
    [{"frozen": ["a", "b"]}, {"frozen": "a", "ranges": {"b": (0, 0.5)}}, {"decrease_only": ["b"], "frozen": ["a"]}],
    ids=str,
)
def test_every_limit_that_blocks_alone_is_named(limits: dict) -> None:
    e = either().explain(ZERO, **limits)[0]
    assert [way["value"] for way in e.miss["ways"]] == [["a"], ["b"]]
    assert {way["limit"] for way in e.miss["ways"]} == {"free"}
    assert e.reason.endswith("; possible if the first or the second may change freely")
    assert "möglich, wenn sich das Erste oder der Wert von „b“ frei ändern darf" in e.text(language="de")


def test_a_limit_that_does_not_block_is_not_named() -> None:
    e = either().explain(ZERO, frozen=["a", "c"], ranges={"b": (0, 0.5)})[0]
    assert [way["value"] for way in e.miss["ways"]] == [["a"], ["b"]]


def test_limits_that_block_together_are_named_together() -> None:
    e = either(high=0.7).explain(ZERO, ranges={"a": (0, 0.1), "b": (0, 0.1)})[0]
    assert e.miss["ways"] == [{"limit": "free", "value": ["a", "b"]}]
    assert e.reason.endswith("; possible if the first and the second may both change freely")


# -- one change ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [{}, {"confidence": 0.7}, {"costs": {"plasma_glucose": 3.0}}, {"distance": "l2"}], ids=str
)
def test_a_proof_of_one_change_says_what_was_proven(limits: dict) -> None:
    """One change is the fewest; and no smaller change of the same number does it, tried on a fine grid."""
    explainer, rows = explainer_of("diabetes")
    batch = explainer.explain(rows.head(24), prove=True, budget=5.0, **limits)
    said = 0
    for e in batch:
        for code, word in (
            ("en", "proven: one change is the fewest"),
            ("de", "nachgewiesen: weniger als eine Änderung"),
        ):
            told = [note for note in notes(e, code) if note.startswith(word)]
            assert bool(told) == (e.success and len(e.changes) == 1 and e.proof["verdict"] == "minimal")
        if not told:
            continue
        (change,) = e.changes
        least = least_change(change, e.proof["distance_at_least"])
        assert 0 < least <= abs(Decimal(repr(change.difference)))
        said += float(least) > 0.9 * abs(change.difference)
        low, high = batch.schema[change.name].bounds
        near = np.linspace(max(low, change.old - float(least)), min(high, change.old + float(least)), 203)[1:-1]
        near = np.unique(np.round(near)) if change.feature.integer else near
        near = near[np.abs(near - change.old) < float(least) * (1 - 1e-9)]
        tried = pd.DataFrame([{**e.row, change.name: value} for value in near])
        probability = explainer.model.predict_proba(tried)[e.contrast_class]
        assert not (probability.to_numpy() >= max(0.5 + 1e-6, limits.get("confidence", 0.0))).any()
        assert Explanation.from_json(e.to_json()).notes == e.notes
    assert said > 3


def test_least_changes_are_never_rounded_up() -> None:
    def least(distance: float | None, **parts: object) -> Decimal:
        return least_change(Change(Numeric(name="f", **parts), 3, 9), distance)

    assert least(1.23456, spread=2.0) == Decimal("2.46")
    assert least(1.23456, spread=2.0, cost=4.0) == Decimal("0.617")
    assert least(7.92, spread=1.0, integer=True) == 8
    assert least(8.0, spread=1.0, integer=True) == 8  # a change of 8 is not ruled out
    assert least(123456.0, spread=1.0) == 123000
    assert least(None) == least(0.0) == least(np.nan) == 0
    assert least_change(Change(Numeric(name="f", integer=True), 2.5, 9), 7.92) == Decimal("7.91")
    assert least_change(Change(Categorical(name="c", categories=("a", "b")), "a", "b"), 1.0) == 0


def test_one_change_in_words() -> None:
    limits = Limits(1, rising=(Numeric(name="age", noun="age"),), confidence=0.6, towards="sky")
    feature = Numeric(name="age", noun="age")
    assert languages.load("en").one_change(limits, feature, "3 years") == (
        "proven: one change is the fewest there can be, and within these ranges, with age only going up, no change of "
        "age alone by less than 3 years could have led to sky with a probability of at least 60 %"
    )
    assert languages.load("de").one_change(limits, feature, "3 Jahre") == (
        "nachgewiesen: weniger als eine Änderung gibt es nicht; age: innerhalb dieser Bereiche (nur steigend: age) "
        "hätte für sich allein keine Änderung um weniger als 3 Jahre mit einer Wahrscheinlichkeit von mindestens 60 % "
        "zu „sky“ geführt"
    )
    assert languages.load("en").one_change(Limits(1), feature, "") == "proven: one change is the fewest there can be"
