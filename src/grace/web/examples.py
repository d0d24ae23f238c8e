"""The rows that a visitor goes through: training rows, or a table of the user's own, in which not every row fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.scale.rejected_rows import bisect_failures
from grace.schema.columns import is_low_precision, is_temporal
from grace.schema.features import MISSING, Bools, Categorical, Feature, Numeric, columns_of
from grace.schema.frames import as_frame, join_first
from grace.schema.groups import join_groups
from grace.web.rows import cell, filled, is_missing, sent

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MOST_ROWS = 100_000  # of a table that is browsed
UNFIT = -1


@dataclass(frozen=True)
class Examples:
    """`rows` has the features, as the table has them; `extra` its other columns. `codes` are the positions of the
    classes that the model gives, UNFIT for rows that do not fit it; None of a model that predicts a number. `faults`
    says what is wrong with rows that could not even be taken apart into features."""

    rows: pd.DataFrame
    extra: pd.DataFrame
    codes: np.ndarray[Any, np.dtype[np.int64]] | None
    faults: Mapping[int, str] = field(default_factory=dict)


def training_examples(explainer: Explainer, first: pd.DataFrame | None) -> Examples:
    """Rows that come first, then the background rows; a typical row where there are none."""
    schema = explainer.schema
    frames = [] if first is None else [join_groups(schema, first)[schema.names]]
    if explainer.background_rows is not None:
        frames.append(join_groups(schema, schema.decode(explainer.background_rows)))
    if not frames:
        frames.append(pd.DataFrame([{f.name: filled(f) for f in schema.features}]))
    rows = pd.concat(frames, ignore_index=True)
    return Examples(rows, rows[[]], _codes(explainer, rows, np.ones(len(rows), dtype=bool)))


def table_examples(explainer: Explainer, table: pd.DataFrame) -> Examples:
    """The rows of a table in its order."""
    schema = explainer.schema
    table = as_frame(table).head(MOST_ROWS).reset_index(drop=True)
    if len(table) == 0:
        raise GraceError("there are no rows: the table is empty")
    groups = {c for f in schema.features for c in columns_of(f)} & set(table.columns)
    found, faults = bisect_failures(table, lambda part: join_groups(schema, part))
    rows = pd.concat([part for _, part in found]).reindex(table.index) if found else table
    absent = [name for name in schema.names if name not in rows.columns]
    if absent:
        raise GraceError(f"column {absent[0]!r} is missing from the table; the model needs {join_first(schema.names)}")
    extra = table[[c for c in table.columns if c not in schema.names and c not in groups]]
    fits = np.ones(len(rows), dtype=bool)
    clean = {}
    for feature in schema.features:
        clean[feature.name], fit = _read(rows[feature.name], feature)
        fits &= fit
    return Examples(rows[schema.names], extra, _codes(explainer, pd.DataFrame(clean), fits), faults)


def _codes(explainer: Explainer, rows: pd.DataFrame, fits: Bools) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    model = explainer.model
    if model.task == "regression":
        return None
    places = {label: i for i, label in enumerate(model.classes)}
    codes = np.full(len(rows), UNFIT)
    if fits.any():
        codes[fits] = [places[c] for c in model.predict(rows[fits])]
    return codes


def _read(column: pd.Series[Any], feature: Feature) -> tuple[Any, Bools]:
    """A column as the page reads each of its cells, and where that works; every different cell is read once."""
    plain = isinstance(feature, Numeric) and not is_temporal(feature) and not is_low_precision(feature)
    if plain and pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return values, np.isfinite(values) | (np.isnan(values) & feature.gaps)
    codes, different = pd.factorize(column, use_na_sentinel=False)
    read = [_cell(feature, sent(value)) for value in different]
    cells = np.array([value for value, _ in read], dtype=object)
    return pd.Series(cells[codes], index=column.index), np.array([fit for _, fit in read], dtype=bool)[codes]


def _cell(feature: Feature, value: Any) -> tuple[Any, bool]:
    if is_missing(feature, value):
        return (MISSING if feature.gaps and isinstance(feature, Categorical) else None), feature.gaps
    try:
        return cell(feature, value), True
    except GraceError:
        return None, False
