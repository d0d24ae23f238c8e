"""Decimal numbers of so many digits, as whole steps that can be counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

LARGEST = 308
WHOLE = 1e-7  # what is whole but for so much is whole


@dataclass(frozen=True)
class Decimals:
    """Steps of 10**-digits, one size per value; digits below 0 are tens, hundreds, ..."""

    up: Tensor  # 10**digits, or 1 where that is less
    down: Tensor  # 10**-digits, or 1 where that is less

    @classmethod
    def of(cls, digits: Tensor) -> Decimals:
        powers, whole = tens(digits.device), digits.long()
        return cls(powers.take(whole.clamp_min(0)), powers.take((-whole).clamp_min(0)))

    def select(self, index: Tensor) -> Decimals:
        return Decimals(self.up[index], self.down[index])

    def values(self, steps: Tensor) -> Tensor:
        """The double nearest to each decimal number."""
        return steps / self.up * self.down

    def steps(self, values: Tensor) -> Tensor:
        """How many steps make each value, with what is whole but for rounding made whole."""
        steps = values * self.up / self.down
        whole = steps.round()
        return torch.where((steps - whole).abs() < WHOLE * whole.abs().clamp_min(1), whole, steps)


@cache
def tens(device: torch.device) -> Tensor:
    """The powers of ten, each the nearest double."""
    return torch.tensor([float(f"1e{n}") for n in range(LARGEST + 1)], dtype=torch.float64, device=device)
