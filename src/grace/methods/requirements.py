"""Which requirements the compiled search serves, and of which rows.

Linear rules of the form a <= b cut intervals out of the line of a feature, ellipsoids of typical rows do, and several
networks have a line each. What is no such thing has the search on tensors: features that follow others, by regression
or by a rule, implications, functions of a user, numbers that may be missing, models that are no ReLU networks, and a
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grace.models.base import Model
from grace.models.ensemble import Together
from grace.models.relu import ReluNetwork, relu_network
from grace.problem.goal import Against, AllModelsGoal, Between, Flip
from grace.problem.problem import Problem
from grace.problem.requirements.consequences import Consequences, RuleGoal, RuleModel
from grace.problem.requirements.plausible import PlausibilityGoal, PlausibilityModel
from grace.schema.rules import AtMost


@dataclass(frozen=True)
class Served:
    """The parts of a problem whose requirements are served."""

    model: Model  # the one that is explained,
    networks: Sequence[ReluNetwork]  # its layers, and those of the others,
    order: Sequence[Sequence[int]]  # where its classes stand in each of them,
    goal: Flip | Against | Between  # and what each of them has to reach
    consequences: Consequences | None
    plausible: PlausibilityModel | None

    def active(self, problem: Problem) -> Tensor:
        """Which rules (n, rules) apply to each row: not those about a missing cell, which stays missing."""
        if self.consequences is None or not self.consequences.rules:
            return torch.zeros(len(problem), 0, dtype=torch.bool)
        missing = problem.space.missing(problem.rows)
        void = [missing[:, list(rule.columns)].any(dim=1) for rule in self.consequences.rules]
        return ~torch.stack(void, dim=1)


def serves(problem: Problem) -> Served | None:
    """The parts of a problem with requirements that are served; None if it has none, or others."""
    model, goal, consequences, plausible = problem.model, problem.goal, None, None
    if isinstance(model, RuleModel) and isinstance(goal, RuleGoal):
        consequences, model, goal = model.consequences, model.model, goal.goal
        linear = all(isinstance(rule.rule, AtMost) and rule.columns for rule in consequences.rules)
        if not linear or consequences.dependents:
            return None
    if isinstance(model, PlausibilityModel) and isinstance(goal, PlausibilityGoal):
        plausible, model, goal = model, model.model, goal.goal
    models, order = [model], [list(range(model.width))]
    if isinstance(model, Together) and isinstance(goal, AllModelsGoal):
        models, order, goal = list(model.models), model.order, goal.goal
    wrapped = model is not problem.model or len(models) > 1
    if not wrapped or not problem.rows.is_cpu or not isinstance(goal, Flip | Against | Between):
        return None
    networks = [relu_network(m) for m in models]
    known = [network for network in networks if network is not None and not network.missing]
    if len(known) < len(models):
        return None
    return Served(models[0], known, order, goal, consequences, plausible)
