"""One thread for small batches: a model with threads of its own (OpenMP, joblib) waits for all of them at every call,
and on cores that others use too, that takes many times as long as the work itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

SMALL = 4096  # rows up to which one thread is at least about as fast
WITH_OPENMP = ("sklearn", "xgboost", "lightgbm", "torch")


@contextmanager
def one_thread_if_small(rows: int) -> Iterator[None]:
    """Limit this thread's OpenMP loops, and joblib's pools, to one thread while few rows are asked about."""
    if rows > SMALL:
        yield
        return
    with ExitStack() as limits:
        limits.enter_context(_openmp(tuple(name in sys.modules for name in WITH_OPENMP)).limit(limits=1))
        if "joblib" in sys.modules:
            from joblib import parallel_config

            limits.enter_context(parallel_config("sequential"))
        yield


@lru_cache(maxsize=1)
def _openmp(loaded: tuple[bool, ...]) -> Any:
    """The OpenMP runtimes that are loaded; looked for again when another library has brought one."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")
