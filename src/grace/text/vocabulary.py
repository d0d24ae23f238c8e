"""The words of features and schemas in a language: the schema's own, a translation, or the language's plainest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

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
"""What was asked for: "low" and "high", None where there is no limit, and the "spread" of predictions."""


def ranges(against: TargetRange | Sequence[TargetRange], predicted: Floats, spread: float) -> list[Range]:
    """What was asked for, row by row."""
    many = list(against) if isinstance(against, Sequence) else [against] * len(predicted)
    ends = [w.range(predicted[[i]], spread) for i, w in enumerate(many)]
    return [{"low": _finite(low[0]), "high": _finite(high[0]), "spread": spread} for low, high in ends]


def _finite(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def depth_inside(scores: Floats, asked: Range) -> Floats:
    """How far inside what was asked for predictions lie."""
    low, high = (-np.inf if asked["low"] is None else asked["low"], np.inf if asked["high"] is None else asked["high"])
    return np.minimum(scores - low, high - scores)


def asked_for(asked: Range, language: Language) -> str:
    """ "at least 200,000"."""
    low, high = (None if end is None else decimal(end) for end in (asked["low"], asked["high"]))
    return language.figure(low, high, about=False)


def predicted(value: float, asked: Range, language: Language) -> str:
    """ "about 149,990": to a thousandth of the spread, more precisely only where that would contradict."""
    exact = decimal(value)
    place = int(np.floor(np.log10((asked["spread"] or 1.0) / 1000)))
    inside = bool(depth_inside(np.array([value]), asked)[0] >= 0)
    for more in range(MAX_DIGITS):
        said = exact.quantize(Decimal(1).scaleb(place - more), ROUND_HALF_EVEN)
        if bool(depth_inside(np.array([float(said)]), asked)[0] >= 0) == inside:
            return language.figure(said, said, about=said != exact)
    return language.figure(exact, exact, about=False)


VERBS = ("been", "more", "less")
NUMBER_OR_BOOL = re.compile(r"[-+]?\d+(\.\d+)?|True|False|true|false")
UNINFORMATIVE_TARGETS = ("", "class", "classes", "label", "target", "y")  # targets whose names say nothing


def feature_in(feature: Feature, own: str, code: str) -> Feature:
    """The feature with its words in the language `code`; `own` is that of the schema's words. A phrase, a noun and a
    label are there for sure: where nobody gave any, the plain name."""
    language = load(code)
    defaults = {f.name: f.default for f in fields(feature) if f.name in WORDS and f.name != "labels"}
    given: dict[str, Any] = dict(feature.translations.get(code, {}))
    if code == own:
        given = {w: getattr(feature, w) for w in defaults if getattr(feature, w) != defaults[w]} | given
    dates = language.WORDS.date if is_date(feature) else {}
    words = {**defaults, **{v: getattr(language.WORDS, v) for v in VERBS if v in defaults}, **dates, **given}
    name = language.named(feature.name)
    words["plural"] = words["plural"] or (not words["phrase"] and language.is_plural(name))
    phrase = words.get("unit", "") if words["phrase"] == language.WORDS.there else words["phrase"]
    words["noun"] = words["noun"] or phrase or name
    words["phrase"] = words["phrase"] or name
    if isinstance(feature, Categorical):
        labels = {**(feature.labels if code == own else {}), **given.get("labels", {})}
        plain = {str(c): language.label(label_words(c, feature.categories)) for c in feature.categories}
        words["labels"] = plain | {MISSING: language.WORDS.missing} | labels
    return replace(feature, **words)


def feature_words(feature: Feature, own: str, code: str) -> Feature:
    """The feature as if it had been declared in the language `code`: with the words that it has in it alone."""
    if code == own:
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
    schema: Schema, task: str, classes: Iterable[Value], said: Sequence[Value], asked: Range | None
) -> Schema:
    """The schema with words for a predicted number and what was asked for (`said`), and for clusters, where it has none
    of its own."""
    language = load(schema.language)
    if asked is not None:
        named = {str(s): asked_for(asked, language) for s in said[1:]}
        named |= {str(said[0]): predicted(float(said[0]), asked, language)}
    elif task == "clustering":
        named = {str(c): fill(language.WORDS.cluster, c) for c in classes}
    else:
        return schema
    return replace(schema, class_words={**named, **schema.class_words})


def row_words(schema: Schema, code: str, task: str = "classification") -> dict[str, Any]:
    """ROW_WORDS of the schema in the language, or its plainest for a task; and "cluster" where classes are such."""
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
    """What a person calls the class."""
    given = words["class_words"].get(str(label))
    if given is not None:
        return str(given)
    if words["cluster"]:
        return fill(words["cluster"], label)
    return language.label(caption(words, label, language))


def caption(words: Mapping[str, Any], label: Value, language: Language) -> str:
    """A class by its name; if that is a number or a truth value, with the name of the target: "default = 1"."""
    if not NUMBER_OR_BOOL.fullmatch(str(label)):
        return label_words(label, words["classes"])
    target = with_spaces(words["target"])
    if target.lower() in UNINFORMATIVE_TARGETS:
        return fill(language.WORDS.numbered, label)
    return f"{target} = {label}"


def class_caption(schema: Schema, label: Value) -> str:
    """What a person calls the class, in the language of the schema's own words."""
    words = row_words(schema, schema.language)
    return str(schema.class_words.get(str(label)) or caption(words, label, load(schema.language)))
