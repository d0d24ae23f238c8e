"""Rows with each category as a one-hot vector, and a column that says where a number is missing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grace.schema.features import Categorical, Numeric
from grace.schema.schema import Schema


@dataclass(frozen=True)
class OneHot:
    """Encoded rows as inputs of layers: the numbers, 0 where they are missing; for every category a 1 among zeros; then
    for every number that may be missing whether it is."""

    numeric: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]
    """Each categorical feature, and how many categories it has."""
    missing: tuple[tuple[int, float], ...] = ()
    """Each number that may be missing, and the code that stands for a missing cell."""

    @classmethod
    def of(cls, schema: Schema) -> OneHot:
        pairs = list(enumerate(schema.features))
        counts = {j: len(f.categories) for j, f in pairs if isinstance(f, Categorical)}
        missing = tuple((j, f.missing_code) for j, f in pairs if isinstance(f, Numeric) and f.gaps)
        return cls(tuple(j for j in range(len(schema)) if j not in counts), tuple(counts.items()), missing)

    @property
    def width(self) -> int:
        return len(self.numeric) + sum(count for _, count in self.categories) + len(self.missing)

    @property
    def blocks(self) -> dict[int, slice]:
        """Where the one-hot vector of each categorical feature stands."""
        out, start = {}, len(self.numeric)
        for j, count in self.categories:
            out[j] = slice(start, start + count)
            start += count
        return out

    @property
    def gaps(self) -> dict[int, int]:
        """Where it stands whether each number is missing that may be."""
        start = self.width - len(self.missing)
        return {j: start + place for place, (j, _) in enumerate(self.missing)}

    def __call__(self, rows: Tensor) -> Tensor:
        numbers = rows
        absent = {j: rows[:, j] == code for j, code in self.missing}
        if absent:
            numbers = rows.clone()
            for j, flags in absent.items():
                numbers[:, j] = torch.where(flags, 0.0, rows[:, j])
        parts = [numbers[:, list(self.numeric)]]
        parts += [torch.nn.functional.one_hot(rows[:, j].long(), n).to(rows.dtype) for j, n in self.categories]
        parts += [flags[:, None].to(rows.dtype) for flags in absent.values()]
        return torch.cat(parts, dim=1)
