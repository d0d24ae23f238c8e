"""What answers have to satisfy beyond the goal: hold for other models, be typical of their class, keep rules.

Each demand puts a model around the problem's and a goal around its goal, so that methods need not know of it.
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
from grace.problem.requirements.consequences import Consequences, deciding
from grace.problem.requirements.dependence import Dependence, asked_for, learnt
from grace.problem.requirements.plausible import PlausibilityGoal, PlausibilityModel
from grace.problem.requirements.robust import beside
from grace.problem.settings import Settings
from grace.schema.schema import Schema

Requirement = Callable[[Problem], Problem]


@dataclass(frozen=True)
class Requirements:
    """A problem with all that is asked for, and its answers in terms of rows again."""

    problem: Requirement
    realism: Consequences | None

    def to_row_answers(self, answers: Answers) -> Answers:
        return answers if self.realism is None else self.realism.to_row_answers(answers)


def requirements(view: ModelView, schema: Schema, robust: Sequence[Any], settings: Settings) -> Requirements:
    """All that a call asks for; what is known of the training rows is found out once."""
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
    real = realism(view, schema, settings)
    if real is not None:
        _check("follow" if not schema.rules else "rules", settings)
        steps.append(real.problem)
    background: BackgroundRows | None = None

    def demand(problem: Problem) -> Problem:
        nonlocal background
        for step in steps:
            problem = step(problem)
        if not steps or problem.background is None:
            return problem
        if background is None:
            background = BackgroundRows.of(problem.model, problem.space, problem.background.rows)
        return replace(problem, background=background)

    return Requirements(demand, real)


def realism(view: ModelView, schema: Schema, settings: Settings) -> Consequences | None:
    """The rules of the schema and what follows, if there is any of it."""
    if not schema.rules and not asked_for(settings.follow):
        return None
    known: list[Dependence] = []
    if asked_for(settings.follow):
        taken = {schema.names[d.column] for d in deciding(schema, schema.rules)}
        known = learnt(view.learner, schema, settings.follow, taken)
    return Consequences(schema, known)


def _check(name: str, settings: Settings) -> None:
    if settings.method != "search":
        raise GraceError(f"{name}= needs method='search'; {settings.method!r} knows a single model and its scores")
    if settings.prove:
        raise GraceError("prove= is about a single network and its scores; leave it or {name}= out", name=name)
