"""The precision with which a sentence states a difference: exactly, by its magnitude, or by its direction alone.

Rounding is bounded: "about" has a relative error of at most MAX_ROUNDING, "slightly" means less than SLIGHT, and "more
than ten times" and "less than a tenth" hold literally.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)

from grace.errors import GraceError
from grace.schema.columns import date_text, is_date
from grace.schema.features import KINDS, STYLES, Feature, Numeric, Value
from grace.schema.formatting import decimal, n_decimals

MAX_ROUNDING = 0.2  # the largest relative rounding error: "about twice" stands for 1.75 to 2.25
RATIO_TOLERANCE = 0.005  # a relative error up to this needs no "about"
SLIGHT = 0.125
DIGITS = 4  # significant digits of a stated fraction, unless more are needed
MAX_DIGITS = 18

RATIOS = (
    ("1/10", 0.085, 0.115),
    ("1/8", 0.115, 0.145),
    ("1/6", 0.145, 0.18),
    ("1/5", 0.18, 0.225),
    ("1/4", 0.225, 0.29),
    ("1/3", 0.29, 0.4),
    ("1/2", 0.4, 0.6),
    ("2/3", 0.6, 0.71),
    ("3/4", 0.71, 1 - SLIGHT),
    ("slightly", 1 - SLIGHT, 1 + SLIGHT),
    ("5/4", 1 + SLIGHT, 1.375),
    ("3/2", 1.375, 1.75),
    ("2", 1.75, 2.25),
    ("5/2", 2.25, 2.75),
    ("3", 2.75, 3.5),
    *((str(n), n - 0.5, n + 0.5) for n in range(4, 11)),
)
"""Ratios that have words: (name, lower limit, upper limit), as half-open intervals."""
EXACT = Context(traps=[InvalidOperation, DivisionByZero, Overflow, Inexact])  # rounds nothing
BELOW_TENTH, ABOVE_TENFOLD = "<1/10", ">10"

ROUND_NUMBERS = tuple(map(Decimal, ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "7", "8", "9", "10")))


@dataclass(frozen=True)
class Delta:
    """A difference by an amount: "7 points lower". `about` marks a rounded size."""

    size: Decimal
    up: bool
    about: bool = False


@dataclass(frozen=True)
class Replacement:
    """A new value and the old one: "0.35 instead of 0.28"; the flags mark rounded values."""

    new: Decimal
    old: Decimal
    about_new: bool = False
    about_old: bool = False


@dataclass(frozen=True)
class Ratio:
    """A ratio of the new value to the old one, a name in RATIOS, BELOW_TENTH or ABOVE_TENFOLD: "half as high"."""

    ratio: str
    up: bool
    about: bool


@dataclass(frozen=True)
class Direction:
    """Only the direction: "lower"."""

    up: bool


@dataclass(frozen=True)
class Within:
    """An interval of new values: "between 34 and 41"; stated where the direction alone does not imply the answer."""

    low: Decimal
    high: Decimal


@dataclass(frozen=True)
class AtLeast:
    """A least difference: "at least 7 points lower"; everything from there to the end of the range."""

    size: Decimal
    up: bool


@dataclass(frozen=True)
class AnyCategory:
    """Several new categories, any of which will do."""

    new: tuple[Value, ...]
    old: Value


@dataclass(frozen=True)
class StableInterval:
    """The interval around the new value in which the model's answer stays the same; `to_the_end`: it reaches the end of
    the feature's range in the direction of the change."""

    low: Decimal
    high: Decimal
    to_the_end: bool

    def contains(self, value: Decimal, feature: Numeric) -> bool:
        """Whether the value lies inside; for integer features, its floor and its ceiling."""
        ends = (value.to_integral_value(ROUND_FLOOR), value.to_integral_value(ROUND_CEILING))
        return all(self.low <= v <= self.high for v in (ends if feature.integer else (value,)))


@dataclass(frozen=True)
class NewCategory:
    """A new category, or a new date as text."""

    new: Value
    old: Value


Difference = Delta | Replacement | Ratio | Direction | Within | NewCategory | AtLeast | AnyCategory
RANGE = "range"
"""The style that states all values of a proven region."""


