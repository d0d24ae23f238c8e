"""All minimal sets of features whose change can reach the goal, up to a size, with the proof that there are no others.

Sets grow by one feature at a time. A set that contains a smaller one that suffices is not minimal: features that
suffice alone are left out from then on, pairs that do are in conflict, and sets that contain a larger one are passed
over. What is left is asked about as a whole, whether so many changes to any of its features reach the goal: if not,
which is proven at once, nothing remains to be found. Else some feature of the answer is taken, all sets with it are
decided one by one, and it is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from grace.models.compiled import Bools, Floats
from grace.problem.cancellation import check_cancelled
from grace.proofs.sets import SetProver
from grace.proofs.verdicts import FOUND, OPEN, PROVEN

Alone = Mapping[int, Floats | None]

WHOLE = 0.25  # of the time left: for a question about all features together


@dataclass
class MinimalSets:
    """Sets of positions of features, by size and then position, each with a row that changes them and reaches the goal.
    `complete_to` is the size up to which there are proven to be no others. What is `undecided` was given up."""

    sets: dict[tuple[int, ...], Floats] = field(default_factory=dict)
    undecided: list[tuple[int, ...]] = field(default_factory=list)
    complete_to: int = 0

    def sizes(self, size: int) -> list[tuple[int, ...]]:
        return [s for s in self.sets if len(s) == size]


def minimal_sets(
    prover: SetProver, i: int, free: Bools, max_size: int, seconds: float, alone: Alone | None = None
) -> MinimalSets:
    """The minimal sets of the features `free` (d,) of row i with at most so many features, within some seconds of
    work. `alone` is what is known of single features: a row that flips, or None where that is proven impossible."""
    return _Enumeration(prover, i, free, time.thread_time() + seconds, alone or {}).run(max_size)


class _Enumeration:
    def __init__(self, prover: SetProver, i: int, free: Bools, until: float, alone: Alone) -> None:
        self.prover, self.i, self.until, self.alone = prover, i, until, alone
        self.row = prover.table.rows[i]
        self.left = np.flatnonzero(free).tolist()
        self.conflict = np.zeros((len(free), len(free)), dtype=bool)
        self.found = MinimalSets()

    def run(self, max_size: int) -> MinimalSets:
        for size in range(1, max_size + 1):
            known = len(self.found.undecided)
            if size > len(self.left):
                whole = True
            elif size == 1:
                self.found.sets = {(j,): row for j, row in self.alone.items() if row is not None}
                whole = self._decide_each(combinations([j for j in self.left if j not in self.alone], 1))
            else:
                whole = self._level(size)
            alone = {s[0] for s in self.found.sizes(1)}
            self.left = [j for j in self.left if j not in alone]
            for a, b in self.found.sizes(2):
                self.conflict[a, b] = self.conflict[b, a] = True
            if whole and len(self.found.undecided) == known and self.found.complete_to == size - 1:
                self.found.complete_to = size
            if not whole:
                break
        ordered = sorted((s for s in self.found.sets if not self._contains_known(s)), key=lambda s: (len(s), s))
        self.found.sets = {s: self.found.sets[s] for s in ordered}
        return self.found

    def _contains_known(self, features: Sequence[int]) -> bool:
        """Whether a smaller set that suffices is part of the features."""
        return any(known < set(features) for known in map(set, self.found.sets))

    def _level(self, size: int) -> bool:
        """All minimal sets of a size; whether the time sufficed."""
        left = list(self.left)
        while len(left) >= size:
            check_cancelled()
            status, row = self._ask(left, size, WHOLE * (self.until - time.thread_time()))
            if status == PROVEN:
                return True
            if status == OPEN or row is None:
                return self._decide_each(self._candidates(left, size))
            first = self._key(row, left)
            others = [j for j in left if j != first]
            if not self._decide_each(tuple(sorted((first, *s))) for s in self._candidates(others, size - 1, first)):
                return False
            left = others
        return True

    def _key(self, row: Floats, left: Sequence[int]) -> int:
        """A feature that the row changes; of several, the one that is part of most sets found so far."""
        changed = [j for j in left if row[j] != self.row[j]]
        return max(changed, key=lambda j: (sum(j in s for s in self.found.sets), -j))

    def _candidates(self, left: Sequence[int], size: int, fixed: int | None = None) -> Iterator[tuple[int, ...]]:
        """Sets of a size that contain no set known to suffice, also together with a `fixed` feature."""
        usable = [j for j in left if fixed is None or not self.conflict[j, fixed]]
        larger = [set(s) for s in self.found.sets if len(s) > 2]
        for s in combinations(usable, size):
            if any(self.conflict[a, b] for a, b in combinations(s, 2)):
                continue
            whole = {*s} if fixed is None else {*s, fixed}
            if not any(known < whole for known in larger):
                yield s

    def _decide_each(self, sets: Iterator[tuple[int, ...]]) -> bool:
        """Decide sets one by one; whether the time sufficed."""
        for s in sets:
            left = self.until - time.thread_time()
            if left <= 0:
                return False
            status, row = self._ask(s, len(s), left)
            if status == FOUND and row is not None:
                changed = tuple(j for j in s if row[j] != self.row[j])  # fewer where a smaller set was given up
                self.found.sets.setdefault(changed, row)
                if changed in self.found.undecided:
                    self.found.undecided.remove(changed)
            elif status == OPEN:
                self.found.undecided.append(s)
        return True

    def _ask(self, features: Sequence[int], most: int, seconds: float) -> tuple[int, Floats | None]:
        free = np.zeros(len(self.row), dtype=bool)
        free[list(features)] = True
        return self.prover.decide(self.i, free, most, seconds, self.conflict)
