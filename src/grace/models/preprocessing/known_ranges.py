"""Where layers or trees behind preprocessing are what the model computes: a logarithm, say, has no value for small
numbers, and what the pipeline makes of those is not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grace.models.preprocessing.columns import LIMIT
from grace.models.preprocessing.reading import Preprocessing
from grace.schema.features import Bools, Floats, Numeric, columns_of
from grace.schema.schema import Schema

if TYPE_CHECKING:
    from grace.models.predictor import Predictor


@dataclass(frozen=True)
class KnownRanges:
    """The numbers of each feature (d,) for which it is known what the model computes, from `low` to `high`, and the
    codes of missing cells."""

    low: Floats
    high: Floats
    missing: Floats

    def beyond(self, rows: Floats) -> Bools:
        """Which cells of encoded rows (n, d) are numbers beyond those that are known."""
        return np.asarray(((rows < self.low) | (rows > self.high)) & (rows != self.missing))

    def check(self, rows: Floats, schema: Schema) -> str:
        """Why nothing is proven about rows, a cell or the range of a feature, and a remedy; an empty text if it is."""
        cells = self.beyond(rows)
        if cells.any():
            row, j = (int(place[0]) for place in np.nonzero(cells))
            where = f"column {schema.names[j]!r}, row {row}: {rows[row, j]:g} lies beyond {self._words(j)}"
            return f"{where}; leave the row out, or ask without prove="
        bounds = zip(schema.features, *schema.bounds(), strict=True)
        for j, (feature, low, high) in enumerate(bounds):
            if not feature.fixed and (low < self.low[j] or high > self.high[j]):
                where = f"column {feature.name!r}: the range {low:g} to {high:g} goes beyond {self._words(j)}"
                return f"{where}; narrow it with ranges=, or ask without prove="
        return ""

    def _words(self, j: int) -> str:
        ends = [f"from {self.low[j]:g}"] * bool(np.isfinite(self.low[j]))
        ends += [f"up to {self.high[j]:g}"] * bool(np.isfinite(self.high[j]))
        return f"the numbers for which the preprocessing is known, {' '.join(ends)}"


def known_ranges(before: Preprocessing | None, asked: Predictor, schema: Schema) -> KnownRanges | None:
    """Where what was read of preprocessing holds; None if it holds everywhere."""
    if before is None:
        return None
    names = list(before.names or asked.columns or schema.columns)
    low, high = np.full(len(schema), -np.inf), np.full(len(schema), np.inf)
    for j, feature in enumerate(schema.features):
        for name in columns_of(feature) if isinstance(feature, Numeric) else ():  # of categories, each was asked about
            least, most = before.limits(names.index(name))
            low[j] = max(low[j], least) if least > -LIMIT else low[j]
            high[j] = min(high[j], most) if most < LIMIT else high[j]
    if not np.isfinite([low, high]).any():
        return None
    missing = [f.missing_code if isinstance(f, Numeric) else np.nan for f in schema.features]
    return KnownRanges(low, high, np.array(missing))
