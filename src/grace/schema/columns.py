"""Columns as numbers and back, in the type they came in: whole and nullable numbers, booleans, ordered and other
categories, text, dates and lengths of time. A date is the number of days since 1970, a length of time one of days.
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
from grace.schema.features import MISSING, Categorical, Feature, Floats, Numeric, Value
from grace.schema.frames import cell_repr, codes_of, numbers

MAX_EXACT_INTEGER = 2.0**53  # whole numbers up to here are exact in float64
MAX_CLASSES = 50  # different numbers that a target may have and be taken for classes
MIN_DATE, MAX_DATE = -719_162, 2_900_000  # days since 1970 that are written as dates: the years 1 to 9909
FEW_ROWS = 4  # rows whose cells are looked at faster than the types of the columns
TIMESTAMP_PREFIXES = (
    "datetime64",
    "timestamp[",
)  # how the types of dates with a time of day begin: of pandas and Arrow
DATE_PREFIXES = (*TIMESTAMP_PREFIXES, "date")
DURATION_PREFIXES = ("timedelta64", "duration[")
TEMPORAL_PREFIXES = (*DATE_PREFIXES, *DURATION_PREFIXES)
PYTHON_DATE = "date"
INTERVALS = "interval"
CLOSED: dict[str, Any] = {"(]": "right", "[)": "left", "[]": "both", "()": "neither"}
LOW_PRECISION: dict[str, type[np.floating[Any]]] = {  # types that hold no more than a few digits of a number
    "float16": np.float16,
    "float32": np.float32,
    "Float32": np.float32,
    "halffloat[pyarrow]": np.float16,
    "float[pyarrow]": np.float32,
}
BLOCK = 1 << 15  # numbers worked on at a time: they stay near the processor
EXACT_TENS = 22  # powers of ten up to here are exact in float64, so that a quotient is the nearest number
DAY = 86_400_000_000  # microseconds


def feature_of(column: pd.Series[Any]) -> Feature:
    """The feature that the type of a column suggests."""
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
    """The type of a column; of Python's own dates and decimal numbers that of the cells."""
    inside = pd.api.types.infer_dtype(column, skipna=True) if column.dtype == object else ""
    known = {"date": PYTHON_DATE, "datetime": "datetime64", "datetime64": "datetime64", "decimal": "decimal"}
    known |= {"timedelta": "timedelta64", "timedelta64": "timedelta64"}
    return known.get(inside, str(column.dtype))


def is_number(column: pd.Series[Any]) -> bool:
    """Whether a target looks like a number to predict rather than a class: a number with very many values."""
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return numeric and column.nunique() > MAX_CLASSES


def dtype_of(column: pd.Series[Any], feature: Feature) -> str:
    """The type to give cells back in; empty where plain numbers or values will do."""
    dtype = column.dtype
    if isinstance(feature, Numeric):
        if _type(column).startswith(TEMPORAL_PREFIXES):
            return str(column.infer_objects().dtype) if _type(column) != PYTHON_DATE else PYTHON_DATE
        own = isinstance(dtype, pd.api.extensions.ExtensionDtype) and not pd.api.types.is_bool_dtype(dtype)
        small = isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype != np.int64
        return str(dtype) if own or small or str(dtype) in LOW_PRECISION else ""
    if isinstance(dtype, pd.CategoricalDtype):
        return INTERVALS if _are_intervals(dtype.categories) else "category"
    return str(dtype) if pd.api.types.is_bool_dtype(dtype) or str(dtype) == "string" else ""


def _are_intervals(categories: Any) -> bool:
    """Whether categories are ranges of numbers, as `pd.cut` makes them."""
    return isinstance(categories, pd.IntervalIndex) and pd.api.types.is_numeric_dtype(categories.left)


def interval(said: str) -> pd.Interval[Any]:
    """ "(0, 1.5]" as the range that it is."""
    low, high = (int(end) if end.lstrip("-").isdigit() else float(end) for end in said[1:-1].split(", "))
    return pd.Interval(low, high, closed=CLOSED[said[0] + said[-1]])


