"""What pyarrow says of files, with errors that name them, and tables of several files as one."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError, pip_install

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = 12  # bytes that a cell of text takes beside its letters
PAGES = 2 << 20  # most bytes that are held of a column of Parquet: a page of cells and one of a dictionary
COLUMN = 24_000  # bytes of whatever reads a column
FOOTER = 8  # bytes in memory per byte of the description of a Parquet file


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


def decoded_row_bytes(path: Path, columns: Sequence[str]) -> int:
    """About how many bytes a row of a Parquet file takes in memory: what its types say, and of text the mean length of
    a cell in the largest row group."""
    known = metadata(path)
    schema = known.schema.to_arrow_schema()
    kinds = {name: common([schema.field(name).type]) for name in columns}
    plain: dict[str, int] = {name: kind.bit_width // 8 + 1 for name, kind in kinds.items() if _has_width(kind)}
    group = _largest_group(known)
    if len(plain) == len(kinds) or group is None:
        return sum(plain.values()) + TEXT * (len(kinds) - len(plain))
    rows = max(1, group.num_rows)
    long: int = sum(c.total_uncompressed_size for c in _chunks(group, kinds.keys() - plain.keys()))
    return sum(plain.values()) + int(long // rows) + TEXT * (len(kinds) - len(plain))


def reading_bytes(path: Path, columns: Sequence[str]) -> int:
    """About how many bytes it takes to read the largest row group of a Parquet file a few rows at a time: of each
    column the pages that its cells are on, which may be all of it, and the description of the file."""
    known = metadata(path)
    group = _largest_group(known)
    chunks = [] if group is None else _chunks(group, set(columns))
    pages: int = sum(min(c.total_uncompressed_size, PAGES) + min(c.total_compressed_size, PAGES) for c in chunks)
    return pages + COLUMN * len(columns) + FOOTER * int(known.serialized_size)


def _largest_group(known: Any) -> Any:
    groups = (known.row_group(i) for i in range(known.num_row_groups))
    return max(groups, key=lambda group: group.total_byte_size, default=None)


def _chunks(group: Any, columns: Set[str]) -> list[Any]:
    """The chunks of some columns, with those of what is nested in them."""
    chunks = (group.column(i) for i in range(group.num_columns))
    return [c for c in chunks if c.path_in_schema in columns or c.path_in_schema.split(".")[0] in columns]


def _has_width(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))


def columns_of(path: Path) -> list[str]:
    """The columns of a Parquet file, without those that pandas wrote for an index that has no name."""
    schema = metadata(path).schema.to_arrow_schema()
    noted = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in noted or not name.startswith("__index_level_")]


def first_line(reason: BaseException) -> str:
    return (str(reason).splitlines() or [type(reason).__name__])[0]
