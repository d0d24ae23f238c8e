"""Benchmarks: GRACE's methods, other libraries' and your own on the same networks and rows.

task          what a method gets and returns, for an embedded table or any model; tree_arrays are its trees in a file
functions     methods that are Python functions: GRACE's and yours; those of a file run in another process
peers         other libraries, each in its own virtual environment; process runs them, runners/ has their scripts
evaluate      measures of answers, the same for all methods
benchmarking  runs every method on every task; results has tables of the measures
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
