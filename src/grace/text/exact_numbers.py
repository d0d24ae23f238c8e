"""Exact differences of many numbers at once: what `precision.difference` and `precision.value_pair` state in the exact
style, wherever integer arithmetic suffices for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats
from grace.schema.formatting import many_digits
from grace.text.precision import DIGITS

MAX_DECIMALS = 9
LARGEST = 10**15
"""A decimal with fewer digits is the only one of that length that rounds to its float, and so the shortest."""
POWERS = 10 ** np.arange(16, dtype=np.int64)
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scaled:
    """Numbers as `digits` / 10**`decimals`, with as few decimals as possible, where that is `known`."""

    digits: Integers
    decimals: Integers
    known: Bools

    @classmethod
    def of(cls, values: Floats) -> Scaled:
        """The shortest decimals of floats; unknown if they are long, and for -0.0."""
        digits, decimals = np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=np.int64)
        known = np.zeros(len(values), dtype=bool)
        left = np.flatnonzero((np.abs(values) < LARGEST) & ~((values == 0) & np.signbit(values)))
        for count in range(MAX_DECIMALS + 1):
            whole = np.rint(values[left] * 10.0**count)
            same = (np.abs(whole) < LARGEST) & (whole / 10.0**count == values[left])
            found = left[same]
            digits[found], decimals[found], known[found] = whole[same].astype(np.int64), count, True
            left = left[~same]
        return cls(digits, decimals, known)

    def difference(self, other: Scaled) -> Scaled:
        """The absolute differences."""
        decimals = np.maximum(self.decimals, other.decimals)
        known = self.known & other.known
        for part in (self, other):
            known &= np.abs(part.digits * 10.0 ** (decimals - part.decimals)) < LARGEST
        mine, theirs = (np.where(known, p.digits, 0) * POWERS[decimals - p.decimals] for p in (self, other))
        size = np.abs(mine - theirs)
        for _ in range(MAX_DECIMALS):
            ends = (decimals > 0) & (size % 10 == 0)
            if not ends.any():
                break
            size, decimals = np.where(ends, size // 10, size), decimals - ends
        return Scaled(size, decimals, known & (size < LARGEST))

    def significant(self) -> Integers:
        """The number of digits of fractions; 0 for whole numbers. As `precision.n_digits`."""
        return np.where(self.decimals > 0, np.searchsorted(POWERS, np.abs(self.digits), side="right"), 0)

    def where(self, chosen: Bools, other: Scaled) -> Scaled:
        """These numbers where `chosen`, else the others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Scaled(*(np.where(chosen, mine, theirs) for mine, theirs in pairs))

    def at(self, places: npt.NDArray[np.intp]) -> Scaled:
        """Some of the numbers."""
        return Scaled(*(part[places] for part in vars(self).values()))

    @property
    def are_one(self) -> Bools:
        """Which numbers are 1."""
        return np.asarray((self.digits == 1) & (self.decimals == 0))

    @property
    def are_minus_one(self) -> Bools:
        """Which numbers are -1."""
        return np.asarray((self.digits == -1) & (self.decimals == 0))

    def texts(self, marks: tuple[str, str]) -> list[str]:
        """The numbers in the digits of a language; arbitrary text for those that are not known."""
        fractions = (self.digits / 10.0**self.decimals).tolist()
        numbers: list[Any] = [
            whole if places == 0 else fraction
            for whole, places, fraction in zip(self.digits.tolist(), self.decimals.tolist(), fractions, strict=True)
        ]
        return many_digits(numbers, *marks)


def is_short(size: Scaled, new: Scaled, digits: Integers) -> Bools:
    """Whether a difference has no more digits than the new value, or than its feature (`digits`); as
    `precision.short_difference`."""
    decimals = (size.decimals > np.maximum(digits, 0)) & (size.decimals > new.decimals)
    length = size.significant()
    return np.asarray(~decimals & ~((length > DIGITS) & (length > new.significant())))


def stays_whole(old: Scaled, new: Scaled) -> Bools:
    """Whether a pair of values states the old one in all its digits; see `precision.exact_pair`."""
    return np.asarray((old.decimals <= new.decimals) | (np.abs(old.digits) < 10**DIGITS))
