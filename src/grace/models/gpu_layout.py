"""A ReLU network laid out for Triton kernels: layers padded to powers of two, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import pad

WIDEST = 256  # units of a layer that a kernel has room for
LARGEST = 8192  # and weights between two hidden layers
MOST_CLASSES = 64
MOST_LAYERS = 30  # which units are on is kept in the bits of a whole number
NARROWEST = 16  # what Triton multiplies at least


@dataclass(frozen=True)
class GpuLayout:
    """The first hidden layer has A units with the padding, the others B; with one layer, B is A."""

    first: Tensor  # (features, A), the weights of numbers
    bias: Tensor  # (A,)
    tables: Tensor  # (entries + 1, A), of all categories, one table after another; the last entry is 0
    begins: Tensor  # (features,) where the table of each feature begins, -1 for numbers
    second: Tensor  # (B, A)
    second_turned: Tensor  # (A, B)
    second_bias: Tensor
    middle: Tensor  # (layers, B, B)
    middle_turned: Tensor
    middle_bias: Tensor
    last: Tensor  # (classes, B), classes padded
    last_bias: Tensor  # -inf where there is no class
    classes: int
    layers: int  # that are hidden
    categorical: tuple[int, ...]

    @classmethod
    def of(
        cls, weight: Tensor, bias: Tensor, tables: Mapping[int, Tensor], later: Sequence[tuple[Tensor, Tensor]]
    ) -> GpuLayout | None:
        """None if the network is too large."""
        *hidden, (last, last_bias) = later
        a = power_of_two(len(bias))
        b = power_of_two(max((len(own) for _, own in hidden), default=a))
        between = [a * b] * len(hidden[:1]) + [b * b] * len(hidden[1:])
        if max(a, b) > WIDEST or max(between, default=0) > LARGEST or len(hidden) > MOST_LAYERS:
            return None
        if len(last) > MOST_CLASSES:
            return None
        begins = torch.full((weight.shape[1],), -1, dtype=torch.int64, device=weight.device)
        entries = [bias.new_zeros(1, len(bias))]
        for j, table in tables.items():
            begins[j] = sum(len(t) for t in entries) - 1
            entries.insert(-1, table)
        second, second_bias = hidden[0] if hidden else (bias.new_zeros(1, 1), bias.new_zeros(1))
        middle = [padded(w, b, b) for w, _ in hidden[1:]] or [bias.new_zeros(b, b)]
        middle_bias = [padded(own, b) for _, own in hidden[1:]] or [bias.new_zeros(b)]
        classes = power_of_two(len(last), least=2)
        return cls(
            padded(weight.T, weight.shape[1], a),
            padded(bias, a),
            padded(torch.cat(entries), sum(map(len, entries)), a),
            begins,
            padded(second, b, a),
            padded(second.T, a, b),
            padded(second_bias, b),
            torch.stack(middle),
            torch.stack(middle).mT.contiguous(),
            torch.stack(middle_bias),
            padded(last, classes, b),
            pad(last_bias, (0, classes - len(last)), value=-torch.inf),
            len(last),
            len(hidden) + 1,
            tuple(tables),
        )

    @property
    def units(self) -> tuple[int, int]:
        """A and B."""
        return self.first.shape[1], self.last.shape[1]

    @property
    def largest(self) -> int:
        """Weights between two hidden layers, at most."""
        a, b = self.units
        return 0 if self.layers == 1 else a * b if self.layers == 2 else b * max(a, b)

    def start(self, rows: Tensor) -> Tensor:
        """The first layer before its ReLU (n, A)."""
        z = torch.addmm(self.bias, rows, self.first)
        for j in self.categorical:
            z = z + self.tables[self.begins[j] + rows[:, j].long()]
        return z


def padded(values: Tensor, *shape: int) -> Tensor:
    """Zeros added at the ends."""
    sides = [side for size, to in zip(reversed(values.shape), reversed(shape), strict=True) for side in (0, to - size)]
    return pad(values, sides).contiguous()


def power_of_two(size: int, least: int = NARROWEST) -> int:
    return max(least, 1 << (size - 1).bit_length())


def usable(device: torch.device) -> bool:
    """Whether there are kernels for a device: for GPUs, where Triton is installed."""
    return device.type == "cuda" and find_spec("triton") is not None
