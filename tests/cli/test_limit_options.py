"""Columns, ranges and costs as people type them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grace import Categorical, GraceError, Numeric, Schema
from grace.cli.limit_options import LimitOptions, column_list

SCHEMA = Schema(
    features=(
        Numeric(name="age", low=0, high=120, integer=True),
        Numeric(name="a=b", low=-9, high=9),
        Numeric(name="x,y", low=-9, high=9),
        Numeric(name="p:q", low=-9, high=9),
        Numeric(name="since", kind="date", dtype="datetime64[ns]", low=0, high=30000),
        Categorical(name="job", categories=("cook", "spy", "a|b", "one, two")),
        Categorical(name="code", categories=(1, 2, 3)),
    )
)


def limits(**given: str | tuple[str, ...]) -> dict:
    every = dict.fromkeys(("frozen", "only", "protected", "increase_only", "decrease_only", "range", "cost"), ())
    named = {k: (v,) if isinstance(v, str) else v for k, v in given.items()}
    return LimitOptions(**every | named).of(SCHEMA)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("age",), ["age"]),
        (("age,job",), ["age", "job"]),
        (("age, job", "code"), ["age", "job", "code"]),
        (("x,y",), ["x,y"]),
        (("age", "x,y"), ["age", "x,y"]),
        (("age,age", "age,"), ["age"]),
    ],
)
def test_lists_of_columns(given: tuple[str, ...], expected: list[str]) -> None:
    for part in ("frozen", "only", "protected"):
        assert limits(**{part: given}) == {part: expected}


def test_a_list_of_nothing_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="--only"):
        limits(only=" , ")
    with pytest.raises(GraceError, match="no feature 'nobody'"):
        limits(frozen="age,nobody")
    with pytest.raises(click.BadParameter, match="--follow"):
        column_list(("",), ["a"], "--follow")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("age=18:30", {"age": [18, 30]}),
        ("age=:30", {"age": [None, 30]}),
        ("age = 18:", {"age": [18, None]}),
        ("age=-1.5:1e2", {"age": [-1.5, 100]}),
        ("a=b=1:2", {"a=b": [1, 2]}),
        ("x,y=1:2", {"x,y": [1, 2]}),
        ("p:q=1:2", {"p:q": [1, 2]}),
        ("since=2020-01-01:2020-02-01", {"since": [18262, 18293]}),
        ("since=:2020-01-01", {"since": [None, 18262]}),
        ("since=2020-01-01 12:00:00:", {"since": [18262.5, None]}),
        ("job=cook|spy", {"job": ["cook", "spy"]}),
        ("job=a|b", {"job": ["a|b"]}),
        ("job=one, two|cook", {"job": ["one, two", "cook"]}),
        ("code=1|3", {"code": [1, 3]}),
        ("age=18:30,job=cook,x,y=1:", {"age": [18, 30], "job": ["cook"], "x,y": [1, None]}),
        (("age=18:30", "job=spy"), {"age": [18, 30], "job": ["spy"]}),
    ],
)
def test_ranges(given: str, expected: dict) -> None:
    found = limits(range=given)["ranges"]
    assert found == expected
    assert SCHEMA.constrain(ranges=found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"range": "age"}, "--range 'age': write it as column=low:high.*'age', 'a=b'"),
        ({"range": "nobody=1:2"}, "'nobody=1:2'.*columns: 'age'"),
        ({"range": "age=5"}, "--range age=5: write it as age=low:high"),
        ({"range": "age=:"}, "at least one end"),
        ({"range": "age=a:b"}, "'age'.*not a number"),
        ({"range": "age=nan:"}, "'age'.*not a finite number"),
        ({"range": "since=soon:"}, "'since'.*not a date"),
        ({"range": "job=clown"}, "'job': unknown category 'clown'.*'cook'"),
        ({"range": ("age=1:2", "age=3:4")}, "'age' is given twice"),
        ({"cost": "age"}, "--cost 'age': write it as column=2"),
        ({"cost": "age=much"}, "--cost age=much: give a positive number"),
        ({"cost": "age=-1"}, "positive"),
        ({"cost": "age=inf"}, "positive"),
    ],
)
def test_what_cannot_be_read_names_the_option(given: dict, said: str) -> None:
    with pytest.raises(GraceError, match=said):
        limits(**given)


def test_costs() -> None:
    assert limits(cost=("age=2,job=0.5", "a=b=3")) == {"costs": {"age": 2.0, "job": 0.5, "a=b": 3.0}}
    assert limits() == {}


@given(st.lists(st.sampled_from(SCHEMA.names), unique=True, min_size=1))
def test_commas_and_repetition_mean_the_same(names: list[str]) -> None:
    plain = [n for n in names if "," not in n]
    assert limits(only=tuple(names))["only"] == names
    if plain:
        assert limits(only=",".join(plain)) == limits(only=tuple(plain))
