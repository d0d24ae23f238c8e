"""Columns that are carried along beside the answers, such as the key of a row."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.schema.frames import some
from grace.schema.tables.arrow import decoded
from grace.schema.tables.table_file import ROW, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

INPUT = "input."  # before the name of a column that would else have that of an answer's


@dataclass(frozen=True)
class Carried:
    """The columns and their types, as the answers have them."""

    kinds: pa.Schema

    @classmethod
    def of(cls, table: TableFile, features: Sequence[str], target: str | None, only: Sequence[str] | None) -> Carried:
        """The columns of a table that are neither features nor the target, or those that are named (`only`)."""
        names = table.columns()
        for name in only or ():
            if name not in names:
                raise GraceError(f"id={name!r}: {table.files[0]} has no such column; it has {some(names)}")
        if only is not None and len(set(only)) < len(only):
            raise GraceError(f"id={list(only)!r}: a column is named twice")
        kept = [n for n in names if n not in {*features, target}] if only is None else list(only)
        if ROW in kept:
            raise GraceError(f"column {ROW!r} has a name that is needed here; rename it, or name others by --id (id=)")
        return cls(table.kinds(kept))

    @classmethod
    def none(cls) -> Carried:
        return cls.of_text("")

    @classmethod
    def of_text(cls, text: str) -> Carried:
        """From what `text` gives; of nothing, no columns."""
        import pyarrow as pa

        return cls(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else pa.schema([]))

    def text(self) -> str:
        """As text, for other processes."""
        return base64.b64encode(self.kinds.serialize().to_pybytes()).decode()

    @property
    def names(self) -> list[str]:
        return list(self.kinds.names)

    def beside(self, answers: pa.Table, rows: pa.Table | None, places: Any) -> pa.Table:
        """The answers with the columns behind the first of theirs: the cells of the rows at the `places`, one for each
        answer."""
        import pyarrow as pa

        columns: dict[str, Any] = {answers.column_names[0]: answers.column(0)}
        for name, said in zip(self.names, self.said(answers.column_names), strict=True):
            kind = self.kinds.field(name).type
            columns[said] = pa.nulls(0, kind) if rows is None else _as(rows[name], kind).take(places)
        return pa.table(columns | {n: answers[n] for n in answers.column_names[1:]})

    def said(self, taken: Sequence[str]) -> list[str]:
        """The names beside those that are `taken`."""
        return names_beside(self.names, taken)


def names_beside(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of columns that do not clash with those that are taken, nor with each other."""
    used, out = {*taken, *names}, []
    for name in names:
        said = name
        if name in taken:
            while said in used:
                said = INPUT + said
            used.add(said)
        out.append(said)
    return out


def _as(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cells of the type that they have in all parts; empty text of CSV is a missing cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_binary(cells.type) and pa.types.is_string(kind):
        cells = decoded(cells)
        return pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    return cells if cells.type == kind else cells.cast(kind)
