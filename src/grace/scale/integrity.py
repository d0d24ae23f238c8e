"""Compares the files of a job with the hashes in its records: finds files that were changed or added, and repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grace.errors import GraceError
from grace.scale.part_records import (
    ANSWERS,
    REJECTS,
    PartRecord,
    answers_file,
    finished_parts,
    record_file,
    rejects_file,
)
from grace.schema.files import hash_if_exists, remove

REPAIR = "the same command with --repair (repair=True) does the part again"
REMOVE = "move it away, or give the command with --repair (repair=True), which removes it"
HIDDEN = (".", "_")  # prefixes of files that readers of Parquet folders ignore


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
