"""How precisely a difference is said: exactly, by its magnitude, or by its direction alone.

What is vague has limits: "about" is never further than VAGUE from the truth, "slightly" means less than an
eighth, "more than ten times" and "less than a tenth" are meant as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, Inexact, localcontext

from grace.errors import GraceError
from grace.schema.columns import date_text, is_date
from grace.schema.features import KINDS, STYLES, Feature, Numeric, Value
from grace.schema.formatting import decimal, places

VAGUE = 0.2  # "about twice" is said of 1.75 to 2.25; no ratio or amount strays further than this share
SAME = 0.005  # a ratio this close to the one that is said needs no "about"
SLIGHT = 0.125
DIGITS = 4  # significant digits that a fraction is said with, unless more are needed
MOST_DIGITS = 18

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
"""The ratios that have words, each from its lower limit up to its upper one."""
LITTLE, LOT = "<1/10", ">10"

ROUND = tuple(map(Decimal, ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "7", "8", "9", "10")))


@dataclass(frozen=True)
class Delta:
    """By an amount: "7 points lower"."""

    size: Decimal
    up: bool
    about: bool = False


@dataclass(frozen=True)
class Replacement:
    """One value instead of another: "0.35 instead of 0.28"; either may be rounded, which is then said."""

    new: Decimal
    old: Decimal
    about_new: bool = False
    about_old: bool = False


@dataclass(frozen=True)
class Ratio:
    """By a ratio, one of RATIOS or LITTLE or LOT: "half as high"."""

    ratio: str
    up: bool
    about: bool


@dataclass(frozen=True)
class Direction:
    """The direction alone: "lower"."""

    up: bool


@dataclass(frozen=True)
class Within:
    """Any value from one to another: "between 34 and 41"; said where the direction alone would not do."""

    low: Decimal
    high: Decimal


@dataclass(frozen=True)
class Room:
    """The values around the new one for which the model's answer is the same, and whether that goes on to the end of
    the range in the direction of the change."""

    low: Decimal
    high: Decimal
    to_the_end: bool

    def has(self, value: Decimal, feature: Numeric) -> bool:
        """Whether a value lies in it; of whole numbers, both of those next to it."""
        ends = (value.to_integral_value(ROUND_FLOOR), value.to_integral_value(ROUND_CEILING))
        return all(self.low <= v <= self.high for v in (ends if feature.integer else (value,)))


@dataclass(frozen=True)
class NewCategory:
    """Another category; or another date, as text."""

    new: Value
    old: Value


Difference = Delta | Replacement | Ratio | Direction | Within | NewCategory


def check_style(asked: str | None) -> None:
    if asked not in (None, "auto", *STYLES):
        raise GraceError(f"style={asked!r} is unknown; use one of {', '.join(STYLES)}, auto")


def style_of(feature: Numeric, asked: str | None) -> str:
    """The degree for a feature: what the call asks for, else what its schema says, else "exact". "auto" asks
    for the schema's, else what suits the kind of number."""
    if asked in STYLES:
        return str(asked)
    return feature.style or ("exact" if asked is None else KINDS[feature.sort])


def difference(
    feature: Feature, old: Value, new: Value, asked: str | None, *, ratios: bool, room: Room | None = None
) -> Difference:
    """The way from one value to another, in words' terms. `ratios` tells whether there are words for them. With `room`,
    what is vague is said only if the model's answer is the same for what a reader would take it to mean."""
    if not isinstance(feature, Numeric):
        return NewCategory(new, old)
    style = style_of(feature, asked)
    a, b = decimal(old), decimal(new)
    if style == "relative":
        found = direction(feature, a, b, room)
        if found is not None:
            return found
    elif style == "magnitude":
        size = rounded(abs(b - a))
        about = Delta(size, b > a, about=size != apart(a, b))
        tried: list[Delta | Ratio] = [times(a, b), about] if ratios and has_ratio(feature, a, b) else [about]
        for vague in tried:
            if room is None or means(vague, feature, a, b, room):
                return vague
    exact = sayable(feature, a, b)
    return values(feature, old, new) if exact is None else Delta(exact, b > a)


def is_exact(said: Difference) -> bool:
    """Whether a reader can type in what is said of a number."""
    return not isinstance(said, Ratio | Direction | Within) and not (isinstance(said, Delta) and said.about)


def direction(feature: Numeric, old: Decimal, new: Decimal, room: Room | None) -> Direction | Within | None:
    """The direction, if the model's answer is the same from there to the end of the range; else the span in which it
    is, with no more digits than needed. None if that is a single value, or a date, of which both values are said."""
    if room is None or room.to_the_end:
        return Direction(new > old)
    if is_date(feature) or room.low >= room.high:
        return None
    low, high = short(room.low, rounding=ROUND_CEILING), short(room.high, rounding=ROUND_FLOOR)
    return Within(low if low <= new else room.low, high if high >= new else room.high)


