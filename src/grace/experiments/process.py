"""Runs peers in processes of their virtual environments, with a time limit per row, as they may crash or hang."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
COMPILED = "numpy,pandas,scipy,scikit-learn,scikit-image,matplotlib"  # never built from source: slow, or it fails
GRACE_PERIOD = 2.0  # seconds beyond the time limit of a row before its process is killed
SETUP_LIMIT = 300.0  # seconds for imports and fitting
GIVE_UP = 5  # consecutive rows that time out or crash before the peer is given up
POLL = 0.01  # seconds


def environment(name: str, requirements: tuple[str, ...], root: Path, *, torch_too: bool = False) -> Path:
    """The Python of the virtual environment `root/name`, which is created if it is missing or has other versions.

    Only the requirements are installed, without dependencies: they pin every package. With `torch_too`, the torch of
    this environment can be imported in the new one, which takes precedence.
    """
    home = root / name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = {"requirements": list(requirements), "python": sys.version, "torch": torch.__file__ if torch_too else ""}
    if _stamp(home) == stamp and python.exists():
        return python.absolute()
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", f"--only-binary={COMPILED}"]
        _run([str(python), "-m", "pip", "install", *options, *requirements])
        if torch_too:
            packages = subprocess.check_output(
                [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
            )
            (Path(packages.strip()) / "torch-from-parent.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    except (OSError, subprocess.SubprocessError) as reason:
        raise GraceError(f"the environment {home} cannot be made: {reason}") from reason
    (home / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
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
    """Environment variables of a child: without the paths of this Python, with one thread and no display."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**inherited, **threads, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"}


@contextmanager
def served(task: Task) -> Iterator[str]:
    """Serve the scores of a task's model in a thread; yields the address, a socket that only this user can open."""
    stopped, stop = Pipe(duplex=False)
    with Listener() as listener, stopped, stop:
        address = str(listener.address)
        thread = Thread(target=_serve, args=(listener, stopped, task), daemon=True)
        thread.start()
        try:
            yield address
        finally:
            stop.send_bytes(b"stop")
            Client(address).close()  # ends the wait for a connection
            thread.join()


def _serve(listener: Listener, stopped: Connection, task: Task) -> None:
    """Serve one connection after another until stopped, as peers are restarted."""
    while not stopped.poll():
        with listener.accept() as connection:
            try:
                while stopped not in wait([connection, stopped]):
                    connection.send_bytes(_answer(task, connection.recv_bytes()))
            except (EOFError, OSError):
                continue


def _answer(task: Task, message: bytes) -> bytes:
    """A reply: "=" and the scores as float64, or "!" and the error."""
    try:
        rows = np.frombuffer(message).reshape(-1, task.rows.shape[1])
        return b"=" + checked_scores(task.model, torch.as_tensor(rows.copy())).numpy().astype(np.float64).tobytes()
    except Exception as reason:  # reported by the peer
        return b"!" + str(reason).encode()


def ask_peer(
    task: Task,
    command: Sequence[str],
    variant: str,
    *,
    grace_period: float = GRACE_PERIOD,
    setup: float = SETUP_LIMIT,
    total: float = math.inf,
) -> Answers:
    """The answers of a runner (see `runners/protocol.py`). A row that times out or crashes the process has no answer;
    the process is restarted with the next row, until `total` seconds are over. A failure of the set-up raises an
    error."""
    begun = time.monotonic()
    outcomes: dict[int, dict[str, Any]] = {}
    todo = list(range(len(task.rows)))
    with tempfile.TemporaryDirectory(prefix="grace-peer-") as folder, ExitStack() as stack:
        here = Path(folder)
        task.save(here / "task")
        if network_in(task.model) is None:
            (here / "task" / "address").write_text(stack.enter_context(served(task)), encoding="utf-8")
        while todo and not _gives_up(outcomes) and not (outcomes and time.monotonic() - begun > total):
            child = _Child(here, [*command, str(here / "task"), str(here / "events"), variant], todo)
            try:
                child.watch(outcomes, task.time_limit + grace_period, setup)
            finally:
                end(child.process)
            left = [i for i in todo if i not in outcomes]
            if len(left) == len(todo):
                raise GraceError(f"no row was answered: {last_line(child.log, child.process)}")
            todo = left
    return _answers(task, outcomes)


