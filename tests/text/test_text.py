"""Sentences: grammar for one, two and more changes, units, and literal truth."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import grace
from explained import made
from grace import Categorical, Change, Numeric, datasets
from grace.text import languages, precision, sentence
from grace.text.languages import listed
from grace.text.sentence import number
from problems import CASES

pytestmark = pytest.mark.quick

WORD = {"been": "been used", "unit": "percentage points", "unit_one": "percentage point"}
NUCLEI = Numeric(name="bare_nuclei", unit="points", unit_one="point", integer=True)
CREDIT = Numeric(name="w", phrase="the word 'credit'", more="more often", less="less often", decimals=2, **WORD)
MONEY = replace(CREDIT, name="m", phrase="the word 'money'")
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
        "the patient been 1 year older and bare nuclei 1 point higher, "
        "and had the word 'credit' been used 0.3 percentage points more often",
    ),
    (
        [Change(CREDIT, 0, 0.3), Change(AGE, 30, 31)],
        "the word 'credit' been used 0.3 percentage points more often and had the patient been 1 year older",
    ),
    ([Change(PURPOSE, "education", "car (new)")], "purpose been a new car instead of education"),
    (
        [Change(PURPOSE, "car (new)", "education"), Change(AGE, 30, 40)],
        "purpose been education instead of a new car and the patient 10 years older",
    ),
    ([Change(SHADE, 0.2777779, 0.35)], "shade been 0.35 instead of about 0.2778"),
    ([Change(SHADE, 0.35000001, 0.35)], "shade been 0.35 instead of 0.35000001"),  # what is shorter would be the same
    ([Change(SHADE, 12121.5446, 3.27)], "shade been 3.27 instead of about 12,122"),
    (
        [Change(NUCLEI, 10, 3), Change(SHADE, 0.2777779, 0.35)],
        "bare nuclei been 3 points instead of 10 and shade 0.35 instead of about 0.2778",
    ),
    (
        [Change(AGE, 53, 33), Change(CREDIT, 0.123456, 0.3), Change(MONEY, 0.47, 0.19)],
        "the patient been 33 years old instead of 53, and had the word 'credit' been used at a rate of 0.3 % instead "
        "of about 0.1235 % and the word 'money' at a rate of 0.19 % instead of 0.47 %",
    ),
    ([Change(SHADE, -0.2, 0.1)], "shade been 0.3 higher"),
    ([Change(SHADE, 0.1, -0.2777)], "shade been 0.3777 lower"),
    ([Change(NUCLEI, 0, 123456)], "bare nuclei been 123,456 points higher"),
]


@pytest.mark.parametrize(("changes", "said"), SAID, ids=lambda p: p if isinstance(p, str) else "")
def test_clauses(changes: list[Change], said: str) -> None:
    assert spoken(changes) == f"Had {said}, the model would have classified the row as Y rather than X"


def test_numbers_are_plain() -> None:
    said = [number(Decimal(n)) for n in ("0.00001", "1E+3", "9999", "10000", "1234567.5", "-3", "0")]
    assert said == ["0.00001", "1000", "9999", "10,000", "1,234,567.5", "\N{MINUS SIGN}3", "0"]


def test_difference_is_exact() -> None:
    assert Change(SHADE, 0.1, 0.3).difference == 0.2
    assert Change(PURPOSE, "education", "car (new)").difference is None


def spoken(changes: list[Change], style: str = "exact", code: str = "en", form: str = "had", place: int = 0) -> str:
    """The sentence about some changes, by one template; where nothing else is said, each number may as well go on to
    the end of its range."""
    changes = [replace(c, span=c.span or c.feature.bounds) if isinstance(c.feature, Numeric) else c for c in changes]
    row = {c.name: c.old for c in changes}
    e = made(grace.Schema(features=tuple(c.feature for c in changes)), row, tuple(changes), ("Y", "X"), {})
    return sentence.main_clause(e, form, place, style, code)


# -- the three degrees ----------------------------------------------------------------------------------

LENGTH = Numeric(
    name="run", phrase="the longest run", unit="characters", more="longer", less="shorter", low=0, high=999
)
OFTEN = replace(CREDIT, kind="share", low=0, high=99)
LEVEL = Numeric(name="level", low=0, high=99, decimals=2)
THERE = Numeric(name="n", phrase="there", unit="bare nuclei", unit_one="bare nucleus", more="more", less="fewer")
NUCLEOLI = replace(THERE, name="m", unit="nucleoli", unit_one="nucleolus", plural=True)
COUNTED = replace(THERE, low=0, high=99, kind="count", plural=True)

DEGREES = [
    (OFTEN, 0.47, 0.94, "magnitude", "the word 'credit' been used twice as often"),
    (OFTEN, 0.47, 0.9, "magnitude", "the word 'credit' been used about twice as often"),
    (OFTEN, 0.9, 0.3, "magnitude", "the word 'credit' been used a third as often"),
    (OFTEN, 0.9, 0.4, "magnitude", "the word 'credit' been used about half as often"),
    (OFTEN, 0, 0.31, "magnitude", "the word 'credit' been used about 0.3 percentage points more often"),
    (OFTEN, 0.31, 0, "magnitude", "the word 'credit' been used about 0.3 percentage points less often"),
    (OFTEN, 0.1, 2, "magnitude", "the word 'credit' been used more than ten times as often"),
    (OFTEN, 2, 0.1, "magnitude", "the word 'credit' been used less than a tenth as often"),
    (OFTEN, 2, 2.1, "magnitude", "the word 'credit' been used slightly more often"),
    (OFTEN, 2, 2.5, "magnitude", "the word 'credit' been used a quarter more often"),
    (OFTEN, 2, 2.5, "relative", "the word 'credit' been used more often"),
    (LEVEL, 3, 1.5, "magnitude", "level been half as high"),
    (replace(LEVEL, low=-1), 3, 1.5, "magnitude", "level been 1.5 lower"),
    (replace(LEVEL, kind="score"), 3, 1.5, "magnitude", "level been 1.5 lower"),
    (replace(LEVEL, kind="date", more="later", high=999), 300, 455, "magnitude", "level been about 150 later"),
    (LENGTH, 200, 52, "magnitude", "the longest run been about a quarter as long"),
    (replace(LENGTH, low=-1), 200, 52, "magnitude", "the longest run been about 150 characters shorter"),
    (replace(LENGTH, more="lengthier"), 200, 52, "magnitude", "the longest run been about 150 characters shorter"),
    (SHADE, 0.2777779, 0.35, "magnitude", "shade been about 0.07 higher"),
    (SHADE, -3, 2, "relative", "shade been higher"),
    (THERE, 3, 12, "exact", "there been 9 more bare nuclei"),
    (THERE, 3, 2, "exact", "there been 1 fewer bare nucleus"),
    (THERE, 3, 2, "relative", "there been fewer bare nuclei"),
    (COUNTED, 3, 6, "magnitude", "there been twice as many bare nuclei"),
    (PURPOSE, "education", "car (new)", "relative", "purpose been a new car instead of education"),
]


NARROW = [
    (LEVEL, 10, 30, (29.5, 41), "relative", "had", "Had level been between 29.5 and 41,"),
    (LEVEL, 30, 10, (5, 12), "relative", "had", "Had level been between 5 and 12,"),
    (LEVEL, 10, 30, (30, 99), "relative", "had", "Had level been higher,"),
    (LEVEL, 10, 30, (30, 30), "relative", "had", "Had level been 20 higher,"),
    (LEVEL, 10, 30, None, "relative", "had", "Had level been 20 higher,"),
    (LEVEL, 10, 30, (29.12345, 41.98765), "relative", "had", "Had level been between 29.13 and 41.98,"),
    (LEVEL, 10, 30, (29.5, 41), "relative", "because", "because level was not between 29.5 and 41"),
    (LEVEL, 10, 20.5, (20, 41), "magnitude", "had", "Had level been about twice as high,"),
    (LEVEL, 10, 20.5, (20.2, 41), "magnitude", "had", "Had level been 10.5 higher,"),
    (LEVEL, 10, 20.5, None, "magnitude", "had", "Had level been 10.5 higher,"),
    (LEVEL, 10, 10.5, (10.4, 11), "magnitude", "had", "Had level been 0.5 higher,"),
    (LEVEL, 10, 10.5, (10.4, 11.3), "magnitude", "had", "Had level been slightly higher,"),
    (LEVEL, 0.5, 20, (19, 99), "magnitude", "had", "Had level been about 20 higher,"),
    (LEVEL, 0.5, 20, (4, 99), "magnitude", "had", "Had level been more than ten times as high,"),
    (replace(LEVEL, integer=True), 7, 4, (4, 5), "magnitude", "had", "Had level been 3 lower,"),
    (replace(LEVEL, integer=True), 7, 4, (3, 5), "magnitude", "had", "Had level been about half as high,"),
    (AGE, 30, 35, (34, 41), "relative", "had", "Had the patient been between 34 and 41 years old,"),
    (
        OFTEN,
        0.1,
        0.3,
        (0.2, 0.5),
        "relative",
        "had",
        "Had the word 'credit' been used at a rate of between 0.2 and 0.5 %,",
    ),
]


@pytest.mark.parametrize(("feature", "old", "new", "span", "style", "form", "said"), NARROW)
def test_what_is_vague_is_said_only_if_all_of_it_does(feature, old, new, span, style, form, said) -> None:
    row = made(
        grace.Schema(features=(feature,)), {feature.name: old}, (Change(feature, old, new, span),), ("Y", "X"), {}
    )
    assert said in sentence.main_clause(row, form, 0, style, "en")


def test_beside_a_span_all_else_is_exact() -> None:
    """A span holds with the other changes as they are, so that two of them need not hold together."""
    other = replace(LEVEL, name="other")
    changes = [Change(LEVEL, 10, 30, (29.5, 41)), Change(other, 10, 30, (20, 35)), Change(DOSE, 8, 4, (0, 4))]
    assert spoken(changes, "relative").startswith(
        "Had level been between 29.5 and 41, other 20 higher and dose mg 4 mg lower,"
    )
    said = "because level was not between 29.5 and 41, other 10 instead of 30 and dose mg 8 mg instead of 4"
    assert spoken(changes, "relative", form="because").endswith(said)


def test_spans_in_german() -> None:
    said = spoken([Change(AGE_DE, 30, 35, (34, 41))], "relative", "de")
    assert said.startswith("Wäre die Patientin zwischen 34 und 41 Jahre alt gewesen,")
    assert "weil die Patientin nicht zwischen 34 und 41 Jahre alt war" in spoken(
        [Change(AGE_DE, 30, 35, (34, 41))], "relative", "de", "because"
    )


@pytest.mark.parametrize(
    ("feature", "old", "new", "style", "said"), DEGREES, ids=lambda p: p if isinstance(p, str) else ""
)
def test_degrees(feature: Numeric | Categorical, old: float, new: float, style: str, said: str) -> None:
    assert f"Had {said}, the model" in spoken([Change(feature, old, new)], style)


@pytest.mark.parametrize(
    ("kind", "parts", "style"),
    [
        ("count", {"integer": True, "observed": (0, 40)}, "exact"),
        ("score", {"integer": True, "observed": (1, 10)}, "exact"),
        ("measurement", {"integer": True, "observed": (-50, 50)}, "magnitude"),
        ("measurement", {"observed": (0, 1)}, "magnitude"),
        ("share", {"kind": "share"}, "magnitude"),
        ("date", {"kind": "date"}, "exact"),
    ],
)
def test_kinds_choose_the_degree(kind: str, parts: dict, style: str) -> None:
    feature = Numeric(name="f", **parts)
    assert feature.number_kind == kind
    assert precision.style_of(feature, "auto") == style
    assert precision.style_of(feature, None) == "exact"
    declared = replace(feature, style="relative")
    assert [precision.style_of(declared, s) for s in (None, "auto", "exact")] == ["relative", "relative", "exact"]


def test_what_is_vague_has_limits() -> None:
    """Every ratio's words cover the values next to it without a gap, and nothing too far from it."""
    limits = [low for _, low, _ in precision.RATIOS] + [precision.RATIOS[-1][2]]
    assert limits == sorted(limits)
    for (name, low, high), after in zip(precision.RATIOS, limits[1:], strict=True):
        assert high == after
        if name != "slightly":
            centre = float(precision.ratio_value(name))
            assert low < centre < high
            assert max(1 - low / centre, high / centre - 1) <= precision.MAX_ROUNDING + 1e-9
    assert ("2", 1.75, 2.25) in precision.RATIOS


