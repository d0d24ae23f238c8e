"""An exact second opinion on the fewest changes: an integer program for CP-SAT, written from the library's own nodes.

Each tree takes one leaf, each feature one of its cells between thresholds or one of its categories; a leaf says on
which side of its thresholds the cells lie. Leaves are rounded to whole numbers, so that the program is asked twice: for
what is certainly enough, and for what may be.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

import grace
from grace.models.trees.nodes import Nodes
from grace.models.trees.reading import read_trees
from grace.problem.goal import Against, Flip
from tree_reference import TOLERANCE, Question, thinned, thresholds, values, wanted

SCALE = 1e10
SECONDS = 60.0


def fewest(question: Question, i: int, sure: bool) -> int | None:
    """The fewest changes with which row i reaches its goal: `sure` to, or as far as rounding can tell. None if no
    number of changes does."""
    goal = question.goal
    assert isinstance(goal, Flip | Against)
    assert goal.confidence == 0
    assert goal.shift is None
    nodes = read_trees(question.estimator, None)
    assert nodes is not None
    classes = len(question.problem.model.classes)
    found = [program(question, nodes, i, c, sure) for c in wanted(goal, i, classes)]
    return min((f for f in found if f is not None), default=None)


def program(question: Question, nodes: Nodes, i: int, winner: int, sure: bool) -> int | None:
    """The same for one class that has to lead all others."""
    problem, model = question.problem, cp_model.CpModel()
    changes = [model.new_bool_var("") for _ in range(problem.rows.shape[1])]
    for a, b in combinations(range(len(changes)), 2):
        if problem.conflict[a, b]:
            model.add(changes[a] + changes[b] <= 1)
    model.add(sum(changes) <= problem.max_features)
    cells = {j: cells_of(question, model, i, j, changes[j]) for j in range(len(changes))}
    classes = len(problem.model.classes)
    sums = [[] for _ in range(classes)]
    constant = np.zeros(classes)
    constant[-nodes.value.shape[1] :] += nodes.base
    for root in nodes.roots:
        taken = []
        for leaf, path in leaves_below(nodes, int(root)):
            chosen = model.new_bool_var("")
            taken.append(chosen)
            for j, left in path:
                fits = [cell for value, cell in cells[nodes.column[j]] if goes_left(nodes, j, value) == left]
                model.add(sum(fits) == 1).only_enforce_if(chosen)
            for k, value in enumerate(nodes.value[leaf], start=classes - nodes.value.shape[1]):
                sums[k].append((chosen, round(float(value) * SCALE)))
        model.add(sum(taken) == 1)
    room = (len(nodes.roots) + 2) * (1 if sure else -1)
    # of probabilities the tolerance is one of their logarithms, of which at least this much is needed
    least = TOLERANCE if sure or nodes.link != "probabilities" else TOLERANCE / (2 * classes)
    for rival in range(classes):
        if rival != winner:
            lead = sum(v * x for x, v in sums[winner]) - sum(v * x for x, v in sums[rival])
            model.add(lead >= round((least - constant[winner] + constant[rival]) * SCALE) + room)
    model.minimize(sum(changes))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, SECONDS
    solver.parameters.cp_model_presolve = False  # that of ortools 9.15 loses solutions of such programs
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    return round(solver.objective_value)


def cells_of(question: Question, model: Any, i: int, j: int, change: Any) -> list[tuple[float, Any]]:
    """A value of each cell of a feature that it can take, and whether it does; all but the row's own are changes."""
    own = float(question.problem.rows[i, j])
    limits = thresholds(question)
    tried = thinned(question, limits, i, j, values(question, limits, i, j))
    cells = [(value, model.new_bool_var("")) for value in (own, *tried)]
    model.add(sum(cell for _, cell in cells) == 1)
    model.add(cells[0][1] + change >= 1)
    return cells


def leaves_below(nodes: Nodes, node: int, path: tuple[Any, ...] = ()) -> list[tuple[int, tuple[Any, ...]]]:
    """The leaves of a tree, each with the nodes on the way and the side that is taken there."""
    if nodes.column[node] < 0:
        return [(node, path)]
    left = leaves_below(nodes, int(nodes.left[node]), (*path, (node, True)))
    return left + leaves_below(nodes, int(nodes.right[node]), (*path, (node, False)))


def goes_left(nodes: Nodes, node: int, value: float) -> bool:
    number = float(np.dtype(nodes.dtype).type(value))
    limit = nodes.threshold[node]
    return bool(number < limit) if nodes.strict else bool(number <= limit)


def numbers_alone(question: Question) -> bool:
    """Whether the program can be written: for tables of numbers without missing cells, in the order of training."""
    model = question.problem.model
    same = list(model.columns or model.schema.names) == list(model.schema.names)
    return same and all(isinstance(f, grace.Numeric) and not f.gaps for f in model.schema.features)
