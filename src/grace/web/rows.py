"""A row as people send it: text from forms, CSV and JSON become cells, with errors that name column and remedy."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from grace import text
from grace.columns import date_text, days, is_date, is_small, said_as
from grace.errors import GraceError
from grace.features import MISSING, Categorical, Feature, Numeric, Value, plain
from grace.frames import said, some
from grace.groups import gathered, has_groups
from grace.models.base import fill_value
from grace.schema import Schema

NOTHING = ("", "?", "na", "n/a", "nan", "null", "none")  # how a missing cell is written in tables
LONGEST = 60  # characters of a wrong cell that an error repeats
LONGEST_CELL = 10_000  # characters
LONGEST_NUMBER = 1_000
MOST_COLUMNS = 50_000

LATEST = 2_900_000  # days around 1970 that a date may be away: to the year 9909

Cells = dict[str, Value | None]
"""A row; None where a number is missing and the model takes that for a value of its own."""


def cell(feature: Feature, sent: Any) -> Value:
    """The cell that was sent for a feature, as text or as JSON has it."""
    if isinstance(sent, str) and len(sent) > (LONGEST_CELL if isinstance(feature, Categorical) else LONGEST_NUMBER):
        raise GraceError(f"column {feature.name!r}: the cell has {len(sent)} characters; shorten it")
    if isinstance(feature, Categorical):
        for category in feature.categories:
            if category == sent and isinstance(category, bool) == isinstance(sent, bool):
                return category
        said = str(sent).strip() if isinstance(sent, str | int | float) else None
        found = next((c for c in feature.categories if str(c) == said), None)
        if found is None:
            raise GraceError(
                f"column {feature.name!r}: unknown category {_short(sent)}; use one of {some(feature.categories)}"
            )
        return found
    if is_date(feature) and isinstance(sent, str):
        sent = _day(feature, sent)
    if isinstance(sent, bool) or not isinstance(sent, str | int | float):
        raise GraceError(f"column {feature.name!r}: {_short(sent)} is not a number; send one such as 1.5")
    try:
        number = float(sent)
    except (ValueError, OverflowError):
        raise GraceError(f"column {feature.name!r}: {_short(sent)} is not a number; write it like 1.5") from None
    if not math.isfinite(number):
        raise GraceError(f"column {feature.name!r}: {_short(sent)} is not a finite number; write it like 1.5")
    if is_date(feature) and abs(number) > LATEST:
        raise GraceError(f"column {feature.name!r}: {_short(sent)} is no day that there is; write it as 2020-12-31")
    number = float(said_as(np.array([number]), feature.dtype)[0]) if is_small(feature) else number
    return int(number) if feature.integer and number == round(number) and abs(number) < 2**53 else number


def _day(feature: Feature, sent: str) -> float:
    """A date as the number that it is to the model; a number stays as it is."""
    with contextlib.suppress(ValueError):
        return float(sent)
    try:
        return float(days(pd.Series([sent]))[0])
    except GraceError:
        wrong = f"column {feature.name!r}: {_short(sent)} is not a date; write it as 2020-12-31"
        raise GraceError(wrong) from None


def _short(sent: Any) -> str:
    shown = said(sent)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def sent(cell: Any) -> Any:
    """A cell of a table as people send it."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    return cell.isoformat() if isinstance(cell, pd.Timestamp) else plain(cell)


def is_missing(feature: Feature, sent: Any) -> bool:
    """Whether a cell says that nothing is known; a category may be called "none"."""
    if sent is None or (isinstance(sent, float) and math.isnan(sent)):
        return True
    if not isinstance(sent, str) or sent.strip().lower() not in NOTHING:
        return False
    return isinstance(feature, Numeric) or sent not in map(str, feature.categories)


def filled(feature: Feature) -> Value:
    """What a missing cell of the feature becomes, as in training."""
    value = fill_value(feature)
    return feature.categories[int(value)] if isinstance(feature, Categorical) else cell(feature, value)


