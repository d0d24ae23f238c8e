"""The domain of a numeric feature: the range of its training values, with or without their tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grace.errors import GraceError

if TYPE_CHECKING:
    from grace.schema.features import Floats

Domain = str | float
"""'minmax', 'central', or the share of the training values that the range holds."""

MAX_DECIMALS = 10


def tail_of(domain: Domain) -> float:
    """The share of the training values that a domain cuts off at each end."""
    if domain == "central":
        return 0.01
    if domain == "minmax":
        return 0.0
    if isinstance(domain, int | float) and not isinstance(domain, bool) and 0 < domain <= 1:
        return (1 - float(domain)) / 2
    raise GraceError(f"domain={domain!r} is unknown: use 'central' (the middle 98 %), 'minmax' or a share such as 0.9")


def range_of(values: Floats, tail: float) -> tuple[float, float]:
    """The range of the values without a tail at each end. If that is a single value, it extends to the most frequent
    other one, the nearest of several."""
    low, high = central(values, tail)
    if low == high:
        others, counts = np.unique(values[values != low], return_counts=True)
        if len(others):
            other = float(others[np.lexsort((np.abs(others - low), -counts))[0]])
            low, high = min(low, other), max(high, other)
    return low, high


def central(values: Floats, tail: float) -> tuple[float, float]:
    """The lower and upper quantile that leave out a share `tail` each."""
    low = np.quantile(values, tail, method="lower")
    high = np.quantile(values, 1 - tail, method="higher")
    return float(low), float(high)


def decimals_of(distinct: Floats) -> int:
    """The number of decimals in which all values are exact, at most MAX_DECIMALS."""
    for decimals in range(MAX_DECIMALS):
        if np.all(np.round(distinct, decimals) == distinct):
            return decimals
    return MAX_DECIMALS