def means(vague: Delta | Ratio, feature: Numeric, old: Decimal, new: Decimal, room: Room) -> bool:
    """Whether the model's answer is the same for the number that a vague difference names. What names none has to hold
    from the new value on: "slightly" up to an eighth, "more than ten times" from there to the end of the range."""
    if isinstance(vague, Delta):
        return room.has(old + (vague.size if vague.up else -vague.size), feature)
    if vague.ratio == "slightly":
        farthest = old * (1 + Decimal(SLIGHT) * (1 if vague.up else -1))
        return room.to_the_end or room.low <= farthest <= room.high
    if vague.ratio in (LOT, LITTLE):
        return room.to_the_end and room.has(old * (10 if vague.ratio == LOT else Decimal("0.1")), feature)
    return room.has(old * said(vague.ratio), feature)


def values(
    feature: Feature, old: Value, new: Value, asked: str | None = "exact", room: Room | None = None
) -> Difference:
    """Both values: in the exact style the new one to the last digit, by magnitude both rounded. The direction alone
    where the style asks for no more. With `room`, what is vague is said only if the model's answer is the same."""
    if not isinstance(feature, Numeric):
        return NewCategory(new, old)
    style = style_of(feature, asked)
    a, b = decimal(old), decimal(new)
    vague = direction(feature, a, b, room) if style == "relative" else None
    if vague is not None:
        return vague
    if is_date(feature):
        return NewCategory(date_text(new), date_text(old))
    rough = roughly(a, b)
    fits = style == "magnitude" and (room is None or room.has(rough.new, feature))
    return rough if fits else replaced(a, b)


def sayable(feature: Numeric, old: Decimal, new: Decimal) -> Decimal | None:
    """The exact difference, unless it takes more digits to say than the new value does."""
    size = apart(old, new)
    if size is None or places(size) > max(places(new), feature.digits, 0):
        return None
    return None if width(size) > max(DIGITS, width(new)) else size


def width(size: Decimal) -> int:
    """How many significant digits a fraction has; whole numbers are said as they are."""
    return len(size.normalize().as_tuple().digits) if places(size) else 0


def short(size: Decimal, digits: int = DIGITS, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """The number with so many significant digits; never less precise than a whole number."""
    place = min(0, size.adjusted() - digits + 1)
    return size if places(size) <= -place else size.quantize(Decimal(1).scaleb(place), rounding).normalize()


def replaced(old: Decimal, new: Decimal) -> Replacement:
    """The new value as it is. The old one, if it has more decimals, is no longer than it has to be to lie on the same
    side of it."""
    for digits in range(DIGITS, MOST_DIGITS) if places(old) > places(new) else ():
        said = short(old, digits)
        if said != new and (said > new) == (old > new):
            return Replacement(new, said, about_old=said != old)
    return Replacement(new, old)


def roughly(old: Decimal, new: Decimal) -> Replacement:
    """Both values rounded, as far as the one stays above the other."""
    ways = [rounded, *(lambda size, n=n: significant(size, n) for n in range(2, MOST_DIGITS))]
    for way in ways:
        a, b = way(old), way(new)
        if a != b and (a > b) == (old > new):
            return Replacement(b, a, about_new=b != new, about_old=a != old)
    return Replacement(new, old)


def apart(old: Decimal, new: Decimal) -> Decimal | None:
    """The exact difference; None where it has more digits than anybody reads (1e30 less 1e-9)."""
    with localcontext() as context:
        context.traps[Inexact] = True
        try:
            return abs(new - old)
        except Inexact:
            return None


def has_ratio(feature: Numeric, old: Decimal, new: Decimal) -> bool:
    """Whether one value is so many times the other in earnest: both positive, on a scale with a zero."""
    return feature.sort not in ("score", "date") and feature.bounds[0] >= 0 and min(old, new) > 0


def times(old: Decimal, new: Decimal) -> Ratio:
    """The ratio that has words and is nearest."""
    ratio = new / old
    for name, low, high in RATIOS:
        if Decimal(low) <= ratio < Decimal(high):
            if name == "slightly":
                return Ratio(name, new > old, about=False)
            return Ratio(name, new > old, about=abs(ratio / said(name) - 1) > Decimal(SAME))
    return Ratio(LOT if new > old else LITTLE, new > old, about=False)


def said(name: str) -> Decimal:
    """The number that the name of a ratio stands for."""
    top, _, bottom = name.partition("/")
    return Decimal(top) / Decimal(bottom or 1)


def rounded(size: Decimal) -> Decimal:
    """The nearest number with one significant digit, or one of 12, 15 and 25 and their like."""
    if size <= 0:
        return size if size == 0 else -rounded(-size)
    unit = Decimal(1).scaleb(size.adjusted())
    return min((step * unit for step in ROUND), key=lambda step: abs(step - size)).normalize()


def significant(size: Decimal, digits: int) -> Decimal:
    """The nearest number with so many significant digits."""
    with localcontext() as context:
        context.prec = digits
        return (+size).normalize()
