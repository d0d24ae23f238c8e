"""Records of the parts of a job: how many rows were explained, and the SHA-256 of each file.

The record of a part is written before its files. A file without a record was therefore not written by the job, and a
part with missing files is explained again. When the job is finished, all records are moved into the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grace.schema.files import hash_if_exists, write_durably

ANSWERS, REJECTS, RECORDS = "answers", "rejects", "parts"  # folders within that of a job


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
