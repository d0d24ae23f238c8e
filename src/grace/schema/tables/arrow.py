"""Helpers for pyarrow: files, metadata and memory estimates, with errors that name the file."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError, pip_install

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_OVERHEAD = 12  # bytes of a text cell besides its letters
MAX_PAGE_BYTES = 2 << 20  # buffered per Parquet column: a data page and a dictionary page
COLUMN_OVERHEAD = 24_000  # bytes of a column reader
FOOTER_RATIO = 8  # bytes in memory per byte of Parquet metadata


def require_pyarrow() -> Any:
    """The module pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError as missing:
        raise GraceError(f"big tables are read by pyarrow: {pip_install('parquet')}") from missing
    return pyarrow


def concat_tables(pieces: Sequence[pa.Table]) -> pa.Table:
    """The concatenated tables. Columns whose types differ get a common type, in the last resort text, which every
    feature parses."""
    import pyarrow as pa

    try:
        return pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
    except pa.ArrowException:
        schemas = [piece.schema for piece in pieces]
        mixed = [n for n in schemas[0].names if len({s.field(n).type for s in schemas}) > 1]
    try:
        texts = [pa.table({n: p[n].cast(pa.string()) if n in mixed else p[n] for n in p.column_names}) for p in pieces]
        return pa.concat_tables(texts, promote_options="permissive").combine_chunks()
    except pa.ArrowException as reason:
        types = " and ".join(sorted({str(s.field(mixed[0]).type) for s in schemas}))
        raise GraceError(f"column {mixed[0]!r} is of types that do not go together in its files: {types}") from reason


def bytes_to_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text; invalid UTF-8 is escaped."""
    import pyarrow as pa

    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if c is None else c.decode("utf-8", errors="backslashreplace") for c in cells.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """The common type of columns, in the last resort text; that of the values for dictionaries."""
    import pyarrow as pa

    plain = [type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in types]
    try:
        schemas = [pa.schema([("cells", type_)]) for type_ in plain]
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
    """Estimated bytes of a decoded row: by the widths of its types, for text by the mean length in the largest row
    group."""
    known = metadata(path)
    schema = known.schema.to_arrow_schema()
    types = {name: common_type([schema.field(name).type]) for name in columns}
    widths: dict[str, int] = {name: type_.bit_width // 8 + 1 for name, type_ in types.items() if _has_width(type_)}
    group = _largest_group(known)
    if len(widths) == len(types) or group is None:
        return sum(widths.values()) + TEXT_OVERHEAD * (len(types) - len(widths))
    rows = max(1, group.num_rows)
    text: int = sum(c.total_uncompressed_size for c in _chunks(group, types.keys() - widths.keys()))
    return sum(widths.values()) + int(text // rows) + TEXT_OVERHEAD * (len(types) - len(widths))


def reading_bytes(path: Path, columns: Sequence[str]) -> int:
    """Estimated bytes for reading the largest row group a few rows at a time: per column its buffered pages, and the
    metadata."""
    known = metadata(path)
    group = _largest_group(known)
    chunks = [] if group is None else _chunks(group, set(columns))
    sizes = [size for c in chunks for size in (c.total_uncompressed_size, c.total_compressed_size)]
    pages: int = sum(min(size, MAX_PAGE_BYTES) for size in sizes)
    return pages + COLUMN_OVERHEAD * len(columns) + FOOTER_RATIO * int(known.serialized_size)


def _largest_group(known: Any) -> Any:
    groups = (known.row_group(i) for i in range(known.num_row_groups))
    return max(groups, key=lambda group: group.total_byte_size, default=None)


def _chunks(group: Any, columns: Set[str]) -> list[Any]:
    """The chunks of these columns, including nested ones."""
    chunks = (group.column(i) for i in range(group.num_columns))
    return [c for c in chunks if c.path_in_schema in columns or c.path_in_schema.split(".")[0] in columns]


def _has_width(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_))


def columns_of(path: Path) -> list[str]:
    """The columns of a Parquet file, without the unnamed index that pandas writes."""
    schema = metadata(path).schema.to_arrow_schema()
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index or not name.startswith("__index_level_")]


def first_line(reason: BaseException) -> str:
    return (str(reason).splitlines() or [type(reason).__name__])[0]
