"""Sentences: grammar for one, two and more changes, units, and literal truth."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

import grace
from grace import Categorical, Change, Numeric, datasets, training
from grace.text import clauses, listed, number
from problems import CASES
from reading import read

WORD = {"been": "been used", "unit": "percentage points", "unit_one": "percentage point"}
NUCLEI = Numeric(name="bare_nuclei", unit="points", unit_one="point", integer=True)
CREDIT = Numeric(name="w", phrase="the word 'credit'", more="more often", less="less often", decimals=2, **WORD)
MONEY = replace(CREDIT, phrase="the word 'money'")
AGE = Numeric(name="age", phrase="the patient", unit="years", unit_one="year", more="older", less="younger")
SHADE = Numeric(name="shade", decimals=7, spread=0.5)
PURPOSE = Categorical(name="purpose", categories=("car (new)", "education"), labels={"car (new)": "a new car"})

SAID = [
    ([Change(NUCLEI, 10, 3)], "bare nuclei been 7 points lower"),
    ([Change(NUCLEI, 3, 4)], "bare nuclei been 1 point higher"),
    (
        [Change(CREDIT, 0.47, 0.225), Change(MONEY, 0.47, 0.19)],
        "the word 'credit' been used 0.245 percentage points less often "
        "and the word 'money' 0.28 percentage points less often",
    ),
    (
        [Change(AGE, 30, 31), Change(NUCLEI, 1, 2), Change(CREDIT, 0, 0.3)],
        "the patient been 1 year older, bare nuclei 1 point higher "
        "and the word 'credit' been used 0.3 percentage points more often",
    ),
    ([Change(PURPOSE, "education", "car (new)")], "purpose been a new car"),
    (
        [Change(PURPOSE, "car (new)", "education"), Change(AGE, 30, 40)],
        "purpose been education and the patient been 10 years older",
    ),
    ([Change(SHADE, 0.2777779, 0.35)], "shade been 0.35 instead of 0.2777779"),
    ([Change(SHADE, -0.2, 0.1)], "shade been 0.3 higher"),
    ([Change(SHADE, 0.1, -0.2777)], "shade been 0.3777 lower"),
    ([Change(NUCLEI, 0, 123456)], "bare nuclei been 123,456 points higher"),
]


@pytest.mark.parametrize(("changes", "said"), SAID, ids=lambda p: p if isinstance(p, str) else "")
def test_clauses(changes: list[Change], said: str) -> None:
    assert listed(clauses(changes)) == said


def test_numbers_are_plain() -> None:
    said = [number(Decimal(n)) for n in ("0.00001", "1E+3", "9999", "10000", "1234567.5", "-3", "0")]
    assert said == ["0.00001", "1000", "9999", "10,000", "1,234,567.5", "\N{MINUS SIGN}3", "0"]


def test_difference_is_exact() -> None:
    assert Change(SHADE, 0.1, 0.3).difference == 0.2
    assert Change(PURPOSE, "education", "car (new)").difference is None


@pytest.mark.parametrize("name", ["cancer95", "spam", "german_credit", "segment", "diabetes"])
def test_every_sentence_is_literally_true(name: str) -> None:
    """Read back and typed into the model, it gives the class it promises."""
    table = datasets.load(name)
    model = training.fit(table, max_epochs=15)
    parts = table.split(0)
    explainer = grace.Explainer(model, parts.train)
    batch = explainer.explain(model.impute(parts.test).head(60))
    assert batch.success.mean() > 0.5
    for e in batch:
        if e.success:
            row, label = read(e.text(), e, batch.schema)
            assert row == e.contrast
            assert model.predict([row])[0] == label == e.contrast_class
        else:
            assert e.text().startswith("The model ")


def test_style() -> None:
    e = CASES[0].explainer().explain(CASES[0].rows)[0]
    assert e.text("exact") == str(e)
    with pytest.raises(grace.GraceError, match="style"):
        e.text("poem")
