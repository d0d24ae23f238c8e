"""Minimal sets of features, and smallest hitting sets, by a prover that knows everything."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grace.proofs.certificate import FOUND, OPEN, PROVEN
from grace.proofs.minimal_sets import MinimalSets, minimal_sets
from grace.proofs.sets import SetProver, Verdict
from grace.proofs.sufficient import hitting_set, sufficient_set

D = 6
Family = list[frozenset[int]]
families = st.lists(st.frozensets(st.integers(0, D - 1), min_size=1, max_size=5), max_size=8)


class Known(SetProver):
    """Knows which sets suffice: those that contain one of a family. `open_` sets it gives up, however it is asked."""

    def __init__(self, family: Iterable[frozenset[int]], open_: Iterable[frozenset[int]] = ()) -> None:
        table: Any = SimpleNamespace(
            rows=np.zeros((1, D)), free=np.zeros((1, D), dtype=bool), conflict=np.zeros((D, D), dtype=bool)
        )
        self.table, self.family, self.open = table, list(family), set(open_)

    def _decide(self, i: int, most: int, seconds: float) -> Verdict:
        free = frozenset(np.flatnonzero(self.table.free[i]).tolist())
        if free in self.open:
            return OPEN, None
        for size in range(1, most + 1):
            for s in map(frozenset, combinations(sorted(free), size)):
                clash = any(self.table.conflict[a, b] for a, b in combinations(sorted(s), 2))
                if not clash and any(known <= s for known in self.family):
                    # as many changes as are allowed: an answer need not be minimal
                    extra = [j for j in sorted(free - s) if not self.table.conflict[j, list(s)].any()]
                    row = np.zeros(D)
                    row[[*s, *extra[: max(0, min(most, len(free)) - len(s))]]] = 1.0
                    changed = np.flatnonzero(row).tolist()
                    if any(self.table.conflict[a, b] for a, b in combinations(changed, 2)):
                        row = np.isin(np.arange(D), list(s)).astype(float)
                    return FOUND, row
        return PROVEN, None


def minimal(family: Iterable[frozenset[int]]) -> set[tuple[int, ...]]:
    sets = set(family)
    return {tuple(sorted(s)) for s in sets if not any(t < s for t in sets)}


def found(family: Iterable[frozenset[int]], size: int, **options: Any) -> MinimalSets:
    return minimal_sets(Known(family), 0, np.ones(D, dtype=bool), size, 60.0, **options)


@given(families, st.integers(1, 5))
def test_all_minimal_sets_are_found(family: Family, size: int) -> None:
    known = found(family, size)
    assert set(known.sets) == {s for s in minimal(family) if len(s) <= size}
    assert list(known.sets) == sorted(known.sets, key=lambda s: (len(s), s))
    assert known.complete_to == size
    assert not known.undecided
    for s, row in known.sets.items():
        assert set(np.flatnonzero(row).tolist()) <= set(range(D))
        assert set(s) <= set(np.flatnonzero(row).tolist())


@given(families)
def test_single_features_may_be_known_before(family: Family) -> None:
    alone = {j: np.eye(D)[j] if frozenset([j]) in family else None for j in range(D)}
    assert set(found(family, 3, alone=alone).sets) == set(found(family, 3).sets)


def test_a_set_of_four_contains_no_set_of_three() -> None:
    known = found([frozenset({0, 1, 2}), frozenset({2, 3, 4, 5})], 4)
    assert set(known.sets) == {(0, 1, 2), (2, 3, 4, 5)}
    assert known.complete_to == 4


@given(families, st.frozensets(st.integers(0, D - 1), min_size=1, max_size=3))
def test_what_is_given_up_is_not_complete(family: Family, left: frozenset[int]) -> None:
    prover = Known(family, [left])
    known = minimal_sets(prover, 0, np.ones(D, dtype=bool), 3, 60.0)
    if tuple(sorted(left)) in known.undecided:
        assert known.complete_to < len(left)
    true = minimal(family)
    assert {s for s in true if len(s) <= known.complete_to} <= set(known.sets)
    assert not any(set(s) < set(t) for s in known.sets for t in known.sets)
    assert all(any(set(t) <= set(s) for t in true) for s in known.sets)


def test_without_time_nothing_is_claimed() -> None:
    known = minimal_sets(Known([frozenset({0})]), 0, np.ones(D, dtype=bool), 2, 0.0)
    assert known.complete_to == 0
    assert not known.sets


def is_sufficient(kept: Iterable[int], family: Family) -> bool:
    return all(set(kept) & s for s in family)


@given(families, st.permutations(range(D)))
def test_sufficient_sets_hit_all_and_need_each(family: Family, order: list[int]) -> None:
    known = sufficient_set(Known(family), 0, order, 60.0)
    assert known.minimal
    assert is_sufficient(known.kept, family)
    assert not any(is_sufficient(set(known.kept) - {j}, family) for j in known.kept)
    least = sufficient_set(Known(family), 0, order, 60.0, smallest=True)
    sizes = (n for n in range(D + 1) if any(is_sufficient(s, family) for s in combinations(range(D), n)))
    assert least.smallest
    assert is_sufficient(least.kept, family)
    assert len(least.kept) == next(sizes)


@given(families, families)
def test_undecided_features_stay(family: Family, left: Family) -> None:
    known = sufficient_set(Known(family, left), 0, range(D), 60.0, smallest=True)
    assert is_sufficient(known.kept, family)
    assert set(known.undecided) <= set(known.kept)
    for j in set(known.kept) - set(known.undecided):
        assert not is_sufficient(set(known.kept) - {j}, family)
    if known.smallest:
        assert not any(is_sufficient(s, family) for n in range(len(known.kept)) for s in combinations(range(D), n))


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_time_all_features_stay(seconds: float) -> None:
    known = sufficient_set(Known([]), 0, range(D), seconds)
    assert set(known.kept) == set(known.undecided) == set(range(D))


@given(families)
def test_smallest_hitting_sets(family: Family) -> None:
    hit = hitting_set(range(D), family)
    assert is_sufficient(hit, family)
    assert not any(is_sufficient(s, family) for n in range(len(hit)) for s in combinations(range(D), n))
