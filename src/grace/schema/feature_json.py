"""Features as JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from grace.errors import GraceError
from grace.schema.features import KINDS, Categorical, Feature, Numeric
from grace.schema.parsing import record, shown

MOST_CATEGORIES = 2000  # of a feature: each has a coordinate of its own in some spaces
MOST_PAIRS = 10**8  # of categories of the same feature, altogether
MOST_FEATURES = 100_000

DATA = {
    "observed": "to set a range, edit low and high",
    "rare": "to let a change choose a category or not, edit always and never",
    "dtype": "it is the type of the column, so change the table",
    "gaps": "whether missing cells are values of their own follows from the model and the table",
}
"""What the data decide: in a file to edit it stands under "data", with a checksum, as it is no place to edit."""
CHECK = "check"
MOST_FLOAT = 1e308


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """A feature as JSON, without the parts that are at their default; "kind" tells a category from a number,
    and where it is declared, which kind of number."""
    defaults = {f.name: f.default for f in fields(feature)}
    parts = {k: v for k, v in asdict(feature).items() if v != defaults[k] and v not in ((), {})}
    return {"kind": type(feature).__name__.lower(), **parts}


def feature_from_dict(data: Any) -> Feature:
    """The feature that `feature_to_dict` wrote, or that stands in a schema file."""
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
    parts |= _seen(parts.pop("data", {}), kinds[kind], what)
    return kinds[kind](**record(kinds[kind], parts, what))


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
                f'{what}: "data" has an unknown part {shown(key)}; take "data" out to have it read off the data'
            )
    if seen and check != _checksum(seen):
        remedies = "; ".join(f"{key}: {remedy}" for key, remedy in DATA.items() if key in seen)
        raise GraceError(f'{what}: "data" is what the data show and cannot be edited ({remedies}); take it out or back')
    return seen


def _checksum(seen: Mapping[str, Any]) -> str:
    """Of the values, however the numbers are written: 6 is 6.0, and -0.0 is 0.0."""
    ends = seen.get("observed")
    if isinstance(ends, list) and all(type(end) in (int, float) and abs(end) <= MOST_FLOAT for end in ends):
        seen = {**seen, "observed": [float(end) + 0.0 for end in ends]}
    return f"{zlib.crc32(json.dumps(seen, sort_keys=True).encode()):08x}"


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
