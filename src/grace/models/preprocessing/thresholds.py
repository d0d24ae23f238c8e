"""Where a monotone function of a number crosses a threshold, to the last bit of the number.

The function is only called, never inverted: a bisection over the doubles in their order ends at two neighbours, of
which one lies on either side, whatever the function does to its argument (conversions to single precision included).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats

Ints = npt.NDArray[np.int64]
Evaluate = Callable[[Floats], Any]

LARGEST = float(np.finfo(np.float64).max)
_SIGN = np.int64(np.iinfo(np.int64).min)


def threshold_in_original(
    evaluate: Evaluate,
    t: Any,
    strict: bool,
    *,
    rising: bool = True,
    low: float = -LARGEST,
    high: float = LARGEST,
) -> Floats:
    """For each threshold t, the smallest double x within [low, high] whose value goes right: is not below t, or is
    above t if the comparison `value < t` for going left is not `strict`, i.e. `value <= t`. Infinity if there is none.

    `evaluate` maps numbers (n,) to values (n,), each by itself, and never falls. If it never rises (`rising` is false),
    large numbers go left, and the result is the smallest one that does."""
    limits = np.atleast_1d(np.asarray(t, dtype=np.float64))

    def beyond(numbers: Floats) -> Bools:
        with np.errstate(all="ignore"):
            values = np.asarray(evaluate(numbers))
            left = values < limits if strict else values <= limits
        return ~left if rising else left

    found = first_where(beyond, np.full(len(limits), low), np.full(len(limits), high))
    return found.reshape(np.shape(t))


def first_where(holds: Callable[[Floats], Bools], low: Floats, high: Floats) -> Floats:
    """The smallest double within [low, high] for which a condition holds that holds for all larger ones; infinity if
    there is none. All searches (n,) go on together."""
    below, above = to_order(low), to_order(high)
    at_low, at_high = holds(low), holds(high)
    while True:
        middle = (below & above) + ((below ^ above) >> 1)  # their mean, rounded down; their sum may overflow
        if bool((middle == below).all()):
            break
        there = holds(from_order(middle))
        above = np.where(there, middle, above)
        below = np.where(there, below, middle)
    return np.where(at_low, low, np.where(at_high, from_order(above), np.inf))


def to_order(numbers: Floats) -> Ints:
    """Doubles as integers in the same order, neighbours as neighbours; both zeros are 0."""
    bits = np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, _SIGN - bits, bits)


def from_order(places: Ints) -> Floats:
    """The doubles of integers by `to_order`."""
    return np.ascontiguousarray(np.where(places < 0, _SIGN - places, places)).view(np.float64)
