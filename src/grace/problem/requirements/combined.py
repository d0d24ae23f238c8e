"""What answers have to satisfy beyond the goal: hold for other models, be typical of their class, satisfy rules.

Each requirement wraps the model and the goal of a problem, so that methods do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grace.errors import GraceError
from grace.problem.answers import Answers
from grace.problem.goal import AllModelsGoal, ClassGoal
from grace.problem.model_view import ModelView
from grace.problem.problem import BackgroundRows, Problem
from grace.problem.requirements.consequences import Consequences, determined_by_rules
from grace.problem.requirements.dependence import Dependence, asked_for, learnt
from grace.problem.requirements.plausible import PlausibilityGoal, PlausibilityModel
from grace.problem.requirements.robust import beside
from grace.problem.settings import Settings
from grace.schema.caching import cached_on_first
from grace.schema.schema import Schema

Requirement = Callable[[Problem], Problem]


@dataclass(frozen=True)
class Requirements:
    """Adds all requirements of a call to a problem, and converts its answers back to rows."""

    problem: Requirement
    consequences: Consequences | None

    def to_row_answers(self, answers: Answers) -> Answers:
        return answers if self.consequences is None else self.consequences.to_row_answers(answers)


def requirements(view: ModelView, schema: Schema, robust: Sequence[Any], settings: Settings) -> Requirements:
    """The requirements of a call. The background rows are scored at most once."""
    steps: list[Requirement] = []
    if len(robust):
        _check("robust", settings)
        together = beside(view, robust)
        if settings.confidence:
            together.check_probabilities("confidence= with robust=")
        shift, count = together.shift, len(together.models)

        def all_models(problem: Problem) -> Problem:
            goal = problem.goal.with_shift(shift) if isinstance(problem.goal, ClassGoal) else problem.goal
            return replace(problem, model=together, goal=AllModelsGoal(goal, count))

        steps.append(all_models)
    if settings.plausible:
        _check("plausible", settings)
        known, share = view.typicality(), settings.plausible
        width = len(view.model.classes)
        steps.append(
            lambda p: replace(p, model=PlausibilityModel(p.model, known, share), goal=PlausibilityGoal(p.goal, width))
        )
    consequences = consequences_of(view, schema, settings)
    if consequences is not None:
        _check("follow" if not schema.rules else "rules", settings)
        steps.append(consequences.problem)
    background: BackgroundRows | None = None

    def with_all(problem: Problem) -> Problem:
        nonlocal background
        for step in steps:
            problem = step(problem)
        if not steps or problem.background is None:
            return problem
        if background is None:
            background = BackgroundRows(problem.background.rows, problem.model, problem.space)
        return replace(problem, background=background)

    return Requirements(with_all, consequences)


def consequences_of(view: ModelView, schema: Schema, settings: Settings) -> Consequences | None:
    """The rules of the schema and the features that follow; None if there are neither."""
    if not schema.rules and not asked_for(settings.follow):
        return None
    known: list[Dependence] = []
    if asked_for(settings.follow):
        determined = {schema.names[d.column] for d in determined_by_rules(schema, schema.rules)}
        known = learnt(view.learner, schema, settings.follow, determined)
    return Consequences(schema, known) if known else of_rules(schema)


@cached_on_first
def of_rules(schema: Schema) -> Consequences:
    """The rules of a schema alone, which are asked about again and again."""
    return Consequences(schema, ())


def _check(name: str, settings: Settings) -> None:
    if settings.method != "search":
        raise GraceError(f"{name}= needs method='search'; {settings.method!r} knows a single model and its scores")
    if settings.prove:
        message = (
            "there are no proofs with {name}=: they are about the model and its limits alone; leave it or prove= out"
        )
        raise GraceError(message, name=name)
