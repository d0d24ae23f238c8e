"""The sentence: what would have had to be different, or what made the difference.

In the exact style it is literally true: a reader who types the values into the model gets the class. What the
other styles leave open has limits, see `grace.text.precision`. The words are in `grace.text.languages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from grace.errors import GraceError
from grace.schema.columns import date_text, is_date
from grace.schema.features import MISSING, Categorical, Feature, Numeric, Value, plain
from grace.schema.formatting import decimal
from grace.schema.parsing import MOST_SEED, whole_number
from grace.schema.words import DEFAULT
from grace.text import languages
from grace.text.languages import FORMS, ChangedFeature, Facts, Language, Limits
from grace.text.precision import (
    Delta,
    Difference,
    Room,
    Within,
    apart,
    check_style,
    difference,
    is_exact,
    short,
    style_of,
    values,
)
from grace.text.vocabulary import asked_for, class_word, feature_in, predicted, row_words

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation
    from grace.schema.schema import Schema

MINIMUM = "minimal"
"""The verdict that no change of fewer features would do, as records have it."""

__all__ = [
    "MINIMUM",
    "Saying",
    "category",
    "comparable",
    "decimal",
    "heading",
    "main_clause",
    "notes",
    "number",
    "phrase",
    "reason",
    "sentence",
    "value",
]


class Saying(TypedDict, total=False):
    """How to say it; see `Explanation.text`."""

    style: str | None
    language: str | None
    template: str | None
    seed: int
    hedge: bool


def sentence(
    e: Explanation,
    style: str | None = None,
    language: str | None = None,
    template: str | None = None,
    seed: int = 0,
    hedge: bool = False,
) -> str:
    """The explanation as a sentence, and where there is a proof, another."""
    code = language or e.words.language
    said = languages.load(code)
    check_style(style)
    if template not in (None, *FORMS):
        raise GraceError(f"template={template!r} is unknown; use one of {', '.join(FORMS)}")
    whole_number("seed", plain(seed), -MOST_SEED, MOST_SEED)
    if not e.success or e.contrast_class is None:
        return f"{said.failed(_facts(e, code, ()), reason(e, code))}."
    form, place = _drawn(e, said, template, seed)
    body = main_clause(e, form, place, style, code)
    label = e.contrast_class if form == "had" else e.original_class
    hedge &= e.sure and e.task != "regression"
    sure = said.sure(e.probability(label, after=form == "had"), then=form == "had") if hedge else ""
    cutoff = _cutoff(e, label, code, then=form == "had")
    proven = e.proof is not None and e.proof["verdict"] == MINIMUM and len(e.changes) > 1
    minimum = f" {said.minimum(_limits(e, code, len(e.changes) - 1), form)}" if proven else ""
    return f"{body}{sure}{cutoff}.{minimum}"


def _cutoff(e: Explanation, label: Value, code: str, *, then: bool) -> str:
    """The cut-off that decides for a class, where one is set; of two classes, that of the positive one."""
    if not e.cutoffs:
        return ""
    language = languages.load(code)
    if len(e.cutoffs) > 1:
        return language.cutoff("", "", reached=True, then=then)
    ((positive, share),) = e.cutoffs
    named = class_word(row_words(e.words, code, e.task), positive, language)
    return language.cutoff(_per_cent(share, language), named, reached=label == positive, then=then)


def _per_cent(share: float, language: Language) -> str:
    """A share in per cent, in its own digits if they are few."""
    exact = decimal(share) * 100
    few = Decimal(f"{exact:.4g}")
    return language.number(exact) if few == exact else language.figure(few, few, about=True)


def main_clause(e: Explanation, form: str, place: int, style: str | None, code: str) -> str:
    """The sentence by one template of a language, without the full stop and what may go with it."""
    parts, along = _parts(e, form, style, code), _along(e, code)
    return languages.load(code).TEMPLATES[form][place](replace(_facts(e, code, parts), along=along))


def _drawn(e: Explanation, language: Language, template: str | None, seed: int) -> tuple[str, int]:
    """Form and number of a template. Seed 0 takes the first that fits; with another, rows differ."""
    wanted = FORMS if template is None else FORMS[1:] if template == "because" else (template,)
    forms = [f for f in wanted if f != "typical" or comparable(e)] or ["because"]
    pool = [(form, place) for form in forms for place in range(len(language.TEMPLATES[form]))]
    return pool[0] if seed == 0 else Random(f"{seed} {e.row} {e.predicate}").choice(pool)


def comparable(e: Explanation) -> bool:
    """Whether the row differs from what is typical of class Y, and in the direction of every change."""
    numeric = [c for c in e.changes if isinstance(c.feature, Numeric)]
    return bool(numeric) and all(c.name in e.typical and _moves_towards(c, e.typical[c.name]) for c in numeric)


def _moves_towards(change: Change, usual: float) -> bool:
    """Whether the change goes towards the usual value, and how far that is can be said."""
    old, new = float(change.old), float(change.new)
    return old != usual and (usual > old) == (new > old) and apart(decimal(old), decimal(usual)) is not None


def _parts(e: Explanation, form: str, style: str | None, code: str) -> tuple[ChangedFeature, ...]:
    """How each change is said. "Because" says values, old and new; "had" says differences, unless one of them takes
    more digits than its value, as then all values that are said exactly are said alike."""
    language = languages.load(code)
    features = [feature_in(c.feature, e.words.language, code) for c in e.changes]
    pairs = list(zip(e.changes, features, strict=True))
    if form == "because":
        said = [values(f, c.old, c.new, style, room_of(c)) for c, f in pairs]
        said = _with_one_span(said, [values(f, c.old, c.new) for c, f in pairs])
        return tuple(ChangedFeature(f, s) for f, s in zip(features, said, strict=True))
    said = [_said(e, c, f, form, style, language) for c, f in pairs]
    said = _with_one_span(said, [difference(f, c.old, c.new, "exact", ratios=False) for c, f in pairs])
    exact = [isinstance(f, Numeric) and is_exact(s) for s, f in zip(said, features, strict=True)]
    if form == "had" and any(alike and not isinstance(s, Delta) for s, alike in zip(said, exact, strict=True)):
        said = [values(f, c.old, c.new) if alike else s for s, alike, (c, f) in zip(said, exact, pairs, strict=True)]
    return tuple(ChangedFeature(f, s) for f, s in zip(features, said, strict=True))


def _with_one_span(said: list[Difference], exact: list[Difference]) -> list[Difference]:
    """A span holds while the other changes are as they are: beside the first one, all others are said exactly."""
    first = next((i for i, s in enumerate(said) if isinstance(s, Within)), None)
    if first is None:
        return said
    return [s if i == first or is_exact(s) else other for i, (s, other) in enumerate(zip(said, exact, strict=True))]


def _along(e: Explanation, code: str) -> tuple[ChangedFeature, ...]:
    """What follows, by its values: it was not asked for, so that how far it moves is of less interest."""
    out = []
    for c in e.follow_on:
        feature = feature_in(c.feature, e.words.language, code)
        out.append(ChangedFeature(feature, values(feature, c.old, c.new)))
    return tuple(out)


def _said(
    e: Explanation, change: Change, feature: Feature, form: str, style: str | None, language: Language
) -> Difference:
    if form != "typical" or not isinstance(feature, Numeric):
        ratios = form == "had" and isinstance(feature, Numeric) and language.has_ratios(feature)
        room = room_of(change) if isinstance(feature, Numeric) else None
        return difference(feature, change.old, change.new, style, ratios=ratios, room=room)
    usual = e.typical[change.name]
    if style_of(feature, style) == "exact":  # a difference all the same, as nothing typical is typed in
        size = abs(decimal(change.old) - decimal(usual))
        return Delta(short(size), float(change.old) > usual, about=short(size) != size)
    return difference(feature, usual, change.old, style, ratios=language.has_ratios(feature))


def room_of(change: Change) -> Room:
    """Where a changed number may lie; nowhere else where that is not known."""
    if change.span is None:
        alone = Decimal(0) if isinstance(change.feature, Categorical) else decimal(change.new)
        return Room(alone, alone, to_the_end=False)
    low, high = (decimal(end) for end in change.span)
    return Room(low, high, change.to_the_end)


def _facts(e: Explanation, code: str, parts: tuple[ChangedFeature, ...]) -> Facts:
    language = languages.load(code)
    words = row_words(e.words, code, e.task)
    before, after = class_word(words, e.original_class, language), ""
    if e.wanted is not None:
        before, after = predicted(float(e.original_class), e.wanted, language), asked_for(e.wanted, language)
    elif e.contrast_class is not None:
        after = class_word(words, e.contrast_class, language)
    return Facts(row=words["row"], rows=words["rows"], verb=words["verb"], before=before, after=after, parts=parts)


def _limits(e: Explanation, code: str, count: int) -> Limits:
    """What a proof about so many changes depends on, as far as it could matter. Of a record that does not say, it
    could."""
    proof = e.proof or {}
    confidence = float(proof.get("confidence", e.settings.get("confidence", 0.0)) or 0.0)
    box = dict(proof.get("box", {}))
    fixed = [*proof.get("frozen", ()), *proof.get("missing", ())]
    return Limits(
        count=count,
        fixed=_named(e, code, fixed),
        rising=_named(e, code, proof.get("increase_only", ())),
        falling=_named(e, code, proof.get("decrease_only", ())),
        categories=bool(proof.get("categories", any(isinstance(v, str) for span in box.values() for v in span))),
        distinct=count > 1 and bool(proof.get("redundant", proof.get("gamma", 1.0) < 1)),
        confidence=confidence,
        towards="" if proof.get("against") is None or len(e.classes) == 2 else _facts(e, code, ()).after,
    )


def _named(e: Explanation, code: str, names: Sequence[str]) -> tuple[Feature, ...]:
    return tuple(_feature(e, code, name) for name in names)


def _feature(e: Explanation, code: str, name: str) -> Feature:
    """A feature by name with its words in a language; by a noun of its own where it is called like the row."""
    known = next((f for f in e.words.features if f.name == name), Numeric(name=name))
    spoken = feature_in(known, e.words.language, code)
    if spoken.noun == row_words(e.words, code, e.task)["row"]:
        return replace(spoken, noun=languages.load(code).named(name))
    return spoken


def reason(e: Explanation, code: str) -> str:
    """Why there is no answer; empty where there is one."""
    if e.miss is None:
        return ""
    language = languages.load(code)
    words = row_words(e.words, code, e.task)

    def said(way: Mapping[str, Any]) -> dict[str, Any]:
        if way["limit"] == "free":
            return {**way, "value": [_feature(e, code, name).noun for name in way["value"]]}
        return {**way, "value": class_word(words, way["value"], language)} if way["limit"] == "against" else dict(way)

    miss = {**e.miss, "ways": [said(way) for way in e.miss.get("ways", ())]}
    most = int(miss.get("most", 0))
    limits = _limits(e, code, most) if miss.get("proven") else Limits(most, confidence=miss.get("confidence", 0.0))
    limits = replace(limits, protected=_named(e, code, miss.get("protected", ())))
    against = miss.get("against")
    if e.wanted is not None:
        limits = replace(limits, towards=asked_for(e.wanted, language))
    elif against is not None and len(e.classes) > 2:
        limits = replace(limits, towards=class_word(words, against, language))
    return language.reason(miss, limits)


def notes(e: Explanation, code: str) -> tuple[str, ...]:
    """What a reader should know about the row, and what was proven of an answer with one change: its sentence says
    nothing of fewer."""
    language = languages.load(code)
    said = [language.note(r, _feature(e, code, r["feature"]) if "feature" in r else None) for r in e.remarks]
    if e.success and len(e.changes) == 1 and e.proof is not None and e.proof["verdict"] == MINIMUM:
        said.append(_proven_of_one(e, code))
    return tuple(said)


def _proven_of_one(e: Explanation, code: str) -> str:
    """One change is the fewest there can be; of a number, also by how much it has to change at least."""
    language, (change,) = languages.load(code), e.changes
    feature = feature_in(change.feature, e.words.language, code)
    limits = _limits(e, code, 1)
    rising, falling = (tuple(f for f in way if f.name == change.name) for way in (limits.rising, limits.falling))
    least = least_change(change, (e.proof or {}).get("distance_at_least"))
    size = language.amount(feature, least) if isinstance(feature, Numeric) and least > 0 else ""
    return language.one_change(replace(limits, fixed=(), rising=rising, falling=falling), feature, size)


def least_change(change: Change, distance: float | None) -> Decimal:
    """The amount below which no change of a number alone is an answer, by a proven lower bound on the distance of such
    answers: the inverse of `Space.cost`, rounded down to three digits, or up to a whole number; 0 if unknown."""
    feature = change.feature
    if not isinstance(feature, Numeric) or distance is None or not 0 < distance < float("inf"):
        return Decimal(0)
    size = Decimal(distance * (feature.spread or 1.0) / feature.cost * (1 - 1e-9))  # less what is lost by rounding
    if feature.integer and float(change.old).is_integer():
        return size.to_integral_value(ROUND_CEILING)
    return size.quantize(Decimal(1).scaleb(size.adjusted() - 2), ROUND_FLOOR)


# -- parts of it, for tables and pictures -----------------------------------------------------


def heading(feature: Feature, words: Schema) -> str:
    """What to call a feature on its own, as above its picture: its phrase, but where there is none, or one that means
    the row itself or nothing ("had the person been older"), its name."""
    there = languages.load(words.language).WORDS.there
    return feature.name.replace("_", " ") if feature.phrase in ("", words.row, there) else feature.phrase


def category(feature: Categorical, cell: Value, code: str) -> str:
    """A category on its own."""
    missing = feature.gaps and cell == MISSING and MISSING not in feature.labels
    return languages.load(code).PICTURES["missing"] if missing else feature.label(cell)


def phrase(feature: Feature, code: str = DEFAULT, own: str = DEFAULT) -> str:
    """What a person calls the feature."""
    return feature_in(feature, own, code).phrase


def value(feature: Feature, cell: Value, code: str = DEFAULT, own: str = DEFAULT) -> str:
    """A cell as a person reads it."""
    spoken = feature_in(feature, own, code)
    if isinstance(spoken, Categorical):
        return spoken.label(cell)
    if is_date(spoken):
        return date_text(cell)
    return languages.load(code).measured(spoken, decimal(cell))


def number(size: Decimal, code: str = DEFAULT) -> str:
    """In plain digits, never 1e-05; from ten thousand on in groups of three."""
    return languages.load(code).number(size)
