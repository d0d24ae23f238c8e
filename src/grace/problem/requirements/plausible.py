"""How typical a contrastive row is of its new class, and answers that have to be typical.

Per class, the Mahalanobis distance to the training rows predicted as that class (shrunk covariance: Ledoit and Wolf
2004), in the coordinates of `Space.euclidean`. The typicality of a row is the share of those rows at least as
far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from grace.models.base import Model, checked_scores
from grace.problem.answers import Answers
from grace.problem.goal import Goal
from grace.problem.space import Space
from grace.schema.features import Floats

if TYPE_CHECKING:
    from grace.problem.model_view import ModelView

FEW = 10  # a class with fewer rows has no estimate


@dataclass(frozen=True)
class Typicality:
    """Means (c, p) and precisions (c, p, p) of the classes, and the sorted Mahalanobis distances of the rows of each,
    empty for a class without an estimate."""

    space: Space
    centre: Tensor
    precision: Tensor
    known: tuple[Tensor, ...]

    @classmethod
    def of(cls, space: Space, rows: Tensor, classes: Tensor, count: int) -> Typicality:
        from sklearn.covariance import LedoitWolf

        points = space.euclidean(rows)
        width = points.shape[1]
        centre, precision = points.new_zeros(count, width), points.new_zeros(count, width, width)
        members: list[Tensor] = []
        for c in range(count):
            own = points[classes == c]
            if len(own) < FEW:
                members.append(own.new_zeros(0))
                continue
            shape = LedoitWolf().fit(own.cpu().numpy())
            centre[c] = torch.as_tensor(shape.location_, device=points.device)
            precision[c] = torch.as_tensor(shape.precision_, device=points.device)
            apart = own - centre[c]
            members.append(((apart @ precision[c]) * apart).sum(dim=1).clamp_min(0).sqrt().sort().values)
        return cls(space, centre, precision, tuple(members))

    def distance(self, rows: Tensor) -> Tensor:
        """The Mahalanobis distance (n, c) of each row to each class; infinite for a class without an estimate."""
        apart = self.space.euclidean(rows)[:, None] - self.centre
        square = torch.einsum("ncp,cpq,ncq->nc", apart, self.precision, apart).clamp_min(0)
        empty = torch.tensor([len(k) == 0 for k in self.known], device=rows.device)
        return square.sqrt().masked_fill(empty, torch.inf)

    def percentile(self, rows: Tensor) -> Tensor:
        """The share (n, c) of the rows of each class whose distance is at least that of the row."""
        distance = self.distance(rows)
        out = torch.zeros_like(distance)
        for c, known in enumerate(self.known):
            if len(known):
                nearer = torch.searchsorted(known, distance[:, c].contiguous(), right=False)
                out[:, c] = 1 - nearer.to(out.dtype) / len(known)
        return out

    def limit(self, share: float) -> Tensor:
        """The largest distances (c,) at which a row is as typical as this share."""
        last = [min(len(k) - 1, int((1 - share) * len(k))) for k in self.known]
        ends = [k[i] if len(k) else k.new_zeros(()) for k, i in zip(self.known, last, strict=True)]
        return torch.stack(ends)


class PlausibilityModel(Model):
    """The scores of a model, then one per class: how far the distance is below its limit, relative to the limit."""

    black_box = True

    def __init__(self, model: Model, typicality: Typicality, share: float) -> None:
        self.model, self.typicality = model, typicality
        self.limit = typicality.limit(share).clamp_min(1e-9)
        self.classes, self.schema, self.task, self.device = model.classes, model.schema, model.task, model.device
        self.tolerance = model.tolerance

    @property
    def width(self) -> int:
        return self.model.width + len(self.limit)

    @property
    def n_reported(self) -> int:
        return self.model.n_reported

    def scores(self, rows: Tensor) -> Tensor:
        room = 1 - self.typicality.distance(rows) / self.limit
        return torch.cat([checked_scores(self.model, rows), room.clamp_min(-1e9)], dim=1)


@dataclass(frozen=True)
class PlausibilityGoal(Goal):
    """A goal that has to be reached by a row that is typical enough of its new class."""

    goal: Goal
    classes: int

    def margins(self, scores: Tensor) -> Tensor:
        room = self.goal.of_targets(scores[..., -self.classes :])
        return torch.minimum(self.goal.margins(scores[..., : -self.classes]), room)

    def of_targets(self, per_class: Tensor) -> Tensor:
        return self.goal.of_targets(per_class)

    def select(self, index: Tensor) -> PlausibilityGoal:
        return PlausibilityGoal(self.goal.select(index), self.classes)


def plausibility(view: ModelView, answers: Answers) -> Floats:
    """The typicality (n,) of each contrastive row for its new class; NaN where there is no answer."""
    share = view.typicality().percentile(view.tensor(answers.contrast)).cpu().numpy()
    own = share[np.arange(len(share)), answers.after.argmax(axis=1)]
    return np.where(answers.success, own, np.nan)
