"""Which features may change: `only` beside `frozen`, and protected ones, which change only if asked for by name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grace
from explained import explainer_of
from grace import Categorical, Explanation, GraceError, Numeric, Schema
from grace.schema.limits import LIMITS
from problems import CASES

pytestmark = pytest.mark.quick

NAMES = ["age", "income", "debt", "job"]
SCHEMA = Schema(
    features=(
        Numeric(name="age", low=18, high=80, protected=True),
        Numeric(name="income", low=0, high=9),
        Numeric(name="debt", low=0, high=9, frozen=True),
        Categorical(name="job", categories=("cook", "spy"), protected=True),
    )
)


def fixed(schema: Schema) -> list[str]:
    return [f.name for f in schema.features if f.fixed]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["age", "debt", "job"]),
        ({"only": ["age"]}, ["income", "debt", "job"]),
        ({"only": ["age", "income"]}, ["debt", "job"]),
        ({"only": "income"}, ["age", "debt", "job"]),
        ({"increase_only": ["age"]}, ["debt", "job"]),
        ({"decrease_only": ["age"]}, ["debt", "job"]),
        ({"ranges": {"job": ["cook", "spy"]}}, ["age", "debt"]),
        ({"costs": {"age": 2.0}}, ["debt", "job"]),
        ({"frozen": ["income"]}, NAMES),
        ({"protected": ["income"]}, NAMES),
        ({"only": ["age", "income"], "increase_only": ["age"]}, ["debt", "job"]),
        ({"costs": {"age": 2.0}, "frozen": ["age"]}, ["age", "debt", "job"]),
    ],
)
def test_what_stays_as_it_is(limits: dict[str, Any], expected: list[str]) -> None:
    assert fixed(SCHEMA.constrain(**limits)) == expected
    assert fixed(SCHEMA) == ["age", "debt", "job"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"only": []}, "only=.. leaves no feature"),
        ({"only": ()}, "leave it out"),
        ({"only": ["nobody"]}, "no feature 'nobody'; features: 'age', 'income'"),
        ({"protected": ["nobody"]}, "no feature 'nobody'; features: 'age', 'income'"),
        ({"only": ["income"], "frozen": ["income"]}, "'income' is in only and in frozen"),
        ({"only": ["debt"]}, "'debt' is frozen in the schema"),
        *(
            ({part: ["income"] if "only" in part else {"income": span}, "protected": "income"}, f"{part} and in protec")
            for part, span in (
                ("only", 0),
                ("increase_only", 0),
                ("decrease_only", 0),
                ("ranges", (1, 2)),
                ("costs", 2.0),
            )
        ),
        ({"ranges": {"income": "12"}}, "'income'.*low, high"),
    ],
)
def test_contradictions(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(GraceError, match=said) as caught:
        SCHEMA.constrain(**limits)
    assert "\n" not in str(caught.value)


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_only_is_frozen_turned_round(only: set[str], frozen: set[str], protected: set[str]) -> None:
    """`only` leaves what freezing all others leaves, of features that the schema itself lets change."""
    free = Schema(features=tuple(replace(f, frozen=False, protected=False) for f in SCHEMA.features))
    if not only or only & (frozen | protected):
        return
    one = free.constrain(only=sorted(only), frozen=sorted(frozen), protected=sorted(protected))
    assert fixed(one) == fixed(free.constrain(frozen=sorted(set(NAMES) - only)))
    assert {f.name for f in one.features if f.protected} == protected


def test_every_unknown_setting_is_answered_with_all_that_there_are() -> None:
    explainer, rows = explainer_of("diabetes")
    with pytest.raises(GraceError, match="no setting 'frosen'") as caught:
        explainer.explain(rows.head(1), frosen=["age"])
    for name in (*vars(explainer.settings), *LIMITS, "against", "domain", "rules", "robust"):
        assert re.search(rf"\b{name}\b", str(caught.value))


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_only_holds_and_protected_features_stay(method: str) -> None:
    explainer, rows = explainer_of("diabetes")
    able = ["plasma_glucose", "body_mass_index"]
    batch = explainer.explain(rows.head(40), only=able, method=method)
    assert batch.success.any()
    assert set(batch.changed.columns[batch.changed.any()]) <= set(able)
    usual = explainer.explain(rows.head(40), method=method)
    barred = usual.changed.sum().idxmax()
    kept = explainer.explain(rows.head(40), method=method, protected=[barred])
    assert not kept.changed[barred].any()
    assert kept[0].protected == (barred,)
    same = explainer.explain(rows.head(40), method=method, frozen=[barred])
    assert (kept.answers.contrast == same.answers.contrast).all()


@pytest.fixture(scope="module")
def guarded() -> tuple[grace.Explainer, pd.DataFrame]:
    """An explainer whose schema protects the feature that changes most."""
    explainer, rows = explainer_of("diabetes")
    schema = explainer.schema.replace("plasma_glucose", protected=True)
    train = grace.datasets.load("diabetes").split(0).train
    return grace.Explainer(explainer.model, train, schema=schema), rows.head(40)


def test_a_protected_feature_changes_only_if_asked_for_by_name(guarded: tuple[grace.Explainer, pd.DataFrame]) -> None:
    own, rows = guarded
    plain, _ = explainer_of("diabetes")
    assert own.schema_for("minmax")["plasma_glucose"].protected
    assert not own.explain(rows).changed["plasma_glucose"].any()
    assert not own.explain(rows, domain="minmax", n=3).answers.changed[:, 1].any()
    asked = own.explain(rows, costs={"plasma_glucose": 1.0})
    assert (asked.answers.contrast == plain.explain(rows).answers.contrast).all()
    assert asked[0].protected == ()
    alone = own.explain(rows, only=["plasma_glucose"])
    assert alone.changed["plasma_glucose"].any()
    assert not alone.changed.drop(columns="plasma_glucose").to_numpy().any()


def test_a_saved_explainer_protects_what_it_did(guarded: tuple[grace.Explainer, pd.DataFrame], tmp_path: Any) -> None:
    own, rows = guarded
    own.save(str(tmp_path / "model"))
    again = grace.load(tmp_path / "model")
    assert again.schema["plasma_glucose"].protected
    assert (again.explain(rows).answers.contrast == own.explain(rows).answers.contrast).all()


def test_baselines_cannot_protect(guarded: tuple[grace.Explainer, pd.DataFrame]) -> None:
    own, rows = guarded
    for method in ("nearest", "deepfool"):
        with pytest.raises(GraceError, match=r"'plasma_glucose'.*protected.*search, gradient, local"):
            own.explain(rows, method=method)
        assert own.explain(rows, method=method, costs={"plasma_glucose": 1.0}).success.any()


def test_proofs_and_records_say_what_was_protected(guarded: tuple[grace.Explainer, pd.DataFrame]) -> None:
    own, rows = guarded
    several = 0
    for e in own.explain(rows, prove=True, budget=2.0):
        assert e.proof["protected"] == ["plasma_glucose"] == e.proof["frozen"]
        assert "plasma_glucose" not in e.proof["box"]
        assert e.to_dict()["protected"] == ["plasma_glucose"]
        assert Explanation.from_json(e.to_json()) == e
        if e.success and len(e.changes) > 1 and e.proof["verdict"] == "minimal":
            several += 1
            assert "with plasma glucose as it is" in e.text()
            assert "(unverändert: " in e.text(language="de")
    assert several


# -- misses ----------------------------------------------------------------------------------------

KINKED = next(c for c in CASES if c.name == "kinked")


def test_a_miss_says_that_a_feature_is_protected_and_does_not_propose_it() -> None:
    """Freeing a would help, but a is protected."""
    explainer, row = KINKED.explainer(gamma=1.0), KINKED.rows.head(1)
    frozen = explainer.explain(row, frozen=["a"])[0]
    assert "possible if a may change freely" in frozen.reason
    kept = explainer.explain(row, protected=["a"])[0]
    assert not kept.success
    assert kept.miss["ways"] == []
    assert kept.reason.endswith("nor with any one of the other limits lifted; a is protected and stays as it is")
    assert (
        Explanation.from_json(kept.to_json())
        .text(language="de")
        .endswith("; geschützt und daher unverändert: der Wert von „a“.")
    )
    both = explainer.explain(row, protected=["a"], frozen=["a", "b"])[0]
    assert not any("a" in way["value"] for way in both.miss["ways"])
    many = replace(kept, miss={**kept.miss, "protected": ["a", "b", "c", "d"]})
    assert "4 of the features are protected and stay as they are" in many.reason
    assert "geschützt und daher unverändert: 4 der Merkmale" in many.text(language="de")


def test_what_only_keeps_out_is_a_limit_to_lift() -> None:
    explainer, row = KINKED.explainer(gamma=1.0), KINKED.rows.head(1)
    others = [n for n in explainer.schema.names if n != "a"]
    miss = explainer.explain(row, only=others)[0]
    assert not miss.success
    assert {"limit": "free", "value": ["a"]} in miss.miss["ways"]
    assert "possible if a may change freely" in miss.reason
    guarded = explainer.explain(row, only=others, protected=["a"])[0]
    assert guarded.miss["ways"] == []


def test_what_was_asked_for_by_name_stays_so_when_limits_are_lifted() -> None:
    """The schema protects a; the call asks for it with a range that is too narrow, without which there is an answer."""
    case, row = KINKED, KINKED.rows.head(1)
    base = case.explainer(gamma=1.0)
    schema = Schema(features=tuple(replace(f, protected=f.name == "a") for f in base.schema.features))
    own = grace.Explainer(base.model, schema=schema, gamma=1.0)
    assert not own.explain(row)[0].success
    miss = own.explain(row, ranges={"a": (-3, -2)})[0]
    assert "possible if a may change freely" in miss.reason
    assert "protected" not in miss.reason


@settings(max_examples=25)
@given(st.data())
def test_no_way_out_names_a_protected_feature(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([c for c in CASES if not c.name.startswith("four")]))
    explainer, row = case.explainer(), case.rows.head(1)
    names = explainer.schema.names
    protected = data.draw(st.lists(st.sampled_from(names), unique=True))
    rest = [n for n in names if n not in protected]
    only = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(rest), min_size=1, unique=True))) if rest else None
    frozen = data.draw(st.lists(st.sampled_from([n for n in names if n not in (only or [])] or names), unique=True))
    if only and set(frozen) & set(only):
        return
    e = explainer.explain(row, protected=protected, only=only, frozen=frozen)[0]
    assert not {c.name for c in e.changes} & {*protected, *frozen}
    assert only is None or {c.name for c in e.changes} <= set(only)
    assert set(e.protected) == set(protected)
    for way in () if e.miss is None else e.miss.get("ways", ()):
        assert way["limit"] != "free" or (way["value"] and not set(way["value"]) & set(protected))
    assert np.isfinite(e.distance)
