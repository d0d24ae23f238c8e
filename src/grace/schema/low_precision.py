"""Columns of half and single precision: their values as the shortest decimals that round to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Feature, Floats, Numeric
from grace.schema.large_tables import is_large, on_threads

LOW_PRECISION: dict[str, type[np.floating[Any]]] = {
    "float16": np.float16,
    "float32": np.float32,
    "Float32": np.float32,
    "halffloat[pyarrow]": np.float16,
    "float[pyarrow]": np.float32,
}
BLOCK = 1 << 15  # values processed at a time, to stay in the CPU cache
EXACT_TENS = 22  # 10**22 is the largest power of ten that is exact in float64


def is_low_precision(feature: Feature) -> bool:
    """Whether the feature is a float16 or float32 column."""
    return isinstance(feature, Numeric) and feature.dtype in LOW_PRECISION


def with_shortest_decimals(values: Floats, features: Sequence[Feature]) -> Floats:
    """Encoded rows, changed in place: the `shortest_decimals` of float16 and float32 columns."""

    def shorten(columns: list[int]) -> None:
        values[:, columns] = shortest_decimals(values[:, columns], features[columns[0]].dtype)

    for dtype in {f.dtype for f in features} & LOW_PRECISION.keys():
        columns = [j for j, f in enumerate(features) if f.dtype == dtype]
        on_threads(shorten, [[j] for j in columns] if is_large(*values.shape) else [columns])
    return values


def shortest_decimals(values: Floats, dtype: str) -> Floats:
    """Values of a float16 or float32 column as the shortest decimals that round to them: 0.1 for 0.10000000149. Values
    that the dtype cannot represent are kept."""
    cells = to_dtype(values, dtype)
    return np.where(cells == values, shortest(cells), values)


def shortest(cells: npt.NDArray[np.floating[Any]]) -> Floats:
    """For each float16 or float32 number, the shortest decimal that rounds to it, as float64; integers stay."""
    flat = cells.reshape(-1)
    out = flat.astype(np.float64)
    for start in range(0, len(flat), BLOCK):
        _shorten(out[start : start + BLOCK], flat[start : start + BLOCK])
    return out.reshape(cells.shape)


def _shorten(values: Floats, cells: npt.NDArray[np.floating[Any]]) -> None:
    """In-place `shortest` for one block."""
    pending = np.flatnonzero(np.isfinite(values) & (values != np.round(values)))
    precision = np.finfo(cells.dtype).precision  # digits that survive a round trip; three more identify any number
    for digits in range(precision, precision + 4):
        if len(pending) == 0:
            return
        exact = values[pending]
        decimals = digits - 1 - np.floor(np.log10(np.abs(exact))).astype(np.int64)
        power = 10.0 ** np.clip(decimals, 0, EXACT_TENS)
        candidate = np.round(exact * power) / power
        same = (candidate.astype(cells.dtype) == cells[pending]) & (decimals <= EXACT_TENS)
        values[pending[same]] = candidate[same]
        pending = pending[~same]
    values[pending] = cells[pending].astype(str).astype(np.float64)  # slow, but few numbers are this small


def to_dtype(values: Floats, dtype: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """Values in the precision of a column."""
    with np.errstate(over="ignore"):
        return values.astype(LOW_PRECISION[dtype])
