"""Proofs for tree ensembles: whether an answer with at most k changes exists, and how near one could be.

The branch and bound of `grace.methods.trees` without a limit but time. Sums of trees are constant between thresholds,
so that it ends with a decision. It prunes only below what rounding in the library's own sums can explain; cells between
are decided by the model itself. A tie, which the model decides as was asked for by less than the margin of an answer,
is no answer: the verdict on fewer changes then leaves ties out and says so, while the bound on distances covers them.
"""

from __future__ import annotations

import time
from threading import Event

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled.threads import over_tasks
from grace.methods.trees import Arrays, own_work, ready, tree_arrays
from grace.methods.trees.aims import aims_of
from grace.methods.trees.branch import DONE, advance, begin_level, begin_row
from grace.methods.trees.rows import TreeWork
from grace.methods.trees.search_nodes import CROWDED, LOST, NODES, UNSURE, limit_moves
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem
from grace.proofs.verdicts import EXCEPT_TIES, FOUND, OPEN, PROVEN, Verdicts

CELLS_LOST = -1  # a verdict within this file
SLICE = 1_000_000  # nodes of trees between two looks at the clock, some hundredths of a second


def prove_trees(problem: Problem, ensemble: TreeEnsemble, most: Tensor, budget: float) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, giving up on a row
    after `budget` seconds of work."""
    n, d = problem.rows.shape
    arrays = tree_arrays(problem, ensemble, ties=True)
    without_ties: Arrays = (arrays[0], aims_of(problem, ensemble), *arrays[2:])
    status, nodes, seconds = np.full(n, PROVEN), np.zeros(n, dtype=np.int64), np.zeros(n)
    found, widest = problem.rows.numpy().copy(), max(1, min(d, int(most.max())))
    ready()

    def decide(i: int, stop: Event) -> None:
        work, begun = own_work(arrays[0], arrays[2], d, widest), time.thread_time()
        work.search.region.counts[0] = 0
        status[i], row = decide_row(problem, arrays, without_ties, i, int(most[i]), begun + budget, work, stop)
        if row is not None:
            found[i] = row
        nodes[i], seconds[i] = work.search.region.counts[0], time.thread_time() - begun

    over_tasks(np.flatnonzero(most.numpy() > 0).tolist(), decide)
    return Verdicts(*(torch.from_numpy(part) for part in (status, found, nodes, seconds)))


def decide_row(
    problem: Problem, arrays: Arrays, without_ties: Arrays, i: int, most: int, until: float, work: TreeWork,
    stop: Event,
) -> tuple[int, np.ndarray | None]:  # fmt: skip
    """The verdict on a row, and the answer that was found. Fewer changes are tried first, unless all features that may
    change may do so together: then any number of changes at once."""
    work.search.free[:] = arrays[3].free[i]
    together = most > 1 and most >= int(work.search.free.sum())
    status, fresh = PROVEN, True
    for changes in [most] if together else range(1, most + 1):
        verdict, row = _decide(problem, arrays, i, changes, together, fresh, until, work, stop)
        fresh = verdict == CELLS_LOST
        if verdict == CELLS_LOST:  # answers alone, which ties are not
            verdict, row = _decide(problem, without_ties, i, changes, together, fresh, until, work, stop)
            verdict = {PROVEN: EXCEPT_TIES, CELLS_LOST: OPEN}.get(verdict, verdict)
        if verdict in (OPEN, FOUND):
            return verdict, row
        status = verdict if verdict != PROVEN else status
    return status, None


def _decide(
    problem: Problem, arrays: Arrays, i: int, changes: int, fewer: bool, fresh: bool, until: float, work: TreeWork,
    stop: Event,
) -> tuple[int, np.ndarray | None]:  # fmt: skip
    """The verdict on a row with so many changes, or also with `fewer`, and the answer that was found; CELLS_LOST where
    there are more cells in question than are kept, and no answer among these. The row is `fresh` unless the same was
    asked of it with another number of changes before."""
    s = work.search
    if fresh:
        begin_row(*arrays, i, changes, s)
    else:
        begin_level(arrays[1], changes, s)
    code = DONE + 1
    while code != DONE:
        if time.thread_time() >= until or stop.is_set():
            return OPEN, None
        check_cancelled()
        code = advance(*arrays, i, fewer, SLICE, work.answer, s)
        if s.best[0] < np.inf:
            row = work.answer.copy()
            return (FOUND, row) if _asked(problem, i, row[None])[0].all() else (OPEN, None)
    tied = False
    if s.state[UNSURE]:
        cells = s.unsure[: s.state[UNSURE]].copy()
        reached, fits, decided = _asked(problem, i, cells)
        if (reached & fits).any():
            return FOUND, cells[(reached & fits).argmax()]
        if reached.any():
            return OPEN, None
        tied = bool(decided.any())  # by less than the margin that an answer needs
    if s.state[LOST]:
        return OPEN, None
    return (CELLS_LOST if s.state[CROWDED] else EXCEPT_TIES if tied else PROVEN), None


def _asked(problem: Problem, i: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether rows reach the goal of row i by the model itself, whether they are within its limits, and whether the
    model decides as was asked for, by however little."""
    part, tried = problem.select(torch.full((len(rows),), i)), torch.from_numpy(rows)
    scores = part.scores(tried)
    reached = part.goal.margin(scores) >= problem.model.tolerance
    fits = part.inside(tried).all(dim=1) & ~part.redundant(tried)
    return reached.numpy(), fits.numpy(), part.goal.decided(scores).numpy()


