"""Rows with each category as a one-hot vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grace.schema.features import Categorical
from grace.schema.schema import Schema


@dataclass(frozen=True)
class OneHot:
    """Encoded rows as inputs of layers: the numbers, then for every category a 1 among zeros."""

    numeric: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]
    """Each categorical feature, and how many categories it has."""

    @classmethod
    def of(cls, schema: Schema) -> OneHot:
        pairs = enumerate(schema.features)
        counts = {j: len(f.categories) for j, f in pairs if isinstance(f, Categorical)}
        return cls(tuple(j for j in range(len(schema)) if j not in counts), tuple(counts.items()))

    @property
    def width(self) -> int:
        return len(self.numeric) + sum(count for _, count in self.categories)

    @property
    def blocks(self) -> dict[int, slice]:
        """Where the one-hot vector of each categorical feature stands."""
        out, start = {}, len(self.numeric)
        for j, count in self.categories:
            out[j] = slice(start, start + count)
            start += count
        return out

    def __call__(self, rows: Tensor) -> Tensor:
        parts = [rows[:, list(self.numeric)]]
        parts += [torch.nn.functional.one_hot(rows[:, j].long(), n).to(rows.dtype) for j, n in self.categories]
        return torch.cat(parts, dim=1)
