"""Running a plan: what is not stored yet, on several processes, each result stored as it comes."""

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
from grace.experiments.reproduction.plan import Plan, Sizes, Unit
from grace.experiments.reproduction.store import Figures, Store
from grace.experiments.reproduction.subject import Subject

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
TICK = 0.5  # seconds between looks at what has been stored
Job = tuple[Table, int, list[str]]
Tell = Callable[[Unit, str], None]
"""Called as results come, with why there is none where a package is missing."""


def compute(plan: Plan, out: str | Path, workers: int = 2, tell: Tell = lambda *_: None) -> list[str]:
    """Compute what `out` does not hold yet; returns what is missing for want of a package, as sentences."""
    if workers < 1:
        raise GraceError(f"workers={workers}: it must be at least 1")
    store = Store(out, plan)
    wanting: dict[str, None] = {}
    jobs = _jobs(plan, store)
    for unit, why in _here(plan, out, jobs) if workers == 1 else _there(plan, out, jobs, workers):
        if why:
            wanting[why] = None
        tell(unit, why)
    return list(wanting)


def _jobs(plan: Plan, store: Store) -> list[Job]:
    """Tables and runs with their missing parts, those that take longest first."""
    parts: dict[tuple[str, int], list[str]] = {}
    for unit in store.missing():
        parts.setdefault((unit.data, unit.run), []).append(unit.part)
    jobs = [(plan.table(data), run, names) for (data, run), names in parts.items()]
    return sorted(jobs, key=lambda job: -job[0].frame.size)


def _here(plan: Plan, out: str | Path, jobs: list[Job]) -> Iterator[tuple[Unit, str]]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in processes of their own: sums then come out the same to the last bit
    try:
        for table, run, parts in jobs:
            yield from work(table, run, parts, plan.sizes, out)
    finally:
        torch.set_num_threads(threads)


def _there(plan: Plan, out: str | Path, jobs: list[Job], workers: int) -> Iterator[tuple[Unit, str]]:
    """On processes of their own, which end with this one even if it is killed."""
    context = multiprocessing.get_context("spawn")
    store = Store(out, plan)
    waiting = [Unit(table.name, run, part) for table, run, parts in jobs for part in parts]
    with _single_threads(), ProcessPoolExecutor(workers, mp_context=context, initializer=_start) as pool:
        left: set[Future[list[tuple[Unit, str]]]] = {
            pool.submit(_all, table, run, parts, plan.sizes, out) for table, run, parts in jobs
        }
        try:
            while left:
                done, left = wait(left, timeout=TICK, return_when=FIRST_COMPLETED)
                wants = {unit: why for future in done for unit, why in future.result() if why}
                for unit in [u for u in waiting if u in wants or store.get(u) is not None]:
                    waiting.remove(unit)
                    yield unit, wants.get(unit, "")
        except BrokenProcessPool as reason:
            raise GraceError(
                "a process ended by itself, perhaps for want of memory; run the same command again with fewer workers"
            ) from reason
        finally:
            for future in left:
                future.cancel()


@contextmanager
def _single_threads() -> Iterator[None]:
    """Processes that start meanwhile compute on one thread each: the libraries look when they are loaded."""
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
    """One thread each, a quiet end on Ctrl-C, and an end when the parent is gone."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _all(table: Table, run: int, parts: list[str], sizes: Sizes, out: str | Path) -> list[tuple[Unit, str]]:
    return list(work(table, run, parts, sizes, out))


def work(table: Table, run: int, parts: Iterable[str], sizes: Sizes, out: str | Path) -> Iterator[tuple[Unit, str]]:
    """Some parts of one table and run: each is stored, or the package that it needs is named."""
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


def _part(name: str) -> Callable[[Subject, Sizes], Figures]:
    if name in samples.PARTS:
        return samples.PARTS[name]
    if name == "case-study":
        from grace.experiments.reproduction.patient import case_study

        return case_study
    from grace.experiments.reproduction.simulation import simulate

    return partial(simulate, method=name.removeprefix("reader-"))
