"""Whether functionals of a ReLU network stay below zero everywhere in a box, in compiled code.

The branch and bound of `tree` with a root in which all features of the box move already: no way is open, and nodes are
halved until their bounds exclude them, or until a corner of one is a counterexample. A row of the table is the corner
of its box with the lowest values; `free` are the numbers that move, up to `high`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import Event

import numpy as np
import torch

from grace.methods.compiled import column_arrays, compiling
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.threads import over_tasks
from grace.models.compiled import Floats, Ints, Layers, compiled, forward, inlined, layers_of, move_feature
from grace.models.relu import ReluNetwork
from grace.problem.cancellation import check_cancelled
from grace.problem.goal import Against, Between, Flip
from grace.problem.problem import Problem
from grace.proofs.boxes import FAILS, HOLDS, OUT_OF_WORK, UNDECIDED, BoxChecker, Checked
from grace.proofs.compiled.aims import aims_of
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.points import lowest_at_point
from grace.proofs.compiled.rows import (
    CHANGED,
    CHILDREN,
    DEPTH,
    EVALUATIONS,
    GROUP,
    LEFT,
    NEXT,
    OPENED,
    STUCK,
    WAYS,
    Aims,
    Search,
    search,
)
from grace.proofs.compiled.tree import examine, make_child

PRODUCTS = 2.5e9  # of a network's weights in a second


class NetworkBoxes(BoxChecker):
    """Branch and bound over boxes of a ReLU network, whose corner with the lowest values is a row of the table."""

    proves = True

    def __init__(self, problem: Problem, network: ReluNetwork) -> None:
        ready()
        self.problem, self.net, goal = problem, network.compiled, problem.goal
        tolerance = problem.model.tolerance
        if isinstance(goal, Between):
            aims = aims_of(problem, network)
            aims = aims._replace(sign=-aims.sign, constant=-aims.constant, groups=np.arange(aims.sign.shape[1] + 1))
            tolerance *= goal.scale
        else:
            assert isinstance(goal, Against)
            aims = aims_of(replace(problem, goal=Flip(goal.wanted, 0.0, goal.shift)), network)
        self.aims = aims._replace(constant=aims.constant + tolerance)
        self.columns = column_arrays(problem.space)
        self.products = int((self.net.widths[:-1] * self.net.widths[1:]).sum()) + 1

    def check(self, owner: Ints, low: Floats, high: Floats, seconds: Floats) -> Checked:
        moving = high > low
        most = max(1, int(moving.sum(axis=1).max(initial=0)))
        table = Table(low, low, high, moving, self.problem.conflict.numpy())
        aims = self.aims._replace(
            **{name: getattr(self.aims, name)[owner] for name in ("plus", "minus", "sign", "constant", "slack")}
        )
        status, point, spent = np.zeros(len(low), dtype=np.int64), low.copy(), np.zeros(len(low))
        limits = np.maximum(1, seconds * PRODUCTS / self.products)
        threads = max(1, min(torch.get_num_threads(), len(low)))
        spare = [search(self.net, low.shape[1], most) for _ in range(threads)]

        def decide(i: int, stop: Event) -> None:
            check_cancelled()
            work = spare.pop()
            status[i] = decide_box(self.net, self.columns, table, aims, i, most, int(limits[i]), work)
            if status[i] == FAILS:
                point[i] = work.trial
            spent[i] = work.state[EVALUATIONS] * self.products / PRODUCTS
            spare.append(work)

        over_tasks(range(len(low)), decide)
        return Checked(status, point, spent, np.zeros(len(low), dtype=np.int64))


@compiled
def decide_box(
    net: Layers, columns: Columns, table: Table, aims: Aims, i: int, most: int, limit: int, s: Search
) -> int:
    """HOLDS if no group of functionals reaches zero in box i, with at most so many moving numbers; FAILS at the point
    in `trial`; OUT_OF_WORK after so many evaluations of bounds; UNDECIDED where bounds stay too close to zero."""
    begin_row(net, columns, table, aims, i, most, s)
    ways = s.state[WAYS]
    s.counts[0, CHANGED], s.counts[0, LEFT], s.counts[0, OPENED] = ways, 0, 0
    for w in range(ways):
        s.taken[0, w], s.low[0, w], s.high[0, w] = w, table.rows[i, s.feature[w]], s.far[w]
    state = s.state
    while state[GROUP] < len(aims.groups) - 1:
        f = state[DEPTH]
        if f >= 0 and s.counts[f, NEXT] == s.counts[f, CHILDREN]:
            state[DEPTH] -= 1
            state[GROUP] += f == 0
            continue
        if f + 2 > len(s.rest):
            return UNDECIDED
        if f >= 0:
            make_child(columns, table, f, s)
        if examine(net, table, aims, i, f + 1, 0.0, s):
            state[GROUP] += f < 0
        else:
            state[DEPTH] = f + 1
            place_corner(net, table, i, f + 1, s)
            q, value = lowest_at_point(net, aims, i, s)
            if value + aims.slack[i, q] >= 0.0:
                return FAILS
            if state[STUCK]:
                return UNDECIDED
        if state[EVALUATIONS] >= limit:
            return OUT_OF_WORK
    return HOLDS


@inlined
def place_corner(net: Layers, table: Table, i: int, f: int, s: Search) -> None:
    """The corner of a node at which its bound is largest, in `trial`; its pre-activations are left in `values`."""
    x, trial = table.rows[i], s.trial
    for j in range(len(x)):
        trial[j] = x[j]
    for a in range(s.counts[f, CHANGED]):
        trial[s.feature[s.taken[f, a]]] = s.end[a]
    for u in range(net.widths[0]):
        s.values[u] = s.start[u]
    for j in range(len(x)):
        if trial[j] != x[j]:
            move_feature(net, s.values, j, x[j], trial[j])
    forward(net, s.values)


@cache
def ready() -> None:
    """Compile, or load what an earlier process has compiled: for any network and table."""
    with compiling("proofs of boxes"):
        net = layers_of(np.zeros((1, 1)), np.zeros(1), {}, [(np.zeros((1, 1)), np.zeros(1))])
        rows, none, whole = np.zeros((1, 1)), np.zeros(1), np.zeros(1, dtype=np.int64)
        columns = Columns(none, none, whole, none > 0, none > 0, np.zeros(2, dtype=np.int64), none[:0], 1.0)
        numbers = np.zeros((1, 1), dtype=np.int64)
        table, aims = Table(rows, rows, rows, rows > 0, rows > 0), Aims(numbers, numbers, rows, rows, rows, whole, none)
        decide_box(net, columns, table, aims, 0, 1, 0, search(net, 1, 1))
