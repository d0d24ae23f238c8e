"""Exact search for tree ensembles on a CPU, in compiled code, and what it is made of.

first_level  all single changes; cells are the sums along single features
bounds       what open features could still bring, tree by tree (leaves), by ranges of their values (slots); regions are
             what is asked about
branch       branch and bound over features and cells; search_nodes are its nodes, expansion makes those with one more
             change, margins are what an answer has to reach
steps        sums along single features; descent and values of few digits; profiles are whole lines of many rows
rows         the search over many rows
steady       answers with room around them
rules        linear rules between numbers, within the search; implications are further trees
checks       whether all changes of an answer are needed
aims         goals as functionals of the sums
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from grace.methods.compiled import column_arrays, compiling, replace_where_reached
from grace.methods.compiled.checks import NEEDED, UNSURE
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.threads import over_rows
from grace.methods.requirements import RuledTrees
from grace.methods.trees.aims import aims_of, plain_aims
from grace.methods.trees.checks import need_every_change
from grace.methods.trees.implications import implication, with_implications, with_kept_rules
from grace.methods.trees.margins import Aims
from grace.methods.trees.rows import COMPLETE, Found, TreeWork, found_arrays, search_rows, tree_work
from grace.methods.trees.rules import LinearRules, linear_rules, no_rules
from grace.methods.trees.steady import steady_rows
from grace.models.machine_code import MachineCode
from grace.models.trees.compiled import Trees
from grace.models.trees.ensemble import TreeEnsemble, smallest_trees
from grace.problem.problem import Problem
from grace.schema.features import Floats

VISITS = 12_000_000  # nodes of trees that a row may take, about a quarter of a second
EPSILON = 1e-6  # beside a number beyond which the spread is too small to be seen
FURTHER = 500_000  # and beyond them, to find an answer that is no spike
KEPT = 1 << 26  # bytes of the largest workspace that a thread keeps

Arrays = tuple[Trees, Aims, Columns, Table]
_thread = threading.local()


def search_trees(problem: Problem, ensemble: TreeEnsemble) -> Tensor:
    """The answer with the fewest changes, and of those the nearest; or the nearest of all, if that is preferred. The
    original row where there is none. Where rounding could decide, the model itself does."""
    return _search(problem, ensemble, None)[0]


def search_ruled_trees(ruled: RuledTrees) -> tuple[Tensor, Tensor]:
    """The same under rules, and whether the search of each row (n,) left nothing out."""
    return _search(ruled.inner, ruled.ensemble, ruled)


def _search(problem: Problem, ensemble: TreeEnsemble, ruled: RuledTrees | None) -> tuple[Tensor, Tensor]:
    first = np.ones(len(problem), dtype=np.int64)
    found = search_from(problem, ensemble, first, problem.prefer == "nearest", ruled)
    complete = torch.from_numpy(found.state == COMPLETE)
    if not found.cells.any():
        return torch.from_numpy(found.rows), complete
    best, left, part = with_decided_cells(problem, found), np.arange(len(problem)), problem
    while problem.prefer != "nearest" and found.cells.any():  # none of the cells in question may have been an answer
        missed = (best[left] == part.rows.numpy()).all(axis=1)
        again = np.flatnonzero((found.cells > 0) & (found.changes < problem.max_features) & missed)
        if len(again) == 0:
            break
        left, first = left[again], found.changes[again] + 1
        part = problem.select(torch.from_numpy(left))
        found = search_from(part, ensemble, first, False, ruled)
        best[left] = with_decided_cells(part, found)
    return torch.from_numpy(best), complete


def search_from(
    problem: Problem, ensemble: TreeEnsemble, first: np.ndarray, nearest: bool, ruled: RuledTrees | None = None
) -> Found:
    """The compiled search, for each row with at least `first` (n,) changes."""
    trees, aims, columns, table = (
        tree_arrays(problem, ensemble) if ruled is None else ruled_arrays(problem, ensemble, ruled)
    )
    found, most, run = found_arrays(table.rows), problem.max_features, ready()
    over_rows(
        len(problem),
        lambda a, b, work: run(trees, aims, columns, table, a, b, first, most, nearest, VISITS, found, work),
        lambda: own_work(trees, columns, table.rows.shape[1], most),
    )
    return found


def with_decided_cells(problem: Problem, found: Found) -> np.ndarray:
    """The answers, or cells in question that are nearer and that the model itself decides as was asked for."""
    best = found.rows
    if not found.cells.any():
        return best
    owner, place = np.nonzero(np.arange(found.unsure.shape[1]) < found.cells[:, None])
    cells = torch.from_numpy(found.unsure[owner, place])
    part = problem.select(torch.from_numpy(owner))
    reached = part.reached(cells).numpy()
    far = np.where(reached, part.space.distance(part.rows, cells).numpy(), np.inf)
    own = problem.space.distance(problem.rows, torch.from_numpy(best)).numpy()
    least = np.where((best != problem.rows.numpy()).any(axis=1), own, np.inf)
    for at in np.argsort(far, kind="stable"):  # few: cells in which rounding could decide
        if far[at] < least[owner[at]]:
            least[owner[at]], best[owner[at]] = far[at], cells[at].numpy()
    return best


def polish_trees(problem: Problem, ensemble: TreeEnsemble, contrast: Tensor) -> Tensor:
    """The fewest and nearest changes to the features that contrastive rows change."""
    changed = contrast != problem.rows
    most = max(1, int(changed.sum(dim=1).max()))
    none = torch.zeros_like(problem.conflict)  # what changes together already may
    part = replace(problem, free=problem.free & changed, max_features=most, prefer="fewest", conflict=none)
    found = search_trees(part, ensemble)
    return torch.where((found != problem.rows).any(dim=1, keepdim=True), found, contrast)


def steady_trees(problem: Problem, ensemble: TreeEnsemble, answers: Tensor) -> Tensor:
    """The nearest answers replaced by steady ones with as few changes, see `methods.steady`."""
    trees, aims, columns, table = tree_arrays(problem, ensemble)
    rows, d, run = answers.numpy().copy(), table.rows.shape[1], ready_steady()
    over_rows(
        len(problem),
        lambda a, b, work: run(trees, aims, columns, table, a, b, FURTHER, rows, work),
        lambda: own_work(trees, columns, d, problem.max_features),
    )
    return replace_where_reached(problem, answers, torch.from_numpy(rows))


def need_every_change_trees(
    problem: Problem, ensemble: TreeEnsemble, found: Tensor, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the model decides no proper subset of the changes as was asked for (n,), and whether it has to be asked
    that."""
    trees, aims, _, table = tree_arrays(problem, ensemble, ties=True)
    new, needed, run = np.ascontiguousarray(found.numpy()), np.empty(len(found), dtype=np.int64), ready_checks()

    def room() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.empty(most, dtype=np.int64), np.empty(new.shape[1]), np.empty(len(trees.base))

    over_rows(len(problem), lambda a, b, work: run(trees, aims, table.rows, new, a, b, most, needed, *work), room)
    return needed == NEEDED, needed == UNSURE


