"""CSV files that are streamed; the dialect is detected from the first block."""

from __future__ import annotations

import bz2
import codecs
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from grace.errors import GraceError
from grace.schema.tables.csv_text import BZIP2, GZIP, XZ, ZIP, Dialect, decoded, dialect_of, named_columns, records
from grace.schema.tables.text_columns import Columns, TextColumn

FIRST = 1 << 20  # bytes from which the dialect is detected
CONVERT = "convert the table to Parquet"


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, plain or compressed by gzip or bzip2. Compression, encoding, separator and header are read from its
    first bytes, once."""

    path: Path

    @cached_property
    def _opener(self) -> Callable[[Path], IO[bytes] | gzip.GzipFile]:
        with self.path.open("rb") as stream:
            magic = stream.read(6)
        if magic.startswith((XZ, ZIP)):
            raise GraceError(f"{self.path}: a job does not unpack .zip or .xz; unpack it, or {CONVERT}")
        if magic.startswith(GZIP):
            return gzip.open
        return bz2.open if magic.startswith(BZIP2) else lambda path: path.open("rb")

    def open(self) -> IO[bytes] | gzip.GzipFile:
        """The bytes of the file, decompressed as they are read."""
        try:
            return self._opener(self.path)
        except OSError as reason:
            raise GraceError(f"{self.path} cannot be read: {reason.strerror or reason}") from reason

    @property
    def compressed(self) -> bool:
        return self._opener in (gzip.open, bz2.open)

    @property
    def dialect(self) -> Dialect:
        """The encoding and the separator."""
        return self._first_block[1]

    def columns(self) -> list[str]:
        """The names of the columns."""
        text, dialect = self._first_block
        raw = next(records(self.path, text, dialect), [])
        named_columns(self.path, raw)
        return raw

    def check_numbers(self, names: Sequence[str]) -> None:
        """Raise an error if numbers in the first block are not written as 1234.5. Parts of a job are parsed one by one,
        and a single row does not tell whether its comma is a decimal one."""
        text, dialect = self._first_block
        lines = records(self.path, text, dialect)
        columns = next(lines)
        try:
            cells = [line for line in islice(lines, FIRST) if len(line) == len(columns)]
        except GraceError:  # the block ends within a quoted cell
            return
        texts = {
            name: pd.Series([line[j] for line in cells], dtype="str") for j, name in enumerate(columns) if name in names
        }
        table = Columns({n: TextColumn.of(n, c) for n, c in texts.items()}, dialect.separator, list(texts))
        for column in table.columns.values():
            try:
                if column.readings:
                    table.numbers(column)
            except GraceError as reason:
                raise GraceError(f"{self.path}: {reason}") from reason
        for form, found in table.formats.items():
            raise GraceError(
                f"{self.path}: numbers of column {found[0]!r} are written with {form}, which a job does not read; "
                f"{CONVERT}"
            )

    @cached_property
    def _first_block(self) -> tuple[str, Dialect]:
        """The text of the first block, up to the end of a line, and its dialect."""
        path = self.path
        try:
            with self.open() as stream:
                block = stream.read(FIRST)
        except (OSError, EOFError) as reason:
            raise GraceError(f"{path} cannot be unpacked: {reason}; compress it anew, or {CONVERT}") from reason
        cut = block
        if len(block) == FIRST:  # the end of a line is also the end of a character
            end = block.rfind(b"\n")
            wide = block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
            cut = block if wide or end < 0 else block[: end + 1]
        text, encoding = decoded(path, cut)
        dialect = dialect_of(path, text, encoding)
        if dialect.skipped:
            raise GraceError(f"{path}: take out the line {text.splitlines()[0]!r} above the header, or {CONVERT}")
        return text, dialect


def read_options(dialect: Dialect, block: int) -> tuple[Any, str]:
    """How pyarrow reads the file, and the separator."""
    from pyarrow import csv

    encoding = "utf8" if dialect.encoding in ("utf-8", "utf-8-sig") else dialect.encoding
    return csv.ReadOptions(use_threads=False, block_size=block, encoding=encoding), dialect.separator
