"""Groups: one-hot columns, exactly one of which is 1 in every row, as one categorical feature."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.schema.features import Categorical, Feature, Floats, Numeric, columns_of
from grace.schema.frames import cell_repr, cell_reprs, join_first, no_duplicates, numbers

if TYPE_CHECKING:
    from grace.schema.schema import Schema


def group_feature(name: str, columns: Sequence[str]) -> Categorical:
    """The group as a categorical feature; its categories are the column names without the group's name as a prefix."""
    if len(columns) < 2:
        raise GraceError(f"group {name!r}: a group has at least two columns, not {join_first(columns)}")
    short = [c.removeprefix(name).lstrip("_=. :") for c in columns]
    fits = all(c.startswith(name) and s for c, s in zip(columns, short, strict=True)) and len(set(short)) == len(short)
    return Categorical(name=name, columns=tuple(columns), categories=tuple(short if fits else columns))


def cells_of(frame: pd.DataFrame, feature: Feature | None, name: str) -> pd.Series[Any]:
    """The column of a feature; for a group, the category whose column is 1, missing if any of its cells is. A group may
    also be given as a single categorical column."""
    if not isinstance(feature, Categorical) or not feature.columns or name in frame.columns:
        return frame[name]
    parts = np.stack([numbers(frame[c]) for c in feature.columns], axis=1)
    missing = np.isnan(parts).any(axis=1)
    wrong = ~missing & ~(((parts == 0) | (parts == 1)).all(axis=1) & (parts.sum(axis=1) == 1))
    if wrong.any():
        i = int(wrong.argmax())
        on = [c for c, cell in zip(feature.columns, parts[i], strict=True) if cell != 0]
        raise GraceError(
            "group {group!r}, row {row}: exactly one of the columns {columns} has to be 1 and the others 0; "
            "not 0 are {on}: correct the row, or leave them ungrouped",
            group=name,
            row=cell_repr(frame.index[i]),
            columns=cell_reprs(feature.columns),
            on=cell_reprs(on) or "none",
        )
    table = np.array([*feature.categories, None], dtype=object)
    return pd.Series(table[np.where(missing, -1, parts.argmax(axis=1))], index=frame.index, name=name)


def typed(feature: Feature | None, frame: pd.DataFrame) -> Feature | None:
    """A group with the dtype of its columns."""
    if not isinstance(feature, Categorical) or not feature.columns or feature.dtype:
        return feature
    return replace(feature, dtype=str(frame[feature.columns[0]].dtype))


def columns_from(codes: Floats, feature: Categorical) -> dict[str, Any]:
    """The one-hot columns of a group from the positions of its categories; NaN where the position is."""
    known = np.isfinite(codes).all()
    out = {}
    for position, column in enumerate(feature.columns):
        on = codes == position
        out[column] = on.astype(feature.dtype or "int64") if known else np.where(np.isfinite(codes), on, np.nan)
    return out


def needed_columns(schema: Schema, given: Container[str]) -> list[str]:
    """The columns that hold the features, given those that are present: a group may be a single column."""
    columns = schema.columns
    if len(columns) == len(schema):  # no groups
        return columns
    return [c for f in schema.features for c in ([f.name] if f.name in given else columns_of(f))]


class Layout(NamedTuple):
    """Where the columns that hold the features stand in a frame, and its columns that are neither these nor the
    target."""

    positions: list[int]
    extra: list[str]


def layout_of(schema: Schema, frame: pd.DataFrame) -> Layout:
    """Of the columns that hold the features; remembered for frames with the same columns, such as single rows of one
    frame. An error names a column that is missing or occurs twice."""
    columns = frame.columns
    last: tuple[pd.Index[str], Layout] | None = schema.__dict__.get("_layout")
    if last is not None and last[0].is_(columns):  # also columns of a part of that frame
        return last[1]
    given = columns.tolist()  # several times faster than list()
    no_duplicates(given, "column")
    position = {column: i for i, column in enumerate(given)}
    names = needed_columns(schema, position)
    for name in names:
        if name not in position:
            raise GraceError(f"column {name!r} is missing from the rows; the model needs {join_first(names)}")
    known = {*names, schema.target}
    layout = Layout([position[name] for name in names], [c for c in given if c not in known])
    schema.__dict__["_layout"] = columns, layout
    return layout


def extra_of(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame | None:
    """These columns, or None: selecting none is slow for a single row."""
    names = layout_of(schema, frame).extra
    return frame[names] if names else None


def join_groups(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each group as a single categorical column."""
    for f in schema.features:
        if isinstance(f, Categorical) and f.columns and f.name not in frame.columns and set(f.columns) <= set(frame):
            frame = frame.drop(columns=list(f.columns)).assign(**{f.name: cells_of(frame, f, f.name)})
    return frame


def ungrouped(schema: Schema) -> Schema:
    """The schema with a numeric feature for each column of a group, for models that know no groups."""
    features: list[Feature] = []
    for f in schema.features:
        if isinstance(f, Categorical) and f.columns:
            features += [Numeric(name=c, low=0, high=1, integer=True, spread=1.0, typical=0.0) for c in f.columns]
        else:
            features.append(f)
    return replace(schema, features=tuple(features), rules=())


def column_positions(schema: Schema) -> list[tuple[int, ...]]:
    """For each feature, the positions of its columns in the table."""
    out, start = [], 0
    for f in schema.features:
        width = len(columns_of(f))
        out.append(tuple(range(start, start + width)))
        start += width
    return out


def has_groups(schema: Schema) -> bool:
    return any(isinstance(f, Categorical) and f.columns for f in schema.features)
