"""Edits of a row: copies in which some features have the values of a training row.

The number of features that change is drawn log-uniformly, so that edits of few features are as common as edits of many.
The same draw is used for all rows, so that a row's edits do not depend on the rows beside it. Edits are weighted such
that half of the weight is on edits that change the decision: forecasting "no change" always is right in half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """What edits change: the features (M, d), and the values (M, d) that they get."""

    swap: Bools
    values: Floats

    @classmethod
    def of(cls, pool: Floats, count: int, seed: int) -> Draw:
        """`count` edits with values of the rows of a pool (k, d)."""
        rng = np.random.default_rng([seed, count])
        d = pool.shape[1]
        size = np.floor(np.exp(rng.random(count) * np.log(d + 1)))
        rank = rng.random((count, d)).argsort(axis=1).argsort(axis=1)
        return cls(rank < size[:, None], pool[rng.integers(len(pool), size=count)])

    def part(self, begin: int, end: int) -> Draw:
        return Draw(self.swap[begin:end], self.values[begin:end])

    def applied(self, rows: Floats) -> Floats:
        """The edits (n, M, d) of rows (n, d)."""
        return np.where(self.swap, self.values, rows[:, None])


@dataclass(frozen=True)
class Edits:
    """Edits (n, m, d) of n rows, the scores (n, m, classes) and decisions (n, m) of the model, and weights (n, m), half
    of which are on edits that change the decision. Where a row has fewer edits, or none that do, weights are 0."""

    rows: Floats
    scores: Floats
    decided: Ints
    weight: Floats

    @property
    def balanced(self) -> Bools:
        """Which rows (n,) have edits of both kinds."""
        return np.asarray(self.weight.sum(axis=1) > 0.75)

    def mean(self, values: Floats | Bools) -> Floats:
        """Weighted means of values (n, ..., m) over the edits."""
        weight = self.weight.reshape(len(self.weight), *[1] * (values.ndim - 2), -1)
        return np.asarray((values * weight).sum(axis=-1))

    def effective(self) -> Floats:
        """The number of equally weighted edits (n,) that estimate a mean as precisely (Kish)."""
        return np.asarray(1 / np.maximum((self.weight**2).sum(axis=1), 1e-12))


Score = Callable[[Floats], Floats]
Decide = Callable[[Floats], Ints]


def balanced_edits(
    rows: Floats, own: Ints, draws: Sequence[Draw], each: Sequence[int], score: Score, decide: Decide
) -> list[Edits]:
    """For each draw, up to `each` edits of a row that change its decision `own` (n,), and up to as many that do not.
    `score` maps encoded rows to scores, `decide` the scores (n, m, classes) to decisions (n, m)."""
    return [_balanced(rows, own, draw, count, score, decide) for draw, count in zip(draws, each, strict=True)]


def _balanced(rows: Floats, own: Ints, draw: Draw, each: int, score: Score, decide: Decide) -> Edits:
    edits = draw.applied(rows)
    n, many, d = edits.shape
    scores = score(edits.reshape(-1, d)).reshape(n, many, -1)
    decided = decide(scores)
    changes = decided != own[:, None]
    same = (edits == rows[:, None]).all(axis=2)
    places, weights = [], []
    for kind in (changes, ~changes & ~same):
        place = np.argsort(~kind, axis=1, kind="stable")[:, :each]
        present = np.take_along_axis(kind, place, axis=1)
        places.append(place)
        weights.append(present * 0.5 / np.maximum(present.sum(axis=1, keepdims=True), 1))
    place, weight = np.concatenate(places, axis=1), np.concatenate(weights, axis=1)
    return Edits(
        np.take_along_axis(edits, place[:, :, None], axis=1),
        np.take_along_axis(scores, place[:, :, None], axis=1),
        np.take_along_axis(decided, place, axis=1),
        weight,
    )
