"""Parses numbers and dates in text cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from grace.schema.features import Floats

WHOLE = re.compile(r"[+-]?[0-9]+")
CODE = re.compile(r"[0-9]+")
MARKS = {".": ".", ",": ",", " ": " \u00a0\u2009\u202f", "'": "'\u2019"}  # the characters of each mark
DIGITS = set("0123456789")
CURRENCIES = (
    r"[$€£¥₹₽₩₺₴₿฿]|\b(?:EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD|BRL|ZAR)\b|\bkr\b|\bRs\b|\bFr\."
)
UNIT = re.compile(r"([-+]?[0-9][0-9.,' \u00a0\u2009\u202f]*)\s*([^\W\d_]\S{0,7})")
MIN_WITH_UNIT = 20  # more distinct numbers with the same unit are not categories


@dataclass(frozen=True)
class NumberFormat:
    """A decimal mark and an optional mark between groups of three digits."""

    point: str
    group: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        point, group = re.escape(self.point), f"[{MARKS[self.group]}]" if self.group else ""
        whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+)" if group else "[0-9]+"
        return re.compile(rf"[-+\u2212]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?")

    def fits(self, cells: Iterable[str]) -> bool:
        return all(map(self.pattern.fullmatch, cells))

    def numbers(self, cells: Iterable[str]) -> Floats:
        """The cells, which must fit, as float64."""
        if self == STANDARD and not any("\u2212" in cell for cell in cells):
            return np.array(list(map(float, cells)), dtype=np.float64)
        marks = {ord(mark): "" for mark in MARKS.get(self.group, "")}
        table = {**marks, ord(self.point): ".", ord("\u2212"): "-"}
        return np.array([float(cell.translate(table)) for cell in cells], dtype=np.float64)

    def __str__(self) -> str:
        grouped = f", digits grouped by {self.group!r}" if self.group else ""
        return f"decimal {'comma' if self.point == ',' else 'point'}{grouped}"


STANDARD = NumberFormat(".")
FORMATS = (STANDARD, *(NumberFormat(*marks) for marks in (",", ".,", ",.", ". ", ", ", ".'", ",'")))


@dataclass(frozen=True)
class Reading:
    """A format that fits all cells of a column, and their values in it."""

    format: NumberFormat
    values: Floats


def readings(cells: Sequence[str]) -> list[Reading]:
    """All interpretations of the cells as numbers; none if they are not numbers. Formats with equal values count
    once."""
    out: list[Reading] = []
    for form in _fitting(cells):
        values = form.numbers(cells)
        if not any(np.array_equal(values, known.values) for known in out):
            out.append(Reading(form, values))
    return out


def _fitting(cells: Sequence[str]) -> list[NumberFormat]:
    """The formats that fit all cells and whose marks occur in them; the standard one if it fits."""
    letters = set("".join(cells))
    if not letters & DIGITS:
        return []
    tried = (f for f in FORMATS if f == STANDARD or letters & set(MARKS[f.group or f.point]))
    return [f for f in tried if f.fits(cells)]


def proven_point(cells: Sequence[str]) -> str:
    """The decimal mark, if the cells of a column determine it; else empty."""
    if not set("".join(cells)) - DIGITS - set("+-"):
        return ""
    marks = {form.point for form in _fitting(cells)}
    return marks.pop() if len(marks) == 1 else ""


def is_number(cell: str) -> bool:
    """Whether the cell is a number in any of the formats."""
    return any(form.pattern.fullmatch(cell) for form in FORMATS)


def is_code(cells: Sequence[str]) -> bool:
    """Whether the cells are digit strings with leading zeros or too many digits, such as post codes: as numbers they
    would lose information."""
    if not all(map(CODE.fullmatch, cells)):
        return False
    return any(len(c) > 1 and c[0] == "0" for c in cells) or any(len(c) > 18 and int(c) >= 2**63 for c in cells)


def sign_of(cell: str) -> str:
    """The currency, % or brackets around a number; empty for any other cell."""
    text = cell
    signs = []
    if text.startswith("(") and text.endswith(")"):
        text, signs = text[1:-1], ["( )"]
    marks = re.findall(rf"{CURRENCIES}|[%‰]", text)
    text = re.sub(rf"\s*(?:{CURRENCIES}|[%‰])\s*", "", text).strip()
    signs += marks
    return signs[0] if signs and is_number(text.replace("- ", "-")) else ""


def unit_of(cells: Sequence[str]) -> str:
    """The unit that follows all of many distinct numbers; else empty."""
    matches = [UNIT.fullmatch(cell) for cell in cells] if len(cells) > MIN_WITH_UNIT else [None]
    units = {m[2] if m and is_number(m[1].strip()) else "" for m in matches}
    return units.pop() if len(units) == 1 else ""


TIME = r"(?:(?:T|\s+)([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
YEAR_FIRST = re.compile(rf"([0-9]{{4}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}}){TIME}")
YEAR_LAST = re.compile(rf"([0-9]{{1,2}})([-/.])([0-9]{{1,2}})\2([0-9]{{4}}){TIME}")
SHORT_YEAR = re.compile(rf"[0-9]{{1,2}}([-/.])[0-9]{{1,2}}\1[0-9]{{2}}{TIME}")
MONTHS = "jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez"
MONTH_NAME = re.compile(
    rf"(?:[0-9]{{1,2}}\.?[ -]+(?:{MONTHS})\w*\.?,?[ -]+[0-9]{{2,4}}|(?:{MONTHS})\w*\.? [0-9]{{1,2}},? [0-9]{{4}})"
    rf"{TIME}",
    re.IGNORECASE,
)
ORDERS = ("day first", "month first")
DATE_GROUPS = {"year first": (1, 3, 4), "day first": (4, 3, 1), "month first": (4, 1, 3)}
"""The regex groups of year, month and day."""


def is_date(cell: str) -> bool:
    """Whether the cell looks like a date, in any order."""
    return any(form.fullmatch(cell) for form in (YEAR_FIRST, YEAR_LAST, SHORT_YEAR, MONTH_NAME))


def orders_of(cells: Sequence[str]) -> tuple[str, ...]:
    """The orders in which all cells are dates: "year first", or those of ORDERS; none if some cell is not a date."""
    if all(map(YEAR_FIRST.fullmatch, cells)):
        return ("year first",)
    matches = [YEAR_LAST.fullmatch(cell) for cell in cells]
    pairs = {(int(m[1]), int(m[3])) for m in matches if m}
    if not all(matches):
        return ()
    fits = (all(b <= 12 for _, b in pairs), all(a <= 12 for a, _ in pairs))
    return tuple(order for order, fit in zip(ORDERS, fits, strict=True) if fit)


def has_zone(cell: str) -> bool:
    """Whether the cell has a time zone."""
    match = YEAR_FIRST.fullmatch(cell) or YEAR_LAST.fullmatch(cell)
    return match is not None and match[6] is not None


def dates(cells: Sequence[str], order: str) -> pd.Series[Any]:
    """The cells, which must be dates in this order, as datetime64; NaT for days that do not exist."""
    form = YEAR_FIRST if order == "year first" else YEAR_LAST
    iso = []
    for cell in cells:
        match = form.fullmatch(cell)
        assert match is not None
        year, month, day = (match[i] for i in DATE_GROUPS[order])
        clock = f"T{match[5]}" if match[5] else ""
        clock = f"T0{match[5]}" if len(clock) > 2 and clock[2] == ":" else clock
        iso.append(f"{year}-{month:0>2}-{day:0>2}{clock}{match[6] or ''}")
    zoned = bool(cells) and has_zone(cells[0])
    return pd.Series(pd.to_datetime(pd.Series(iso, dtype=object), format="ISO8601", errors="coerce", utc=zoned))
