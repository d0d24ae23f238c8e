"""The forecast of a reader without an explanation: an edit changes the class if it is nearer to the typical row of the
other classes than to that of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grace.explain.scorecards.additive import Rule
from grace.explain.scorecards.edits import Edits, Ints
from grace.schema.features import Bools, Categorical, Feature, Floats


@dataclass(frozen=True)
class TypicalRows:
    """Typical rows (classes, d) of each class and of all other classes together: lower medians of the numbers, and the
    most frequent categories. Distances are in spreads, 1 for another category."""

    own: Floats
    others: Floats
    spread: Floats
    categorical: Bools

    @classmethod
    def of(cls, features: Sequence[Feature], pool: Floats, classes: Ints, count: int) -> TypicalRows:
        """The typical rows of a pool (k, d) with predicted classes (k,)."""
        categorical = np.array([isinstance(f, Categorical) for f in features])
        spread = np.array([1.0 if isinstance(f, Categorical) else f.spread or 1.0 for f in features])
        own = [typical_row(categorical, pool[classes == c], pool) for c in range(count)]
        others = [typical_row(categorical, pool[classes != c], pool) for c in range(count)]
        return cls(np.stack(own), np.stack(others), spread, categorical)

    def changes(self, classes: Ints, edits: Floats) -> Bools:
        """Which edits (n, m, d) of rows of some classes (n,) are forecast to change the class."""
        return self._distance(edits, self.others[classes]) < self._distance(edits, self.own[classes])

    def right(self, rule: Rule, edits: Edits) -> Floats:
        """The share (n,) of edits for which that forecast is right."""
        return edits.mean(self.changes(rule.own, edits.rows) == (edits.decided != rule.own[:, None]))

    def _distance(self, edits: Floats, typical: Floats) -> Floats:
        there = typical[:, None]
        return np.asarray(np.where(self.categorical, edits != there, np.abs(edits - there) / self.spread).sum(axis=2))


def typical_row(categorical: Bools, rows: Floats, all_rows: Floats) -> Floats:
    """Lower medians of the numbers and most frequent categories of some rows; of all rows if there are none."""
    rows = rows if len(rows) else all_rows
    typical = np.quantile(rows, 0.5, axis=0, method="lower")
    for j in np.flatnonzero(categorical):
        typical[j] = np.bincount(rows[:, j].astype(int)).argmax()
    return np.asarray(typical)
