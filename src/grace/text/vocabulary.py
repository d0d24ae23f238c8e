"""The words of features and schemas in a language: those of the schema, a translation, or the language's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.schema.caching import cached_on_first
from grace.schema.columns import is_date
from grace.schema.features import MISSING, WORDS, Categorical, Feature, Floats, Value
from grace.schema.formatting import decimal
from grace.schema.words import ROW_WORDS, fill, label_words, with_spaces
from grace.text.languages import Language, load

if TYPE_CHECKING:
    from grace.problem.target_range import TargetRange
    from grace.schema.schema import Schema

MAX_DIGITS = 17

Range = Mapping[str, float | None]
"""A requested range of predictions: "low" and "high", None if unbounded, and the "spread" of predictions."""


def ranges(against: TargetRange | Sequence[TargetRange], predicted: Floats, spread: float) -> list[Range]:
    """The requested range of each row."""
    many = list(against) if isinstance(against, Sequence) else [against] * len(predicted)
    ends = [w.range(predicted[[i]], spread) for i, w in enumerate(many)]
    return [{"low": _finite(low[0]), "high": _finite(high[0]), "spread": spread} for low, high in ends]


def _finite(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def range_ends(requested: Range) -> tuple[float, float]:
    """The ends of a range; infinite if unbounded."""
    low, high = requested["low"], requested["high"]
    return -np.inf if low is None else low, np.inf if high is None else high


def depth_inside(scores: Floats, requested: Range) -> Floats:
    """The distance of predictions from the nearer end of a range; negative outside."""
    low, high = range_ends(requested)
    return np.minimum(scores - low, high - scores)


def range_words(requested: Range, language: Language) -> str:
    """A requested range in words: "at least 200,000"."""
    low, high = (None if end is None else decimal(end) for end in (requested["low"], requested["high"]))
    return language.figure(low, high, about=False)


def predicted(value: float, requested: Range, language: Language) -> str:
    """A prediction in words, rounded to a thousandth of the spread, or as far as it stays on its side of the range:
    "about 149,990"."""
    exact = decimal(value)
    exponent = int(np.floor(np.log10((requested["spread"] or 1.0) / 1000)))
    low, high = requested["low"], requested["high"]
    for more in range(MAX_DIGITS):
        rounded = exact.quantize(Decimal(1).scaleb(exponent - more), ROUND_HALF_EVEN)
        before, after = ((low is None or x >= low) and (high is None or x <= high) for x in (value, float(rounded)))
        if before == after:
            return language.figure(rounded, rounded, about=rounded != exact)
    return language.figure(exact, exact, about=False)


VERBS = ("been", "more", "less")
NUMBER_OR_BOOL = re.compile(r"[-+]?\d+(\.\d+)?|True|False|true|false")
UNINFORMATIVE_TARGETS = ("", "class", "classes", "label", "target", "y")


@cached_on_first
def feature_in(feature: Feature, source: str, code: str) -> Feature:
    """The feature with its words in the language `code`; `source` is the language of the schema's words. Phrase, noun
    and labels default to plain names."""
    language = load(code)
    defaults = {f.name: f.default for f in fields(feature) if f.name in WORDS and f.name != "labels"}
    given: dict[str, Any] = dict(feature.translations.get(code, {}))
    if code == source:
        given = {w: getattr(feature, w) for w in defaults if getattr(feature, w) != defaults[w]} | given
    dates = language.WORDS.date if is_date(feature) else {}
    words = {**defaults, **{v: getattr(language.WORDS, v) for v in VERBS if v in defaults}, **dates, **given}
    name = language.named(feature.name)
    words["plural"] = words["plural"] or (not words["phrase"] and language.is_plural(name))
    phrase = words.get("unit", "") if words["phrase"] == language.WORDS.there else words["phrase"]
    words["noun"] = words["noun"] or phrase or name
    words["phrase"] = words["phrase"] or name
    if isinstance(feature, Categorical):
        labels = {**(feature.labels if code == source else {}), **given.get("labels", {})}
        plain = {str(c): language.label(label_words(c, feature.categories)) for c in feature.categories}
        words["labels"] = plain | {MISSING: language.WORDS.missing} | labels
    return replace(feature, **words)


def feature_words(feature: Feature, source: str, code: str) -> Feature:
    """The feature as if it had been declared in the language `code`: only with the words given in it."""
    if code == source:
        return feature
    unset: dict[str, Any] = {w: {} if w == "labels" else f.default for f in fields(feature) if (w := f.name) in WORDS}
    return replace(feature, **{**unset, **feature.translations.get(code, {})})


def schema_words(schema: Schema, code: str) -> Schema:
    """The schema as if it had been declared in the language `code`."""
    if code == schema.language:
        return schema
    unset: dict[str, Any] = {
        w: {} if w == "class_words" else f.default for f in fields(schema) if (w := f.name) in ROW_WORDS
    }
    features = tuple(feature_words(f, schema.language, code) for f in schema.features)
    return replace(schema, language=code, features=features, **{**unset, **schema.translations.get(code, {})})


def with_class_words(
    schema: Schema, task: str, classes: Iterable[Value], labels: Sequence[Value], requested: Range | None
) -> Schema:
    """The schema with default words for a predicted number and the requested range (the `labels`), and for clusters."""
    language = load(schema.language)
    if requested is not None:
        named = {str(s): range_words(requested, language) for s in labels[1:]}
        named |= {str(labels[0]): predicted(float(labels[0]), requested, language)}
    elif task == "clustering":
        named = {str(c): fill(language.WORDS.cluster, c) for c in classes}
    else:
        return schema
    return replace(schema, class_words={**named, **schema.class_words})


@cached_on_first
def row_words(schema: Schema, code: str, task: str = "classification") -> Mapping[str, Any]:
    """ROW_WORDS of the schema in the language, by default the language's for the task; "cluster" for clusters."""
    plain = load(code).WORDS
    verb = plain.tasks.get(task, plain.verb)
    words: dict[str, Any] = {"row": plain.row, "rows": plain.rows, "verb": verb, "class_words": {}}
    words["cluster"] = plain.cluster if task == "clustering" else ""
    words |= {"target": schema.target or "", "classes": schema.classes}
    if code == schema.language:
        unset = {f.name: f.default for f in fields(schema)}
        words |= {w: getattr(schema, w) for w in ROW_WORDS if getattr(schema, w) != unset[w]}
    return words | dict(schema.translations.get(code, {}))


