"""The sentence of an explanation: what would have had to be different, or what made the difference.

In the exact style it is literally true: the stated values, given to the model, yield the contrast class. The other
styles round within the limits of `grace.text.precision`. The words are in `grace.text.languages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from grace.errors import GraceError
from grace.schema.caching import cached_on_first
from grace.schema.columns import date_text, is_date
from grace.schema.features import MISSING, Categorical, Feature, Numeric, Value, plain
from grace.schema.formatting import decimal as decimal
from grace.schema.parsing import MAX_SEED, whole_number
from grace.schema.words import DEFAULT
from grace.text import languages
from grace.text.languages import FORMS, ChangedFeature, Facts, Language, Limits
from grace.text.precision import (
    RANGE,
    Delta,
    Difference,
    NewCategory,
    Replacement,
    StableInterval,
    Within,
    check_style,
    difference,
    exact_difference,
    is_exact,
    round_digits,
    style_of,
    value_pair,
)
from grace.text.room import range_or_exact, stated_by_range, values_of
from grace.text.vocabulary import class_words, feature_in, predicted, range_words, row_words

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation
    from grace.schema.schema import Schema

MINIMAL = "minimal"
"""The verdict of a proof that no change of fewer features suffices."""


class TextOptions(TypedDict, total=False):
    """Keyword arguments of `sentence` and `Explanation.text`."""

    style: str | None
    language: str | None
    template: str | None
    seed: int
    hedge: bool
    room: bool


def sentence(
    e: Explanation,
    style: str | None = None,
    language: str | None = None,
    template: str | None = None,
    seed: int = 0,
    hedge: bool = False,
    room: bool = False,
) -> str:
    """The explanation as a sentence, followed by one if it is proven minimal, and by one about its room."""
    code = language or e.words.language
    words = languages.load(code)
    check_style(style)
    if template is not None and template not in FORMS:
        raise GraceError(f"template={template!r} is unknown; use one of {', '.join(FORMS)}")
    if seed != 0 or type(seed) is not int:
        whole_number("seed", plain(seed), -MAX_SEED, MAX_SEED)
    if not e.success or e.contrast_class is None:
        return f"{words.failed(facts_of(e, code), reason(e, code))}."
    form, number = _choose_template(e, words, template, seed)
    return complete(e, main_clause(e, form, number, style, code), form, code, hedge=hedge, room=room)


def complete(e: Explanation, body: str, form: str, code: str, *, hedge: bool = False, room: bool = False) -> str:
    """The main clause with what follows it: probability, decision threshold, full stop, proof and room."""
    words = languages.load(code)
    label = e.contrast_class if form == "had" else e.original_class
    assert label is not None
    hedge &= e.sure and e.task != "regression"
    sure = words.sure(e.probability(label, after=form == "had"), then=form == "had") if hedge else ""
    cutoff = _cutoff(e, label, code, then=form == "had")
    proven = e.proof is not None and e.proof["verdict"] == MINIMAL and len(e.changes) > 1
    minimum = f" {words.minimum(_limits(e, code, len(e.changes) - 1), form)}" if proven else ""
    return f"{body}{sure}{cutoff}.{minimum}{_room(e, code) if room else ''}"


def _room(e: Explanation, code: str) -> str:
    """The sentence about the region; empty if none is known, or if it has no more than the answer."""
    region, language = e.region, languages.load(code)
    if region is None or not region.has_room:
        return ""
    features = [with_noun(feature_in(c.feature, e.words.language, code), e.words, e.task, code) for c in e.changes]
    values = [values_of(c, f, region, language) for c, f in zip(e.changes, features, strict=True)]
    return f" {language.room(facts_of(e, code), values, 0 if region.proven else region.points)}"


def _cutoff(e: Explanation, label: Value, code: str, *, then: bool) -> str:
    """The clause about the decision threshold of a class, if any is set; of two classes, that of the positive one."""
    if not e.cutoffs:
        return ""
    language = languages.load(code)
    if len(e.cutoffs) > 1:
        return language.cutoff("", "", reached=True, then=then)
    ((positive, share),) = e.cutoffs
    named = class_words(e.words, positive, code, e.task)
    return language.cutoff(_per_cent(share, language), named, reached=label == positive, then=then)


def _per_cent(share: float, language: Language) -> str:
    """A share in per cent: exact if four digits suffice, else rounded."""
    exact = decimal(share) * 100
    few = Decimal(f"{exact:.4g}")
    return language.number(exact) if few == exact else language.figure(few, few, about=True)


def main_clause(e: Explanation, form: str, number: int, style: str | None, code: str) -> str:
    """The sentence by template `number` of a form, without full stop, probability and proof."""
    facts = facts_of(e, code, _changes(e, form, style, code), _follow_on(e, code))
    return languages.load(code).TEMPLATES[form][number](facts)


def _choose_template(e: Explanation, language: Language, template: str | None, seed: int) -> tuple[str, int]:
    """The form and number of a template: with seed 0 the first applicable one, else drawn per row."""
    requested = FORMS if template is None else FORMS[1:] if template == "because" else (template,)
    if seed == 0 and requested[0] != "typical":
        return requested[0], 0
    forms = [f for f in requested if f != "typical" or comparable(e)] or ["because"]
    pool = [(form, number) for form in forms for number in range(len(language.TEMPLATES[form]))]
    return pool[0] if seed == 0 else Random(f"{seed} {e.row} {e.predicate}").choice(pool)


def comparable(e: Explanation) -> bool:
    """Whether every numeric change moves the row towards the median of class Y, which the "typical" form states."""
    numeric = [c for c in e.changes if isinstance(c.feature, Numeric)]
    return bool(numeric) and all(c.name in e.typical and _is_towards(c, e.typical[c.name]) for c in numeric)


def _is_towards(change: Change, median: float) -> bool:
    """Whether the change goes towards the class median, and their difference is exact."""
    old, new = float(change.old), float(change.new)
    towards = old != median and (median > old) == (new > old)
    return towards and exact_difference(decimal(old), decimal(median)) is not None


def _changes(e: Explanation, form: str, style: str | None, code: str) -> tuple[ChangedFeature, ...]:
    """The changes as they are stated: by "because" as pairs of values; by "had" as differences, but if one of them has
    more digits than its value, all exact numbers as pairs of values."""
    language, source = languages.load(code), e.words.language
    pairs = [(c, feature_in(c.feature, source, code)) for c in e.changes]
    style, region = range_or_exact(e, style, form), e.region if style == RANGE else None
    if style == RANGE and region is not None:
        stated = [stated_by_range(c, f, region) for c, f in pairs]
    elif form == "because":
        stated = [value_pair(f, c.old, c.new, style, _interval(c, f, style)) for c, f in pairs]
        stated = _with_one_interval(stated, lambda c, f: value_pair(f, c.old, c.new), pairs)
    else:
        stated = [_describe(e, c, f, form, style, language) for c, f in pairs]
        stated = _with_one_interval(stated, lambda c, f: difference(f, c.old, c.new, "exact", ratios=False), pairs)
    if form == "had" and any(
        isinstance(s, Replacement | NewCategory) and isinstance(f, Numeric)
        for s, (_, f) in zip(stated, pairs, strict=True)
    ):
        stated = [
            value_pair(f, c.old, c.new) if isinstance(f, Numeric) and is_exact(s) else s
            for s, (c, f) in zip(stated, pairs, strict=True)
        ]
    return tuple([ChangedFeature(f, s) for s, (_, f) in zip(stated, pairs, strict=True)])


def _with_one_interval(
    stated: list[Difference], exact: Callable[[Change, Feature], Difference], pairs: list[tuple[Change, Feature]]
) -> list[Difference]:
    """An interval is valid only with the other changes as they are: all but the first one are stated by `exact`."""
    first = next((i for i, s in enumerate(stated) if isinstance(s, Within)), None)
    if first is None:
        return stated
    return [s if i == first or is_exact(s) else exact(*pairs[i]) for i, s in enumerate(stated)]


def _follow_on(e: Explanation, code: str) -> tuple[ChangedFeature, ...]:
    """The features that change as a consequence, as pairs of values."""
    out = []
    for c in e.follow_on:
        feature = feature_in(c.feature, e.words.language, code)
        out.append(ChangedFeature(feature, value_pair(feature, c.old, c.new)))
    return tuple(out)


def _describe(
    e: Explanation, change: Change, feature: Feature, form: str, style: str | None, language: Language
) -> Difference:
    """The difference of one change; in the "typical" form, between the class median and the row's value."""
    if form != "typical" or not isinstance(feature, Numeric):
        if not isinstance(feature, Numeric):
            return difference(feature, change.old, change.new, style, ratios=False)
        interval = _interval(change, feature, style)
        if interval is None:
            return exact_statement(feature, change.old, change.new)
        ratios = form == "had" and language.has_ratios(feature)
        return difference(feature, change.old, change.new, style, ratios=ratios, interval=interval)
    median = e.typical[change.name]
    if style_of(feature, style) == "exact":  # rounded, as no reader has to reproduce a median
        size = abs(decimal(change.old) - decimal(median))
        return Delta(round_digits(size), float(change.old) > median, about=round_digits(size) != size)
    return difference(feature, median, change.old, style, ratios=language.has_ratios(feature))


