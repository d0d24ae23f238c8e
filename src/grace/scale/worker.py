"""A process that explains parts, started by `grace.scale.pool`.

It reads a line of JSON, which says what it works on, then messages: a line of JSON about a part, followed by so many
bytes of Arrow. It writes a part's files itself, and answers with a line of JSON. It ends when nobody talks to it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from grace.errors import GraceError
from grace.problem.budget import LEAST, usual
from grace.scale.job_folder import JobFolder
from grace.schema.tables.arrow import first_line
from grace.schema.tables.table_file import Lost, Part

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.scale.arrow_answers import JobQuestion


WATCH = 0.1  # seconds between looks at whether the job is still there


class Worker:
    """An explainer, a question, the folder that the answers go to, and the columns that are carried along."""

    def __init__(self, explainer: Explainer, question: JobQuestion, place: JobFolder, carried: str = "") -> None:
        from grace.scale.arrow_answers import check
        from grace.scale.extra_columns import Carried

        self.explainer, self.question, self.place = explainer, question, place
        self.carried = Carried.of_text(carried)
        check(explainer, question)

    @classmethod
    def of(cls, work: Mapping[str, Any], device: str = "cpu") -> Worker:
        """By what a message says."""
        from grace.scale.arrow_answers import JobQuestion
        from grace.scale.saved_explainer import load_given

        explainer = load_given(work["explainer"], device)
        question = JobQuestion.of(work["question"], room(explainer, work["memory"], work.get("workers", 1)))
        return cls(explainer, question, JobFolder(Path(work["folder"])), work["carried"])

    def do(self, part: Part) -> int:
        """Explain a part and write its files; gives how many rows it had."""
        from grace.scale.arrow_answers import explain_part

        table, rejects = explain_part(self.explainer, part, self.question, self.carried)
        self.place.write_part(part.number, table, [astuple(r) for r in rejects])
        return part.stop - part.start


def room(explainer: Explainer, memory: int, workers: int = 1) -> int:
    """What may be used for rows: on a GPU, which has memory of its own, what is usual, shared by all workers."""
    device = explainer.model.device
    return memory if device.type == "cpu" else max(LEAST, usual(device) // workers)


def packed(part: Part) -> tuple[dict[str, Any], Any]:
    """A part as a message, with the rows as bytes."""
    import pyarrow as pa

    body: Any = b""
    if part.rows is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.rows.schema) as writer:
            writer.write_table(part.rows)
        body = memoryview(sink.getvalue())
    lost = [asdict(x) for x in part.lost]
    return {"part": part.number, "start": part.start, "stop": part.stop, "lost": lost, "bytes": len(body)}, body


def unpacked(head: Mapping[str, Any], body: bytes) -> Part:
    import pyarrow as pa

    rows = pa.ipc.open_stream(body).read_all() if body else None
    return Part(head["part"], head["start"], head["stop"], rows, tuple(Lost(**x) for x in head["lost"]))


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer messages until there are no more."""

    def say(**message: Any) -> None:
        sink.write(json.dumps(message).encode() + b"\n")
        sink.flush()

    try:
        work = json.loads(source.readline())
        worker = Worker.of(work, work["device"])
    except GraceError as reason:
        return say(error=str(reason))
    say(ready=True)
    while line := source.readline():
        head = json.loads(line)
        body = source.read(head["bytes"])
        if len(body) < head["bytes"]:  # whoever wrote it is gone
            return None
        try:
            say(rows=worker.do(unpacked(head, body)))
        except Exception as reason:
            return say(error=f"rows {head['start']} to {head['stop'] - 1}: {first_line(reason)}")
    return None


def _end_with(parent: int) -> None:
    """End this process, whatever it is doing, as soon as the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(BrokenPipeError):  # whoever started it is gone
        serve(sys.stdin.buffer, sys.stdout.buffer)
