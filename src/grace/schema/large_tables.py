"""Large tables as arrays of float64: copied on several threads, in parts that are looked at while they are in the CPU
cache. Smaller ones by numpy and pandas, with the same result and the same order in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from grace.schema.features import Floats

LARGE = 1 << 20  # cells; up to here, threads take longer to start than they save
PART = 1 << 18  # cells that a thread takes at a time
IN_CACHE = 1 << 14  # cells that are copied, then looked at
MOST_THREADS = 8  # more are not faster: memory is the limit

Item = TypeVar("Item")
Result = TypeVar("Result")
Cells = npt.NDArray[Any]


def on_threads(run: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of a function for all items, on as many threads as torch uses."""
    threads = min(MOST_THREADS, torch.get_num_threads(), len(items))
    if threads < 2:
        return [run(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="grace") as pool:
        return list(pool.map(run, items))


def is_large(rows: int, columns: int) -> bool:
    """Whether the columns of a table are worth a thread each."""
    return rows >= IN_CACHE and rows * columns > LARGE


def finite_array(table: Cells) -> Floats | None:
    """A copy of a table of numbers as float64; None if one of them is not finite."""
    if table.size > LARGE and (table.flags.c_contiguous or table.flags.f_contiguous):
        out = np.empty_like(table, dtype=np.float64, subok=False)
        return out if _copied([(out.ravel(order="K"), table.ravel(order="K"))]) else None
    values: Floats = table.astype(np.float64)
    return values if np.isfinite(values).all() else None


def finite_frame(frame: pd.DataFrame, positions: list[int]) -> Floats | None:
    """A copy of the columns at `positions`, all of them of numpy numbers, as float64 (n, d); None if one of the numbers
    is not finite."""
    columns: list[Cells] = []
    if is_large(len(frame), len(positions)):
        columns = [frame.iloc[:, position].to_numpy() for position in positions]
        if all(column.flags.c_contiguous for column in columns):
            out = np.empty((len(columns), len(frame)))
            return out.T if _copied(list(zip(out, columns, strict=True))) else None
    selected = frame if positions == list(range(frame.shape[1])) else frame.iloc[:, positions]
    if len({column.dtype for column in columns}) == 1:
        return finite_array(selected.to_numpy())  # mostly a view of an array that pandas was given
    values = selected.to_numpy(dtype=np.float64, copy=True)
    return values if np.isfinite(values).all() else None


def _copied(pairs: Sequence[tuple[Floats, Cells]]) -> bool:
    """Copy arrays (n,) to others, and whether all numbers are finite."""
    parts = [
        (out[start : start + PART], cells[start : start + PART])
        for out, cells in pairs
        for start in range(0, len(cells), PART)
    ]
    return all(on_threads(_copied_part, parts))


def _copied_part(part: tuple[Floats, Cells]) -> bool:
    out, cells = part
    is_whole = cells.dtype.kind in "iu"
    for start in range(0, len(cells), IN_CACHE):
        block = out[start : start + IN_CACHE]
        block[:] = cells[start : start + IN_CACHE]
        if not is_whole and not np.isfinite(block).all():
            return False
    return True
