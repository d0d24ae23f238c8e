"""Rows as users send them: parses cells from forms, CSV and JSON; errors name column and remedy."""

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
from grace.schema.columns import MAX_DATE, MIN_DATE, date_text, epoch_days, fill_value, is_date
from grace.schema.features import MISSING, Categorical, Feature, Numeric, Value, plain
from grace.schema.frames import cell_repr, cell_reprs
from grace.schema.groups import has_groups, join_groups
from grace.schema.low_precision import is_low_precision, shortest_decimals
from grace.schema.schema import Schema
from grace.text import sentence

MISSING_TEXTS = ("", "?", "na", "n/a", "nan", "null", "none")
MAX_QUOTED = 60  # characters of an invalid cell that an error repeats
MAX_CELL_LENGTH = 10_000
MAX_NUMBER_LENGTH = 1_000
MAX_COLUMNS = 50_000

NO_CELL = "column {column!r}: the cell is missing; fill it in, or ask for missing cells to be filled in"
NO_COLUMN = "column {column!r}: the column is missing; fill it in, or ask for missing cells to be filled in"

Cells = dict[str, Value | None]
"""A row; None for a missing number that the model accepts."""


def parse_cell(feature: Feature, raw: Any) -> Value:
    """The value of a feature from text or JSON."""
    if isinstance(raw, str) and len(raw) > (MAX_CELL_LENGTH if isinstance(feature, Categorical) else MAX_NUMBER_LENGTH):
        message = "column {column!r}: the cell has {count} characters; shorten it"
        raise GraceError(message, column=feature.name, count=len(raw))
    if isinstance(feature, Categorical):
        for category in feature.categories:
            if category == raw and isinstance(category, bool) == isinstance(raw, bool):
                return category
        text = str(raw).strip() if isinstance(raw, str | int | float) else None
        parsed = next((c for c in feature.categories if str(c) == text), None)
        if parsed is None:
            raise GraceError(
                "column {column!r}: unknown category {cell}; use one of {known}",
                column=feature.name,
                cell=_quoted(raw),
                known=cell_reprs(feature.categories),
            )
        return parsed
    if is_date(feature) and isinstance(raw, str):
        raw = _parse_date(feature, raw)
    context = {"column": feature.name, "cell": _quoted(raw)}
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise GraceError("column {column!r}: {cell} is not a number; send one such as 1.5", **context)
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        raise GraceError("column {column!r}: {cell} is not a number; write it like 1.5", **context) from None
    if not math.isfinite(number):
        raise GraceError("column {column!r}: {cell} is not a finite number; write it like 1.5", **context)
    if is_date(feature) and not MIN_DATE <= number <= MAX_DATE:
        raise GraceError("column {column!r}: {cell} is no day that there is; write it as 2020-12-31", **context)
    number = float(shortest_decimals(np.array([number]), feature.dtype)[0]) if is_low_precision(feature) else number
    return int(number) if feature.integer and number == round(number) and abs(number) < 2**53 else number


def _parse_date(feature: Feature, raw: str) -> float:
    """A date as a number of days; a number is returned unchanged."""
    with contextlib.suppress(ValueError):
        return float(raw)
    try:
        return float(epoch_days(pd.Series([raw]))[0])
    except GraceError:
        message = "column {column!r}: {cell} is not a date; write it as 2020-12-31"
        raise GraceError(message, column=feature.name, cell=_quoted(raw)) from None


def _quoted(raw: Any) -> str:
    shown = cell_repr(raw)
    return shown if len(shown) <= MAX_QUOTED else f"{shown[:MAX_QUOTED]}…"


