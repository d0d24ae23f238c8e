"""Texts about profiles, reasons and sufficient reasons, in English and German: read back, they are literally true."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from decision_cases import network_case, tree_case
from decision_reference import AllRows
from grace.explain.decisions.profile import Profile
from grace.explain.decisions.reasons import Reasons
from grids import explainer_of, grid
from subsets import first

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBER = r"[−-]?\d[\d,]*(?:\.\d+)?"
GERMAN = r"[−-]?\d[\d.]*(?:,\d+)?"
SIZES = {
    "en": (r"features? alone", r"pairs? of features together", r"sets? of three together", r"sets? of four together"),
    "de": (r"Merkmale? allein", r"Paare? zusammen", r"(?:Satz|Sätze) von drei zus", r"(?:Satz|Sätze) von vier zus"),
}


def number(text: str, language: str) -> float:
    if language == "de":
        text = text.replace(".", "").replace(",", ".")
    return float(text.replace(",", "").replace("−", "-"))


def allowed(text: str, value: float, language: str) -> bool:
    """Whether the words in brackets allow a number: "at most 3", "at least 8 or between 2 and 4", "5"."""
    most, least, between, any_, digits = {
        "en": ("at most", "at least", "between {0} and {0}", "any other value", NUMBER),
        "de": ("höchstens", "mindestens", "zwischen {0} und {0}", "jeder andere Wert", GERMAN),
    }[language]
    if any_ in text:
        return True
    found = False
    for low, high in re.findall(between.format(f"({digits})"), text):
        found |= number(low, language) <= value <= number(high, language)
    rest = re.sub(between.format(digits), "", text)
    for word, bound in re.findall(f"({most}|{least})? ?({digits})", rest):
        limit = number(bound, language)
        found |= value <= limit if word == most else value >= limit if word == least else value == limit
    return found


def check_profile(profile: Profile, true: AllRows, language: str) -> None:
    text = profile.text(language=language)
    flips, cannot = profile.with_verdict("flips"), profile.with_verdict("cannot")
    assert bool(cannot) == (("proven" if language == "en" else "nachgewiesen") in text), text
    for f in flips[:5]:
        said = re.search(rf"(?<!\w){f.name}“? \((.*?)\)(?:,| and| und|\.|$)", text)
        assert said is not None, (f.name, text)
        values, reach = true.alone(f.name)
        for value, flip in zip(values, reach, strict=True):
            if isinstance(f.feature, grace.Categorical):
                label = str(f.feature.categories[int(value)])
                assert (label in re.findall(r"\w+", said[1])) == flip, (f.name, text)
            else:
                assert allowed(said[1], float(value), language) == flip, (f.name, value, text)
    if len(flips) > 1 and language == "en":
        assert f" {WORDS[len(flips)]} of the " in text


def check_reasons(reasons: Reasons, true: AllRows, language: str) -> None:
    """Counts by size are those of the grid."""
    text, minimal = reasons.text(language=language), true.minimal(true.reach)
    proven = ("proven" if language == "en" else "nachgewiesen") in text
    assert proven == (reasons.complete_to > 0), text
    for size, words in enumerate(SIZES[language][: reasons.max_features], 1):
        found = re.search(rf"(\w+) {words}", text)
        count = 0 if found is None else said_count(found[1])
        assert count == sum(len(s) == size for s in minimal), (size, minimal, text)


def said_count(word: str) -> int:
    return WORDS.index(word) if word in WORDS else 1 if word == "ein" else int(word)


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("seed", first(10, range(40)))
def test_grids_are_described_as_they_are(seed: int, language: str) -> None:
    asked = network_case(seed)
    if not asked.exact:
        pytest.skip("not everything can be proven")
    batch = asked.batch
    for i, (profile, reasons) in enumerate(zip(batch.profile(), batch.reasons(3, seconds=20.0), strict=True)):
        if not batch.answers.trivial[i]:
            check_profile(profile, asked.true[i], language)
            check_reasons(reasons, asked.true[i], language)


@pytest.mark.parametrize("seed", first(6, range(30)))
def test_proven_is_said_of_trees_only_if_it_is(seed: int) -> None:
    asked = tree_case(seed)
    for profile, reasons, because in zip(
        asked.batch.profile(), asked.batch.reasons(2), asked.batch.because(), strict=True
    ):
        if profile.about.already:
            continue
        assert ("proven" in profile.text()) == bool(profile.with_verdict("cannot"))
        assert ("proven" in reasons.text()) == (reasons.complete_to > 0)
        assert ("No fewer" in because.text()) == because.smallest
        assert not because.undecided or "is open" in because.text()


def test_a_sufficient_reason_names_values_of_the_row() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(5)
    for (_, row), reason in zip(frame.iterrows(), explainer.because(frame), strict=True):
        for name in reason.features if len(reason.features) <= 5 else ():
            said = str(row[name]).replace("-", "−")
            assert f"{name} ({said})" in reason.text()
            assert f"„{name}“ (" in reason.text(language="de")


def test_frozen_features_are_a_condition_of_what_is_proven() -> None:
    explainer, frame = explainer_of(grid(0), 0), grid(0).head(3)
    for reasons in explainer.reasons(frame, frozen=["d"]):
        assert "that may change" in reasons.text()
        assert "änderbare" in reasons.text(language="de")
    for reasons in explainer.reasons(frame):
        assert "that may change" not in reasons.text()


def test_a_more_probable_class_of_two_is_named() -> None:
    """Two classes, of which the row's own is asked for with more confidence: nothing would have changed it."""
    explainer, frame = explainer_of(grid(1), 1, classes=2, tilt=0.3), grid(1)
    own = explainer.model.predict(frame)
    rows = frame[own == "c0"].head(6)
    batch = explainer.explain(rows, against="c0", confidence=0.97)
    assert not batch.answers.trivial.all()
    for profile, trivial in zip(batch.profile(), batch.answers.trivial, strict=True):
        assert trivial or "led to c0 with a probability of at least 97 %" in profile.text()


def test_values_of_a_number_flip_when_typed() -> None:
    """The ends that are printed of a continuous feature, put to the model."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(0, 2, 60).round(2), "b": rng.normal(50, 9, 60).round(1)})
    explainer = explainer_of(frame, 3, tilt=1.0)
    for i, profile in enumerate(explainer.profile(frame.head(20))):
        row, text = frame.iloc[[i]], profile.text()
        for f in profile.with_verdict("flips"):
            said = re.search(rf"{f.name} \((.*?)\)", text)
            assert said is not None
            for bound in re.findall(NUMBER, said[1]):
                typed = row.assign(**{f.name: number(bound, "en")})
                assert explainer.model.predict(typed)[0] != profile.about.original_class, (bound, text)


def test_texts_do_not_depend_on_threads() -> None:
    explainer, frame = explainer_of(grid(2), 2), grid(2).head(4)
    texts = [str(r) for r in (*explainer.profile(frame), *explainer.reasons(frame), *explainer.because(frame))]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        again = [str(r) for r in (*explainer.profile(frame), *explainer.reasons(frame), *explainer.because(frame))]
    finally:
        torch.set_num_threads(before)
    assert again == texts
