"""Training rows: a frame, or a Parquet table of any size, which is read by columns or in blocks of rows. Ranges,
spreads and categories are those of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.errors import GraceError
from grace.schema.columns import encode_column, is_number, observe_column, with_missing
from grace.schema.domains import Domain, tail_of
from grace.schema.features import Categorical, Feature, Floats, Value, columns_of
from grace.schema.frames import as_frame, join_first, no_duplicates
from grace.schema.groups import cells_of, typed
from grace.schema.rules import Follows
from grace.schema.rules.keeping import has_unlearnt_values, with_learnt_values
from grace.schema.schema import Schema
from grace.schema.tables.arrow import concat_tables, first_line
from grace.schema.tables.table_file import ROW, TableFile

RowIndices = npt.NDArray[np.int64]
BLOCK = 1 << 16  # rows in memory at a time


class Source(ABC):
    """A table of training rows."""

    columns: list[str]

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def read_columns(self, names: Sequence[str]) -> pd.DataFrame:
        """All rows of these columns, possibly with others."""

    @abstractmethod
    def take(self, indices: RowIndices) -> pd.DataFrame:
        """The rows at these ascending indices, which become the index of the frame."""

    def blocks(self, indices: RowIndices) -> Iterator[pd.DataFrame]:
        """The rows at these indices, BLOCK at a time."""
        for start in range(0, len(indices), BLOCK):
            yield self.take(indices[start : start + BLOCK])


class FrameSource(Source):
    """Rows in memory."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.columns = frame, list(frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def read_columns(self, names: Sequence[str]) -> pd.DataFrame:
        return self.frame

    def take(self, indices: RowIndices) -> pd.DataFrame:
        return self.frame if len(indices) == len(self.frame) else self.frame.iloc[indices]


def source_of(train: Any, names: Sequence[str] = ()) -> Source:
    """Training rows from any supported form, or the path of a Parquet table; `names` are the columns of an array."""
    if isinstance(train, str | Path):
        source: Source = ParquetSource.of(train)
    else:
        source = FrameSource(as_frame(train, names))
    if len(source) == 0:
        raise GraceError("there are no rows: the table is empty")
    no_duplicates(source.columns, "column")
    return source


def schemas(
    source: Source,
    target: str | None = None,
    *,
    domains: Sequence[Domain],
    like: Schema | None = None,
    gaps: bool = False,
) -> dict[Domain, Schema]:
    """dom(X) for each of the domains, column by column; see `Schema.infer`."""
    base = Schema(features=(), target=target) if like is None else like
    for domain in domains:
        tail_of(domain)
    present = set(source.columns)
    if target is not None and target not in present:
        raise GraceError(f"target column {target!r} is not in the data; columns: {join_first(source.columns)}")
    target = base.target if target is None else target
    known = {f.name: f for f in base.features}
    names = list(known) or [c for c in source.columns if c != target]
    if not names:
        raise GraceError("the data have no feature columns beside the target")
    by_domain: dict[Domain, list[Feature]] = {d: [] for d in domains}
    for name in names:
        declared = known.get(name)
        columns = (name,) if declared is None else columns_of(declared)
        for column in columns:
            if column not in present:
                raise GraceError(f"column {column!r} is missing from the data; add it, or drop it from the schema")
        frame = source.read_columns(sorted({name, *columns} & present))
        cells = cells_of(frame, declared, name)
        feature = observe_column(cells, typed(declared, frame), domains[0])
        feature = with_missing(cells, feature) if gaps else feature
        for domain, features in by_domain.items():
            features.append(feature if domain == domains[0] else _with_domain(feature, cells, domain))
    classes = base.classes
    if not classes and target is not None and target in present:
        classes = _classes(source.read_columns([target])[target])
    out = {d: replace(base, features=tuple(f), target=target, classes=classes, domain=d) for d, f in by_domain.items()}
    return {d: complete(schema, source) for d, schema in out.items()}


def _with_domain(feature: Feature, cells: pd.Series[Any], domain: Domain) -> Feature:
    """The feature with the range of another domain."""
    if isinstance(feature, Categorical):
        return feature.with_domain(cells, domain)
    values = encode_column(cells, replace(feature, gaps=False))
    return feature.with_domain(values[~np.isnan(values)], domain)


def _classes(labels: pd.Series[Any]) -> tuple[Value, ...]:
    """The classes of a target; none of a regression target."""
    name = str(labels.name)
    if not labels.notna().any():
        raise GraceError(f"target column {name!r} has no values: every label is missing")
    return () if is_number(labels) else Categorical(name=name).observe(labels).categories


def complete(schema: Schema, source: Source) -> Schema:
    """The schema with what its rules learn from all rows; only distinct pairs of cells are read."""
    if not has_unlearnt_values(schema):
        return schema
    seen = [np.empty((0, len(schema)))]
    for rule in schema.rules:
        if isinstance(rule, Follows) and not rule.values:
            pair = replace(schema, features=(schema[rule.of], schema[rule.feature]), target=None, rules=())
            columns = [c for c in pair.columns if c in source.columns]
            cells = source.read_columns(columns)[columns].drop_duplicates()
            rows = np.full((len(cells), len(schema)), np.nan)
            rows[:, [schema.index(rule.of), schema.index(rule.feature)]] = pair.encode(cells, missing=True)
            seen.append(rows)
    return with_learnt_values(schema, np.concatenate(seen))


def encoded_blocks(source: Source, indices: RowIndices, schema: Schema) -> Iterator[Floats]:
    """The rows at these indices, encoded, in blocks; NaN where a cell is missing."""
    for frame in source.blocks(indices):
        yield schema.encode(frame, missing=True)


class ParquetSource(Source):
    """A Parquet table."""

    def __init__(self, table: TableFile) -> None:
        self.table, self.columns = table, table.columns()

    @classmethod
    def of(cls, path: str | Path) -> ParquetSource:
        table = TableFile.of(path)
        if table.text:
            raise GraceError(f"{path}: rows are drawn from Parquet; read CSV with pandas, or convert it")
        return cls(table)

    def __len__(self) -> int:
        return self.table.rows

    def read_columns(self, names: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pieces = []
        for path in self.table.files:
            try:
                with pq.ParquetFile(path) as file:
                    pieces.append(file.read(list(names), use_threads=False).select(list(names)))
            except (pa.ArrowException, OSError) as reason:
                raise GraceError(f"{path} cannot be read: {first_line(reason)}") from reason
        frame: pd.DataFrame = concat_tables(pieces).to_pandas(split_blocks=True, self_destruct=True)
        return frame.reset_index(drop=True)

    def take(self, indices: RowIndices) -> pd.DataFrame:
        import pyarrow as pa

        pieces = []
        for batch in self.table.batches(self.columns, lambda *ends: bool(np.diff(np.searchsorted(indices, ends)))):
            if batch.rows is not None:
                first, last = np.searchsorted(indices, [batch.start, batch.start + batch.count])
                if first < last:
                    pieces.append(batch.rows.take(pa.array(indices[first:last] - batch.start)))
        frame: pd.DataFrame = concat_tables(pieces).to_pandas()
        return frame.set_index(ROW).rename_axis(None)
