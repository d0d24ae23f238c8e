"""Answers a chunk of rows: method, polish, proof, recheck, and alternatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grace.methods import METHODS, Method
from grace.methods.polish import needs_every_change, polish
from grace.models.base import checked_scores
from grace.problem.answers import NOT_ASKED, Answers
from grace.problem.cancellation import check_cancelled
from grace.problem.goal import Flip, Goal
from grace.problem.problem import Problem, positions
from grace.problem.settings import Settings
from grace.proofs.certificate import FOUND, OPEN, PROVEN, prove
from grace.proofs.distance_bound import distance_bound
from grace.schema.features import Floats


def answer(problem: Problem, settings: Settings, rows: Floats | None = None) -> Answers:
    """The best answer for each row, and up to n - 1 alternatives. `rows` are those of the problem in host memory, if
    there is a copy."""
    rows = problem.rows.cpu().numpy() if rows is None else rows
    # inference mode: lower per-op overhead
    with torch.inference_mode() if problem.analytic_gradients else nullcontext():
        return _answers(problem, settings, rows)


def _answers(problem: Problem, settings: Settings, rows: Floats) -> Answers:
    """The best answers, and alternatives: each may not change the costliest features of the answers before it."""
    first = _answer(problem, settings, rows)
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
        found = _answer(part, replace(settings, prove=False), rows[active])
        others.append(_only_new(_scatter_to_all_rows(first, found, active), [first, *others]))
    return replace(first, alternatives=tuple(others)) if others else first


def _scatter_to_all_rows(first: Answers, found: Answers, active: npt.NDArray[np.intp]) -> Answers:
    """Answers to some of the rows scattered to all rows."""
    out = first.missed()
    for name in ("contrast", "success", "after", "distance"):
        getattr(out, name)[active] = getattr(found, name)
    for name, held in found.checks.items():
        out.checks[name][active] = held
    return out


def _answer(problem: Problem, settings: Settings, rows: Floats) -> Answers:
    check_cancelled()
    method = METHODS[settings.method]
    ruled = problem.origin is not None  # then the model checks the scores of the one that it wraps
    own = problem.scores(problem.rows) if ruled else checked_scores(problem.model, problem.rows)
    start = _with_original_first(problem.goal, own)
    trivial = problem.goal.decided(start) | (problem.goal.margin(start) >= problem.model.tolerance)
    found = _replace_rows(problem, ~trivial, problem.rows, lambda part, _: method.solve(part))
    if settings.polish and method.gets_polished and not method.polishes_itself:
        hit = (found != problem.rows).any(dim=1) & problem.reached(found)
        found = _replace_rows(problem, hit, found, polish)
    proof = torch.full_like(trivial, NOT_ASKED, dtype=torch.int64)
    if settings.prove:
        found, proof = _proven(problem, method, found, trivial, settings.budget)
    end = problem.scores(found)
    checks = recheck(problem, found, end)
    success = accepted(method, problem, found, checks) & ~trivial
    contrast = torch.where(success[:, None], found, problem.rows)
    nearest = torch.full_like(start[:, 0], torch.nan)
    if settings.prove and success.any():
        hits = positions(success)
        nearest[hits] = distance_bound(problem.select(hits), contrast[hits], settings.budget)
    checks["irreducible"] = torch.zeros_like(success)
    if method.polishes_itself or (settings.polish and method.gets_polished):
        hits = positions(success)
        checks["irreducible"][hits] = needs_every_change(problem.select(hits), contrast[hits])
    return Answers(
        rows=rows,
        contrast=_to_numpy(problem.rows, contrast, rows),
        success=success.cpu().numpy(),
        trivial=trivial.cpu().numpy(),
        before=start[:, : problem.model.n_reported].cpu().numpy(),
        after=torch.where(success[:, None], end, start)[:, : problem.model.n_reported].cpu().numpy(),
        distance=problem.space.distance(problem.rows, contrast).cpu().numpy(),
        proof=proof.cpu().numpy(),
        nearest=nearest.cpu().numpy(),
        checks={k: v.cpu().numpy() for k, v in checks.items()},
        followed=np.zeros(contrast.shape, dtype=bool),
    )


def _with_original_first(goal: Goal, scores: Tensor) -> Tensor:
    """The scores of the rows, with that of the goal's original class raised to be the highest: which of two equal
    scores is larger may depend on the size of the batch."""
    if not isinstance(goal, Flip):
        return scores
    best, original = scores.max(dim=1, keepdim=True), goal.original[:, None]
    if torch.equal(best.indices, original):
        return scores
    first = torch.nextafter(best.values, torch.full_like(best.values, torch.inf))
    return torch.where(best.indices == original, scores, scores.scatter(1, original, first))


def _to_numpy(before: Tensor, after: Tensor, rows: Floats) -> Floats:
    """Contrastive rows as an array; only changed cells are copied from a GPU."""
    if after.is_cpu:
        return after.numpy()
    row, column = torch.nonzero(after != before, as_tuple=True)
    out = rows.copy()
    out[row.cpu().numpy(), column.cpu().numpy()] = after[row, column].cpu().numpy()
    return out


def _replace_rows(problem: Problem, mask: Tensor, rows: Tensor, new: Callable[[Problem, Tensor], Tensor]) -> Tensor:
    """The rows (n, d), with those where the mask (n,) is true replaced by the result of a function."""
    index = positions(mask)
    if len(index) == len(rows):
        return new(problem, rows)
    if len(index) == 0:
        return rows
    return rows.index_copy(0, index, new(problem.select(index), rows[index]))


def recheck(problem: Problem, found: Tensor, scores: Tensor) -> dict[str, Tensor]:
    """Whether flip, K, gamma and domain hold (n,) for the final values and their scores."""
    changed = found != problem.rows
    return {
        "flip": problem.goal.margin(scores) >= problem.model.tolerance,
        "features": changed.sum(dim=1) <= problem.max_features,
        "gamma": ~problem.redundant(found),
        "domain": problem.inside(found).all(dim=1),
    }


def accepted(method: Method, problem: Problem, found: Tensor, checks: Mapping[str, Tensor]) -> Tensor:
    """Which rows (n,) are answers: changed, and with all promises of the method kept."""
    promised = [checks[promise] for promise in ("flip", *method.promises)]
    return torch.stack([(found != problem.rows).any(dim=1), *promised]).all(dim=0)


def _proven(problem: Problem, method: Method, found: Tensor, trivial: Tensor, budget: float) -> tuple[Tensor, Tensor]:
    """Prove that no answer with fewer changes exists (for a miss: with at most K). If the prover finds one, it replaces
    the answer, and the proof is repeated."""

    def is_answer(part: Problem, rows: Tensor) -> Tensor:
        return accepted(method, part, rows, recheck(part, rows, part.scores(rows)))

    found = found.clone()
    proof = torch.where(trivial, NOT_ASKED, OPEN)
    reached = is_answer(problem, found)
    left = positions(~trivial)
    while len(left):
        part = problem.select(left)
        count = (found[left] != part.rows).sum(dim=1)
        max_changes = torch.where(reached[left], count - 1, problem.max_features)
        verdict = prove(part, max_changes, budget)
        proof[left[verdict.status == PROVEN]] = PROVEN
        smaller = positions(verdict.status == FOUND)
        if len(smaller):
            problems, rows = part.select(smaller), verdict.rows[smaller]
            polished = polish(problems, rows)
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
    return replace(found, success=keep, contrast=contrast)
