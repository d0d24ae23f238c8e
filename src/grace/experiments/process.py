"""Running a peer in a process of its own, with a limit on every row: it may crash, hang or talk nonsense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from grace.errors import GraceError
from grace.experiments.environments import clean
from grace.experiments.serving import served
from grace.experiments.task import Answers, Task, checked_row, network_in

GRACE_PERIOD = 2.0  # seconds beyond a row's limit before its process is ended
SETUP_LIMIT = 300.0  # seconds for imports and fitting
GIVE_UP = 5  # rows in a row without any answer for lack of time, or by crashes
POLL = 0.01


def ask_peer(
    task: Task, command: Sequence[str], variant: str, *, grace_period: float = GRACE_PERIOD, setup: float = SETUP_LIMIT
) -> Answers:
    """The answers of a runner (see `runners/protocol.py`). A row that takes too long or ends the process has
    no answer; the process is started again with the next. A peer that cannot even be set up is an error."""
    outcomes: dict[int, dict[str, Any]] = {}
    todo = list(range(len(task.rows)))
    with tempfile.TemporaryDirectory(prefix="grace-peer-") as place, ExitStack() as stack:
        here = Path(place)
        task.save(here / "task")
        if network_in(task.model) is None:
            (here / "task" / "address").write_text(stack.enter_context(served(task)), encoding="utf-8")
        while todo and not _hopeless(outcomes):
            child = _Child(here, [*command, str(here / "task"), str(here / "events"), variant], todo)
            try:
                child.watch(outcomes, task.time_limit + grace_period, setup)
            finally:
                end(child.process)
            left = [i for i in todo if i not in outcomes]
            if len(left) == len(todo):
                raise GraceError(f"no row was answered: {last_words(child.log, child.process)}")
            todo = left
    return _answers(task, outcomes)


class _Child:
    """One process of a runner and the events it writes."""

    def __init__(self, here: Path, command: list[str], rows: list[int]) -> None:
        self.events, self.log = here / "events", here / "log"
        self.events.write_text("", encoding="utf-8")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, ",".join(map(str, rows))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=clean(),
            )
        self.rows = set(rows)
        self.seen = 0
        self.ready = False
        self.row = -1

    def watch(self, outcomes: dict[int, dict[str, Any]], row_limit: float, setup: float) -> None:
        """Take in events until the process ends, hangs, or is not worth waiting for."""
        last = time.monotonic()
        while True:
            ended = self.process.poll() is not None  # before reading, so that nothing is missed
            for event in self._news():
                last = time.monotonic()
                self._take(event, outcomes)
            if _hopeless(outcomes) or self.rows <= outcomes.keys():
                return
            late = time.monotonic() - last > (row_limit if self.ready else setup)
            if ended or late:
                break
            time.sleep(POLL)
        if not self.ready:
            late_words = f"took longer than {setup:g} s"
            raise GraceError(f"set-up failed: {last_words(self.log, self.process) if ended else late_words}")
        if self.row in self.rows - outcomes.keys():
            crash = {"error": f"crash: {last_words(self.log, self.process)}"}
            outcomes[self.row] = crash if ended else {"error": "time", "seconds": row_limit}

    def _news(self) -> list[dict[str, Any]]:
        with self.events.open("rb") as file:
            file.seek(self.seen)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.seen += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
        return found

    def _take(self, event: dict[str, Any], outcomes: dict[int, dict[str, Any]]) -> None:
        self.ready |= "ready" in event
        if isinstance(event.get("begin"), int) and event["begin"] in self.rows:
            self.row = event["begin"]
        if event.get("row") == self.row:
            outcomes[self.row] = event


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def last_words(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The last line that a process wrote, which in Python names the error."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {process.poll()}"


def _hopeless(outcomes: dict[int, dict[str, Any]]) -> bool:
    last = [o.get("error", "") for o in list(outcomes.values())[-GIVE_UP:]]
    return len(last) == GIVE_UP and all(str(e).startswith(("time", "crash")) for e in last)


def _answers(task: Task, outcomes: dict[int, dict[str, Any]]) -> Answers:
    rows = np.full(task.rows.shape, np.nan)
    seconds = np.full(len(task.rows), np.nan)
    troubles: Counter[str] = Counter()
    for i, outcome in outcomes.items():
        trouble = str(outcome.get("error") or "")
        took = outcome.get("seconds")
        seconds[i] = float(took) if isinstance(took, int | float) else np.nan
        if not trouble and outcome.get("values") is not None:
            row, trouble = checked_row(task, outcome["values"])
            rows[i] = row
        if trouble:
            troubles["over the time limit" if trouble == "time" else trouble] += 1
    notes = [f"{count} of {len(outcomes)} rows: {trouble}" for trouble, count in troubles.most_common(3)]
    left = len(task.rows) - len(outcomes)
    if left:
        notes.append(f"given up after {GIVE_UP} rows in a row without an answer; {left} rows not tried")
    timed = seconds[np.isfinite(seconds)]
    whole = float(timed.mean() * len(task.rows)) if len(timed) else None  # a batch is a loop over rows
    return Answers(rows, seconds, whole, tried=len(outcomes), note="; ".join(notes))