def tree_arrays(problem: Problem, ensemble: TreeEnsemble, ties: bool = False) -> Arrays:
    """The trees, goal (see `aims_of`), columns and rows of a problem."""
    table = table_of(problem, ensemble, no_rules(len(problem)))
    return ensemble.trees, aims_of(problem, ensemble, ties), column_arrays(problem.space), table


def ruled_arrays(problem: Problem, ensemble: TreeEnsemble, ruled: RuledTrees) -> Arrays:
    """The same of a problem under rules."""
    linear, columns = linear_rules(problem, ruled.consequences), column_arrays(problem.space)
    if not ruled.implications:
        return ensemble.trees, aims_of(problem, ensemble), columns, table_of(problem, ensemble, linear)
    wider = with_implications(ensemble, tuple(implication(ruled.consequences.schema, r) for r in ruled.implications))
    aims = with_kept_rules(aims_of(problem, ensemble, contest=False))
    return wider.trees, aims, columns, table_of(problem, wider, linear)


def table_of(problem: Problem, ensemble: TreeEnsemble, rules: LinearRules) -> Table:
    """The rows of a problem."""
    rows, _, _, free = problem.cells
    cells = map(np.ascontiguousarray, (rows, *ends_of(problem, ensemble), free, problem.pairs))
    return Table._make((*cells, rules))


