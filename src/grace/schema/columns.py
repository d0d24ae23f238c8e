"""Columns as float64 and back to their dtype: numbers, booleans, categories, text, dates and durations.

A date is the number of days since 1970-01-01, a duration a number of days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.errors import GraceError
from grace.schema.domains import Domain
from grace.schema.features import MISSING, Categorical, Feature, Floats, Numeric, Value, plain
from grace.schema.frames import cell_repr, codes_of, known_codes, numbers
from grace.schema.large_tables import finite_array, finite_frame
from grace.schema.low_precision import (
    LOW_PRECISION,
    is_low_precision,
    shortest,
    shortest_decimals,
    to_dtype,
    with_shortest_decimals,
)

MAX_EXACT_INTEGER = 2.0**53  # whole numbers up to here are exact in float64
MAX_CLASSES = 50  # a numeric target with more distinct values is a regression target
MIN_DATE, MAX_DATE = -719_162, 2_900_000  # in days since 1970; the years 1 to 9909, which can be written as dates
FEW_ROWS = 4  # up to here, testing the cells is faster than testing the dtypes of the columns
TIMESTAMP_PREFIXES = ("datetime64", "timestamp[")  # of the names of dtypes, in pandas and Arrow
DATE_PREFIXES = (*TIMESTAMP_PREFIXES, "date")
DURATION_PREFIXES = ("timedelta64", "duration[")
TEMPORAL_PREFIXES = (*DATE_PREFIXES, *DURATION_PREFIXES)
PYTHON_DATE = "date"
INTERVALS = "interval"
OBJECT = "object"  # a column whose missing cells are None
CLOSED: dict[str, Any] = {"(]": "right", "[)": "left", "[]": "both", "()": "neither"}
NUMBER_TYPES = frozenset({float, int, np.float64, np.int64})  # of plain cells
CATEGORY_TYPES = NUMBER_TYPES | {str, bool, np.bool_}
DAY = 86_400_000_000  # microseconds


def feature_of(column: pd.Series[Any]) -> Feature:
    """The feature that a column's dtype suggests."""
    name = str(column.name)
    type_ = _type(column)
    if type_.startswith(DATE_PREFIXES):
        return Numeric(name=name, kind="date")
    if type_.startswith(DURATION_PREFIXES):
        return Numeric(name=name, kind="measurement", unit="days", unit_one="day", more="longer", less="shorter")
    column = column.infer_objects()
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return Numeric(name=name) if numeric or type_ == "decimal" else Categorical(name=name)


def _type(column: pd.Series[Any]) -> str:
    """The name of a column's dtype; for Python dates and decimals in an object column, that of its cells."""
    inside = pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else ""
    known = {"date": PYTHON_DATE, "datetime": "datetime64", "datetime64": "datetime64", "decimal": "decimal"}
    known |= {"timedelta": "timedelta64", "timedelta64": "timedelta64"}
    return known.get(inside, str(column.dtype))


