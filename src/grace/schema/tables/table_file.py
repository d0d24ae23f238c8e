"""Large Parquet and CSV tables, a file or a folder of files, read in parts of equally many rows."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.errors import GraceError
from grace.schema.frames import join_first, no_duplicates
from grace.schema.tables import arrow
from grace.schema.tables.csv_files import CsvFile, read_options

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 4096  # rows decoded at a time
BLOCK = 1 << 20  # bytes of a CSV file parsed at a time
COMPRESSION_RATIO = 12  # upper estimate of the size of a compressed CSV file when decompressed
PARSER_BLOCKS = 24  # memory for parsing a block of CSV, in blocks
HASH_BLOCK = 1 << 22  # bytes hashed at a time
MISSING_TEXTS = ("", "#N/A", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "<NA>")  # as in pandas
ROW = "__row__"  # the column of row numbers


@dataclass(frozen=True)
class MalformedRow:
    """A line that is not a row of the table."""

    row: int
    reason: str


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` of the table: the readable ones, with a column of row numbers, and the malformed ones."""

    number: int
    start: int
    stop: int
    rows: pa.Table | None
    lost: tuple[MalformedRow, ...] = ()


@dataclass(frozen=True)
class TableFile:
    """A table on disk."""

    files: tuple[Path, ...]
    text: bool
    """Whether it is CSV, whose cells are text."""

    @classmethod
    def of(cls, path: str | Path) -> TableFile:
        """The table at a path: a .parquet or .csv file, or a folder of .parquet files in the order of their names."""
        arrow.require_pyarrow()
        where = Path(path)
        if not where.exists():
            raise GraceError(f"{where} does not exist")
        files = tuple(sorted(where.glob("*.parquet"))) if where.is_dir() else (where,)
        if not files:
            raise GraceError(f"{where} has no .parquet files")
        return cls(files, files[0].suffix.lower() != ".parquet")

    def columns(self) -> list[str]:
        """The columns that all files have, without the unnamed index that pandas writes."""
        if self.text:
            return self._csv.columns()
        named = [arrow.columns_of(file) for file in self.files]
        for file, names in zip(self.files, named, strict=True):
            no_duplicates(names, f"{file}: column")
        return [n for n in named[0] if all(n in names for names in named)]

    def need(self, names: Sequence[str]) -> None:
        """Raises an error if one of these columns is missing."""
        given = self.columns()
        for name in names:
            if name not in given:
                file = next(f for f in self.files if self.text or name not in arrow.columns_of(f))
                raise GraceError(f"column {name!r} is missing from {file}; the model needs {join_first(names)}")
        if self.text:
            self._csv.check_numbers(names)

    def stamps(self) -> list[tuple[int, ...]]:
        """Inode, size and modification time of each file, to detect changes."""
        try:
            stats = [file.stat() for file in self.files]
        except OSError as reason:
            raise GraceError(f"{reason.filename} cannot be read: {reason.strerror}") from reason
        return [(s.st_ino, s.st_size, s.st_mtime_ns) for s in stats]

    def fingerprint(self) -> tuple[str, int]:
        """SHA-256 of all bytes, and the number of rows; for CSV the number of lines, an upper bound."""
        digest, lines = hashlib.sha256(), 0
        for file in self.files:
            try:
                with self._csv.open() if self.text else file.open("rb") as stream:
                    while block := stream.read(HASH_BLOCK):
                        digest.update(block)
                        lines += block.count(b"\n") if self.text else 0
            except (OSError, EOFError) as reason:
                raise GraceError(f"{file} cannot be read: {getattr(reason, 'strerror', None) or reason}") from reason
        return digest.hexdigest(), max(0, lines - 1) if self.text else self.rows

    def kinds(self, names: Sequence[str]) -> pa.Schema:
        """The Arrow types of columns, common to all files; text for CSV."""
        import pyarrow as pa

        if self.text:
            return pa.schema([(name, pa.string()) for name in names])
        known = [arrow.metadata(file).schema.to_arrow_schema() for file in self.files]
        return pa.schema([(name, arrow.common_type([schema.field(name).type for schema in known])) for name in names])

    def parts(
        self, size: int, columns: Sequence[str], done: frozenset[int] = frozenset(), carried: Sequence[str] = ()
    ) -> Iterator[Part]:
        """The parts of `size` rows that are not done, with these columns and row numbers. In CSV, cells such as "NA"
        are missing, except in columns that are `carried` along unchanged."""

        def wanted(first: int, last: int) -> bool:
            return not all(p in done for p in range(first // size, -(-last // size)))

        if self.text:
            return _regrouped(self._texts(columns, carried), size, done)
        return _regrouped(self.batches([*columns, *carried], wanted, min(size, BATCH)), size, done)

    def part(self, number: int, size: int, columns: Sequence[str]) -> Part:
        """One part of a Parquet table; reads only the row groups that overlap it."""
        start, stop = number * size, min((number + 1) * size, self.rows)
        if start >= stop:
            raise GraceError(f"{self.files[0]} has no rows from {start}")
        pieces = [
            _row_range(batch.rows, start, stop)
            for batch in self.batches(columns, lambda first, last: first < stop and start < last, min(size, BATCH))
            if batch.rows is not None
        ]
        return Part(number, start, stop, arrow.concat_tables(pieces))

    @cached_property
    def _csv(self) -> CsvFile:
        (path,) = self.files
        return CsvFile(path)

    @cached_property
    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """The number of rows of each row group of each Parquet file."""
        known = map(arrow.metadata, self.files)
        return tuple(tuple(m.row_group(i).num_rows for i in range(m.num_row_groups)) for m in known)

    @property
    def rows(self) -> int:
        """The number of rows of a Parquet table."""
        return sum(map(sum, self._groups))

    def row_bytes(self, columns: Sequence[str], rows: int) -> int:
        """Estimated bytes in memory of a row with these columns, in a table of `rows` rows."""
        if self.text:
            size = self._csv.path.stat().st_size * (COMPRESSION_RATIO if self._csv.compressed else 1)
            return size // max(1, rows) + arrow.TEXT_OVERHEAD * len(columns)
        return max(arrow.decoded_row_bytes(file, columns) for file in self.files)

    def group_bytes(self, columns: Sequence[str]) -> int:
        """Estimated bytes for reading the largest row group, or a CSV block, a few rows at a time."""
        if self.text:
            return PARSER_BLOCKS * BLOCK + arrow.COLUMN_OVERHEAD * len(columns)
        return max(arrow.reading_bytes(file, columns) for file in self.files)

    def batches(
        self, columns: Sequence[str], wanted: Callable[[int, int], bool], at_once: int = BATCH
    ) -> Iterator[_Batch]:
        """Numbered rows, `at_once` decoded at a time; row groups that are not wanted are only counted."""
        start = 0
        for path, groups in zip(self.files, self._groups, strict=True):
            ends = np.cumsum((start, *groups)).tolist()
            needed = [wanted(first, last) for first, last in pairwise(ends)]
            if not any(needed):
                yield _Batch(start, ends[-1] - start, None, ())
            else:
                yield from self._file(path, columns, ends, needed, at_once)
            start = ends[-1]

    def _file(
        self, path: Path, columns: Sequence[str], ends: Sequence[int], needed: Sequence[bool], at_once: int
    ) -> Iterator[_Batch]:
        """The row groups of a file; group i holds rows `ends[i]` to `ends[i + 1]`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        start = ends[0]
        try:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
                for group, read in enumerate(needed):
                    if not read:
                        yield _Batch(start, ends[group + 1] - start, None, ())
                    else:
                        for batch in file.iter_batches(at_once, [group], list(columns), use_threads=False):
                            table = pa.Table.from_batches([batch]).select(list(columns))
                            numbers = np.arange(start, start + len(table))
                            yield _Batch(start, len(table), _with_row_numbers(table, numbers), ())
                            start += len(table)
                    if start != ends[group + 1] and read:
                        raise GraceError(f"{path} has changed while it was read: row group {group} has other rows")
                    start = ends[group + 1]
        except (pa.ArrowException, OSError) as reason:
            raise GraceError(f"{path}: rows from {start} cannot be read: {arrow.first_line(reason)}") from reason

    def _texts(self, features: Sequence[str], carried: Sequence[str]) -> Iterator[_Batch]:
        """Numbered rows of text. A line with too few or too many cells is malformed, but has a row number."""
        import pyarrow as pa
        from pyarrow import csv

        lost: deque[MalformedRow] = deque()  # appended by the reader's thread, ahead of the rows

        def refuse(row: Any) -> str:
            cells = f"the line has {row.actual_columns} cells instead of {row.expected_columns}"
            lost.append(MalformedRow(row.number - 2, cells))  # from 1, including the header
            return "skip"

        path = self._csv.path
        options, separator = read_options(self._csv.dialect, BLOCK)
        stream = self._csv.open()
        names, needed = [*features, *carried], frozenset(features)
        start = 0
        try:
            reader = csv.open_csv(
                stream,
                options,
                csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse),
                csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.binary()),
                ),
            )
            for batch in reader:
                gone = np.array([x.row for x in list(lost)], dtype=np.int64)
                numbers = np.arange(start, start + batch.num_rows + len(gone))
                numbers = numbers[~np.isin(numbers, gone)][: batch.num_rows]
                stop = int(numbers[-1]) + 1 if len(numbers) else start
                here = []
                while lost and lost[0].row < stop:
                    here.append(lost.popleft())
                table = pa.table(
                    {n: _without_missing(c) if n in needed else c for n, c in zip(names, batch.columns, strict=True)}
                )
                yield _Batch(start, stop - start, _with_row_numbers(table, numbers), tuple(here))
                start = stop
        except (pa.ArrowException, OSError, EOFError, UnicodeError) as reason:
            raise GraceError(f"{path}: rows from {start} cannot be read: {arrow.first_line(reason)}") from reason
        finally:
            stream.close()
        if lost:
            yield _Batch(start, len(lost), None, tuple(lost))


@dataclass(frozen=True)
class _Batch:
    """Consecutive rows; no table if none is needed or readable."""

    start: int
    count: int
    rows: pa.Table | None
    lost: tuple[MalformedRow, ...]


def _regrouped(batches: Iterator[_Batch], size: int, done: frozenset[int]) -> Iterator[Part]:
    """Batches of any length as parts of `size` rows."""
    tables: list[pa.Table] = []
    lost: list[MalformedRow] = []
    number, stop, end = 0, 0, 0

    def part(stop: int) -> Part | None:
        if number in done or not (tables or lost):
            return None
        return Part(number, number * size, stop, arrow.concat_tables(tables) if tables else None, tuple(lost))

    for batch in batches:
        end = batch.start + batch.count
        start = batch.start
        while start < end:
            stop = min(end, (number + 1) * size)
            if number not in done:
                if batch.rows is not None:
                    tables.append(_row_range(batch.rows, start, stop))
                lost += [x for x in batch.lost if start <= x.row < stop]
            if stop == (number + 1) * size:
                finished = part(stop)
                if finished is not None:
                    yield finished
                tables, lost, number = [], [], number + 1
            start = stop
    finished = part(stop)
    if finished is not None:
        yield finished


def _row_range(rows: pa.Table, start: int, stop: int) -> pa.Table:
    """The rows with numbers from `start` to below `stop`."""
    first, last = np.searchsorted(rows[ROW].to_numpy(), [start, stop])
    return rows.slice(int(first), int(last - first))


def _without_missing(cells: pa.Array) -> pa.Array:
    """The cells, null where their text stands for a missing cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.array([word.encode() for word in MISSING_TEXTS], pa.binary())
    return pc.if_else(pc.is_in(cells, value_set=words), pa.scalar(None, pa.binary()), cells)


def _with_row_numbers(table: pa.Table, numbers: Any) -> pa.Table:
    import pyarrow as pa

    return table.append_column(ROW, pa.array(numbers, pa.int64()))