@given(st.decimals("1e-9", "1e12", allow_nan=False))
def test_rounded_amounts_are_near(size: Decimal) -> None:
    near = precision.rounded(size)
    assert abs(near - size) <= Decimal("0.15") * size
    assert len(near.as_tuple().digits) <= 2


NUMBERS = st.floats(-1e9, 1e9).filter(lambda v: v == 0 or abs(v) > 1e-9).map(lambda v: Decimal(repr(v)))


@given(NUMBERS, NUMBERS)
def test_values_that_are_rounded_stay_near_and_on_their_side(old: Decimal, new: Decimal) -> None:
    assume(old != new)
    exactly, roughly = precision.exact_pair(old, new), precision.rounded_pair(old, new)
    assert exactly.new == new
    assert not exactly.about_new
    assert abs(exactly.old - old) <= abs(old) * Decimal("0.0005")
    for said in (exactly, roughly):
        assert (said.old > said.new) == (old > new)
        assert said.old != said.new
        assert (said.about_old, said.about_new) == (said.old != old, said.new != new)
        assert abs(said.old - old) <= abs(old) * Decimal("0.15")
        assert abs(said.new - new) <= abs(new) * Decimal("0.15")


@given(NUMBERS, NUMBERS)
def test_a_difference_is_said_exactly_or_not_at_all(old: Decimal, new: Decimal) -> None:
    assume(old != new)
    size = precision.short_difference(replace(SHADE, decimals=10, spread=1.0), old, new)
    assert size is None or size == abs(new - old)
    assert size is None or precision.n_digits(size) <= max(precision.DIGITS, precision.n_digits(new))


