"""What a job takes of the memory, counted from its table, its explainer and the size of its parts. Figures are measured
and rounded up."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from grace.errors import GraceError
from grace.problem.budget import LEAST, said_bytes

if TYPE_CHECKING:
    from grace.schema.tables.table_file import TableFile

PART_ROWS, PART_CELLS = 10_000, 10**6  # of a part, if nothing else is said: the fewer rows
MEMORY = {"cpu": "2GB", "cuda": "6GB"}  # of a job, if nothing else is said
READER = 180 * 10**6  # what the process that reads takes
PROCESS = 340 * 10**6  # what a process that explains takes before it has a row
CUDA_BUILD = 300 * 10**6  # and more where torch is built for CUDA, whether or not that is used
CUDA = 3 * 10**9  # what CUDA takes of the machine's own memory for each process
HELD = 4  # parts that the reader holds at a time, as pieces, joined, and waiting
SENT = 2  # and for each process that explains, to send it and to send it again
CELL = 60  # bytes per cell of a part in a process that explains: as a frame, encoded, answers, and written
COLUMN = 16_000  # bytes per column there, of types and of the tables that are read and written
ARRAYS = {"su": 18, "background": 32, "weights": 32}  # bytes per number of an explainer, while it is loaded
HEAD = 24  # bytes per byte of its description


@cache
def cuda_build_bytes() -> int:
    """What a build of torch for CUDA takes beside; read from its version file, as to import torch would take it."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return 0
    version = Path(found.origin).with_name("version.py")
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    return CUDA_BUILD if re.search(r"^cuda\b.*=\s*['\"]", text, re.MULTILINE) else 0


def rows_per_part(columns: int) -> int:
    """The rows of a part, if nothing else is said: fewer of a wide table."""
    return max(1, min(PART_ROWS, PART_CELLS // max(1, columns)))


@dataclass(frozen=True)
class Budget:
    """What the reader takes, and what each process that explains takes beside its rows; in bytes."""

    memory: int
    reader: int
    process: int
    advice: str = ""
    beside: int = 0
    """What a process that reads its parts itself takes beside its rows and what every process takes."""

    @classmethod
    def of(
        cls,
        memory: int,
        table: TableFile,
        rows: int,
        columns: Sequence[str],
        part_rows: int,
        explainer: Mapping[str, int],
        device: str,
    ) -> Budget:
        """For a table of so many rows, and an explainer with arrays of these sizes (see `Given.sizes`)."""
        part_rows = min(part_rows, max(1, rows))
        part = part_rows * table.row_bytes(columns, rows)
        cells = part_rows * len(columns)
        own = 2 * part + CELL * cells + COLUMN * len(columns)
        own += sum(ARRAYS.get(name, HEAD) * size for name, size in explainer.items())
        process = PROCESS + cuda_build_bytes() + own + (0 if device == "cpu" else CUDA)
        group = table.group_bytes(columns)
        advice = f"; or fewer rows per part than part_rows={part_rows}" if part + CELL * cells > LEAST else ""
        if device != "cpu":
            advice += f"; CUDA takes up to {said_bytes(CUDA)} of it for each worker"
        if group > LEAST and not table.text:
            advice += (
                f"; or write {table.files[0]} in smaller row groups, of which one takes {said_bytes(group)} to read"
            )
        return cls(memory, READER + group + HELD * part, process + SENT * part, advice, own + group + part)

    def shares(self, workers: int | None) -> tuple[int, int]:
        """How many processes, and what each may use for rows, so that all of them stay within the memory."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise GraceError(f"workers={workers!r}: it must be a whole number of at least 1")
        fit = (self.memory - self.reader) // (self.process + LEAST)
        many = max(1, min(cores, fit)) if workers is None else workers
        if many > fit:
            least = self.reader + many * (self.process + LEAST)
            what = f"{many} workers" if many > 1 else "a worker"
            raise GraceError(
                f"memory={said_bytes(self.memory)} is too little for {what} on this table; give at least "
                f"{said_bytes(least)}{self.advice}"
            )
        return many, (self.memory - self.reader) // many - self.process
