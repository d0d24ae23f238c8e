"""Answers that hold for several models, and the share of models for which an answer holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.errors import GraceError
from grace.models.ensemble import Together
from grace.models.grouped import grouped
from grace.models.wrapping import wrap
from grace.problem.answers import Answers
from grace.problem.binding import bind
from grace.schema.features import Floats

if TYPE_CHECKING:
    from grace.problem.model_view import ModelView

SAMPLE = 64  # rows that another model is bound with


def validity(view: ModelView, models: Sequence[Any], answers: Answers) -> Floats:
    """The share (n,) of the models that predict the class of each contrastive row that the explained one predicts."""
    if view.model.task == "regression":
        raise GraceError("validity is about classes; for a model that predicts a number compare the predictions")
    together = beside(view, models)
    scores = together.scores(view.tensor(answers.contrast)).cpu().numpy()
    classes = scores.reshape(len(scores), len(together.models), -1).argmax(axis=2)
    share = (classes[:, 1:] == answers.after.argmax(axis=1)[:, None]).mean(axis=1)
    return np.where(answers.success, share, np.nan)


def beside(view: ModelView, models: Sequence[Any]) -> Together:
    """The explained model and the others, bound to the same schema and device."""
    if len(models) == 0:
        raise GraceError("give at least one other model")
    others = [grouped(wrap(model).on(view.model.device), view.schema) for model in models]
    rows = view.background.rows
    if rows is not None:
        others = [bind(model, view.schema, rows[:SAMPLE]) for model in others]
    return Together(view.model, others)
