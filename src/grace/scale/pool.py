"""A pool of worker processes. A worker that dies is replaced, and its part is explained again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any

from grace.errors import GraceError
from grace.scale.worker import part_to_message
from grace.schema.tables.table_file import Part

ATTEMPTS = 3  # workers that may die of a part before the job fails
POLL = 0.2  # seconds between checks whether another thread has failed


class _Process:
    """A worker process, and the pipes to it."""

    def __init__(self, inherited: Sequence[int]) -> None:
        source = str(Path(__file__).parents[2])
        paths = [source, os.environ.get("PYTHONPATH", "")]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-c", "from grace.scale.worker import main; main()"]
        pipe = subprocess.PIPE
        # in its own session: Ctrl-C interrupts only the process that started the job
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env=env, start_new_session=True, pass_fds=inherited
        )

    def begin(self, task: Mapping[str, Any]) -> None:
        self._send(task, b"")
        self._receive()

    def explain(self, part: Part) -> int:
        self._send(*part_to_message(part))
        return int(self._receive()["rows"])

    def _send(self, head: Mapping[str, Any], body: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(head).encode() + b"\n")
        self.process.stdin.write(body)
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BrokenPipeError
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise GraceError(reply["error"])
        return reply

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        self.process.kill()
        self.process.wait()


class WorkerPool:
    """`workers` processes with the same task, each with a thread here that sends it parts. They inherit some file
    descriptors, such as that of a lock, which is then held until the last of them ends."""

    def __init__(self, task: Mapping[str, Any], workers: int, inherited: Sequence[int] = ()) -> None:
        self.task, self.workers, self.inherited = task, workers, inherited
        self.todo: Queue[Part | None] = Queue(maxsize=1)
        self.done: Queue[int | BaseException] = Queue()
        self.failed = threading.Event()
        self.processes: set[_Process] = set()

    def run(self, parts: Iterator[Part], report: Callable[[int], None]) -> None:
        """Have all parts explained; `report` is called with the number of rows of each."""
        threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            pending = 0
            for part in parts:
                self._put(part)
                pending += 1
                pending -= self._collect(report, block=False)
            for _ in threads:
                self._put(None)
            while pending:
                pending -= self._collect(report, block=True)
        finally:
            self.failed.set()  # idle threads end; busy workers are killed
            for process in list(self.processes):
                process.process.kill()
            for thread in threads:
                thread.join()

    def _put(self, part: Part | None) -> None:
        """Queue a part, None to end a thread; raises the error of a thread that has failed."""
        while True:
            with suppress(Full):
                self.todo.put(part, timeout=POLL)
                return
            if self.failed.is_set():
                self._collect(lambda _: None, block=True)

    def _collect(self, report: Callable[[int], None], *, block: bool) -> int:
        """Report the parts that are done; returns how many."""
        count = 0
        while True:
            try:
                found = self.done.get(block=block and not count)
            except Empty:
                return count
            if isinstance(found, BaseException):
                raise found
            report(found)
            count += 1

    def _feed(self) -> None:
        """The thread of a worker: sends it parts from the queue."""
        process: _Process | None = None
        try:
            while not self.failed.is_set():
                try:
                    part = self.todo.get(timeout=POLL)
                except Empty:
                    continue
                if part is None:
                    return
                process = self._explain(process, part)
        except BaseException as reason:
            self.failed.set()
            self.done.put(reason)
        finally:
            if process is not None:
                self._end(process)

    def _explain(self, process: _Process | None, part: Part) -> _Process:
        """Have a part explained; returns the process that did it, which is a new one if the given one died."""
        for _ in range(ATTEMPTS):
            try:
                if process is None:
                    process = _Process(self.inherited)
                    self.processes.add(process)
                    process.begin(self.task)
                self.done.put(process.explain(part))
                return process
            except (BrokenPipeError, ConnectionError):
                assert process is not None
                self._end(process)
                process = None
                if self.failed.is_set():
                    break
        raise GraceError(
            f"rows {part.start} to {part.stop - 1}: {ATTEMPTS} processes ended while at work on them, perhaps for want "
            "of memory; give fewer --workers or less --memory"
        )

    def _end(self, process: _Process) -> None:
        self.processes.discard(process)
        process.end()
