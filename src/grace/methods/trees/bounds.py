"""Bounds on what changes of a row can bring in a tree ensemble, in compiled code.

Each feature is FIXED at the row's own value, MOVED to a range of values (or to one category), or OPEN: up to r of the
open ones may move too, anywhere within their limits. Every tree is followed into all leaves that this allows. The sum
of the best leaves that need no open feature, over all trees, bounds what the moved features reach by themselves. What
leaves that need open features would bring beyond that is shared out to the slots (`slots`) of these features from which
they are reached, so that the shares of the features of a leaf add up to at least what it brings: r features, each in
one slot, then bring at most the sum of their shares. Leaves that cost more than the best answer do not count.

Most trees do not split on any of the few features that are moved. What open features bring in such a tree is at most
what they bring in the row itself, which is remembered.
"""

from __future__ import annotations

from grace.methods.trees.leaves import with_one_open, with_open, without_open
from grace.methods.trees.regions import LIMITS, LIVE, MARK, MARKED, SPENT, SPLITS, Region, Terms, terms_of
from grace.methods.trees.slots import add_gain, raise_share
from grace.models.compiled import Floats, compiled, inlined
from grace.models.trees.compiled import Trees


@inlined
def share_out(found: int, more: int, r: Region) -> None:
    """Share what leaves bring out to the features that they need, so that the shares of any slots from which a leaf is
    reached add up to at least what it brings."""
    for n in range(2, more + 1):
        for at in range(found):
            if r.needs[at] != n:
                continue
            lack = r.brings[at]
            for p in range(n):
                lack -= least_share(at, p, r)
            if lack > 0.0:
                for p in range(n):
                    share = least_share(at, p, r) + lack / n
                    for slot in range(r.first[at, p], r.last[at, p] + 1):
                        raise_share(slot, share, r)


@inlined
def least_share(at: int, p: int, r: Region) -> float:
    """The least share of the slots from which a leaf is reached by one of the features that it needs."""
    least = r.share[r.first[at, p]]
    for slot in range(r.first[at, p] + 1, r.last[at, p] + 1):
        least = min(least, r.share[slot])
    return least


@inlined
def shares_of(trees: Trees, t: int, terms: Terms, x: Floats, more: int, base: float, r: Region) -> None:
    """The share of each slot in what up to so many open features bring in a tree beyond `base`."""
    r.counts[MARKED] = 0
    with_one_open(trees, t, terms, x, base, r)
    if more > 1:
        share_out(with_open(trees, t, terms, x, more, base, r), more, r)


@compiled
def bound(
    trees: Trees, functional: Floats, x: Floats, more: int, collect: bool, q: int, r: Region
) -> tuple[float, float]:  # fmt: skip
    """The largest and the smallest value of a functional that needs no open feature, summed over trees; what up to so
    many open features bring beyond is left in `gain`. Trees that do not split on a moved feature are not followed
    again if `remember` was called for as many open features and functional q; q is -1 if it was not."""
    known = q >= 0 and is_held(more, q, r) and r.held[more, q] == r.counts[LIMITS]
    return over_trees(trees, functional, x, more, collect, max(q, 0), known, False, r)


@compiled
def remember(trees: Trees, functional: Floats, x: Floats, more: int, q: int, r: Region) -> None:
    """The bound of the row itself with so many open features, none being moved, of which each tree's part is remembered
    as that of functional q. Where fewer features are open, the shares are not the least possible, and bounds still."""
    r.costs[SPENT] = 0.0
    over_trees(trees, functional, x, more, False, q, False, is_held(more, q, r), r)
    if is_held(more, q, r):
        r.held[more, q] = r.held[0, q] = r.counts[LIMITS]


@inlined
def is_held(more: int, q: int, r: Region) -> bool:
    """Whether there is room to remember the bounds of functional q with so many open features."""
    return more < r.held.shape[0] and q < r.held.shape[1]


@compiled
def over_trees(
    trees: Trees, functional: Floats, x: Floats, more: int, collect: bool, q: int, known: bool, keep: bool, r: Region
) -> tuple[float, float]:  # fmt: skip
    """See `bound`: what is `known` of trees that no moved feature touches is used; with `keep`, all is remembered."""
    largest = 0.0
    for c in range(len(functional)):
        largest += functional[c] * trees.base[c]
    smallest, terms = largest, terms_of(functional)
    for at in range(r.counts[LIVE]):
        r.gain[r.live[at]] = 0.0
    r.counts[SPLITS] = r.counts[LIVE] = 0
    place, room = 0, r.held_slot.shape[2]
    for t in range(len(trees.roots)):
        only = trees.output[t]
        if only >= 0 and functional[only] == 0.0:
            continue
        if known and r.touched[t] != r.counts[MARK] and r.held_begins[more, q, t] <= room:
            largest, smallest = largest + r.value[q, t], smallest + r.value[q, t]
            if more > 0:
                for at in range(r.held_begins[more, q, t], r.held_ends[more, q, t]):
                    add_gain(r.held_slot[more, q, at], r.held_share[more, q, at], r)
            continue
        high, low = without_open(trees, t, terms, x, collect, r)
        largest, smallest = largest + high, smallest + low
        if more > 0:
            shares_of(trees, t, terms, x, more, high, r)
        if keep:
            fits = place + r.counts[MARKED] <= room
            r.value[q, t], r.held_begins[more, q, t] = high, place if fits else room + 1
            if fits:
                for at in range(r.counts[MARKED]):
                    r.held_slot[more, q, place], r.held_share[more, q, place] = r.marked[at], r.share[r.marked[at]]
                    place += 1
            r.held_ends[more, q, t] = place
        if more > 0:
            for at in range(r.counts[MARKED]):
                slot = r.marked[at]
                add_gain(slot, r.share[slot], r)
                r.share[slot] = 0.0
    return largest, smallest
