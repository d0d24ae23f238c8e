"""Numbers, names and schemas as short text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Feature, Numeric, Value

if TYPE_CHECKING:
    from grace.schema.schema import Schema

MINUS = "\N{MINUS SIGN}"
THOUSANDS = 10_000  # numbers from here on are grouped by three digits
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
MAX_FEATURES = 12
MAX_CATEGORIES = 5
MAX_LENGTH = 40  # characters of a name in a table on the screen


def decimal(cell: Value) -> Decimal:
    """The shortest decimal that the float stands for."""
    return Decimal(repr(float(cell))).normalize()


def n_decimals(size: Decimal) -> int:
    """The number of decimals of a number."""
    exponent = size.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def digits(size: Decimal, group: str, point: str) -> str:
    """The number in plain digits, never 1e-05, with a language's group and decimal marks."""
    plain = f"{size.normalize():,f}" if abs(size) >= THOUSANDS else f"{size.normalize():f}"
    return plain if plain.isdigit() else plain.translate(_marks(group, point))


def many_digits(numbers: Iterable[int | float], group: str, point: str) -> list[str]:
    """`digits` of the `decimal` of each number, several times faster."""
    marks, out = _marks(group, point), []
    for number in numbers:
        plain = f"{number:,}" if abs(number) >= THOUSANDS else repr(number)
        if "e" in plain:
            plain = f"{Decimal(plain):,f}" if abs(number) >= THOUSANDS else f"{Decimal(plain):f}"
        plain = plain.removesuffix(".0")
        out.append(plain if plain.isdigit() else plain.translate(marks))
    return out


@cache
def _marks(group: str, point: str) -> dict[int, str]:
    return {ord(","): group, ord("."): point, ord("-"): MINUS}


def cut_middle(text: str, fits: Callable[[str], bool]) -> str:
    """The longest form of a text that fits, with its middle replaced by an ellipsis; by bisection."""
    if fits(text):
        return text
    low, high = 0, len(text) - 1  # bounds on the number of letters to keep
    while low < high:
        count = (low + high + 1) // 2
        low, high = (count, high) if fits(_ends(text, count)) else (low, count - 1)
    return _ends(text, low)


def _ends(text: str, count: int) -> str:
    """The first three and the last two fifths of `count` letters."""
    tail = count * 2 // 5
    return f"{text[: count - tail].rstrip()}{ELLIPSIS}{text[len(text) - tail :].lstrip()}"


def shortened(text: str, most: int = MAX_LENGTH) -> str:
    """The text in at most `most` characters: "very_long_na…_2024_q3"."""
    return cut_middle(text, lambda short: len(short) <= most)


def feature_line(feature: Feature) -> str:
    """A feature in one line: type, range and limits."""
    if isinstance(feature, Categorical):
        shown = [str(c) for c in feature.categories[:MAX_CATEGORIES]]
        more = [f"... ({len(feature.categories)})"] if len(feature.categories) > MAX_CATEGORIES else []
        kind = "ordered categories" if feature.ordered else "categories"
        parts = [f"{kind} {', '.join([*shown, *more])}" if shown else kind]
    else:
        parts = [_range(feature)]
    parts += [part.replace("_", " ") for part in ("frozen", "increase_only", "decrease_only") if getattr(feature, part)]
    parts += [f"cost {feature.cost:g}"] if feature.cost != 1 else []
    return f"{shortened(feature.name)}: {', '.join(parts)}"


def _range(feature: Numeric) -> str:
    kind = "date" if is_date(feature) else "whole number" if feature.integer else "number"
    if not feature.complete:
        return kind
    low, high = (date_text(v) if is_date(feature) else f"{decimal(v + 0.0):f}" for v in feature.bounds)
    return f"{kind} {low} to {high}{f' {feature.unit}' if feature.unit else ''}"


def schema_lines(schema: Schema) -> str:
    """The features of a schema, one per line, at most MAX_FEATURES."""
    about = [f"target {schema.target!r}"] if schema.target is not None else []
    about += [f"{len(schema.classes)} classes"] if schema.classes else []
    about += [f"{len(schema.rules)} rules"] if schema.rules else []
    lines = [f"<Schema: {', '.join([f'{len(schema)} features', *about, f'domain {schema.domain!r}'])}"]
    lines += [f"  {feature_line(f)}" for f in schema.features[:MAX_FEATURES]]
    return "\n".join([*lines, *(["  ..."] if len(schema) > MAX_FEATURES else [])]) + ">"
