"""What a job is about, where its files are, and how they are written: whole or not at all, and for good.

manifest.json                 the hashes of the table and the explainer, the question and the size of a part; when all
                              is done, also how many rows there were and the hash of every part
explainer/                    the explainer, as `Explainer.save` writes it
answers/part-000000.parquet   the answers, one line per row
rejects/part-000000.csv       the rows of the part that were set aside, if any; together in rejects.csv at the end
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from grace.errors import GraceError
from grace.parsing import fitted, read_json, read_text
from grace.saved import HEAD
from grace.spreadsheets import defused, restored

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FORMAT = 1
MANIFEST, EXPLAINER, ANSWERS, REJECTS = "manifest.json", "explainer", "answers", "rejects"
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
class Place:
    """The folder of a job."""

    folder: Path

    def answers(self, part: int) -> Path:
        return self.folder / ANSWERS / f"part-{part:06}.parquet"

    def rejects(self, part: int) -> Path:
        return self.folder / REJECTS / f"part-{part:06}.csv"

    def done(self) -> frozenset[int]:
        """The parts whose answers are there: they are written last."""
        found = (self.folder / ANSWERS).glob("part-*.parquet")
        return frozenset(int(path.stem.removeprefix("part-")) for path in found)

    def manifest(self) -> dict[str, Any] | None:
        """What the job is about; None if it has not begun."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            found = read_json(read_text(path), str(path))
        except GraceError as reason:
            raise GraceError(f"{reason}; choose another folder") from reason
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise GraceError(f"{path} is of another version of GRACE; choose another folder")
        about: dict[str, Any] = fitted(found, About, f"{path} is damaged: it")
        return about

    def begin(self, about: Mapping[str, Any], explainer: Path) -> None:
        """Make the folder that of a job, or find that it is that of this very job already. A job of which no part is
        done may still become another."""
        known = self.manifest()
        begun = {EXPLAINER, ANSWERS, REJECTS, LOCK, *(p.name for p in self.folder.glob(f".{MANIFEST}.*.new"))}
        if known is None and any(p.name not in begun for p in self.folder.iterdir()):
            raise GraceError(f"{self.folder} is not empty and has no {MANIFEST}; choose another folder")
        if known is None or not self.done():
            for name in (EXPLAINER, ANSWERS, REJECTS):
                (self.folder / name).mkdir(exist_ok=True)
            for path in (self.folder / REJECTS).iterdir():
                path.unlink()
            for path in saved_files(explainer):
                write_whole(self.folder / EXPLAINER / path.name, path.read_bytes())
            self.write_manifest(about)
        else:
            self._same(known, about)
        for left in (*self.folder.glob("*/.*.new"), *self.folder.glob(".*.new")):  # of a job that was broken off
            left.unlink(missing_ok=True)

    def _same(self, known: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        for part, words in ABOUT.items():
            if known.get(part) != about[part]:
                raise GraceError(
                    f"{self.folder} was begun with {words}{_apart(known.get(part), about[part])}; "
                    "choose another folder, or ask as before"
                )

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, **content}, ensure_ascii=False, indent=1, sort_keys=True)
        write_whole(self.folder / MANIFEST, (text + "\n").encode())

    def write_part(self, part: int, table: pa.Table, rejects: Sequence[tuple[Any, ...]]) -> None:
        """The rows set aside first, so that a part with answers is a part that is done. Those of a part whose answers
        were not written any more are written anew."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if rejects:
            write_whole(self.rejects(part), _lines(rejects))
        else:
            self.rejects(part).unlink(missing_ok=True)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        write_whole(self.answers(part), sink.getvalue())

    def finish(self, about: Mapping[str, Any]) -> tuple[int, int, int]:
        """All rejects in one file, and the totals and the hash of every part in the manifest. Gives how many rows were
        explained, not explained, and set aside."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        hashes, explained, rows = {}, 0, 0
        for part in sorted(self.done()):
            path = self.answers(part)
            success = pq.read_table(path, columns=["success"])["success"]
            explained += pc.sum(success).as_py() or 0
            rows += len(success)
            with path.open("rb") as stream:
                hashes[path.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        aside = _set_aside(self.folder)
        together = (path.read_bytes().partition(b"\n")[2] for path in aside)
        write_whole(self.folder / "rejects.csv", _lines([]), *together)
        count = sum(map(_count, aside))
        totals = {"explained": explained, "not_explained": rows - explained, "set_aside": count, "parts": hashes}
        self.write_manifest({**about, "done": totals})
        return explained, rows - explained, count

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


def write_whole(path: Path, *content: Any) -> None:
    """Write a file so that it is there whole or not at all, even if the power fails."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            with fresh.open("wb") as stream:
                for block in content:
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)  # what is left of it would only fill the disk
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as reason:
        raise GraceError(f"{path} cannot be written: {reason.strerror}") from reason


def saved_files(folder: Path) -> list[Path]:
    """The files of a saved explainer."""
    return [folder / HEAD, *sorted(folder.glob("*.safetensors"))]


def hash_of(folder: Path) -> str:
    """A hash of the files of a saved explainer."""
    digest = hashlib.sha256()
    for path in saved_files(folder):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def read(folder: str | Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The answers of a job as a frame, under the numbers of their rows. Of a big job, ask for few columns, or go
    through `answers/` file by file."""
    import pyarrow.parquet as pq

    place = Place(Path(folder))
    if place.manifest() is None:
        raise GraceError(f"{folder} is not the folder of a job: it has no {MANIFEST}")
    wanted = None if columns is None else ["row", *columns]
    files = [place.answers(p) for p in sorted(place.done())]
    if not files:
        raise GraceError(f"{folder} has no answers yet")
    found: pd.DataFrame = pq.ParquetDataset(files).read(columns=wanted).to_pandas()
    return found.set_index("row")


def rejects(folder: str | Path) -> pd.DataFrame:
    """The rows of a job that were set aside: the number of the row, the column and the reason."""
    import pandas as pd

    kinds = {"row": "int64", "column": "object", "reason": "object"}
    how: dict[str, Any] = {"dtype": {"row": kinds["row"]}, "converters": dict.fromkeys(("column", "reason"), restored)}
    parts = [pd.read_csv(path, keep_default_na=False, **how).astype(kinds) for path in _set_aside(Path(folder))]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(kinds)).astype(kinds)
    return frame.set_index("row")


def _set_aside(folder: Path) -> list[Path]:
    """The files of rows set aside, part by part."""
    return sorted((folder / REJECTS).glob("part-*.csv"), key=lambda path: int(path.stem.removeprefix("part-")))


def _count(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as stream:
        return sum(1 for _ in csv.reader(stream)) - 1


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