# -- because, and other languages -----------------------------------------------------------------------

DOSE = Numeric(name="dose_mg", unit="mg", unit_one="mg")
WORT = {"phrase": "das Wort „credit“", "been": "verwendet worden", "more": "häufiger", "less": "seltener"}
KERNE = {"phrase": "die Kerne", "plural": True, "unit": "Punkte", "unit_one": "Punkt"}
ALTER = {"phrase": "die Patientin", "unit": "Jahre", "unit_one": "Jahr", "more": "älter", "less": "jünger"}
ES = {"phrase": "es", "been": "gegeben", "more": "mehr", "less": "weniger", "unit": "Kerne", "unit_one": "Kern"}
ZWECK = {"phrase": "der Zweck", "labels": {"car (new)": "ein Neuwagen", "education": "eine Ausbildung"}}
CREDIT_DE = replace(CREDIT, translations={"de": {**WORT, "unit": "Prozentpunkte"}})
NUCLEI_DE, AGE_DE = replace(NUCLEI, translations={"de": KERNE}), replace(AGE, translations={"de": ALTER})
PURPOSE_DE = replace(PURPOSE, translations={"de": ZWECK})
COUNTED_DE = replace(COUNTED, translations={"de": ES})
NUCLEOLI_DE = replace(NUCLEOLI, translations={"de": {**ES, "unit": "Nukleolen"}})

