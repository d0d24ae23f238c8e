"""Compiled functions over many rows, on as many threads as torch uses. They run without the GIL; numba's own threads
would not survive in forked processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import torch

from grace.problem.cancellation import check_cancelled

ROWS = 16  # that a thread takes at a time
PATIENCE = 0.05  # seconds between two looks at whether the work is given up

W = TypeVar("W")


def over_rows(n: int, run: Callable[[int, int, W], None], workspace: Callable[[], W]) -> None:
    """Call `run(begin, end, work)` for all parts of n rows; each thread has a workspace of its own."""
    if 0 < n <= ROWS:
        run(0, n, workspace())
        check_cancelled()
        return
    threads = max(1, min(torch.get_num_threads(), -(-n // ROWS)))
    made: dict[int, W] = {}

    def part(begin: int) -> None:
        thread = threading.get_ident()
        if thread not in made:
            made[thread] = workspace()
        run(begin, min(begin + ROWS, n), made[thread])

    starts = range(0, n, ROWS)
    for _ in map(part, starts) if threads == 1 else pool(os.getpid(), threads).map(part, starts):
        check_cancelled()


def over_tasks(tasks: Sequence[int], run: Callable[[int, threading.Event], None]) -> None:
    """Call `run(task, stop)` for all tasks, each of which may take long; they should end when `stop` is set."""
    stop = threading.Event()
    threads = max(1, min(torch.get_num_threads(), len(tasks)))
    if threads == 1:
        for task in tasks:
            run(task, stop)
        return
    futures = [pool(os.getpid(), threads).submit(run, task, stop) for task in tasks]
    try:
        while wait(futures, timeout=PATIENCE).not_done:
            check_cancelled()
    finally:
        stop.set()
        wait(futures)
    for future in futures:
        future.result()


@cache
def pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked child gets others."""
    return ThreadPoolExecutor(threads, thread_name_prefix="grace")
