"""Whether what a sentence says is so: of the row, of the change, and of the model."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

import grace
from grace import Categorical, Explanation, Numeric, Schema
from reading import Claim, Proven, Reading, read_room, readings, typed

ABOUT_AMOUNT, ABOUT_RATIO, SLIGHTLY = Decimal("0.15"), Decimal("0.2"), Decimal("0.125")
TOGETHER = 100  # random values of all features together that are tried
GRID = 7  # values that are tried where a claim leaves several open
FOUR_DIGITS = Decimal("0.0005")  # how near a number is to itself with four significant digits


def noun(feature: Numeric | Categorical, code: str) -> str:
    """What the feature is called: by its noun, else its phrase, else its name."""
    words = feature.translations.get(code, {}) if code == "de" else vars(feature)
    plain = f"der Wert von „{feature.name}“" if code == "de" else feature.name.replace("_", " ")
    return words.get("noun") or words.get("phrase") or plain


def check(reading: Reading, e: Explanation, style: str, schema: Schema, code: str, model: grace.Model) -> None:
    """That all the reading claims is so, as vaguely as it is said."""
    assert (reading.before, reading.after) == (e.original_class, e.contrast_class)
    assert sorted(c.name for c in reading.claims) == sorted(c.name for c in e.changes)
    changes = {c.name: c for c in e.changes}
    for claim in reading.claims:
        change = changes[claim.name]
        if claim.what == "category":
            assert (claim.size, claim.old) == (change.new, change.old)
            continue
        if claim.what == "any":
            assert claim.old == change.old
            assert change.new in claim.size
            continue
        start, stop = change.old, change.new
        if reading.form == "typical":
            start, stop = e.typical[claim.name], change.old
        holds(claim, Decimal(repr(float(start))), Decimal(repr(float(stop))), FOUR_DIGITS if style == "exact" else None)
        if style == "exact":
            assert claim.what in ("by", "to")
            assert not claim.about or reading.form == "typical"
        assert claim.what != "least" or style == "range"
        if style == "range":
            assert claim.what in ("least", "within", "by", "to")
            assert not claim.about
        if style == "relative":
            assert claim.what in ("way", "within", "by", "to")
            assert claim.what in ("way", "within") or not claim.about
        if reading.form != "typical" and not e.follow_on:
            for value in meant(claim, change):
                assert model.predict([{**e.contrast, claim.name: value}])[0] == e.contrast_class, (claim, value)
    if style == "range":
        together({c.name: c for c in reading.claims}, e, model)
    if reading.sure is not None:
        label = e.contrast_class if reading.form == "had" else e.original_class
        share = 100 * e.probability(label, after=reading.form == "had")
        number = int(re.search(r"\d+", reading.sure)[0])
        if re.match(r"(just over|more than|mehr als|etwas mehr als) ", reading.sure):
            assert number < share < number + 1
        elif re.match(r"(just under|less than|weniger als|etwas weniger als) ", reading.sure):
            assert number - 1 < share < number
        else:
            assert abs(share - number) <= 0.5 + 1e-9
    if reading.proven is not None:
        conditions(reading.proven, e, schema, code)


def meant(claim: Claim, change: grace.Change) -> list[float]:
    """Values that a reader may take a vague claim to mean, each of which has to give the class: to the end of the range
    where only the way is said, anywhere in a span, and the very number of an amount or ratio."""
    old, new, (low, high) = float(change.old), float(change.new), change.feature.bounds
    end, size = (max(new, high) if new > old else min(new, low)), claim.size
    if claim.what == "way":
        found = np.linspace(new, end, GRID)
    elif claim.what == "within":
        found = np.linspace(float(size[0]), float(size[1]), GRID)
    elif claim.what == "slightly":
        eighth = old * (1 + 0.125 * float(size))
        found = np.linspace(new, min(eighth, end) if new > old else max(eighth, end), GRID)
    elif claim.what in ("over", "under"):
        found = np.linspace(old * float(size), end, GRID)
    elif claim.what == "times":
        found = np.array([old * float(size)])
    elif claim.about:
        found = np.array([old + float(size) if claim.what == "by" else float(size)])
    elif claim.what == "least":
        found = np.linspace(old + float(size), end, GRID)
    else:
        return [new]
    found = np.concatenate([np.floor(found), np.ceil(found)]) if change.feature.integer else found
    return [float(v) for v in found]


def together(claims: dict[str, Claim], e: Explanation, model: grace.Model) -> None:
    """That the model decides as promised for any values of all claims together."""
    rng, rows = np.random.default_rng(0), []
    choices = {c.name: claims[c.name].size if claims[c.name].what == "any" else None for c in e.changes}
    for _ in range(TOGETHER):
        row = dict(e.contrast)
        for change in e.changes:
            many = choices[change.name]
            if many is not None:
                row[change.name] = many[rng.integers(len(many))]
            elif claims[change.name].what in ("least", "within"):
                ends = meant(claims[change.name], change)
                row[change.name] = drawn(change, min(ends), max(ends), rng)
        rows.append(row)
    assert set(model.predict(rows)) == {e.contrast_class}


def drawn(change: grace.Change, low: float, high: float, rng: np.random.Generator) -> float:
    """A random value between two, or one of them."""
    value = float(rng.choice([low, high, rng.uniform(low, high)]))
    return float(np.clip(round(value), low, high)) if change.feature.integer else value


def room(sentence: str, e: Explanation, schema: Schema, model: grace.Model, code: str) -> str:
    """That what a sentence says about the region is so; returns the sentence without it."""
    nouns = {c.name: noun(schema[c.name], code) for c in e.changes}
    rest, said = read_room(sentence, e, schema, code, nouns)
    assert said.decided == e.contrast_class
    assert e.region is not None
    assert (said.points == 0) == e.region.proven
    assert said.points == e.region.points
    rng, rows = np.random.default_rng(0), []
    for _ in range(TOGETHER):
        row = dict(e.contrast)
        for change in e.changes:
            if change.name in said.intervals:
                low, high = map(float, said.intervals[change.name])
                least, most = e.region.intervals[change.name]
                assert least <= low <= change.new <= high <= most
                row[change.name] = drawn(change, low, high, rng)
            else:
                values = said.values[change.name]
                assert change.new in [type(change.new)(v) for v in values]
                value = values[rng.integers(len(values))]
                row[change.name] = float(value) if isinstance(value, Decimal) else value
        rows.append(row)
    if e.region.proven:
        assert set(model.predict(rows)) == {e.contrast_class}
    return rest


def conditions(said: Proven, e: Explanation, schema: Schema, code: str) -> None:
    """That a sentence claims no more than its proof: it names every limit of the record."""
    proof = e.proof
    for words, names in (
        (said.fixed, [*proof["frozen"], *proof["missing"]]),
        (said.up, proof["increase_only"]),
        (said.down, proof["decrease_only"]),
    ):
        if len(names) > 3:
            assert re.search(r"\d+", words)[0] == str(len(names))
        else:
            assert all(noun(schema[name], code) in words for name in names)
    assert proof["verdict"] == "minimal"
    assert said.fewer == len(e.changes) - 1
    assert bool(said.fixed) == bool(proof["frozen"] or proof["missing"])
    assert bool(said.up) == bool(proof["increase_only"])
    assert bool(said.down) == bool(proof["decrease_only"])
    assert said.categories == bool(proof["categories"])
    assert said.distinct == (said.fewer > 1 and proof["redundant"])
    assert said.ties == proof["except_ties"]
    assert Decimal(said.confidence.replace(",", ".") or 0) == 100 * Decimal(repr(float(proof["confidence"])))
    assert bool(said.towards) == (proof["against"] is not None and len(e.classes) != 2)


def holds(claim: Claim, start: Decimal, stop: Decimal, tight: Decimal | None = None) -> None:
    """That the way from one value to the other is as claimed. `tight` is how near "about" has to be."""
    apart = stop - start
    slack = ABOUT_AMOUNT if tight is None else tight
    if claim.what == "to":
        assert abs(stop - claim.size) <= (abs(stop) * slack if claim.about else 0)
        assert abs(start - claim.old) <= (abs(start) * slack if claim.about_old else 0)
        assert (claim.size - claim.old) * apart > 0
    elif claim.what == "by":
        assert apart * claim.size > 0
        assert abs(claim.size - apart) <= (abs(apart) * slack if claim.about else 0)
    elif claim.what == "way":
        assert apart * claim.size > 0
    elif claim.what == "least":
        assert apart * claim.size > 0
        assert abs(apart) >= abs(claim.size)
    elif claim.what == "within":
        assert claim.size[0] <= stop <= claim.size[1]
        assert claim.size[0] < claim.size[1]
    else:
        assert start > 0
        ratio = stop / start
        if claim.what == "slightly":
            assert 0 < (ratio - 1) * claim.size <= SLIGHTLY
        elif claim.what == "over":
            assert ratio > claim.size
        elif claim.what == "under":
            assert ratio < claim.size
        else:
            assert abs(ratio / claim.size - 1) <= (ABOUT_RATIO if claim.about else Decimal("0.005"))


def exact(reading: Reading) -> bool:
    """Whether a reader could type it in."""
    return reading.form != "typical" and all(c.what in ("by", "to", "category") and not c.about for c in reading.claims)


def true(
    sentence: str, e: Explanation, schema: Schema, model: grace.Model, style: str, code: str, *, sole: bool
) -> None:
    """Read back, the sentence is so; typed into the model, it gives the class it promises. `sole`: and it cannot be
    understood in another way."""
    found = readings(sentence, e, schema, code)
    assert found, sentence
    if sole:
        assert len(found) == 1, (sentence, found)
    problems = []
    for reading in found:
        try:
            check(reading, e, style, schema, code, model)
        except AssertionError as problem:
            problems.append(problem)
            continue
        row = {**e.row, **e.typical, **{c.name: c.size for c in reading.claims if c.what == "category"}}
        if reading.form != "typical":
            row = typed(reading, e) if exact(reading) else e.contrast
        if exact(reading):
            assert row == e.contrast
        assert model.predict([row])[0] == e.contrast_class
        return
    raise AssertionError((sentence, problems))
