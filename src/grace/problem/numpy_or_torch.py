"""Arrays of a few numbers per row: numpy on a CPU, where small operations have less overhead than in torch, and torch
on other devices. Code uses only names that both libraries have.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


def to_native(values: Tensor) -> Any:
    """The tensor as numpy on a CPU, else itself, without a copy; `torch.as_tensor` is the inverse."""
    return values.numpy() if values.is_cpu else values


def to_numpy(values: Any) -> Any:
    """The values in host memory, as numpy."""
    return values.cpu().numpy() if isinstance(values, Tensor) else values


def to_device(values: Any, device: torch.device) -> Any:
    """Tensors in the memory of a device, also those of a dictionary or a dataclass; anything else as it is."""
    if isinstance(values, Tensor):
        return values.to(device)
    if isinstance(values, dict):
        return {key: to_device(value, device) for key, value in values.items()}
    if is_dataclass(values) and not isinstance(values, type):
        return replace(values, **{f.name: to_device(getattr(values, f.name), device) for f in fields(values)})
    return values


def library(values: Any) -> Any:
    """The module whose functions take such values."""
    return torch if isinstance(values, Tensor) else np


def places(mask: Any) -> Any:
    """The indices where a 1-D mask is true."""
    return torch.nonzero(mask)[:, 0] if isinstance(mask, Tensor) else mask.nonzero()[0]


def pick(values: Any, place: Any) -> Any:
    """The value at one place (n, 1) in each row (n, m)."""
    if isinstance(values, Tensor):
        return values.gather(1, place)
    return values[np.arange(len(values))[:, None], place]


def first_true(mask: Any) -> Any:
    """The first place (n, 1) that is true in each row of a mask; 0 if there is none."""
    if isinstance(mask, Tensor):
        return mask.to(torch.uint8).argmax(dim=1, keepdim=True)
    return mask.argmax(axis=1, keepdims=True)
