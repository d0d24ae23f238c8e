"""The words of features and schemas in a language: the schema's own, a translation, or the language's plainest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.schema.columns import is_date
from grace.schema.features import MISSING, WORDS, Categorical, Feature, Value
from grace.schema.parsing import fitted
from grace.text.languages import Language, check_template, fill, load
from grace.text.regression_text import Range, asked_for, predicted

if TYPE_CHECKING:
    from grace.schema.schema import Schema

ROW_WORDS = ("row", "rows", "verb", "class_words")
VERBS = ("been", "more", "less")
NUMBERED = re.compile(r"[-+]?\d+(\.\d+)?|True|False|true|false")
NO_NAMES = ("", "class", "classes", "label", "target", "y")  # targets whose names say nothing


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
        plain = {str(c): language.label(worded(c, feature.categories)) for c in feature.categories}
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


def worded(label: Value, among: Sequence[Value]) -> str:
    """A class or category as words, "no recidivism" for no_recidivism, unless another would then be called the same."""
    said = str(label).replace("_", " ").strip()
    others = [str(c).replace("_", " ").strip() for c in among if c != label]
    return said if said and said not in others else str(label)


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
    if not NUMBERED.fullmatch(str(label)):
        return worded(label, words["classes"])
    target = str(words["target"]).replace("_", " ").strip()
    if target.lower() in NO_NAMES:
        return fill(language.WORDS.numbered, label)
    return f"{target} = {label}"


def check_words(schema: Schema) -> None:
    """An error that names the word of a schema, in its own language or another, that is none or has other places to
    fill in than those for the row and the class."""
    check_template(schema.verb, "the schema's verb")
    hints = {"row": str, "rows": str, "verb": str, "class_words": Mapping[str, str]}
    for code, words in fitted(
        schema.translations, Mapping[str, Mapping[str, Any]], "the schema's translations"
    ).items():
        for part, said in words.items():
            what = f"translations[{code!r}]: {part}"
            if part not in ROW_WORDS:
                raise GraceError(f"{what} cannot be translated; what can is {', '.join(ROW_WORDS)}")
            fitted(said, hints[part], what)
        check_template(words.get("verb", ""), f"translations[{code!r}]: verb")


def translated(schema: Schema, code: str, words: Mapping[str, Any]) -> Schema:
    """The schema with its words in another language: ROW_WORDS, and those of features under "features"."""
    for part in words:
        if part not in (*ROW_WORDS, "features"):
            raise GraceError(f"{part!r} cannot be translated; what can is {', '.join(ROW_WORDS)}, features")
    of_features = fitted(words.get("features", {}), Mapping[str, Mapping[str, Any]], f"words in {code!r}: features")
    for name in of_features:
        schema.index(name)
    features = tuple(
        replace(f, translations={**f.translations, code: dict(of_features[f.name])}) if f.name in of_features else f
        for f in schema.features
    )
    row = {k: v for k, v in words.items() if k != "features"}
    return replace(schema, features=features, translations={**schema.translations, code: row})
