"""Limits on what a call may change: frozen, allowed and one-directional features, ranges and costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.schema.features import Categorical, Feature, plain

if TYPE_CHECKING:
    from grace.schema.schema import Schema


LIMITS = ("frozen", "only", "protected", "increase_only", "decrease_only", "ranges", "costs")
"""The arguments of `Schema.constrain`, also of `Explainer.explain`."""
EXPLAIN_ARGUMENTS = ("against", "domain", *LIMITS, "robust", "rules")
"""The arguments of `Explainer.explain` besides the settings."""
UNLOCKS = ("only", "increase_only", "decrease_only", "ranges", "costs")
"""Limits that release a protected feature by naming it."""


def names_in(given: Any) -> list[str]:
    """The feature names in a limit, which may be a str, a sequence, a mapping or None."""
    return [given] if isinstance(given, str) else list(given or ())


def constrained(schema: Schema, limits: Mapping[str, Any]) -> Schema:
    """The schema with limits, see `Schema.constrain`; the same object if there are none."""
    if limits.get("only") is None and all(map(_is_unset, limits.values())):
        return schema
    named = {part: names_in(limits.get(part)) for part in LIMITS}
    for names in named.values():
        for name in names:
            schema.index(name)
    _check(schema, limits.get("only"), named)
    parts: dict[int, dict[str, Any]] = {}

    def limit(name: str, **changes: Any) -> None:
        parts.setdefault(schema.index(name), {}).update(changes)

    for part in UNLOCKS:
        for name in named[part]:
            if schema[name].protected:
                limit(name, protected=False)
    for part in ("frozen", "protected"):
        for name in named[part]:
            limit(name, **{part: True})
    for name in set(schema.names).difference(named["only"]) if named["only"] else ():
        limit(name, frozen=True)
    for part in ("increase_only", "decrease_only"):
        for name in named[part]:
            _check_order(schema[name])
            limit(name, **{part: True})
    for name, cost in (limits.get("costs") or {}).items():
        limit(name, cost=plain(cost))
    for name, span in (limits.get("ranges") or {}).items():
        limit(name, **_range(schema[name], span))
    if not parts:
        return schema
    features = (replace(f, **parts[j]) if j in parts else f for j, f in enumerate(schema.features))
    return replace(schema, features=tuple(features))


def _is_unset(limit: Any) -> bool:
    return limit is None or (isinstance(limit, tuple) and not limit)


def _check(schema: Schema, only: Sequence[str] | None, named: Mapping[str, Sequence[str]]) -> None:
    """Raises an error if limits contradict each other."""
    if only is not None and not named["only"]:
        raise GraceError("only=[] leaves no feature that may change; name those that may, or leave it out")
    for fixed, limits in (("frozen", ("only",)), ("protected", UNLOCKS)):
        for name in named[fixed]:
            part = next((part for part in limits if name in named[part]), None)
            if part is not None:
                raise GraceError(f"feature {name!r} is in {part} and in {fixed}; leave it out of one of them")
    for name in named["only"]:
        if schema[name].frozen:
            raise GraceError(f"only: feature {name!r} is frozen in the schema; leave it out, or set frozen=False there")


def _check_order(feature: Feature) -> None:
    if isinstance(feature, Categorical) and not feature.ordered:
        raise GraceError(
            f"feature {feature.name!r} is a category without an order, which has no direction; "
            "use frozen or ranges, or declare it ordered"
        )


def _range(feature: Feature, span: Sequence[Any]) -> dict[str, Any]:
    """The attributes that a range sets: (low, high) of a number, None for no change; of a category, its selectable
    values."""
    if isinstance(feature, Categorical):
        unknown = [v for v in span if v not in feature.categories]
        if unknown:
            raise GraceError(f"feature {feature.name!r}: unknown category {unknown[0]!r} in ranges")
        return {"never": tuple(c for c in feature.categories if c not in span), "rare": ()}
    if isinstance(span, str) or len(span) != 2:
        raise GraceError(f"feature {feature.name!r}: a range is (low, high), not {span!r}")
    pairs = zip(span, (feature.low, feature.high), strict=True)
    low, high = (old if new is None else new for new, old in pairs)
    return {"low": low, "high": high}


WORDS = (
    "age sex gender race racial ethnicity ethnic nationality citizenship religion religious faith denomination "
    "disability disabled handicap marital married pregnant pregnancy pregnancies dob birthdate birthday birthplace "
    "immigrant foreigner transgender "
    "alter geschlecht rasse ethnie ethnisch herkunft hautfarbe nationalität nationalitaet staatsangehörigkeit "
    "staatsangehoerigkeit staatsbürgerschaft staatsbuergerschaft religionszugehörigkeit konfession glaube behinderung "
    "behindert familienstand verheiratet schwanger schwangerschaft schwangerschaften geburtsdatum geburtsjahr "
    "geburtsort migrationshintergrund"
)
PHRASES = (
    "date of birth, year of birth, birth date, birth year, country of birth, place of birth, national origin, "
    "native country, foreign worker, skin color, skin colour, sexual orientation, sexuelle orientierung, civil status"
)
SENSITIVE = [(word,) for word in WORDS.split()] + [tuple(phrase.split()) for phrase in PHRASES.split(", ")]
NAME_PART = re.compile(r"[A-ZÄÖÜ]+(?![a-zäöüß])|[A-ZÄÖÜ]?[a-zäöüß]+")


def looks_protected(names: Iterable[str]) -> list[str]:
    """The names that contain a sensitive word as a whole: "Applicant_Age" and "ageYears", not "page" or "average"."""
    return [name for name in names if _matches([part.lower() for part in NAME_PART.findall(name)])]


def _matches(parts: list[str]) -> bool:
    return any(tuple(parts[i : i + len(words)]) == words for words in SENSITIVE for i in range(len(parts)))
