"""Features as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from grace.errors import GraceError
from grace.features import KINDS, Categorical, Feature, Numeric


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """A feature as JSON, without the parts that are at their default; "kind" tells a category from a number,
    and where it is declared, which kind of number."""
    defaults = {f.name: f.default for f in fields(feature)}
    parts = {k: v for k, v in asdict(feature).items() if v != defaults[k] and v not in ((), {})}
    return {"kind": type(feature).__name__.lower(), **parts}


def feature_from_dict(data: Mapping[str, Any]) -> Feature:
    """The feature that `feature_to_dict` wrote."""
    kinds: dict[str, type[Feature]] = {"numeric": Numeric, "categorical": Categorical, **dict.fromkeys(KINDS, Numeric)}
    parts = dict(data) if isinstance(data, Mapping) else {}
    kind = parts.pop("kind", None)
    if kind not in kinds:
        raise GraceError(
            f"a feature's kind is {kind!r}; it must be 'numeric' or 'categorical', or say which kind of number: "
            f"{', '.join(KINDS)}"
        )
    if kind in KINDS:
        parts["kind"] = kind
    for key in ("observed", "categories", "never", "always", "rare", "columns"):
        if isinstance(parts.get(key), list):
            parts[key] = tuple(parts[key])
    if "name" not in parts:
        raise GraceError("a feature has no name")
    return kinds[kind](**known_parts(kinds[kind], parts, f"feature {parts.get('name')!r}"))


def known_parts(cls: type, parts: dict[str, Any], what: str) -> dict[str, Any]:
    allowed = {f.name for f in fields(cls)}
    for key in parts:
        if key not in allowed:
            raise GraceError(f"{what} has an unknown part {key!r}; it may have {', '.join(sorted(allowed))}")
    return parts
