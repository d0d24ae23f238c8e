"""Compiled functions over many rows, on as many threads as torch uses. They run without the GIL; numba's own threads
would not survive in forked processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

from grace.problem.cancellation import check_cancelled

ROWS = 16  # that a thread takes at a time

W = TypeVar("W")


def over_rows(n: int, run: Callable[[int, int, W], None], workspace: Callable[[], W]) -> None:
    """Call `run(begin, end, work)` for all parts of n rows; each thread has a workspace of its own."""
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


@cache
def pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked child gets others."""
    return ThreadPoolExecutor(threads, thread_name_prefix="grace")
