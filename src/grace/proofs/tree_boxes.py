"""Whether a tree ensemble decides the same everywhere in a box.

The branch and bound of `methods.trees` with one node per group of functionals, in which all numbers of the box move: it
is dropped where the bound excludes another decision, and split at thresholds otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Event

import numpy as np
import torch

from grace.methods.compiled.threads import over_tasks
from grace.methods.trees import Arrays, own_work, ready, tree_arrays
from grace.methods.trees.branch import DONE, STOPPED, advance
from grace.methods.trees.regions import LIMITS
from grace.methods.trees.regions import VISITS as VISITED
from grace.methods.trees.search_nodes import LOST, NODES, UNSURE, Search
from grace.models.compiled import Ints
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.cancellation import check_cancelled
from grace.problem.goal import Against, Between, Flip, Goal
from grace.problem.problem import Problem
from grace.proofs.boxes import FAILS, HOLDS, OUT_OF_WORK, UNDECIDED, BoxChecker, Checked
from grace.schema.features import Bools, Floats

VISITS = 4e7  # of nodes of trees in a second
SLICE = 20_000  # visits between two looks at whether a counterexample was found


class TreeBoxes(BoxChecker):
    """Branch and bound over the cells of a tree ensemble in a box, see `methods.trees.branch`."""

    proves = True

    def __init__(self, problem: Problem, ensemble: TreeEnsemble) -> None:
        ready()
        self.problem, self.goals = problem, leaving(problem)
        self.arrays = [tree_arrays(replace(problem, goal=goal), ensemble, ties=True) for goal, _ in self.goals]

    def check(self, owner: Ints, low: Floats, high: Floats, seconds: Floats) -> Checked:
        m = len(low)
        status, point, spent = np.full(m, HOLDS), low.copy(), np.zeros(m)
        most = max(1, int((high > low).sum(axis=1).max(initial=0)))
        for arrays, (_, applies) in zip(self.arrays, self.goals, strict=True):
            trees, aims, columns, table = arrays
            named = {name: getattr(aims, name)[owner] for name in ("kind", "constant", "needed", "excluded")}
            boxes = trees, aims._replace(**named), columns, table._replace(rows=low, low=low, high=high)

            def decide(t: int, stop: Event, boxes: Arrays = boxes) -> None:
                check_cancelled()
                status[t], point[t], work = self._decide(boxes, t, int(owner[t]), seconds[t] - spent[t], most)
                spent[t] += work

            over_tasks(np.flatnonzero((status == HOLDS) & applies[owner]).tolist(), decide)
        return Checked(status, point, spent, np.zeros(m, dtype=np.int64))

    def _decide(self, boxes: Arrays, t: int, owner: int, seconds: float, most: int) -> tuple[int, Floats, float]:
        """The status of box t for one of the goals, where it fails, and the work that it took."""
        trees, aims, columns, table = boxes
        work = own_work(trees, columns, table.rows.shape[1], most)
        s, code, status, point = work.search, STOPPED, HOLDS, table.rows[t]
        begin_box(table.low[t], table.high[t], len(aims.groups) - 1, s)
        while code != DONE and status == HOLDS:
            code = advance(trees, aims, columns, table, t, False, SLICE, work.answer, s)
            if s.best[0] < np.inf:
                status, point = FAILS, work.answer.copy()
            elif code != DONE and s.region.counts[VISITED] > seconds * VISITS:
                status = OUT_OF_WORK
        if status == HOLDS and s.state[UNSURE]:
            rows = s.unsure[: s.state[UNSURE]].copy()
            part = self.problem.select(torch.full((len(rows),), owner))
            leaves = ~part.goal.decided(part.scores(torch.from_numpy(rows))).numpy()
            if leaves.any():
                status, point = FAILS, rows[leaves.argmax()]
        if status == HOLDS and s.state[LOST]:
            status = UNDECIDED
        return status, point, s.region.counts[VISITED] / VISITS


def begin_box(low: Floats, high: Floats, groups: int, s: Search) -> None:
    """The branch and bound of a box: one node per group of functionals, in which all of its numbers move."""
    moving = np.flatnonzero(high > low)
    k = len(moving)
    s.region.counts[VISITED] = s.state[:] = 0
    s.region.counts[LIMITS] += 1  # nothing that is remembered of another row or box counts here
    s.best[:], s.free[:] = np.inf, False
    s.moved[:groups], s.left[:groups], s.cost[:groups], s.closed[:groups] = k, 0, 0.0, 0
    s.group[:groups], s.feature[:groups, :k] = np.arange(groups), moving
    s.low[:groups, :k], s.high[:groups, :k] = low[moving], high[moving]
    s.state[NODES] = groups


def leaving(problem: Problem) -> list[tuple[Goal, Bools]]:
    """The goals of leaving the decision that a problem asks for, each with the rows (n,) that it applies to."""
    goal = problem.goal
    if not isinstance(goal, Between):
        assert isinstance(goal, Against)
        return [(Flip(goal.wanted, 0.0, goal.shift), np.ones(len(problem), dtype=bool))]
    ends = torch.full_like(goal.low, torch.inf)
    above, below = torch.nextafter(goal.high, ends), torch.nextafter(goal.low, -ends)
    return [
        (Between(start, stop, goal.scale), torch.isfinite(end).numpy())
        for start, stop, end in ((above, ends, goal.high), (-ends, below, goal.low))
        if torch.isfinite(end).any()
    ]
