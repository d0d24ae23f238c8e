"""Where training rows come from: a frame, or Parquet of any size (`grace.scale.stored`), of which whole columns or some
rows are in memory at a time. Ranges, spreads and categories are those of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.columns import encode_column
from grace.errors import GraceError
from grace.features import Categorical, Domain, Feature, Floats, columns_of, tail_of
from grace.frames import as_frame, no_duplicates, some
from grace.rules import Follows
from grace.rules.keeping import completed, incomplete
from grace.schema import Schema

Places = npt.NDArray[np.int64]
BLOCK = 1 << 16  # rows that are in memory at a time


class Source(ABC):
    """A table of training rows."""

    columns: list[str]

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def whole(self, names: Sequence[str]) -> pd.DataFrame:
        """All rows of some columns."""

    @abstractmethod
    def take(self, places: Places) -> pd.DataFrame:
        """All columns of the rows at these places, in rising order, under their numbers."""

    def blocks(self, places: Places) -> Iterator[pd.DataFrame]:
        """The rows at these places, not too many at a time."""
        for start in range(0, len(places), BLOCK):
            yield self.take(places[start : start + BLOCK])


class Held(Source):
    """A frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.columns = frame, list(frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def whole(self, names: Sequence[str]) -> pd.DataFrame:
        return self.frame[list(names)]

    def take(self, places: Places) -> pd.DataFrame:
        return self.frame if len(places) == len(self.frame) else self.frame.iloc[places]


def source_of(train: Any) -> Source:
    """Training rows, from any of the forms in which rows may come, or from the path of a Parquet table."""
    if isinstance(train, str | Path):
        from grace.scale.stored import Stored

        source: Source = Stored.of(train)
    else:
        source = Held(as_frame(train))
    if len(source) == 0:
        raise GraceError("there are no rows: the table is empty")
    no_duplicates(source.columns, "column")
    return source


def schemas(
    source: Source,
    target: str | None = None,
    *,
    domains: Sequence[Domain],
    like: Schema | None = None,
    gaps: bool = False,
) -> dict[Domain, Schema]:
    """dom(X) for each of the domains, as `Schema.infer` has it, column by column."""
    base = Schema(features=(), target=target) if like is None else like
    first = domains[0]
    for domain in domains:
        tail_of(domain)
    if target is not None and target not in source.columns:
        raise GraceError(f"target column {target!r} is not in the data; columns: {some(source.columns)}")
    target = base.target if target is None else target
    known = {f.name: f for f in base.features}
    names = list(known) or [c for c in source.columns if c != target]
    if not names:
        raise GraceError("the data have no feature columns beside the target")
    found: dict[Domain, list[Feature]] = {d: [] for d in domains}
    for name in names:
        one = known.get(name)
        columns = [name] if one is None or name in source.columns else list(columns_of(one))
        for column in columns:
            if column not in source.columns:
                raise GraceError(f"column {column!r} is missing from the data; add it, or drop it from the schema")
        frame = source.whole(columns)
        alone = replace(base, features=() if one is None else (one,), target=None, classes=(), rules=())
        feature = Schema.infer(frame, domain=first, like=alone, gaps=gaps).features[0]
        for domain, features in found.items():
            features.append(feature if domain == first else _ranged(feature, frame, domain))
    labels = [target] if target is not None and target in source.columns else []
    classes = _classes(source, base, labels)
    out = {d: replace(base, features=tuple(f), target=target, classes=classes, domain=d) for d, f in found.items()}
    return {d: complete(schema, source) for d, schema in out.items()}


def _ranged(feature: Feature, frame: pd.DataFrame, domain: Domain) -> Feature:
    """The feature with the range of another domain."""
    if isinstance(feature, Categorical):
        return feature
    values = encode_column(frame[feature.name], replace(feature, gaps=False))
    return feature.ranged(values[~np.isnan(values)], domain)


def _classes(source: Source, base: Schema, labels: list[str]) -> tuple[Any, ...]:
    """The classes of the target, where there is one and nobody has said."""
    if base.classes or not labels:
        return base.classes
    frame = source.whole(labels)
    return Schema.infer(frame.assign(**{f"{labels[0]} ": 0}), labels[0]).classes


def complete(schema: Schema, source: Source) -> Schema:
    """The schema with what its rules learn from all rows; only different pairs of cells are looked at."""
    if not incomplete(schema):
        return schema
    seen = [np.empty((0, len(schema)))]
    for rule in schema.rules:
        if isinstance(rule, Follows) and not rule.values:
            pair = replace(schema, features=(schema[rule.of], schema[rule.feature]), target=None, rules=())
            cells = source.whole([c for c in pair.columns if c in source.columns]).drop_duplicates()
            rows = np.full((len(cells), len(schema)), np.nan)
            rows[:, [schema.index(rule.of), schema.index(rule.feature)]] = pair.encode(cells, missing=True)
            seen.append(rows)
    return completed(schema, np.concatenate(seen))


def encoded_blocks(source: Source, places: Places, schema: Schema) -> Iterator[Floats]:
    """Rows at these places as numbers, NaN where a cell is missing."""
    for frame in source.blocks(places):
        yield schema.encode(frame, missing=True)
