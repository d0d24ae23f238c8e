"""Methods that are Python functions: GRACE's own, and those of a researcher."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError
from grace.experiments.process import clean, end, last_words
from grace.experiments.runners.protocol import TooLong, limit
from grace.experiments.task import Answers, Method, Task, as_answers
from grace.explain.explainer import Explainer
from grace.problem.target_range import TargetRange

START = 30.0  # seconds for a process to start in
SINGLE = 20  # rows that are also asked one at a time, to time them


def own(method: str) -> Method:
    """A method of GRACE as a method of a benchmark. The explainer is made before the clock starts, as the peers are."""

    def run(task: Task) -> Answers:
        explainer = Explainer(task.model, task.train_frame, schema=task.schema, domain=task.domain)
        wishes: dict[str, Any] = {"method": method, "max_features": task.max_features, "gamma": task.gamma}
        if task.wanted is not None:
            wishes["against"] = TargetRange(*task.wanted)
        frame = task.frame
        explainer.explain(frame.head(1), **wishes)  # what is prepared on first use, as the peers prepare it when made
        start = time.perf_counter()
        batch = explainer.explain(frame, **wishes)
        whole = time.perf_counter() - start
        seconds = np.full(len(frame), np.nan)
        for i in range(min(SINGLE, len(frame))):
            start = time.perf_counter()
            explainer.explain(frame.iloc[[i]], **wishes)
            seconds[i] = time.perf_counter() - start
        rows = np.where(batch.success[:, None], batch.answers.contrast, np.nan)
        return Answers(rows, seconds, whole)

    return run


def call(method: Method, task: Task) -> Answers:
    """What a function answers, within the time limit of all its rows together; one that does not time itself is
    timed from outside, on all rows and on some alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with limit(task.time_limit * len(task.rows)):
            start = time.perf_counter()
            found = as_answers(task, method(task))
            whole = time.perf_counter() - start
            if found.seconds is None:
                found = replace(found, seconds=_alone(method, task))
    except TooLong:
        raise GraceError(f"it took longer than {task.time_limit:g} s a row") from None
    finally:
        torch.set_num_threads(threads)
    return replace(found, batch_seconds=whole) if found.batch_seconds is None else found


def _alone(method: Method, task: Task) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    seconds = np.full(len(task.rows), np.nan)
    for i in range(min(5, len(task.rows))):
        part = task.select([i])
        start = time.perf_counter()
        method(part)
        seconds[i] = time.perf_counter() - start
    return seconds


def call_file(place: str, task: Task) -> Answers:
    """What the function of `path/to/file.py:function` answers, in a process of its own that may crash or hang."""
    path, _, _ = place.rpartition(":")
    if not Path(path).is_file():
        raise GraceError(f"{place}: there is no file {path}")
    with tempfile.TemporaryDirectory(prefix="grace-peer-") as folder:
        here = Path(folder)
        task.save(here / "task")
        command = [sys.executable, "-m", "grace.experiments.child", place, str(here / "task"), str(here / "answers")]
        paths = os.pathsep.join(p for p in sys.path if p)
        with (here / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**clean(), "PYTHONPATH": paths},
            )
        most = task.time_limit * len(task.rows)
        try:
            process.wait(most + START)
        except subprocess.TimeoutExpired:
            raise GraceError(f"it took longer than {task.time_limit:g} s a row") from None
        finally:
            end(process)
        if process.returncode or not (here / "answers").is_file():
            raise GraceError(last_words(here / "log", process))
        data = json.loads((here / "answers").read_text(encoding="utf-8"))
    return Answers.from_dict(data, task.rows.shape[1])


def is_place(name: str) -> bool:
    """Whether a name means a function in a file: path/to/file.py:function."""
    return ".py:" in name


def load(place: str) -> Method:
    """The function of `path/to/file.py:function`."""
    path, _, function = place.rpartition(":")
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
