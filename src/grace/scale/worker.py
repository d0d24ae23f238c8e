"""A process that explains parts, started by `grace.scale.pool`, and the question that it answers about each row.

It reads a line of JSON, the task: the job folder, references to the explainer and the extra columns, the question, the
memory, the number of workers and the device. Then come messages, each a line of JSON about a part, followed by its rows
as an Arrow stream of the announced length. The worker writes the files of the part, and replies with a line of JSON. It
ends when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from grace.errors import GraceError
from grace.problem.budget import LEAST, usual
from grace.problem.target_range import TargetRange
from grace.scale.job_folder import JobFolder
from grace.schema.tables.arrow import first_line
from grace.schema.tables.table_file import MalformedRow, Part

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

PARENT_CHECK = 0.1  # seconds between checks that the parent process is alive


@dataclass(frozen=True)
class JobQuestion:
    """The arguments of `explain`, whether missing cells are imputed, and the arguments of `Explanation.text`, or None
    for no sentences."""

    settings: Mapping[str, Any]
    impute: bool = False
    text: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], memory: int) -> JobQuestion:
        """The inverse of `question_to_json`; `memory` is the limit of a process for its rows, in bytes."""
        settings = {**data["settings"], "memory": memory}
        if isinstance(settings.get("against"), dict):
            settings["against"] = TargetRange(**settings["against"])
        if data["impute"]:
            settings["missing"] = "fill"
        return cls(settings, data["impute"], data["text"])


def question_to_json(
    settings: Mapping[str, Any], *, impute: bool = False, text: bool | Mapping[str, Any] = False
) -> dict[str, Any]:
    """A question as JSON, without settings that are empty or None."""
    options = {} if isinstance(text, bool) else {k: v for k, v in text.items() if v not in (None, False)}
    return {"settings": _plain_settings(settings), "impute": impute, "text": None if text is False else options}


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in settings.items() if v is not None}
    out = {k: v for k, v in given.items() if k in ("rules", "only") or not isinstance(v, list | tuple | dict) or v}
    if "robust" in out:
        raise GraceError("robust= is not for jobs, as other models are not saved with the explainer")
    against = out.get("against")
    if isinstance(against, TargetRange):
        out["against"] = asdict(against)
    elif isinstance(against, list | tuple) or hasattr(against, "__array__"):
        raise GraceError("against: a job contrasts every row with the same class")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(out, default=lambda v: v.item()))
    except (TypeError, AttributeError, ValueError) as reason:
        raise GraceError(f"a setting of a job must be plain values: {reason}") from reason
    return plain


class Worker:
    """Explains parts by the task that `grace.scale.engines` describes, and writes their files. An explainer in memory
    can be given in place of the one that the task refers to."""

    def __init__(self, task: Mapping[str, Any], device: str = "cpu", explainer: Explainer | None = None) -> None:
        from grace.scale.arrow_answers import check_question
        from grace.scale.extra_columns import ExtraColumns
        from grace.scale.saved_explainer import load_reference

        self.explainer = load_reference(task["explainer"], device) if explainer is None else explainer
        memory = row_memory(self.explainer, task["memory"], task.get("workers", 1))
        self.question = JobQuestion.from_json(task["question"], memory)
        self.folder = JobFolder(Path(task["folder"]))
        self.extra = ExtraColumns.from_text(task["extra_columns"])
        check_question(self.explainer, self.question)

    def explain(self, part: Part) -> int:
        """Explain a part and write its files; returns its number of rows."""
        from grace.scale.arrow_answers import explain_part

        table, rejects = explain_part(self.explainer, part, self.question, self.extra)
        self.folder.write_part(part.number, table, [astuple(r) for r in rejects])
        return part.stop - part.start


def row_memory(explainer: Explainer, memory: int, workers: int = 1) -> int:
    """The bytes that may be used for rows: on a GPU a share of its own memory, divided among all workers."""
    device = explainer.model.device
    return memory if device.type == "cpu" else max(LEAST, usual(device) // workers)


def part_to_message(part: Part) -> tuple[dict[str, Any], Any]:
    """A part as a JSON header and the bytes of its rows."""
    import pyarrow as pa

    body: Any = b""
    if part.rows is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.rows.schema) as writer:
            writer.write_table(part.rows)
        body = memoryview(sink.getvalue())
    lost = [asdict(x) for x in part.lost]
    return {"part": part.number, "start": part.start, "stop": part.stop, "lost": lost, "bytes": len(body)}, body


def part_from_message(head: Mapping[str, Any], body: bytes) -> Part:
    import pyarrow as pa

    rows = pa.ipc.open_stream(body).read_all() if body else None
    return Part(head["part"], head["start"], head["stop"], rows, tuple(MalformedRow(**x) for x in head["lost"]))


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Reply to messages until there are no more."""

    def reply(**message: Any) -> None:
        sink.write(json.dumps(message).encode() + b"\n")
        sink.flush()

    try:
        task = json.loads(source.readline())
        worker = Worker(task, task["device"])
    except GraceError as reason:
        return reply(error=str(reason))
    reply(ready=True)
    while line := source.readline():
        head = json.loads(line)
        body = source.read(head["bytes"])
        if len(body) < head["bytes"]:  # the parent has ended
            return None
        try:
            reply(rows=worker.explain(part_from_message(head, body)))
        except Exception as reason:
            return reply(error=f"rows {head['start']} to {head['stop'] - 1}: {first_line(reason)}")
    return None


def _exit_with(parent: int) -> None:
    """End this process, whatever it is doing, as soon as its parent has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    with suppress(BrokenPipeError):  # the parent has ended
        serve(sys.stdin.buffer, sys.stdout.buffer)
