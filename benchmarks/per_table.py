"""The command line of benchmarks that look at one table after another and write a page."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd

Line = dict[str, object]


def main(
    doc: str | None, data: str, run: Callable[[str, int], list[Line]], write: Callable[[pd.DataFrame, Path], None]
) -> None:
    """`run` a table's name and number of rows in processes of their own, then `write` all lines."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=data)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    names = args.data.split(",")
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(run, names, [args.rows] * len(names)))
    write(pd.DataFrame([line for part in parts for line in part]), args.out)
