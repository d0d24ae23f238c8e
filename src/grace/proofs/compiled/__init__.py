"""Proofs for ReLU networks on a CPU, in compiled code: a problem as arrays, and threads over rows.

aims      goals as functionals of the scores
blocks    majorants at many points at once
boxes     whether functionals stay below zero everywhere in a box
limits    limits of the units of the network over a node
lines     single changes, by exact lines instead of branch and bound
majorant  convex majorants of a network over a node, which add up by feature
points    the functionals at points of a node, and candidates for answers
rows      the ways in which a row may change
terms     the bound of a node: terms of its changed features and open ways
tree      branch and bound of a row
"""

from __future__ import annotations

import time
from functools import cache
from threading import Event

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled import Arrays, column_arrays, compiling, goal_arrays
from grace.methods.compiled.goal import RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.threads import over_tasks
from grace.models.compiled import Layers, layers_of
from grace.models.relu import ReluNetwork
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem
from grace.proofs.compiled.aims import aims_of
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.lines import LineWork, is_single_change_excluded, line_work
from grace.proofs.compiled.rows import LEFT, NODES, STUCK, Aims, Search, search
from grace.proofs.compiled.tree import CANDIDATE, CLOSED, advance
from grace.proofs.verdicts import FOUND, OPEN, PROVEN, Verdicts

SLICE = 1e8  # products between two looks at the clock, a few hundredths of a second


def prove_compiled(problem: Problem, network: ReluNetwork, most: Tensor, budget: float) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, on as many threads
    as torch uses. A verdict depends on nothing but the row, and on the time that the row may take."""
    ready()
    n, d = problem.rows.shape
    arrays, aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    asked = np.flatnonzero(most.numpy() > 0).tolist()
    threads = max(1, min(torch.get_num_threads(), len(asked)))
    net, largest = network.compiled, min(d, max(1, int(most.max())))
    spare = [(search(net, d, largest), line_work(net)) for _ in range(threads)]
    status, nodes, seconds = np.full(n, PROVEN), np.zeros(n, dtype=np.int64), np.zeros(n)
    found = problem.rows.numpy().copy()

    def decide(i: int, stop: Event) -> None:
        (work, lines), begun = spare.pop(), time.thread_time()
        status[i] = decide_row(problem, arrays, aims, i, int(most[i]), budget, work, lines, stop)
        if status[i] == FOUND:
            found[i] = work.trial
        nodes[i], seconds[i] = work.state[NODES], time.thread_time() - begun
        spare.append((work, lines))

    over_tasks(asked, decide)
    return Verdicts(*(torch.from_numpy(part) for part in (status, found, nodes, seconds)))


def decide_row(
    problem: Problem, arrays: Arrays, aims: Aims, i: int, most: int, budget: float, work: Search, lines: LineWork,
    stop: Event,
) -> int:  # fmt: skip
    """The verdict on a row. A candidate is an answer if the model itself says so."""
    net, goal, columns, table = arrays
    begun = time.thread_time()
    if most == 1 and is_single_change_excluded(net, columns, table, aims, i, work, lines):
        return PROVEN
    begin_row(net, columns, table, aims, i, most, work)
    if work.counts[0, LEFT] == 0:
        return PROVEN
    limit = max(1, int(SLICE / (net.widths[:-1] * net.widths[1:]).sum()))
    while time.thread_time() - begun < budget and not stop.is_set():
        check_cancelled()
        code = advance(net, goal, columns, table, aims, i, problem.model.tolerance, limit, work)
        if code == CLOSED:
            return OPEN if work.state[STUCK] else PROVEN
        if code == CANDIDATE and is_answer(problem, i, work):
            return FOUND
    return OPEN


def is_answer(problem: Problem, i: int, work: Search) -> bool:
    """Whether the candidate for row i is an answer."""
    with torch.no_grad():
        part, point = problem.select(torch.tensor([i])), torch.from_numpy(work.trial)[None]
        return bool((part.reached(point) & ~part.redundant(point) & part.inside(point).all(dim=1)).all())


def proof_arrays(problem: Problem, net: Layers) -> Arrays:
    """The network, goal, columns and rows of a problem."""
    low, high, whole = problem.low, problem.high, problem.space.is_integer
    low, high = torch.where(whole, low.ceil(), low), torch.where(whole, high.floor(), high)
    rows = (np.ascontiguousarray(t.numpy()) for t in (problem.rows, low, high, problem.free, problem.conflict))
    return net, goal_arrays(problem.goal, int(net.widths[-1])), column_arrays(problem.space), Table(*rows)


@cache
def ready() -> None:
    """Compile, or load what an earlier process has compiled: functions for any network, goal and table."""
    with compiling("proofs"):
        net, rows, none = (
            layers_of(np.zeros((1, 1)), np.zeros(1), {}, [(np.zeros((1, 1)), np.zeros(1))]),
            np.zeros((1, 1)),
            np.zeros(1),
        )
        whole, numbers = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
        goal = CompiledGoal(RANGE, whole[:0], none, none, 1.0, -np.inf, none)
        columns = Columns(none, none, whole, none > 0, none > 0, np.zeros(2, dtype=np.int64), none[:0], 1.0)
        table, aims = Table(rows, rows, rows, rows > 0, rows > 0), Aims(numbers, numbers, rows, rows, rows, whole, none)
        work = search(net, 1, 1)
        is_single_change_excluded(net, columns, table, aims, 0, work, line_work(net))
        begin_row(net, columns, table, aims, 0, 0, work)
        advance(net, goal, columns, table, aims, 0, 1e-6, 0, work)
