"""Reading a text back: what GRACE's, LIME's and SHAP's sentences say, for one who knows the table and its words.

Nothing but the text is looked at. GRACE's is read in English, in the form "Had ..., the model would have ...".
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
    """GRACE's sentence: how each feature would have to differ, and the class that the model would then give."""

    moves: tuple[tuple[str, Difference], ...]
    after: Value


@dataclass(frozen=True)
class Outside:
    """LIME's: were the feature at most `low` or above `high`, or not in its category, the probability of the class
    would be lower by `weight`. Whatever is None is no such bound."""

    name: str
    weight: float
    low: float | None = None
    high: float | None = None


def contrast(text: str, schema: Schema) -> Contrast | None:
    """What GRACE's sentence says; None where it says that there is no answer."""
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
        said = fill(words["verb"], class_word(words, label, load(DEFAULT)), words["row"])
        if rest.startswith(said + VERSUS):
            return label
    raise GraceError(f"no class of the schema is meant by {rest!r}")


def _clauses(text: str, left: list[Feature], last: Feature | None) -> Iterator[tuple[tuple[str, Difference], ...]]:
    """Every way to read clauses about different features. A verb or subject that holds on need not be repeated."""
    for feature in left:
        starts = [f"{feature.phrase} {feature.been} "]
        if last is not None and feature.been == last.been:
            starts.append(f"{feature.phrase} ")
            if feature.phrase == last.phrase:
                starts.append("")
        for start in starts:
            if not text.startswith(start):
                continue
            for pattern, said in _degrees(feature):
                match = re.match(pattern, text[len(start) :])
                if not match:
                    continue
                move = (feature.name, _made(said, match))
                rest = text[len(start) + match.end() :]
                if not rest:
                    yield (move,)
                others = [f for f in left if f is not feature]
                for joint in BETWEEN:
                    if rest.startswith(joint):
                        for more in _clauses(rest.removeprefix(joint), others, feature):
                            yield (move, *more)


def _degrees(feature: Feature) -> Iterator[tuple[str, Difference]]:
    """The ways to say a difference as patterns, each with what it says but for the number."""
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
    for up, way in ((True, feature.more), (False, feature.less)):
        word = re.escape(way)
        size = f"{NUMBER} {word}{unit}" if things else f"{NUMBER}{unit} {word}"
        yield f"(?:about )?{size}", Delta(Decimal(0), up)
        yield f"slightly {word}{things}", Ratio("slightly", up, False)
        yield f"{word}{things}", Direction(up)
    yield f"(?:about )?a quarter {re.escape(feature.more)}{things}", Ratio("5/4", True, False)
    plain = en.positive(feature.more)
    for ratio, said in en.TIMES.items():
        if plain is not None:
            yield (
                f"(?:about )?{said} as {re.escape(plain)}{things}",
                Ratio(ratio, not ratio.startswith(("1/", "<")), False),
            )


def _made(said: Difference, match: re.Match[str]) -> Difference:
    """What is said, with its numbers."""
    if isinstance(said, Delta):
        return Delta(_number(match[1]), said.up)
    if isinstance(said, Within):
        return Within(_number(match[1]), _number(match[2]))
    if isinstance(said, Replacement):
        return Replacement(_number(match[1]), _number(match[3]), about_old=bool(match[2]))
    return said


def outsides(text: str, schema: Schema) -> tuple[Outside, ...]:
    """What LIME's sentences say."""
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
    """What SHAP's sentences say: features, and what each adds to the probability of the class."""
    found = re.findall(r"“(.+?)” (adds|takes) (\d+\.\d+)\.", text)
    return tuple((name, float(size) if verb == "adds" else -float(size)) for name, verb, size in found)


def _number(said: str) -> Decimal:
    return Decimal(said.replace(",", "").replace(MINUS, "-"))
