"""Every claim of an explanation, checked from outside: by the model itself, and by the MILP where it is a proof."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch

import grace
from fuzz_cases import Case
from grace import Categorical, Explanation
from milp_checker import BAND, Question, Verdict, decide
from milp_network import Weights, weights_of
from milp_question import Aim, Cell, cells_of, distance

Array = np.ndarray
NOISE = 1e-9  # scores that are equal but for rounding
NEARER = 1 - 1e-5  # what counts as nearer than a distance
DENSE, GRID, DRAWN = 201, 21, 20_000  # values tried of one number, of each of two, and rows drawn at random


@dataclass
class Report:
    """How many proofs were decided, how many were too close to call, how many answers were looked at; what is false."""

    decided: int = 0
    unclear: int = 0
    answers: int = 0
    false: list[str] = field(default_factory=list)

    def count(self, verdict: Verdict, claim: str) -> None:
        if verdict.answer == "unclear":
            self.unclear += 1
            return
        self.decided += 1
        if verdict.answer == "yes":
            self.false.append(f"{claim}, but {np.asarray(verdict.row).tolist()} does it")

    def add(self, other: Report) -> None:
        self.decided += other.decided
        self.unclear += other.unclear
        self.answers += other.answers
        self.false += other.false


class Model:
    """The model as whoever made it would ask it: scores of encoded rows, where a tie goes to the lower class."""

    def __init__(self, case: Case, seconds: float = 20.0) -> None:
        self.case, self.schema, self.seconds = case, case.explainer.schema, seconds
        self.classes = list(case.explainer.model.classes)
        self.weights: Weights | None = None
        if case.module is not None:
            self.module = copy.deepcopy(case.module).double() if case.plain else case.module
            if case.plain:
                self.weights = weights_of(self.module, self.schema.features, len(self.classes))

    def scores(self, rows: Array) -> Array:
        if self.case.module is None:
            labels = self.case.predict(self.frame(rows))
            return np.array([[label == c for c in self.classes] for label in labels], dtype=np.float64)
        with torch.no_grad():
            out = self.module(torch.as_tensor(rows)).numpy()
        return np.hstack([0 * out, out]) if out.shape[1] == 1 else out

    def frame(self, rows: Array) -> pd.DataFrame:
        """Encoded rows as a table of the types of training."""
        parts = {
            f.name: [f.categories[int(v)] for v in rows[:, j]] if isinstance(f, Categorical) else rows[:, j]
            for j, f in enumerate(self.schema.features)
        }
        return pd.DataFrame(parts)

    def encode(self, row: dict[str, Any]) -> Array:
        """One number per cell, as a person would type them in."""
        return np.array(
            [
                f.categories.index(row[f.name]) if isinstance(f, Categorical) else float(row[f.name])
                for f in self.schema.features
            ],
            dtype=np.float64,
        )


def review(case: Case, seconds: float = 20.0) -> Report:
    """All that was claimed about the rows of a case; the MILP gets so many seconds for each proof."""
    model, report = Model(case, seconds), Report()
    asked = [model.encode(row) for row in case.rows.to_dict("records")]
    batch = answered(case)
    for i, x in enumerate(asked):
        e = batch[i]
        known = question_of(case, model, x, e)
        for problem in answer_problems(case, model, known, x, e):
            report.false.append(f"row {i}: {problem}")
        report.answers += 1
        if e.proof is not None:
            check_proof(case, model, known, e, report, f"row {i}")
    return report


def answered(case: Case) -> grace.Explanations:
    """The explanations; without proofs where the model is refused one, as a module in disguise may be."""
    try:
        batch = case.explainer.explain(case.rows, **case.call)
    except grace.GraceError as refused:
        if case.plain or "proof needs" not in str(refused):
            raise
        batch = case.explainer.explain(case.rows, **{**case.call, "prove": False})
    batch.details.diagnosis = {}  # the reasons of misses are looked for by asking again, and not looked at here
    return batch


def question_of(case: Case, model: Model, x: Array, e: Explanation) -> Question:
    """What was asked about a row, from the schema of the domain, the limits of the call and the model's class; where
    that is a matter of rounding, the class that was said."""
    call, explainer = case.call, case.explainer
    cells = cells_of(explainer.schema_for(call["domain"]).features, x, call)
    scores = model.scores(x[None])[0]
    original, said = int(scores.argmax()), model.classes.index(e.original_class)
    if not case.exact and scores[original] - scores[said] < NOISE * (1 + np.abs(scores).max()):
        original = said
    against = call.get("against")
    wanted = None if against is None else model.classes.index(against)
    aim = Aim.of(len(model.classes), original, wanted, call.get("confidence", 0.0))
    conflict = []
    if call["gamma"] < 1:
        conflict = [(i, j) for i, j in combinations(range(len(x)), 2) if explainer.su[i, j] > call["gamma"] + 1e-12]
    return Question(cells, aim, call["max_features"], conflict)


# -- the answer -------------------------------------------------------------------------------------


def answer_problems(case: Case, model: Model, question: Question, x: Array, e: Explanation) -> Iterator[str]:
    """What is wrong with a printed answer, by the model itself."""
    if not np.array_equal(model.encode(e.row), x):
        yield "the row is not the one that was asked about"
    scores = model.scores(x[None])[0]
    if scores.max() - scores[model.classes.index(e.original_class)] > NOISE * (1 + np.abs(scores).max()):
        yield f"the original class is not {e.original_class}"
    already = bool(reached(model, question.aim, x[None], strict=not case.exact)[0])
    if not e.success:
        if e.miss["why"] != "already" and e.checks["flip"] and e.checks["features"] and e.checks["gamma"]:
            yield "an answer was found and lost"
        return
    if already:
        yield "changes are given though the row is already what was asked for"
    new = model.encode(e.contrast)
    changed = np.flatnonzero(new != x)
    if {c.name for c in e.changes} != {model.schema.names[j] for j in changed}:
        yield "the changes are not those of the row"
    if not question.allows(new):
        yield f"{new.tolist()} breaks K, gamma or the domain"
    if not reached(model, question.aim, new[None])[0]:
        yield f"{new.tolist()} does not reach the goal"
    if model.classes[int(model.scores(new[None]).argmax())] != e.contrast_class:
        yield "the contrast class is not what the model says"
    if case.module is not None:
        length = distance(question.cells, new, case.call["distance"])
        if abs(length - e.distance) > 1e-9 * (1 + length):
            yield f"the distance is {length}, not {e.distance}"
    if e.checks["irreducible"]:
        parts = [s for size in range(1, len(changed)) for s in combinations(changed, size)]
        rows = np.repeat(x[None], len(parts), axis=0)
        for row, part in zip(rows, parts, strict=True):
            row[list(part)] = new[list(part)]
        enough = reached(model, question.aim, rows, strict=not case.exact) if parts else np.zeros(0, dtype=bool)
        if enough.any():
            yield f"not irreducible: {rows[int(enough.argmax())].tolist()} is enough"


def reached(model: Model, aim: Aim, rows: Array, *, strict: bool = False) -> Array:
    """Whether rows reach the aim by the model's own argmax, the lower class where there is a tie; `strict`: and by more
    than rounding."""
    scores = model.scores(rows)
    won = np.isin(scores.argmax(axis=1), list(aim.rivals))
    if aim.confidence > 0:
        won &= aim.margin(scores) >= -NOISE
    return won & (aim.margin(scores) > NOISE) if strict else won


# -- the proof --------------------------------------------------------------------------------------


def check_proof(case: Case, model: Model, question: Question, e: Explanation, report: Report, where: str) -> None:
    verdict, count = e.proof["verdict"], len(e.changes)
    if verdict == "minimal" and count > 1:
        fewer = replace(question, most=count - 1)
        report.count(opinion(model, fewer), f"{where}: proven that {count - 1} changes are not enough")
    elif verdict == "minimal":
        if question.aim.margin(model.scores(question.start[None]))[0] > BAND:
            report.false.append(f"{where}: proven minimal, though the row itself is an answer")
    elif verdict == "impossible":
        report.count(opinion(model, question), f"{where}: proven impossible with {question.most} changes")
    elif verdict != "open":
        report.false.append(f"{where}: {verdict!r} is no verdict that is known here")
    least = e.proof["distance_at_least"]
    if least is not None and least > 0:
        new = model.encode(e.contrast)
        cells = [c if new[j] != c.value else replace(c, free=False) for j, c in enumerate(question.cells)]
        near = replace(question, cells=cells, most=count, within=(case.call["distance"], least * NEARER))
        report.count(opinion(model, near), f"{where}: proven that nothing is nearer than {least}")


def opinion(model: Model, question: Question) -> Verdict:
    """By the MILP, or for a module that is no plain network by trying out."""
    if model.weights is not None:
        return decide(model.weights, question, model.scores, model.seconds)
    found = tried(model.scores, question)
    return Verdict("no" if found is None else "yes", found)


def tried(scores: Callable[[Array], Array], question: Question) -> Array | None:
    """A row as asked for among densely spaced single changes, grids of pairs and rows drawn at random, if any."""
    x, rng = question.start, np.random.default_rng(0)
    free = [j for j, cell in enumerate(question.cells) if cell.free]
    rows = [_moved(x, (j,), [values(question.cells[j], DENSE)]) for j in free]
    if question.most > 1:
        for pair in combinations(free, 2):
            rows.append(_moved(x, pair, [values(question.cells[j], GRID) for j in pair]))
    if question.most > 2 and len(free) > 2:
        for part in combinations(free, min(question.most, len(free))):
            drawn = np.repeat(x[None], DRAWN, axis=0)
            for j in part:
                drawn[:, j] = rng.choice(values(question.cells[j], DENSE), DRAWN)
            rows.append(drawn)
    for some in rows:
        hits = some[question.aim.margin(scores(some)) > BAND]
        found = next((row for row in hits if question.allows(row)), None)
        if found is not None:
            return found
    return None


def values(cell: Cell, count: int) -> Array:
    if cell.codes is not None:
        return np.array([cell.value, *cell.codes])
    even = np.linspace(cell.low, cell.high, count)
    return np.unique(np.clip(even.round() if cell.whole else even, cell.low, cell.high))


def _moved(x: Array, features: tuple[int, ...], options: list[Array]) -> Array:
    grid = np.stack([g.reshape(-1) for g in np.meshgrid(*options, indexing="ij")], axis=1)
    rows = np.repeat(x[None], len(grid), axis=0)
    rows[:, list(features)] = grid
    return rows
