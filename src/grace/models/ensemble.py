"""Several models asked together: an answer that holds for all of them outlives the training of any one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, checked_scores


class Together(Model):
    """The scores of a model and of others, side by side; those of the first are reported."""

    black_box = True

    def __init__(self, first: Model, others: Sequence[Model]) -> None:
        self.models = (first, *others)
        self.classes, self.schema, self.task, self.device = first.classes, first.schema, first.task, first.device
        self.tolerance = max(m.tolerance for m in self.models)
        self.no_probabilities_because = next(
            (m.no_probabilities_because for m in self.models if not m.has_probabilities), ""
        )
        self.order = [_order(first, model) for model in self.models]

    @property
    def width(self) -> int:
        return self.n_reported * len(self.models)

    @property
    def n_reported(self) -> int:
        return self.models[0].width

    def scores(self, rows: Tensor) -> Tensor:
        parts = zip(self.models, self.order, strict=True)
        return torch.cat([checked_scores(m, rows)[:, order] for m, order in parts], dim=1)

    @property
    def shift(self) -> Tensor | None:
        """What the cut-offs of each model took off its scores (models, classes)."""
        if all(model.cutoffs is None for model in self.models):
            return None
        own = [torch.zeros(self.n_reported) if (s := model.shift) is None else s.cpu() for model in self.models]
        parts = zip(own, self.order, strict=True)
        return torch.stack([shift.double()[order] for shift, order in parts]).to(self.device)

    def refresh(self) -> None:
        for model in self.models:
            model.refresh()


def _order(first: Model, model: Model) -> list[int]:
    """Where the classes of the first model stand in another."""
    if model.task != first.task or set(model.classes) != set(first.classes):
        raise GraceError(
            f"robust: a model has the classes {list(model.classes)}, the one explained has {list(first.classes)}; "
            "give models of the same task"
        )
    return [model.classes.index(c) for c in first.classes] or [0]