def exact_statement(feature: Numeric, old: Value, new: Value) -> Difference:
    """The difference in the exact style."""
    return _exact_difference(feature, old or repr(old), new or repr(new))  # 0.0 and -0.0 are the same key


@cached_on_first
def _exact_difference(feature: Numeric, old: Value, new: Value) -> Difference:
    return difference(feature, old, new, "exact", ratios=False)


def _interval(change: Change, feature: Feature, style: str | None) -> StableInterval | None:
    """The interval that a statement in a style must keep to; None for exact statements, which keep to any."""
    rounded = isinstance(feature, Numeric) and style_of(feature, style) != "exact"
    return stable_interval(change) if rounded else None


def stable_interval(change: Change) -> StableInterval:
    """The interval of a changed number in which the answer is the same; only the new value if that is unknown."""
    if change.span is None:
        point = Decimal(0) if isinstance(change.feature, Categorical) else decimal(change.new)
        return StableInterval(point, point, to_the_end=False)
    low, high = (decimal(end) for end in change.span)
    return StableInterval(low, high, change.to_the_end)


def facts_of(
    e: Explanation, code: str, changes: tuple[ChangedFeature, ...] = (), follow_on: tuple[ChangedFeature, ...] = ()
) -> Facts:
    words = row_words(e.words, code, e.task)
    if e.wanted is not None:
        language = languages.load(code)
        before, after = predicted(float(e.original_class), e.wanted, language), range_words(e.wanted, language)
    else:
        before = class_words(e.words, e.original_class, code, e.task)
        after = "" if e.contrast_class is None else class_words(e.words, e.contrast_class, code, e.task)
    return Facts(words["row"], words["rows"], words["verb"], before, after, changes, follow_on)