FORMS = [
    ("en", "because", [Change(NUCLEI, 10, 3)], "bare nuclei was 10 points instead of 3"),
    ("en", "because", [Change(replace(NUCLEI, plural=True), 3, 4)], "bare nuclei were 3 points instead of 4"),
    (
        "en",
        "because",
        [Change(CREDIT, 0.2, 0.3), Change(MONEY, 0.5, 0.3)],
        "the word 'credit' was used at a rate of 0.2 % instead of 0.3 % "
        "and the word 'money' at a rate of 0.5 % instead of 0.3 %",
    ),
    ("en", "because", [Change(SHADE, 0.2777779, 0.35)], "shade was about 0.2778 instead of 0.35"),
    ("en", "because", [Change(PURPOSE, "education", "car (new)")], "purpose was education instead of a new car"),
    ("en", "because", [Change(COUNTED, 12, 3)], "there were 12 bare nuclei instead of 3"),
    ("en", "because", [Change(replace(LEVEL, been="cost"), 3, 4)], "level had cost 3 instead of 4"),
    (
        "en",
        "had",
        [Change(COUNTED, 3, 12), Change(NUCLEOLI, 2, 1)],
        "there been 9 more bare nuclei and 1 fewer nucleolus",
    ),
    ("de", "had", [Change(DOSE, 3, 1.5)], "Wäre der Wert von „dose_mg“ um 1,5 niedriger gewesen"),
    ("de", "had", [Change(AGE_DE, 30, 31)], "Wäre die Patientin um 1 Jahr älter gewesen"),
    ("de", "had", [Change(NUCLEI_DE, 0, 12345)], "Wären die Kerne um 12.345 Punkte höher gewesen"),
    ("de", "had", [Change(COUNTED_DE, 3, 12)], "Hätte es 9 Kerne mehr gegeben"),
    (
        "de",
        "had",
        [Change(COUNTED_DE, 3, 12), Change(NUCLEOLI_DE, 4, 2)],
        "Hätte es 9 Kerne mehr und 2 Nukleolen weniger gegeben",
    ),
    (
        "de",
        "had",
        [Change(PURPOSE_DE, "education", "car (new)")],
        "Wäre der Zweck ein Neuwagen und nicht eine Ausbildung gewesen",
    ),
    (
        "de",
        "had",
        [Change(AGE_DE, 30, 31), Change(NUCLEI_DE, 3, 2), Change(CREDIT_DE, 0.5, 0.25)],
        "Wäre die Patientin um 1 Jahr älter gewesen "
        "und das Wort „credit“ um 0,25 Prozentpunkte seltener verwendet worden "
        "und wären die Kerne um 1 Punkt niedriger gewesen",
    ),
    (
        "de",
        "because",
        [Change(CREDIT_DE, 0.2, 0.3)],
        "das Wort „credit“ mit einem Anteil von 0,2 % statt 0,3 % verwendet wurde",
    ),
    (
        "de",
        "because",
        [Change(AGE_DE, 31, 30), Change(NUCLEI_DE, 3, 2), Change(PURPOSE_DE, "education", "car (new)")],
        "die Patientin 31 Jahre alt statt 30 und der Zweck eine Ausbildung und nicht ein Neuwagen war "
        "sowie die Kerne 3 Punkte statt 2 waren",
    ),
    ("de", "because", [Change(SHADE, -1, 0.35)], "der Wert von „shade“ −1 statt 0,35 war"),
    ("de", "because", [Change(COUNTED_DE, 12, 3)], "es 12 Kerne statt 3 gegeben hat"),
]


