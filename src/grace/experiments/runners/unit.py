"""The network as a torch module on unit coordinates: numbers scaled from a range to [0, 1], and one-hot categories over
some of their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from protocol import Task


class Unit(torch.nn.Module):
    """Maps unit coordinates (of any shape, flattened) to logits."""

    def __init__(self, task: Task, low: Any, high: Any, codes: dict[int, list[int]]) -> None:
        super().__init__()
        if not task.is_network:
            raise ValueError("it needs a torch network, to follow its gradients")
        self.task, self.codes = task, codes
        self.low, self.span = self._tensor(low), self._tensor(high) - self._tensor(low)
        a = task.arrays
        self.centre, self.scale = self._tensor(a["network.centre"]), self._tensor(a["network.scale"])
        tables = [a[f"network.embeddings.{k}.weight"][codes[j]] for k, j in enumerate(task.categorical)]
        self.tables = [self._tensor(t) for t in tables]
        layers = sum(name.startswith("network.layers.") for name in a) // 2
        self.layers = torch.nn.ModuleList()
        for k in range(layers):
            weight, bias = a[f"network.layers.{k}.weight"], a[f"network.layers.{k}.bias"]
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
            layer.weight.data, layer.bias.data = self._tensor(weight), self._tensor(bias)
            self.layers.append(layer.requires_grad_(False))

    @staticmethod
    def _tensor(values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float64))

    @property
    def width(self) -> int:
        return len(self.task.numeric) + sum(len(self.codes[j]) for j in self.task.categorical)

    def forward(self, unit: torch.Tensor) -> torch.Tensor:
        flat = unit.reshape(-1, self.width).double()
        count = len(self.task.numeric)
        parts = [(flat[:, :count] * self.span + self.low - self.centre) / self.scale]
        start = count
        for j, table in zip(self.task.categorical, self.tables, strict=True):
            size = len(self.codes[j])
            parts.append(flat[:, start : start + size] @ table)
            start += size
        hidden = torch.cat(parts, dim=1)
        for k, layer in enumerate(self.layers):
            hidden = layer(hidden) if k == 0 else layer(torch.relu(hidden))
        return hidden

    def into(self, row: Any) -> Any:
        """The unit coordinates of an encoded row."""
        span = np.where(self.span.numpy() > 0, self.span.numpy(), 1.0)
        parts = [(row[self.task.numeric] - self.low.numpy()) / span]
        parts += [(np.array(self.codes[j]) == row[j]).astype(float) for j in self.task.categorical]
        return np.concatenate(parts)

    def back(self, unit: Any, row: Any, tolerance: float = 1e-9) -> Any:
        """The encoded row of unit coordinates; unchanged features keep their exact value in `row`."""
        moved = np.abs(unit - self.into(row)) > tolerance
        out = row.copy()
        count = len(self.task.numeric)
        values = unit[:count] * self.span.numpy() + self.low.numpy()
        out[self.task.numeric] = np.where(moved[:count], values, row[self.task.numeric])
        start = count
        for j in self.task.categorical:
            size = len(self.codes[j])
            if moved[start : start + size].any():
                out[j] = self.codes[j][int(unit[start : start + size].argmax())]
            start += size
        return out
