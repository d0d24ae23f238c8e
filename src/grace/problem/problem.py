"""A batch of rows to answer, and everything a method may use to answer it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, checked_scores
from grace.problem.goal import Goal, has_linear_margins
from grace.problem.neighbours import NeighbourIndex
from grace.problem.numpy_or_torch import places, to_native
from grace.problem.space import Space
from grace.schema.features import Bools


@dataclass(frozen=True)
class BackgroundRows:
    """Training rows with the model's own view of them."""

    rows: Tensor
    model: Model
    space: Space
    known: Tensor | None = None  # the scores, where they are known already
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what others have made of them

    @cached_property
    def scores(self) -> Tensor:
        """The scores of the model, which is asked when they are first needed."""
        if self.known is not None:
            return self.known
        with torch.inference_mode(False):  # they are kept beyond it
            return checked_scores(self.model, self.rows)

    @cached_property
    def coordinates(self) -> Tensor:
        """See `Space.euclidean`."""
        with torch.inference_mode(False):
            return self.space.euclidean(self.rows)

    @property
    def classes(self) -> Tensor:
        return self.scores.argmax(dim=1)

    @cached_property
    def points(self) -> NeighbourIndex:
        """The rows, to look for near ones."""
        return NeighbourIndex.of(self.coordinates)

    @cached_property
    def by_class(self) -> list[tuple[Tensor, NeighbourIndex]]:
        """Positions and points of the rows of each class that has any."""
        members = [positions(self.classes == c) for c in range(self.scores.shape[1])]
        return [(index, NeighbourIndex.of(self.coordinates[index])) for index in members if len(index)]


class OriginModel(Model):
    """A model whose scores of a candidate depend on the row that it comes from."""

    @abstractmethod
    def scores_from(self, rows: Tensor, origin: Tensor) -> Tensor:
        """The scores of candidates (m, d), each with the position (m,) of the row that it comes from."""


@dataclass(frozen=True)
class Problem:
    """Find for each row a contrastive one: reach the goal, change at most `max_features`, no two of
    them in `conflict` (SU > gamma), only `free` ones, and only to values from `low` to `high`."""

    model: Model
    space: Space
    goal: Goal
    rows: Tensor
    low: Tensor
    high: Tensor
    free: Tensor
    conflict: Tensor
    max_features: int = 5
    prefer: str = "fewest"
    among: str = "nearest"
    steps: int = 200
    neighbours: int = 4
    local_model: str = "logistic"
    as_printed: bool = False
    background: BackgroundRows | None = None
    origin: Tensor | None = None
    """Positions (n,) of the rows as an `OriginModel` knows them, if the model is one."""
    cache: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What others have made of it: arrays for compiled code."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cells(self) -> tuple[Any, Any, Any, Any]:
        """`rows`, `low`, `high` and `free`; numpy on a CPU, made once."""
        found: tuple[Any, Any, Any, Any] | None = self.cache.get("cells")
        if found is None:
            found = to_native(self.rows), to_native(self.low), to_native(self.high), to_native(self.free)
            self.cache["cells"] = found
        return found

    @property
    def pairs(self) -> Bools:
        """`conflict` as an array for compiled code, made once."""
        found: Bools | None = self.cache.get("pairs")
        if found is None:
            found = self.cache["pairs"] = np.ascontiguousarray(self.conflict.numpy())
        return found

    @property
    def analytic_gradients(self) -> bool:
        """Whether it can be solved without torch recording anything."""
        return self.model.analytic_gradients and has_linear_margins(self.goal) and not self.as_printed

    def select(self, index: Tensor) -> Problem:
        """The same problem for some of the rows."""
        part = object.__new__(Problem)  # `replace` takes longer than the rest
        part.__dict__.update(self.__dict__, goal=self.goal.select(index), cache={})
        for name in ("rows", "low", "high", "free"):
            part.__dict__[name] = getattr(self, name).index_select(0, index)
        if self.origin is not None:
            part.__dict__["origin"] = self.origin[index]
        return part

    def project(self, point: Tensor) -> Tensor:
        """P, with the limits of each row."""
        return self.space.project(point, self.low, self.high)

    def inside(self, rows: Tensor) -> Tensor:
        """Whether each cell, if it was changed, was changed as it may."""
        space = self.space
        new, (old, low, high, free) = to_native(rows), self.cells
        fits = (new >= low) & (new <= high)
        if space.has_integers:
            fits &= ~to_native(space.is_integer) | (new == new.round())
        if space.categorical:
            fits[:, space.categorical] &= space.choosable(new)
        return torch.as_tensor((fits & free) | (new == old))

    def scores(self, rows: Tensor) -> Tensor:
        """The model's scores of one candidate (n, d) per row, or of several (n, m, d)."""
        if self.origin is None and rows.dim() == 2:
            return self.model.scores(rows)
        flat = rows.reshape(-1, rows.shape[-1])
        if self.origin is None:
            scores = self.model.scores(flat)
        else:
            assert isinstance(self.model, OriginModel)
            origin = self.origin.reshape(-1, *[1] * (rows.dim() - 2)).expand(rows.shape[:-1])
            scores = self.model.scores_from(flat, origin.reshape(-1))
        return scores.reshape(*rows.shape[:-1], scores.shape[-1])

    def decisions(self, rows: Tensor) -> Tensor:
        """Whether the model decides candidates (n, m, d) as was asked for, however small the margin."""
        if self.origin is not None or not has_linear_margins(self.goal):
            return self.goal.decided(self.scores(rows))
        scores = self.model.decisive_scores(rows.reshape(-1, rows.shape[-1]))
        return self.goal.decided(scores.reshape(*rows.shape[:-1], scores.shape[-1]))

    def margin(self, rows: Tensor) -> Tensor:
        """The goal's margin of one candidate (n, d) per row, or of several (n, m, d)."""
        return self.goal.margin(self.scores(rows))

    def reached(self, rows: Tensor) -> Tensor:
        """Whether candidates reach the goal."""
        return self.margin(rows) >= self.model.tolerance

    def redundant(self, rows: Tensor) -> Tensor:
        """Whether two of the changed features are in conflict."""
        cells = to_native(rows) != to_native(self.rows)
        some = torch.as_tensor(places(cells.any(axis=0)))  # few: the square of all features would be large
        if len(some) < 2:
            return torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        changed = torch.as_tensor(cells)[:, some].to(torch.float64)
        return ((changed @ self.conflict[some][:, some].to(torch.float64)) * changed).sum(dim=1) > 0

    def known_rows(self, method: str) -> BackgroundRows:
        """The background, or an error that says which method needs it."""
        if self.background is None:
            raise GraceError(f"{method} needs training rows; give train= to Explainer, or save with background rows")
        return self.background


def positions(mask: Tensor) -> Tensor:
    """The indices where a 1-D mask is true."""
    return torch.nonzero(mask)[:, 0]
