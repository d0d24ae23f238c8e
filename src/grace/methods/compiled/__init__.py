"""Search, polish and walks for ReLU networks on a CPU, in compiled code: a problem as arrays, and threads over rows.

goal     margins, and where they reach the goal along a line
lines    the nearest value of a single feature
polish   an answer made irreducible and near; checks of what has changed, and whether all of it has to
profiles all breakpoints of a line
search   beam search of a row; first_level and beam are its parts
required rules, typical rows and several networks; required_goal, required_lines, required_moves, required_polish and
         required_back are the parts of their search, required_search, and required_arrays makes what they read
steady   answers with room around them; runs are the values of a number that reach the goal
local    the ranking of GRACE-Local, by a logistic model
walks    GRACE-Gradient and GRACE-Local; walk_arrays makes what they read
threads  compiled functions over many rows, workspaces what each thread works with
readiness  compiles all of these when they are needed
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled.checks import NEEDED, UNSURE
from grace.methods.compiled.goal import AGAINST, FLIP, RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.local import Background
from grace.methods.compiled.polish import Work
from grace.methods.compiled.readiness import NOWHERE, PARTS, all_ready, compiling, ready
from grace.methods.compiled.required_arrays import required_layers, with_requirements
from grace.methods.compiled.required_back import way_back_rows
from grace.methods.compiled.required_search import polish_required_rows, search_required_rows
from grace.methods.compiled.threads import over_rows
from grace.methods.compiled.walk_arrays import Coordinates, WalkWork, walk_arrays, walk_options, walk_workspace
from grace.methods.compiled.workspaces import workspace
from grace.methods.requirements import serves
from grace.models.compiled import Bools, Floats, Ints, Layers
from grace.models.relu import relu_network
from grace.problem.goal import Against, Between, Flip, Goal, logit
from grace.problem.problem import Problem
from grace.problem.space import NORMS, Space

FARTHEST = 1e6  # spreads: as far as one looks where a range has no end
KEPT = 1 << 24  # bytes of the largest workspace that a thread keeps
W = TypeVar("W")
Arrays = tuple[Layers, CompiledGoal, Columns, Table]
_thread = threading.local()


def search_compiled(problem: Problem, walks: bool) -> Tensor:
    """The nearest answer with the fewest features, or with `walks` that of a walk where it is better; the original row
    where none is found."""
    rows, options, run = problem.cells[0], walk_options(problem), ready("search")
    found, better, further = rows.copy(), rows.copy(), cache(lambda: walk_arrays(problem))
    improved = []

    def answer(arrays: Arrays, a: int, b: int, work: Work) -> None:
        run["search_rows"](*arrays, a, b, options.most, options.nearest, options.tolerance, found[a:b], work)
        better[a:b] = found[a:b]
        if walks and (options.nearest or ((found[a:b] != rows[a:b]).sum(axis=1) != 1).any()):
            own = own_walk_workspace(problem, arrays[0], *further())
            run["improve_rows"](*arrays, *further(), a, b, options, better, own, work)
            improved.append(not np.array_equal(found[a:b], better[a:b]))

    _over_rows("search", problem, answer, partial(own_workspace, d=rows.shape[1], most=problem.max_features))
    if not any(improved):
        return torch.from_numpy(found)
    return replace_where_reached(problem, torch.from_numpy(found), torch.from_numpy(better))


def walk_compiled(problem: Problem, local: bool) -> Tensor:
    """The answers of GRACE-Local or GRACE-Gradient; the original row where there is none."""
    found, further, options = problem.rows.numpy().copy(), walk_arrays(problem), walk_options(problem)
    run = ready("walks")["walk_rows"]
    _over_rows(
        "walks",
        problem,
        lambda arrays, a, b, work: run(*arrays, *further, a, b, local, options, found, work),
        lambda net, _: own_walk_workspace(problem, net, *further),
    )
    return replace_where_reached(problem, problem.rows, torch.from_numpy(found))


def search_required_compiled(problem: Problem) -> Tensor:
    """The same where more is required than the goal; see `methods.requirements`."""
    found, options = problem.rows.numpy().copy(), walk_options(problem)
    _over_rows(
        "requirements",
        problem,
        lambda arrays, a, b, work: search_required_rows(
            *arrays, a, b, options.most, options.nearest, options.tolerance, found, work
        ),
        partial(own_workspace, d=found.shape[1], most=problem.max_features),
    )
    return torch.from_numpy(found)


def way_back_compiled(problem: Problem, found: Tensor, ends: Tensor, usable: Tensor) -> Tensor:
    """Answers replaced by better ones on the way back from rows (n, starts, d) that are usable (n, starts)."""
    rows, options = found.numpy().copy(), walk_options(problem)
    starts = np.ascontiguousarray(ends.numpy()), np.ascontiguousarray(usable.numpy())
    _over_rows(
        "requirements",
        problem,
        lambda arrays, a, b, work: way_back_rows(
            *arrays, a, b, *starts, options.most, options.nearest, options.tolerance, rows, work
        ),
        partial(own_workspace, d=rows.shape[1], most=problem.max_features),
    )
    return torch.from_numpy(rows)


def replace_where_reached(problem: Problem, rows: Tensor, others: Tensor) -> Tensor:
    """Rows replaced by others that differ, are within the limits and reach the goal: the model has the last word, as it
    may round in another way."""
    differ = (rows.numpy() != others.numpy()).any(axis=1)
    if not differ.any():
        return rows
    every, index = bool(differ.all()), torch.from_numpy(np.flatnonzero(differ))
    part, new = (problem, others) if every else (problem.select(index), others[index])
    fits = part.reached(new) & torch.from_numpy(check_compiled(part, new)[1])
    if bool(fits.all()):
        return new if every else rows.index_copy(0, index, new)
    return rows.index_copy(0, index[fits], new[fits])


def polish_compiled(problem: Problem, contrast: Tensor) -> Tensor:
    """Rows that reach the goal, made irreducible and near."""
    rows, tolerance = contrast.numpy().copy(), problem.model.tolerance
    required = serves(problem) is not None
    polished = polish_required_rows if required else ready("polish")["polish_rows"]
    _over_rows(
        "requirements" if required else "polish",
        problem,
        lambda arrays, a, b, work: polished(*arrays, a, b, rows, tolerance, work),
        lambda net, columns: own_workspace(net, columns, rows.shape[1], problem.max_features),
    )
    return torch.from_numpy(rows)


def steady_compiled(problem: Problem, answers: Tensor) -> Tensor:
    """The nearest answers replaced by steady ones with as few changes, see `methods.steady`."""
    rows, most, tolerance = answers.numpy().copy(), problem.max_features, problem.model.tolerance
    run = ready("steady answers")["steady_rows"]
    _over_rows(
        "steady answers",
        problem,
        lambda arrays, a, b, work: run(*arrays, a, b, most, tolerance, rows, work),
        partial(own_workspace, d=rows.shape[1], most=most),
    )
    return replace_where_reached(problem, answers, torch.from_numpy(rows))


def check_compiled(problem: Problem, found: Tensor) -> tuple[Ints, Bools, Bools, Floats]:
    """How many features of each row (n,) were changed, whether as they may, whether no two are redundant, and the
    distance."""
    check, n = ready("checks")["check_rows"], len(found)
    count, inside, informative, length = np.empty(n, np.int64), np.empty(n, bool), np.empty(n, bool), np.empty(n)
    given = *problem.cells, problem.pairs, found.numpy()
    check(column_arrays(problem.space), *given, count, inside, informative, length)
    return count, inside, informative, length


def need_every_change_compiled(problem: Problem, found: Tensor, most: int) -> tuple[Bools, Bools]:
    """Whether no proper subset of the changes reaches the goal (n,), and whether the model has to be asked that."""
    new, needed = np.ascontiguousarray(found.numpy()), np.empty(len(found), dtype=np.int64)
    run = ready("checks")["need_every_change"]

    def check(arrays: Arrays, a: int, b: int, room: tuple[Ints, Floats, Floats]) -> None:
        net, goal, _, table = arrays
        run(net, goal, table.rows, new, a, b, most, problem.model.tolerance, needed, *room)

    def room_of(net: Layers, _: Columns) -> tuple[Ints, Floats, Floats]:
        units = int(net.units[-1])
        return np.empty(most, dtype=np.int64), np.empty(units), np.empty(units)

    _over_rows("checks", problem, check, room_of)
    return needed == NEEDED, needed == UNSURE


def _over_rows(
    part: str,
    problem: Problem,
    run: Callable[[Arrays, int, int, W], None],
    make_workspace: Callable[[Layers, Columns], W],
) -> None:
    """Run a compiled function, one of PARTS, over all rows, on as many threads as torch uses, each with a workspace."""
    ready(part)
    arrays = arrays_of(problem)
    over_rows(len(problem), lambda a, b, work: run(arrays, a, b, work), lambda: make_workspace(arrays[0], arrays[2]))


def own_workspace(net: Layers, columns: Columns, d: int, most: int) -> Work:
    """The workspace of this thread, kept until another network or space is searched, unless it is large."""
    known: tuple[Layers, Columns, int, Work] | None = getattr(_thread, "known", None)
    if known is not None and known[0] is net and known[1] is columns and known[2] == most:
        return known[3]
    work = workspace(net, columns, d, most)
    _thread.known = (net, columns, most, work) if work.lines.scores.nbytes <= KEPT else None
    return work


def own_walk_workspace(problem: Problem, net: Layers, coordinates: Coordinates, background: Background) -> WalkWork:
    """The same for the walks."""
    key = net, background, problem.space, problem.max_features, problem.neighbours
    known: tuple[tuple[object, ...], WalkWork] | None = getattr(_thread, "walks", None)
    if known is not None and all(map(operator.is_, known[0], key)):
        return known[1]
    work = walk_workspace(problem, net, coordinates, background)
    _thread.walks = (key, work) if work.local.fit.gram.nbytes <= KEPT else None
    return work


def arrays_of(problem: Problem) -> Arrays:
    """The arrays of a problem about a network, or about several and with other requirements that are served; they are
    made once."""
    arrays: Arrays | None = problem.cache.get("arrays")
    if arrays is None:
        arrays = problem.cache["arrays"] = make_arrays(problem)
    return arrays


def make_arrays(problem: Problem) -> Arrays:
    network = relu_network(problem.model)
    if network is not None:
        return problem_arrays(problem, network.compiled)
    served = serves(problem)
    assert served is not None
    net = required_layers(served)
    return net, with_requirements(problem, served, net, goal_arrays), *table_arrays(problem)


def problem_arrays(problem: Problem, net: Layers) -> Arrays:
    """The network, goal, columns and rows of a problem."""
    return net, goal_arrays(problem.goal, int(net.widths[-1])), *table_arrays(problem)


def table_arrays(problem: Problem) -> tuple[Columns, Table]:
    """The columns and rows of a problem; where a range has no end, it ends far away."""
    columns = column_arrays(problem.space)
    rows, low, high, free = problem.cells
    if not problem.space.is_bounded:
        room = FARTHEST * columns.spread
        low, high = np.maximum(low, rows - room), np.minimum(high, rows + room)
        low, high = np.where(columns.whole, np.ceil(low), low), np.where(columns.whole, np.floor(high), high)
    cells = rows, low, high, free, problem.pairs
    return columns, Table(*map(np.ascontiguousarray, cells))


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


def goal_arrays(goal: Goal, classes: int) -> CompiledGoal:
    """The goal in terms of the scores of the compiled network; two classes are one score."""
    none = np.zeros(0)
    if isinstance(goal, Between):
        low, high = np.ascontiguousarray(goal.low.numpy()), np.ascontiguousarray(goal.high.numpy())
        return CompiledGoal(RANGE, NOWHERE, low, high, goal.scale, -np.inf, none)
    assert isinstance(goal, Flip | Against)
    target = goal.original if isinstance(goal, Flip) else goal.wanted
    if classes == 1:
        least = np.zeros(1)
        if goal.confidence > 0:
            wanted = 1 - target if isinstance(goal, Flip) else target
            least = goal.offset(wanted, 1 - wanted, torch.zeros(1, dtype=torch.float64)).numpy()
        second = target.numpy() == (0 if isinstance(goal, Flip) else 1)
        low, high = np.where(second, least, -np.inf), np.where(second, np.inf, -least)
        return CompiledGoal(RANGE, NOWHERE, low, high, 1.0, -np.inf, none)
    shift = np.zeros(classes) if goal.shift is None else goal.shift.double().numpy()
    odds = logit(goal.confidence) if goal.confidence > 0 else -np.inf
    kind = FLIP if isinstance(goal, Flip) else AGAINST
    return CompiledGoal(kind, target.numpy(), none, none, 1.0, odds, shift)


__all__ = ["PARTS", "all_ready", "compiling", "ready"]
