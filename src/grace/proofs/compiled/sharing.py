"""Rows decided on all cores: a thread without work takes over a part of what another one has left to do.

A part of the branch and bound of a row is what remains along one path of nodes. It is split at the node nearest to the
root with further children, which become a part of their own, the next in the order of the search. A verdict is that of
the search on one thread: of all answers, the first in that order counts; and a row with ties, after which the search
goes on in another way (`tree`), is decided anew by one thread.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition

import numpy as np
import torch

from grace.methods.compiled import Arrays
from grace.methods.compiled.threads import PATIENCE, pool
from grace.models.compiled import Floats, Layers
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.lines import LineWork, is_single_change_excluded, line_work
from grace.proofs.compiled.rows import CHILDREN, DEPTH, GROUP, LEFT, NEXT, NODES, STUCK, Aims, Search, search
from grace.proofs.compiled.tree import CANDIDATE, CLOSED, advance
from grace.proofs.verdicts import FOUND, OPEN, PROVEN

SLICE = 2e7  # products between two looks at the clock and at the other threads, about a hundredth of a second


@dataclass(eq=False)
class Part:
    """A part of the search for a row, up to the group `end` of its functionals. It is not `wanted` any more when there
    is an answer in an earlier part, or the row is decided."""

    row: Row
    work: Search
    end: int
    fresh: bool = False
    wanted: bool = True


@dataclass(eq=False)
class Row:
    """A row that is being decided, and what is left of its search, in order."""

    i: int
    most: int
    parts: list[Part] = field(default_factory=list)
    was_split: bool = False
    alone: bool = False  # not to be split
    status: int = PROVEN
    answer: Floats | None = None
    seconds: float = 0.0
    nodes: int = 0


class SharedProofs:
    """Decides rows of a problem with at most `most` (n,) changes, each in `budget` seconds of work on all threads."""

    def __init__(self, problem: Problem, arrays: Arrays, aims: Aims, most: Sequence[int], budget: float) -> None:
        self.problem, self.arrays, self.aims, self.budget = problem, arrays, aims, budget
        self.sizes = problem.rows.shape[1], min(problem.rows.shape[1], max(most, default=1))
        self.rows = [Row(i, count) for i, count in enumerate(most) if count > 0]
        self.limit = work_limit(arrays[0], SLICE)
        self.unstarted, self.waiting = deque(self.rows), deque[Part]()
        self.spare: list[Search] = []
        self.changed = Condition()  # also the lock of all that is shared
        self.running = self.idle = 0
        self.stopped = False
        self.helpers: list[Future[None]] = []

    def run(self) -> list[Row]:
        """Decide all rows."""
        self._call_helpers(len(self.rows) - 1)
        try:
            self._serve()
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()
            failures = [helper.exception() for helper in self.helpers if not helper.cancel()]
        for failure in failures:
            if failure is not None:
                raise failure
        return self.rows

    def _call_helpers(self, count: int) -> None:
        """Have so many further threads help, or as many as torch uses."""
        threads = torch.get_num_threads()
        while len(self.helpers) < min(count, threads - 1):
            self.helpers.append(pool(os.getpid(), threads).submit(self._serve))

    def _serve(self) -> None:
        """Work on one part after another until all is done."""
        lines = line_work(self.arrays[0])
        try:
            while (part := self._next_part()) is not None:
                self._work_on(part, lines)
        except BaseException:
            with self.changed:
                self.stopped = True
            raise
        finally:
            with self.changed:
                self.changed.notify_all()

    def _next_part(self) -> Part | None:
        while True:
            check_cancelled()
            with self.changed:
                if self.stopped:
                    return None
                if self.waiting or self.unstarted:
                    self.running += 1
                    return self.waiting.popleft() if self.waiting else self._begin(self.unstarted.popleft())
                if self.running == 0:
                    return None
                self.idle += 1
                self.changed.wait(PATIENCE)
                self.idle -= 1

    def _begin(self, row: Row) -> Part:
        """The whole search for a row as one part."""
        row.parts = [Part(row, self._free_work(), len(self.aims.groups) - 1, fresh=True)]
        return row.parts[0]

    def _free_work(self) -> Search:
        return self.spare.pop() if self.spare else search(self.arrays[0], *self.sizes)

    def _work_on(self, part: Part, lines: LineWork) -> None:
        """Go on with a part until it is done or not wanted any more."""
        row, work, begun = part.row, part.work, time.thread_time()
        going = not (part.fresh and is_decided_at_once(self.arrays, self.aims, row.i, row.most, work, lines))
        part.fresh = False
        if not going:
            with self.changed:
                self._end(part)
        while going:
            check_cancelled()
            aims = self.aims._replace(groups=self.aims.groups[: part.end + 1])
            code = advance(*self.arrays, aims, row.i, self.problem.model.tolerance, self.limit, work)
            answer = work.trial.copy() if code == CANDIDATE and is_answer(self.problem, row.i, work) else None
            now = time.thread_time()
            with self.changed:
                row.seconds += now - begun
                begun = now
                going = not self.stopped and part.wanted and self._goes_on(part, code, answer)
                if going:
                    self._share(part)
        with self.changed:
            row.nodes += work.state[NODES]
            row.seconds += time.thread_time() - begun
            self.spare.append(work)
            self.running -= 1
            self.changed.notify_all()

    def _goes_on(self, part: Part, code: int, answer: Floats | None) -> bool:
        """Whether a part goes on after a step, with what follows for its row."""
        row, stuck = part.row, bool(part.work.state[STUCK])
        if answer is not None:
            row.status, row.answer = FOUND, answer
            for later in row.parts[row.parts.index(part) + 1 :]:
                self._drop(later)
            self._end(part)
            return False
        if stuck and row.was_split:  # anew, by one thread
            row.was_split, row.alone, row.status, row.answer = False, True, PROVEN, None
            for other in list(row.parts):
                self._drop(other)
            self.waiting.append(self._begin(row))
            return False
        row.alone |= stuck
        if code == CLOSED:
            if stuck:
                row.status = OPEN
            self._end(part)
            return False
        if row.seconds >= self.budget:
            row.status = OPEN if row.answer is None else FOUND
            for other in list(row.parts):
                self._drop(other)
            return False
        return True

    def _end(self, part: Part) -> None:
        part.row.parts.remove(part)

    def _drop(self, part: Part) -> None:
        """A part that is not wanted any more. If a thread is at it, that will notice."""
        part.wanted = False
        self._end(part)
        if part in self.waiting:
            self.waiting.remove(part)
            self.spare.append(part.work)

    def _share(self, part: Part) -> None:
        """Split a part that takes long if a thread has nothing to do."""
        self._call_helpers(torch.get_num_threads() - 1)
        row = part.row
        if row.alone or self.idle <= len(self.waiting):
            return
        other = self._free_work()
        end = split(part.work, other, part.end)
        if end == 0:
            self.spare.append(other)
            return
        rest = Part(row, other, part.end)
        part.end, row.was_split = end, True
        row.parts.insert(row.parts.index(part) + 1, rest)
        self.waiting.append(rest)
        self.changed.notify()


def split(work: Search, other: Search, end: int) -> int:
    """Leave what comes later in a search to another one: its further groups, or the further children of the node
    nearest to the root that has any. Returns the group before which the search ends now, 0 if it cannot be split."""
    state, depth = work.state, int(work.state[DEPTH])
    if depth < 0:
        return 0
    group, path = int(state[GROUP]), work.counts[: depth + 1]
    nodes = np.flatnonzero(path[:, NEXT] < path[:, CHILDREN])
    if group + 1 == end and len(nodes) == 0:
        return 0
    copy_arrays(work, other)
    other.state[NODES] = 0
    if group + 1 < end:
        other.state[GROUP], other.state[DEPTH] = group + 1, -1
        return group + 1
    other.state[DEPTH] = nodes[0]
    path[nodes[0], CHILDREN] = path[nodes[0], NEXT]
    return end


def copy_arrays(work: tuple[object, ...], other: tuple[object, ...]) -> None:
    """Copy all arrays of a tuple, and of tuples in it, into those of another one."""
    for source, target in zip(work, other, strict=True):
        if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
            np.copyto(target, source)
        elif isinstance(source, tuple) and isinstance(target, tuple):
            copy_arrays(source, target)


def decide_row(
    problem: Problem, arrays: Arrays, aims: Aims, i: int, most: int, budget: float, work: Search, lines: LineWork
) -> int:
    """The verdict on a row, by this thread alone. An answer is in the `trial` of its arrays."""
    begun = time.thread_time()
    if is_decided_at_once(arrays, aims, i, most, work, lines):
        return PROVEN
    limit = work_limit(arrays[0], SLICE)
    while time.thread_time() - begun < budget:
        check_cancelled()
        code = advance(*arrays, aims, i, problem.model.tolerance, limit, work)
        if code == CLOSED:
            return OPEN if work.state[STUCK] else PROVEN
        if code == CANDIDATE and is_answer(problem, i, work):
            return FOUND
    return OPEN


def is_decided_at_once(arrays: Arrays, aims: Aims, i: int, most: int, work: Search, lines: LineWork) -> bool:
    """Begin with a row: whether it is proven at once, by exact lines of single changes or as nothing may change."""
    net, _, columns, table = arrays
    if most == 1 and is_single_change_excluded(net, columns, table, aims, i, work, lines):
        return True
    begin_row(net, columns, table, aims, i, most, work)
    return bool(work.counts[0, LEFT] == 0)


def is_answer(problem: Problem, i: int, work: Search) -> bool:
    """Whether the candidate for row i is an answer: the model itself has to say so."""
    with torch.no_grad():
        part, point = problem.select(torch.tensor([i])), torch.from_numpy(work.trial)[None]
        return bool((part.reached(point) & ~part.redundant(point) & part.inside(point).all(dim=1)).all())


def work_limit(net: Layers, products: float) -> int:
    """How many evaluations of a majorant take about so many products."""
    return max(1, int(products / (net.widths[:-1] * net.widths[1:]).sum()))
