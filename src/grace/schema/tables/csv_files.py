"""CSV files of jobs, which are read as they stream: the dialect is that of their first block."""

from __future__ import annotations

import bz2
import codecs
import gzip
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from grace.errors import GraceError
from grace.schema.tables.csv_text import BZIP2, GZIP, XZ, ZIP, Dialect, decoded, dialect_of, named_columns, records
from grace.schema.tables.text_columns import Columns, TextColumn

FIRST = 1 << 20  # bytes that the dialect is recognised by
CONVERT = "convert the table to Parquet"


def opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    """The bytes of a file, unpacked by gzip or bzip2 as they are read."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(6)
        if magic.startswith((XZ, ZIP)):
            raise GraceError(f"{path}: a job does not unpack .zip or .xz; unpack it, or {CONVERT}")
        if magic.startswith(GZIP):
            return gzip.open(path)
        return bz2.open(path) if magic.startswith(BZIP2) else path.open("rb")
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror or reason}") from reason


def is_packed(path: Path) -> bool:
    """Whether a file is larger when it is read."""
    with path.open("rb") as stream:
        return stream.read(6).startswith((GZIP, BZIP2))


def csv_dialect(path: Path) -> Dialect:
    """The encoding and the separator."""
    return _first_block(path)[1]


def header(path: Path) -> list[str]:
    """The names of the columns."""
    text, dialect = _first_block(path)
    raw = next(records(path, text, dialect), [])
    named_columns(path, raw)
    return raw


def check_numbers(path: Path, names: Sequence[str]) -> None:
    """An error where numbers of the first block are not written as 1234.5, which rows of a job have to be: one row does
    not tell whether its comma is a decimal one."""
    text, dialect = _first_block(path)
    lines = records(path, text, dialect)
    columns = next(lines)
    try:
        cells = [line for line in islice(lines, FIRST) if len(line) == len(columns)]
    except GraceError:  # the quotation mark of a cell that the block cuts off
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
            raise GraceError(f"{path}: {reason}") from reason
    for form, found in table.formats.items():
        raise GraceError(
            f"{path}: numbers of column {found[0]!r} are written with {form}, which a job does not read; {CONVERT}"
        )


def _first_block(path: Path) -> tuple[str, Dialect]:
    try:
        with opened(path) as stream:
            block = stream.read(FIRST)
    except (OSError, EOFError) as reason:
        raise GraceError(f"{path} cannot be unpacked: {reason}; compress it anew, or {CONVERT}") from reason
    cut = block
    if len(block) == FIRST:  # up to the end of a line, which is the end of a letter too
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
