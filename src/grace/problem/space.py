"""The coordinates in which a contrastive row is sought.

A numeric feature is one coordinate. A categorical feature is a block of coordinates: the vectors that
the model has learnt for its categories, or one-hot vectors where it has learnt none. Every length is
measured in units of the feature's spread; a typical change of category has length 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.problem.numpy_or_torch import to_device, to_native
from grace.schema.features import MISSING, Categorical, Numeric
from grace.schema.schema import Schema

NORMS = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}
"""Orders of the norm of the costs of all features. Under each, the distance of a single change is its cost, by which
`text.sentence` says the least change that is proven."""

EVERY = slice(None)


class Space:
    """dom(X) in tensors: embeds rows as coordinates, projects coordinates onto rows, and measures distances."""

    def __init__(
        self,
        schema: Schema,
        vectors: Mapping[int, Tensor] | None = None,
        device: torch.device | str = "cpu",
        norm: str = "l1",
    ) -> None:
        def tensor(values: object, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.as_tensor(values, dtype=dtype, device=device)

        self.schema, self.norm = schema, norm
        low, high = schema.bounds()
        whole = np.array([isinstance(f, Numeric) and bool(f.integer) for f in schema.features], dtype=bool)
        low, high = np.where(whole, np.ceil(low), low), np.where(whole, np.floor(high), high)
        self.low, self.high = tensor(low), tensor(high)
        self.is_bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
        numeric = [f for f in schema.features if isinstance(f, Numeric)]
        self.is_numeric = tensor([isinstance(f, Numeric) for f in schema.features], torch.bool)
        self.is_integer, self.has_integers = tensor(whole, torch.bool), bool(whole.any())
        self.digits = tensor([f.digits if isinstance(f, Numeric) else 0 for f in schema.features], torch.int64)
        self.weight = tensor([f.cost for f in schema.features])
        self.fixed = tensor([f.fixed for f in schema.features], torch.bool)
        self._movable = to_native(~self.fixed & (self.low <= self.high))
        self.upward = tensor([f.increase_only for f in schema.features], torch.bool)
        self.downward = tensor([f.decrease_only for f in schema.features], torch.bool)
        self.one_way = any(f.increase_only or f.decrease_only for f in schema.features)
        self.spread = tensor([f.spread or 1.0 for f in schema.features])
        self.gap = tensor([f.missing_code if isinstance(f, Numeric) else torch.nan for f in schema.features])
        self.has_gaps = any(isinstance(f, Numeric) and f.gaps for f in schema.features)
        self.has_magnitude = tensor([isinstance(f, Numeric) or f.ordered for f in schema.features], torch.bool)
        self.has_unordered = any(isinstance(f, Categorical) and not f.ordered for f in schema.features)
        self.categorical = [j for j, f in enumerate(schema.features) if isinstance(f, Categorical)]
        self._choosing = to_native(~self.fixed)[self.categorical]
        self.vectors: dict[int, Tensor] = {}
        self.choices: dict[int, Tensor] = {}
        self.missing_code: dict[int, int] = {}  # the category that stands for a missing cell
        self.codes_outside_order: dict[int, Tensor] = {}  # of ordered categories that may only rise or fall
        self.blocks: dict[int, slice] = {}
        owner = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric)]
        scale = [f.spread or 1.0 for f in numeric]
        self.n_numeric = len(owner)  # the numeric coordinates come first
        for j in self.categorical:
            feature = schema.features[j]
            assert isinstance(feature, Categorical)
            count = len(feature.categories)
            if feature.gaps:
                self.missing_code[j] = feature.categories.index(MISSING)
            vector = (vectors or {}).get(j)
            table = torch.eye(count, dtype=torch.float64) if vector is None else vector.detach()
            self.vectors[j] = tensor(table)
            self.choices[j] = tensor(schema.selectable_codes(j), torch.int64)
            if feature.increase_only or feature.decrease_only:
                apart_from = [k for k, c in enumerate(feature.categories) if c in (MISSING, feature.other or MISSING)]
                self.codes_outside_order[j] = tensor(apart_from, torch.int64)
            self.blocks[j] = slice(len(owner), len(owner) + table.shape[1])
            owner += [j] * table.shape[1]
            apart = torch.pdist(tensor(table)).mean() if count > 1 else torch.tensor(0.0)
            scale += [float(apart) or 1.0] * table.shape[1]
        self.owner = tensor(owner, torch.int64)
        self.scale = tensor(scale)
        most = max((len(table) for table in self.vectors.values()), default=0)
        choosable = torch.zeros(len(self.categorical), most + 1, dtype=torch.bool, device=device)
        for place, j in enumerate(self.categorical):
            choosable[place, self.choices[j]] = True
        self._choosable, self._n_choices = to_native(choosable), to_native(choosable.sum(dim=1))
        self._places = to_native(torch.arange(len(self.categorical), device=device))

    def __len__(self) -> int:
        return len(self.owner)

    def on(self, device: torch.device) -> Space:
        """The same space in the memory of a device."""
        other = copy(self)
        vars(other).update({name: to_device(value, device) for name, value in vars(self).items() if name != "schema"})
        for name in ("_choosable", "_n_choices", "_places", "_movable", "_choosing"):
            setattr(other, name, to_native(torch.as_tensor(getattr(self, name)).to(device)))
        return other

    def numbers(self, values: Tensor) -> Tensor:
        """The numeric features of values (..., d); without a copy if there are no categories."""
        return values[..., self.is_numeric] if self.categorical else values

    def embed(self, rows: Tensor) -> Tensor:
        """The coordinates of rows."""
        if not self.categorical:
            return rows
        parts = [self.numbers(rows)]
        parts += [self.vectors[j][rows[:, j].long()] for j in self.categorical]
        return torch.cat(parts, dim=1)

    def limits(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lowest and highest new value of each cell, and whether it may change at all."""
        low, high, movable = self.low.expand_as(rows), self.high.expand_as(rows), self._movable
        if self.one_way:
            low = torch.where(self.upward, torch.maximum(low, rows), low)
            high = torch.where(self.downward, torch.minimum(high, rows), high)
            if self.has_integers:
                low = torch.where(self.is_integer, low.ceil(), low)
                high = torch.where(self.is_integer, high.floor(), high)
            movable = to_native(~self.fixed & (low <= high))
        x, bottom, top = to_native(rows), to_native(low), to_native(high)
        free = movable & ((bottom != x) | (top != x))
        if self.has_gaps:
            free &= x != to_native(self.gap)
        if self.categorical:
            free[:, self.categorical] = self._choosing & (self._n_choices > self.choosable(x))
            for j, code in self.missing_code.items():
                free[:, j] &= x[:, j] != code
            for j, codes in self.codes_outside_order.items():
                others = ((self.choices[j] != rows[:, [j]]) & self.between(j, low, high)).any(dim=1)
                free[:, j] &= to_native(others & ~torch.isin(rows[:, j].long(), codes))
        return low, high, torch.as_tensor(free)

    def choosable(self, rows: Any) -> Any:
        """Whether each category of the rows (n, categorical features) may be chosen by a change; numpy on a CPU."""
        codes = rows[:, self.categorical].clip(0, self._choosable.shape[1] - 1)
        return self._choosable[self._places, codes.long() if isinstance(codes, Tensor) else codes.astype(np.int64)]

    def between(self, j: int, low: Tensor, high: Tensor) -> Tensor:
        """Which choices (n, choices) lie within the limits of each row: all, unless it may only rise or fall."""
        return (self.choices[j] >= low[:, [j]]) & (self.choices[j] <= high[:, [j]])

    def project(self, point: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """P: the row within the limits nearest to a point. A category is the one with the nearest vector."""
        rows = point
        if self.categorical:
            rows = point.new_zeros(len(point), len(self.spread))
            rows[:, self.is_numeric] = point[:, : self.n_numeric]
        rows = rows.clamp(low, high)
        if self.has_integers:
            rows = torch.where(self.is_integer, rows.round(), rows)
        for j in self.categorical:
            table = self.vectors[j][self.choices[j]]
            apart = (point[:, None, self.blocks[j]] - table).square().sum(dim=2)
            if j in self.codes_outside_order:
                apart = torch.where(self.between(j, low, high), apart, 2 * apart.amax(dim=1, keepdim=True) + 1)
            rows[:, j] = self.choices[j][nearly_first(apart)].to(rows.dtype)
        return rows

    def missing(self, rows: Tensor) -> Tensor:
        """Which cells are missing to the model."""
        out = rows == self.gap
        for j, code in self.missing_code.items():
            out[:, j] = rows[:, j] == code
        return out

    def per_coordinate(self, per_feature: Tensor) -> Tensor:
        """A value per feature, repeated for each of its coordinates."""
        return per_feature[..., self.owner] if self.categorical else per_feature

    def per_feature(self, values: Tensor) -> Tensor:
        """A value per coordinate, summed over the coordinates of each feature."""
        if not self.categorical:
            return values
        out = values.new_zeros(len(values), len(self.spread))
        return out.index_add_(1, self.owner, values)

    def distance(self, rows: Tensor, others: Tensor) -> Tensor:
        """In units of the spread, weighted by cost; ordered categories by rank, any other changed category counts 1.
        L1, L2 or the maximum."""
        if len(rows) == 1 and rows.is_cpu and others.dim() == 2 and self.norm != "l2":
            x, y = rows.numpy()[0], others.numpy()[0]
            changed = (x != y).nonzero()[0]
            if len(changed) == 1:  # its cost, without the overhead of torch
                j = changed[0]
                apart = abs(y[j] - x[j]) / self.spread.numpy()[j] if bool(self.has_magnitude.numpy()[j]) else 1.0
                return rows.new_tensor([self.weight.numpy()[j] * apart])
        length: Tensor = torch.linalg.vector_norm(self.cost(rows, others), ord=NORMS[self.norm], dim=-1)
        return length

    def cost(self, rows: Tensor, others: Tensor) -> Tensor:
        """How far each feature moves (n, d): in spreads, times the cost of a change; a distance is a norm of these."""
        return self.cost_of(others - rows)

    def cost_of(self, apart: Tensor, feature: Tensor | slice = EVERY) -> Tensor:
        """The costs of moving features, by default all of them, by so much."""
        length = apart.abs() / self.spread[feature]
        if self.has_unordered:
            length = torch.where(self.has_magnitude[feature], length, (apart != 0).to(apart.dtype))
        return self.weight[feature] * length

    def gain(self, rows: Tensor, slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The most that each feature could bring within its range if the slope stayed as it is."""
        x, g = self.numbers(rows), slope[:, : self.n_numeric]
        most = torch.maximum(g * (self.numbers(high) - x), g * (self.numbers(low) - x))
        if not self.categorical:
            return most
        out = rows.new_zeros(rows.shape)
        out[:, self.is_numeric] = most
        for j in self.categorical:
            table = self.vectors[j]
            move = table[self.choices[j]] - table[rows[:, j].long()][:, None]
            won = (move * slope[:, None, self.blocks[j]]).sum(dim=2)
            out[:, j] = (
                won.masked_fill(~self.between(j, low, high), 0) if j in self.codes_outside_order else won
            ).amax(dim=1)
        return out

    def euclidean(self, rows: Tensor) -> Tensor:
        """Coordinates whose Euclidean distance counts 1 for a spread and 1 for another category."""
        parts = [self.numbers(rows) / self.numbers(self.spread)]
        for j in self.categorical:
            if self.has_magnitude[j]:
                parts.append(rows[:, [j]] / self.spread[j])
                continue
            parts.append(torch.nn.functional.one_hot(rows[:, j].long(), len(self.vectors[j])) / 2**0.5)
        return torch.cat(parts, dim=1)


def nearly_first(values: Tensor) -> Tensor:
    """argmin along the last dimension; values equal but for rounding go to the lower index."""
    least = values.amin(dim=-1, keepdim=True)
    slack = 1e-9 * values.abs().amax(dim=-1, keepdim=True).clamp_min(1e-300)
    index = torch.arange(values.shape[-1], device=values.device)
    return torch.where(values <= least + slack, index, values.shape[-1]).amin(dim=-1)


def nearly_sorted(values: Tensor) -> Tensor:
    """Indices by descending value; values equal but for rounding keep the lower index first."""
    top = values.abs().amax(dim=-1, keepdim=True).clamp_min(1e-300)
    return (-(values / top * 1e9).round()).argsort(dim=-1, stable=True)