def class_word(words: Mapping[str, Any], label: Value, language: Language) -> str:
    """The words for a class."""
    given = words["class_words"].get(str(label))
    if given is not None:
        return str(given)
    if words["cluster"]:
        return fill(words["cluster"], label)
    return language.label(caption(words, label, language))


def class_words(schema: Schema, label: Value, code: str, task: str) -> str:
    """The words for a class in a language."""
    return _class_words(schema, label, type(label), code, task)


@cached_on_first
def _class_words(schema: Schema, label: Value, _: type, code: str, task: str) -> str:
    return class_word(row_words(schema, code, task), label, load(code))


def caption(words: Mapping[str, Any], label: Value, language: Language) -> str:
    """The name of a class; with the name of the target if it is a number or a boolean: "default = 1"."""
    if not NUMBER_OR_BOOL.fullmatch(str(label)):
        return label_words(label, words["classes"])
    target = with_spaces(words["target"])
    if target.lower() in UNINFORMATIVE_TARGETS:
        return fill(language.WORDS.numbered, label)
    return f"{target} = {label}"


def class_caption(schema: Schema, label: Value) -> str:
    """The words for a class in the language of the schema."""
    words = row_words(schema, schema.language)
    return str(schema.class_words.get(str(label)) or caption(words, label, load(schema.language)))
