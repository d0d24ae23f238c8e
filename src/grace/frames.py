"""Reading what users hand over: frames, columns and cells, with errors that name the culprit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.extras import pip_install
from grace.features import Categorical, Floats, plain


def as_frame(rows: Any) -> pd.DataFrame:
    """A DataFrame with text as column names, from any of the forms in which rows may come."""
    if isinstance(rows, pd.DataFrame):
        frame = rows
    elif isinstance(rows, pd.Series):
        frame = rows.to_frame().T
    elif isinstance(rows, Mapping) and rows and all(type(v) is float for v in rows.values()):
        frame = pd.DataFrame(np.array([list(rows.values())]), columns=list(rows))  # a column for each takes long
    elif isinstance(rows, Mapping):
        frame = pd.DataFrame([rows])
    elif isinstance(rows, Sequence) and not isinstance(rows, str) and all(isinstance(r, Mapping) for r in rows):
        if not rows:
            raise GraceError("there are no rows: the list is empty")
        frame = pd.DataFrame(list(rows))
    else:
        frame = _other_frame(rows)
    if not isinstance(frame.columns.dtype, pd.StringDtype) and not all(isinstance(c, str) for c in frame.columns):
        frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    return frame


def _other_frame(rows: Any) -> pd.DataFrame:
    """A frame of another library, such as polars, by way of narwhals."""
    try:
        import narwhals

        found = narwhals.from_native(rows, eager_only=True, allow_series=False)
    except (ImportError, TypeError):
        raise GraceError(
            f"rows must be a DataFrame, Series, dict or list of dicts, not {type(rows).__name__}"
        ) from None
    try:
        frame: pd.DataFrame = found.to_pandas()
        return frame
    except ImportError as missing:
        raise GraceError(
            f"a frame of {type(rows).__module__.split('.')[0]} needs pyarrow: {pip_install('parquet')}"
        ) from missing


def numbers(column: pd.Series[Any]) -> Floats:
    """A numeric column as float64, NaN where it is missing."""
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        coerced = pd.to_numeric(column.astype(object), errors="coerce")
        values = coerced.to_numpy(dtype=np.float64, na_value=np.nan)
        for i in np.flatnonzero(np.isnan(values) & column.notna().to_numpy()).tolist():
            raise GraceError(
                f"column {column.name!r}, row {said(column.index[i])}: {said(column.iloc[i])} is not a number; "
                "correct the cell, or declare the column Categorical in the schema"
            ) from None
    if np.isinf(values).any():
        i = int(np.isinf(values).argmax())
        row = said(column.index[i])
        raise GraceError(f"column {column.name!r}, row {row}: the value is infinite; correct the cell")
    return values


def codes_of(column: pd.Series[Any], feature: Categorical) -> Floats:
    """A categorical column as positions among the feature's categories, NaN where it is missing."""
    known = {category: float(i) for i, category in enumerate(feature.categories)}
    other = known.get(feature.other, -1.0)
    try:
        found = {value: known.get(plain(value), other) for value in column.dropna().unique()}
        codes = column.astype(object).map(found).to_numpy(dtype=np.float64, na_value=np.nan)
    except TypeError:
        raise GraceError(
            f"column {feature.name!r} holds a list or the like; a category must be a plain value"
        ) from None
    if (codes < 0).any():
        i = int((codes < 0).argmax())
        raise GraceError(
            f"column {feature.name!r}, row {said(column.index[i])}: unknown category {said(column.iloc[i])}; "
            f"known are {some(feature.categories)}"
        )
    return codes


def no_duplicates(names: Iterable[Any], what: str) -> None:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise GraceError(f"{what} {name!r} occurs twice; rename or drop one of them")
        seen.add(name)


def said(value: Any) -> str:
    """A label or cell as a person wrote it: 3, not np.int64(3)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def some(names: Iterable[Any], most: int = 8) -> str:
    """The first few of many names."""
    shown = [said(n) for n in names]
    return ", ".join(shown[:most]) + (f", ... ({len(shown)} in all)" if len(shown) > most else "")
