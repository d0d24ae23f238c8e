"""Lower bounds on the distances of answers, row by row on as many threads as torch uses; see `nearest`."""

from __future__ import annotations

import time
from functools import cache
from threading import Event

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled import compiling
from grace.methods.compiled.goal import RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.threads import over_tasks
from grace.models.compiled import layers_of
from grace.models.relu import ReluNetwork
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem
from grace.proofs.compiled import proof_arrays
from grace.proofs.compiled.aims import aims_of
from grace.proofs.compiled.box_bounds import Work, work_of
from grace.proofs.compiled.nearest import FULL, PAUSED, Boxes, begin, boxes_of, go_on, grown, lowest_bound
from grace.proofs.compiled.rows import Aims

ROOM = 256  # boxes at first,
MOST_BOXES = 1 << 18  # and at most
SLICE = 20_000_000  # products between two looks at the clock, about a hundredth of a second


def least_distance_of_network(problem: Problem, network: ReluNetwork, contrast: Tensor, budget: float) -> Tensor:
    """See `grace.proofs.distance_bound`."""
    ready()
    (net, goal, columns, table), aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    rows, known = np.ascontiguousarray(contrast.numpy()), problem.space.distance(problem.rows, contrast).numpy()
    most = max(1, int((rows != table.rows).sum(axis=1).max(initial=0)))
    out, tolerance = np.zeros(len(rows)), problem.model.tolerance
    spare: list[tuple[Boxes, Work]] = []

    def bound(i: int, stop: Event) -> None:
        boxes, work = spare.pop() if spare else (boxes_of(ROOM + len(aims.groups), most), work_of(net, columns, most))
        begun = time.thread_time()
        k = begin(net, columns, table, aims, i, rows[i], known[i], boxes, work)
        while not stop.is_set():
            check_cancelled()
            code = go_on(net, goal, columns, table, aims, i, k, tolerance, SLICE, boxes, work)
            if code == FULL and len(boxes.bound) < MOST_BOXES:
                boxes = grown(boxes)
            elif code != PAUSED or time.thread_time() - begun >= budget:
                break
        out[i] = lowest_bound(boxes, work)
        spare.append((boxes, work))

    over_tasks(range(len(rows)), bound)
    return torch.from_numpy(out)


@cache
def ready() -> None:
    """Compile, or load what an earlier process has compiled: functions for any network, goal and table."""
    with compiling("bounds on distances"):
        net = layers_of(np.zeros((1, 1)), np.zeros(1), {}, [(np.zeros((1, 1)), np.zeros(1))])
        rows, none, whole = np.zeros((1, 1)), np.zeros(1), np.zeros(1, dtype=np.int64)
        numbers = np.zeros((1, 1), dtype=np.int64)
        goal = CompiledGoal(RANGE, whole[:0], none, none, 1.0, -np.inf, none)
        columns = Columns(none, none, whole, none > 0, none > 0, np.zeros(2, dtype=np.int64), none[:0], 1.0)
        table, aims = Table(rows, rows, rows, rows > 0, rows > 0), Aims(numbers, numbers, rows, rows, rows, whole, none)
        boxes, work = boxes_of(1, 1), work_of(net, columns, 1)
        k = begin(net, columns, table, aims, 0, none, 0.0, boxes, work)
        go_on(net, goal, columns, table, aims, 0, k, 1e-6, 0, boxes, work)
