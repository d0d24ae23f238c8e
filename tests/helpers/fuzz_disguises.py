"""Modules whose layers do not say what they compute: the forward is another one, or something listens in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

Make = Callable[..., nn.Sequential]


class Shifting(nn.Sequential):
    """A Sequential with a forward of its own."""

    shift: Tensor

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows + self.shift)


class Doubling(nn.Linear):
    """A Linear with a forward of its own."""

    def forward(self, rows: Tensor) -> Tensor:
        out = super().forward(rows)
        return out + out.sin()


class Buffered(nn.Linear):
    """A Linear that adds a buffer."""

    extra: Tensor

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__(inputs, outputs, dtype=dtype)
        self.register_buffer("extra", torch.linspace(-1, 1, outputs, dtype=dtype))

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) + self.extra


class Leaky(nn.ReLU):
    """A ReLU that is none."""

    def forward(self, rows: Tensor) -> Tensor:
        return torch.where(rows > 0, rows, -0.8 * rows)


class Halved(nn.Module):
    """A parametrization: the weights in use are not those that were set."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight * torch.linspace(-1, 1, len(weight), dtype=weight.dtype)[:, None]


def shifting(make: Make, rows: Tensor) -> nn.Module:
    module = make(Shifting, nn.Linear)
    module.register_buffer("shift", 1.5 * rows.std(dim=0))
    return module


def doubling(make: Make, rows: Tensor) -> nn.Module:
    return make(nn.Sequential, Doubling)


def buffered(make: Make, rows: Tensor) -> nn.Module:
    return make(nn.Sequential, Buffered)


def leaky(make: Make, rows: Tensor) -> nn.Module:
    module = make()
    module[1] = Leaky()
    return module


def pre_hooked(make: Make, rows: Tensor) -> nn.Module:
    module, shift = make(), 1.5 * rows.std(dim=0)
    module.register_forward_pre_hook(lambda _, given: (given[0] - shift,))
    return module


def hooked(make: Make, rows: Tensor) -> nn.Module:
    module = make()
    module[0].register_forward_hook(lambda _, given, out: out.abs() - 0.5)
    return module


def inner_pre_hooked(make: Make, rows: Tensor) -> nn.Module:
    module = make()
    module[-1].register_forward_pre_hook(lambda _, given: (given[0].clamp_max(0.6),))
    return module


def weight_normed(make: Make, rows: Tensor) -> nn.Module:
    module = make()
    parametrizations.weight_norm(module[0])
    return module


def parametrized(make: Make, rows: Tensor) -> nn.Module:
    module = make()
    parametrize.register_parametrization(module[0], "weight", Halved())
    return module


def patched(make: Make, rows: Tensor) -> nn.Module:
    """A forward set on the instance."""
    module, shift = make(), 1.5 * rows.std(dim=0)
    plain = module.forward
    module.forward = lambda given: plain(given - shift)
    return module


DISGUISES = (
    shifting,
    doubling,
    buffered,
    leaky,
    pre_hooked,
    hooked,
    inner_pre_hooked,
    weight_normed,
    parametrized,
    patched,
)
