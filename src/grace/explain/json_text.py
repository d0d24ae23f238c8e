"""JSON text of many similar records: equal to `json.dumps(value, ensure_ascii=False, indent=1)`, several times faster.

The C encoder of the standard library does not indent. It still encodes parts without nested parts here, as an item
separator that contains the line break indents them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, lru_cache
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

FEW = 8  # items, up to which the call of the C encoder takes longer than it saves
_other = json.JSONEncoder(ensure_ascii=False).encode
TEXTS: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: int.__repr__,
    float: lambda value: float.__repr__(value) if isfinite(value) else _other(value),
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
}
SCALARS = frozenset(TEXTS)
LISTS = (list, tuple)


class Shared(dict[str, Any]):
    """A dict that is part of many records and not modified: its text is cached for each depth."""

    def __init__(self, parts: dict[str, Any]) -> None:
        super().__init__(parts)
        self.texts: dict[int, str] = {}


@cache
def _flat(level: int) -> Callable[[Any], str]:
    """The encoder of dicts and lists of scalars whose items stand at a level."""
    return json.JSONEncoder(ensure_ascii=False, separators=(",\n" + " " * level, ": ")).encode


def indented(value: Any, level: int = 0) -> str:
    """The text of a value at a depth in the document."""
    kind = type(value)
    if kind in TEXTS:
        return TEXTS[kind](value)
    if kind is Shared:
        if level not in value.texts:
            value.texts[level] = indented(dict(value), level)
        text: str = value.texts[level]
        return text
    line, inner = _lines(level)
    if isinstance(value, dict):
        if not value:
            return "{}"
        if len(value) > FEW and SCALARS.issuperset(map(type, value.values())):
            return f"{{{inner}{_flat(level + 1)(value)[1:-1]}{line}}}"
        texts = [TEXTS[k](v) if (k := type(v)) in TEXTS else indented(v, level + 1) for v in value.values()]
        items = [f"{_key(k)}: {text}" for k, text in zip(value, texts, strict=True)]
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(value, LISTS):
        items = [indented(v, level + 1) for v in value]
        return f"[{inner}{f',{inner}'.join(items)}{line}]" if items else "[]"
    return _other(value)


@cache
def _lines(level: int) -> tuple[str, str]:
    """Line breaks before the end of a part at a level, and before its items."""
    return "\n" + " " * level, "\n" + " " * (level + 1)


@lru_cache(typed=True)
def _key(key: Any) -> str:
    return encode_basestring(key if isinstance(key, str) else json.dumps(key))


def unshared(value: Any) -> Any:
    """A copy in which no part is shared with another record."""
    if isinstance(value, dict):
        return {k: v if type(v) in SCALARS else unshared(v) for k, v in value.items()}
    return type(value)(map(unshared, value)) if isinstance(value, LISTS) else value
