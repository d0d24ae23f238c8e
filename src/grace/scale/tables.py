"""Big tables as parts of equally many rows, read one after another: Parquet and CSV, a file or a folder of them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.errors import GraceError
from grace.frames import some

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH = 4096  # rows decoded at a time
BLOCK = 1 << 20  # bytes of a CSV file parsed at a time
READ = 1 << 22  # bytes hashed at a time
MISSING = ("", "#N/A", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "<NA>")  # as pandas reads them
ROW = "__row__"  # the column of row numbers


@dataclass(frozen=True)
class Lost:
    """A row that is no row of the table."""

    row: int
    reason: str


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` of the table: those that could be read, numbered in a column, and the others."""

    number: int
    start: int
    stop: int
    rows: pa.Table
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True)
class Big:
    """A table on disk."""

    files: tuple[Path, ...]
    text: bool
    """Whether it is CSV, where every cell is text until a feature says what it is."""

    @classmethod
    def of(cls, path: str | Path) -> Big:
        """The table at a path: a .parquet or .csv file, or a folder of .parquet files in the order of their names."""
        arrow()
        where = Path(path)
        if not where.exists():
            raise GraceError(f"{where} does not exist")
        files = tuple(sorted(where.glob("*.parquet"))) if where.is_dir() else (where,)
        if not files:
            raise GraceError(f"{where} has no .parquet files")
        return cls(files, files[0].suffix.lower() != ".parquet")

    def columns(self) -> list[str]:
        """The names of the columns, the same in every file."""
        named = [_header(file) if self.text else _schema(file).names for file in self.files]
        for file, names in zip(self.files, named, strict=True):
            if set(names) != set(named[0]):
                raise GraceError(f"{file} has other columns than {self.files[0]}: {some(names)}")
            if len(set(names)) < len(names):
                twice = next(n for n in names if names.count(n) > 1)
                raise GraceError(f"{file}: column {twice!r} occurs twice; rename or drop one of them")
        return named[0]

    def fingerprint(self) -> tuple[str, int]:
        """A hash of every byte, and how many rows there are; of CSV as many as lines, which may hold a few more."""
        digest, lines = hashlib.sha256(), 0
        for file in self.files:
            try:
                with file.open("rb") as stream:
                    while block := stream.read(READ):
                        digest.update(block)
                        lines += block.count(b"\n") if self.text else 0
            except OSError as reason:
                raise GraceError(f"{file} cannot be read: {reason.strerror}") from reason
        rows = max(0, lines - 1) if self.text else sum(_metadata(f).num_rows for f in self.files)
        return digest.hexdigest(), rows

    def parts(self, size: int, columns: Sequence[str], done: frozenset[int] = frozenset()) -> Iterator[Part]:
        """The parts of `size` rows that are not done, with these columns of theirs and the number of each row."""
        batches = self._texts(columns) if self.text else self._batches(columns, size, done)
        return _regrouped(batches, size, done)

    def part(self, number: int, size: int, columns: Sequence[str]) -> Part:
        """One part of a Parquet table."""
        wanted, rows = number * size, sum(_metadata(f).num_rows for f in self.files)
        all_others = frozenset(range(-(-rows // size))) - {number}
        found = next(iter(_regrouped(self._batches(columns, size, all_others), size, all_others)), None)
        if found is None:
            raise GraceError(f"{self.files[0]} has no rows from {wanted}")
        return found

    def _batches(self, columns: Sequence[str], size: int, done: frozenset[int]) -> Iterator[_Batch]:
        """Numbered rows, without the row groups of which all parts are done."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        start = 0
        for path in self.files:
            try:
                with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
                    for group in range(file.num_row_groups):
                        rows = file.metadata.row_group(group).num_rows
                        if all(p in done for p in range(start // size, -(-(start + rows) // size))):
                            yield _Batch(start, rows, None, ())
                            start += rows
                            continue
                        for batch in file.iter_batches(BATCH, [group], list(columns), use_threads=False):
                            table = pa.Table.from_batches([batch]).select(list(columns))
                            yield _Batch(start, len(table), _numbered(table, np.arange(start, start + len(table))), ())
                            start += len(table)
            except (pa.ArrowException, OSError) as reason:
                raise GraceError(f"{path}: rows from {start} cannot be read: {first_line(reason)}") from reason

    def _texts(self, columns: Sequence[str]) -> Iterator[_Batch]:
        """Numbered rows of text. A line with too few or too many cells is no row, but is counted as one."""
        import pyarrow as pa
        from pyarrow import csv

        lost: deque[Lost] = deque()  # filled by the reader's thread, in order and ahead of the rows

        def refuse(row: Any) -> str:
            cells = f"the line has {row.actual_columns} cells instead of {row.expected_columns}"
            lost.append(Lost(row.number - 2, cells))  # counted from 1, the header included
            return "skip"

        (path,) = self.files
        start = 0
        try:
            reader = csv.open_csv(
                path,
                csv.ReadOptions(use_threads=False, block_size=BLOCK),
                csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
                csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, pa.binary()),
                    strings_can_be_null=True,
                    null_values=list(MISSING),
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
                yield _Batch(start, stop - start, _numbered(pa.Table.from_batches([batch]), numbers), tuple(here))
                start = stop
        except (pa.ArrowException, OSError) as reason:
            raise GraceError(f"{path}: rows from {start} cannot be read: {first_line(reason)}") from reason
        if lost:
            yield _Batch(start, len(lost), None, tuple(lost))


@dataclass(frozen=True)
class _Batch:
    """Consecutive rows; no table where none of them is needed or none could be read."""

    start: int
    count: int
    rows: pa.Table | None
    lost: tuple[Lost, ...]


def _regrouped(batches: Iterator[_Batch], size: int, done: frozenset[int]) -> Iterator[Part]:
    """Batches of any length as parts of `size` rows."""
    import pyarrow as pa

    held: list[pa.Table] = []
    lost: list[Lost] = []
    number, stop, end = 0, 0, 0

    def part(stop: int) -> Part | None:
        if number in done or not (held or lost):
            return None
        rows = pa.concat_tables(held).combine_chunks() if held else None
        return Part(number, number * size, stop, rows, tuple(lost))

    for batch in batches:
        end = batch.start + batch.count
        start = batch.start
        while start < end:
            stop = min(end, (number + 1) * size)
            if number not in done:
                if batch.rows is not None:
                    held.append(_between(batch.rows, start, stop))
                lost += [x for x in batch.lost if start <= x.row < stop]
            if stop == (number + 1) * size:
                found = part(stop)
                if found is not None:
                    yield found
                held, lost, number = [], [], number + 1
            start = stop
    found = part(stop)
    if found is not None:
        yield found


def _between(rows: pa.Table, start: int, stop: int) -> pa.Table:
    """The rows with numbers from `start` to below `stop`."""
    first, last = np.searchsorted(rows[ROW].to_numpy(), [start, stop])
    return rows.slice(int(first), int(last - first))


def _numbered(table: pa.Table, numbers: Any) -> pa.Table:
    import pyarrow as pa

    return table.append_column(ROW, pa.array(numbers, pa.int64()))


def sample(path: str | Path, rows: int, *, seed: int = 0) -> pd.DataFrame:
    """Rows drawn by `seed` from a Parquet table of any size, in their order, under their numbers: what training data
    that do not fit into memory are for an `Explainer`."""
    import pyarrow as pa

    table = Big.of(path)
    if table.text:
        raise GraceError(f"{path}: rows are drawn from Parquet; read CSV with pandas, or convert it")
    total = sum(_metadata(f).num_rows for f in table.files)
    take = np.sort(np.random.default_rng(seed).choice(total, min(rows, total), replace=False))
    names, found = [n for n in table.columns() if n != ROW], []
    for batch in table._batches(names, 1, frozenset()):
        if batch.rows is not None:
            first, last = np.searchsorted(take, [batch.start, batch.start + batch.count])
            found.append(batch.rows.take(pa.array(take[first:last] - batch.start)))
    frame: pd.DataFrame = pa.concat_tables(found).to_pandas()
    return frame.set_index(ROW).rename_axis(None)


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise GraceError("big tables are read by pyarrow: pip install 'grace-xai[parquet]'") from missing
    return pyarrow


def first_line(reason: BaseException) -> str:
    return (str(reason).splitlines() or [type(reason).__name__])[0]


def _metadata(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as reason:
        raise GraceError(f"{path} cannot be read as Parquet: {first_line(reason)}") from reason


def _schema(path: Path) -> Any:
    return _metadata(path).schema.to_arrow_schema()


def _header(path: Path) -> list[str]:
    import csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return next(csv.reader(stream), [])
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise GraceError(f"{path} cannot be read as a table: {first_line(reason)}") from reason
