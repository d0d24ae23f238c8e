"""The goal of each row from what a call asks for: another class, a named one, or another number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import checked_scores, class_codes
from grace.models.torch import TorchModel
from grace.problem.goal import Against, Between, Flip, Goal
from grace.problem.model_view import ModelView
from grace.problem.numpy_or_torch import to_native
from grace.problem.settings import Settings
from grace.problem.target_range import TargetRange


def goal_of(view: ModelView, rows: Tensor, against: Any, settings: Settings, own: Tensor | None = None) -> Goal:
    """The goal of each row; `own` are the scores of the rows, where they are known."""
    if against is None and view.model.task != "regression":
        return _flip(view, rows, settings, own)
    listed = pd.api.types.is_list_like(against)
    many = list(against) if listed else [against] * len(rows)
    if len(many) != len(rows):
        raise GraceError(f"against has {len(many)} classes for {len(rows)} rows; give one, or one per row")
    model = view.model
    if model.task == "regression":
        return _between(view, rows, many, settings, own)
    wrong = next((w for w in (many if listed else [against]) if isinstance(w, TargetRange)), None)
    if wrong is not None:
        raise GraceError("above, below, within and by are for models that predict a number; name a class instead")
    if settings.confidence:
        model.check_probabilities("confidence=")
    codes = class_codes(many, model.classes, "against")
    return Against(torch.as_tensor(codes, device=model.device), settings.confidence, model.shift)


def _flip(view: ModelView, rows: Tensor, settings: Settings, own: Tensor | None) -> Flip:
    """Any class but that of each row."""
    model = view.model
    if settings.confidence:
        model.check_probabilities("confidence=")
    scores = checked_scores(model, rows) if own is None else own
    origin = model.origin if isinstance(model, TorchModel) and model.cutoffs is None else None
    if origin is None:
        classes = to_native(scores).argmax(1)
    else:
        classes = origin.classes(rows.cpu().numpy(), scores.detach().cpu().numpy())
    return Flip(torch.as_tensor(classes, device=rows.device), settings.confidence, model.shift)


def _between(view: ModelView, rows: Tensor, many: list[Any], settings: Settings, own: Tensor | None) -> Between:
    if not all(isinstance(w, TargetRange) for w in many):
        raise GraceError(
            "the model predicts a number: say what it should have been, such as against=grace.above(10), "
            'grace.below(10), grace.within(5, 10) or grace.by("+10 %")'
        )
    for name in ("confidence", "as_printed"):
        if getattr(settings, name):
            raise GraceError(f"{name}= is about classes; leave it out for a model that predicts a number")
    predicted = (checked_scores(view.model, rows) if own is None else own)[:, 0].cpu().numpy()
    spread = view.spread
    ends = np.array([[end[0] for end in w.range(predicted[[i]], spread)] for i, w in enumerate(many)])
    return Between(view.tensor(ends[:, 0]), view.tensor(ends[:, 1]), spread)
