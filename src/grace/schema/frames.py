"""Frames, columns and cells from user input, with errors that name the offending column and row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import MOST_NAMED, GraceError, pip_install, shortened
from grace.schema.caching import cached_on_first
from grace.schema.features import Categorical, Floats, Value, plain


def as_frame(rows: Any, names: Sequence[str] = ()) -> pd.DataFrame:
    """A DataFrame with str column names from any supported form of rows; `names` are the columns of an array."""
    if isinstance(rows, pd.DataFrame):
        frame = rows
    elif isinstance(rows, pd.Series):
        frame = rows.to_frame().T
    elif isinstance(rows, Mapping) and rows and all(type(v) is float for v in rows.values()):
        frame = pd.DataFrame(np.array([list(rows.values())]), columns=list(rows))  # faster than a column for each key
    elif isinstance(rows, Mapping):
        frame = pd.DataFrame([rows])
    elif isinstance(rows, Sequence) and not isinstance(rows, str) and all(isinstance(r, Mapping) for r in rows):
        if not rows:
            raise GraceError("there are no rows: the list is empty")
        frame = pd.DataFrame(list(rows))
    elif isinstance(rows, np.ndarray):
        frame = _array_frame(rows, names)
    else:
        frame = _other_frame(rows)
    if not isinstance(frame.columns.dtype, pd.StringDtype) and not all(isinstance(c, str) for c in frame.columns):
        frame = frame.set_axis([str(c) for c in frame.columns], axis=1)
    return frame


def _array_frame(rows: np.ndarray[Any, Any], names: Sequence[str]) -> pd.DataFrame:
    """The frame of an array of rows, or of a single row."""
    table = rows[None] if rows.ndim == 1 else rows
    if not names:
        raise GraceError(
            "rows must be a DataFrame, Series, dict or list of dicts, not ndarray, which has no column names"
        )
    if table.ndim != 2 or table.shape[1] != len(names):
        raise GraceError(
            f"an array of rows has one column for each of the model's {len(names)}, in their order "
            f"({join_first(names)}), not the shape {rows.shape}; give a DataFrame with names if it has others"
        )
    return pd.DataFrame(table, columns=list(names)).infer_objects()


def _other_frame(rows: Any) -> pd.DataFrame:
    """A frame of another library, such as polars, converted by narwhals."""
    try:
        import narwhals

        wrapped = narwhals.from_native(rows, eager_only=True, allow_series=False)
    except (ImportError, TypeError):
        raise GraceError(
            f"rows must be a DataFrame, Series, dict, list of dicts or array, not {type(rows).__name__}"
        ) from None
    try:
        frame: pd.DataFrame = wrapped.to_pandas()
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
                "column {column!r}, row {row}: {cell} is not a number; correct the cell, or declare the column "
                "Categorical in the schema",
                column=column.name,
                row=cell_repr(column.index[i]),
                cell=cell_repr(column.iloc[i]),
            ) from None
    if np.isinf(values).any():
        i = int(np.isinf(values).argmax())
        row = cell_repr(column.index[i])
        raise GraceError(f"column {column.name!r}, row {row}: the value is infinite; correct the cell")
    return values


def codes_of(column: pd.Series[Any], feature: Categorical) -> Floats:
    """A categorical column as positions among the feature's categories, NaN where it is missing."""
    known = known_codes(feature)
    other = known.get(feature.other, -1.0)
    try:
        code_of = {value: known.get(plain(value), other) for value in column.dropna().unique()}
        codes = column.astype(object).map(code_of).to_numpy(dtype=np.float64, na_value=np.nan)
    except TypeError:
        raise GraceError(
            f"column {feature.name!r} holds a list or the like; a category must be a plain value"
        ) from None
    if (codes < 0).any():
        i = int((codes < 0).argmax())
        raise GraceError(
            f"column {feature.name!r}, row {cell_repr(column.index[i])}: unknown category {cell_repr(column.iloc[i])}; "
            f"known are {join_first(feature.categories)}"
        )
    return codes


@cached_on_first
def known_codes(feature: Categorical) -> dict[Value, float]:
    """The position of each category."""
    return {category: float(i) for i, category in enumerate(feature.categories)}


def category_cells(cells: pd.Series[Any], feature: Categorical) -> Any:
    """Text cells as the categories they denote; numbers and booleans in any notation."""
    texts = {c for c in feature.categories if isinstance(c, str)}
    if len(texts) == len(feature.categories):
        stripped = {cell: cell.strip() for cell in cells.dropna().unique() if cell not in texts}
        renamed = {cell: text for cell, text in stripped.items() if text in texts and text != cell}
        return cells.astype(object).replace(renamed).array if renamed else cells.astype(object).array
    known: dict[Any, Any] = {str(c): c for c in feature.categories}
    known |= {text: c for c in feature.categories if isinstance(c, bool) for text in (str(c).lower(), str(c).upper())}
    numbers = {float(c): c for c in feature.categories if isinstance(c, int | float) and not isinstance(c, bool)}

    def parse(cell: str) -> Any:
        if cell in known:
            return known[cell]
        number = pd.to_numeric(cell, errors="coerce")
        return numbers.get(float(number), cell)

    parsed = {cell: parse(cell) for cell in cells.dropna().unique()}
    return cells.astype(object).map(parsed).array


def no_duplicates(names: Iterable[Any], what: str) -> None:
    """Raises an error if a name occurs twice."""
    names = list(names)
    if len(set(names)) == len(names):
        return
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise GraceError(f"{what} {name!r} occurs twice; rename or drop one of them")
        seen.add(name)


def cell_repr(value: Any) -> str:
    """The repr of a label or cell as a Python scalar: 3, not np.int64(3)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def join_first(names: Iterable[Any], most: int = MOST_NAMED) -> str:
    """The first `most` of many names, joined."""
    return shortened(cell_reprs(names), most=most)


def cell_reprs(names: Iterable[Any]) -> tuple[str, ...]:
    """The reprs of names, as an argument of GraceError, which joins and shortens them."""
    return tuple(cell_repr(n) for n in names)
