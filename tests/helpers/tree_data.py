"""Small tables to grow trees on: of numbers, with missing cells, and with categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

RNG = np.random.default_rng(5)
SIZE = 240
ROWS = RNG.normal(size=(SIZE, 4))
ROWS[:, 1] = np.round(ROWS[:, 1], 1)
ROWS[:, 2] = RNG.integers(-2, 3, SIZE)  # with zeros
ROWS[:, 3] *= 1e6
NOISE = RNG.normal(size=SIZE)
SUMS = ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] + ROWS[:, 3] / 1e6
TWO = (SUMS + 0.3 * NOISE > 0).astype(int)
THREE = np.digitize(SUMS + 0.3 * NOISE, [-0.7, 0.7])
NUMBERS = np.abs(SUMS) + 0.1

GAPS = ROWS.copy()
GAPS[(RNG.random(GAPS.shape) < 0.2) & (np.arange(SIZE)[:, None] % 3 > 0)] = np.nan

LABELS: dict[int, list[Any]] = {1: list("abcdefghijkl"), 3: [10, 20, 30]}
CODED = ROWS.copy()
"""Rows of a table whose second and last columns are codes of LABELS."""
CODED[:, 1] = RNG.integers(0, 12, SIZE)
CODED[:, 3] = RNG.integers(0, 3, SIZE)


def frame_of(rows: npt.NDArray[np.float64], ordered: bool = False) -> pd.DataFrame:
    """The table of such rows, with labels as categories; what is missing is missing there too."""
    codes = {c: np.where(np.isnan(rows[:, c]), -1, rows[:, c]).astype(int) for c in LABELS}
    columns: dict[str, Any] = {
        "first": rows[:, 0],
        "colour": pd.Categorical.from_codes(codes[1].tolist(), LABELS[1]),
        "third": rows[:, 2],
        "size": pd.Categorical.from_codes(codes[3].tolist(), LABELS[3], ordered=ordered),
    }
    return pd.DataFrame(columns)


HOLED = CODED.copy()
HOLED[RNG.random(HOLED.shape) < 0.15] = np.nan
FRAME, HOLES = frame_of(CODED), frame_of(HOLED)
MIX = (CODED[:, 1] % 3) - 1 + CODED[:, 0] + (CODED[:, 3] == 1) + 0.3 * NOISE
"""What to learn from the table with categories."""
LIKED = (np.median(MIX) < MIX).astype(int)