class _Child:
    """A process of a runner, and the events that it writes."""

    def __init__(self, here: Path, command: list[str], rows: list[int]) -> None:
        self.events, self.log = here / "events", here / "log"
        self.events.write_text("", encoding="utf-8")
        self.process = start([*command, ",".join(map(str, rows))], self.log)
        self.rows = set(rows)
        self.position = 0  # in the file of events
        self.ready = False
        self.row = -1

    def watch(self, outcomes: dict[int, dict[str, Any]], row_limit: float, setup: float) -> None:
        """Collect events until the process ends, hangs, has answered all rows, or is given up."""
        last = time.monotonic()
        while True:
            ended = self.process.poll() is not None  # before reading, so that no event is missed
            for event in self._new_events():
                last = time.monotonic()
                self._apply(event, outcomes)
            if _gives_up(outcomes) or self.rows <= outcomes.keys():
                return
            late = time.monotonic() - last > (row_limit if self.ready else setup)
            if ended or late:
                break
            time.sleep(POLL)
        if not self.ready:
            timeout = f"took longer than {setup:g} s"
            raise GraceError(f"set-up failed: {last_line(self.log, self.process) if ended else timeout}")
        if self.row in self.rows - outcomes.keys():
            crash = {"error": f"crash: {last_line(self.log, self.process)}"}
            outcomes[self.row] = crash if ended else {"error": "time", "seconds": row_limit}

    def _new_events(self) -> list[dict[str, Any]]:
        """The complete lines since the last call; those that are no JSON objects are ignored."""
        with self.events.open("rb") as file:
            file.seek(self.position)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self.position += len(complete)
        events = []
        for line in complete.splitlines():
            with suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]

    def _apply(self, event: dict[str, Any], outcomes: dict[int, dict[str, Any]]) -> None:
        self.ready |= "ready" in event
        if isinstance(event.get("begin"), int) and event["begin"] in self.rows:
            self.row = event["begin"]
        if event.get("row") == self.row:
            outcomes[self.row] = event


def start(command: Sequence[str], log: Path, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process in its own session; its output goes to a file."""
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**clean(), **variables},
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def last_line(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The last line of a log, which in Python names the error, or else the exit code."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {process.poll()}"


def _gives_up(outcomes: dict[int, dict[str, Any]]) -> bool:
    last = [o.get("error", "") for o in list(outcomes.values())[-GIVE_UP:]]
    return len(last) == GIVE_UP and all(str(e).startswith(("time", "crash")) for e in last)


def _answers(task: Task, outcomes: dict[int, dict[str, Any]]) -> Answers:
    rows = np.full(task.rows.shape, np.nan)
    seconds = np.full(len(task.rows), np.nan)
    errors: Counter[str] = Counter()
    for i, outcome in outcomes.items():
        error = str(outcome.get("error") or "")
        time_taken = outcome.get("seconds")
        seconds[i] = float(time_taken) if isinstance(time_taken, int | float) else np.nan
        if not error and outcome.get("values") is not None:
            rows[i], error = checked_row(task, outcome["values"])
        if error:
            errors["over the time limit" if error == "time" else error] += 1
    notes = [f"{count} of {len(outcomes)} rows: {error}" for error, count in errors.most_common(3)]
    proven = None
    if any("proven" in outcome for outcome in outcomes.values()):
        proven = np.array([outcomes.get(i, {}).get("proven") is True for i in range(len(task.rows))])
        notes.append(f"{proven.sum()} of {len(outcomes)} rows proven")
    left = len(task.rows) - len(outcomes)
    if left:
        why = f"given up after {GIVE_UP} rows in a row without an answer" if _gives_up(outcomes) else "out of time"
        notes.append(f"{why}; {left} rows not tried")
    timed = seconds[np.isfinite(seconds)]
    total = float(timed.mean() * len(task.rows)) if len(timed) else None  # peers have no batches
    return Answers(rows, seconds, total, tried=len(outcomes), note="; ".join(notes), proven=proven)
