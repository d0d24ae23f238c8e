"""A few of the cases of a test for `make test`, and all of them for `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, of which those after the first `count` are slow."""
    return [case if i < count else _slow(case) for i, case in enumerate(cases)]


def but(slow: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """The cases, of which those in `slow` are slow."""
    marked = list(slow)
    return [_slow(case) if case in marked else case for case in cases]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
