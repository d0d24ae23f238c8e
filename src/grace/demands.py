"""What answers have to satisfy beyond the goal: hold for other models, be typical of their class.

Each demand puts a model around the problem's and a goal around its goal, so that methods need not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.goal import Each
from grace.plausibility import Judged, Typical
from grace.problem import Background, Problem
from grace.robust import beside
from grace.settings import Settings

if TYPE_CHECKING:
    from grace.explainer import Explainer

Demand = Callable[[Problem], Problem]


def demands(explainer: Explainer, robust: Sequence[Any], settings: Settings) -> Demand:
    """All that a call asks for; what is known of the training rows is found out once."""
    steps: list[Demand] = []
    if len(robust):
        _check("robust", settings)
        together = beside(explainer, robust)
        steps.append(lambda p: replace(p, model=together, goal=Each(p.goal, len(together.models))))
    if settings.plausible:
        _check("plausible", settings)
        known, share = explainer.typicality(), settings.plausible
        count = len(explainer.model.classes)
        steps.append(lambda p: replace(p, model=Judged(p.model, known, share), goal=Typical(p.goal, count)))
    background: Background | None = None

    def demand(problem: Problem) -> Problem:
        nonlocal background
        for step in steps:
            problem = step(problem)
        if not steps or problem.background is None:
            return problem
        if background is None:
            background = Background.of(problem.model, problem.space, problem.background.rows)
        return replace(problem, background=background)

    return demand


def _check(name: str, settings: Settings) -> None:
    if settings.method != "search":
        raise GraceError(f"{name}= needs method='search'; {settings.method!r} knows a single model and its scores")
    if settings.prove:
        raise GraceError(f"prove= is about a single network and its scores; leave it or {name}= out")
