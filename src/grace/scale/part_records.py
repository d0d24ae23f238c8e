"""Records of the parts of a job: how many rows were explained, and the SHA-256 of each file.

The record of a part is written before its files. A file without a record was therefore not written by the job, and a
part with missing files is explained again. When the job is finished, all records are moved into the manifest. Files
that were changed or added later are found by comparison with the records, and repaired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.schema.files import hash_if_exists, remove, write_durably

ANSWERS, REJECTS, RECORDS = "answers", "rejects", "parts"  # folders within that of a job
REPAIR = "the same command with --repair (repair=True) does the part again"
REMOVE = "move it away, or give the command with --repair (repair=True), which removes it"
HIDDEN = (".", "_")  # prefixes of files that readers of Parquet folders ignore


def part_name(part: int) -> str:
    return f"part-{part:06}"


def answers_file(part: int) -> str:
    """The path of the answers of a part, within the folder of the job."""
    return f"{ANSWERS}/{part_name(part)}.parquet"


def rejects_file(part: int) -> str:
    return f"{REJECTS}/{part_name(part)}.csv"


def record_file(part: int) -> str:
    return f"{RECORDS}/{part_name(part)}.json"


@dataclass(frozen=True)
class PartRecord:
    """The number of rows of a part that have answers (`rows`), of those with a contrast (`explained`) and of rejected
    rows (`set_aside`), and the SHA-256 of each file by its path within the folder of the job."""

    rows: int
    explained: int
    set_aside: int
    files: Mapping[str, str]

    @classmethod
    def from_json(cls, data: Any) -> PartRecord:
        found = cls(data["rows"], data["explained"], data["set_aside"], dict(data["files"]))
        counts = (found.rows, found.explained, found.set_aside)
        texts = (*found.files, *found.files.values())
        if not all(type(n) is int for n in counts) or not all(type(v) is str for v in texts):
            raise TypeError("a record has numbers and hashes")
        return found

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, folder: Path, part: int) -> None:
        content = json.dumps(self.to_json(), sort_keys=True) + "\n"
        write_durably(folder / record_file(part), content.encode())

    def matches_files(self, folder: Path) -> bool:
        """Whether all files exist with the recorded hashes."""
        return all(hash_if_exists(folder / name) == known for name, known in self.files.items())


def part_number(path: Path) -> int | None:
    """The part that a file is named after."""
    digits = path.stem.removeprefix("part-")
    return int(digits) if digits.isdecimal() and path.stem == part_name(int(digits)) else None


def records_of_manifest(done: Mapping[str, Any]) -> dict[int, PartRecord]:
    """The records of a finished job. Manifests of format 1 have only the hash of the answers of each part."""
    out = {}
    for name, data in done["parts"].items():
        part = part_number(Path(name))
        if part is None:
            raise KeyError(name)
        is_hash = isinstance(data, str)
        out[part] = PartRecord(0, 0, 0, {answers_file(part): data}) if is_hash else PartRecord.from_json(data)
    return out


def read_record(folder: Path, part: int) -> PartRecord | None:
    """The record of a part of an unfinished job; a ValueError if it is damaged."""
    try:
        return PartRecord.from_json(json.loads((folder / record_file(part)).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        raise ValueError(f"{record_file(part)} is damaged") from reason


def read_records(folder: Path) -> tuple[dict[int, PartRecord], list[int]]:
    """The records of an unfinished job, and the parts whose record is damaged."""
    records, damaged = {}, []
    numbers = (part_number(path) for path in (folder / RECORDS).glob("part-*.json"))
    for part in sorted(n for n in numbers if n is not None):
        try:
            record = read_record(folder, part)
        except ValueError:
            damaged.append(part)
        else:
            if record is not None:
                records[part] = record
    return records, damaged


def finished_parts(folder: Path, records: Mapping[int, PartRecord]) -> frozenset[int]:
    """The parts whose answers exist: they are the last file of a part to be written."""
    return frozenset(part for part in records if (folder / answers_file(part)).is_file())


@dataclass(frozen=True)
class Damage:
    """Files by their paths within the folder of a job: those that are not as the job wrote them, and those that it did
    not write."""

    changed: Mapping[str, int | None]
    """With the part; None for the file of all rejected rows, which is written at the end of the job."""
    unexpected: tuple[str, ...]

    def raise_if_any(self, folder: Path) -> None:
        """Raise an error that names the first file, if there is any."""
        for names, what, remedy in (
            (list(self.changed), "is not as this job wrote it", REPAIR),
            (self.unexpected, "was not written by this job", REMOVE),
        ):
            if names:
                more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
                raise GraceError(f"{folder / names[0]} {what}{more}; {remedy}")

    def repair(self, folder: Path) -> tuple[str, ...]:
        """Remove unexpected files, and all files of damaged parts, so that these are explained again. Returns a
        description of each repair."""
        for name in self.unexpected:
            if not (folder / name).is_file():
                raise GraceError(f"{folder / name} was not written by this job and is no file; move it away")
        for name, part in self.changed.items():
            for path in [name] if part is None else [answers_file(part), rejects_file(part), record_file(part)]:
                remove(folder / path)
        for name in self.unexpected:
            remove(folder / name)
        again = [f"{name} done again" for name in self.changed]
        return (*again, *(f"{name} removed" for name in self.unexpected))


def find_damage(folder: Path, records: Mapping[int, PartRecord], unreadable: Sequence[int] = ()) -> Damage:
    """Compare every file of the finished parts with its hash, and list unexpected files. A part without answers is not
    damaged: it is explained again, whatever other files it has. `unreadable` are parts whose record is damaged."""
    changed: dict[str, int | None] = {record_file(part): part for part in unreadable}
    for part in sorted(finished_parts(folder, records)):
        for name, known in records[part].files.items():
            if hash_if_exists(folder / name) != known:
                changed[name] = part
    return Damage(changed, unexpected_files(folder, part_files(folder), records, unreadable))


def part_files(folder: Path) -> list[str]:
    """Whatever is in the folders of answers and of rejected rows, except hidden files."""
    found = [p for sub in (ANSWERS, REJECTS) if (folder / sub).is_dir() for p in sorted((folder / sub).iterdir())]
    return [p.relative_to(folder).as_posix() for p in found if not p.name.startswith(HIDDEN)]


def unexpected_files(
    folder: Path, names: Sequence[str], records: Mapping[int, PartRecord], unreadable: Sequence[int] = ()
) -> tuple[str, ...]:
    """Which of the files the job did not write, by its records."""
    finished = finished_parts(folder, records)
    expected = {name for part in finished for name in records[part].files}
    again = [*(records.keys() - finished), *unreadable]
    expected |= {name for part in again for name in (answers_file(part), rejects_file(part))}
    return tuple(name for name in names if name not in expected)
