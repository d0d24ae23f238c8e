"""Columns as numbers and back, in the type they came in: whole and nullable numbers, booleans, ordered and other
categories, text and dates. A date is the number of days since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.features import MISSING, Categorical, Feature, Floats, Numeric, Value
from grace.frames import codes_of, numbers, said

MOST_EXACT = 2.0**53  # whole numbers up to here are exact in float64
MOST_CLASSES = 50  # different numbers that a target may have and be taken for classes
DATE = "datetime64"
DAY = 86_400_000_000  # microseconds


def feature_of(column: pd.Series[Any]) -> Feature:
    """The feature that the type of a column suggests."""
    name = str(column.name)
    column = column.infer_objects()
    if pd.api.types.is_datetime64_any_dtype(column):
        return Numeric(name=name, kind="date")
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return Numeric(name=name) if numeric else Categorical(name=name)


def is_number(column: pd.Series[Any]) -> bool:
    """Whether a target looks like a number to predict rather than a class: a number with very many values."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return numeric and column.nunique() > MOST_CLASSES


def dtype_of(column: pd.Series[Any], feature: Feature) -> str:
    """The type to give cells back in; empty where plain numbers or values will do."""
    dtype = column.dtype
    if isinstance(feature, Numeric):
        whole = isinstance(dtype, pd.api.extensions.ExtensionDtype) and not pd.api.types.is_bool_dtype(dtype)
        return str(dtype) if whole or pd.api.types.is_datetime64_any_dtype(dtype) else ""
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    return str(dtype) if pd.api.types.is_bool_dtype(dtype) or str(dtype) == "string" else ""


def with_gaps(column: pd.Series[Any], feature: Feature) -> Feature:
    """The feature with missing cells as a value of its own, if the column has any."""
    if not column.isna().any() or feature.gaps:
        return feature
    if isinstance(feature, Numeric):
        return replace(feature, gaps=True)
    known = MISSING in feature.categories
    categories = feature.categories if known else (*feature.categories, MISSING)
    never = feature.never if MISSING in feature.never else (*feature.never, MISSING)
    return replace(feature, gaps=True, categories=categories, never=never)


def is_date(feature: Feature) -> bool:
    return feature.dtype.startswith(DATE)


def plain_numbers(frame: pd.DataFrame, features: Sequence[Feature]) -> Floats | None:
    """All cells at once, where every column is one of plain numbers and nothing is missing or infinite; else None.
    Column by column costs milliseconds, which a single row should not wait for."""
    kinds = set(frame.dtypes)
    if not all(isinstance(t, np.dtype) and t.kind in "fiu" for t in kinds):
        return None
    if not all(isinstance(f, Numeric) for f in features):
        return None
    values = frame.to_numpy(dtype=np.float64, copy=True)  # pandas may hand out what must not be written to
    return values if np.isfinite(values).all() else None


def encode_column(column: pd.Series[Any], feature: Feature) -> Floats:
    """Cells as numbers, NaN where they are missing; an error names a cell that does not fit."""
    if isinstance(feature, Categorical):
        codes = codes_of(column, feature)
        return np.where(np.isnan(codes), float(feature.categories.index(MISSING)), codes) if feature.gaps else codes
    dates = is_date(feature) and not pd.api.types.is_numeric_dtype(column)
    values = days(column) if dates else numbers(column)
    return np.where(np.isnan(values), feature.gap, values) if feature.gaps else values


def days(column: pd.Series[Any]) -> Floats:
    """Dates as days since 1970, NaN where they are missing."""
    found = pd.to_datetime(column, errors="coerce", utc=True)
    wrong = (found.isna() & column.notna()).to_numpy()
    if wrong.any():
        i = int(wrong.argmax())
        raise GraceError(
            f"column {column.name!r}, row {said(column.index[i])}: {str(column.iloc[i])!r} is not a date; "
            "write it as 2020-12-31"
        )
    micro = found.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / DAY)


def decode_column(values: Floats, feature: Feature) -> Any:
    """The cells of encoded values; NaN becomes a missing cell."""
    if isinstance(feature, Categorical):
        return _categories(values, feature)
    if feature.gaps:
        values = np.where(values == feature.gap, np.nan, values)
    if is_date(feature):
        micro = np.where(np.isnan(values), np.datetime64("NaT", "us").astype(np.int64), np.round(values * DAY))
        dates = pd.Series(micro.astype(np.int64).astype("datetime64[us]"))
        aware = "," in feature.dtype
        return _typed(dates.dt.tz_localize("UTC") if aware else dates, feature.dtype)
    fits = (values == np.round(values)) & (np.abs(values) <= MOST_EXACT)
    if feature.dtype:
        whole = "float" in feature.dtype.lower() or bool((fits | np.isnan(values)).all())
        return _typed(pd.Series(values), feature.dtype if whole else "Float64")
    return values.astype(np.int64) if feature.integer and bool(fits.all()) else values.copy()


def _typed(cells: pd.Series[Any], dtype: Any) -> Any:
    return cells.astype(dtype).array


def _categories(values: Floats, feature: Categorical) -> Any:
    known = np.isfinite(values)
    hidden = MISSING if feature.gaps else None
    table = np.array([*(None if c == hidden else c for c in feature.categories), None], dtype=object)
    cells = table[np.where(known, values, -1).astype(int)]
    if feature.dtype == "category":
        return pd.Categorical(cells, categories=[c for c in feature.categories if c != hidden], ordered=feature.ordered)
    if feature.dtype and (feature.dtype != "bool" or not pd.isna(cells).any()) and MISSING not in cells:
        return _typed(pd.Series(cells, dtype=object), feature.dtype)
    return pd.array(cells, dtype=object)


def date_text(cell: Value | Decimal) -> str:
    """A date as people write it everywhere: 2020-12-31, with the time of day if it has one."""
    stamp = pd.Timestamp(round(Decimal(str(cell)) * DAY) // 1000, unit="ms")
    if stamp == stamp.normalize():
        return str(stamp.date())
    return str(stamp.round("s")) if stamp.second or stamp.microsecond else f"{stamp:%Y-%m-%d %H:%M}"
