"""The schema file: every edit of it counts or is refused, and none is silently ignored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grace import Categorical, GraceError, Numeric, Schema
from grace.models.base import class_codes
from grace.problem.space import Space
from grace.schema.columns import fill_value
from grace.schema.limits import looks_protected
from grace.schema.schema_file import HELP
from grace.text import languages
from grace.text.vocabulary import feature_in, row_words

N = 200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(20, 81, N),
        "dose": RNG.integers(50, 400, N) / 100,
        "job": ["clerk"] * 119 + ["cook"] * 80 + ["spy"],
        "size": pd.Categorical(RNG.choice(["s", "m", "l"], N), categories=["s", "m", "l"], ordered=True),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
        "y": RNG.choice(["no", "yes"], N),
    }
)
TEXT = Schema.infer(FRAME, "y").to_json()
FEATURES = ("age", "dose", "job", "size", "since")
KEYS = sorted({f.name for cls in (Numeric, Categorical) for f in fields(cls)} | {"kind", "data", "min", "comment"})
TOP = sorted({f.name for f in fields(Schema)} - {"features"} | {"comment"})
EDITS: dict[str, Sequence[Any]] = {
    "kind": ["count", "score", "categorical", "numeric", "xyz", 3],
    "data": [{"observed": [0, 1]}, {"rare": ["cook"]}, {"low": 3}, 3],
    "observed": [[0, 1]],
    "categories": [["cook", "clerk"], ["l", "m", "s"], ["clerk", "cook", "spy", "nun"], "cook"],
    "translations": [{"de": {"phrase": "x"}}, {"de": {"row": "x"}}, {"de": {"xyz": "x"}}, {"fr": {"phrase": "x"}}, 3],
    "classes": [["yes", "no"], ["no"], "no"],
    "class_words": [{"yes": "ja"}, {"xyz": "x"}, 3],
    "rules": [["age <= 70"], ["xyz"], 3],
    "domain": ["minmax", 0.5, "xyz", True],
    "language": ["de", "xyz", 3],
    "labels": [{"cook": "a chef"}, {"m": "middle"}, {"xyz": "x"}, 3],
    **dict.fromkeys(("never", "always", "rare", "columns"), (["cook"], ["m"], ["xyz"], "cook")),
    **dict.fromkeys(("typical", "other"), ("cook", "m", "xyz", 45.5, True)),
    **dict.fromkeys(("low", "high"), (30, 2.5, 1e9, "2021-03-05", "xyz", True, [1])),
    **dict.fromkeys(("spread", "cost", "decimals"), (1, 2, 0.5, 0, -1, "xyz", True)),
    **dict.fromkeys(
        ("frozen", "protected", "increase_only", "decrease_only", "integer", "ordered", "plural", "gaps"),
        (True, False, "true", 1, []),
    ),
}
"""By key; for any other, WORDS."""
WORDS = ["xyz", 3, ["xyz"]]


def base() -> dict[str, Any]:
    return dict(json.loads(TEXT))


def behaviour(text: str) -> list[Any]:
    """All that an explainer does with the schema of a file and this table: limits, distances, words and classes."""
    schema = Schema.infer(FRAME, like=Schema.from_json(text))
    rows = schema.encode(FRAME)
    space = Space(schema)
    numbers = [space.low, space.high, space.weight, space.fixed, space.upward, space.downward, space.spread]
    out: list[Any] = [rows.tolist(), schema.target, schema.domain, schema.rules]
    out += [t.tolist() for t in (*numbers, space.digits, space.is_integer, space.has_magnitude)]
    out.append(class_codes(FRAME["y"], schema.classes, "data").tolist())
    for f in schema.features:
        out += [fill_value(f)]
        out += [f.number_kind, f.style] if isinstance(f, Numeric) else [f.selectable, f.always, f.other]
        out += [repr(feature_in(f, schema.language, code)) for code in languages.names()]
    for code in languages.names():
        out += [row_words(schema, code), schema.language]
    return out


BEFORE = behaviour(TEXT)


def ignored(edited: dict[str, Any]) -> bool:
    """Whether an edit is accepted, but changes nothing."""
    try:
        return behaviour(json.dumps(edited)) == BEFORE
    except GraceError:
        return False


def test_the_file_is_read_back_as_it_is() -> None:
    schema = Schema.infer(FRAME, "y")
    assert Schema.from_json(TEXT) == schema
    assert Schema.from_json(TEXT).to_json() == TEXT
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize("name", FEATURES)
def test_every_edit_of_a_feature_counts_or_is_refused(name: str) -> None:
    known = Schema.infer(FRAME, "y")[name]
    silent = []
    for key in KEYS:
        for value in EDITS.get(key, WORDS):
            edited = base()
            feature = edited["features"][FEATURES.index(name)]
            before = feature.get(key, False)  # what is not written and no words is false
            same = before == value and isinstance(before, bool) == isinstance(value, bool)
            # the kind of number may be what the data suggest
            if same or (key == "kind" and isinstance(known, Numeric) and value == known.number_kind):
                continue
            feature[key] = value
            if ignored(edited):
                silent.append((key, value))
    assert silent == []


def test_every_edit_of_the_rest_counts_or_is_refused() -> None:
    silent = [(key, v) for key in TOP for v in EDITS.get(key, WORDS) if ignored(base() | {key: v})]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("age", {"observed": [0, 10]}, "'age': observed is what the data show.*edit low and high"),
        ("job", {"rare": []}, "'job': rare is what the data show.*edit always and never"),
        ("age", {"dtype": "int8"}, "dtype.*change the table"),
        ("age", {"data": {"observed": [0, 10]}}, "'age': \"data\" is what the data show.*edit low and high"),
        ("job", {"data": {"rare": ["cook"], "check": "00000000"}}, "always and never"),
        ("age", {"frozen": "false"}, "'age': frozen is 'false'; it must be true or false"),
        ("age", {"low": "18"}, "'age': low is '18'; it must be a number or null"),
        ("age", {"typical": True}, "typical"),
        ("age", {"decimals": 2}, "decimals=2 of a whole number"),
        ("age", {"categories": ["a"]}, "unknown part 'categories'; it may have .*low"),
        ("job", {"labels": {"clown": "a clown"}}, "labels has 'clown'.*'clerk', 'cook', 'spy'"),
        ("job", {"typical": "clown"}, "typical has 'clown'"),
        ("job", {"never": ["spy"], "always": ["spy"]}, "'spy' is in never and in always"),
        ("job", {"increase_only": True}, "increase_only is for ordered categories"),
        ("job", {"low": 3}, "unknown part 'low'; it may have .*never"),
        ("since", {"low": "the day before"}, "'since': low='the day before' is not a date"),
    ],
)
def test_what_is_refused_names_the_key_and_the_right_one(name: str, edit: dict[str, Any], said: str) -> None:
    edited = base()
    edited["features"][FEATURES.index(name)] |= edit
    with pytest.raises(GraceError, match=said):
        Schema.from_json(json.dumps(edited))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"language": "xx"}, "language='xx' is unknown; use one of de, en"),
        ({"class_words": {"maybe": "perhaps"}}, "class_words has 'maybe'.*'no', 'yes'"),
        ({"classes": "yes"}, "classes is 'yes'; it must be a list"),
        ({"colour": "red"}, "unknown part 'colour'; it may have .*verb"),
    ],
)
def test_other_parts_that_are_refused(edit: dict[str, Any], said: str) -> None:
    with pytest.raises(GraceError, match=said):
        Schema.from_json(json.dumps(base() | edit))


def test_what_was_written_is_for_people() -> None:
    file = base()
    age, dose, job, _, since = file["features"]
    for key in ("low", "high", "frozen", "protected", "increase_only", "decrease_only", "cost", "phrase", "unit"):
        assert key in age
    assert (age["low"], age["protected"], dose["decimals"]) == (None, False, 2)
    assert {"never", "always", "protected", "labels"} <= set(job)
    assert job["data"]["rare"] == ["spy"]
    assert since["typical"].startswith("202")
    assert since["data"]["observed"][0].startswith("2020-01-")
    explained = {name for names in HELP for name in names.split(", ")}
    assert {f.name for cls in (Numeric, Categorical, Schema) for f in fields(cls)} - explained <= {
        *("name", "observed", "rare", "dtype", "gaps")
    }
    file["help"] = "I know"
    assert Schema.from_json(json.dumps(file)) == Schema.from_json(TEXT)


def test_numbers_may_be_written_otherwise_and_dates_as_dates() -> None:
    """Programs that rewrite JSON turn 6.0 into 6."""
    schema = Schema.from_json(TEXT.replace(".0,", ",").replace(".0\n", "\n"))
    assert schema == Schema.from_json(TEXT)
    edited = base()
    edited["features"][4] |= {"low": "2021-03-05", "high": "2021-12-31 12:30"}
    since = Schema.from_json(json.dumps(edited))["since"]
    assert since.bounds == (18691, 18992) if since.integer else (18691, 18992 + 12.5 / 24)


def test_names_that_look_protected() -> None:
    names = ["Applicant_Age", "ageYears", "page", "average", "SEX", "race", "trace", "Geschlecht", "MaritalStatus"]
    names += ["dateOfBirth", "Alter", "Alternative", "message", "nationality.1", "income", "date_of_birthday_card"]
    names += ["Staatsangehörigkeit", "sexes", "foreign_worker", "foreign_key"]
    assert looks_protected(names) == [
        *("Applicant_Age", "ageYears", "SEX", "race", "Geschlecht", "MaritalStatus", "dateOfBirth", "Alter"),
        *("nationality.1", "date_of_birthday_card", "Staatsangehörigkeit", "foreign_worker"),
    ]


def test_a_day_is_the_same_however_zero_is_written() -> None:
    day = Numeric(name="day", kind="date", dtype="datetime64[ns]", observed=(-0.0, 5.0), spread=1.0, typical=-0.0)
    schema = Schema(features=(day,))
    assert Schema.from_json(schema.to_json()) == schema
