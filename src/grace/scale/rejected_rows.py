"""Rows that cannot be explained: the number of the row, the column and the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.schema.columns import TEMPORAL_PREFIXES, encode_column
from grace.schema.features import Feature, Numeric
from grace.schema.frames import category_cells, cell_repr
from grace.schema.groups import ungrouped
from grace.schema.schema import Schema
from grace.schema.tables.arrow import bytes_to_text, first_line
from grace.schema.tables.table_file import ROW, Part

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
Found = TypeVar("Found")


@dataclass(frozen=True)
class Reject:
    """A rejected row; `column` is set if a single cell does not fit."""

    row: int
    column: str | None
    reason: str


def split_rejects(part: Part, schema: Schema, *, missing: bool = False) -> tuple[pd.DataFrame | None, list[Reject]]:
    """The rows of a part that fit the schema, indexed by row number, and the others. A row is rejected for the first of
    its cells that does not fit; missing cells fit only if `missing`."""
    rejects = [Reject(x.row, None, x.reason) for x in part.lost]
    if part.rows is None or len(part.rows) == 0:
        return None, rejects
    schema = ungrouped(schema)  # groups of columns are checked when the row is explained
    frame = typed_frame(part.rows, schema)
    try:
        schema.encode(frame, missing=missing)
    except GraceError:
        for feature in schema.features:
            faults = _bad_cells(frame[feature.name], feature, missing)
            rejects += [Reject(row, feature.name, reason) for row, reason in faults.items()]
            frame = frame.drop(index=list(faults))
    return (frame if len(frame) else None), rejects


def _bad_cells(column: pd.Series[Any], feature: Feature, missing: bool) -> dict[int, str]:
    """The rows whose cell does not fit, with the reason, found by bisection of the distinct cells of the column."""
    if len(column) == 0:
        return {}

    def check(cells: pd.Series[Any]) -> bool:
        if np.isnan(encode_column(cells, feature)).any() and not missing:
            raise GraceError("the cell is missing")
        return True

    codes, cells = _distinct(column)
    _, found = bisect_failures(cells, check)
    start = f"column {feature.name!r}, row "
    reasons = {c: r.removeprefix(f"{start}{cell_repr(c)}: ").partition(";")[0] for c, r in found.items()}
    wrong = np.isin(codes, list(reasons))
    return {int(row): reasons[c] for row, c in zip(column.index[wrong], codes[wrong], strict=True)}


def _distinct(column: pd.Series[Any]) -> tuple[np.ndarray[Any, Any], pd.Series[Any]]:
    """The distinct cells, and for each cell its position among them: each distinct cell is checked only once."""
    try:
        codes, cells = pd.factorize(column, use_na_sentinel=False)
    except TypeError:  # cells that cannot be hashed, such as lists
        codes, cells = np.arange(len(column)), column.array
    return codes, pd.Series(cells, name=column.name)


def bisect_failures(rows: Any, function: Callable[[Any], Found]) -> tuple[list[tuple[Any, Found]], dict[Any, str]]:
    """Apply a function to all rows at once or, where it fails, to each half, recursively. Returns the blocks of rows
    for which it succeeded, with its results, and the label and error of every single row for which it failed."""
    try:
        return [(rows, function(rows))], {}
    except Exception as reason:  # any error of a model: a single row must not stop a job
        if len(rows) == 1:
            return [], {rows.index[0]: first_line(reason)}
    middle = len(rows) // 2
    succeeded: list[tuple[Any, Found]] = []
    failed: dict[Any, str] = {}
    for half in (rows.iloc[:middle], rows.iloc[middle:]):
        results, errors = bisect_failures(half, function)
        succeeded += results
        failed |= errors
    return succeeded, failed


def typed_frame(rows: pa.Table, schema: Schema) -> pd.DataFrame:
    """The features of numbered rows as a frame. Text is parsed by the type of each feature; cells that cannot be parsed
    stay text."""
    columns = {f.name: _column(rows[f.name], f) for f in schema.features}
    return pd.DataFrame(columns, index=pd.Index(rows[ROW].to_numpy()))


def _column(cells: pa.ChunkedArray, feature: Feature) -> Any:
    import pyarrow as pa

    if pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type):
        cells = bytes_to_text(cells)
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells.to_pandas().array
    if isinstance(feature, Numeric):
        return cells.to_pandas().array if feature.dtype.startswith(TEMPORAL_PREFIXES) else _numbers(cells)
    return category_cells(cells.to_pandas(), feature)


def _numbers(cells: pa.ChunkedArray) -> Any:
    """Text as numbers; how a cell is parsed does not depend on other cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(cells), r"^\+", "")
    fits = pc.match_substring_regex(trimmed, NUMBER)
    values = pc.if_else(fits, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())
    numbers = values.to_numpy(zero_copy_only=False) if hasattr(values, "combine_chunks") else np.asarray(values)
    wrong = pc.fill_null(pc.invert(fits), False).to_numpy()
    if not wrong.any():
        return numbers
    return np.where(wrong, cells.to_pandas().to_numpy(dtype=object), numbers.astype(object))
