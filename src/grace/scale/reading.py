"""What pyarrow says of files, with errors that name them, and tables of several files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.extras import pip_install

if TYPE_CHECKING:
    import pyarrow as pa


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise GraceError(f"big tables are read by pyarrow: {pip_install('parquet')}") from missing
    return pyarrow


def joined(pieces: Sequence[pa.Table]) -> pa.Table:
    """Rows of one table or, where files differ in the types of their columns, of a type that takes both: at last text,
    which every feature reads."""
    import pyarrow as pa

    try:
        return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
    except pa.ArrowException:
        kinds = [piece.schema for piece in pieces]
        apart = [n for n in kinds[0].names if len({k.field(n).type for k in kinds}) > 1]
    try:
        texts = [pa.table({n: p[n].cast(pa.string()) if n in apart else p[n] for n in p.column_names}) for p in pieces]
        return pa.concat_tables(texts, promote_options="permissive").combine_chunks()
    except pa.ArrowException as reason:
        said = " and ".join(sorted({str(k.field(apart[0]).type) for k in kinds}))
        raise GraceError(f"column {apart[0]!r} is of types that do not go together in its files: {said}") from reason


def metadata(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as reason:
        raise GraceError(f"{path} cannot be read as Parquet: {first_line(reason)}") from reason


def columns_of(path: Path) -> list[str]:
    """The columns of a Parquet file, without those that pandas wrote for an index that has no name."""
    schema = metadata(path).schema.to_arrow_schema()
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in noted or not name.startswith("__index_level_")]


def header(path: Path) -> list[str]:
    import csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return next(csv.reader(stream), [])
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise GraceError(f"{path} cannot be read as a table: {first_line(reason)}") from reason


def first_line(reason: BaseException) -> str:
    return (str(reason).splitlines() or [type(reason).__name__])[0]
