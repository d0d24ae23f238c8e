"""Sufficient reasons: the features that entail the prediction of a row, whatever the others are within the domain."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from grace.errors import GraceError
from grace.explain.decisions.questions import problem_of
from grace.explain.decisions.row_context import RowContext, row_contexts
from grace.explain.decisions.row_results import RowResults
from grace.explain.json_text import indented
from grace.methods.compiled.threads import over_tasks
from grace.problem.goal import ClassGoal, Flip
from grace.problem.problem import Problem
from grace.proofs.sets import is_provable, set_prover
from grace.proofs.sufficient import SufficientSet, sufficient_set
from grace.text import decisions

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

LEVELS = 5  # values over the range of a number at which its effect is looked at


@dataclass(frozen=True)
class SufficientReason:
    """While the `features` of a row stay as they are, nothing that the others do within the domain changes its class,
    or leads a predicted number into the range asked for: that is proven.

    `minimal` if none of the features can be left out, `smallest` if no fewer would do; `undecided` are those of which
    neither was decided in time. Nothing is proven of a number that is in the range asked for already: all are
    undecided.
    """

    about: RowContext
    features: tuple[str, ...]
    undecided: tuple[str, ...]
    smallest: bool
    free: tuple[str, ...]
    """The features that may change; the others stay in any case."""

    @property
    def minimal(self) -> bool:
        return not self.undecided

    def text(self, *, language: str | None = None) -> str:
        """The features with their values, if they are few, and what is proven about them."""
        return decisions.sufficient_text(self if language is None else self.in_language(language))

    def in_language(self, code: str) -> SufficientReason:
        return replace(self, about=self.about.in_language(code))

    def to_dict(self, *, language: str | None = None) -> dict[str, Any]:
        return {
            "text": self.text(language=language),
            **self.about.to_dict(),
            "features": list(self.features),
            "undecided": list(self.undecided),
            "minimal": self.minimal,
            "smallest": self.smallest,
            "free": list(self.free),
        }

    def to_json(self, *, language: str | None = None) -> str:
        return indented(self.to_dict(language=language))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        how = "smallest" if self.smallest else "minimal" if self.minimal else f"{len(self.undecided)} undecided"
        return (
            f"<SufficientReason: {len(self.features)} of {len(self.free)} features, {how}: {', '.join(self.features)}>"
        )


def sufficient_of_batch(batch: Explanations, seconds: float, smallest: bool) -> RowResults[SufficientReason]:
    """The sufficient reasons of all rows of a batch, each within some seconds of work."""
    problem = entailing(problem_of(batch))
    effects, free = effects_of(problem), problem.free.numpy()
    own, number = threading.local(), not isinstance(problem.goal, ClassGoal)
    found: dict[int, SufficientSet] = {}

    def run(i: int, stop: threading.Event) -> None:
        if not hasattr(own, "prover"):
            own.prover = set_prover(problem, free.shape[1])
        order = [j for j in np.argsort(effects[i], kind="stable").tolist() if free[i, j]]
        if number and batch.answers.trivial[i]:  # in the range that was asked for: nothing is proven
            found[i] = SufficientSet(tuple(reversed(order)), tuple(order))
            return
        found[i] = sufficient_set(own.prover, i, order, seconds, smallest)

    over_tasks(range(len(problem)), run)
    names = batch.schema.names

    def named(features: Any) -> tuple[str, ...]:
        return tuple(names[j] for j in features)

    out = [
        SufficientReason(about, named(f.kept), named(f.undecided), f.smallest, named(np.flatnonzero(free[i])))
        for i, about in enumerate(row_contexts(batch))
        for f in (found[i],)
    ]
    return RowResults(out, batch.index.tolist())


def entailing(problem: Problem) -> Problem:
    """The problem of leaving the predicted class, whatever was asked for; of a number, of reaching the range."""
    if problem.origin is not None or not is_provable(problem.model):
        raise GraceError(
            "a sufficient reason is a proof about a ReLU network or an ensemble of trees that can be read, without "
            "rules, robust=, plausible= and follow="
        )
    if not isinstance(problem.goal, ClassGoal):
        return problem
    original = problem.model.decisive_scores(problem.rows).argmax(dim=1)
    return replace(problem, goal=Flip(original, 0.0, problem.model.shift))


def effects_of(problem: Problem) -> np.ndarray:
    """How far each feature (n, d) brings the goal nearer, at the best of a few values: the order in which features are
    released does not matter for what is proven."""
    n, d = problem.rows.shape
    best = np.full((n, d), -np.inf)
    for j in range(d):
        if j in problem.space.choices:
            codes = problem.space.choices[j].to(problem.rows.dtype)
            values = codes.expand(n, -1)
        else:
            share = torch.linspace(0, 1, LEVELS, dtype=problem.rows.dtype)
            low, high = (side[:, [j]].clamp(-1e300, 1e300) for side in (problem.low, problem.high))
            values = low + (high - low) * share
        tried = problem.rows[:, None].repeat(1, values.shape[1], 1)
        tried[:, :, j] = values
        scores = problem.model.decisive_scores(tried.reshape(-1, d)).reshape(n, values.shape[1], -1)
        best[:, j] = problem.goal.margin(scores).amax(dim=1).cpu().numpy()
    return best
