"""Answers that outlive one network: several models asked together, and the share that agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.errors import GraceError
from grace.models.ensemble import Together
from grace.models.grouped import grouped
from grace.models.wrapping import wrap
from grace.problem.answers import Answers
from grace.problem.background import met
from grace.schema.features import Floats

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

SAMPLE = 64  # rows on which another model is tried


def validity(explainer: Explainer, models: Sequence[Any], answers: Answers) -> Floats:
    """The share of the models that give each contrastive row the class that the explained one gives it."""
    if explainer.model.task == "regression":
        raise GraceError("validity is about classes; for a model that predicts a number compare the predictions")
    together = beside(explainer, models)
    scores = together.scores(explainer.tensor(answers.contrast)).cpu().numpy()
    classes = scores.reshape(len(scores), len(together.models), -1).argmax(axis=2)
    share = (classes[:, 1:] == answers.after.argmax(axis=1)[:, None]).mean(axis=1)
    return np.where(answers.success, share, np.nan)


def beside(explainer: Explainer, models: Sequence[Any]) -> Together:
    """The explained model and the others, which are read on its table and where it lives."""
    if len(models) == 0:
        raise GraceError("give at least one other model")
    others = [grouped(wrap(model).on(explainer.model.device), explainer.schema) for model in models]
    rows = explainer.background_rows
    if rows is not None:
        others = [met(model, explainer.schema, rows[:SAMPLE]) for model in others]
    return Together(explainer.model, others)
