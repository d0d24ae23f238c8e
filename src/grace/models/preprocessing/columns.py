"""Columns of a matrix that preprocessing makes, each as a function of one cell of the original row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from grace.models.preprocessing.formulas import Affine, Composition, Formula
from grace.models.preprocessing.thresholds import Evaluate, threshold_in_original
from grace.schema.features import Floats

AFFINE, MONOTONE, STEPS, TABLE = "affine", "monotone", "steps", "table"
KINDS = (AFFINE, MONOTONE, STEPS, TABLE)
"""What a column is to the numbers of its source: scale * x + shift; never falling (or never rising); the same between
two neighbouring edges, everywhere if there are none; or anything. Of a category, every column is a table."""
LIMIT = 1e100  # numbers up to which the claims hold: beyond it, scaling may overflow
Cut = tuple[float, bool]  # a threshold, and whether the comparison with it is strict


def untransformed(numbers: Floats) -> Floats:
    """Numbers as they are."""
    return numbers


@dataclass(frozen=True)
class Column:
    """A column as a function of the cell at `source`, a position in the original row. What is said
    holds for numbers of float64 within [low, high] that are not missing: what a missing cell becomes is found by
    asking. STEPS have the same value from one of `edges` up to, and without, the next one."""

    source: int
    kind: str
    scale: float = 1.0
    shift: float = 0.0
    rising: bool = True
    cuts: tuple[Cut, ...] = ()
    """Of STEPS, the thresholds at which the value changes: of `evaluate`, not of the original number."""
    low: float = -LIMIT
    high: float = LIMIT
    evaluate: Evaluate = field(default=untransformed, compare=False, repr=False)
    """The values of numbers, where the kind is AFFINE or MONOTONE; of STEPS, what is compared with `cuts`."""
    formula: Composition | None = field(default=Composition(()), compare=False, repr=False)
    """The same in closed form, if that is known."""

    @property
    def settled(self) -> bool:
        """Whether any function of the column is of the same kind: it has steps, or is a table."""
        return self.kind in (STEPS, TABLE)

    def affine(self, factor: float, offset: float, step: Evaluate) -> Column:
        """The column times a factor, which is not zero, plus an offset."""
        if self.settled:
            return self
        rising = self.rising == (factor > 0)
        after = replace(self, rising=rising, evaluate=Chain(self.evaluate, step))
        formula = None if self.formula is None else self.formula.then(Affine(factor, offset))
        return replace(after, scale=self.scale * factor, shift=self.shift * factor + offset, formula=formula)

    def monotone(
        self, step: Evaluate, lower: float = -np.inf, upper: float = np.inf, formula: Sequence[Formula] = ()
    ) -> Column:
        """A function of the column that never falls, defined from `lower` to `upper`; its parts in closed form, if that
        is known."""
        if self.settled:
            return self
        low, high = self._within(lower, upper)
        known = self.formula.then(*formula) if self.formula is not None and formula else None
        after = replace(self, kind=MONOTONE, scale=1.0, shift=0.0, low=low, high=high, formula=known)
        return replace(after, evaluate=Chain(self.evaluate, step))

    def steps(self, cuts: Sequence[Cut]) -> Column:
        """A function of the column that changes only where the column crosses a threshold."""
        return self if self.settled else replace(self, kind=STEPS, scale=1.0, shift=0.0, cuts=tuple(cuts))

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """Where STEPS change, in rising order: the original numbers from which on the value may be another one."""
        edges: set[float] = set()
        for strict in (True, False):
            limits = np.array([t for t, s in self.cuts if s == strict])
            if len(limits):
                edges.update(self._crossed(limits, strict).tolist())
        return tuple(sorted(e for e in edges if self.low < e <= self.high))

    def table(self) -> Column:
        """Any function of the column."""
        return self if self.settled else Column(self.source, TABLE)

    def _crossed(self, limits: Any, strict: bool) -> Floats:
        return threshold_in_original(self.evaluate, limits, strict, rising=self.rising, low=self.low, high=self.high)

    def _within(self, lower: float, upper: float) -> tuple[float, float]:
        """The numbers whose values lie within [lower, upper]."""
        low, high = self.low, self.high
        if lower > -np.inf:
            edge = float(self._crossed(lower, True))  # from here on not below, or if the column falls, below
            low, high = (max(low, edge), high) if self.rising else (low, min(high, _before(edge)))
        if upper < np.inf:
            edge = float(self._crossed(upper, False))  # from here on above, or if the column falls, not above
            low, high = (low, min(high, _before(edge))) if self.rising else (max(low, edge), high)
        return low, high


def original(source: int) -> Column:
    """A column of the original row."""
    return Column(source, AFFINE)


def _before(number: float) -> float:
    return float(np.nextafter(number, -np.inf))


@dataclass(frozen=True)
class Chain:
    """One function after another."""

    first: Evaluate
    second: Evaluate

    def __call__(self, numbers: Floats) -> Any:
        return self.second(self.first(numbers))


@dataclass(frozen=True)
class Step:
    """What a transformer of scikit-learn makes of the numbers in one of its columns: column `output` of its result. In
    the other columns it gets ones."""

    transformer: Any
    input: int
    output: int

    def __call__(self, numbers: Floats) -> Any:
        names = getattr(self.transformer, "feature_names_in_", None)
        cells = np.ones((len(numbers), self.transformer.n_features_in_))
        cells[:, self.input] = numbers
        given = cells if names is None else pd.DataFrame(cells, columns=names)
        return dense(self.transformer.transform(given))[:, self.output]


def dense(matrix: Any) -> Any:
    """A matrix of any container as an array."""
    if sparse.issparse(matrix):
        return matrix.toarray()
    return matrix.to_numpy() if hasattr(matrix, "to_numpy") else np.asarray(matrix)
