"""Estimates the memory of a job from its table, its explainer and the size of its parts. The constants were measured
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

PART_ROWS, PART_CELLS = 10_000, 10**6  # default limits of a part
MEMORY = {"cpu": "2GB", "cuda": "6GB"}  # default of a job
READER = 180 * 10**6  # bytes of the process that reads
PROCESS = 340 * 10**6  # bytes of a process that explains, without rows
CUDA_BUILD = 300 * 10**6  # in addition if torch is built for CUDA, whether or not it is used
CUDA = 3 * 10**9  # host memory that CUDA takes in each process
READER_PARTS = 4  # copies of a part in the reader: in pieces, joined, and queued
SENT_PARTS = 2  # copies of a part for each worker: as a message, and for a second attempt
CELL = 60  # bytes per cell of a part in a worker: as a frame, encoded, as answers, and as files
COLUMN = 16_000  # bytes per column in a worker: types, and buffers of tables that are read and written
ARRAYS = {"su": 18, "background": 32, "weights": 32}  # bytes per element of an explainer's arrays while it is loaded
HEAD = 24  # bytes per byte of its header


@cache
def cuda_build_bytes() -> int:
    """The additional bytes of a CUDA build of torch, detected by its version file, without importing torch."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return 0
    version = Path(found.origin).with_name("version.py")
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    return CUDA_BUILD if re.search(r"^cuda\b.*=\s*['\"]", text, re.MULTILINE) else 0


def rows_per_part(columns: int) -> int:
    """The default number of rows per part, smaller for a wide table."""
    return max(1, min(PART_ROWS, PART_CELLS // max(1, columns)))


@dataclass(frozen=True)
class Budget:
    """The memory limit, and the bytes of the reader and of each worker without the work on rows."""

    memory: int
    reader: int
    process: int
    advice: str = ""
    overhead: int = 0
    """Bytes of a Ray actor for the explainer and a part that it reads itself, in addition to a process without rows."""

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
        """For a table with `rows` rows, and an explainer with arrays of these sizes (see `SavedExplainer.sizes`)."""
        part_rows = min(part_rows, max(1, rows))
        part = part_rows * table.row_bytes(columns, rows)
        cells = part_rows * len(columns)
        overhead = 2 * part + CELL * cells + COLUMN * len(columns)
        overhead += sum(ARRAYS.get(name, HEAD) * size for name, size in explainer.items())
        process = PROCESS + cuda_build_bytes() + overhead + (0 if device == "cpu" else CUDA)
        group = table.group_bytes(columns)
        advice = f"; or fewer rows per part than part_rows={part_rows}" if part + CELL * cells > LEAST else ""
        if device != "cpu":
            advice += f"; CUDA takes up to {said_bytes(CUDA)} of it for each worker"
        if group > LEAST and not table.text:
            advice += (
                f"; or write {table.files[0]} in smaller row groups, of which one takes {said_bytes(group)} to read"
            )
        reader = READER + group + READER_PARTS * part
        return cls(memory, reader, process + SENT_PARTS * part, advice, overhead + group + part)

    def shares(self, workers: int | None) -> tuple[int, int]:
        """The number of workers, and the bytes that each may use for rows, so that all stay within the limit."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise GraceError(f"workers={workers!r}: it must be a whole number of at least 1")
        fit = (self.memory - self.reader) // (self.process + LEAST)
        count = max(1, min(cores, fit)) if workers is None else workers
        if count > fit:
            least = self.reader + count * (self.process + LEAST)
            what = f"{count} workers" if count > 1 else "a worker"
            raise GraceError(
                f"memory={said_bytes(self.memory)} is too little for {what} on this table; give at least "
                f"{said_bytes(least)}{self.advice}"
            )
        return count, (self.memory - self.reader) // count - self.process

    def single_process(self) -> int:
        """The bytes that one process which both reads and explains may use for rows."""
        return max(LEAST, self.memory - self.reader - self.process)
