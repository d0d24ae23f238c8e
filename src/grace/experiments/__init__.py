"""Benchmarks: GRACE's methods, other libraries' and your own on the same networks and rows.

task          what a method is given and gives back; subjects makes one of any model
functions     methods that are Python functions: GRACE's own and yours
peers         other libraries; environments makes theirs, process runs them, runners/ are their scripts, and serving
              answers them for models that stay here
judge         judges answers, whoever gave them
contest       puts it together; results and page make tables of it; command is `grace benchmark`
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
    "task_of": "subjects",
}

__getattr__ = lazily(__name__, _HOMES)
