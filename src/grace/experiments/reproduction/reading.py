"""Parses the texts of GRACE, LIME and SHAP with the schema of the table.

Texts of GRACE are parsed in English, in the form "Had ..., the model would have ...".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from grace.errors import GraceError
from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.schema import Schema
from grace.schema.words import DEFAULT, fill
from grace.text.languages import en, load
from grace.text.precision import Delta, Difference, Direction, NewCategory, Ratio, Replacement, Within
from grace.text.vocabulary import class_word, feature_in, row_words

MINUS = "\N{MINUS SIGN}"
NUMBER = rf"({MINUS}?[\d,]*\.?\d+)"
HEAD, JOINT, VERSUS = "Had ", ", the model would have ", " rather than "
BETWEEN = (", and had ", " and had ", ", and ", "; and ", " and ", ", ", "; ")


@dataclass(frozen=True)
class Contrast:
    """A sentence of GRACE: the difference of each changed feature, and the class after the changes."""

    moves: tuple[tuple[str, Difference], ...]
    after: Value


@dataclass(frozen=True)
class Outside:
    """A sentence of LIME: if the feature were at most `low` or above `high` (None: no such bound), or not in its
    category, the probability of the class would be lower by `weight`."""

    name: str
    weight: float
    low: float | None = None
    high: float | None = None


def contrast(text: str, schema: Schema) -> Contrast | None:
    """The content of a sentence of GRACE; None if it says that there is no answer."""
    if not text.startswith(HEAD):
        return None
    body, joint, rest = text.removeprefix(HEAD).rpartition(JOINT)
    features = [feature_in(f, schema.language, DEFAULT) for f in schema.features]
    features.sort(key=lambda f: -len(f.phrase))
    moves = next(_clauses(body, features, None), None) if joint else None
    if moves is None:
        raise GraceError(f"the sentence {text!r} is not one that this schema's words make")
    return Contrast(moves, _class(rest, schema))


def _class(rest: str, schema: Schema) -> Value:
    """The class in "classified the row as A rather than B. ..."."""
    words = row_words(schema, DEFAULT)
    for label in schema.classes:
        start = fill(words["verb"], class_word(words, label, load(DEFAULT)), words["row"])
        if rest.startswith(start + VERSUS):
            return label
    raise GraceError(f"no class of the schema is meant by {rest!r}")


def _clauses(text: str, left: list[Feature], last: Feature | None) -> Iterator[tuple[tuple[str, Difference], ...]]:
    """All parses of clauses about different features. A clause may omit the verb or the subject of the last."""
    for feature in left:
        starts = [f"{feature.phrase} {feature.been} "]
        if last is not None and feature.been == last.been:
            starts.append(f"{feature.phrase} ")
            if feature.phrase == last.phrase:
                starts.append("")
        for start in starts:
            if not text.startswith(start):
                continue
            for pattern, difference in _differences(feature):
                match = re.match(pattern, text[len(start) :])
                if not match:
                    continue
                move = (feature.name, _with_numbers(difference, match))
                rest = text[len(start) + match.end() :]
                if not rest:
                    yield (move,)
                others = [f for f in left if f is not feature]
                for joint in BETWEEN:
                    if rest.startswith(joint):
                        for more in _clauses(rest.removeprefix(joint), others, feature):
                            yield (move, *more)


def _differences(feature: Feature) -> Iterator[tuple[str, Difference]]:
    """Patterns of the phrases for a difference, each with the difference that it means, without numbers."""
    if isinstance(feature, Categorical):
        for category in sorted(feature.categories, key=lambda c: -len(feature.label(c))):
            for old in feature.categories:
                pattern = re.escape(f"{feature.label(category)} instead of {feature.label(old)}")
                yield pattern, NewCategory(category, old)
        return
    units = "|".join(re.escape(u) for u in (feature.unit, feature.unit_one) if u)
    unit = f"(?: (?:{units}))" if units else ""
    things = unit if feature.more == "more" else ""
    value = f"(?:at a rate of )?{NUMBER}(?: %|{unit or ' %'})?(?: old)?"
    yield f"{value} instead of (about )?{NUMBER}(?: %)?", Replacement(Decimal(0), Decimal(0))
    yield (
        f"(?:at a rate of )?between {NUMBER} and {NUMBER}(?: %|{unit or ' %'})?(?: old)?",
        Within(Decimal(0), Decimal(0)),
    )
    for up, comparative in ((True, feature.more), (False, feature.less)):
        word = re.escape(comparative)
        size = f"{NUMBER} {word}{unit}" if things else f"{NUMBER}{unit} {word}"
        yield f"(?:about )?{size}", Delta(Decimal(0), up)
        yield f"slightly {word}{things}", Ratio("slightly", up, False)
        yield f"{word}{things}", Direction(up)
    yield f"(?:about )?a quarter {re.escape(feature.more)}{things}", Ratio("5/4", True, False)
    positive = en.positive(feature.more)
    for ratio, multiple in en.TIMES.items():
        if positive is not None:
            yield (
                f"(?:about )?{multiple} as {re.escape(positive)}{things}",
                Ratio(ratio, not ratio.startswith(("1/", "<")), False),
            )


def _with_numbers(difference: Difference, match: re.Match[str]) -> Difference:
    """The difference with the numbers of the text."""
    if isinstance(difference, Delta):
        return Delta(_number(match[1]), difference.up)
    if isinstance(difference, Within):
        return Within(_number(match[1]), _number(match[2]))
    if isinstance(difference, Replacement):
        return Replacement(_number(match[1]), _number(match[3]), about_old=bool(match[2]))
    return difference


def outsides(text: str, schema: Schema) -> tuple[Outside, ...]:
    """The content of the sentences of LIME."""
    out = []
    for part in text.split(" If ")[1:]:
        for feature in sorted(schema.features, key=lambda f: -len(f.name)):
            found = _outside(part, feature)
            if found is not None:
                out.append(found)
                break
        else:
            raise GraceError(f"the sentence {part!r} is not about a feature of the schema")
    return tuple(out)


def _outside(part: str, feature: Feature) -> Outside | None:
    tail = rf", on average, this prediction would be {NUMBER} (less|more) "
    name = re.escape(feature.name.replace("_", " "))
    if isinstance(feature, Numeric):
        below, above = f"less than or equal to {NUMBER}", f"greater than {NUMBER}"
        match = re.match(f"{name} is (?:{below})?(?: or )?(?:{above})?{tail}", part)
        if not match:
            return None
        low, high = (None if n is None else float(_number(n)) for n in match.group(1, 2))
    else:
        match = re.match(f"{name} is not ()().*{tail}", part)
        low = high = None
        if not match:
            return None
    weight = float(match[3])
    return Outside(feature.name, weight if match[4] == "less" else -weight, low, high)


def shares(text: str) -> tuple[tuple[str, float], ...]:
    """The content of the sentences of SHAP: features, and what each adds to the probability of the class."""
    found = re.findall(r"“(.+?)” (adds|takes) (\d+\.\d+)\.", text)
    return tuple((name, float(size) if verb == "adds" else -float(size)) for name, verb, size in found)


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace(MINUS, "-"))
