"""Features and schemas as JSON: the compact form of saved explainers, and a file to edit.

The file holds every part that may be set, help on each, and under "data" what the table showed (`DATA`), with a
checksum: it cannot be edited. A part without effect, such as words for an unknown class, is an error.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from grace.errors import GraceError
from grace.schema.columns import MAX_DATE, MIN_DATE, date_text, epoch_days
from grace.schema.features import KINDS, STYLES, Categorical, Feature, Numeric
from grace.schema.frames import join_first
from grace.schema.parsing import read_json, record, shown
from grace.schema.words import languages

if TYPE_CHECKING:
    from grace.schema.schema import Schema

HELP = {
    "target": "the column that is predicted; no feature",
    "classes": "its values, in the order of the model's outputs",
    "domain": "ranges of new values: central (the middle 98 % of the training values), minmax, or a share such as 0.9",
    "row, rows, verb, class_words": "words of sentences: a row, several, what the model did, and by class its name",
    "language, translations": "the language of these words, and the words in others",
    "rules": "what holds between features, such as 'a <= b'; see docs/rules.md",
    "features": "one for each column; to train without a column, take it out here and give --drop COLUMN",
    "kind": f"categorical, numeric, or which kind of number: {', '.join(KINDS)}",
    "low, high": "the lowest and the highest value that a change may give; null: what the data show, by the domain",
    "integer": "whether only whole numbers make sense",
    "decimals": "the most decimals of a new value; fewer where the spread is large",
    "spread": "the unit of distances; of categories, for ordered ones",
    "typical": "what a missing cell is filled in with",
    "categories": "all values that rows may have; by rising rank if ordered",
    "ordered": "whether the categories have an order",
    "never, always": "categories that no change chooses, and those it may choose though they are rare",
    "other": "the category that stands for all values that are not listed",
    "frozen": "true: never changes",
    "protected": "true: never changes, unless a call asks for it by name (only, increase_only, ranges, ...)",
    "increase_only, decrease_only": "true: may only rise, or only fall; of categories, for ordered ones",
    "cost": "what a change of one spread counts in the distance: 2 makes it twice as far",
    "phrase, noun, plural": "what a sentence calls the feature: 'the income'; noun where it is called otherwise alone",
    "unit, unit_one": "the unit of differences, 'years', and of a single one, 'year'",
    "more, less, been": "'Had the patient been 3 years older': been, and more or less",
    "style": f"how precisely differences are said: {', '.join(STYLES)}",
    "labels": "by category, what a person calls it",
    "columns": "the columns of 0 and 1 that are this one category",
    "data": "what the table showed when the file was written, for information; it cannot be edited, but taken out",
}
"""The text under "help", which is not read back."""
NUMERIC = (
    *("name", "low", "high", "integer", "decimals", "spread", "typical"),
    *("frozen", "protected", "increase_only", "decrease_only", "cost", "phrase", "unit", "more", "less"),
)
CATEGORICAL = (
    *("name", "categories", "ordered", "never", "always", "typical"),
    *("frozen", "protected", "cost", "phrase", "labels"),
)
"""The attributes that are written even at their defaults."""
MAX_CATEGORIES = 2000  # of a feature: each may become a coordinate
MAX_PAIRS = 10**8  # of categories of the same feature, over all features
MAX_FEATURES = 100_000
DATA = {
    "observed": "to set a range, edit low and high",
    "rare": "to let a change choose a category or not, edit always and never",
    "dtype": "it is the type of the column, so change the table",
    "gaps": "whether missing cells are values of their own follows from the model and the table",
}
"""The attributes that the data determine, with what to edit instead."""
CHECK = "check"
MAX_FLOAT = 1e308
DATE_PARTS = ("low", "high", "typical")


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """A feature as JSON, without attributes at their defaults; "kind" is its class, or the declared kind of number."""
    parts = {f.name: v for f in fields(feature) if (v := getattr(feature, f.name)) != f.default and v not in ((), {})}
    copied = {k: deepcopy(v) if isinstance(v, Mapping) else v for k, v in parts.items()}  # asdict copies everything
    return {"kind": type(feature).__name__.lower(), **copied}


def feature_from_dict(data: Any) -> Feature:
    """The inverse of `feature_to_dict`; also reads features of a schema file."""
    kinds: dict[str, type[Feature]] = {"numeric": Numeric, "categorical": Categorical, **dict.fromkeys(KINDS, Numeric)}
    parts = dict(data) if isinstance(data, Mapping) else {}
    kind = parts.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise GraceError(
            f"a feature's kind is {shown(kind)}; it must be 'numeric' or 'categorical', or say which kind of number: "
            f"{', '.join(KINDS)}"
        )
    if kind in KINDS:
        parts["kind"] = kind
    if not isinstance(parts.get("name"), str):
        raise GraceError("a feature has no name")
    what = f"feature {shown(parts['name'])}"
    parts |= _data_from_dict(parts.pop("data", {}), kinds[kind], what)
    return kinds[kind](**record(kinds[kind], parts, what))


def _data_to_dict(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes in DATA with a checksum; empty if there are none."""
    seen = {key: list(value) if isinstance(value, tuple) else value for key, value in parts.items() if key in DATA}
    return {**seen, CHECK: _checksum(seen)} if seen else {}


