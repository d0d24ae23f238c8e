"""The protocol of a runner: reads a task, writes a line per event. Requires only numpy.

    python run_PEER.py TASK_FOLDER EVENTS_FILE VARIANT ROWS

A network is read from the files of the task. For any other model, the folder has the address of a process that serves
it: rows as float64 are sent, scores as float64 are returned.

`ROWS` are positions, separated by commas. Each event is a line of JSON: {"ready": seconds} after set-up, {"begin": i}
before row i, and {"row": i, "values": [...] or null, "seconds": s, "error": "..."} after it, with "proven" if the
library proves its answers.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np


class TooLong(BaseException):
    """A row has exceeded its time limit. Not an `Exception`, so that libraries do not catch it."""


class Task:
    """A task with encoded rows; a category is its code."""

    def __init__(self, folder: Path) -> None:
        head = json.loads((folder / "task.json").read_text(encoding="utf-8"))
        with np.load(folder / "task.npz", allow_pickle=False) as arrays:
            self.arrays = {name: arrays[name] for name in arrays.files}
        self.rows: Any = self.arrays["rows"]
        self.train: Any = self.arrays["train"]
        self.labels: Any = self.arrays["labels"]
        self.features: list[dict[str, Any]] = head["features"]
        self.classes: list[Any] = head["classes"]
        self.wanted: list[float | None] | None = head["wanted"]
        self.is_network = head["hidden"] is not None
        self.seed: int = head["seed"]
        self.time_limit: float = head["time_limit"]
        self.categorical = [j for j, f in enumerate(self.features) if "categories" in f]
        self.numeric = [j for j in range(len(self.features)) if j not in self.categorical]
        self.trees = {name[6:]: array for name, array in self.arrays.items() if name.startswith("trees.")} or None
        """The model as trees with one sum (see `grace.experiments.tree_arrays`), if it is one and they were read."""
        self._model = None if self.is_network else RemoteModel((folder / "address").read_text(encoding="utf-8"))

    def logits(self, rows: Any) -> Any:
        """The scores (n, k) of the model; those of a network are computed in float64."""
        x = np.asarray(rows, dtype=np.float64).reshape(-1, len(self.features))
        if self._model is not None:
            return self._model(x) if len(x) else np.zeros((0, len(self.classes) or 1))
        a = self.arrays
        parts = [(x[:, self.numeric] - a["network.centre"]) / a["network.scale"]]
        for k, j in enumerate(self.categorical):
            parts.append(a[f"network.embeddings.{k}.weight"][x[:, j].astype(int)])
        hidden = np.concatenate(parts, axis=1)
        layers = sum(name.startswith("network.layers.") for name in a) // 2
        for k in range(layers):
            hidden = hidden @ a[f"network.layers.{k}.weight"].T + a[f"network.layers.{k}.bias"]
            if k + 1 < layers:
                hidden = np.maximum(hidden, 0)
        return hidden

    def proba(self, rows: Any) -> Any:
        """The probabilities (n, k) of the classes."""
        scores = self.logits(rows)
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)

    def numbers(self, rows: Any) -> Any:
        """The predictions (n,) of a regression."""
        return self.logits(rows)[:, 0]

    def runner_up(self, row: Any) -> int:
        """The second most probable class: the target for methods that require one."""
        return int(np.argsort(self.logits(row)[0])[-2])

    def inside(self, rows: Any) -> Any:
        """Rows with numbers clipped to the ranges of the domain."""
        out = np.array(rows, dtype=np.float64)
        for j in self.numeric:
            out[:, j] = np.clip(out[:, j], self.features[j]["low"], self.features[j]["high"])
        return out


class RemoteModel:
    """A model in another process. The connection is closed when a call is interrupted, which discards its reply."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: Connection | None = None

    def __call__(self, rows: Any) -> Any:
        try:
            if self.connection is None:
                self.connection = Client(self.address)
            self.connection.send_bytes(np.ascontiguousarray(rows).tobytes())
            reply = self.connection.recv_bytes()
        except BaseException:
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            raise
        if reply[:1] != b"=":
            raise RuntimeError(reply[1:].decode(errors="replace"))
        return np.frombuffer(reply[1:]).reshape(len(rows), -1).copy()


class Answer(NamedTuple):
    """An answer or None, and whether it is proven that there is no better one, or none at all."""

    values: Sequence[float] | None
    proven: bool


Ask = Callable[[int], "Sequence[float] | Answer | None"]
"""Returns the answer to row i of the task, or None."""


def main(prepare: Callable[[Task, str], Ask]) -> None:
    """Set up the library, then run it on each row."""
    folder, events, variant, positions = sys.argv[1:5]
    with open(events, "a", encoding="utf-8") as file:
        start = time.perf_counter()
        task = Task(Path(folder))
        ask = prepare(task, variant)
        write(file, {"ready": time.perf_counter() - start})
        for i in map(int, positions.split(",")):
            write(file, {"begin": i})
            write(file, row_event(task, ask, i))


def row_event(task: Task, ask: Ask, i: int) -> dict[str, Any]:
    """The event of a row, with its answer or the error of the library."""
    values, error = None, ""
    proof: dict[str, bool] = {}
    random.seed(task.seed + i)
    np.random.seed(task.seed + i)  # noqa: NPY002 -- the generator that the libraries use
    start = time.perf_counter()
    try:
        with limit(task.time_limit):
            found = ask(i)
        if isinstance(found, Answer):
            proof = {"proven": found.proven}
            found = found.values
        values = None if found is None else [float(v) for v in found]
    except TooLong:
        error = "time"
    except Exception as reason:
        error = f"{type(reason).__name__}: {reason}"[:300]
    return {"row": i, "values": values, "seconds": time.perf_counter() - start, "error": error, **proof}


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` after some seconds, if the system has interval timers and this is the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_alarm(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def write(file: TextIO, event: dict[str, Any]) -> None:
    file.write(json.dumps(event) + "\n")
    file.flush()