@pytest.mark.parametrize(("code", "form", "changes", "said"), FORMS, ids=lambda p: p if isinstance(p, str) else "")
def test_forms_and_languages(code: str, form: str, changes: list[Change], said: str) -> None:
    whole = {
        ("en", "had"): f"Had {said}, the model would have classified the row as Y rather than X",
        ("en", "because"): f"The model classified the row as X rather than Y because {said}",
        ("de", "had"): f"{said}, hätte das Modell die Zeile als „Y“ statt als „X“ eingestuft",
        ("de", "because"): f"Das Modell hat die Zeile als „X“ statt als „Y“ eingestuft, weil {said}",
    }
    assert spoken(changes, code=code, form=form) == whole[code, form]


@pytest.mark.parametrize("code", languages.names())
def test_a_language_has_all_it_needs(code: str) -> None:
    language = languages.load(code)
    for part in (p for p in vars(languages.Language) | languages.Language.__annotations__ if not p.startswith("_")):
        assert hasattr(language, part), part
    assert set(language.TEMPLATES) == set(languages.FORMS)
    assert set(language.SCREEN) == {"feature", "is", "would", "or", "note", "along", "alone", "points", "more"}


def test_no_other_module_names_a_language() -> None:
    """A third language is one more file."""
    home = Path(languages.__file__).parent
    for file in home.parents[1].rglob("*.py"):
        if home not in file.parents and file.name != "words.py":
            assert not re.search(r"""(?<!lang=)["'](en|de)["']""", file.read_text()), file


def test_a_third_language_is_one_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xx").mkdir()
    for file in (Path(languages.__file__).parent / "en").glob("*.py"):
        words = file.read_text().replace("the model", "the machine").replace("languages.en.", "languages.xx.")
        (tmp_path / "xx" / file.name).write_text(words)
    for where in ("grace.text.languages.__path__", "grace.schema.words.LANGUAGES"):
        monkeypatch.setattr(where, [*languages.__path__, str(tmp_path)])
    e = CASES[0].explainer().explain(CASES[0].rows)[0]
    try:
        assert "xx" in languages.names()
        assert e.text(language="xx") == e.text().replace("the model", "the machine")
    finally:
        languages.load.cache_clear()
        for name in [name for name in sys.modules if name.startswith("grace.text.languages.xx")]:
            sys.modules.pop(name)


@pytest.mark.parametrize("name", ["age", "F04[C-N]", "C%", "income (USD)", "x.1", "band_width", "SO₂-content"])
def test_usual_names_are_said_as_they_are(name: str) -> None:
    assert languages.load("en").named(name) == name.replace("_", " ")