def least_distance(problem: Problem, ensemble: TreeEnsemble, contrast: Tensor, budget: float) -> Tensor:
    """The distance (n,) below which no row is decided as was asked for that changes only features changed in
    `contrast`; or, if the nearest answers of all are preferred, at most K of any features."""
    n, d = problem.rows.shape
    changed = problem.free.numpy()
    count = np.full(n, problem.max_features)
    if problem.prefer != "nearest":
        changed = changed & (contrast != problem.rows).numpy()
        count = changed.sum(axis=1)
    arrays = tree_arrays(problem, ensemble, ties=True)
    without_ties: Arrays = (arrays[0], aims_of(problem, ensemble), *arrays[2:])
    widest = max(1, int(count.max())) if n else 1
    own = problem.space.distance(problem.rows, contrast)
    least, square = np.zeros(n), problem.space.norm == "l2"
    ready()

    def decide(i: int, stop: Event) -> None:
        work, until = own_work(arrays[0], arrays[2], d, widest), time.thread_time() + budget
        s = work.search

        def bound(given: Arrays) -> float:
            s.free[:] = changed[i]
            begin_row(*given, i, max(1, int(count[i])), s)
            s.best[0] = float(own[i]) ** 2 if square else float(own[i])
            limit_moves(given[0], *given[2:], i, s)
            code = DONE + 1
            while code != DONE and time.thread_time() < until and not stop.is_set():
                check_cancelled()
                code = advance(*given, i, True, SLICE, work.answer, s)
            waiting = s.cost[: s.state[NODES]].min() if s.state[NODES] else np.inf
            return float(min(s.best[1], waiting, 0.0 if s.state[LOST] else np.inf))

        nearest = bound(arrays)
        if s.state[UNSURE] and not (s.state[CROWDED] or s.state[LOST] or s.state[NODES]):
            reached, _, decided = _asked(problem, i, s.unsure[: s.state[UNSURE]].copy())
            if not (reached | decided).any():  # cells in question that the model decides otherwise
                nearest = max(nearest, bound(without_ties))
        least[i] = np.sqrt(nearest) if square else nearest

    over_tasks(list(range(n)), decide)
    return torch.minimum(torch.from_numpy(least), own)