def read_row(schema: Schema, sent: Mapping[str, Any], fill: Collection[str] = ()) -> tuple[Cells, tuple[str, ...]]:
    """A whole row, and which of its cells were missing and filled in as in training: of the columns in `fill`. Missing
    cells of others are an error, unless the model takes them."""
    names = schema.names
    if len(sent) > max(MOST_COLUMNS, 2 * len(names)):
        raise GraceError(f"the row has {len(sent)} columns; drop those that the model does not know")
    if has_groups(schema):
        row_of = gathered(schema, pd.DataFrame([dict(sent)]))
        sent = {str(name): plain(row_of[name].iloc[0]) for name in row_of}
    known = set(names)
    for column in sent:
        if column not in known and column != schema.target:
            raise GraceError(
                f"column {_short(column)} is unknown to the model; drop or rename it; known are {some(names)}"
            )
    row: Cells = {}
    gone = []
    for feature in schema.features:
        given = sent.get(feature.name)
        if not is_missing(feature, given):
            row[feature.name] = cell(feature, given)
        elif feature.gaps and (feature.name in sent or feature.name in fill):
            row[feature.name] = MISSING if isinstance(feature, Categorical) else None
        elif feature.name in fill:
            row[feature.name] = filled(feature)
            gone.append(feature.name)
        else:
            what = "the cell is missing" if feature.name in sent else "the column is missing"
            raise GraceError(f"column {feature.name!r}: {what}; fill it in, or ask for missing cells to be filled in")
    return row, tuple(gone)


def parse_table(sent: str, number: int = 1) -> dict[str, Any]:
    """The cells of one row (1 is the first) of a CSV or JSON text."""
    sent = sent.lstrip("\ufeff").strip()
    if not sent:
        raise GraceError("there is no row: paste a line of column names and a line of values, or choose a file")
    return _json_row(sent, number) if sent[0] in "{[" else _csv_row(sent, number)


def _json_row(sent: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(sent)
    except (ValueError, RecursionError) as reason:
        raise GraceError(f'this is not JSON: {reason}; write it like {{"column": 1.5}}') from reason
    if isinstance(found, dict) and isinstance(found.get("row"), dict):
        found = found["row"]  # an explanation that was downloaded here
    rows = found if isinstance(found, list) else [found]
    if not rows or not all(isinstance(r, dict) for r in rows):
        raise GraceError('the JSON must be an object such as {"column": 1.5}, or a list of them')
    row: dict[str, Any] = rows[_place(number, len(rows))]
    return row


def _csv_row(sent: str, number: int) -> dict[str, Any]:
    head = sent[: sent.find("\n")]
    mark = max(",;\t", key=head.count)
    names: list[str] = []
    wanted: list[str] = []
    count = 0
    try:
        for line in csv.reader(io.StringIO(sent), delimiter=mark, strict=True):
            if not names:
                names = _header(line)
            elif line:
                count += 1
                if len(line) != len(names):
                    many = f"{len(line)} cells, but there are {len(names)} column names"
                    raise GraceError(f"row {count} has {many}; correct the row")
                wanted = line if count == number else wanted
    except csv.Error as reason:
        raise GraceError(f"this is not CSV: {reason}; check the quotation marks") from reason
    if count == 0:
        raise GraceError("the CSV has one line only; the first must be the column names, the next the values")
    _place(number, count)
    return dict(zip(names, wanted, strict=True))


def _header(line: list[str]) -> list[str]:
    names = [name.strip() for name in line]
    if len(names) > MOST_COLUMNS:
        raise GraceError(f"the CSV has {len(names)} columns; the most is {MOST_COLUMNS}")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise GraceError(f"column {_short(twice)} occurs twice; rename or drop one of them")
    return names


def _place(number: int, count: int) -> int:
    """Where the row with this number stands among so many."""
    if not 1 <= number <= count:
        raise GraceError(f"row {number} is not there; the table has {count} row(s)")
    return number - 1


def written(feature: Feature, value: Value | None) -> str:
    """A cell as text that `cell` reads back: a date as such, digits without an exponent where they are few."""
    if value is None:
        return ""
    if isinstance(value, bool | str) or isinstance(feature, Categorical):
        return plainly(value)
    if is_date(feature):
        said = date_text(value).replace(" ", "T")
        return said if _day(feature, said) == value else plainly(value)
    return plainly(value)


def plainly(value: Value) -> str:
    if isinstance(value, bool | str):
        return str(value)
    plain = f"{text.decimal(value):f}"
    return plain if len(plain) <= 20 else repr(value)
