"""Dates as people write them in tables. ISO dates are always taken; 31.12.2024 and 12/31/2024 where the whole column
leaves one order of day and month; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

TIME = r"(?:(?:T|\s+)([0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
YEAR_FIRST = re.compile(rf"([0-9]{{4}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}}){TIME}")
YEAR_LAST = re.compile(rf"([0-9]{{1,2}})([-/.])([0-9]{{1,2}})\2([0-9]{{4}}){TIME}")
SHORT_YEAR = re.compile(rf"[0-9]{{1,2}}([-/.])[0-9]{{1,2}}\1[0-9]{{2}}{TIME}")
MONTHS = "jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez"
NAMED = re.compile(
    rf"(?:[0-9]{{1,2}}\.?[ -]+(?:{MONTHS})\w*\.?,?[ -]+[0-9]{{2,4}}|(?:{MONTHS})\w*\.? [0-9]{{1,2}},? [0-9]{{4}})"
    rf"{TIME}",
    re.IGNORECASE,
)
ORDERS = ("day first", "month first")
PLACES = {"year first": (1, 3, 4), "day first": (4, 3, 1), "month first": (4, 1, 3)}  # of year, month and day


def is_date(cell: str) -> bool:
    """Whether the cell looks like a date, in whatever order."""
    return any(form.fullmatch(cell) for form in (YEAR_FIRST, YEAR_LAST, SHORT_YEAR, NAMED))


def orders_of(cells: Sequence[str]) -> tuple[str, ...]:
    """The orders in which all cells are dates: "year first", or those of ORDERS; none if some cell is no such date."""
    if all(map(YEAR_FIRST.fullmatch, cells)):
        return ("year first",)
    found = [YEAR_LAST.fullmatch(cell) for cell in cells]
    pairs = {(int(m[1]), int(m[3])) for m in found if m}
    if not all(found):
        return ()
    fits = (all(b <= 12 for _, b in pairs), all(a <= 12 for a, _ in pairs))
    return tuple(order for order, fit in zip(ORDERS, fits, strict=True) if fit)


def has_zone(cell: str) -> bool:
    """Whether the time of a cell is that of a stated zone."""
    found = YEAR_FIRST.fullmatch(cell) or YEAR_LAST.fullmatch(cell)
    return found is not None and found[6] is not None


def dates(cells: Sequence[str], order: str) -> pd.Series[Any]:
    """The cells, which must be dates in this order, as such; missing where there is no such day."""
    form = YEAR_FIRST if order == "year first" else YEAR_LAST
    written = []
    for cell in cells:
        found = form.fullmatch(cell)
        assert found is not None
        year, month, day = (found[i] for i in PLACES[order])
        clock = f"T{found[5]}" if found[5] else ""
        clock = f"T0{found[5]}" if len(clock) > 2 and clock[2] == ":" else clock
        written.append(f"{year}-{month:0>2}-{day:0>2}{clock}{found[6] or ''}")
    zoned = bool(cells) and has_zone(cells[0])
    return pd.Series(pd.to_datetime(pd.Series(written, dtype=object), format="ISO8601", errors="coerce", utc=zoned))
