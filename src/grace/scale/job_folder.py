"""What a job is about, where its files are, and how they are written.

manifest.json                 the hashes of the table and the explainer, the question and the size of a part; when all
                              is done, also how many rows there were and the record of every part
explainer/                    what the explainer is: its schema and settings, and the weights of its network, but no
                              training rows
parts/part-000000.json        the record of a part, until the job is finished
answers/part-000000.parquet   the answers, one line each
rejects/part-000000.csv       the rows of the part that were set aside, if any; together in rejects.csv at the end
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from grace.errors import GraceError
from grace.scale.part_records import (
    ANSWERS,
    RECORDS,
    REJECTS,
    Damage,
    Record,
    answers_of,
    damage,
    name_of,
    present,
    record_at,
    records_of_manifest,
    records_of_parts,
    rejects_of,
)
from grace.schema.files import hash_if_exists, remove, write_durably
from grace.schema.parsing import fitted, read_json, read_text
from grace.schema.tables.spreadsheets import defused

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT, BEFORE = 2, 1
MANIFEST, EXPLAINER, SET_ASIDE = "manifest.json", "explainer", "rejects.csv"
LOCK = ".lock"
PATIENCE = 10.0  # seconds that a lock is waited for
ABOUT = {
    "input": "another table",
    "explainer": "another explainer",
    "question": "other settings",
    "part_rows": "parts of another size",
}


class About(TypedDict):
    """What a manifest says, and of which types."""

    input: NotRequired[str]
    explainer: NotRequired[str]
    question: NotRequired[Mapping[str, Any]]
    part_rows: NotRequired[int]
    done: NotRequired[Mapping[str, Any]]


@dataclass(frozen=True)
class JobFolder:
    """The folder of a job."""

    folder: Path

    def answers(self, part: int) -> Path:
        return self.folder / answers_of(part)

    def rejects(self, part: int) -> Path:
        return self.folder / rejects_of(part)

    def records(self) -> dict[int, Record]:
        """The record of every part that was written or is about to be."""
        return self.recorded(self.manifest())[0]

    def recorded(self, known: Mapping[str, Any] | None) -> tuple[dict[int, Record], list[int]]:
        """The records, and the parts whose record is damaged, of a job with such a manifest."""
        finished = self._finished(known["done"]) if known is not None and "done" in known else {}
        newer, unreadable = records_of_parts(self.folder)
        return {**finished, **newer}, unreadable

    def _finished(self, done: Any) -> dict[int, Record]:
        try:
            return records_of_manifest(done)
        except (KeyError, TypeError, AttributeError) as reason:
            raise GraceError(f"{self.folder / MANIFEST} is damaged: {reason}; choose another folder") from reason

    def done(self) -> frozenset[int]:
        """The parts whose answers are there."""
        return present(self.folder, self.records())

    def holds(self, part: int) -> bool:
        """Whether a part is done, with files that are as they were written."""
        try:
            record = record_at(self.folder, part)
        except ValueError:
            return False
        return record is not None and record.holds(self.folder)

    def damage(self) -> Damage:
        """What is not as the job wrote it."""
        known = self.manifest()
        found = damage(self.folder, *self.recorded(known))
        written = (known or {}).get("done", {}).get("rejects")
        whole = hash_if_exists(self.folder / SET_ASIDE)
        if whole is None or written is None or whole == written:
            return found
        return Damage({**found.changed, SET_ASIDE: None}, found.strangers)

    def manifest(self, *, earlier: bool = False) -> dict[str, Any] | None:
        """What the job is about; None if it has not begun. Jobs of the `earlier` format can be read, but do not go
        on."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            found = read_json(read_text(path), str(path))
        except GraceError as reason:
            raise GraceError(f"{reason}; choose another folder") from reason
        known = found.get("format") if isinstance(found, dict) else None
        if known == BEFORE and not earlier:
            rest = "its answers can be read by grace.scale.read" if "done" in found else "it cannot go on"
            raise GraceError(f"{self.folder} has a job of an earlier version of GRACE: {rest}; choose another folder")
        if known not in (FORMAT, BEFORE):
            raise GraceError(f"{path} is of another version of GRACE; choose another folder")
        if known == BEFORE and "done" not in found:
            raise GraceError(
                f"{self.folder} has an unfinished job of an earlier version of GRACE, which cannot be read"
            )
        about: dict[str, Any] = fitted(found, About, f"{path} is damaged: it")
        return about

    def begin(self, about: Mapping[str, Any], explainer: Sequence[Path], *, repair: bool = False) -> tuple[str, ...]:
        """Make the folder that of a job, or find that it is that of this very job already. A job of which no part is
        done may still become another. What is damaged is refused or, to be done again, removed (`repair`); gives what
        was."""
        known = self.manifest()
        begun = {EXPLAINER, ANSWERS, REJECTS, RECORDS, LOCK, *(p.name for p in self.folder.glob(f".{MANIFEST}.*.new"))}
        if known is None and any(p.name not in begun for p in self.folder.iterdir()):
            raise GraceError(f"{self.folder} is not empty and has no {MANIFEST}; choose another folder")
        afresh = known is None or not self.done()
        if known is not None and not afresh:
            self._same(known, about)
        found = self.damage()
        if not repair:
            found.refuse(self.folder)
        repaired = found.repair(self.folder)
        if afresh:
            for name in (EXPLAINER, ANSWERS, REJECTS, RECORDS):
                (self.folder / name).mkdir(exist_ok=True)
            for name in (EXPLAINER, REJECTS, RECORDS):
                for path in (self.folder / name).iterdir():
                    path.unlink()
            for path in explainer:
                write_durably(self.folder / EXPLAINER / path.name, path.read_bytes())
            self.write_manifest(about)
        elif known is not None and "done" in known and self.done() != self.records().keys():
            self.write_manifest({**known, "done": {**known["done"], "rejects": None}})  # it will be another file
        (self.folder / RECORDS).mkdir(exist_ok=True)
        for left in (*self.folder.glob("*/.*.new"), *self.folder.glob(".*.new")):  # of a job that was broken off
            left.unlink(missing_ok=True)
        return repaired

    def _same(self, known: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        for part, words in ABOUT.items():
            if known.get(part) != about[part]:
                raise GraceError(
                    f"{self.folder} was begun with {words}{_apart(known.get(part), about[part])}; "
                    "choose another folder, or ask as before"
                )

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, **content}, ensure_ascii=False, indent=1, sort_keys=True)
        write_durably(self.folder / MANIFEST, (text + "\n").encode())

    def write_part(self, part: int, table: pa.Table, rejects: Sequence[tuple[Any, ...]]) -> None:
        """The record first, then the rows set aside, and the answers last, so that a part with answers is a part that
        is done."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        files = {answers_of(part): sink.getvalue()}
        if rejects:
            files[rejects_of(part)] = _lines(rejects)
        first = table.filter(pc.equal(table["rank"], 1))
        explained = pc.sum(first["success"]).as_py() or 0
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        for path in (self.answers(part), self.rejects(part)):  # of an attempt that was broken off
            remove(path)
        Record(len(first), explained, len(rejects), hashes).write(self.folder, part)
        for name, content in reversed(files.items()):
            write_durably(self.folder / name, content)

    def finish(self, about: Mapping[str, Any]) -> tuple[int, int, int]:
        """All rejects in one file, and the totals and all records in the manifest, if every file is as it was written.
        Gives how many rows were explained, not explained, and set aside."""
        self.damage().refuse(self.folder)
        records = dict(sorted(self.records().items()))
        explained, rows, aside = (
            sum(getattr(r, name) for r in records.values()) for name in ("explained", "rows", "set_aside")
        )
        kept = [self.folder / rejects_of(part) for part, r in records.items() if rejects_of(part) in r.files]
        write_durably(self.folder / SET_ASIDE, _lines([]), *(path.read_bytes().partition(b"\n")[2] for path in kept))
        totals = {
            "explained": explained,
            "not_explained": rows - explained,
            "set_aside": aside,
            "rejects": hash_if_exists(self.folder / SET_ASIDE),
            "parts": {name_of(part): record.said() for part, record in records.items()},
        }
        self.write_manifest({**about, "done": totals})
        shutil.rmtree(self.folder / RECORDS)
        return explained, rows - explained, aside

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Nobody else works in the folder meanwhile. The lock, a file descriptor, ends with the last process that has
        it, however that ends; those that a killed job leaves behind end soon."""
        import fcntl

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            stream = (self.folder / LOCK).open("w")
        except OSError as reason:
            raise GraceError(f"{self.folder} cannot be written: {reason.strerror}") from reason
        with stream:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as reason:
                    if time.monotonic() > end:
                        raise GraceError(f"another job is at work in {self.folder}; wait for it, or end it") from reason
                    time.sleep(0.1)
            yield stream.fileno()


def _lines(rejects: Sequence[tuple[Any, ...]]) -> bytes:
    out = io.StringIO()
    lines = [("row", "column", "reason"), *rejects]
    csv.writer(out, lineterminator="\n").writerows([[defused(cell) for cell in line] for line in lines])
    return out.getvalue().encode()


def _apart(old: Any, new: Any) -> str:
    """Which settings differ, and how."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return f" ({old} instead of {new})" if isinstance(new, int) else ""
    first = next((k for k in sorted({**old, **new}) if old.get(k) != new.get(k)), None)
    if first is None:
        return ""
    if isinstance(old.get(first), Mapping) and isinstance(new.get(first), Mapping):
        return _apart(old[first], new[first])
    return f" ({first}={json.dumps(old.get(first))} instead of {json.dumps(new.get(first))})"
