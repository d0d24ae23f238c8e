"""English words and numbers."""

from __future__ import annotations

import re
from decimal import Decimal

from grace.schema.features import Numeric, Value
from grace.schema.formatting import digits
from grace.text.languages import Words, with_unit
from grace.text.precision import ABOVE_TENFOLD, BELOW_TENTH

WORDS = Words(
    row="the row",
    rows="rows",
    verb="classified {row} as {class}",
    been="been",
    more="higher",
    less="lower",
    missing="missing",
    numbered="class {class}",
    there="there",
    tasks={"clustering": "put {row} into {class}", "regression": "predicted {class}"},
    cluster="cluster {class}",
    date={"unit": "days", "unit_one": "day", "more": "later", "less": "earlier"},
)
MARKS = (",", ".")
NAME = "English"
SCREEN = {
    "feature": "feature",
    "is": "is",
    "would": "would be",
    "or": "Or: ",
    "note": "Note: ",
    "along": "would then be",
    "alone": "changes it alone",
    "points": "points",
    "more": "and {n} more features",
}
PERCENT = {"": "", ">": "more than ", "<": "less than ", "just >": "just over ", "just <": "just under "}
AND = "and"
COUNT = ("three", "four", "five", "six", "seven", "eight", "nine", "ten")
FRACTIONS = (
    "1/10=a tenth; 1/8=an eighth; 1/6=a sixth; 1/5=a fifth; 1/4=a quarter; 1/3=a third; 1/2=half; "
    "2/3=two thirds; 3/4=three quarters; 3/2=one and a half times; 2=twice; 5/2=two and a half times"
)
TIMES = dict(pair.split("=") for pair in FRACTIONS.split("; "))
TIMES |= {str(n): f"{word} times" for n, word in enumerate(COUNT, 3)}
TIMES |= {BELOW_TENTH: "less than a tenth", ABOVE_TENFOLD: "more than ten times"}
IRREGULAR = (
    "more=many fewer=few larger=large bigger=big later=late wider=wide heavier=heavy earlier=early hotter=hot "
    "thinner=thin closer=close further=far"
)
REGULAR = (
    "high low long young strong near small great short old thick new warm cold cool fast slow weak deep bright dark "
    "tall light steep rich poor sweet cheap hard soft full"
)
POSITIVE = {
    "more often": "often",
    "less often": "rarely",
    **dict(pair.split("=") for pair in IRREGULAR.split()),
    **{f"{word}er": word for word in REGULAR.split()},
}
"""Comparatives and their positive forms; "more …" is regular."""
VALUE_UNITS = {"percentage points": " %", "steps": ""}
"""Units of differences, with the suffix of values."""
SINGULAR = re.compile(r"(ss|us|is|diabetes|bias|gas|lens|news|series|species|mass|class|always)$")
UNCLEAR = re.compile(r"[,;\"“”<>]|\.\s|\b(and|been|had|because)\b|^$|^\s|\s$|\s\s")


def named(name: str) -> str:
    """The name with spaces for underscores; in quotation marks if a reader could take it for part of the sentence."""
    words = name.replace("_", " ")
    return f"“{name}”" if UNCLEAR.search(words) else words


def is_plural(words: str) -> bool:
    """Whether the head noun of a name is a plural: "sulphates", "hours per week", but not "number of rooms"."""
    head = re.split(r" (?:of|per|in|on|at|for|from|to|with|without|by)\b", words)[0].split(" ")[-1]
    return head.isalpha() and len(head) > 3 and head.endswith("s") and not SINGULAR.search(head.lower())


def label(value: Value) -> str:
    return str(value)


def number(size: Decimal) -> str:
    return digits(size, *MARKS)


def figure(low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
    if low is None or high is None:
        return f"at most {number(high)}" if high is not None else f"at least {number(low or Decimal(0))}"
    return f"{'about ' if about else ''}{number(low)}" if low == high else f"between {number(low)} and {number(high)}"


def amount(feature: Numeric, size: Decimal) -> str:
    return with_unit(feature, size, number)


def measured(feature: Numeric, size: Decimal) -> str:
    """The value of a share is in per cent, its differences are in percentage points."""
    unit = VALUE_UNITS.get(feature.unit)
    return amount(feature, size) if unit is None else number(size) + unit


def positive(comparative: str) -> str | None:
    """The positive form of a comparative: "high" for "higher"; None if unknown."""
    more = comparative.removeprefix("more ")
    return POSITIVE.get(comparative, more if more != comparative else None)


def has_ratios(feature: Numeric) -> bool:
    return positive(feature.more) is not None