def _limits(e: Explanation, code: str, count: int) -> Limits:
    """The conditions under which a proof about `count` changes holds. Where an older record lacks one, it is assumed to
    matter."""
    proof = e.proof or {}
    confidence = float(proof.get("confidence", e.settings.get("confidence", 0.0)) or 0.0)
    box = dict(proof.get("box", {}))
    named = e.wanted is not None or (proof.get("against") is not None and len(e.classes) != 2)
    return Limits(
        count=count,
        fixed=_features(e, code, [*proof.get("frozen", ()), *proof.get("missing", ())]),
        rising=_features(e, code, proof.get("increase_only", ())),
        falling=_features(e, code, proof.get("decrease_only", ())),
        categories=bool(proof.get("categories", any(isinstance(v, str) for span in box.values() for v in span))),
        distinct=count > 1 and bool(proof.get("redundant", proof.get("gamma", 1.0) < 1)),
        confidence=confidence,
        towards=facts_of(e, code).after if named else "",
        is_number=e.wanted is not None,
        except_ties=bool(proof.get("except_ties", False)),
    )


def _features(e: Explanation, code: str, names: Sequence[str]) -> tuple[Feature, ...]:
    return tuple(_feature(e, code, name) for name in names)


def _feature(e: Explanation, code: str, name: str) -> Feature:
    """A feature by name with its words in a language."""
    known = next((f for f in e.words.features if f.name == name), None) or Numeric(name=name)
    return with_noun(feature_in(known, e.words.language, code), e.words, e.task, code)


def with_noun(feature: Feature, words: Schema, task: str, code: str) -> Feature:
    """The feature; its noun is its name if it would equal the word for the row."""
    if feature.noun == row_words(words, code, task)["row"]:
        return replace(feature, noun=languages.load(code).named(feature.name))
    return feature


