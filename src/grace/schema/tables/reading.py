"""Reads a whole table: CSV in any common dialect, compressed or not, and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pandas as pd

from grace.errors import GraceError
from grace.schema.frames import no_duplicates
from grace.schema.schema import Schema
from grace.schema.tables import csv_files
from grace.schema.tables.text_columns import TextColumn, typed_columns

BLOCK = 10_000  # lines converted to columns at a time


def read(
    path: str | Path,
    schema: Schema | None = None,
    *,
    used: Sequence[str] = (),
    categories: Sequence[str] = (),
    lenient: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """A table indexed from 0, and notes about the format that was detected.

    Features are typed by the `schema`, other columns in `used` by their cells, the rest stays as written; without a
    schema, all columns are typed by their cells. `categories` stay text, and with `lenient` so do columns in which some
    cells do not fit.
    """
    where = Path(path)
    if where.is_dir() or where.suffix.lower() == ".parquet" or _starts_with(where, csv_files.PARQUET):
        return _parquet(where), []
    text, encoding = csv_files.decode_text(where, csv_files.content_of(where))
    known = () if schema is None else schema.names
    dialect = csv_files.dialect_of(where, text, encoding, known)
    columns = _columns(where, text, dialect)
    try:
        frame, notes = typed_columns(
            columns, dialect.separator, schema, used=used, categories=categories, lenient=lenient
        )
    except GraceError as reason:
        raise GraceError(f"{where}: {reason}") from reason
    return frame, [*(["encoding Windows-1252"] if encoding == csv_files.WINDOWS else []), *notes]


def _columns(path: Path, text: str, dialect: csv_files.Dialect) -> dict[str, TextColumn]:
    """The cells of each column, as text; blank unnamed columns are dropped."""
    lines = csv_files.records(path, text, dialect)
    names = csv_files.named_columns(path, next(lines))
    pieces: list[list[pd.Series[str]]] = []
    start = 0
    while block := list(islice(lines, BLOCK)):
        bad = next((i for i, cells in enumerate(block) if len(cells) != len(names)), None)
        if bad is not None:
            raise GraceError(
                f"{path}, row {start + bad}: the line has {len(block[bad])} cells instead of {len(names)}; correct it, "
                f"with quotation marks around cells that hold {dialect.separator!r}"
            )
        pieces.append([pd.Series(cells, dtype="str") for cells in zip(*block, strict=True)])
        start += len(block)
    if not pieces:
        raise GraceError(f"{path} has no rows: there is only a header")
    joined = [pd.concat(parts, ignore_index=True) for parts in zip(*pieces, strict=True)]
    columns = {name: TextColumn.of(name, cells) for name, cells in zip(names, joined, strict=True)}
    blank = [f"Unnamed: {i}" for i, name in enumerate(names) if name == f"Unnamed: {i}" and not columns[name].distinct]
    return {name: column for name, column in columns.items() if name not in blank}


def _parquet(path: Path) -> pd.DataFrame:
    """A Parquet table; named index levels become columns."""
    try:
        from pyarrow.parquet import read_schema

        names = [] if path.is_dir() else read_schema(path).names
        no_duplicates(names, f"{path}: column")
        frame = pd.read_parquet(path)
    except GraceError:
        raise
    except (ValueError, OSError, ImportError) as error:
        raise GraceError(f"{path} cannot be read as a table: {error}") from error
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(level=named) if named else frame
    return frame.reset_index(drop=True)


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(magic)) == magic
    except OSError as reason:
        raise GraceError(f"{path} cannot be read: {reason.strerror}") from reason
