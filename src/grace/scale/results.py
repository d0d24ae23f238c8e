"""The answers of a job read back, from files that are as the job wrote them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.scale.job_folder import BEFORE, MANIFEST, JobFolder
from grace.scale.part_records import (
    ANSWERS,
    REPAIR,
    Damage,
    Record,
    answers_of,
    beside,
    present,
    record_of,
    rejects_of,
    strangers,
)
from grace.schema.tables.spreadsheets import restored

if TYPE_CHECKING:
    import pandas as pd


def read(folder: str | Path, columns: Sequence[str] | None = None, *, check: bool = True) -> pd.DataFrame:
    """The answers of a job as a frame, one line each, under the numbers of their rows. Files that are not as the job
    wrote them are an error, unless `check` is False, which saves the time of hashing them. Of a big job, ask for few
    columns, or go through `answers/` file by file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = Path(folder)
    records = _records(where, check)
    if not records:
        raise GraceError(f"{folder} has no answers yet")
    wanted = None if columns is None else ["row", *columns]
    found = []
    for part in sorted(records):
        content = _content(where, answers_of(part), records[part] if check else None)
        try:
            found.append(pq.read_table(pa.BufferReader(content), columns=wanted))
        except pa.ArrowException as reason:
            raise GraceError(f"{where / answers_of(part)} is damaged: {reason}; {REPAIR}") from reason
    frame: pd.DataFrame = pa.concat_tables(found).to_pandas()
    return frame.set_index("row")


def rejects(folder: str | Path, *, check: bool = True) -> pd.DataFrame:
    """The rows of a job that were set aside: the number of the row, the column and the reason."""
    import io

    import pandas as pd

    where = Path(folder)
    records = _records(where, check)
    kinds = {"row": "int64", "column": "object", "reason": "object"}
    how: dict[str, Any] = {"dtype": {"row": kinds["row"]}, "converters": dict.fromkeys(("column", "reason"), restored)}
    parts = [
        pd.read_csv(io.BytesIO(_content(where, name, record if check else None)), keep_default_na=False, **how).astype(
            kinds
        )
        for part, record in sorted(records.items())
        if (name := rejects_of(part)) in record.files or (where / name).exists()
    ]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(kinds)).astype(kinds)
    return frame.set_index("row")


def _records(folder: Path, check: bool) -> dict[int, Record]:
    """The records of the parts that are done; an error if a part of a finished job is missing, or if a file lies there
    that the job did not write."""
    place = JobFolder(folder)
    known = place.manifest(earlier=True)
    if known is None:
        raise GraceError(f"{folder} is not the folder of a job: it has no {MANIFEST}")
    names = beside(folder)  # before the records, as the job may be at work
    records, unreadable = place.recorded(known)
    done = present(folder, records)
    missing = sorted(records.keys() - done)
    if missing and "done" in known:
        raise GraceError(f"{folder / answers_of(missing[0])} is missing; the same command again does the part again")
    if check:
        if known["format"] == BEFORE:  # which recorded no rows set aside
            names = [name for name in names if name.startswith(ANSWERS)]
        Damage({record_of(p): p for p in unreadable}, strangers(folder, names, records, unreadable)).refuse(folder)
    return {part: record for part, record in records.items() if part in done}


def _content(folder: Path, name: str, record: Record | None) -> bytes:
    """A file, if it has the hash that was recorded."""
    try:
        content = (folder / name).read_bytes()
    except OSError as reason:
        raise GraceError(f"{folder / name} cannot be read: {reason.strerror}; {REPAIR}") from reason
    known = None if record is None else record.files.get(name)
    if known is not None and hashlib.sha256(content).hexdigest() != known:
        raise GraceError(f"{folder / name} is not as this job wrote it; {REPAIR}")
    return content