def observe_column(column: pd.Series[Any], feature: Feature | None, domain: Domain) -> Feature:
    """The feature with whatever was left open filled in from its column; None for one that the column suggests."""
    feature = feature_of(column) if feature is None else feature
    if not (isinstance(feature, Categorical) and feature.columns):
        feature = replace(feature, dtype=feature.dtype or dtype_of(column, feature))
    if isinstance(feature, Categorical):
        if column.notna().any():
            return feature.observe(column, domain)
    else:
        values = encode_column(column, feature)
        values = values[~np.isnan(values)]
        if len(values):
            return feature.observe(values, domain)
    raise GraceError(f"column {str(column.name)!r} has no values: every cell is missing; drop it")


def with_missing(column: pd.Series[Any], feature: Feature) -> Feature:
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
    return isinstance(feature, Numeric) and feature.dtype.startswith(DATE_PREFIXES)


def is_temporal(feature: Numeric) -> bool:
    """Whether it is a date or a length of time."""
    return feature.dtype.startswith(TEMPORAL_PREFIXES)


def is_low_precision(feature: Feature) -> bool:
    """Whether it is a number of half or single precision."""
    return isinstance(feature, Numeric) and feature.dtype in LOW_PRECISION


def plain_numbers(frame: pd.DataFrame, places: list[int], features: Sequence[Feature]) -> Floats | None:
    """All cells of some columns at once, where every one is of plain numbers and nothing is missing or infinite; else
    None. Column by column costs milliseconds, which a single row should not wait for."""
    if not all(isinstance(f, Numeric) and not is_temporal(f) for f in features):
        return None
    # copies: pandas may hand out what must not be written to
    if len(frame) <= FEW_ROWS:
        cells = frame.to_numpy()[:, places]
        mixed = cells.dtype == object and {type(cell) for cell in cells.flat} <= {float, int}
        if not mixed and cells.dtype.kind not in "fiu":
            return None
        values = cells.astype(np.float64)
    else:
        kinds = list(frame.dtypes)
        if not all(isinstance(t, np.dtype) and t.kind in "fiu" for t in {kinds[p] for p in places}):
            return None
        some = frame if places == list(range(len(kinds))) else frame.iloc[:, places]
        values = some.to_numpy(dtype=np.float64, copy=True)
    for dtype in {f.dtype for f in features} & LOW_PRECISION.keys():
        small = [j for j, f in enumerate(features) if f.dtype == dtype]
        values[:, small] = shortest_decimals(values[:, small], dtype)
    return values if np.isfinite(values).all() else None


def shortest_decimals(values: Floats, dtype: str) -> Floats:
    """Numbers as they are said in a column of half or single precision: 0.1 for 0.10000000149, which is what float32
    makes of it, whatever type the cells come in. What the column does not hold exactly is a decimal already."""
    cells = _to_dtype(values, dtype)
    return np.where(cells == values, shortest(cells), values)


def shortest(cells: npt.NDArray[np.floating[Any]]) -> Floats:
    """The shortest decimal that stands for each number of half or single precision: 0.1 for 0.10000000149, which is
    what float32 makes of it. Whole numbers stay as they are."""
    flat = cells.reshape(-1)
    out = flat.astype(np.float64)
    for start in range(0, len(flat), BLOCK):
        _shorten(out[start : start + BLOCK], flat[start : start + BLOCK])
    return out.reshape(cells.shape)


def _shorten(values: Floats, cells: npt.NDArray[np.floating[Any]]) -> None:
    left = np.flatnonzero(np.isfinite(values) & (values != np.round(values)))
    sure = np.finfo(cells.dtype).precision  # a decimal of so many digits survives; three more tell all numbers apart
    for digits in range(sure, sure + 4):
        if len(left) == 0:
            return
        exact = values[left]
        behind = digits - 1 - np.floor(np.log10(np.abs(exact))).astype(np.int64)
        power = 10.0 ** np.clip(behind, 0, EXACT_TENS)
        tried = np.round(exact * power) / power
        same = (tried.astype(cells.dtype) == cells[left]) & (behind <= EXACT_TENS)
        values[left[same]] = tried[same]
        left = left[~same]
    values[left] = cells[left].astype(str).astype(np.float64)  # numbers so small are few