def is_number(column: pd.Series[Any]) -> bool:
    """Whether a target is a regression target: numeric with more than MAX_CLASSES distinct values."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return numeric and column.nunique() > MAX_CLASSES


def dtype_of(column: pd.Series[Any], feature: Feature) -> str:
    """The dtype that decoded cells are converted to; empty for float64, int64 and plain objects."""
    dtype = column.dtype
    if isinstance(feature, Numeric):
        if _type(column).startswith(TEMPORAL_PREFIXES):
            return str(column.infer_objects().dtype) if _type(column) != PYTHON_DATE else PYTHON_DATE
        extension = isinstance(dtype, pd.api.extensions.ExtensionDtype) and not pd.api.types.is_bool_dtype(dtype)
        small = isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype != np.int64
        return str(dtype) if extension or small or str(dtype) in LOW_PRECISION else ""
    if isinstance(dtype, pd.CategoricalDtype):
        return INTERVALS if _are_intervals(dtype.categories) else "category"
    if str(dtype) == OBJECT and any(cell is None for cell in column[column.isna()]):
        return OBJECT
    return str(dtype) if pd.api.types.is_bool_dtype(dtype) or str(dtype) == "string" else ""


def _are_intervals(categories: Any) -> bool:
    """Whether categories are numeric intervals, as `pd.cut` returns them."""
    return isinstance(categories, pd.IntervalIndex) and pd.api.types.is_numeric_dtype(categories.left)


def interval(text: str) -> pd.Interval[Any]:
    """Parses "(0, 1.5]"."""
    low, high = (int(end) if end.lstrip("-").isdigit() else float(end) for end in text[1:-1].split(", "))
    return pd.Interval(low, high, closed=CLOSED[text[0] + text[-1]])


def observe_column(column: pd.Series[Any], feature: Feature | None, domain: Domain) -> Feature:
    """The feature (default: `feature_of` the column) with unset attributes estimated from the column."""
    feature = feature_of(column) if feature is None else feature
    if not (isinstance(feature, Categorical) and feature.columns):
        feature = replace(feature, dtype=feature.dtype or dtype_of(column, feature))
    if isinstance(feature, Categorical):
        if column.notna().any():
            return feature.observe(column, domain)
    else:
        values = encode_column(column, replace(feature, gaps=False))  # a missing cell is no number
        values = values[~np.isnan(values)]
        if len(values):
            return feature.observe(values, domain)
    raise GraceError(f"column {str(column.name)!r} has no values: every cell is missing; drop it")


def with_missing(column: pd.Series[Any], feature: Feature) -> Feature:
    """The feature with missing cells as a value, if the column has any."""
    if not column.isna().any() or feature.gaps:
        return feature
    if isinstance(feature, Numeric):
        return replace(feature, gaps=True)
    known = MISSING in feature.categories
    categories = feature.categories if known else (*feature.categories, MISSING)
    never = feature.never if MISSING in feature.never else (*feature.never, MISSING)
    return replace(feature, gaps=True, categories=categories, never=never)


def is_date(feature: Feature) -> bool:
    return isinstance(feature, Numeric) and feature.dtype.startswith(DATE_PREFIXES)


def is_temporal(feature: Numeric) -> bool:
    """Whether the feature is a date or a duration."""
    return feature.dtype.startswith(TEMPORAL_PREFIXES)


def plain_cells(frame: pd.DataFrame, positions: list[int], features: Sequence[Feature]) -> Floats | None:
    """The columns at `positions` as an array (n, d), if all are plain, finite numbers, or in a few rows also known
    categories; else None. Faster than encoding column by column, which takes milliseconds even for a single row."""
    if not all(isinstance(f, Numeric) and not is_temporal(f) for f in features):
        return _cell_by_cell(frame, positions, features) if len(frame) <= FEW_ROWS else None
    # copied below: pandas may return a read-only view
    if len(frame) <= FEW_ROWS:
        cells = frame.to_numpy()[:, positions]
        mixed = cells.dtype == object and {type(cell) for cell in cells.flat} <= {float, int}
        if not mixed and cells.dtype.kind not in "fiu":
            return None
        found = finite_array(cells)
    else:
        dtypes = list(frame.dtypes)
        if not all(isinstance(t, np.dtype) and t.kind in "fiu" for t in {dtypes[p] for p in positions}):
            return None
        found = finite_frame(frame, positions)
    return None if found is None else with_shortest_decimals(found, features)


def plain_array(rows: npt.NDArray[Any], features: Sequence[Feature]) -> Floats | None:
    """Rows of an array as (n, d), if they are finite numbers, and plain ones in every feature; else None."""
    table = rows[None] if rows.ndim == 1 else rows
    if table.dtype.kind not in "fiu" or table.ndim != 2 or table.shape[1] != len(features):
        return None
    if not all(isinstance(f, Numeric) and not is_temporal(f) and not is_low_precision(f) for f in features):
        return None
    return finite_array(table)


def _cell_by_cell(frame: pd.DataFrame, positions: list[int], features: Sequence[Feature]) -> Floats | None:
    """The same for numbers and categories, each in one column."""
    if len(positions) != len(features):  # groups
        return None
    out = np.empty((len(frame), len(features)))
    cell_at = frame.iat
    for j, (position, feature) in enumerate(zip(positions, features, strict=True)):
        codes = known_codes(feature) if isinstance(feature, Categorical) else None
        if isinstance(feature, Numeric) and (is_temporal(feature) or is_low_precision(feature)):
            return None
        for i in range(len(out)):
            cell: Any = cell_at[i, position]
            if codes is not None:
                code = codes.get(plain(cell)) if type(cell) in CATEGORY_TYPES else None
                if code is None:
                    return None
                out[i, j] = code
            elif type(cell) in NUMBER_TYPES and abs(cell) <= MAX_EXACT_INTEGER:  # no NaN
                out[i, j] = cell
            else:
                return None
    return out


def encode_column(column: pd.Series[Any], feature: Feature) -> Floats:
    """The column as float64, NaN where a cell is missing; an error names a cell that does not fit."""
    if isinstance(feature, Categorical):
        codes = codes_of(column, feature)
        return np.where(np.isnan(codes), float(feature.categories.index(MISSING)), codes) if feature.gaps else codes
    if pd.api.types.is_numeric_dtype(column):
        values = numbers(column)
    elif is_date(feature):
        values = epoch_days(column)
    else:
        values = _durations(column) if feature.dtype.startswith(DURATION_PREFIXES) else numbers(column)
    if is_low_precision(feature):
        values = shortest_decimals(values, feature.dtype)
    return np.where(np.isnan(values), feature.missing_code, values) if feature.gaps else values


def epoch_days(column: pd.Series[Any]) -> Floats:
    """Dates as days since 1970, NaN where they are missing. Text has to be ISO 8601, as 03/04/2024 is ambiguous."""
    text = pd.api.types.infer_dtype(column, skipna=True) == "string"
    parsed = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601" if text else None)
    _check_parsed(column, parsed, "a date", "write it as 2020-12-31")
    micro = parsed.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / DAY)


def _durations(column: pd.Series[Any]) -> Floats:
    """Durations in days, NaN where they are missing."""
    parsed = pd.to_timedelta(column, errors="coerce")
    _check_parsed(column, parsed, "a length of time", "write it as '3 days', or as a number of days")
    return np.asarray(parsed / pd.Timedelta(days=1), dtype=np.float64)


def _check_parsed(column: pd.Series[Any], parsed: pd.Series[Any], what: str, remedy: str) -> None:
    """Raises an error that names the first cell that could not be parsed."""
    wrong = (parsed.isna() & column.notna()).to_numpy()
    if wrong.any():
        i = int(wrong.argmax())
        row, cell = cell_repr(column.index[i]), str(column.iloc[i])
        raise GraceError(f"column {column.name!r}, row {row}: {cell!r} is not {what}; {remedy}")


def decode_column(values: Floats, feature: Feature, narrow: bool = False) -> Any:
    """The cells of encoded values; NaN becomes a missing cell. Values of a float16 or float32 column are returned in
    its dtype if their shortest decimals survive it, and with `narrow` in any case, rounded."""
    if isinstance(feature, Categorical):
        return _category_cells(values, feature)
    if feature.gaps:
        values = np.where(values == feature.missing_code, np.nan, values)
    if is_temporal(feature):
        return _temporal_cells(values, feature)
    if is_low_precision(feature):
        cells = to_dtype(values, feature.dtype)
        if not narrow and not bool((np.isnan(values) | (shortest(cells) == values)).all()):
            return _as_dtype(pd.Series(values), "float64" if feature.dtype in np.sctypeDict else "Float64")
        return _as_dtype(pd.Series(cells), feature.dtype)
    fits = (values == np.round(values)) & (np.abs(values) <= MAX_EXACT_INTEGER)
    if feature.dtype in np.sctypeDict and "float" not in feature.dtype:
        limits = np.iinfo(feature.dtype)
        if bool((fits & (values >= limits.min) & (values <= limits.max)).all()):
            return values.astype(feature.dtype)
    elif feature.dtype:
        whole = "float" in feature.dtype.lower() or bool((fits | np.isnan(values)).all())
        return _as_dtype(pd.Series(values), feature.dtype if whole else "Float64")
    return values.astype(np.int64) if feature.integer and bool(fits.all()) else values.copy()


def _temporal_cells(values: Floats, feature: Numeric) -> Any:
    """Dates and durations from days."""
    micro = np.where(np.isnan(values), np.datetime64("NaT", "us").astype(np.int64), np.round(values * DAY))
    if not is_date(feature):
        return _as_dtype(pd.Series(micro.astype(np.int64).astype("timedelta64[us]")), feature.dtype)
    dates = pd.Series(micro.astype(np.int64).astype("datetime64[us]"))
    if feature.dtype == PYTHON_DATE:
        return dates.dt.date.array
    aware = "," in feature.dtype
    return _as_dtype(dates.dt.tz_localize("UTC") if aware else dates, feature.dtype)


def _as_dtype(cells: pd.Series[Any], dtype: Any) -> Any:
    return cells.astype(dtype).array


def _category_cells(values: Floats, feature: Categorical) -> Any:
    finite = np.isfinite(values)
    missing = MISSING if feature.gaps else None
    are_intervals = feature.dtype == INTERVALS
    labels = [None if c == missing else interval(str(c)) if are_intervals else c for c in feature.categories]
    table = np.array([*labels, None], dtype=object)
    cells = table[np.where(finite, values, -1).astype(int)]
    if are_intervals or feature.dtype == "category":
        return pd.Categorical(cells, categories=[c for c in labels if c is not None], ordered=feature.ordered)
    if feature.dtype and (feature.dtype != "bool" or not pd.isna(cells).any()) and MISSING not in cells:
        return _as_dtype(pd.Series(cells, dtype=object), feature.dtype)
    if len(cells) and pd.isna(cells).all():  # pandas infers how it marks missing cells from those that are known
        known = table[[next(j for j, label in enumerate(labels) if label is not None)]]
        return pd.DataFrame({"cells": _objects(np.concatenate([cells, known]))})["cells"].array[:-1]
    return _objects(cells)


def _objects(cells: Any) -> Any:
    return pd.array(cells, dtype=object)


def date_text(cell: Value | Decimal) -> str:
    """A date in ISO format: 2020-12-31, with the time of day if it is not midnight."""
    stamp = pd.Timestamp(round(Decimal(str(cell)) * DAY) // 1000, unit="ms")
    if stamp == stamp.normalize():
        return str(stamp.date())
    if stamp.microsecond:
        return f"{stamp:%Y-%m-%d %H:%M:%S}.{stamp.microsecond // 1000:03d}"
    return str(stamp) if stamp.second else f"{stamp:%Y-%m-%d %H:%M}"


def fill_value(feature: Feature) -> float:
    """The encoded value that replaces a missing cell: the median of a number; the category "missing" if there is one,
    else the most frequent category."""
    if isinstance(feature, Numeric):
        return feature.typical or 0.0
    known = MISSING if MISSING in feature.categories else feature.typical
    return float(feature.categories.index(known)) if known in feature.categories else 0.0


def imputed(features: Sequence[Feature], rows: Floats) -> Floats:
    """Encoded rows with missing cells (NaN) filled in."""
    return np.where(np.isnan(rows), [fill_value(f) for f in features], rows)
