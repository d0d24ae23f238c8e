"""What a job has written: a record per part, made before its files, and what has become of them since.

A record has the hash of each file of a part. It is written before the files are, so that a file without a record is
none of the job's, and a part whose files are not there yet is done again. When the job is finished, the records go into
the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.schema.files import hash_if_exists, remove, write_durably

ANSWERS, REJECTS, RECORDS = "answers", "rejects", "parts"
REPAIR = "the same command with --repair (repair=True) does the part again"
STRANGER = "move it away, or give the command with --repair (repair=True), which removes it"
HIDDEN = (".", "_")  # files that readers of a folder of Parquet pass over


def name_of(part: int) -> str:
    return f"part-{part:06}"


def answers_of(part: int) -> str:
    """The path of the answers of a part, within the folder of the job."""
    return f"{ANSWERS}/{name_of(part)}.parquet"


def rejects_of(part: int) -> str:
    return f"{REJECTS}/{name_of(part)}.csv"


def record_of(part: int) -> str:
    return f"{RECORDS}/{name_of(part)}.json"


@dataclass(frozen=True)
class Record:
    """How many rows of a part have answers (`rows`), how many of them a contrast, how many rows were set aside, and the
    SHA-256 of each file by its path in the folder of the job."""

    rows: int
    explained: int
    set_aside: int
    files: Mapping[str, str]

    @classmethod
    def of(cls, said: Any) -> Record:
        found = cls(said["rows"], said["explained"], said["set_aside"], dict(said["files"]))
        counts = (found.rows, found.explained, found.set_aside)
        texts = (*found.files, *found.files.values())
        if not all(type(n) is int for n in counts) or not all(type(v) is str for v in texts):
            raise TypeError("a record has numbers and hashes")
        return found

    def said(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, folder: Path, part: int) -> None:
        content = json.dumps(self.said(), sort_keys=True) + "\n"
        write_durably(folder / record_of(part), content.encode())

    def holds(self, folder: Path) -> bool:
        """Whether the files are there, as they were written."""
        return all(hash_if_exists(folder / name) == known for name, known in self.files.items())


def number_of(path: Path) -> int | None:
    """The part that a file is named after."""
    digits = path.stem.removeprefix("part-")
    return int(digits) if digits.isdecimal() and path.stem == name_of(int(digits)) else None


def records_of_manifest(done: Mapping[str, Any]) -> dict[int, Record]:
    """The records of a finished job; of format 1, which knew the hashes of answers alone, without numbers of rows."""
    out = {}
    for name, said in done["parts"].items():
        part = number_of(Path(name))
        if part is None:
            raise KeyError(name)
        out[part] = Record(0, 0, 0, {answers_of(part): said}) if isinstance(said, str) else Record.of(said)
    return out


def record_at(folder: Path, part: int) -> Record | None:
    """The record of a part of a job that is not finished; a ValueError if it is damaged."""
    try:
        return Record.of(json.loads((folder / record_of(part)).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        raise ValueError(f"{record_of(part)} is damaged") from reason


def records_of_parts(folder: Path) -> tuple[dict[int, Record], list[int]]:
    """The records of a job that is not finished, and the parts whose record is damaged."""
    records, damaged = {}, []
    numbers = (number_of(path) for path in (folder / RECORDS).glob("part-*.json"))
    for part in sorted(n for n in numbers if n is not None):
        try:
            record = record_at(folder, part)
        except ValueError:
            damaged.append(part)
        else:
            if record is not None:
                records[part] = record
    return records, damaged


@dataclass(frozen=True)
class Damage:
    """Files of a job, by their paths in its folder, that are not as it wrote them: of parts that have to be done again,
    and such as it did not write."""

    changed: Mapping[str, int | None]
    """With the part; None for the file of all rows set aside, which is written again at the end."""
    strangers: tuple[str, ...]

    def refuse(self, folder: Path) -> None:
        """An error that names the first, if there is any."""
        for names, what, remedy in (
            (list(self.changed), "is not as this job wrote it", REPAIR),
            (self.strangers, "was not written by this job", STRANGER),
        ):
            if names:
                more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
                raise GraceError(f"{folder / names[0]} {what}{more}; {remedy}")

    def repair(self, folder: Path) -> tuple[str, ...]:
        """Remove what is damaged, so that it is done again, and what is strange; and say so of each."""
        for name in self.strangers:
            if not (folder / name).is_file():
                raise GraceError(f"{folder / name} was not written by this job and is no file; move it away")
        for name, part in self.changed.items():
            for path in [name] if part is None else [answers_of(part), rejects_of(part), record_of(part)]:
                remove(folder / path)
        for name in self.strangers:
            remove(folder / name)
        again = [f"{name} done again" for name in self.changed]
        return (*again, *(f"{name} removed" for name in self.strangers))


def present(folder: Path, records: Mapping[int, Record]) -> frozenset[int]:
    """The parts whose answers are there: they are written last."""
    return frozenset(part for part in records if (folder / answers_of(part)).is_file())


def damage(folder: Path, records: Mapping[int, Record], unreadable: Sequence[int] = ()) -> Damage:
    """Every file of the parts that are done, compared with its hash, and whatever else lies beside them. A part whose
    answers are missing is no damage: it is done again, whatever else there is of it."""
    changed: dict[str, int | None] = {record_of(part): part for part in unreadable}
    for part in sorted(present(folder, records)):
        for name, known in records[part].files.items():
            if hash_if_exists(folder / name) != known:
                changed[name] = part
    return Damage(changed, strangers(folder, beside(folder), records, unreadable))


def beside(folder: Path) -> list[str]:
    """Whatever lies among the files of parts, but for hidden files."""
    found = [p for sub in (ANSWERS, REJECTS) if (folder / sub).is_dir() for p in sorted((folder / sub).iterdir())]
    return [p.relative_to(folder).as_posix() for p in found if not p.name.startswith(HIDDEN)]


def strangers(
    folder: Path, names: Sequence[str], records: Mapping[int, Record], unreadable: Sequence[int] = ()
) -> tuple[str, ...]:
    """Which of the names in the folder the job did not write."""
    done = present(folder, records)
    expected = {name for part in done for name in records[part].files}
    again = [*(records.keys() - done), *unreadable]
    expected |= {name for part in again for name in (answers_of(part), rejects_of(part))}
    return tuple(name for name in names if name not in expected)
