"""Decimal numbers of so many digits, as whole steps that can be counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.arrays import library, own
from grace.space import Space

LARGEST = 308
WHOLE = 1e-7  # what is whole but for so much is whole


@dataclass(frozen=True)
class Decimals:
    """Steps of 10**-digits, one size per value; digits below 0 are tens, hundreds, ... In torch or numpy, as the digits
    are."""

    up: Any  # 10**digits, or 1 where that is less
    down: Any  # 10**-digits, or 1 where that is less

    @classmethod
    def of(cls, digits: Any) -> Decimals:
        powers = tens(digits.device) if isinstance(digits, Tensor) else own(tens(torch.device("cpu")))
        whole = digits.long() if isinstance(digits, Tensor) else digits
        return cls(powers[whole * (whole > 0)], powers[-whole * (whole < 0)])

    def select(self, index: Any) -> Decimals:
        return Decimals(self.up[index], self.down[index])

    def values(self, steps: Any) -> Any:
        """The double nearest to each decimal number."""
        return steps / self.up * self.down

    @np.errstate(all="ignore")  # of an infinite value
    def steps(self, values: Any) -> Any:
        """How many steps make each value, with what is whole but for rounding made whole."""
        steps = values * self.up / self.down
        whole = steps.round()
        apart = abs(steps - whole)
        return library(steps).where((apart < WHOLE) | (apart < WHOLE * abs(whole)), whole, steps)


def digits_of(space: Space, columns: Tensor, more: Tensor) -> Any:
    """The digits of some features (n, c) when so many more (n,) are allowed; a whole number never gets decimals."""
    features = own(columns)
    digits = own(space.digits)[features] + own(more)[:, None]
    return library(digits).where(own(space.is_integer)[features] & (digits > 0), 0, digits)


@cache
def tens(device: torch.device) -> Tensor:
    """The powers of ten, each the nearest double."""
    return torch.tensor([float(f"1e{n}") for n in range(LARGEST + 1)], dtype=torch.float64, device=device)
