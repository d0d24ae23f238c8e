"""Methods that are Python functions: those of GRACE, those of the caller, and those of a file, which are run in another
process: `python -m grace.experiments.functions FILE.py:FUNCTION TASK_FOLDER ANSWERS_FILE`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from grace.errors import GraceError
from grace.experiments.process import end, last_line, start
from grace.experiments.runners.protocol import TooLong, limit
from grace.experiments.task import Answers, Method, Task, as_answers
from grace.explain.explainer import Explainer
from grace.problem.target_range import TargetRange
from grace.schema.features import Floats

START = 30.0  # seconds for the start of a process
SINGLE, TIMED = 20, 5  # rows that are also explained one at a time, to measure the time: by GRACE, and by others
Result = TypeVar("Result")


def grace_method(method: str) -> Method:
    """A method of GRACE as a method of a benchmark. The time does not include the explainer's set-up, as for peers."""

    def run(task: Task) -> Answers:
        explainer = Explainer(task.model, task.train_frame, schema=task.schema, domain=task.domain, among="nearest")
        settings: dict[str, Any] = {"method": method, "max_features": task.max_features, "gamma": task.gamma}
        if task.wanted is not None:
            settings["against"] = TargetRange(*task.wanted)
        frame = task.frame
        explainer.explain(frame.head(1), **settings)  # fills caches
        batch, seconds = _timed(lambda: explainer.explain(frame, **settings))
        single = _single_seconds(len(frame), SINGLE, lambda i: explainer.explain(frame.iloc[[i]], **settings))
        return Answers(np.where(batch.success[:, None], batch.answers.contrast, np.nan), single, seconds)

    return run


def call(method: Method, task: Task) -> Answers:
    """The answers of a function, within the time limit of all rows together. If it does not return times, they are
    measured here: that of all rows, and those of the first `TIMED` rows one by one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with limit(task.time_limit * len(task.rows)):
            answers, seconds = _timed(lambda: as_answers(task, method(task)))
            if answers.seconds is None:
                single = _single_seconds(len(task.rows), TIMED, lambda i: method(task.select([i])))
                answers = replace(answers, seconds=single)
    except TooLong:
        raise GraceError(f"it took longer than {task.time_limit:g} s a row") from None
    finally:
        torch.set_num_threads(threads)
    return replace(answers, batch_seconds=seconds) if answers.batch_seconds is None else answers


def _timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """The result of a function, and the seconds that it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def _single_seconds(rows: int, count: int, function: Callable[[int], object]) -> Floats:
    """The seconds that a function takes for each of the first `count` rows; NaN for the others."""
    return np.array([_timed(partial(function, i))[1] if i < count else np.nan for i in range(rows)])


def call_file(name: str, task: Task) -> Answers:
    """The answers of the function `path/to/file.py:function`, called in another process, as it may crash or hang."""
    path, _, _ = name.rpartition(":")
    if not Path(path).is_file():
        raise GraceError(f"{name}: there is no file {path}")
    with tempfile.TemporaryDirectory(prefix="grace-peer-") as folder:
        here = Path(folder)
        task.save(here / "task")
        arguments = [name, str(here / "task"), str(here / "answers")]
        paths = os.pathsep.join(p for p in sys.path if p)
        process = start(
            [sys.executable, "-m", "grace.experiments.functions", *arguments], here / "log", PYTHONPATH=paths
        )
        try:
            process.wait(task.time_limit * len(task.rows) + START)
        except subprocess.TimeoutExpired:
            raise GraceError(f"it took longer than {task.time_limit:g} s a row") from None
        finally:
            end(process)
        if process.returncode or not (here / "answers").is_file():
            raise GraceError(last_line(here / "log", process))
        data = json.loads((here / "answers").read_text(encoding="utf-8"))
    return Answers.from_dict(data, task.rows.shape[1])


def is_in_file(name: str) -> bool:
    """Whether a name is `path/to/file.py:function`."""
    return ".py:" in name


def load(name: str) -> Method:
    """The function of `path/to/file.py:function`."""
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("grace_peer_" + Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Any = getattr(module, function, None)
    if not callable(found):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise GraceError(f"{path} has no function {function!r}; it has {', '.join(names) or 'none'}")
    method: Method = found
    return method


def main() -> None:
    """Call the function of a file with a saved task, and write its answers as JSON."""
    name, folder, out = sys.argv[1:4]
    try:
        answers = call(load(name), Task.load(Path(folder)))
    except GraceError as reason:
        sys.exit(str(reason))
    Path(out).write_text(json.dumps(answers.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