def reason(e: Explanation, code: str) -> str:
    """Why there is no answer; empty if there is one."""
    if e.miss is None:
        return ""
    language = languages.load(code)

    def in_words(remedy: Mapping[str, Any]) -> dict[str, Any]:
        if remedy["limit"] == "free":
            return {**remedy, "value": [_feature(e, code, name).noun for name in remedy["value"]]}
        label = remedy["limit"] == "against"
        return {**remedy, "value": class_words(e.words, remedy["value"], code, e.task)} if label else dict(remedy)

    miss = {**e.miss, "ways": [in_words(remedy) for remedy in e.miss.get("ways", ())]}
    most = int(miss.get("most", 0))
    limits = _limits(e, code, most) if miss.get("proven") else Limits(most, confidence=miss.get("confidence", 0.0))
    limits = replace(limits, protected=_features(e, code, miss.get("protected", ())))
    against = miss.get("against")
    if e.wanted is not None:
        limits = replace(limits, towards=range_words(e.wanted, language))
    elif against is not None and len(e.classes) > 2:
        limits = replace(limits, towards=class_words(e.words, against, code, e.task))
    return language.reason(miss, limits)


def notes(e: Explanation, code: str) -> tuple[str, ...]:
    """Remarks about the row, and for a proven answer with a single change, a note about the proof."""
    language = languages.load(code)
    out = [language.note(r, _feature(e, code, r["feature"]) if "feature" in r else None) for r in e.remarks]
    if e.success and len(e.changes) == 1 and e.proof is not None and e.proof["verdict"] == MINIMAL:
        out.append(_single_change_note(e, code))
    return tuple(out)


def _single_change_note(e: Explanation, code: str) -> str:
    """A note that one change is minimal; for a number, also the proven least amount of the change."""
    language, (change,) = languages.load(code), e.changes
    feature = feature_in(change.feature, e.words.language, code)
    limits = _limits(e, code, 1)
    rising, falling = (tuple(f for f in some if f.name == change.name) for some in (limits.rising, limits.falling))
    least = least_change(change, (e.proof or {}).get("distance_at_least"))
    size = language.amount(feature, least) if isinstance(feature, Numeric) and least > 0 else ""
    own = replace(limits, fixed=(), rising=rising, falling=falling, except_ties=False)  # the bound covers ties
    return language.one_change(own, feature, size)


def least_change(change: Change, distance: float | None) -> Decimal:
    """The amount below which no change of this number alone is an answer, from a proven lower bound on the distance: by
    the inverse of `Space.cost`, rounded down to three digits, or up to a whole number; 0 if unknown."""
    feature = change.feature
    if not isinstance(feature, Numeric) or distance is None or not 0 < distance < float("inf"):
        return Decimal(0)
    size = Decimal(distance * (feature.spread or 1.0) / feature.cost * (1 - 1e-9))  # margin for floating-point error
    if feature.integer and float(change.old).is_integer():
        return size.to_integral_value(ROUND_CEILING)
    return size.quantize(Decimal(1).scaleb(size.adjusted() - 2), ROUND_FLOOR)


# -- words for tables and pictures ------- -----------------------------------------------------


def heading(feature: Feature, words: Schema) -> str:
    """The title of a feature's picture: its phrase, or its name if the phrase is empty or denotes the row ("had the
    person been older") or nothing ("had there been")."""
    there = languages.load(words.language).WORDS.there
    return feature.name.replace("_", " ") if feature.phrase in ("", words.row, there) else feature.phrase


def category(feature: Categorical, cell: Value, code: str) -> str:
    """The label of a category; that of a missing cell in the words of the language."""
    missing = feature.gaps and cell == MISSING and MISSING not in feature.labels
    return languages.load(code).PICTURES["missing"] if missing else feature.label(cell)


def phrase(feature: Feature, code: str = DEFAULT, source: str = DEFAULT) -> str:
    """The phrase of a feature in the language `code`; `source` is the language of the schema's words."""
    return feature_in(feature, source, code).phrase


def value(feature: Feature, cell: Value, code: str = DEFAULT, source: str = DEFAULT) -> str:
    """A cell with its unit or label."""
    feature = feature_in(feature, source, code)
    if isinstance(feature, Categorical):
        return feature.label(cell)
    return date_text(cell) if is_date(feature) else languages.load(code).measured(feature, decimal(cell))


def number(size: Decimal, code: str = DEFAULT) -> str:
    """A number in plain digits, never 1e-05; from ten thousand on grouped by three."""
    return languages.load(code).number(size)