def _data_from_dict(data: Any, cls: type[Feature], what: str) -> dict[str, Any]:
    """The attributes under "data"; an error names what was edited there, and what to edit instead."""
    seen = dict(data) if isinstance(data, Mapping) else {"observed": data}
    check = seen.pop(CHECK, None)
    names = {f.name for f in fields(cls)}
    for key in seen:
        if key not in DATA or key not in names:
            raise GraceError(
                f'{what}: "data" has an unknown part {shown(key)}; take "data" out to have it read off the data'
            )
    if seen and check != _checksum(seen):
        remedies = "; ".join(f"{key}: {remedy}" for key, remedy in DATA.items() if key in seen)
        raise GraceError(f'{what}: "data" is what the data show and cannot be edited ({remedies}); take it out or back')
    return seen


def _checksum(seen: Mapping[str, Any]) -> str:
    """CRC-32 of the values, independent of the notation of numbers: 6 and 6.0, -0.0 and 0.0."""
    ends = seen.get("observed")
    if isinstance(ends, list) and all(type(end) in (int, float) and abs(end) <= MAX_FLOAT for end in ends):
        seen = {**seen, "observed": [float(end) + 0.0 for end in ends]}
    return f"{zlib.crc32(json.dumps(seen, sort_keys=True).encode()):08x}"


def features_from(data: Any) -> tuple[Feature, ...]:
    """The features of a schema; an error if there are too many."""
    if not isinstance(data, list | tuple) or len(data) > MAX_FEATURES:
        raise GraceError(f'a schema must have a list "features", of at most {MAX_FEATURES:,}')
    out = tuple(feature_from_dict(part) for part in data)
    counts = [len(f.categories) for f in out if isinstance(f, Categorical)]
    if max(counts, default=0) > MAX_CATEGORIES or sum(n * n for n in counts) > MAX_PAIRS:
        raise GraceError(
            f"the features have {sum(counts):,} categories in all, up to {max(counts):,} each, which is too many; "
            "turn them into numbers or a few categories"
        )
    return out


def to_text(schema: Schema) -> str:
    """The schema file, one attribute per line."""
    head = {"help": HELP, **schema.to_dict()}
    head["features"] = [_feature(f) for f in schema.features]
    return json.dumps(head, indent=1, ensure_ascii=False)


def _feature(feature: Feature) -> dict[str, Any]:
    """A feature of the schema file: DATA apart, dates as text."""
    parts = asdict(feature)
    written = feature_to_dict(feature)
    shown = {key: parts[key] for key in (NUMERIC if isinstance(feature, Numeric) else CATEGORICAL)}
    rest = {key: value for key, value in written.items() if key not in DATA and key not in shown}
    seen = _data_to_dict({key: value for key, value in written.items() if key in DATA})
    if rest["kind"] == "date":
        shown |= {key: _to_date(shown[key]) for key in DATE_PARTS}
        seen |= {"observed": [_to_date(end) for end in seen["observed"]]} if "observed" in seen else {}
    return {"kind": rest.pop("kind"), **shown, **rest, **({"data": seen} if seen else {})}


