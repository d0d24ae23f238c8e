"""Decides for one row after another whether changes to some of its features alone can reach the goal."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from threading import Event

import numpy as np
import torch

from grace.methods.compiled.lines import Table
from grace.models.base import Model
from grace.models.compiled import Bools, Floats
from grace.models.predictor import tree_ensemble
from grace.models.relu import ReluNetwork, relu_network
from grace.models.trees.ensemble import TreeEnsemble
from grace.problem.problem import Problem
from grace.proofs.host import on_host
from grace.proofs.set_boxes import SetBoxes
from grace.proofs.verdicts import EXCEPT_TIES, FOUND, OPEN

BOXES = 0.8  # of the time of a question: for boxes

Verdict = tuple[int, Floats | None]
"""PROVEN, FOUND or OPEN, and the row that was found."""


class SetProver(ABC):
    """Answers questions about sets of features. Made for one thread: it has arrays of its own."""

    table: Table

    def decide(self, i: int, free: Bools, most: int, seconds: float, conflict: Bools | None = None) -> Verdict:
        """Whether a change of at most `most` of the features `free` (d,) of row i reaches the goal, no two of which are
        in `conflict` (d, d)."""
        self.table.free[i] = free
        self.table.conflict[:] = False if conflict is None else conflict
        return self._decide(i, most, seconds)

    @abstractmethod
    def _decide(self, i: int, most: int, seconds: float) -> Verdict: ...


class NetworkSets(SetProver):
    """By the compiled branch and bound for ReLU networks: over boxes where all features that are free may change at
    once, else over the features that change."""

    def __init__(self, problem: Problem, network: ReluNetwork, most: int) -> None:
        from grace.proofs.compiled import proof_arrays, ready
        from grace.proofs.compiled.aims import aims_of
        from grace.proofs.compiled.lines import line_work
        from grace.proofs.compiled.rows import search

        ready()
        self.problem = problem
        net, goal, columns, table = proof_arrays(problem, network.compiled)
        self.table = own_limits(table)
        self.arrays = net, goal, columns, self.table
        self.aims = aims_of(problem, network)
        self.work = search(net, problem.rows.shape[1], max(1, most)), line_work(net)
        self.boxes = SetBoxes(problem, network)

    def _decide(self, i: int, most: int, seconds: float) -> Verdict:
        from grace.proofs.compiled.sharing import decide_row

        free = self.table.free[i]
        if 1 < free.sum() <= most and not self.table.conflict[np.ix_(free, free)].any():
            begun = time.thread_time()
            status, row = self.boxes.decide(i, free, BOXES * seconds, partial(self._is_answer, i))
            if status != OPEN:
                return status, row
            seconds -= time.thread_time() - begun
        status = decide_row(self.problem, self.arrays, self.aims, i, most, seconds, *self.work)
        return status, self.work[0].trial.copy() if status == FOUND else None

    def _is_answer(self, i: int, row: Floats) -> bool:
        part, point = self.problem.select(torch.tensor([i])), torch.from_numpy(row)[None]
        with torch.no_grad():
            return bool((part.reached(point) & part.inside(point).all(dim=1)).all())


class TreeSets(SetProver):
    """By the branch and bound for tree ensembles."""

    def __init__(self, problem: Problem, ensemble: TreeEnsemble, most: int) -> None:
        from grace.methods.trees import ready, tree_arrays
        from grace.methods.trees.aims import aims_of
        from grace.methods.trees.rows import tree_work

        ready()
        self.problem = problem
        trees, aims, columns, table = tree_arrays(problem, ensemble, ties=True)
        self.table = own_limits(table)
        self.arrays = trees, aims, columns, self.table
        self.without_ties = trees, aims_of(problem, ensemble), columns, self.table
        self.work = tree_work(trees, columns, problem.rows.shape[1], max(1, most))

    def _decide(self, i: int, most: int, seconds: float) -> Verdict:
        from grace.proofs.trees import decide_row

        until = time.thread_time() + seconds
        status, row = decide_row(self.problem, self.arrays, self.without_ties, i, most, until, self.work, Event())
        return OPEN if status == EXCEPT_TIES else status, row  # at a tie, the model itself may decide as was asked for


def is_provable(model: Model) -> bool:
    """Whether anything can be proven about a model."""
    return tree_ensemble(model) is not None or relu_network(model) is not None


def set_prover(problem: Problem, most: int) -> SetProver | None:
    """The prover for at most so many changes, on the host; None for a model about which nothing can be proven."""
    ensemble = tree_ensemble(problem.model)
    if ensemble is not None:
        return TreeSets(problem, ensemble, most)
    network = relu_network(problem.model)
    return None if network is None else NetworkSets(on_host(problem), network.on_host, most)


def own_limits(table: Table) -> Table:
    """A table whose free features and conflicts can be written to."""
    return table._replace(free=np.array(table.free), conflict=np.zeros_like(table.conflict))
