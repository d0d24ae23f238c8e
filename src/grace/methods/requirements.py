"""Which requirements the compiled search serves, and of which rows.

Linear rules of the form a <= b cut intervals out of the line of a feature, ellipsoids of typical rows do, and several
networks have a line each. What is no such thing has the search on tensors: features that follow others, by regression
or by a rule, implications, functions of a user, numbers that may be missing, models that are no ReLU networks, and a
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grace.models.base import Model
from grace.models.ensemble import Together
from grace.models.predictor import tree_ensemble
from grace.models.relu import ReluNetwork, relu_network
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.goal import Against, AllModelsGoal, Between, Flip
from grace.problem.problem import Problem
from grace.problem.requirements.consequences import Consequences, RuleGoal, RuleModel
from grace.problem.requirements.plausible import PlausibilityGoal, PlausibilityModel
from grace.schema.rules import AtMost, IfThen
from grace.schema.rules.keeping import ROUNDING, EncodedRule, scaled_terms
from grace.schema.schema import Schema

STRICT = 1.5 * ROUNDING  # the slack that a rule with < leaves, as a row is checked with that of ROUNDING


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
        """Which rules (n, rules) apply to each row."""
        return active_rules(problem, () if self.consequences is None else self.consequences.rules)


def serves(problem: Problem) -> Served | None:
    """The parts of a problem with requirements that are served; None if it has none, or others."""
    model, goal, consequences, plausible = problem.model, problem.goal, None, None
    if isinstance(model, RuleModel) and isinstance(goal, RuleGoal):
        consequences, model, goal = model.consequences, model.model, goal.goal
        if not is_linear(consequences):
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


@dataclass(frozen=True)
class RuledTrees:
    """A problem about a tree ensemble under linear rules and implications."""

    ensemble: TreeEnsemble
    inner: Problem  # without the rules
    consequences: Consequences
    served: Tensor  # (n,) the rows for which implications can be part of the search

    @property
    def implications(self) -> tuple[IfThen, ...]:
        return tuple(rule.rule for rule in self.consequences.rules if isinstance(rule.rule, IfThen))

    def select(self, index: Tensor) -> RuledTrees:
        return replace(self, inner=self.inner.select(index), served=self.served[index])


def ruled_trees(problem: Problem) -> RuledTrees | None:
    """The parts of a problem about a tree ensemble that has linear rules, implications and no other requirements; None
    for others."""
    model, goal = problem.model, problem.goal
    if not isinstance(model, RuleModel) or not isinstance(goal, RuleGoal) or not problem.rows.is_cpu:
        return None
    ensemble, consequences = tree_ensemble(model.model), model.consequences
    known = all(isinstance(rule.rule, AtMost | IfThen) and rule.columns for rule in consequences.rules)
    if ensemble is None or not known or consequences.dependents or not isinstance(goal.goal, Flip | Against | Between):
        return None
    inner = replace(problem, model=model.model, goal=goal.goal, origin=None)
    implied = [rule for rule in consequences.rules if isinstance(rule.rule, IfThen)]
    confident = not isinstance(goal.goal, Between) and goal.goal.confidence > 0
    if implied and confident and ensemble.link == "softmax":  # a probability is no functional of the sums
        return None
    served = active_rules(inner, implied).all(dim=1)
    for rule in implied:  # a row that breaks a rule may leave it as it is, and no tree says so
        served &= rule.violation(inner.rows) <= 0
    return RuledTrees(ensemble, inner, consequences, served)


def is_linear(consequences: Consequences) -> bool:
    """Whether all rules are linear, and no feature follows others."""
    linear = all(isinstance(rule.rule, AtMost) and rule.columns for rule in consequences.rules)
    return linear and not consequences.dependents


def active_rules(problem: Problem, rules: Sequence[EncodedRule]) -> Tensor:
    """Which rules (n, rules) apply to each row: not those about a missing cell, which stays missing."""
    if not rules:
        return torch.zeros(len(problem), 0, dtype=torch.bool)
    missing = problem.space.missing(problem.rows)
    return ~torch.stack([missing[:, list(rule.columns)].any(dim=1) for rule in rules], dim=1)


def slack_of(schema: Schema, encoded: EncodedRule) -> tuple[list[tuple[int, float]], float]:
    """The slack of a linear rule in units of its standard deviation, as terms and a constant; it is as the rule is
    checked, with an allowance for rounding."""
    rule = encoded.rule
    assert isinstance(rule, AtMost)
    difference = rule.right.minus(rule.left)
    terms, scale = scaled_terms(schema, difference)
    constant = difference.constant / scale + (-STRICT if rule.strict else 0.5 * ROUNDING)
    return [(j, factor / scale) for j, factor in terms if factor != 0], constant
