"""Writes docs/steady.md from the lines of benchmarks/steady.py."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write(results: pd.DataFrame, out: Path) -> None:
    """The page."""
