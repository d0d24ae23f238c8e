"""Running a peer in a process of its own, with a limit on every row: it may crash, hang or talk nonsense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError
from grace.experiments.task import Answers, Task, checked_row, network_in
from grace.models.base import checked_scores

STAMP = "grace-peer.json"
INSTALL_LIMIT = 900.0  # seconds
COMPILED = "numpy,pandas,scipy,scikit-learn,scikit-image,matplotlib"  # never built here: that takes an hour or fails


def environment(name: str, requirements: tuple[str, ...], root: Path, *, torch_too: bool = False) -> Path:
    """The Python of the environment `root/name`, made if it is not there or was made for other versions.

    The requirements are all that is installed: they name every package with its version. With `torch_too`
    the torch of this environment is seen from the new one, after whatever is installed there.
    """
    home = root / name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = {"requirements": list(requirements), "python": sys.version, "torch": torch.__file__ if torch_too else ""}
    if _stamp(home) == wanted and python.exists():
        return python.absolute()
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", f"--only-binary={COMPILED}"]
        _run([str(python), "-m", "pip", "install", *options, *requirements])
        if torch_too:
            place = subprocess.check_output(
                [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
            )
            (Path(place.strip()) / "torch-from-parent.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    except (OSError, subprocess.SubprocessError) as reason:
        raise GraceError(f"the environment {home} cannot be made: {reason}") from reason
    (home / STAMP).write_text(json.dumps(wanted), encoding="utf-8")
    return python.absolute()


def _stamp(home: Path) -> object:
    try:
        return json.loads((home / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT, env=clean())
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise GraceError(f"{' '.join(command[1:4])} failed: {lines[-1] if lines else done.returncode}")


def clean() -> dict[str, str]:
    """The variables of a child: no paths of this Python, one thread, no pictures."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**kept, **threads, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}


@contextmanager
def served(task: Task) -> Iterator[str]:
    """The address at which the model of a task can be asked, as long as this lasts. Only this user can reach it."""
    heard, stop = Pipe(duplex=False)
    with Listener() as listener, heard, stop:
        address = str(listener.address)
        thread = Thread(target=_serve, args=(listener, heard, task), daemon=True)
        thread.start()
        try:
            yield address
        finally:
            stop.send_bytes(b"stop")
            Client(address).close()  # whoever waits for a connection has one
            thread.join()


def _serve(listener: Listener, heard: Connection, task: Task) -> None:
    """One connection after another, until told to stop: a peer that was ended is followed by the next."""
    while not heard.poll():
        with listener.accept() as connection:
            try:
                while heard not in wait([connection, heard]):
                    connection.send_bytes(_answer(task, connection.recv_bytes()))
            except (EOFError, OSError):
                continue


def _answer(task: Task, message: bytes) -> bytes:
    """Scores after "=", or what went wrong after "!"."""
    try:
        rows = np.frombuffer(message).reshape(-1, task.rows.shape[1])
        return b"=" + checked_scores(task.model, torch.as_tensor(rows.copy())).numpy().astype(np.float64).tobytes()
    except Exception as reason:  # whatever the model raises is for the peer to report
        return b"!" + str(reason).encode()


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
