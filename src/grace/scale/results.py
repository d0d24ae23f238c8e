"""Reads the answers and the rejected rows of a job, and checks the hashes of the files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.scale.job_folder import MANIFEST, PREVIOUS_FORMAT, JobFolder
from grace.scale.part_records import (
    ANSWERS,
    REPAIR,
    Damage,
    PartRecord,
    answers_file,
    finished_parts,
    part_files,
    record_file,
    rejects_file,
    unexpected_files,
)
from grace.schema.files import unescape_formula

if TYPE_CHECKING:
    import pandas as pd


def read(folder: str | Path, columns: Sequence[str] | None = None, *, check: bool = True) -> pd.DataFrame:
    """The answers of a job as a frame with one line each, indexed by the numbers of their rows. Files that are not as
    the job wrote them raise an error, unless `check` is False, which saves the time of hashing them. For a big job,
    name the `columns` that are needed, or read the files in `answers/` one by one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = Path(folder)
    records = _records(where, check)
    if not records:
        raise GraceError(f"{folder} has no answers yet")
    names = None if columns is None else ["row", *columns]
    tables = []
    for part in sorted(records):
        content = _content(where, answers_file(part), records[part] if check else None)
        try:
            tables.append(pq.read_table(pa.BufferReader(content), columns=names))
        except pa.ArrowException as reason:
            raise GraceError(f"{where / answers_file(part)} is damaged: {reason}; {REPAIR}") from reason
    frame: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    return frame.set_index("row")


def rejects(folder: str | Path, *, check: bool = True) -> pd.DataFrame:
    """The rejected rows of a job: column and reason, indexed by the number of the row."""
    import pandas as pd

    where = Path(folder)
    records = _records(where, check)
    types = {"row": "int64", "column": "object", "reason": "object"}
    how: dict[str, Any] = {"dtype": {"row": types["row"]}}
    how["converters"] = dict.fromkeys(("column", "reason"), unescape_formula)
    parts = [
        pd.read_csv(io.BytesIO(_content(where, name, record if check else None)), keep_default_na=False, **how).astype(
            types
        )
        for part, record in sorted(records.items())
        if (name := rejects_file(part)) in record.files or (where / name).exists()
    ]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(types)).astype(types)
    return frame.set_index("row")


def _records(folder: Path, check: bool) -> dict[int, PartRecord]:
    """The records of the parts that are done. A missing part of a finished job is an error; with `check`, so are files
    that the job did not write."""
    job = JobFolder(folder)
    manifest = job.manifest(earlier=True)
    if manifest is None:
        raise GraceError(f"{folder} is not the folder of a job: it has no {MANIFEST}")
    names = part_files(folder)  # before the records, as the job may be running
    records, unreadable = job.records(manifest)
    done = finished_parts(folder, records)
    missing = sorted(records.keys() - done)
    if missing and "done" in manifest:
        raise GraceError(f"{folder / answers_file(missing[0])} is missing; the same command again does the part again")
    if check:
        if manifest["format"] == PREVIOUS_FORMAT:  # it has no records of rejected rows
            names = [name for name in names if name.startswith(ANSWERS)]
        changed = {record_file(part): part for part in unreadable}
        Damage(changed, unexpected_files(folder, names, records, unreadable)).raise_if_any(folder)
    return {part: record for part, record in records.items() if part in done}


def _content(folder: Path, name: str, record: PartRecord | None) -> bytes:
    """The content of a file, checked against the hash in the record if there is one."""
    try:
        content = (folder / name).read_bytes()
    except OSError as reason:
        raise GraceError(f"{folder / name} cannot be read: {reason.strerror}; {REPAIR}") from reason
    known = None if record is None else record.files.get(name)
    if known is not None and hashlib.sha256(content).hexdigest() != known:
        raise GraceError(f"{folder / name} is not as this job wrote it; {REPAIR}")
    return content