def check_style(requested: str | None) -> None:
    if requested is not None and requested not in ("auto", RANGE, *STYLES):
        raise GraceError(f"style={requested!r} is unknown; use one of {', '.join(STYLES)}, {RANGE}, auto")


def style_of(feature: Numeric, requested: str | None) -> str:
    """The style of a feature: the requested one, else that of its schema, else "exact". "auto" stands for that of the
    schema, else the default of its kind of number (KINDS)."""
    if requested in STYLES:
        return str(requested)
    return feature.style or ("exact" if requested is None else KINDS[feature.number_kind])


def difference(
    feature: Feature,
    old: Value,
    new: Value,
    requested: str | None,
    *,
    ratios: bool,
    interval: StableInterval | None = None,
) -> Difference:
    """The difference of two values in the requested style. `ratios`: the language has words for ratios of this feature.
    With an `interval`, a rounded statement is used only if the model's answer is the same for the value it states."""
    if not isinstance(feature, Numeric):
        return NewCategory(new, old)
    style = style_of(feature, requested)
    a, b = decimal(old), decimal(new)
    if style == "relative":
        relative = direction(feature, a, b, interval)
        if relative is not None:
            return relative
    elif style == "magnitude":
        size = rounded(abs(b - a))
        about = Delta(size, b > a, about=size != exact_difference(a, b))
        ratio: list[Delta | Ratio] = [nearest_ratio(a, b)] if ratios and is_ratio_scale(feature, a, b) else []
        for stated in (*ratio, about):
            if interval is None or keeps_answer(stated, feature, a, interval):
                return stated
    exact = short_difference(feature, a, b)
    return value_pair(feature, old, new) if exact is None else Delta(exact, b > a)


def is_exact(stated: Difference) -> bool:
    """Whether the statement determines the number to the last digit."""
    return not isinstance(stated, Ratio | Direction | Within | AtLeast | AnyCategory) and not (
        isinstance(stated, Delta) and stated.about
    )


def direction(
    feature: Numeric, old: Decimal, new: Decimal, interval: StableInterval | None
) -> Direction | Within | None:
    """The direction, if the model's answer is the same up to the end of the range; else the interval in which it is, in
    as few digits as possible. None for a single value or a date, which are stated as a pair of values."""
    if interval is None or interval.to_the_end:
        return Direction(new > old)
    if is_date(feature) or interval.low >= interval.high:
        return None
    low, high = round_digits(interval.low, rounding=ROUND_CEILING), round_digits(interval.high, rounding=ROUND_FLOOR)
    return Within(low if low <= new else interval.low, high if high >= new else interval.high)


def keeps_answer(stated: Delta | Ratio, feature: Numeric, old: Decimal, interval: StableInterval) -> bool:
    """Whether the model's answer is the same at the value that a rounded difference gives: for "slightly" up to SLIGHT,
    for "more than ten times" and "less than a tenth" from there to the end of the range."""
    if isinstance(stated, Delta):
        return interval.contains(old + (stated.size if stated.up else -stated.size), feature)
    if stated.ratio == "slightly":
        farthest = old * (1 + Decimal(SLIGHT) * (1 if stated.up else -1))
        return interval.to_the_end or interval.low <= farthest <= interval.high
    if stated.ratio in (ABOVE_TENFOLD, BELOW_TENTH):
        factor = Decimal(10) if stated.ratio == ABOVE_TENFOLD else Decimal("0.1")
        return interval.to_the_end and interval.contains(old * factor, feature)
    return interval.contains(old * ratio_value(stated.ratio), feature)


def value_pair(
    feature: Feature, old: Value, new: Value, requested: str | None = "exact", interval: StableInterval | None = None
) -> Difference:
    """The new and the old value: exact, by magnitude both rounded, in the relative style the direction alone. With an
    `interval`, a rounded value is used only if the model's answer is the same for it."""
    if not isinstance(feature, Numeric):
        return NewCategory(new, old)
    style = style_of(feature, requested)
    a, b = decimal(old), decimal(new)
    stated = direction(feature, a, b, interval) if style == "relative" else None
    if stated is not None:
        return stated
    if is_date(feature):
        return NewCategory(date_text(new), date_text(old))
    if style == "magnitude":
        rough = rounded_pair(a, b)
        if interval is None or interval.contains(rough.new, feature):
            return rough
    return exact_pair(a, b)


