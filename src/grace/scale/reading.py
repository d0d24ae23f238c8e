"""What pyarrow says of files, with errors that name them, and tables of several files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError

if TYPE_CHECKING:
    import pyarrow as pa


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise GraceError("big tables are read by pyarrow: pip install 'grace-xai[parquet]'") from missing
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


def decoded(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text; those that are no UTF-8 are shown as they are."""
    import pyarrow as pa

    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if c is None else c.decode("utf-8", errors="backslashreplace") for c in cells.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def common(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type that takes the cells of all: at last text. Categories are what they stand for."""
    import pyarrow as pa

    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    try:
        schemas = [pa.schema([("cells", kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field("cells").type
    except pa.ArrowException:
        return pa.string()


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
