"""Columns of the input that are copied beside the answers, such as the key of a row."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.explain.answer_table import unique_names
from grace.schema.frames import join_first
from grace.schema.tables.arrow import bytes_to_text
from grace.schema.tables.table_file import ROW, TableFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ExtraColumns:
    """The names of the columns, and the types that they have in every part."""

    schema: pa.Schema

    @classmethod
    def of(
        cls, table: TableFile, features: Sequence[str], target: str | None, only: Sequence[str] | None
    ) -> ExtraColumns:
        """The columns of a table that are neither features nor the target, or those that are named (`only`)."""
        names = table.columns()
        for name in only or ():
            if name not in names:
                raise GraceError(f"id={name!r}: {table.files[0]} has no such column; it has {join_first(names)}")
        if only is not None and len(set(only)) < len(only):
            raise GraceError(f"id={list(only)!r}: a column is named twice")
        chosen = [n for n in names if n not in {*features, target}] if only is None else list(only)
        if ROW in chosen:
            raise GraceError(f"column {ROW!r} has a name that is needed here; rename it, or name others by --id (id=)")
        return cls(table.kinds(chosen))

    @classmethod
    def from_text(cls, text: str) -> ExtraColumns:
        """The inverse of `to_text`; an empty text means no columns."""
        import pyarrow as pa

        return cls(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else pa.schema([]))

    def to_text(self) -> str:
        """The Arrow schema in Base64, for other processes."""
        return base64.b64encode(self.schema.serialize().to_pybytes()).decode()

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def add_to(self, answers: pa.Table, rows: pa.Table | None, positions: Any) -> pa.Table:
        """The answers with the extra columns after their first column. `positions` are those of the row of each answer
        among `rows`."""
        import pyarrow as pa

        columns: dict[str, Any] = {answers.column_names[0]: answers.column(0)}
        for field, name in zip(self.schema, unique_names(self.names, answers.column_names), strict=True):
            cells = pa.nulls(0, field.type) if rows is None else _cast(rows[field.name], field.type).take(positions)
            columns[name] = cells
        return pa.table(columns | {n: answers[n] for n in answers.column_names[1:]})


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cells of the type that the column has in every part; an empty cell of CSV is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_binary(cells.type) and pa.types.is_string(kind):
        cells = bytes_to_text(cells)
        return pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    return cells if cells.type == kind else cells.cast(kind)
