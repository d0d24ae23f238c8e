"""Proofs for ReLU networks on a CPU, in compiled code: a problem as arrays, and threads over rows.

aims        goals as functionals of the scores
blocks      majorants at many points at once
box_bounds  linear bounds on functionals over boxes of values of a few features
boxes       whether functionals stay below zero everywhere in a box
distances   lower bounds on the distances of answers, by `nearest`
limits      limits of the units of the network over a node
lines       single changes, by exact lines instead of branch and bound
majorant    convex majorants of a network over a node, which add up by feature
nearest     how near an answer with given features can be: branch and bound over boxes
points      the functionals at points of a node, and candidates for answers
rows        the ways in which a row may change
sharing     rows on all threads, several at once or one together
terms       the bound of a node: terms of its changed features and open ways
tree        branch and bound of a row
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled import Arrays, column_arrays, compiling, goal_arrays
from grace.methods.compiled.goal import RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Layers, layers_of
from grace.models.relu import ReluNetwork
from grace.problem.problem import Problem
from grace.proofs.compiled.aims import aims_of
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.lines import is_single_change_excluded, line_work
from grace.proofs.compiled.rows import Aims, search
from grace.proofs.compiled.sharing import SharedProofs
from grace.proofs.compiled.tree import advance
from grace.proofs.verdicts import PROVEN, Verdicts


def prove_compiled(problem: Problem, network: ReluNetwork, most: Tensor, budget: float) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, on as many threads
    as torch uses: on several rows at once, and on the last ones together. A verdict depends on nothing but the row, and
    on the time that the row may take, which is that of all threads."""
    n = len(problem)
    status, nodes, seconds = np.full(n, PROVEN), np.zeros(n, dtype=np.int64), np.zeros(n)
    found = problem.rows.numpy().copy()
    decided = []
    if (most > 0).any():
        ready()
        arrays, aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
        decided = SharedProofs(problem, arrays, aims, most.tolist(), budget).run()
    for row in decided:
        status[row.i], nodes[row.i], seconds[row.i] = row.status, row.nodes, row.seconds
        if row.answer is not None:
            found[row.i] = row.answer
    return Verdicts(*(torch.from_numpy(part) for part in (status, found, nodes, seconds)))


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
