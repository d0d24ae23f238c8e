"""Features as JSON."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from grace.errors import GraceError
from grace.features import KINDS, Categorical, Feature, Numeric

DATA = {
    "observed": "to set a range, edit low and high",
    "rare": "to let a change choose a category or not, edit always and never",
    "dtype": "it is the type of the column, so change the table",
    "gaps": "whether missing cells are values of their own follows from the model and the table",
}
"""What the data decide: in a file to edit it stands under "data", with a checksum, as it is no place to edit."""
CHECK = "check"


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _value(value: Any) -> bool:
    return isinstance(value, str | bool) or _number(value)


def _values(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_value, value))


def _pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_number, value))


def _words(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(word, str) for word in value.values())


def _translations(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(words, Mapping) for words in value.values())


TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("frozen", "protected", "increase_only", "decrease_only"), (_flag, "true or false")),
    **dict.fromkeys(("plural", "ordered", "gaps", "integer"), (_flag, "true or false")),
    **dict.fromkeys(("low", "high", "spread", "cost"), (_number, "a number")),
    "decimals": (_whole, "a whole number, 0 or more"),
    "typical": (_value, "a value"),
    "observed": (_pair, "a list of two numbers"),
    **dict.fromkeys(("name", "phrase", "noun", "unit", "unit_one", "been", "more", "less"), (_text, "text")),
    **dict.fromkeys(("style", "dtype", "other"), (_text, "text")),
    **dict.fromkeys(("categories", "never", "always", "rare", "columns"), (_values, "a list of values")),
    "labels": (_words, "an object of text by category"),
    "translations": (_translations, "an object of words by language"),
}
PARTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "target": (lambda value: value is None or _text(value), "text or null"),
    **dict.fromkeys(("row", "rows", "verb", "language"), (_text, "text")),
    "classes": (_values, "a list of values"),
    "domain": (lambda value: _text(value) or _number(value), "central, minmax or a share"),
    "class_words": (_words, "an object of text by class"),
    "translations": (_translations, "an object of words by language"),
    "rules": (lambda value: isinstance(value, list | tuple), "a list of rules"),
}
"""The parts of a schema beside its features."""
EMPTY = ("low", "high", "integer", "decimals", "observed", "spread", "typical")
"""Parts that null leaves open, to be read off the data."""


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """A feature as JSON, without the parts that are at their default; "kind" tells a category from a number,
    and where it is declared, which kind of number."""
    defaults = {f.name: f.default for f in fields(feature)}
    parts = {k: v for k, v in asdict(feature).items() if v != defaults[k] and v not in ((), {})}
    return {"kind": type(feature).__name__.lower(), **parts}


def feature_from_dict(data: Mapping[str, Any]) -> Feature:
    """The feature that `feature_to_dict` wrote, or that stands in a schema file."""
    kinds: dict[str, type[Feature]] = {"numeric": Numeric, "categorical": Categorical, **dict.fromkeys(KINDS, Numeric)}
    parts = dict(data) if isinstance(data, Mapping) else {}
    kind = parts.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise GraceError(
            f"a feature's kind is {kind!r}; it must be 'numeric' or 'categorical', or say which kind of number: "
            f"{', '.join(KINDS)}"
        )
    if kind in KINDS:
        parts["kind"] = kind
    if not isinstance(parts.get("name"), str):
        raise GraceError("a feature has no name")
    what = f"feature {parts['name']!r}"
    parts |= _seen(parts.pop("data", {}), kinds[kind], what)
    known_parts(kinds[kind], parts, what)
    for key, value in parts.items():
        fits, needed = TYPES.get(key, (_text, "text"))
        if not fits(value) and not (value is None and key in EMPTY):
            raise GraceError(f"{what}: {key} must be {needed}{' or null' if key in EMPTY else ''}, not {value!r}")
        if isinstance(value, list):
            parts[key] = tuple(value)
    if kinds[kind] is Numeric and isinstance(parts.get("typical"), str | bool):
        raise GraceError(f"{what}: typical must be a number or null, not {parts['typical']!r}")
    return kinds[kind](**parts)


def seen_to_dict(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What the data decide of a feature, with a checksum of it; empty where there is nothing."""
    seen = {key: list(value) if isinstance(value, tuple) else value for key, value in parts.items() if key in DATA}
    return {**seen, CHECK: _checksum(seen)} if seen else {}


def _seen(data: Any, cls: type[Feature], what: str) -> dict[str, Any]:
    """The parts under "data"; an error names what was edited there, and what to edit instead."""
    seen = dict(data) if isinstance(data, Mapping) else {"observed": data}
    check = seen.pop(CHECK, None)
    own = {f.name for f in fields(cls)}
    for key in seen:
        if key not in DATA or key not in own:
            raise GraceError(
                f'{what}: "data" has an unknown part {key!r}; take "data" out to have it read off the data'
            )
    if seen and check != _checksum(seen):
        remedies = "; ".join(f"{key}: {remedy}" for key, remedy in DATA.items() if key in seen)
        raise GraceError(f'{what}: "data" is what the data show and cannot be edited ({remedies}); take it out or back')
    return seen


def _checksum(seen: Mapping[str, Any]) -> str:
    """Of the values, however the numbers are written: 6 is 6.0."""
    if _pair(seen.get("observed")):
        seen = {**seen, "observed": [float(end) for end in seen["observed"]]}
    return f"{zlib.crc32(json.dumps(seen, sort_keys=True).encode()):08x}"


def known_parts(cls: type, parts: dict[str, Any], what: str) -> dict[str, Any]:
    allowed = {f.name for f in fields(cls)}
    for key in parts:
        if key not in allowed:
            raise GraceError(f"{what} has an unknown part {key!r}; it may have {', '.join(sorted(allowed))}")
    return parts