@pytest.mark.parametrize("name", ["a, b", "salt and pepper", "", " x", "<script>", "has_been", 'the "one"'])
def test_names_that_would_be_misread_are_quoted(name: str) -> None:
    assert languages.load("en").named(name) == f"“{name}”"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.63, "63 %"), (0.9996, "more than 99 %"), (0.002, "less than 1 %"), (0.501, "just over 50 %"), (0.5, "50 %")],
)
def test_how_sure(share: float, said: str) -> None:
    assert languages.load("en").sure(share, then=True) == f" (the model would then have been {said} sure)"


def test_lists() -> None:
    assert listed(["a"], "and") == "a"
    assert listed(["a", "b", "c"], "and") == "a, b and c"
    assert listed(["a, or b", "c", "d"], "and") == "a, or b; c; and d"
    assert listed(["1,000 more", "c"], "and") == "1,000 more and c"


# -- choosing -------------------------------------------------------------------------------------------


def test_style() -> None:
    e = CASES[0].explainer().explain(CASES[0].rows)[0]
    assert e.text("exact") == str(e) == e.text(seed=0, template="had", language="en")
    for wrong in ({"style": "poem"}, {"language": "xx"}, {"template": "ode"}):
        with pytest.raises(grace.GraceError, match=next(iter(wrong))):
            e.text(**wrong)


def test_seeds_vary_the_template_and_nothing_else() -> None:
    explainer = CASES[0].explainer()
    batch = explainer.explain(CASES[0].rows)
    drawn = {e.text(seed=seed) for e in batch for seed in range(1, 12)}
    assert len(drawn) > len(batch)
    for seed in range(12):
        assert [e.text(seed=seed) for e in batch] == [e.text(seed=seed) for e in explainer.explain(CASES[0].rows)]
        for e in batch:
            assert e.text(template="had", seed=seed).split()[0] in ("Had", "If", "The")
            assert "ecause " in e.text(template="because", seed=seed)
    assert batch.to_frame(template="because", language="de")["text"].str.contains("weil").all()
    assert list(batch.to_frame()["text"]) == [e.text() for e in batch]


def test_there_has_a_verb_of_its_own() -> None:
    """ "words were 2 lower and there 2 more cells" would be no English."""
    words = Numeric(name="words", plural=True)
    cells = Numeric(name="cells", phrase="there", plural=True, unit="cells", unit_one="cell", more="more", less="fewer")
    schema = grace.Schema(features=(words, cells), classes=("yes", "no"))
    changes = (Change(words, 0, 1), Change(cells, 1, 0))
    e = made(schema, {"words": 0.0, "cells": 1.0}, changes, ("yes", "no"), {"words": 2.0, "cells": -1.0})
    assert "because words were 2 lower and there were 2 more cells than is typical" in e.text(template="typical")


def test_typical_is_said_where_it_is_so() -> None:
    """The medians are those of rows that the model puts into class Y, and with them the model says Y."""
    explainer = CASES[0].explainer()
    said = explainer.model.predict(explainer.schema.decode(explainer.background_rows))
    frame = explainer.schema.decode(explainer.background_rows)
    batch = explainer.explain(CASES[0].rows)
    assert any(e.typical for e in batch)
    for e in batch:
        if e.typical:
            usual = frame[said == e.contrast_class].quantile(0.5, interpolation="lower")
            assert e.typical == {c.name: usual[c.name] for c in e.changes}
            assert explainer.model.predict([{**e.row, **e.typical}])[0] == e.contrast_class
        fits = sentence.comparable(e)
        assert ("is typical of rows in the class" in e.text(template="typical")) == fits
    away = replace(batch[0], typical={c.name: c.old for c in batch[0].changes})
    assert not sentence.comparable(away)
    assert "typical" not in away.text(template="typical")


MISSES = [
    {"why": "already"},
    *(
        {"why": "none", "proven": p, "method": "search", "most": m, "domain": d, "ways": w}
        for p, m, d, w in [
            (True, 1, "central", []),
            (False, 5, "minmax", [{"limit": "max_features", "value": 7}, {"limit": "gamma", "value": 0.6}]),
            (False, 2, 0.9, [{"limit": "free", "value": ["a", "b"]}, {"limit": "confidence"}]),
            (False, 2, "central", [{"limit": "against", "value": "r"}, {"limit": "domain", "value": "minmax"}]),
            (False, 2, "central", [{"limit": "method", "value": "search"}]),
        ]
    ),
]


