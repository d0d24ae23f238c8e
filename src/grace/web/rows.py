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

from grace.errors import GraceError
from grace.schema.columns import (
    MAX_DATE,
    MIN_DATE,
    date_text,
    epoch_days,
    fill_value,
    is_date,
    is_low_precision,
    shortest_decimals,
)
from grace.schema.features import MISSING, Categorical, Feature, Numeric, Value, plain
from grace.schema.frames import cell_repr, cell_reprs
from grace.schema.groups import has_groups, join_groups
from grace.schema.schema import Schema
from grace.text import sentence

NOTHING = ("", "?", "na", "n/a", "nan", "null", "none")  # how a missing cell is written in tables
LONGEST = 60  # characters of a wrong cell that an error repeats
LONGEST_CELL = 10_000  # characters
LONGEST_NUMBER = 1_000
MOST_COLUMNS = 50_000

NO_CELL = "column {column!r}: the cell is missing; fill it in, or ask for missing cells to be filled in"
NO_COLUMN = "column {column!r}: the column is missing; fill it in, or ask for missing cells to be filled in"

Cells = dict[str, Value | None]
"""A row; None where a number is missing and the model takes that for a value of its own."""


def cell(feature: Feature, sent: Any) -> Value:
    """The cell that was sent for a feature, as text or as JSON has it."""
    if isinstance(sent, str) and len(sent) > (LONGEST_CELL if isinstance(feature, Categorical) else LONGEST_NUMBER):
        message = "column {column!r}: the cell has {count} characters; shorten it"
        raise GraceError(message, column=feature.name, count=len(sent))
    if isinstance(feature, Categorical):
        for category in feature.categories:
            if category == sent and isinstance(category, bool) == isinstance(sent, bool):
                return category
        said = str(sent).strip() if isinstance(sent, str | int | float) else None
        found = next((c for c in feature.categories if str(c) == said), None)
        if found is None:
            raise GraceError(
                "column {column!r}: unknown category {cell}; use one of {known}",
                column=feature.name,
                cell=_short(sent),
                known=cell_reprs(feature.categories),
            )
        return found
    if is_date(feature) and isinstance(sent, str):
        sent = _day(feature, sent)
    wrong = {"column": feature.name, "cell": _short(sent)}
    if isinstance(sent, bool) or not isinstance(sent, str | int | float):
        raise GraceError("column {column!r}: {cell} is not a number; send one such as 1.5", **wrong)
    try:
        number = float(sent)
    except (ValueError, OverflowError):
        raise GraceError("column {column!r}: {cell} is not a number; write it like 1.5", **wrong) from None
    if not math.isfinite(number):
        raise GraceError("column {column!r}: {cell} is not a finite number; write it like 1.5", **wrong)
    if is_date(feature) and not MIN_DATE <= number <= MAX_DATE:
        raise GraceError("column {column!r}: {cell} is no day that there is; write it as 2020-12-31", **wrong)
    number = float(shortest_decimals(np.array([number]), feature.dtype)[0]) if is_low_precision(feature) else number
    return int(number) if feature.integer and number == round(number) and abs(number) < 2**53 else number


def _day(feature: Feature, sent: str) -> float:
    """A date as the number that it is to the model; a number stays as it is."""
    with contextlib.suppress(ValueError):
        return float(sent)
    try:
        return float(epoch_days(pd.Series([sent]))[0])
    except GraceError:
        message = "column {column!r}: {cell} is not a date; write it as 2020-12-31"
        raise GraceError(message, column=feature.name, cell=_short(sent)) from None


def _short(sent: Any) -> str:
    shown = cell_repr(sent)
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
        message = "the row has {count} columns; drop those that the model does not know"
        raise GraceError(message, count=len(sent))
    if has_groups(schema):
        row_of = join_groups(schema, pd.DataFrame([dict(sent)]))
        sent = {str(name): plain(row_of[name].iloc[0]) for name in row_of}
    known = set(names)
    for column in sent if any(name not in sent for name in names) else ():  # perhaps misspelt; else an extra column
        if column not in known and column != schema.target:
            raise GraceError(
                "column {column!r} is unknown to the model; drop or rename it; known are {known}",
                column=column[:LONGEST],
                known=cell_reprs(names),
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
            raise GraceError(NO_CELL if feature.name in sent else NO_COLUMN, column=feature.name)
    return row, tuple(gone)


def parse_table(sent: str, number: int = 0) -> dict[str, Any]:
    """The cells of one row (0 is the first) of a CSV or JSON text."""
    sent = sent.lstrip("\ufeff").strip()
    if not sent:
        raise GraceError("there is no row: paste a line of column names and a line of values, or choose a file")
    return _json_row(sent, number) if sent[0] in "{[" else _csv_row(sent, number)


def _json_row(sent: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(sent)
    except RecursionError as reason:
        raise GraceError(
            'this is not JSON of a table: it is nested too deep; write it like {"column": 1.5}'
        ) from reason
    except ValueError as reason:
        line, place = (getattr(reason, part, 1) for part in ("lineno", "colno"))
        message = 'this is not JSON (line {line}, character {place}); write it like {{"column": 1.5}}'
        raise GraceError(message, line=line, place=place) from reason
    if isinstance(found, dict) and isinstance(found.get("row"), dict):
        found = found["row"]  # an explanation that was downloaded here
    rows = found if isinstance(found, list) else [found]
    if not rows or not all(isinstance(r, dict) for r in rows):
        raise GraceError('the JSON must be an object such as {"column": 1.5}, or a list of them')
    _check_place(number, len(rows))
    row: dict[str, Any] = rows[number]
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
                if len(line) != len(names):
                    message = "row {row} has {cells} cells, but there are {names} column names; correct the row"
                    raise GraceError(message, row=count, cells=len(line), names=len(names))
                wanted = line if count == number else wanted
                count += 1
    except csv.Error as reason:
        raise GraceError("this is not CSV: a cell is broken off or too long; check the quotation marks") from reason
    if count == 0:
        raise GraceError("the CSV has one line only; the first must be the column names, the next the values")
    _check_place(number, count)
    return dict(zip(names, wanted, strict=True))


def _header(line: list[str]) -> list[str]:
    names = [name.strip() for name in line]
    if len(names) > MOST_COLUMNS:
        raise GraceError("the CSV has {count} columns; the most is {most}", count=len(names), most=MOST_COLUMNS)
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise GraceError("column {column!r} occurs twice; rename or drop one of them", column=twice[:LONGEST])
    return names


def _check_place(number: int, count: int) -> None:
    """Whether there is a row with this number among so many."""
    if not 0 <= number < count:
        raise GraceError("row {row} is not there; the rows are 0 to {last}", row=number, last=count - 1)


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
    plain = f"{sentence.decimal(value):f}"
    return plain if len(plain) <= 20 else repr(value)
