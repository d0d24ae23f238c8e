"""The folder of a job: its manifest, the files of its parts, and a lock.

manifest.json                 the hashes of the table and the explainer, the question and the number of rows per part;
                              when the job is finished, also the number of rows and the record of every part
explainer/                    schema, settings and network weights of the explainer, but no training rows
parts/part-000000.json        the record of a part, until the job is finished
answers/part-000000.parquet   the answers, one line each
rejects/part-000000.csv       the rejected rows of the part, if any; those of all parts are in rejects.csv at the end
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
    PartRecord,
    answers_file,
    find_damage,
    finished_parts,
    part_name,
    read_record,
    read_records,
    records_of_manifest,
    rejects_file,
)
from grace.schema.files import escape_formula, hash_if_exists, hash_of_file, remove, write_durably
from grace.schema.parsing import fitted, read_json, read_text

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT, PREVIOUS_FORMAT = 2, 1
MANIFEST, EXPLAINER, ALL_REJECTS = "manifest.json", "explainer", "rejects.csv"
LOCK = ".lock"
LOCK_TIMEOUT = 10.0  # seconds
DIFFERENCES = {  # what a key of the manifest is about
    "input": "another table",
    "explainer": "another explainer",
    "question": "other settings",
    "part_rows": "parts of another size",
}


class Manifest(TypedDict):
    """The keys of a manifest and their types."""

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
        return self.folder / answers_file(part)

    def rejects(self, part: int) -> Path:
        return self.folder / rejects_file(part)

    def records(self, manifest: Mapping[str, Any] | None) -> tuple[dict[int, PartRecord], list[int]]:
        """The record of every part, written before its files, and the parts whose record is damaged; the records of a
        finished job are in its manifest."""
        finished = self._finished(manifest["done"]) if manifest is not None and "done" in manifest else {}
        newer, unreadable = read_records(self.folder)
        return {**finished, **newer}, unreadable

    def _finished(self, done: Any) -> dict[int, PartRecord]:
        try:
            return records_of_manifest(done)
        except (KeyError, TypeError, AttributeError) as reason:
            raise GraceError(f"{self.folder / MANIFEST} is damaged: {reason}; choose another folder") from reason

    def done(self) -> frozenset[int]:
        """The parts whose answers exist."""
        return finished_parts(self.folder, self.records(self.manifest())[0])

    def is_done(self, part: int) -> bool:
        """Whether a part of an unfinished job is done, with all files as they were written."""
        try:
            record = read_record(self.folder, part)
        except ValueError:
            return False
        return record is not None and record.matches_files(self.folder)

    def _damage(
        self, manifest: Mapping[str, Any] | None, records: Mapping[int, PartRecord], unreadable: Sequence[int]
    ) -> Damage:
        """Files of the parts that are not as the job wrote them, and the file of all rejected rows, if it is not."""
        found = find_damage(self.folder, records, unreadable)
        written = (manifest or {}).get("done", {}).get("rejects")
        current = hash_if_exists(self.folder / ALL_REJECTS)
        if current is None or written is None or current == written:
            return found
        return Damage({**found.changed, ALL_REJECTS: None}, found.unexpected)

    def manifest(self, *, earlier: bool = False) -> dict[str, Any] | None:
        """The manifest; None if the job has not begun. With `earlier`, a finished job of the previous format is read
        too, though it cannot be continued."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            found = read_json(read_text(path), str(path))
        except GraceError as reason:
            raise GraceError(f"{reason}; choose another folder") from reason
        version = found.get("format") if isinstance(found, dict) else None
        if version == PREVIOUS_FORMAT and not earlier:
            rest = "its answers can be read by grace.scale.read" if "done" in found else "it cannot go on"
            raise GraceError(f"{self.folder} has a job of an earlier version of GRACE: {rest}; choose another folder")
        if version not in (FORMAT, PREVIOUS_FORMAT):
            raise GraceError(f"{path} is of another version of GRACE; choose another folder")
        if version == PREVIOUS_FORMAT and "done" not in found:
            raise GraceError(
                f"{self.folder} has an unfinished job of an earlier version of GRACE, which cannot be read"
            )
        manifest: dict[str, Any] = fitted(found, Manifest, f"{path} is damaged: it")
        return manifest

    def begin(
        self, manifest: Mapping[str, Any], explainer: Sequence[Path], *, repair: bool = False
    ) -> tuple[frozenset[int], tuple[str, ...]]:
        """Begin a job with this manifest and these files of its explainer, or continue the same job. A job of which no
        part is done may be replaced by another. Damaged files raise an error or, with `repair`, are removed. Returns
        the parts that are done, and a description of each repair."""
        existing = self.manifest()
        begun = {EXPLAINER, ANSWERS, REJECTS, RECORDS, LOCK, *(p.name for p in self.folder.glob(f".{MANIFEST}.*.new"))}
        if existing is None and any(p.name not in begun for p in self.folder.iterdir()):
            raise GraceError(f"{self.folder} is not empty and has no {MANIFEST}; choose another folder")
        records, unreadable = self.records(existing)
        done = finished_parts(self.folder, records)
        if existing is not None and done:
            self._check_same(existing, manifest)
        damage = self._damage(existing, records, unreadable)
        if not repair:
            damage.raise_if_any(self.folder)
        repaired = damage.repair(self.folder)
        if existing is None or not done:
            done = frozenset()
            self._start(manifest, explainer)
        else:
            records = self.records(existing)[0] if repaired else records
            done = finished_parts(self.folder, records)
            if "done" in existing and done != records.keys():  # rejects.csv will change
                self.write_manifest({**existing, "done": {**existing["done"], "rejects": None}})
        (self.folder / RECORDS).mkdir(exist_ok=True)
        for left in (*self.folder.glob("*/.*.new"), *self.folder.glob(".*.new")):  # of a job that was killed
            left.unlink(missing_ok=True)
        return done, repaired

    def _start(self, manifest: Mapping[str, Any], explainer: Sequence[Path]) -> None:
        """Create the folders, without what an earlier attempt left in them, and write the manifest."""
        for name in (EXPLAINER, ANSWERS, REJECTS, RECORDS):
            (self.folder / name).mkdir(exist_ok=True)
        for name in (EXPLAINER, REJECTS, RECORDS):
            for path in (self.folder / name).iterdir():
                path.unlink()
        for path in explainer:
            write_durably(self.folder / EXPLAINER / path.name, path.read_bytes())
        self.write_manifest(manifest)

    def _check_same(self, existing: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        for key, words in DIFFERENCES.items():
            if existing.get(key) != manifest[key]:
                raise GraceError(
                    f"{self.folder} was begun with {words}{_difference(existing.get(key), manifest[key])}; "
                    "choose another folder, or ask as before"
                )

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, **manifest}, ensure_ascii=False, indent=1, sort_keys=True)
        write_durably(self.folder / MANIFEST, (text + "\n").encode())

    def write_part(self, part: int, table: pa.Table, rejects: Sequence[tuple[Any, ...]]) -> None:
        """Write the record, then the rejected rows, and the answers last: a part with answers is done."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        files = {answers_file(part): sink.getvalue()}
        if rejects:
            files[rejects_file(part)] = _csv_lines(rejects)
        first = table.filter(pc.equal(table["rank"], 1))
        explained = pc.sum(first["success"]).as_py() or 0
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        for path in (self.answers(part), self.rejects(part)):  # of an attempt that was interrupted
            remove(path)
        PartRecord(len(first), explained, len(rejects), hashes).write(self.folder, part)
        for name, content in reversed(files.items()):
            write_durably(self.folder / name, content)

    def finish(self, manifest: Mapping[str, Any]) -> tuple[int, int, int]:
        """Check every file; then write all rejected rows to one file, and the totals and all records to the manifest.
        Returns how many rows were explained, not explained, and rejected."""
        current = self.manifest()
        records, unreadable = self.records(current)
        self._damage(current, records, unreadable).raise_if_any(self.folder)
        records = dict(sorted(records.items()))
        explained, rows, rejected = (
            sum(getattr(r, name) for r in records.values()) for name in ("explained", "rows", "set_aside")
        )
        rejects = [self.rejects(part) for part, r in records.items() if rejects_file(part) in r.files]
        all_rejects = self.folder / ALL_REJECTS
        write_durably(all_rejects, _csv_lines([]), *(path.read_bytes().partition(b"\n")[2] for path in rejects))
        totals = {
            "explained": explained,
            "not_explained": rows - explained,
            "set_aside": rejected,
            "rejects": hash_of_file(all_rejects),
            "parts": {part_name(part): record.to_json() for part, record in records.items()},
        }
        self.write_manifest({**manifest, "done": totals})
        shutil.rmtree(self.folder / RECORDS)
        return explained, rows - explained, rejected

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the folder against other jobs; yields the file descriptor of the lock. The lock is held until the last
        process that inherited the descriptor ends; workers of a killed job end soon after it."""
        import fcntl

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            stream = (self.folder / LOCK).open("w")
        except OSError as reason:
            raise GraceError(f"{self.folder} cannot be written: {reason.strerror}") from reason
        with stream:
            end = time.monotonic() + LOCK_TIMEOUT
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as reason:
                    if time.monotonic() > end:
                        raise GraceError(f"another job is at work in {self.folder}; wait for it, or end it") from reason
                    time.sleep(0.1)
            yield stream.fileno()


def _csv_lines(rejects: Sequence[tuple[Any, ...]]) -> bytes:
    """The header and the rejected rows as CSV."""
    out = io.StringIO()
    lines = [("row", "column", "reason"), *rejects]
    csv.writer(out, lineterminator="\n").writerows([[escape_formula(cell) for cell in line] for line in lines])
    return out.getvalue().encode()


def _difference(old: Any, new: Any) -> str:
    """The first setting that differs, with both values."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return f" ({old} instead of {new})" if isinstance(new, int) else ""
    first = next((k for k in sorted({**old, **new}) if old.get(k) != new.get(k)), None)
    if first is None:
        return ""
    if isinstance(old.get(first), Mapping) and isinstance(new.get(first), Mapping):
        return _difference(old[first], new[first])
    return f" ({first}={json.dumps(old.get(first))} instead of {json.dumps(new.get(first))})"
