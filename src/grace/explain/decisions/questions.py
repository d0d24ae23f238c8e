"""The problem of a call again, for further questions about its rows."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import torch

from grace.problem.contrast import goal_of
from grace.problem.problem import Problem
from grace.problem.requirements.combined import requirements
from grace.problem.settings import Settings

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.explain.explanations import Explanations


def on_cpu(explainer: Explainer) -> Explainer:
    """The explainer with its model on the CPU, where the compiled code is."""
    if explainer.model.device.type == "cpu":
        return explainer
    other = copy(explainer)
    other.use(explainer.model.on(torch.device("cpu")))
    return other


def settings_of_call(batch: Explanations) -> Settings:
    """The settings of a call for such questions: by the search, with gamma = 1, without proofs and alternatives."""
    chosen = Settings(**{f.name: batch.call[f.name] for f in fields(Settings)})
    return replace(chosen, method="search", gamma=1.0, prove=False, n=1, prefer="fewest", as_printed=False)


def problem_of(batch: Explanations) -> Problem:
    """The problem of the rows of a batch, with gamma = 1: redundant features are told apart afterwards."""
    explainer, settings = on_cpu(batch.explainer), settings_of_call(batch)
    rows = explainer.tensor(batch.answers.rows)
    goal = goal_of(explainer._view, rows, batch.call["against"], settings)
    required = requirements(explainer._view, batch.schema, batch.call["robust"], settings)
    return required.problem(explainer._problem(rows, goal, batch.schema, settings))
