"""Stopping long work that nobody waits for any more.

A server runs work inside `cancellable`; loops that may take seconds call `check_cancelled` in every round. Elsewhere
the check does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_given_up: ContextVar[Callable[[], bool] | None] = ContextVar("given_up", default=None)


class CancelledWorkError(Exception):
    """The work was given up before it was done."""


@contextmanager
def cancellable(given_up: Callable[[], bool]) -> Iterator[None]:
    """Within this context, work of this thread stops at its next check once `given_up()` is true."""
    token = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(token)


def check_cancelled() -> None:
    """Stop here if the work has been given up."""
    given_up = _given_up.get()
    if given_up is not None and given_up():
        raise CancelledWorkError
