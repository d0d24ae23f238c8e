"""Types columns of text: numbers, dates, booleans or categories.

The schema decides, if given; else all cells of the column. A column with mostly numbers or dates is refused with the
first cell that does not fit, rather than read as categories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.errors import GraceError
from grace.schema.columns import DURATION_PREFIXES, MAX_EXACT_INTEGER, is_date
from grace.schema.features import Categorical, Feature, Numeric, columns_of
from grace.schema.frames import category_cells, cell_repr
from grace.schema.schema import Schema
from grace.schema.tables import text_cells

SPELLINGS = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null"
MISSING_TEXTS = frozenset(("", "#N/A N/A", *SPELLINGS.split()))  # as in pandas
BOOLEANS = {word: word.lower() == "true" for word in ("True", "TRUE", "true", "False", "FALSE", "false")}
EMPTY = "leave the cell empty if it is missing, or correct it"
CATEGORY = "if the column holds categories, say so with --categories or in the schema"


@dataclass(frozen=True)
class TextColumn:
    """A column of text, factorized: its distinct cells are stripped of blanks."""

    name: str
    cells: pd.Series[Any]
    codes: npt.NDArray[np.int64]
    """For each cell its position in `distinct`, -1 where it is missing."""
    distinct: list[str]

    @classmethod
    def of(cls, name: str, cells: pd.Series[Any]) -> TextColumn:
        stripped = cells.str.strip()
        codes, distinct = pd.factorize(stripped.mask(stripped.isin(MISSING_TEXTS)))
        return cls(name, cells, codes.astype(np.int64), np.asarray(distinct, dtype=object).tolist())

    @property
    def text(self) -> pd.Series[Any]:
        return self.cells.mask(self.codes < 0)

    @cached_property
    def readings(self) -> list[text_cells.Reading]:
        """All interpretations of the cells as numbers."""
        return text_cells.readings(self.distinct) if self.distinct else []

    def broadcast(self, values: Any, empty: Any) -> Any:
        """Values per cell from values per distinct cell."""
        known = np.asarray(values)
        return np.where(self.codes < 0, empty, known[self.codes] if len(known) else empty)

    def share(self, holds: Callable[[str], bool]) -> float:
        """The share of cells for which `holds`, among all or the distinct ones, whichever is larger."""
        each = np.array([holds(cell) for cell in self.distinct], dtype=bool)
        return max(float(each.mean()), float(each[self.codes[self.codes >= 0]].mean())) if len(each) else 0.0

    def wrong(self, where: Callable[[str], bool], why: str) -> GraceError:
        """An error that names the first cell for which `where` holds."""
        code = next(k for k, cell in enumerate(self.distinct) if where(cell))
        row = int((self.codes == code).argmax())
        return GraceError(f"column {self.name!r}, row {row}: {cell_repr(self.distinct[code])} {why}")


@dataclass
class Columns:
    """The columns of one table: the number format of one column may resolve that of another."""

    columns: Mapping[str, TextColumn]
    separator: str
    used: Sequence[str]
    """The columns to type; others stay as written."""
    formats: dict[text_cells.NumberFormat, list[str]] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    digit_strings: list[str] = field(default_factory=list)

    @cached_property
    def points(self) -> set[str]:
        """The decimal marks that columns determine."""
        return {text_cells.proven_point(self.columns[name].distinct) for name in self.used} - {""}

    def inferred(self, column: TextColumn) -> Any:
        """The column in the type that its cells suggest; an error if they are mostly numbers or dates."""
        if _is_boolean(column):
            return _booleans(column)
        if text_cells.is_code(column.distinct):
            self.digit_strings.append(column.name)
            return column.text
        if column.readings:
            return self.numbers(column)
        if column.distinct and text_cells.orders_of(column.distinct):
            return self.dates(column)
        _refuse_units(column)
        if column.share(text_cells.is_number) >= 0.5:
            raise self._no_number(column, f"{EMPTY}; {CATEGORY}")
        if column.share(text_cells.is_date) >= 0.5:
            raise self._no_date(column)
        return column.text

    def of_feature(self, column: TextColumn, feature: Feature) -> Any:
        """The column in the type of a feature."""
        if isinstance(feature, Categorical):
            if not feature.categories:
                return _booleans(column) if _is_boolean(column) else as_written(column)
            names = {str(c) for c in feature.categories} & MISSING_TEXTS
            return category_cells(column.cells.where(column.cells.isin(names), column.text), feature)
        if not column.distinct:
            return column.text
        if column.readings:
            return self.numbers(column)
        if feature.dtype.startswith(DURATION_PREFIXES):
            return column.text
        if is_date(feature) or feature.kind == "date":
            if text_cells.orders_of(column.distinct):
                return self.dates(column)
            raise self._no_date(column)
        if _is_boolean(column):
            return _booleans(column)
        _refuse_units(column)
        raise self._no_number(column, EMPTY)

    def numbers(self, column: TextColumn) -> Any:
        """The numbers of a column, as int64 if all are integers and none is missing."""
        reading = self._chosen(column)
        if reading.format != text_cells.STANDARD:
            self.formats.setdefault(reading.format, []).append(column.name)
        whole = all(map(text_cells.WHOLE.fullmatch, column.distinct))
        if whole and (column.codes >= 0).all():
            exact = [int(cell) for cell in column.distinct]
            if min(exact) >= -(2**63) and max(exact) < 2**63:
                return column.broadcast(np.array(exact, dtype=np.int64), 0).astype(np.int64)
        values = reading.values
        fits = bool((values == np.round(values)).all()) and bool((np.abs(values) <= MAX_EXACT_INTEGER).all())
        if reading.format != text_cells.STANDARD and fits and (column.codes >= 0).all():
            return column.broadcast(values.astype(np.int64), 0)
        return column.broadcast(values, np.nan)

    def _chosen(self, column: TextColumn) -> text_cells.Reading:
        """The interpretation of a column as numbers; an error if it is ambiguous."""
        candidates = column.readings
        if len(candidates) == 1:
            return candidates[0]
        fitting = [reading for reading in candidates if self.points == {reading.format.point}]
        if len(fitting) == 1:
            return fitting[0]
        if not self.points and candidates[0].format == text_cells.STANDARD and self.separator != ";":
            return candidates[0]
        values = [[float(v) for v in reading.values] for reading in candidates]
        i = next(k for k in range(len(values[0])) if len({v[k] for v in values}) > 1)
        texts = " or ".join(f"{v[i]:.12g}" for v in values)
        cell = column.distinct[i]
        remedy = "write numbers as 1234.5, or convert the table to Parquet"
        raise column.wrong(cell.__eq__, f"may be {texts}, and no other column tells which; {remedy}")

    def dates(self, column: TextColumn) -> Any:
        """The dates of a column."""
        orders = text_cells.orders_of(column.distinct)
        if len(orders) > 1:
            raise column.wrong(
                lambda cell: True, "may be day and month or month and day in this column; write dates as 2024-12-31"
            )
        zoned = column.share(text_cells.has_zone)
        if 0 < zoned < 1:
            why = "has no time zone, but other cells have; give all one"
            raise column.wrong(lambda cell: not text_cells.has_zone(cell), why)
        if orders[0] != "year first":
            self.orders.setdefault(orders[0], []).append(column.name)
        parsed = text_cells.dates(column.distinct, orders[0])
        if parsed.isna().any():
            invalid = column.distinct[int(parsed.isna().argmax())]
            raise column.wrong(invalid.__eq__, "is no day that there is; write dates as 2024-12-31")
        return parsed.array.take(column.codes, allow_fill=True)

    def _no_number(self, column: TextColumn, remedy: str) -> GraceError:
        if all(map(text_cells.is_number, column.distinct)):
            odd = next(c for c in column.distinct if not text_cells.readings([column.distinct[0], c]))
            return column.wrong(
                odd.__eq__,
                f"and {cell_repr(column.distinct[0])} are not written alike; write all numbers of the column as 1234.5",
            )
        return column.wrong(lambda cell: not text_cells.is_number(cell), f"is not a number; {remedy}")

    def _no_date(self, column: TextColumn) -> GraceError:
        def odd(cell: str) -> bool:
            return not text_cells.orders_of([cell])

        if any(map(odd, column.distinct)):
            return column.wrong(odd, "is not a date that can be read; write it as 2024-12-31, or " + EMPTY)
        return column.wrong(lambda cell: True, "and other dates of the column are not written alike; use 2024-12-31")

    @property
    def notes(self) -> list[str]:
        """Notes about detected formats."""
        out = [f"{form} in {_listed(names)}" for form, names in self.formats.items()]
        out += [f"dates with the {order} in {_listed(names)}" for order, names in self.orders.items()]
        codes = self.digit_strings
        return out + ([f"codes with leading zeros kept as text in {_listed(codes)}"] if codes else [])


def typed_columns(
    columns: Mapping[str, TextColumn],
    separator: str,
    schema: Schema | None = None,
    *,
    used: Sequence[str] = (),
    categories: Sequence[str] = (),
    lenient: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """The typed columns, and notes about detected formats. With a schema, only its features and the columns in `used`
    are typed; `categories` stay text, and with `lenient` so do columns in which some cells do not fit."""
    known: dict[str, Feature | None] = dict.fromkeys(columns if schema is None else used)
    for feature in () if schema is None else schema.features:
        known |= {c: Numeric(name=c) for c in columns_of(feature)} if columns_of(feature) != (feature.name,) else {}
        known[feature.name] = feature
    known = {name: feature for name, feature in known.items() if name in columns and name not in categories}
    table = Columns(columns, separator, list(known))
    out: dict[str, Any] = {}
    for name, column in columns.items():
        feature_of = known.get(name)
        if name in categories:
            out[name] = column.text
        elif name not in known:
            out[name] = as_written(column)
        else:
            try:
                out[name] = table.inferred(column) if feature_of is None else table.of_feature(column, feature_of)
            except GraceError:
                if not lenient:
                    raise
                out[name] = column.text
    return pd.DataFrame(out), table.notes


def as_written(column: TextColumn) -> Any:
    """Integers as int64 if nothing is lost; all other cells as text."""
    if column.distinct and (column.codes >= 0).all() and all(map(text_cells.WHOLE.fullmatch, column.distinct)):
        values = [int(cell) for cell in column.distinct]
        if all(str(v) == cell and abs(v) < 2**63 for v, cell in zip(values, column.distinct, strict=True)):
            return column.broadcast(np.array(values, dtype=np.int64), 0)
    return column.text


def _is_boolean(column: TextColumn) -> bool:
    return bool(column.distinct) and all(cell in BOOLEANS for cell in column.distinct)


def _booleans(column: TextColumn) -> Any:
    values = np.array([BOOLEANS[cell] for cell in column.distinct])
    if (column.codes >= 0).all():
        return values[column.codes]
    return pd.Series(column.broadcast(values.astype(object), None), dtype=object)


def _refuse_units(column: TextColumn) -> None:
    """Raises an error for numbers with a currency, % or unit."""
    if column.share(lambda cell: bool(text_cells.sign_of(cell))) >= 0.5:
        sign = next(filter(None, map(text_cells.sign_of, column.distinct)))
        remedy = "write negative numbers with a minus sign" if sign == "( )" else "a unit can stand in the schema"
        why = f"is a number with {sign!r}; take it out of the column ({remedy})"
        raise column.wrong(lambda cell: bool(text_cells.sign_of(cell)), why)
    unit = text_cells.unit_of(column.distinct)
    if unit:
        raise column.wrong(
            lambda cell: True, f"is a number with {unit!r}; take it out of the column (a unit can stand in the schema)"
        )


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
