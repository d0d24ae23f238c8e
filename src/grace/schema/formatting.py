"""Numbers, names and schemas as short text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Feature, Numeric, Value

if TYPE_CHECKING:
    from grace.schema.schema import Schema

MINUS = "\N{MINUS SIGN}"
THOUSANDS = 10_000  # numbers from here on are grouped by three digits
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
MOST_FEATURES = 12
MOST_CATEGORIES = 5
LONGEST = 40  # characters of a name in a table on the screen


def decimal(cell: Value) -> Decimal:
    """The shortest decimal number that stands for the cell."""
    return Decimal(repr(float(cell))).normalize()


def places(size: Decimal) -> int:
    """Decimals needed to write the number."""
    exponent = size.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def digits(size: Decimal, group: str, point: str) -> str:
    """In plain digits, never 1e-05, with a language's own marks."""
    plain = f"{size.normalize():,f}" if abs(size) >= THOUSANDS else f"{size.normalize():f}"
    return plain.translate({ord(","): group, ord("."): point, ord("-"): MINUS})


def cut_middle(said: str, fits: Callable[[str], bool]) -> str:
    """The text with as much left out in the middle as it takes to fit, a little more of its beginning kept."""
    if fits(said):
        return said
    low, high = 0, len(said) - 1  # letters that are kept
    while low < high:
        kept = (low + high + 1) // 2
        low, high = (kept, high) if fits(_ends(said, kept)) else (low, kept - 1)
    return _ends(said, low)


def _ends(said: str, kept: int) -> str:
    back = kept * 2 // 5
    return f"{said[: kept - back].rstrip()}{ELLIPSIS}{said[len(said) - back :].lstrip()}"


def shortened(said: str, most: int = LONGEST) -> str:
    """The text in at most so many characters: "very_long_na…_2024_q3"."""
    return cut_middle(said, lambda short: len(short) <= most)


def feature_line(feature: Feature) -> str:
    """A feature in one line: what it is, its range, and what limits its changes."""
    if isinstance(feature, Categorical):
        shown = [str(c) for c in feature.categories[:MOST_CATEGORIES]]
        more = [f"... ({len(feature.categories)})"] if len(feature.categories) > MOST_CATEGORIES else []
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
    """The features of a schema, the first of many, one line for each."""
    about = [f"target {schema.target!r}"] if schema.target is not None else []
    about += [f"{len(schema.classes)} classes"] if schema.classes else []
    about += [f"{len(schema.rules)} rules"] if schema.rules else []
    lines = [f"<Schema: {', '.join([f'{len(schema)} features', *about, f'domain {schema.domain!r}'])}"]
    lines += [f"  {feature_line(f)}" for f in schema.features[:MOST_FEATURES]]
    return "\n".join([*lines, *(["  ..."] if len(schema) > MOST_FEATURES else [])]) + ">"