@pytest.mark.parametrize("miss", MISSES)
def test_reasons_in_every_language(miss: dict) -> None:
    """Nothing of one language is left in another."""
    e = replace(CASES[0].explainer().explain(CASES[0].rows)[0], success=False, contrast_class=None, miss=miss)
    english, german = e.text(), e.text(language="de")
    assert english == f"The model classified the row as no; {e.reason}."
    assert german.startswith("Das Modell hat die Zeile als „no“ eingestuft; ")
    left = set(re.findall(r"[a-z]{3,}", english)) & set(re.findall(r"[a-z]{3,}", german))
    assert not left
    assert grace.Explanation.from_json(e.to_json()).text(language="de") == german


def test_notes_in_every_language() -> None:
    e = CASES[0].explainer().explain(pd.DataFrame([[-1.0, 0, 99.5]], columns=list("abc")))[0]
    assert sentence.notes(e, "de") == (
        "der Wert von „c“ ist 99,5 und liegt außerhalb des erlaubten Bereichs von −4 bis 4",
    )
    assert grace.Explanation.from_json(e.to_json()).notes == e.notes


# -- schemas --------------------------------------------------------------------------------------------


def test_a_schema_in_another_language() -> None:
    """Its own words are used for its own language, and nothing of them for others."""
    own = grace.Schema(
        features=(Numeric(name="x", phrase="das Gewicht", unit="Gramm"), Numeric(name="y")),
        language="de",
        row="den Brief",
    )
    e = made(own, {"x": 1.0, "y": 2.0}, (Change(own["x"], 1.0, 3.5), Change(own["y"], 2.0, 1.0)), ("Y", "X"), {})
    assert e.text() == (
        "Wäre das Gewicht um 2,5 Gramm höher und der Wert von „y“ um 1 niedriger gewesen, "
        "hätte das Modell den Brief als „Y“ statt als „X“ eingestuft."
    )
    english = "Had x been 2.5 higher and y 1 lower, the model would have classified the row as Y rather than X."
    assert e.text(language="en") == english
    assert grace.Explanation.from_json(e.to_json()) == e


def test_translations_are_checked_and_kept() -> None:
    schema = grace.Schema(features=(NUCLEI, PURPOSE)).translate("de", {"row": "x", "features": {"purpose": ZWECK}})
    assert grace.Schema.from_json(schema.to_json()) == schema
    assert schema.translate("fr", {"row": "la ligne"}).translations["de"] == {"row": "x"}
    for words, wrong in (({"colour": 1}, "colour"), ({"features": {"nobody": {}}}, "nobody")):
        with pytest.raises(grace.GraceError, match=wrong):
            schema.translate("de", words)
    with pytest.raises(grace.GraceError, match=r"bare_nuclei.*'de'.*'labels'"):
        schema.translate("de", {"features": {"bare_nuclei": {"labels": {}}}})


@pytest.mark.parametrize("part", ["kind", "style"])
def test_unknown_kinds_and_styles(part: str) -> None:
    with pytest.raises(grace.GraceError, match=f"'f': {part}='odd'"):
        Numeric(name="f", **{part: "odd"})


@pytest.mark.parametrize("kind", ["count", "date", ""])
def test_kinds_survive_json(kind: str) -> None:
    schema = grace.Schema(features=(Numeric(name="f", kind=kind, style="relative", low=0, high=1),))
    assert grace.Schema.from_json(schema.to_json()) == schema
    assert schema.to_dict()["features"][0]["kind"] == (kind or "numeric")


@pytest.mark.parametrize("name", datasets.names())
def test_embedded_tables_speak_german(name: str) -> None:
    """Every feature, class and category has words of its own, and no two share them."""
    schema = datasets.load(name).declared
    words = schema.translations["de"]
    assert set(words["class_words"]) == {str(c) for c in schema.classes}
    phrases = [f.translations["de"]["phrase"] for f in schema.features]
    assert len(set(phrases)) == len(phrases)
    for f in schema.features:
        if isinstance(f, Categorical):
            labels = f.translations["de"]["labels"]
            assert set(labels) == {str(c) for c in f.categories}
            assert len(set(labels.values())) == len(labels)
        else:
            assert bool(f.unit) == bool(f.translations["de"].get("unit"))
