"""Decimal numbers of so many digits, as whole steps that can be counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.problem.numpy_or_torch import library, to_native
from grace.problem.space import Space

LARGEST = 308
MOST_STEPS = 15  # decimal digits of the largest number of steps


@dataclass(frozen=True)
class Decimals:
    """Steps of 10**-digits, one size per value; digits below 0 are tens, hundreds, ... In torch or numpy, as the digits
    are."""

    up: Any  # 10**digits, or 1 where that is less
    down: Any  # 10**-digits, or 1 where that is less

    @classmethod
    def of(cls, digits: Any) -> Decimals:
        powers = tens(digits.device) if isinstance(digits, Tensor) else to_native(tens(torch.device("cpu")))
        whole = digits.long() if isinstance(digits, Tensor) else digits
        return cls(powers[whole * (whole > 0)], powers[-whole * (whole < 0)])

    def select(self, index: Any) -> Decimals:
        return Decimals(self.up[index], self.down[index])

    def values(self, steps: Any) -> Any:
        """The double nearest to each decimal number."""
        return steps / self.up * self.down

    @np.errstate(all="ignore")  # of an infinite value
    def nearest(self, values: Any) -> Any:
        """The number of steps nearest to each value."""
        return (values * self.up / self.down).round()

    @np.errstate(all="ignore")
    def floor(self, values: Any) -> Any:
        """The most steps whose decimal number is not above each value. The product is off by less than a step, so the
        neighbours are compared as the doubles that they are."""
        lib, steps = library(values), self.nearest(values)
        steps = lib.where(self.values(steps + 1) <= values, steps + 1, steps)
        return lib.where(self.values(steps) > values, steps - 1, steps)

    def ceil(self, values: Any) -> Any:
        """The fewest steps whose decimal number is not below each value."""
        return -self.floor(-values)


def digits_of(space: Space, columns: Tensor, more: Tensor, *values: Any) -> Any:
    """The digits of some features (n, c) when so many more (n,) are allowed; a whole number never gets decimals, and no
    number more than MOST_STEPS steps, beyond which doubles are too coarse to count them: `values` (n, c) are to be
    written with them."""
    features = to_native(columns)
    digits = to_native(space.digits)[features] + to_native(more)[:, None]
    lib = library(digits)
    digits = lib.where(to_native(space.is_integer)[features] & (digits > 0), 0, digits)
    stacked = abs(lib.stack(list(values)))
    size = lib.where(lib.isfinite(stacked), stacked, 0.0)
    largest = size.amax(dim=0) if isinstance(size, Tensor) else size.max(axis=0)
    places = MOST_STEPS - lib.ceil(lib.log10(lib.where(largest > 1, largest, 1.0)))
    return lib.minimum(digits, places.to(digits.dtype) if isinstance(places, Tensor) else places.astype(digits.dtype))


@cache
def tens(device: torch.device) -> Tensor:
    """The powers of ten, each the nearest double."""
    return torch.tensor([float(f"1e{n}") for n in range(LARGEST + 1)], dtype=torch.float64, device=device)