def plain_cell(cell: Any) -> Any:
    """A cell of a data frame as a plain value; None if it is missing."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    return cell.isoformat() if isinstance(cell, pd.Timestamp) else plain(cell)


def is_missing(feature: Feature, raw: Any) -> bool:
    """Whether a cell is missing. A category may be called "none"."""
    if raw is None or (isinstance(raw, float) and math.isnan(raw)):
        return True
    if not isinstance(raw, str) or raw.strip().lower() not in MISSING_TEXTS:
        return False
    return isinstance(feature, Numeric) or raw not in map(str, feature.categories)


def default_cell(feature: Feature) -> Value:
    """The value that a missing cell is imputed with, as in training."""
    value = fill_value(feature)
    return feature.categories[int(value)] if isinstance(feature, Categorical) else parse_cell(feature, value)


def read_row(schema: Schema, raw: Mapping[str, Any], fill: Collection[str] = ()) -> tuple[Cells, tuple[str, ...]]:
    """A complete row, and the names of its imputed cells. Missing cells are imputed in the columns of `fill`; elsewhere
    they are an error, unless the model accepts them."""
    names = schema.names
    if len(raw) > max(MAX_COLUMNS, 2 * len(names)):
        message = "the row has {count} columns; drop those that the model does not know"
        raise GraceError(message, count=len(raw))
    if has_groups(schema):
        row_of = join_groups(schema, pd.DataFrame([dict(raw)]))
        raw = {str(name): plain(row_of[name].iloc[0]) for name in row_of}
    known = set(names)
    for column in raw if any(name not in raw for name in names) else ():  # an unknown column may be a misspelt one
        if column not in known and column != schema.target:
            raise GraceError(
                "column {column!r} is unknown to the model; drop or rename it; known are {known}",
                column=column[:MAX_QUOTED],
                known=cell_reprs(names),
            )
    row: Cells = {}
    filled = []
    for feature in schema.features:
        given = raw.get(feature.name)
        if not is_missing(feature, given):
            row[feature.name] = parse_cell(feature, given)
        elif feature.gaps and (feature.name in raw or feature.name in fill):
            row[feature.name] = MISSING if isinstance(feature, Categorical) else None
        elif feature.name in fill:
            row[feature.name] = default_cell(feature)
            filled.append(feature.name)
        else:
            raise GraceError(NO_CELL if feature.name in raw else NO_COLUMN, column=feature.name)
    return row, tuple(filled)


def parse_table(raw: str, number: int = 0) -> dict[str, Any]:
    """The cells of row `number` of a CSV or JSON text."""
    raw = raw.lstrip("\ufeff").strip()
    if not raw:
        raise GraceError("there is no row: paste a line of column names and a line of values, or choose a file")
    return _json_row(raw, number) if raw[0] in "{[" else _csv_row(raw, number)


def _json_row(raw: str, number: int) -> dict[str, Any]:
    try:
        parsed = json.loads(raw)
    except RecursionError as reason:
        raise GraceError(
            'this is not JSON of a table: it is nested too deep; write it like {"column": 1.5}'
        ) from reason
    except ValueError as reason:
        line, column = (getattr(reason, part, 1) for part in ("lineno", "colno"))
        message = 'this is not JSON (line {line}, character {place}); write it like {{"column": 1.5}}'
        raise GraceError(message, line=line, place=column) from reason
    if isinstance(parsed, dict) and isinstance(parsed.get("row"), dict):
        parsed = parsed["row"]  # a downloaded explanation
    rows = parsed if isinstance(parsed, list) else [parsed]
    if not rows or not all(isinstance(r, dict) for r in rows):
        raise GraceError('the JSON must be an object such as {"column": 1.5}, or a list of them')
    check_row_number(number, len(rows))
    row: dict[str, Any] = rows[number]
    return row


def _csv_row(raw: str, number: int) -> dict[str, Any]:
    head = raw[: raw.find("\n")]
    delimiter = max(",;\t", key=head.count)
    names: list[str] = []
    row: list[str] = []
    count = 0
    try:
        for line in csv.reader(io.StringIO(raw), delimiter=delimiter, strict=True):
            if not names:
                names = _header(line)
            elif line:
                if len(line) != len(names):
                    message = "row {row} has {cells} cells, but there are {names} column names; correct the row"
                    raise GraceError(message, row=count, cells=len(line), names=len(names))
                row = line if count == number else row
                count += 1
    except csv.Error as reason:
        raise GraceError("this is not CSV: a cell is broken off or too long; check the quotation marks") from reason
    if count == 0:
        raise GraceError("the CSV has one line only; the first must be the column names, the next the values")
    check_row_number(number, count)
    return dict(zip(names, row, strict=True))


def _header(line: list[str]) -> list[str]:
    names = [name.strip() for name in line]
    if len(names) > MAX_COLUMNS:
        raise GraceError("the CSV has {count} columns; the most is {most}", count=len(names), most=MAX_COLUMNS)
    if len(set(names)) < len(names):
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        raise GraceError("column {column!r} occurs twice; rename or drop one of them", column=repeated[:MAX_QUOTED])
    return names


def check_row_number(number: int, count: int) -> None:
    """Raise an error unless 0 <= number < count."""
    if not 0 <= number < count:
        raise GraceError("row {row} is not there; the rows are 0 to {last}", row=number, last=count - 1)


def format_cell(feature: Feature, value: Value | None) -> str:
    """A cell as text that `parse_cell` reads back; dates in ISO format."""
    if value is None:
        return ""
    if isinstance(value, bool | str) or isinstance(feature, Categorical):
        return format_value(value)
    if is_date(feature):
        text = date_text(value).replace(" ", "T")
        return text if _parse_date(feature, text) == value else format_value(value)
    return format_value(value)


def format_value(value: Value) -> str:
    """A value as text, without an exponent if that takes at most 20 characters."""
    if isinstance(value, bool | str):
        return str(value)
    text = f"{sentence.decimal(value):f}"
    return text if len(text) <= 20 else repr(value)
