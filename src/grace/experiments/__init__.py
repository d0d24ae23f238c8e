"""Benchmarks: GRACE's methods, other libraries' and your own on the same networks and rows.

task          what a method is given and gives back, made of a table of ours or of any model
functions     methods that are Python functions: GRACE's own and yours; child runs them in a process of their own
peers         other libraries, each in an environment of its own; process runs them, runners/ are their scripts
evaluate      measures answers, whoever gave them
benchmarking  runs every method on every task; results makes tables of it
reproduction  the paper's experiments again: `grace reproduce`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace import lazily

if TYPE_CHECKING:
    from grace.experiments.benchmarking import benchmark, compare
    from grace.experiments.results import Results
    from grace.experiments.task import Answers, Task, task_of

__all__ = ["Answers", "Results", "Task", "benchmark", "compare", "task_of"]

_HOMES = {
    "Answers": "task",
    "Results": "results",
    "Task": "task",
    "benchmark": "benchmarking",
    "compare": "benchmarking",
    "task_of": "task",
}

__getattr__ = lazily(__name__, _HOMES)