def ends_of(problem: Problem, ensemble: TreeEnsemble) -> tuple[Floats, Floats]:
    """The limits (n, d) of each cell. Where a range has no end, it ends beyond all thresholds and the row: nothing
    changes there any more."""
    rows, low, high, _ = problem.cells
    if not (problem.space.is_bounded or (np.isfinite(low) & np.isfinite(high)).all()):
        first, last = (outer(rows, end) for outer, end in zip((np.minimum, np.maximum), ensemble.ends, strict=True))
        spread = problem.space.spread.numpy()
        low = np.where(np.isfinite(low), low, first - spread - np.abs(first) * EPSILON)
        high = np.where(np.isfinite(high), high, last + spread + np.abs(last) * EPSILON)
    if not problem.space.has_integers:
        return low, high
    whole = problem.space.is_integer.numpy()
    return np.where(whole, np.ceil(low), low), np.where(whole, np.floor(high), high)


def own_work(trees: Trees, columns: Columns, d: int, most: int) -> TreeWork:
    """The workspace of this thread, kept until another ensemble or space is searched, unless it is large."""
    known = getattr(_thread, "known", None)
    if known is not None and known[0] is trees and known[1] is columns and known[2] == most:
        work: TreeWork = known[3]
        return work
    work = tree_work(trees, columns, d, most)
    size = sum(part.nbytes for part in (*work.search, *work.search.region) if isinstance(part, np.ndarray))
    _thread.known = (trees, columns, most, work) if size <= KEPT else None
    return work


Question = tuple[Trees, Aims, Columns, Table, TreeWork]


def smallest() -> Question:
    """The arguments of compiled functions, for no rows: their types are those of any ensemble, goal and table."""
    whole, none, rows = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros((0, 1))
    trees = smallest_trees()
    aims = plain_aims(np.zeros((1, 1, 1)), whole[:0], rows, rows, rows, [0, 1])
    columns = Columns(none, none, whole, none > 0, none > 0, np.zeros(2, dtype=np.int64), none[:0], 1.0)
    table = Table(rows, rows, rows, rows > 0, np.zeros((1, 1), dtype=bool), no_rules(0))
    return trees, aims, columns, table, tree_work(trees, columns, 1, 1)


@cache
def ready() -> MachineCode:
    """Compile the search, or load what an earlier process has compiled."""
    trees, aims, columns, table, work = smallest()
    first = np.zeros(1, dtype=np.int64)
    with compiling("search of trees"):
        given = (trees, aims, columns, table, 0, 0, first, 1, False, 1, found_arrays(table.rows), work)
        return MachineCode(search_rows, *given, kept=(0, 2, len(given) - 1))


@cache
def ready_steady() -> MachineCode:
    """The same for steady answers."""
    trees, aims, columns, table, work = smallest()
    with compiling("steady answers of trees"):
        given = (trees, aims, columns, table, 0, 0, 1, np.zeros((0, 1)), work)
        return MachineCode(steady_rows, *given, kept=(0, 2, len(given) - 1))


@cache
def ready_checks() -> MachineCode:
    """The same for the checks of answers."""
    trees, aims, _, table, _ = smallest()
    with compiling("checks of answers of trees"):
        room = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
        return MachineCode(
            need_every_change, trees, aims, table.rows, table.rows, 0, 0, 1, room[0][:0], *room, kept=(0,)
        )


__all__ = [
    "COMPLETE",
    "need_every_change_trees",
    "polish_trees",
    "search_from",
    "search_ruled_trees",
    "search_trees",
    "steady_trees",
    "tree_arrays",
]
