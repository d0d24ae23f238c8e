"""Single cells of encoded rows, as explanations hold them, and what a reader should know of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grace.explain.explanation import Change
from grace.schema.columns import date_text, is_date
from grace.schema.features import MISSING, Bools, Categorical, Feature, Floats, Numeric, Value
from grace.schema.rules.keeping import broken_rules
from grace.schema.schema import Schema


def cell_of(feature: Feature, code: float) -> Value | None:
    """The cell that a number stands for, None where it is missing to the model; of a date, the number itself."""
    if isinstance(feature, Categorical):
        cell = feature.categories[int(code)]
        return None if feature.gaps and cell == MISSING else cell
    if code == feature.missing_code:
        return None
    return int(code) if feature.integer and float(code).is_integer() else float(code)


def changes_of(schema: Schema, old: Floats, new: Floats, spans: Floats | None = None) -> list[Change]:
    """What differs between two rows, the largest change first; with the spans (d, 2) of numbers, NaN if unknown."""
    out = []
    for j in np.flatnonzero(old != new):
        feature = schema.features[j]
        before, after = cell_of(feature, old[j]), cell_of(feature, new[j])
        if before is not None and after is not None:
            low, high = (np.nan, np.nan) if spans is None else spans[j].tolist()
            out.append(Change(feature, before, after, None if np.isnan(low) else (low, high)))
    return sorted(out, key=lambda change: -length(change))


def length(change: Change) -> float:
    """How far a change goes, to say the largest first."""
    if isinstance(change.feature, Numeric):
        return abs(float(change.new) - float(change.old)) / (change.feature.spread or 1.0)
    return 1.0


def remarks(schema: Schema, row: Floats, filled: Bools, brittle: Bools) -> Iterator[dict[str, Any]]:
    """Cells of the row that were filled in, those that lie outside the domain, rules that it breaks itself, and changes
    that a little more of would undo."""
    low, high = schema.bounds()
    for j in np.flatnonzero(filled):
        feature = schema.features[j]
        cell = feature.label(feature.categories[int(row[j])]) if isinstance(feature, Categorical) else float(row[j])
        value = date_text(cell) if is_date(feature) else cell
        known = {"what": "known missing", "feature": feature.name}
        yield known if cell == MISSING else {"what": "filled", "feature": feature.name, "value": value}
    for j in np.flatnonzero(~schema.contains(row[None])[0]):
        feature = schema.features[j]
        if isinstance(feature, Numeric) and row[j] != feature.missing_code:
            ends = {"value": float(row[j]), "low": float(low[j]), "high": float(high[j])}
            said = {k: date_text(v) if is_date(feature) else v for k, v in ends.items()}
            if low[j] <= row[j] <= high[j]:
                yield {"what": "fraction", "feature": feature.name, "value": said["value"]}
            else:
                yield {"what": "outside", "feature": feature.name, **said}
    for k in np.flatnonzero(broken_rules(schema, row[None])[0]) if schema.rules else ():
        yield {"what": "rule", "rule": str(schema.rules[k])}
    for j in np.flatnonzero(brittle):
        yield {"what": "brittle", "feature": schema.names[j]}
