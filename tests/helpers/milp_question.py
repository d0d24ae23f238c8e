"""What is asked about a row, in plain numbers: what each cell may become, which class is to win, how far is near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grace import Categorical, Numeric

Array = np.ndarray
Feature = Numeric | Categorical


@dataclass(frozen=True)
class Cell:
    """The value of a row in one feature, and what it may be changed to: a number in [low, high], a whole one if
    `whole`, or one of some other categories. A change costs `rate` for each unit, or once if it is not `measured`."""

    value: float
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    codes: tuple[int, ...] | None = None  # None for a number
    free: bool = True
    rate: float = 1.0
    measured: bool = True

    def allows(self, value: float) -> bool:
        if value == self.value:
            return True
        if not self.free:
            return False
        if self.codes is not None:
            return value in self.codes
        return self.low <= value <= self.high and (not self.whole or value == round(value))

    def cost(self, value: float) -> float:
        if value == self.value:
            return 0.0
        return self.rate * (abs(value - self.value) if self.measured else 1.0)


def cells_of(features: Sequence[Feature], row: Array, limits: Mapping[str, Any]) -> list[Cell]:
    """What each cell may become, by the features of a schema and the limits of a call of `explain`."""
    out = []
    for j, feature in enumerate(features):
        frozen = feature.frozen or feature.name in limits.get("frozen", ())
        up = feature.increase_only or feature.name in limits.get("increase_only", ())
        down = feature.decrease_only or feature.name in limits.get("decrease_only", ())
        given = (limits.get("ranges") or {}).get(feature.name)
        rate = (limits.get("costs") or {}).get(feature.name, feature.cost)
        x = float(row[j])
        if isinstance(feature, Categorical):
            chosen = feature.selectable if given is None else given
            codes = [k for k, c in enumerate(feature.categories) if c in chosen and k != x]
            codes = [k for k in codes if (not up or k > x) and (not down or k < x)]
            rate = rate / (feature.spread or 1.0) if feature.ordered else rate
            measured = feature.ordered
            out.append(Cell(x, codes=tuple(codes), free=bool(codes) and not frozen, rate=rate, measured=measured))
            continue
        low, high = _range(feature, given)
        low, high = max(low, x) if up else low, min(high, x) if down else high
        if feature.integer:
            low, high = np.ceil(low), np.floor(high)
        free = not frozen and low <= high and not low == high == x
        out.append(Cell(x, float(low), float(high), bool(feature.integer), free=free, rate=rate / feature.spread))
    return out


def _range(feature: Numeric, given: Sequence[float | None] | None) -> tuple[float, float]:
    """The ends that an expert has set win over those seen in data, and push them along."""
    low, high = (None, None) if given is None else given
    low, high = feature.low if low is None else low, feature.high if high is None else high
    seen = feature.observed or (-np.inf, np.inf)
    if low is None:
        low = seen[0] if high is None else min(seen[0], high)
    if high is None:
        high = max(seen[1], low)
    return float(low), float(high)


@dataclass(frozen=True)
class Aim:
    """Which classes may win, over which others each, and how probable the winner has to be."""

    rivals: Mapping[int, tuple[int, ...]]
    confidence: float = 0.0

    @classmethod
    def of(cls, classes: int, original: int, against: int | None = None, confidence: float = 0.0) -> Aim:
        """Another class than the original one, or the one asked for."""

        def others(c: int) -> tuple[int, ...]:
            return tuple(k for k in range(classes) if k != c)

        if against is not None:
            return cls({against: others(against)}, confidence)
        winners = others(original)
        # argmax is another class as soon as any other leads the original one
        return cls({c: others(c) if confidence > 0 else (original,) for c in winners}, confidence)

    @property
    def log_odds(self) -> float:
        return float(np.log(self.confidence / (1 - self.confidence))) if self.confidence > 0 else -np.inf

    def margin(self, scores: Array) -> Array:
        """By how much rows (n, classes) reach the aim, in scores; below zero they do not."""
        found = []
        for c, rivals in self.rivals.items():
            lead = scores[:, [c]] - scores[:, list(rivals)]
            margin = lead.min(axis=1)
            if self.confidence > 0:
                margin = np.minimum(margin, log_odds(scores, c) - self.log_odds)
            found.append(margin)
        return np.max(found, axis=0)


def log_odds(scores: Array, c: int) -> Array:
    """log p / (1 - p) of a class by softmax, for scores (n, classes)."""
    others = np.delete(scores, c, axis=1)
    top = others.max(axis=1)
    return scores[:, c] - top - np.log(np.exp(others - top[:, None]).sum(axis=1))


def distance(cells: Sequence[Cell], row: Array, norm: str) -> float:
    costs = np.array([cell.cost(value) for cell, value in zip(cells, row, strict=True)])
    return float({"l1": costs.sum(), "l2": np.sqrt((costs**2).sum()), "linf": costs.max()}[norm])
