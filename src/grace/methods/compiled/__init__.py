"""The search and polish for ReLU networks on a CPU, in compiled code: a problem as arrays, and threads over rows.

goal     margins, and where they reach the goal along a line
lines    the nearest value of a single feature
polish   an answer made irreducible and near
profiles all breakpoints of a line
search   beam search of a row
threads  compiled functions over many rows
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled.goal import AGAINST, FLIP, RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Lines, Table
from grace.methods.compiled.polish import BEAM, Work, polish_rows
from grace.methods.compiled.search import search_rows
from grace.models.compiled import BLOCK, Layers, layers_of
from grace.models.compiled_lines import scratch
from grace.models.relu import relu_network
from grace.problem.cancellation import check_cancelled
from grace.problem.goal import Against, Between, Flip, Goal, logit
from grace.problem.problem import Problem
from grace.problem.space import NORMS, Space

FARTHEST = 1e6  # spreads: as far as one looks where a range has no end
PIECES = 64  # of a line, for every unit of the network
ROWS = 16  # that a thread takes at a time
KEPT = 1 << 24  # bytes of the largest workspace that a thread keeps
PATIENCE = 2.0  # seconds of compiling after which it is reported

NOWHERE = np.zeros(0, dtype=np.int64)
Arrays = tuple[Layers, CompiledGoal, Columns, Table]
log = logging.getLogger("grace")
_thread = threading.local()


def search_compiled(problem: Problem) -> Tensor:
    """The nearest answer with the fewest features, without the walks; the original row where none is found."""
    found = problem.rows.numpy().copy()
    options = problem.max_features, problem.prefer == "nearest", problem.model.tolerance
    _over_rows(problem, lambda arrays, a, b, work: search_rows(*arrays, a, b, *options, found, work))
    return torch.from_numpy(found)


def polish_compiled(problem: Problem, contrast: Tensor) -> Tensor:
    """Rows that reach the goal, made irreducible and near."""
    rows, tolerance = contrast.numpy().copy(), problem.model.tolerance
    _over_rows(problem, lambda arrays, a, b, work: polish_rows(*arrays, a, b, rows, tolerance, work))
    return torch.from_numpy(rows)


@cache
def ready() -> None:
    """Compile, or load what an earlier process has compiled: functions for any network, goal and table."""
    with compiling("search"):
        net, rows, none = layers_of(np.zeros((1, 1)), np.zeros(1), {}, []), np.zeros((0, 1)), np.zeros(0)
        whole = np.zeros(1, dtype=np.int64)
        goal = CompiledGoal(RANGE, whole[:0], none, none, 1.0, -np.inf, none)
        columns = Columns(none, none, whole[:0], none > 0, none > 0, whole, none, 1.0)
        table = Table(rows, rows, rows, rows > 0, np.zeros((1, 1), dtype=bool))
        work = workspace(net, columns, 1, 1)
        search_rows(net, goal, columns, table, 0, 0, 1, False, 1e-6, rows, work)
        polish_rows(net, goal, columns, table, 0, 0, rows, 1e-6, work)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Report it if compiling within this context takes long."""
    notice = f"compiling the {what} for this machine, which is done once and takes up to a minute"
    timer = threading.Timer(PATIENCE, log.warning, [notice])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _over_rows(problem: Problem, run: Callable[[Arrays, int, int, Work], None]) -> None:
    """Run a compiled function over all rows, on as many threads as torch uses."""
    ready()
    network = relu_network(problem.model)
    assert network is not None
    n, d = problem.rows.shape
    arrays = problem_arrays(problem, network.compiled)
    if n <= ROWS:
        run(arrays, 0, n, own_workspace(arrays[0], arrays[2], d, problem.max_features))
        return check_cancelled()
    threads = min(torch.get_num_threads(), -(-n // ROWS))

    def part(begin: int) -> None:
        run(arrays, begin, min(begin + ROWS, n), own_workspace(arrays[0], arrays[2], d, problem.max_features))

    starts = range(0, n, ROWS)
    for _ in map(part, starts) if threads <= 1 else pool(os.getpid(), threads).map(part, starts):
        check_cancelled()
    return None


def own_workspace(net: Layers, columns: Columns, d: int, most: int) -> Work:
    """The workspace of this thread, kept until another network or space is searched, unless it is large."""
    known: tuple[Layers, Columns, int, Work] | None = getattr(_thread, "known", None)
    if known is not None and known[0] is net and known[1] is columns and known[2] == most:
        return known[3]
    work = workspace(net, columns, d, most)
    _thread.known = (net, columns, most, work) if work.lines.scores.nbytes <= KEPT else None
    return work


@cache
def pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked child gets others."""
    return ThreadPoolExecutor(threads, thread_name_prefix="grace")


def problem_arrays(problem: Problem, net: Layers) -> Arrays:
    """The network, goal, columns and rows of a problem."""
    columns = column_arrays(problem.space)
    rows, low, high = (t.numpy() for t in (problem.rows, problem.low, problem.high))
    room = FARTHEST * columns.spread
    low, high = np.maximum(low, rows - room), np.minimum(high, rows + room)
    if problem.space.has_integers:
        low, high = np.where(columns.whole, np.ceil(low), low), np.where(columns.whole, np.floor(high), high)
    cells = (rows, low, high, problem.free.numpy(), problem.conflict.numpy())
    return net, goal_arrays(problem.goal, net), columns, Table(*map(np.ascontiguousarray, cells))


def workspace(net: Layers, columns: Columns, d: int, most: int) -> Work:
    units, classes, pieces = int(net.units[-1]), int(net.widths[-1]), PIECES * int(net.units[-1])
    moves = int(np.maximum(np.diff(columns.begins), 2).sum())
    lines = Lines(
        scratch(net),
        np.empty(pieces),
        np.empty((pieces, classes)),
        np.empty(pieces),
        np.empty(units),
        *(np.empty(classes) for _ in range(3)),
    )
    return Work(
        lines=lines,
        states=np.empty((2, BEAM, d)),
        sets=np.empty((2, BEAM, max(most, 1)), dtype=np.int64),
        layers=np.empty((BEAM, units)),
        margin=np.empty((BEAM, d)),
        value=np.empty((BEAM, d)),
        moved=np.empty(moves, dtype=np.int64),
        moved_to=np.empty(moves),
        moved_margin=np.empty(moves),
        block=np.zeros((units, BLOCK)),
        gain=np.empty(d),
        order=np.empty(d, dtype=np.int64),
        begun=np.empty(d),
        current=np.empty(d),
        first=np.empty(units),
        origin=np.empty(units),
        best=np.empty(d),
        kept=np.empty(d),
        features=np.empty(d, dtype=np.int64),
        tried=np.empty(d, dtype=np.bool_),
        end=np.empty(d),
    )


@lru_cache(maxsize=8)
def column_arrays(space: Space) -> Columns:
    """The columns of a space."""
    counts = [len(space.choices[j]) if j in space.choices else 0 for j in range(len(space.spread))]
    return Columns(
        spread=space.spread.numpy(),
        weight=space.weight.numpy(),
        digits=space.digits.numpy(),
        whole=space.is_integer.numpy(),
        magnitude=space.has_magnitude.numpy(),
        begins=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        choices=np.concatenate([np.zeros(0), *(space.choices[j].double().numpy() for j in space.categorical)]),
        norm=NORMS[space.norm],
    )


def goal_arrays(goal: Goal, net: Layers) -> CompiledGoal:
    """The goal in terms of the scores of the compiled network."""
    none = np.zeros(0)
    if isinstance(goal, Between):
        return CompiledGoal(RANGE, NOWHERE, goal.low.numpy(), goal.high.numpy(), goal.scale, -np.inf, none)
    assert isinstance(goal, Flip | Against)
    target = goal.original if isinstance(goal, Flip) else goal.wanted
    if net.widths[-1] == 1:  # two classes
        least = np.zeros(1)
        if goal.confidence > 0:
            wanted = 1 - target if isinstance(goal, Flip) else target
            least = goal.offset(wanted, 1 - wanted, torch.zeros(1, dtype=torch.float64)).numpy()
        second = target.numpy() == (0 if isinstance(goal, Flip) else 1)
        low, high = np.where(second, least, -np.inf), np.where(second, np.inf, -least)
        return CompiledGoal(RANGE, NOWHERE, low, high, 1.0, -np.inf, none)
    classes = int(net.widths[-1])
    shift = np.zeros(classes) if goal.shift is None else goal.shift.double().numpy()
    odds = logit(goal.confidence) if goal.confidence > 0 else -np.inf
    kind = FLIP if isinstance(goal, Flip) else AGAINST
    return CompiledGoal(kind, target.numpy(), none, none, 1.0, odds, shift)
