"""Features as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from grace.errors import GraceError
from grace.features import KINDS, Categorical, Feature, Numeric
from grace.parsing import record, shown

MOST_CATEGORIES = 2000  # of a feature: each has a coordinate of its own in some spaces
MOST_PAIRS = 10**8  # of categories of the same feature, altogether
MOST_FEATURES = 100_000


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """A feature as JSON, without the parts that are at their default; "kind" tells a category from a number,
    and where it is declared, which kind of number."""
    defaults = {f.name: f.default for f in fields(feature)}
    parts = {k: v for k, v in asdict(feature).items() if v != defaults[k] and v not in ((), {})}
    return {"kind": type(feature).__name__.lower(), **parts}


def feature_from_dict(data: Any) -> Feature:
    """The feature that `feature_to_dict` wrote."""
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
    if "name" not in parts:
        raise GraceError("a feature has no name")
    return kinds[kind](**record(kinds[kind], parts, f"feature {shown(parts['name'])}"))


def features_from(data: Any) -> tuple[Feature, ...]:
    """The features of a schema, not more than can be worked with."""
    if not isinstance(data, list | tuple) or len(data) > MOST_FEATURES:
        raise GraceError(f'a schema must have a list "features", of at most {MOST_FEATURES:,}')
    out = tuple(feature_from_dict(part) for part in data)
    counts = [len(f.categories) for f in out if isinstance(f, Categorical)]
    if max(counts, default=0) > MOST_CATEGORIES or sum(n * n for n in counts) > MOST_PAIRS:
        raise GraceError(
            f"the features have {sum(counts):,} categories in all, up to {max(counts):,} each, which is too many; "
            "turn them into numbers or a few categories"
        )
    return out
