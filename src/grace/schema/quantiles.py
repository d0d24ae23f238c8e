"""The range of training values that a domain leaves, and the decimals they are given with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_DECIMALS = 10


def range_of(values: Floats, tail: float) -> tuple[float, float]:
    """The range without a tail at each end. A single value leaves nothing to change to, so that its range extends to
    the commonest other one, and of several to the nearest."""
    low, high = central(values, tail)
    if low == high:
        others, counts = np.unique(values[values != low], return_counts=True)
        if len(others):
            other = float(others[np.lexsort((np.abs(others - low), -counts))[0]])
            low, high = min(low, other), max(high, other)
    return low, high


def central(values: Floats, tail: float) -> tuple[float, float]:
    low = np.quantile(values, tail, method="lower")
    high = np.quantile(values, 1 - tail, method="higher")
    return float(low), float(high)


def decimals_of(distinct: Floats) -> int:
    """The fewest decimals that give every value exactly."""
    for decimals in range(MOST_DECIMALS):
        if np.all(np.round(distinct, decimals) == distinct):
            return decimals
    return MOST_DECIMALS
