"""Reading what users hand over: frames, columns and cells, with errors that name the culprit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.features import Categorical, Floats


def as_frame(rows: Any) -> pd.DataFrame:
    if isinstance(rows, pd.DataFrame):
        return rows
    if isinstance(rows, pd.Series):
        return rows.to_frame().T
    if isinstance(rows, Mapping):
        return pd.DataFrame([rows])
    if isinstance(rows, Sequence) and rows and all(isinstance(r, Mapping) for r in rows):
        return pd.DataFrame(list(rows))
    if isinstance(rows, Sequence) and not isinstance(rows, str) and not rows:
        raise GraceError("there are no rows: the list is empty")
    raise GraceError(f"rows must be a DataFrame, Series, dict or list of dicts, not {type(rows).__name__}")


def numbers(column: pd.Series[Any]) -> Floats:
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        for i in np.flatnonzero(np.isnan(values) & column.notna().to_numpy()).tolist():
            raise GraceError(
                f"column {column.name!r}, row {column.index[i]!r}: {column.iloc[i]!r} is not a number; "
                "correct the cell, or declare the column Categorical in the schema"
            ) from None
    if np.isinf(values).any():
        i = int(np.isinf(values).argmax())
        raise GraceError(f"column {column.name!r}, row {column.index[i]!r}: the value is infinite; correct the cell")
    return values


def codes_of(column: pd.Series[Any], feature: Categorical) -> Floats:
    cells = column.astype(object)
    codes = pd.Index(feature.categories, dtype=object).get_indexer(pd.Index(cells)).astype(np.float64)
    unknown = (codes < 0) & column.notna().to_numpy()
    if unknown.any():
        i = int(unknown.argmax())
        raise GraceError(
            f"column {feature.name!r}, row {column.index[i]!r}: unknown category {column.iloc[i]!r}; "
            f"known are {some(feature.categories)}"
        )
    codes[codes < 0] = np.nan
    return codes


def no_duplicates(names: Iterable[Any], what: str) -> None:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise GraceError(f"{what} {name!r} occurs twice; rename or drop one of them")
        seen.add(name)


def some(names: Iterable[Any], most: int = 8) -> str:
    shown = [repr(n) for n in names]
    return ", ".join(shown[:most]) + (f", ... ({len(shown)} in all)" if len(shown) > most else "")
