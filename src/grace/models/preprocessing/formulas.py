"""Monotone functions of numbers in closed form, with their inverses, and bins: what preprocessing makes of a number
before a layer gets it. They are torch operations, so that gradients pass through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Operation = Callable[[Tensor], Tensor]

THRESHOLD = 1e-7  # of QuantileTransformer: how far from 0 and 1 quantiles of the normal distribution are taken
SMALL = float(np.finfo(np.float64).tiny)


class Formula(ABC):
    """A function of numbers that never falls, or if a factor in it is negative, never rises."""

    @abstractmethod
    def __call__(self, values: Tensor) -> Tensor: ...

    @abstractmethod
    def inverse(self, values: Tensor) -> Tensor:
        """Numbers with these values; where the function jumps over a value, the number at which it does."""


@dataclass(frozen=True)
class Affine(Formula):
    """factor * x + offset."""

    factor: float
    offset: float

    def __call__(self, values: Tensor) -> Tensor:
        return values * self.factor + self.offset

    def inverse(self, values: Tensor) -> Tensor:
        return (values - self.offset) / self.factor


@dataclass(frozen=True)
class Named(Formula):
    """A function of numpy by its name."""

    name: str

    def __call__(self, values: Tensor) -> Tensor:
        return NAMED[self.name][0](values)

    def inverse(self, values: Tensor) -> Tensor:
        return NAMED[self.name][1](values)


def _cube_root(values: Tensor) -> Tensor:
    return values.sign() * values.abs().clamp_min(SMALL).pow(1 / 3)


NAMED: dict[str, tuple[Operation, Operation]] = {
    "log": (torch.log, torch.exp),
    "log2": (torch.log2, torch.exp2),
    "log10": (torch.log10, lambda values: 10.0**values),
    "log1p": (torch.log1p, torch.expm1),
    "sqrt": (torch.sqrt, torch.square),
    "exp": (torch.exp, torch.log),
    "expm1": (torch.expm1, torch.log1p),
    "cbrt": (_cube_root, lambda values: values**3),
    "arcsinh": (torch.asinh, torch.sinh),
}
"""Functions and their inverses."""


def _power(logs: Tensor, power: float) -> Tensor:
    """(x ** power - 1) / power of numbers with these logarithms; the logarithms for the power 0."""
    return logs if power == 0 else torch.expm1(power * logs) / power


def _logs(values: Tensor, power: float) -> Tensor:
    """The inverse of `_power`."""
    return values if power == 0 else torch.log1p(power * values) / power


@dataclass(frozen=True)
class BoxCox(Formula):
    """A power of positive numbers."""

    power: float

    def __call__(self, values: Tensor) -> Tensor:
        return _power(torch.log(values), self.power)

    def inverse(self, values: Tensor) -> Tensor:
        return torch.exp(_logs(values, self.power))


@dataclass(frozen=True)
class YeoJohnson(Formula):
    """A power of x + 1 where x is positive, and its mirror image with 2 - power where it is negative."""

    power: float

    def __call__(self, values: Tensor) -> Tensor:
        up = _power(torch.log1p(values.clamp_min(0)), self.power)
        down = _power(torch.log1p(-values.clamp_max(0)), 2 - self.power)
        return torch.where(values >= 0, up, -down)

    def inverse(self, values: Tensor) -> Tensor:
        up = torch.expm1(_logs(values.clamp_min(0), self.power))
        down = torch.expm1(_logs(-values.clamp_max(0), 2 - self.power))
        return torch.where(values >= 0, up, -down)


@dataclass(frozen=True)
class Clip(Formula):
    """Numbers beyond two limits become the limits."""

    low: float
    high: float

    def __call__(self, values: Tensor) -> Tensor:
        return values.clamp(self.low, self.high)

    def inverse(self, values: Tensor) -> Tensor:
        return self(values)


@dataclass(frozen=True)
class Quantiles(Formula):
    """The share of numbers below, by linear interpolation between quantiles; in the middle where several are equal.
    With `normal`, the quantile of the normal distribution that belongs to the share."""

    knots: tuple[float, ...]
    shares: tuple[float, ...]
    normal: bool

    def __call__(self, values: Tensor) -> Tensor:
        knots, shares, slopes = self._lines(values)
        inside, last = values.clamp(self.knots[0], self.knots[-1]), len(self.knots) - 1
        fixed = inside.detach().contiguous()
        after = (torch.searchsorted(knots, fixed, right=True) - 1).clamp(0, last)
        before = torch.searchsorted(knots, fixed).clamp(0, last)
        rising = shares[after] + slopes[after + 1] * (inside - knots[after])
        falling = shares[before] + slopes[before] * (inside - knots[before])
        out = 0.5 * (rising + falling)
        margin = THRESHOLD if self.normal else 0.0
        at_low = values - margin < self.knots[0] if self.normal else values <= self.knots[0]
        at_high = values + margin > self.knots[-1] if self.normal else values >= self.knots[-1]
        out = torch.where(at_high, 1.0, out)
        out = torch.where(at_low, 0.0, out)
        if not self.normal:
            return out
        tail = THRESHOLD - np.spacing(1)
        least, most = torch.special.ndtri(out.new_tensor([tail, 1 - tail])).tolist()
        quantiles: Tensor = torch.special.ndtri(out.clamp(SMALL, 1 - np.spacing(0.5)))
        return quantiles.clamp(least, most)

    def inverse(self, values: Tensor) -> Tensor:
        shares = torch.special.ndtr(values) if self.normal else values
        found = np.interp(shares.detach().cpu().numpy(), self.shares, self.knots)
        return torch.as_tensor(found, dtype=values.dtype, device=values.device)

    def _lines(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The knots, the shares there, and the slope before each knot and behind the last one."""
        knots = torch.as_tensor(self.knots, dtype=torch.float64, device=like.device)
        shares = torch.as_tensor(self.shares, dtype=torch.float64, device=like.device)
        wide, none = knots.diff(), knots.new_zeros(1)
        slopes = torch.where(wide > 0, shares.diff() / wide.clamp_min(SMALL), 0.0)
        return knots, shares, torch.cat([none, slopes, none])