def short_difference(feature: Numeric, old: Decimal, new: Decimal) -> Decimal | None:
    """The exact difference, or None if it has more digits than the new value."""
    size = exact_difference(old, new)
    if size is None or (n_decimals(size) > max(feature.digits, 0) and n_decimals(size) > n_decimals(new)):
        return None
    return None if n_digits(size) > DIGITS and n_digits(size) > n_digits(new) else size


def n_digits(size: Decimal) -> int:
    """The number of significant digits of a fraction; 0 for a whole number, which is never shortened."""
    _, digits, exponent = size.normalize().as_tuple()
    return len(digits) if isinstance(exponent, int) and exponent < 0 else 0


def round_digits(size: Decimal, digits: int = DIGITS, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """The number rounded to so many significant digits, but never coarser than to a whole number."""
    exponent = min(0, size.adjusted() - digits + 1)
    return size if n_decimals(size) <= -exponent else size.quantize(Decimal(1).scaleb(exponent), rounding).normalize()


def exact_pair(old: Decimal, new: Decimal) -> Replacement:
    """The new value as it is; the old one, if it has more decimals, in the fewest digits that keep their order."""
    for digits in range(DIGITS, MAX_DIGITS) if n_decimals(old) > n_decimals(new) else ():
        shortened = round_digits(old, digits)
        if shortened != new and (shortened > new) == (old > new):
            return Replacement(new, shortened, about_old=shortened != old)
    return Replacement(new, old)


def rounded_pair(old: Decimal, new: Decimal) -> Replacement:
    """Both values rounded, with as many digits as keep their order."""
    roundings = [rounded, *(lambda size, n=n: significant(size, n) for n in range(2, MAX_DIGITS))]
    for rounding in roundings:
        a, b = rounding(old), rounding(new)
        if a != b and (a > b) == (old > new):
            return Replacement(b, a, about_new=b != new, about_old=a != old)
    return Replacement(new, old)


def exact_difference(old: Decimal, new: Decimal) -> Decimal | None:
    """The absolute difference; None if it exceeds the precision of Decimal (1e30 less 1e-9)."""
    try:
        return EXACT.abs(EXACT.subtract(new, old))
    except Inexact:
        return None


def is_ratio_scale(feature: Numeric, old: Decimal, new: Decimal) -> bool:
    """Whether a ratio of the values is meaningful: both positive, on a scale with a natural zero."""
    return feature.number_kind not in ("score", "date") and feature.bounds[0] >= 0 and min(old, new) > 0


def nearest_ratio(old: Decimal, new: Decimal) -> Ratio:
    """The ratio in RATIOS that the quotient new / old falls into."""
    ratio = new / old
    for name, low, high in RATIOS:
        if Decimal(low) <= ratio < Decimal(high):
            if name == "slightly":
                return Ratio(name, new > old, about=False)
            return Ratio(name, new > old, about=abs(ratio / ratio_value(name) - 1) > Decimal(RATIO_TOLERANCE))
    return Ratio(ABOVE_TENFOLD if new > old else BELOW_TENTH, new > old, about=False)


def ratio_value(name: str) -> Decimal:
    """The number that the name of a ratio stands for: 0.5 for "1/2"."""
    top, _, bottom = name.partition("/")
    return Decimal(top) / Decimal(bottom or 1)


def rounded(size: Decimal) -> Decimal:
    """The nearest number with one significant digit, or 1.2, 1.5 or 2.5 times a power of ten."""
    if size <= 0:
        return size if size == 0 else -rounded(-size)
    unit = Decimal(1).scaleb(size.adjusted())
    return min((step * unit for step in ROUND_NUMBERS), key=lambda step: abs(step - size)).normalize()


def significant(size: Decimal, digits: int) -> Decimal:
    """The nearest number with so many significant digits."""
    with localcontext() as context:
        context.prec = digits
        return (+size).normalize()