def _to_date(number: float | None) -> str | float | None:
    """Days since 1970 as a date, if that is exact."""
    if number is None or not MIN_DATE <= number < MAX_DATE:
        return number
    text = date_text(number)
    return text if _days("", text) == number else number


def _days(what: str, date: Any) -> Any:
    """The days since 1970 of a date as text; any other value unchanged."""
    if not isinstance(date, str):
        return date
    try:
        return float(epoch_days(pd.Series([date]))[0])
    except GraceError:
        raise GraceError(f"{what}{date!r} is not a date; write it as 2020-12-31") from None


def _with_days(feature: dict[str, Any]) -> dict[str, Any]:
    """A date feature with its dates as days."""
    what = f"feature {feature.get('name')!r}: "
    out = {**feature, **{key: _days(f"{what}{key}=", feature[key]) for key in DATE_PARTS if key in feature}}
    seen = feature.get("data")
    if isinstance(seen, dict) and isinstance(seen.get("observed"), list):
        out["data"] = {**seen, "observed": [_days(f"{what}observed ", end) for end in seen["observed"]]}
    return out


def from_text(text: str) -> dict[str, Any]:
    """The parts of a schema file, for `Schema.from_dict`."""
    data = read_json(text, "the schema")
    if not isinstance(data, dict):
        raise GraceError('a schema must be a JSON object with a list "features"')
    parts = {key: value for key, value in data.items() if key != "help"}
    if not isinstance(parts.get("features"), list):
        return parts
    for feature in (f for f in parts["features"] if isinstance(f, dict)):
        for key, remedy in DATA.items():
            if key in feature:
                name = feature.get("name")
                raise GraceError(f"feature {name!r}: {key} is what the data show and cannot be set; {remedy}")
    features = [_with_days(f) if isinstance(f, dict) and f.get("kind") == "date" else f for f in parts["features"]]
    return {**parts, "features": features}


def check_edits(schema: Schema) -> Schema:
    """The schema, if every part of it has an effect; else an error names one without."""
    known = languages()
    if schema.language not in known:
        raise GraceError(f"language={schema.language!r} is unknown; use one of {', '.join(known)}")
    _check_known(schema.translations, known, "translations", "a language")
    if schema.classes:
        _check_known(schema.class_words, [str(c) for c in schema.classes], "class_words", "a class")
    for feature in schema.features:
        what = f"feature {feature.name!r}: "
        _check_known(feature.translations, known, f"{what}translations", "a language")
        if isinstance(feature, Categorical):
            _check_categories(feature, what)
        elif feature.integer and feature.decimals:
            raise GraceError(
                f"{what}decimals={feature.decimals} of a whole number; set integer to false, or decimals to 0"
            )
    return schema


def _check_categories(feature: Categorical, what: str) -> None:
    both = [c for c in feature.never if c in feature.always]
    if both:
        raise GraceError(f"{what}{both[0]!r} is in never and in always; leave it out of one of them")
    if not feature.categories:
        return
    _check_known(feature.labels, [str(c) for c in feature.categories], f"{what}labels", "a category")
    if feature.typical is not None:
        _check_known([feature.typical], feature.categories, f"{what}typical", "a category")
    if not feature.ordered:
        for part in ("increase_only", "decrease_only", "spread"):
            if getattr(feature, part):
                raise GraceError(f"{what}{part} is for ordered categories; set ordered to true, or take it out")


def _check_known(keys: Mapping[str, Any] | Collection[Any], known: Collection[Any], part: str, thing: str) -> None:
    """Raises an error for a key that is not known."""
    for key in keys:
        if key not in known:
            raise GraceError(f"{part} has {key!r}, which is not {thing}; there are {join_first(known)}")
