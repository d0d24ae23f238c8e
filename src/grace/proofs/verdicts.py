"""What a proof says of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grace.problem.numpy_or_torch import to_device

OPEN, PROVEN, FOUND, EXCEPT_TIES = 0, 1, 2, 3


@dataclass(frozen=True)
class Verdicts:
    """Per row: PROVEN that no row with at most k changes is decided as was asked for, EXCEPT_TIES that none is by the
    margin of an answer, FOUND an answer (`rows`), or OPEN."""

    status: Tensor
    rows: Tensor
    nodes: Tensor
    seconds: Tensor  # of a core's time

    def on(self, device: torch.device) -> Verdicts:
        """The same verdicts in the memory of a device."""
        moved: Verdicts = to_device(self, device)
        return moved
