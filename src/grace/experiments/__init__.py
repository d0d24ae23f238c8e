"""Benchmarks: GRACE's methods, other libraries' and your own on the same networks and rows.

task          what a method is given and gives back
functions     methods that are Python functions: GRACE's own and yours
peers         other libraries; environments makes theirs, process runs them, runners/ are their scripts
judge         judges answers, whoever gave them
contest       puts it together; results and page make tables of it; command is `grace benchmark`
reproduction  the paper's experiments again: `grace reproduce`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grace.experiments.contest import benchmark
    from grace.experiments.results import Results
    from grace.experiments.task import Answers, Task

__all__ = ["Answers", "Results", "Task", "benchmark"]

_HOMES = {"Answers": "task", "Results": "results", "Task": "task", "benchmark": "contest"}


def __getattr__(name: str) -> Any:
    """Import on first use: the command must not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(f"grace.experiments.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'grace.experiments' has no attribute {name!r}")
