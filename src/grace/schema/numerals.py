"""Numbers as a person writes them: the shortest decimal, in plain digits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Floats, Value

MINUS = "\N{MINUS SIGN}"
THOUSANDS = 10_000  # numbers from here on are grouped by three digits
BLOCK = 1 << 15  # numbers worked on at a time: they stay near the processor
EXACT_TENS = 22  # powers of ten up to here are exact in float64, so that a quotient is the nearest number


def decimal(cell: Value) -> Decimal:
    """The shortest decimal number that stands for the cell."""
    return Decimal(repr(float(cell))).normalize()


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


def places(size: Decimal) -> int:
    """Decimals needed to write the number."""
    exponent = size.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def digits(size: Decimal, group: str, point: str) -> str:
    """In plain digits, never 1e-05, with a language's own marks."""
    plain = f"{size.normalize():,f}" if abs(size) >= THOUSANDS else f"{size.normalize():f}"
    return plain.translate({ord(","): group, ord("."): point, ord("-"): MINUS})
