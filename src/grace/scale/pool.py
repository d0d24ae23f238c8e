"""Processes that work on parts side by side; one that dies is replaced, and its part is done again."""

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
from grace.scale.worker import packed
from grace.schema.tables.table_file import Part

TRIES = 3  # deaths that a part may cause before it is given up
WAIT = 0.2  # seconds between looks at whether another thread has failed


class _Process:
    """A worker, and the pipes to it."""

    def __init__(self, kept_open: Sequence[int]) -> None:
        above = str(Path(__file__).parents[2])
        paths = [above, os.environ.get("PYTHONPATH", "")]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        env = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [sys.executable, "-c", "from grace.scale.worker import main; main()"]
        pipe = subprocess.PIPE
        # in a session of its own: an interrupt is for whoever started the job
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env=env, start_new_session=True, pass_fds=kept_open
        )

    def begin(self, work: Mapping[str, Any]) -> None:
        self._tell(work, b"")
        self._hear()

    def ask(self, part: Part) -> int:
        self._tell(*packed(part))
        return int(self._hear()["rows"])

    def _tell(self, head: Mapping[str, Any], body: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(head).encode() + b"\n")
        self.process.stdin.write(body)
        self.process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BrokenPipeError
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise GraceError(said["error"])
        return said

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        self.process.kill()
        self.process.wait()


class Pool:
    """`workers` processes, each with a thread here that feeds it. They hold on to the files `kept_open`, such as a lock
    that must not end before them."""

    def __init__(self, work: Mapping[str, Any], workers: int, kept_open: Sequence[int] = ()) -> None:
        self.work, self.workers, self.kept_open = work, workers, kept_open
        self.todo: Queue[Part | None] = Queue(maxsize=1)
        self.done: Queue[int | BaseException] = Queue()
        self.failed = threading.Event()
        self.processes: set[_Process] = set()

    def run(self, parts: Iterator[Part], report: Callable[[int], None]) -> None:
        """Have every part done; `report` gets the rows of each."""
        threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            given = 0
            for part in parts:
                self._give(part)
                given += 1
                given -= self._collect(report, block=False)
            for _ in threads:
                self._give(None)
            while given:
                given -= self._collect(report, block=True)
        finally:
            self.failed.set()  # those that wait for a part end, and those at work are ended
            for process in list(self.processes):
                process.process.kill()
            for thread in threads:
                thread.join()

    def _give(self, part: Part | None) -> None:
        while True:
            with suppress(Full):
                self.todo.put(part, timeout=WAIT)
                return
            if self.failed.is_set():
                self._collect(lambda _: None, block=True)

    def _collect(self, report: Callable[[int], None], *, block: bool) -> int:
        """Report what is done, and say of how many parts."""
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
        """Give one process after another the parts that come."""
        process: _Process | None = None
        try:
            while not self.failed.is_set():
                try:
                    part = self.todo.get(timeout=WAIT)
                except Empty:
                    continue
                if part is None:
                    return
                process = self._done_by(process, part)
        except BaseException as reason:
            self.failed.set()
            self.done.put(reason)
        finally:
            if process is not None:
                self._end(process)

    def _done_by(self, process: _Process | None, part: Part) -> _Process:
        """The process that has done the part: this one, or one that took its place."""
        for _ in range(TRIES):
            try:
                if process is None:
                    process = _Process(self.kept_open)
                    self.processes.add(process)
                    process.begin(self.work)
                self.done.put(process.ask(part))
                return process
            except (BrokenPipeError, ConnectionError):
                assert process is not None
                self._end(process)
                process = None
                if self.failed.is_set():
                    break
        raise GraceError(
            f"rows {part.start} to {part.stop - 1}: {TRIES} processes ended while at work on them, perhaps for want of "
            "memory; give fewer --workers or less --memory"
        )

    def _end(self, process: _Process) -> None:
        self.processes.discard(process)
        process.end()
