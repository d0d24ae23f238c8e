"""The words of features and schemas in a language: the schema's own, a translation, or the language's plainest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from grace.columns import is_date
from grace.errors import GraceError
from grace.features import MISSING, WORDS, Categorical, Feature, Value
from grace.languages import Language, load

if TYPE_CHECKING:
    from grace.schema import Schema

ROW_WORDS = ("row", "rows", "verb", "class_words")
VERBS = ("been", "more", "less")


def feature_in(feature: Feature, own: str, code: str) -> Feature:
    """The feature with its words in the language `code`; `own` is that of the schema's words. A phrase and a
    label are there for sure: where nobody gave any, the plain name."""
    language = load(code)
    defaults = {f.name: f.default for f in fields(feature) if f.name in WORDS and f.name != "labels"}
    given: dict[str, Any] = dict(feature.translations.get(code, {}))
    if code == own:
        given = {w: getattr(feature, w) for w in defaults if getattr(feature, w) != defaults[w]} | given
    dates = language.WORDS.date if is_date(feature) else {}
    words = {**defaults, **{v: getattr(language.WORDS, v) for v in VERBS if v in defaults}, **dates, **given}
    words["phrase"] = words["phrase"] or language.named(feature.name)
    if isinstance(feature, Categorical):
        labels = {**(feature.labels if code == own else {}), **given.get("labels", {})}
        plain = {str(c): language.label(c) for c in feature.categories} | {MISSING: language.WORDS.missing}
        words["labels"] = plain | labels
    return replace(feature, **words)


def row_words(schema: Schema, code: str, task: str = "classification") -> dict[str, Any]:
    """ROW_WORDS of the schema in the language, or its plainest for a task; and "cluster" where classes are such."""
    plain = load(code).WORDS
    verb = plain.tasks.get(task, plain.verb)
    words: dict[str, Any] = {"row": plain.row, "rows": plain.rows, "verb": verb, "class_words": {}}
    words["cluster"] = plain.cluster if task == "clustering" else ""
    if code == schema.language:
        unset = {f.name: f.default for f in fields(schema)}
        words |= {w: getattr(schema, w) for w in ROW_WORDS if getattr(schema, w) != unset[w]}
    return words | dict(schema.translations.get(code, {}))


def class_word(words: Mapping[str, Any], label: Value, language: Language) -> str:
    """What a person calls the class."""
    plain = words["cluster"].format(**{"class": label}) if words.get("cluster") else language.label(label)
    return str(words["class_words"].get(str(label), plain))


def translated(schema: Schema, code: str, words: Mapping[str, Any]) -> Schema:
    """The schema with its words in another language: ROW_WORDS, and those of features under "features"."""
    for part in words:
        if part not in (*ROW_WORDS, "features"):
            raise GraceError(f"{part!r} cannot be translated; what can is {', '.join(ROW_WORDS)}, features")
    of_features: Mapping[str, Mapping[str, Any]] = words.get("features", {})
    for name in of_features:
        schema.index(name)
    features = tuple(
        replace(f, translations={**f.translations, code: dict(of_features[f.name])}) if f.name in of_features else f
        for f in schema.features
    )
    row = {k: v for k, v in words.items() if k != "features"}
    return replace(schema, features=features, translations={**schema.translations, code: row})
