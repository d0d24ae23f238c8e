"""Training rows in Parquet files that need not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grace.errors import GraceError
from grace.schema.sources import Places, Source
from grace.schema.tables.arrow import first_line, joined
from grace.schema.tables.table_file import ROW, TableFile

if TYPE_CHECKING:
    import pandas as pd


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

    def whole(self, names: Sequence[str]) -> pd.DataFrame:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pieces = []
        for path in self.table.files:
            try:
                with pq.ParquetFile(path) as file:
                    pieces.append(file.read(list(names), use_threads=False).select(list(names)))
            except (pa.ArrowException, OSError) as reason:
                raise GraceError(f"{path} cannot be read: {first_line(reason)}") from reason
        frame: pd.DataFrame = joined(pieces).to_pandas(split_blocks=True, self_destruct=True)
        return frame.reset_index(drop=True)

    def take(self, places: Places) -> pd.DataFrame:
        import pyarrow as pa

        found = []
        for batch in self.table.batches(self.columns, lambda *ends: bool(np.diff(np.searchsorted(places, ends)))):
            if batch.rows is not None:
                first, last = np.searchsorted(places, [batch.start, batch.start + batch.count])
                if first < last:
                    found.append(batch.rows.take(pa.array(places[first:last] - batch.start)))
        frame: pd.DataFrame = joined(found).to_pandas()
        return frame.set_index(ROW).rename_axis(None)
