"""Text in CSV files that a spreadsheet program would take for a formula, and run.

Such cells and column names get an apostrophe in front, by which these programs know text. Numbers stay as they are,
also where they are written as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[\s\x00'\"]*[=+\-@＝＋－＠\t\r\n]")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def defused(cell: Any) -> Any:
    """A cell of a CSV file, with an apostrophe in front if it is text that would start a formula."""
    return f"'{cell}" if isinstance(cell, str) and _starts_formula(cell) else cell


def restored(text: str) -> str:
    """The text that `defused` was given."""
    return text[1:] if text.startswith("'") and _starts_formula(text[1:]) else text


def defused_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A table to write as CSV: cells, column names and row labels without formulas."""
    from pandas.api.types import is_numeric_dtype

    out = frame.set_axis([defused(column) for column in frame.columns], axis=1)
    for j, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            out.isetitem(j, frame.iloc[:, j].map(defused, na_action="ignore").array)
    if not is_numeric_dtype(frame.index.dtype):
        out.index = out.index.map(defused)
    return out


def _starts_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None
