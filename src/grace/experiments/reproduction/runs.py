"""Computes the results of a plan that are not stored yet, in several processes; each is stored when it is ready."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from grace.datasets import Table
from grace.errors import GraceError
from grace.experiments.reproduction import samples
from grace.experiments.reproduction.plan import Plan, Result, Sizes, Store, Unit
from grace.experiments.reproduction.simulation import simulate
from grace.experiments.reproduction.subject import Subject

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
POLL = 0.5  # seconds between checks for new results
Job = tuple[Table, int, list[str]]
Progress = Callable[[Unit, str], None]
"""Called with each unit when it is done, and the missing package if it could not be computed, else an empty text."""


def compute(plan: Plan, out: str | Path, workers: int = 2, progress: Progress = lambda *_: None) -> list[str]:
    """Compute the results that are missing in the folder `out`; returns a sentence for each package that is missing."""
    if workers < 1:
        raise GraceError(f"workers={workers}: it must be at least 1")
    unavailable: dict[str, None] = {}
    jobs = _jobs(plan, Store(out, plan))
    for unit, why in _in_process(plan, out, jobs) if workers == 1 else _in_pool(plan, out, jobs, workers):
        if why:
            unavailable[why] = None
        progress(unit, why)
    return list(unavailable)


def _jobs(plan: Plan, store: Store) -> list[Job]:
    """The missing parts of each table and run, the largest tables first."""
    parts: dict[tuple[str, int], list[str]] = {}
    for unit in store.missing():
        parts.setdefault((unit.data, unit.run), []).append(unit.part)
    jobs = [(plan.table(data), run, names) for (data, run), names in parts.items()]
    return sorted(jobs, key=lambda job: -job[0].frame.size)


def _in_process(plan: Plan, out: str | Path, jobs: list[Job]) -> Iterator[tuple[Unit, str]]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in worker processes: the order of summation decides the last bit
    try:
        for table, run, parts in jobs:
            yield from work(table, run, parts, plan.sizes, out)
    finally:
        torch.set_num_threads(threads)


def _in_pool(plan: Plan, out: str | Path, jobs: list[Job], workers: int) -> Iterator[tuple[Unit, str]]:
    """In worker processes, which end when this one does, even if it is killed."""
    context = multiprocessing.get_context("spawn")
    store = Store(out, plan)
    waiting = [Unit(table.name, run, part) for table, run, parts in jobs for part in parts]
    with _single_threads(), ProcessPoolExecutor(workers, mp_context=context, initializer=_start) as pool:
        left: set[Future[list[tuple[Unit, str]]]] = {
            pool.submit(_all, table, run, parts, plan.sizes, out) for table, run, parts in jobs
        }
        try:
            while left:
                done, left = wait(left, timeout=POLL, return_when=FIRST_COMPLETED)
                failed = {unit: why for future in done for unit, why in future.result() if why}
                for unit in [u for u in waiting if u in failed or store.get(u) is not None]:
                    waiting.remove(unit)
                    yield unit, failed.get(unit, "")
        except BrokenProcessPool as reason:
            raise GraceError(
                "a process ended by itself, perhaps for want of memory; run the same command again with fewer workers"
            ) from reason
        finally:
            for future in left:
                future.cancel()


@contextmanager
def _single_threads() -> Iterator[None]:
    """Limit processes started meanwhile to one thread: libraries read these variables when they are loaded."""
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name in THREADS:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _start() -> None:
    """Initialise a worker: one thread, the default action on Ctrl-C, and an exit when the parent has ended."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def _all(table: Table, run: int, parts: list[str], sizes: Sizes, out: str | Path) -> list[tuple[Unit, str]]:
    return list(work(table, run, parts, sizes, out))


def work(table: Table, run: int, parts: Iterable[str], sizes: Sizes, out: str | Path) -> Iterator[tuple[Unit, str]]:
    """Compute and store some parts of a table and run; yields each unit, with the missing package if there is one."""
    plan = Plan((table,), run + 1, (), sizes)
    store = Store(out, plan)
    subject = Subject(table, run, store.network(table.name, run))
    for part in parts:
        unit, why = Unit(table.name, run, part), ""
        try:
            store.put(unit, _part(part)(subject, sizes))
        except GraceError as reason:
            if not isinstance(reason.__cause__, ImportError):
                raise GraceError(f"{table.name}, run {run}, {part}: {reason}") from reason
            why = str(reason)
        yield unit, why


def _part(name: str) -> Callable[[Subject, Sizes], Result]:
    return samples.PARTS.get(name) or partial(simulate, method=name.removeprefix("reader-"))
