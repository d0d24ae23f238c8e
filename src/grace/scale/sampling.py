"""Random rows of tables that do not fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grace.schema.sources import ParquetSource

if TYPE_CHECKING:
    import pandas as pd


def sample(path: str | Path, rows: int, *, seed: int = 0) -> pd.DataFrame:
    """Rows drawn at random without replacement from a Parquet table of any size, in the order of the table and indexed
    by row number: to train on a table that does not fit into memory."""
    source = ParquetSource.of(path)
    total = len(source)
    return source.take(np.sort(np.random.default_rng(seed).choice(total, min(rows, total), replace=False)))
