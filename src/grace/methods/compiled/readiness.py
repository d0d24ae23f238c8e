"""Compiles the functions of this folder when they are first needed, or loads what an earlier process has compiled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from grace.methods.compiled.checks import check_rows, need_every_change
from grace.methods.compiled.goal import RANGE, CompiledGoal
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.local import Background, local_work
from grace.methods.compiled.polish import Work, polish_rows
from grace.methods.compiled.profiles import scores_along
from grace.methods.compiled.required import Linear, Required
from grace.methods.compiled.required_back import way_back_rows
from grace.methods.compiled.required_search import polish_required_rows, search_required_rows
from grace.methods.compiled.search import search_rows
from grace.methods.compiled.steady import steady_rows
from grace.methods.compiled.walk_arrays import Coordinates, WalkOptions, WalkWork, walk_work
from grace.methods.compiled.walks import improve_rows, walk_rows
from grace.methods.compiled.workspaces import workspace
from grace.models.compile_lock import alone
from grace.models.compiled import Layers, layers_of
from grace.models.machine_code import MachineCode

PATIENCE = 2.0  # seconds of compiling after which it is reported
PARTS = ("checks", "search", "requirements", "steady answers", "polish", "walks", "profiles")
NOWHERE = np.zeros(0, dtype=np.int64)
SHARED = Layers, Columns, Coordinates, Background, WalkOptions, WalkWork, Work  # by many calls
log = logging.getLogger("grace")


@cache
def ready(part: str) -> Mapping[str, MachineCode]:
    """Compile one of PARTS, or load what an earlier process has compiled: for any network, goal and table. Returns its
    functions by name, which take arrays of the types here, such as those of `arrays_of`."""
    net, rows, none = layers_of(np.zeros((1, 1)), np.zeros(1), {}, []), np.zeros((0, 1)), np.zeros(0)
    whole = np.zeros(1, dtype=np.int64)
    goal = CompiledGoal(RANGE, whole[:0], none, none, 1.0, -np.inf, none)
    columns = Columns(none, none, whole[:0], none > 0, none > 0, whole, none, 1.0)
    table = Table(rows, rows, rows, rows > 0, np.zeros((1, 1), dtype=bool))
    work, options = workspace(net, columns, 1, 1), WalkOptions(1, 1, 1e-6, False)
    background = Background(rows, whole[:0], rows, none, rows, whole[:0])
    further = Coordinates(none, whole, rows, rows, none > 0), background
    walks = walk_work(net, 1, 1, 1, 1, local_work(1, 1, 1))
    arrays, end = (net, goal, columns, table), (0, 0)
    known: dict[str, MachineCode] = {}

    def make(function: Callable[..., object], *given: Any) -> None:
        same = [place for place, argument in enumerate(given) if isinstance(argument, SHARED)]
        known[function.__name__] = MachineCode(function, *given, kept=same)

    with compiling(part):
        if part == "checks":
            for ends in (np.zeros((2, 2))[:, ::2], rows):  # the same for all rows, or those of each
                cells = rows, ends, ends, rows > 0, table.conflict, rows
                make(check_rows, columns, *cells, whole[:0], none > 0, none > 0, none)
            make(need_every_change, net, goal, rows, rows, *end, 1, 1e-6, whole, whole, none, none)
        elif part == "search":
            make(search_rows, *arrays, *end, 1, False, 1e-6, rows, work)
            make(improve_rows, *arrays, *further, *end, options, rows, walks, work)
        elif part == "steady answers":
            make(steady_rows, *arrays, *end, 1, 1e-6, rows, work)
        elif part == "requirements":
            ready_required(*arrays)
        elif part == "polish":
            make(polish_rows, *arrays, *end, rows, 1e-6, work)
        elif part == "walks":
            make(walk_rows, *arrays, *further, *end, False, options, rows, walks)
        else:
            scores_along(net, np.zeros((1, 1)), whole, np.zeros(1), np.zeros(1))
    return known


def ready_required(net: Layers, goal: CompiledGoal, columns: Columns, table: Table) -> None:
    """Compile the search with requirements, given a problem without rows."""
    none, rows, flags = np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1), dtype=bool)
    net = net._replace(linear=Linear(1, np.zeros((1, 0)), rows, none))
    required = Required(0, 1, 1, rows, rows, np.zeros((1, 0)), flags, rows, none > 0, NOWHERE)
    arrays = net, goal._replace(required=required), columns, table
    work = workspace(net, columns, 1, 1)
    search_required_rows(*arrays, 0, 0, 1, False, 1e-6, rows, work)
    way_back_rows(*arrays, 0, 0, np.zeros((0, 1, 1)), flags, 1, False, 1e-6, rows, work)
    polish_required_rows(*arrays, 0, 0, rows, 1e-6, work)


def all_ready() -> None:
    """Compile everything now."""
    for part in PARTS:
        ready(part)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Report it if compiling within this context takes long. Processes that need the same compile it once."""
    notice = f"compiling the {what} for this machine, which is done once and takes a minute or two"
    timer = threading.Timer(PATIENCE, log.warning, [notice])
    timer.start()
    try:
        with alone(what):
            yield
    finally:
        timer.cancel()