def _to_dtype(values: Floats, dtype: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    with np.errstate(over="ignore"):
        return values.astype(LOW_PRECISION[dtype])


def encode_column(column: pd.Series[Any], feature: Feature) -> Floats:
    """Cells as numbers, NaN where they are missing; an error names a cell that does not fit."""
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
    """Dates as days since 1970, NaN where they are missing. Text has to be ISO: 03/04/2024 may be one of two days."""
    text = pd.api.types.infer_dtype(column, skipna=True) == "string"
    found = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601" if text else None)
    _check_parsed(column, found, "a date", "write it as 2020-12-31")
    micro = found.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / DAY)


def _durations(column: pd.Series[Any]) -> Floats:
    """Lengths of time in days, NaN where they are missing."""
    found = pd.to_timedelta(column, errors="coerce")
    _check_parsed(column, found, "a length of time", "write it as '3 days', or as a number of days")
    return np.asarray(found / pd.Timedelta(days=1), dtype=np.float64)


def _check_parsed(column: pd.Series[Any], found: pd.Series[Any], what: str, remedy: str) -> None:
    """An error for the first cell that is there but could not be read."""
    wrong = (found.isna() & column.notna()).to_numpy()
    if wrong.any():
        i = int(wrong.argmax())
        row, cell = cell_repr(column.index[i]), str(column.iloc[i])
        raise GraceError(f"column {column.name!r}, row {row}: {cell!r} is not {what}; {remedy}")


def decode_column(values: Floats, feature: Feature, narrow: bool = False) -> Any:
    """The cells of encoded values; NaN becomes a missing cell. Numbers of a column of half or single precision come in
    it where it says each of them, and with `narrow` where it rounds them."""
    if isinstance(feature, Categorical):
        return _category_cells(values, feature)
    if feature.gaps:
        values = np.where(values == feature.missing_code, np.nan, values)
    if is_temporal(feature):
        return _temporal_cells(values, feature)
    if is_low_precision(feature):
        cells = _to_dtype(values, feature.dtype)
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
    """Dates and lengths of time from days."""
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
    known = np.isfinite(values)
    hidden = MISSING if feature.gaps else None
    ranges = feature.dtype == INTERVALS
    known_as = [None if c == hidden else interval(str(c)) if ranges else c for c in feature.categories]
    table = np.array([*known_as, None], dtype=object)
    cells = table[np.where(known, values, -1).astype(int)]
    if ranges or feature.dtype == "category":
        return pd.Categorical(cells, categories=[c for c in known_as if c is not None], ordered=feature.ordered)
    if feature.dtype and (feature.dtype != "bool" or not pd.isna(cells).any()) and MISSING not in cells:
        return _as_dtype(pd.Series(cells, dtype=object), feature.dtype)
    return pd.array(cells, dtype=object)


def date_text(cell: Value | Decimal) -> str:
    """A date as people write it everywhere: 2020-12-31, with the time of day if it has one."""
    stamp = pd.Timestamp(round(Decimal(str(cell)) * DAY) // 1000, unit="ms")
    if stamp == stamp.normalize():
        return str(stamp.date())
    if stamp.microsecond:
        return f"{stamp:%Y-%m-%d %H:%M:%S}.{stamp.microsecond // 1000:03d}"
    return str(stamp) if stamp.second else f"{stamp:%Y-%m-%d %H:%M}"


def fill_value(feature: Feature) -> float:
    """What a missing cell of the feature becomes: the median, or "missing" where that is a category, else the commonest
    category."""
    if isinstance(feature, Numeric):
        return feature.typical or 0.0
    known = MISSING if MISSING in feature.categories else feature.typical
    return float(feature.categories.index(known)) if known in feature.categories else 0.0


def imputed(features: Sequence[Feature], rows: Floats) -> Floats:
    """Encoded rows with missing cells (NaN) filled in."""
    return np.where(np.isnan(rows), [fill_value(f) for f in features], rows)