@dataclass(frozen=True)
class Composition(Formula):
    """Functions one after another."""

    parts: tuple[Formula, ...]

    def __call__(self, values: Tensor) -> Tensor:
        for part in self.parts:
            values = part(values)
        return values

    def inverse(self, values: Tensor) -> Tensor:
        for part in reversed(self.parts):
            values = part.inverse(values)
        return values

    def then(self, *parts: Formula) -> Composition:
        """The function, and others of its values."""
        return Composition((*self.parts, *parts))

    @property
    def without_last_lines(self) -> tuple[Composition, float, float]:
        """The function up to its last part that is not affine, and the factor and offset of all after it."""
        factor, offset, parts = 1.0, 0.0, list(self.parts)
        while parts and isinstance(last := parts[-1], Affine):
            factor, offset = factor * last.factor, factor * last.offset + offset
            parts.pop()
        return Composition(tuple(parts)), factor, offset


@dataclass(frozen=True)
class Bins:
    """Which of the intervals between rising edges a number lies in, the edge being part of the one above it. Of a list
    of whole numbers, each is in an interval of its own."""

    edges: tuple[float, ...]
    lists_numbers: bool = False

    @classmethod
    def of_whole_numbers(cls, first: int, last: int) -> Bins:
        """The position of each whole number in such a list."""
        return cls(tuple(map(float, range(first + 1, last + 1))), lists_numbers=True)

    def __call__(self, values: Tensor) -> Tensor:
        edges = torch.as_tensor(self.edges, dtype=torch.float64, device=values.device)
        return torch.bucketize(values.detach().contiguous(), edges, right=True).to(values.dtype)

    def nearest(self, code: Tensor, own: Tensor) -> Tensor:
        """The number in each bin that lies nearest to another number."""
        edges = np.array([-np.inf, *self.edges, np.inf])
        place, x = code.long().cpu().numpy(), own.cpu().numpy()
        last: Any = np.nextafter(edges[place + 1], -np.inf)
        return torch.as_tensor(np.clip(x, edges[place], last), device=own.device)
