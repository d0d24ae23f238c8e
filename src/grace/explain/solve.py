"""Answers a chunk of rows: method, polish, proof, recheck, and alternatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grace.methods import METHODS, Method
from grace.methods.checks import Checks, check_answers, needs_every_change
from grace.methods.polish import polish, trees_of
from grace.methods.search import is_steady, steady_answers
from grace.models.base import checked_scores
from grace.models.checking import differs
from grace.problem.answers import NOT_ASKED, Answers, Cells, repeated
from grace.problem.cancellation import check_cancelled
from grace.problem.goal import Flip, Goal
from grace.problem.numpy_or_torch import places, to_native, to_numpy
from grace.problem.problem import Problem, positions
from grace.problem.settings import Settings
from grace.proofs.certificate import EXCEPT_TIES, FOUND, OPEN, PROVEN, prove
from grace.proofs.distance_bound import distance_bound
from grace.schema.features import Floats


def answer(
    problem: Problem,
    settings: Settings,
    rows: Floats | None = None,
    scores: Tensor | None = None,
    method: Method | None = None,
) -> Answers:
    """The best answer for each row, and up to n - 1 alternatives. `rows` are those of the problem in host memory, if
    there is a copy, and `scores` those of the model for them, if they are known; `method` replaces that of the
    settings."""
    rows = problem.rows.cpu().numpy() if rows is None else rows
    # inference mode: lower per-op overhead
    with torch.inference_mode() if problem.analytic_gradients else nullcontext():
        return _answers(problem, settings, rows, scores, method or METHODS[settings.method])


def _answers(problem: Problem, settings: Settings, rows: Floats, scores: Tensor | None, method: Method) -> Answers:
    """The best answers, and alternatives: each may not change the costliest features of the answers before it."""
    first = _answer(problem, settings, rows, method, scores)
    if settings.n == 1:
        return first
    others: list[Answers] = []
    barred = torch.zeros_like(problem.free)
    while len(others) < settings.n - 1:
        last = others[-1] if others else first
        active = np.flatnonzero(last.success)
        if len(active) == 0:
            break
        barred |= _key_feature(problem, last)
        index = torch.as_tensor(active, device=problem.rows.device)
        part = replace(problem, free=problem.free & ~barred).select(index)
        found = _answer(part, replace(settings, prove=False), rows[active], method)
        others.append(_only_new(_scatter_to_all_rows(first, found, active), [first, *others]))
    return replace(first, alternatives=tuple(others)) if others else first


def _scatter_to_all_rows(first: Answers, found: Answers, active: npt.NDArray[np.intp]) -> Answers:
    """Answers to some of the rows scattered to all rows."""
    out = first.missed()
    for name in ("success", "after", "distance"):
        getattr(out, name)[active] = getattr(found, name)
    for name, held in found.checks.items():
        out.checks[name][active] = held
    return replace(out, differing=replace(found.differing, row=active[found.differing.row]))


def _answer(problem: Problem, settings: Settings, rows: Floats, method: Method, own: Tensor | None = None) -> Answers:
    check_cancelled()
    if own is None:
        ruled = problem.origin is not None  # then the model checks the scores of the one that it wraps
        own = problem.scores(problem.rows) if ruled else checked_scores(problem.model, problem.rows)
    start = _with_original_first(problem.goal, own)
    margin, decided = _margin(problem.goal, start), _decided(problem.goal, start)
    trivial = decided | (margin >= problem.model.tolerance)
    found = _replace_rows(problem, ~trivial, problem.rows, lambda part, _: method.solve(part))
    if settings.polish and method.gets_polished and not method.polishes_itself:
        hit = (found != problem.rows).any(dim=1) & problem.reached(found)
        found = _replace_rows(problem, to_native(hit), found, polish)
    proof, nearest = repeated(NOT_ASKED, len(rows)), repeated(np.nan, len(rows))
    if settings.prove:
        found, proved = _proven(problem, method, found, torch.as_tensor(trivial), settings.budget)
        proof = to_numpy(proved)
    if trees_of(problem) is None:
        end = problem.scores(found)
    else:  # what was read off the model decided so far; the model itself has the last word
        start, end = _by_the_model(problem, start, found)
    checked = check_answers(problem, found)
    count, distance = checked.count, checked.distance
    checks = recheck(problem, checked, end)
    success = accepted(method, checks, count) & ~trivial
    contrast, after = found, end
    if not success.all():
        _check_trees(problem, method, count, success | trivial)
        passed = torch.as_tensor(success)[:, None]
        contrast, after = torch.where(passed, found, problem.rows), torch.where(passed, end, start)
        distance = distance * success
    if settings.prove and success.any():
        hits = torch.as_tensor(places(success))
        bound = to_numpy(distance_bound(problem.select(hits), contrast[hits], settings.budget))
        nearest = nearest.copy()  # the answer is a witness; sums in another order may differ in the last bit
        nearest[to_numpy(success)] = np.minimum(bound, to_numpy(distance)[to_numpy(success)])
    polished = method.polishes_itself or (settings.polish and method.gets_polished)
    checks["irreducible"] = _irreducible(problem, contrast, success, count) if polished else success & False
    reported = problem.model.n_reported
    answers = Answers(
        rows=rows,
        differing=_differing(problem.rows, contrast),
        success=to_numpy(success),
        trivial=to_numpy(trivial),
        before=to_numpy(start)[:, :reported],
        after=to_numpy(after)[:, :reported],
        distance=to_numpy(distance),
        proof=proof,
        nearest=nearest,
        checks={name: to_numpy(held) for name, held in checks.items()},
    )
    return answers.keep(contrast.numpy()) if contrast.is_cpu else answers


def _irreducible(problem: Problem, contrast: Tensor, success: Any, count: Any) -> Any:
    """Whether all changes of each row (n,) are needed, where there is an answer."""
    single = count < 2
    out = success & single
    if not single.all():
        several = places(success & ~single)
        if len(several):
            every, hits = len(several) == len(problem), torch.as_tensor(several)
            part = (problem, contrast) if every else (problem.select(hits), contrast[hits])
            out[several] = needs_every_change(*part)
    return out


def _by_the_model(problem: Problem, start: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """The model's own scores of the rows and of their answers; an error if it decides the rows in another way than what
    was read off it."""
    rows = np.concatenate([problem.rows.numpy(), found.numpy()])
    scores = problem.model.scores(torch.from_numpy(rows)).numpy()
    own, end = scores[: len(found)], scores[len(found) :]
    other = own.argmax(axis=1) != start.numpy().argmax(axis=1)
    if other.any():
        raise differs(problem.model.name, int(other.argmax()), "trees")
    return torch.from_numpy(own), torch.from_numpy(end)


def _check_trees(problem: Problem, method: Method, count: Any, right: Any) -> None:
    """An error where the exact search of a tree ensemble gave an answer that the model itself does not confirm."""
    if method.polishes_itself and trees_of(problem) is not None and not (right | (count == 0)).all():
        raise differs(problem.model.name, int(np.flatnonzero(~(right | (count == 0)))[0]), "trees")


def _margin(goal: Goal, scores: Tensor) -> Any:
    """The margin of each row; as numpy on a CPU."""
    if scores.is_cpu and isinstance(goal, Flip) and goal.leads and scores.shape[-1] == 2:  # without torch's overhead
        values = scores.numpy()
        lead = values[:, 1] - values[:, 0]
        return np.where(goal.original.numpy() == 0, lead, -lead)
    return to_native(goal.margin(scores))


def _decided(goal: Goal, scores: Tensor) -> Any:
    """Whether each row is decided as was asked for; as numpy on a CPU."""
    if scores.is_cpu and isinstance(goal, Flip) and goal.leads:
        return scores.numpy().argmax(axis=1) != goal.original.numpy()
    return to_native(goal.decided(scores))


def _with_original_first(goal: Goal, scores: Tensor) -> Tensor:
    """The scores of the rows, with that of the goal's original class raised to be the highest: which of two equal
    scores is larger may depend on the size of the batch."""
    if not isinstance(goal, Flip):
        return scores
    if scores.is_cpu and (scores.numpy().argmax(axis=1) == goal.original.numpy()).all():
        return scores
    best, original = scores.max(dim=1, keepdim=True), goal.original[:, None]
    first = torch.nextafter(best.values, torch.full_like(best.values, torch.inf))
    return torch.where(best.indices == original, scores, scores.scatter(1, original, first))


def _differing(before: Tensor, after: Tensor) -> Cells:
    """The cells of rows that have changed; only these are copied from a GPU."""
    if after.is_cpu:
        return Cells.between(before.numpy(), after.numpy())
    row, column = torch.nonzero(after != before, as_tuple=True)
    return Cells(*(part.cpu().numpy() for part in (row, column, after[row, column])))


def _replace_rows(problem: Problem, mask: Any, rows: Tensor, new: Callable[[Problem, Tensor], Tensor]) -> Tensor:
    """The rows (n, d), with those where the mask (n,) is true replaced by the result of a function."""
    if mask.all():
        return new(problem, rows)
    index = torch.as_tensor(places(mask))
    if len(index) == 0:
        return rows
    return rows.index_copy(0, index, new(problem.select(index), rows[index]))


def recheck(problem: Problem, found: Checks, scores: Tensor) -> dict[str, Any]:
    """Whether flip, K, gamma and domain hold (n,) for the final values and their scores; numpy on a CPU."""
    return {
        "flip": _margin(problem.goal, scores) >= problem.model.tolerance,
        "features": found.count <= problem.max_features,
        "gamma": found.informative,
        "domain": found.inside,
    }


def accepted(method: Method, checks: Mapping[str, Any], count: Any) -> Any:
    """Which rows (n,) are answers: changed, and with all promises of the method kept."""
    passed = (count > 0) & checks["flip"]
    for promise in method.promises:
        passed &= checks[promise]
    return passed


def _proven(problem: Problem, method: Method, found: Tensor, trivial: Tensor, budget: float) -> tuple[Tensor, Tensor]:
    """Prove that no answer with fewer changes exists (for a miss: with at most K). If the prover finds one, it replaces
    the answer, unless the nearest is preferred, and the proof is repeated."""

    def is_answer(part: Problem, rows: Tensor) -> Tensor:
        found = check_answers(part, rows)
        return torch.as_tensor(accepted(method, recheck(part, found, part.scores(rows)), found.count))

    found = found.clone()
    proof = torch.where(trivial, NOT_ASKED, OPEN)
    reached = is_answer(problem, found)
    left = positions(~trivial)
    while len(left):
        part = problem.select(left)
        count = (found[left] != part.rows).sum(dim=1)
        max_changes = torch.where(reached[left], count - 1, problem.max_features)
        verdict = prove(part, max_changes, budget)
        for status in (PROVEN, EXCEPT_TIES):
            proof[left[verdict.status == status]] = status
        kept = reached[left] if problem.prefer == "nearest" else torch.zeros_like(reached[left])
        smaller = positions((verdict.status == FOUND) & ~kept)
        if len(smaller):
            problems, rows = part.select(smaller), verdict.rows[smaller]
            polished = polish(problems, rows)
            if is_steady(problem):
                polished = steady_answers(problems, polished)
            found[left[smaller]] = torch.where(is_answer(problems, polished)[:, None], polished, rows)
            reached[left[smaller]] = True
        left = left[smaller]
    return found, proof


def _key_feature(problem: Problem, answers: Answers) -> Tensor:
    """A mask (n, d) of the costliest change of each answer, which the next alternative may not make."""
    contrast = torch.as_tensor(answers.contrast, device=problem.rows.device)
    costliest = problem.space.cost(problem.rows, contrast).argmax(dim=1, keepdim=True)
    success = torch.as_tensor(answers.success, device=problem.rows.device)
    return torch.zeros_like(problem.free).scatter(1, costliest, True) & success[:, None]


def _only_new(found: Answers, earlier: list[Answers]) -> Answers:
    """Alternatives without those whose set of features is a subset or a superset of that of an earlier answer."""
    changed = found.contrast != found.rows
    keep = found.success.copy()
    for other in earlier:
        theirs = other.contrast != other.rows
        incomparable = np.any(changed & ~theirs, axis=1) & np.any(theirs & ~changed, axis=1)
        keep &= incomparable & other.success
    contrast = np.where(keep[:, None], found.contrast, found.rows)
    return found.with_contrast(contrast, success=keep)
