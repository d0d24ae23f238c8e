"""The rows that a visitor browses: training rows, or a user's table, in which some rows may not fit the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.scale.rejected_rows import bisect_failures
from grace.schema.columns import is_temporal
from grace.schema.features import MISSING, Bools, Categorical, Feature, Numeric, columns_of
from grace.schema.frames import as_frame, join_first
from grace.schema.groups import join_groups
from grace.schema.low_precision import is_low_precision
from grace.web.rows import default_cell, is_missing, parse_cell, plain_cell

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MAX_ROWS = 100_000
UNFIT = -1


@dataclass(frozen=True)
class Examples:
    """`rows` holds the features as in the table, `extra` its other columns, `codes` the positions of the predicted
    classes (UNFIT for invalid rows; None in regression), `errors` the reasons why rows could not be split into
    features."""

    rows: pd.DataFrame
    extra: pd.DataFrame
    codes: np.ndarray[Any, np.dtype[np.int64]] | None
    errors: Mapping[int, str] = field(default_factory=dict)


def training_examples(explainer: Explainer, first: pd.DataFrame | None) -> Examples:
    """The rows of `first`, then the background rows; a typical row if there are none."""
    schema = explainer.schema
    frames = [] if first is None else [join_groups(schema, first)[schema.names]]
    if explainer.background_rows is not None:
        frames.append(join_groups(schema, schema.decode(explainer.background_rows)))
    if not frames:
        frames.append(pd.DataFrame([{f.name: default_cell(f) for f in schema.features}]))
    rows = pd.concat(frames, ignore_index=True)
    return Examples(rows, rows[[]], _codes(explainer, rows, np.ones(len(rows), dtype=bool)))


def table_examples(explainer: Explainer, table: pd.DataFrame) -> Examples:
    """The rows of a table, in order."""
    schema = explainer.schema
    table = as_frame(table).head(MAX_ROWS).reset_index(drop=True)
    if len(table) == 0:
        raise GraceError("there are no rows: the table is empty")
    groups = {c for f in schema.features for c in columns_of(f)} & set(table.columns)
    parts, errors = bisect_failures(table, lambda part: join_groups(schema, part))
    rows = pd.concat([part for _, part in parts]).reindex(table.index) if parts else table
    missing = [name for name in schema.names if name not in rows.columns]
    if missing:
        raise GraceError(f"column {missing[0]!r} is missing from the table; the model needs {join_first(schema.names)}")
    extra = table[[c for c in table.columns if c not in schema.names and c not in groups]]
    valid = np.ones(len(rows), dtype=bool)
    clean = {}
    for feature in schema.features:
        clean[feature.name], ok = _parse_column(rows[feature.name], feature)
        valid &= ok
    return Examples(rows[schema.names], extra, _codes(explainer, pd.DataFrame(clean), valid), errors)


def _codes(explainer: Explainer, rows: pd.DataFrame, valid: Bools) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    model = explainer.model
    if model.task == "regression":
        return None
    positions = {label: i for i, label in enumerate(model.classes)}
    codes = np.full(len(rows), UNFIT)
    if valid.any():
        codes[valid] = [positions[c] for c in model.predict(rows[valid])]
    return codes


def _parse_column(column: pd.Series[Any], feature: Feature) -> tuple[Any, Bools]:
    """The parsed column, and a mask of valid cells; each distinct cell is parsed once."""
    is_number = isinstance(feature, Numeric) and not is_temporal(feature) and not is_low_precision(feature)
    if is_number and pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.isfinite(values) | (np.isnan(values) & feature.gaps)
    codes, unique = pd.factorize(column, use_na_sentinel=False)
    parsed = [_try_cell(feature, plain_cell(value)) for value in unique]
    cells = np.array([value for value, _ in parsed], dtype=object)
    return pd.Series(cells[codes], index=column.index), np.array([ok for _, ok in parsed], dtype=bool)[codes]


def _try_cell(feature: Feature, value: Any) -> tuple[Any, bool]:
    if is_missing(feature, value):
        return (MISSING if feature.gaps and isinstance(feature, Categorical) else None), feature.gaps
    try:
        return parse_cell(feature, value), True
    except GraceError:
        return None, False
