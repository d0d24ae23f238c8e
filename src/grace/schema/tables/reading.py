"""Reading tables as people have them: CSV in any common dialect, compressed or not, and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pandas as pd

from grace.errors import GraceError
from grace.schema.frames import no_duplicates
from grace.schema.schema import Schema
from grace.schema.tables.csv_files import (
    PARQUET,
    WINDOWS,
    Dialect,
    content_of,
    decoded,
    dialect_of,
    named_columns,
    records,
)
from grace.schema.tables.text_columns import TextColumn, typed_columns

BLOCK = 10_000  # lines turned into columns at a time


def read(
    path: str | Path,
    schema: Schema | None = None,
    *,
    used: Sequence[str] = (),
    categories: Sequence[str] = (),
    lenient: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """A table under row numbers from 0, and what was recognised in it that a reader should know.

    Where a `schema` is given, it decides the types of its features; of other columns those that are `used` are
    typed by their cells, and the rest stay as they are written. Without one, all columns are typed by their cells.
    `categories` are text in any case. With `lenient`, a column with cells that do not fit the others is text too.
    """
    where = Path(path)
    if where.is_dir() or where.suffix.lower() == ".parquet" or _starts_with(where, PARQUET):
        return _parquet(where), []
    text, encoding = decoded(where, content_of(where))
    known = () if schema is None else [c for f in schema.features for c in (f.name,)]
    dialect = dialect_of(where, text, encoding, known)
    columns = _columns(where, text, dialect)
    try:
        frame, notes = typed_columns(
            columns, dialect.separator, schema, used=used, categories=categories, lenient=lenient
        )
    except GraceError as reason:
        raise GraceError(f"{where}: {reason}") from reason
    return frame, [*(["encoding Windows-1252"] if encoding == WINDOWS else []), *notes]


def _columns(path: Path, text: str, dialect: Dialect) -> dict[str, TextColumn]:
    """The cells of each column, all of them text."""
    lines = records(path, text, dialect)
    names = named_columns(path, next(lines))
    pieces: list[list[pd.Series[str]]] = []
    start = 0
    while block := list(islice(lines, BLOCK)):
        odd = next((i for i, cells in enumerate(block) if len(cells) != len(names)), None)
        if odd is not None:
            raise GraceError(
                f"{path}, row {start + odd}: the line has {len(block[odd])} cells instead of {len(names)}; correct it, "
                f"with quotation marks around cells that hold {dialect.separator!r}"
            )
        pieces.append([pd.Series(cells, dtype="str") for cells in zip(*block, strict=True)])
        start += len(block)
    if not pieces:
        raise GraceError(f"{path} has no rows: there is only a header")
    whole = [pd.concat(parts, ignore_index=True) for parts in zip(*pieces, strict=True)]
    found = {name: TextColumn.of(name, cells) for name, cells in zip(names, whole, strict=True)}
    blank = [f"Unnamed: {i}" for i, name in enumerate(names) if name == f"Unnamed: {i}" and not found[name].distinct]
    return {name: column for name, column in found.items() if name not in blank}


def _parquet(path: Path) -> pd.DataFrame:
    """A Parquet table; an index that has a name is a column of it."""
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
