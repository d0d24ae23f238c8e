"""Parsing untrusted JSON: bounded in size and depth, and validated against declared types.

`read_text` and `read_json` refuse what is too large, too deep or not JSON; `fitted` validates a value against a type
hint, and `record` a JSON object against the fields of a dataclass. Each raises a GraceError that names the part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from grace.errors import GraceError

MAX_SEED = 2**32 - 1  # the largest seed of numpy's generators
MAX_BYTES = 64 * 2**20  # of a JSON file
MAX_DEPTH = 40  # of nested objects and lists
Bound = Annotated[float, "may be infinite"]
"""A type hint for the end of a range; all other numbers have to be finite."""
SCALARS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", NoneType: "null"}


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """The text of a file of limited size."""
    check_size(path, most)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as reason:
        raise GraceError(f"{path} cannot be read: it is not UTF-8 text ({reason.reason})") from reason
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason


def check_size(path: Path, most: int) -> None:
    """Raises an error for a path that is not a regular file, or a file larger than `most` bytes."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as reason:
        raise GraceError(f"{path} cannot be read: {getattr(reason, 'strerror', None) or reason}") from reason
    if not path.is_file():
        raise GraceError(f"{path} cannot be read: it is not a file")
    if size > most:
        raise GraceError(f"{path} is too large: it has {size:,} bytes, and at most {most:,} are read")


def read_json(text: str, what: str) -> Any:
    """The parsed JSON. Duplicate keys, NaN and lone surrogates are refused; infinite numbers only by type, see
    `fitted`."""
    if len(text) > MAX_BYTES:
        raise GraceError(f"{what} is too large: at most {MAX_BYTES:,} characters are read")
    try:
        tree = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise GraceError(f"{what} is damaged: it is nested more than {MAX_DEPTH} deep") from None
    except GraceError as reason:
        raise GraceError(f"{what} is damaged: {reason}") from None
    except ValueError as reason:
        raise GraceError(f"{what} is not JSON: {reason}") from reason
    _check_tree(tree, what)
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of the pairs; an error for duplicate keys."""
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in out if keys.count(key) > 1)
        raise GraceError(f"{shown(twice)} occurs twice in one object")
    return out


def _constant(name: str) -> float:
    if name == "NaN":
        raise GraceError("NaN is not a number")
    return float(name)


def _check_tree(tree: Any, what: str) -> None:
    """Raises an error for trees that are too deep to recurse into, and for text that cannot be encoded."""
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        parts: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                parts += part.keys()
                parts += part.values()
            elif isinstance(part, list):
                parts += part
            elif isinstance(part, str) and not part.isascii() and any("\ud800" <= c <= "\udfff" for c in part):
                raise GraceError(f"{what} is damaged: {shown(part)} is not Unicode text")
        if not parts:
            return
        level = parts
    raise GraceError(f"{what} is damaged: it is nested more than {MAX_DEPTH} deep")


def record(cls: type, data: Any, what: str) -> dict[str, Any]:
    """The parts of a JSON object as the fields of a dataclass, validated. Unknown parts are refused, and so are missing
    fields without a default."""
    if not isinstance(data, Mapping):
        raise GraceError(f"{what} is {shown(data)}; it must be an object")
    hints = hints_of(cls)
    known = {f.name: f for f in fields(cls)}
    for key in data:
        if key not in known:
            raise GraceError(f"{what} has an unknown part {shown(key)}; it may have {', '.join(sorted(known))}")
    for name, field in known.items():
        if name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise GraceError(f"{what} has no {name!r}")
    return {key: fitted(value, hints[key], f"{what}: {key}") for key, value in data.items()}


def fitted(value: Any, hint: Any, what: str) -> Any:
    """A JSON value validated against a type hint: lists become tuples where these are declared, and objects
    dataclasses, by their `from_dict` if they have one. Numbers must be finite, except for `Bound`, and integers fit 64
    bits."""
    origin, arguments = _outermost(hint), get_args(hint)
    if hint is Any:
        return value
    if not _matches(hint, value):
        raise GraceError(f"{what} is {shown(value)}; it must be {_describe(hint)}")
    if origin in (Union, UnionType):
        return fitted(value, next(arm for arm in arguments if _matches(arm, value)), what)
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise GraceError(f"{what} is {shown(value)}; whole numbers must fit 64 bits")
        return value
    if isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and hint is not Bound):
            raise GraceError(f"{what} is {value}; it must be a finite number")
        return value
    if isinstance(value, Mapping):
        if is_dataclass(hint) and isinstance(hint, type):
            from_dict = getattr(hint, "from_dict", None)
            return hint(**record(hint, value, what)) if from_dict is None else from_dict(value)
        if is_typeddict(hint):
            return _typed_dict(value, hint, what)
        return {key: fitted(part, arguments[1], f"{what}: {shown(key)}") for key, part in value.items()}
    each = [arguments[0]] * len(value) if arguments[-1] is ... or origin is list else list(arguments)
    if len(each) != len(value):
        raise GraceError(f"{what} has {len(value)} parts; it must be {_describe(hint)}")
    return origin(fitted(part, one, what) for part, one in zip(value, each, strict=True))


def _typed_dict(value: Mapping[str, Any], hint: Any, what: str) -> dict[str, Any]:
    """An object validated as a TypedDict; unknown keys are kept."""
    hints, optional = hints_of(hint), _optional(hint)
    for key in hints:
        if key not in value and key not in optional:
            raise GraceError(f"{what} has no {key!r}")
    return {key: fitted(part, hints.get(key, Any), f"{what}: {shown(key)}") for key, part in value.items()}


def _outermost(hint: Any) -> Any:
    return float if hint is Bound else get_origin(hint) or hint


def _matches(hint: Any, value: Any) -> bool:
    """Whether a value has the outermost type of a hint."""
    origin = _outermost(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_matches(arm, value) for arm in get_args(hint))
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin in SCALARS:
        return type(value) is origin
    if origin in (tuple, list):
        return isinstance(value, list | tuple)
    return isinstance(value, Mapping)


def _describe(hint: Any) -> str:
    """A type hint in words."""
    origin, arguments = _outermost(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_describe(arm) for arm in arguments))
    if origin in SCALARS:
        return SCALARS[origin]
    if origin in (tuple, list):
        many = origin is list or arguments[-1] is ...
        return f"a list of {_describe(arguments[0])}" if many else f"a list of {len(arguments)}"
    return "anything" if hint is Any else "an object"


def whole_number(name: str, value: Any, least: int, most: int, more: str = "") -> None:
    """Raises an error unless a setting is an integer in [least, most]; `more` explains the least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GraceError(f"{name}={shown(value)}: it must be a whole number of at least {least}{more}")
    if value > most:
        raise GraceError(f"{name}={shown(value)}: it must be at most {most:,}")


@cache
def _optional(hint: Any) -> frozenset[str]:
    """The keys of a TypedDict that are not required, also with postponed annotations."""
    hints = get_type_hints(hint, include_extras=True)
    return frozenset(n for n, h in hints.items() if n in hint.__optional_keys__ or get_origin(h) is NotRequired)


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """The type hints of a dataclass or TypedDict, without NotRequired."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: get_args(h)[0] if get_origin(h) is NotRequired else h for name, h in hints.items()}


def shown(value: Any) -> str:
    """The repr of a value, abbreviated for an error message."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a whole number of very many digits"
    text = repr(value[:80] if isinstance(value, str | list | tuple) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def comma_separated(given: Iterable[str]) -> list[str]:
    """The parts of comma-separated texts."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]
