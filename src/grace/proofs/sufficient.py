"""Sufficient reasons: features whose values entail a prediction, whatever the other features are within the domain.

Features are released one after another, those with the smallest effect first, as long as it is proven that no values of
all released features together flip the prediction. First the longest run of them that can be released is found by
bisection. A counterexample shows for good that a feature has to stay, since it remains one if more are released. So no
feature can be left out of the result, but for those that stay because neither was found in time.

The smallest set is found by implicit hitting sets (Ignatiev et al., "Smallest MUS extraction with minimal hitting set
dualization", 2015): every counterexample changes some feature of any sufficient set. A smallest set that contains a
feature of each is a lower bound, and if it is sufficient itself, the smallest one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from grace.models.compiled import Floats
from grace.problem.cancellation import check_cancelled
from grace.proofs.sets import SetProver
from grace.proofs.verdicts import FOUND, OPEN, PROVEN

SHARE = 4.0  # times an equal share of the time left, which a question may take


@dataclass(frozen=True)
class SufficientSet:
    """The features that stay, those with the largest effect first; `undecided` are those of which it is not known
    whether they could be released, too. `smallest` if no fewer features are sufficient."""

    kept: tuple[int, ...]
    undecided: tuple[int, ...]
    smallest: bool = False

    @property
    def minimal(self) -> bool:
        return not self.undecided


def sufficient_set(
    prover: SetProver, i: int, features: Sequence[int], seconds: float, smallest: bool = False
) -> SufficientSet:
    """A sufficient set of the features of row i that may change, which are sorted by rising effect, within some seconds
    of work; the smallest one on request, if time permits."""
    return _Release(prover, i, tuple(features), time.thread_time() + seconds).run(smallest)


class _Release:
    def __init__(self, prover: SetProver, i: int, features: tuple[int, ...], until: float) -> None:
        self.prover, self.i, self.features, self.until = prover, i, features, until
        self.row = prover.table.rows[i]
        self.counterexamples: list[frozenset[int]] = []

    def run(self, smallest: bool) -> SufficientSet:
        found = self._minimal()
        if not smallest or found.undecided:
            return found
        fewest = self._smallest(len(found.kept))
        if fewest is None:
            return found
        kept = tuple(j for j in reversed(self.features) if j in fewest)
        return SufficientSet(kept, (), smallest=True) if len(kept) < len(found.kept) else replace(found, smallest=True)

    def _minimal(self) -> SufficientSet:
        alone = [j for j in self.features if self._ask([j], len(self.features))[0] == FOUND]
        rest = [j for j in self.features if j not in alone]
        low, high = 0, len(rest) + 1  # the first `low` can be released, the first `high` not
        while high - low > 1:
            middle = len(rest) if low == 0 and high > len(rest) else (low + high) // 2
            if self._ask(rest[:middle], len(rest))[0] == PROVEN:
                low = middle
            else:
                high = middle
        released, undecided = rest[:low], []
        for place, j in enumerate(rest[low:]):
            status = self._ask([*released, j], len(rest) - low - place)[0]
            if status == PROVEN:
                released.append(j)
            elif status == OPEN:
                undecided.append(j)
        kept = tuple(j for j in reversed(self.features) if j not in released)
        return SufficientSet(kept, tuple(undecided))

    def _smallest(self, most: int) -> frozenset[int] | None:
        """The smallest sufficient set; None if the time does not suffice. One with `most` features is known."""
        while True:
            check_cancelled()
            guess = hitting_set(self.features, self.counterexamples)
            if len(guess) >= most:
                return guess
            status, _ = self._ask([j for j in self.features if j not in guess], 1)
            if status == PROVEN:
                return guess
            if status == OPEN:
                return None
            self._reduce()

    def _reduce(self) -> None:
        """Release of the features of the last counterexample as few as still give one: it then says more."""
        changed = set(self.counterexamples[-1])
        for j in sorted(changed):
            if len(changed) > 1 and self._ask(sorted(changed - {j}), len(changed), note=False)[0] == FOUND:
                changed = set(self.last)
        self.counterexamples[-1] = frozenset(changed)

    def _ask(self, released: Sequence[int], questions: int, note: bool = True) -> tuple[int, Floats | None]:
        """Whether values of the released features flip the prediction, of which a counterexample may be known already;
        so many questions share the time left."""
        if not released:
            return PROVEN, None
        known = next((c for c in self.counterexamples if c <= set(released)), None) if note else None
        if known is not None:
            self.last = known
            return FOUND, None
        left = self.until - time.thread_time()
        if left <= 0:
            return OPEN, None
        free = np.zeros(len(self.row), dtype=bool)
        free[list(released)] = True
        status, row = self.prover.decide(self.i, free, len(released), left * min(1.0, SHARE / questions))
        if status == FOUND and row is not None:
            self.last = frozenset(np.flatnonzero(row != self.row).tolist())
            if note:
                self.counterexamples.append(self.last)
        return status, row


def hitting_set(features: Sequence[int], sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """A smallest set of features that contains one of each set."""
    place = {j: n for n, j in enumerate(features)}
    rows = [[float(j in s) for j in features] for s in sets]
    if not rows:
        return frozenset()
    found = milp(
        np.ones(len(place)), constraints=LinearConstraint(np.array(rows), lb=1), integrality=1, bounds=Bounds(0, 1)
    )
    return frozenset(j for j, n in place.items() if found.x[n] > 0.5)
