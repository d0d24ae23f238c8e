"""What counts as an answer, in compiled code: functionals of the sums of trees, and margins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, compiled, inlined

DROPPED, ACCEPTED, IN_DOUBT, DIVIDED = 0, 1, 2, 3
"""What becomes of a cell, or of a node of the search: it is sure not to be an answer, sure to be one, or the model has
to be asked; or it has parts of which that differs."""


class Aims(NamedTuple):
    """What counts as an answer for each of n rows: Q functionals of the sums. A row reaches the goal if all functionals
    of one of its groups do."""

    functional: Floats  # (A, Q, k) for each of A kinds of rows
    kind: Ints  # (n,)
    constant: Floats  # (n, Q)
    needed: Floats  # (n, Q) a value from which on the model is sure to agree,
    excluded: Floats  # (n, Q) and one below which it is sure not to
    groups: Ints  # (G + 1,) where the functionals of each group begin
    winner: Ints  # (A, G) the class that a group is about
    odds: float  # the logit of its least probability, by the softmax of the sums; -inf if the functionals say it all,
    unlikely: float  # and one below which it is sure not to be as probable
    contested: (
        bool  # whether the functionals compare with the original class alone, and the winner leads all others too
    )
    own: Ints  # (A,) the original class,
    weight: Floats  # (k,) by what its sum is multiplied and what is taken off it,
    shift: Floats  # (k,) before the class is compared,
    ahead: float  # a lead from which on the model is sure to decide for a class,
    behind: float  # and one below which it is sure not to


@compiled
def lead_of(aims: Aims, winner: int, sums: Floats) -> float:
    """By how much a class leads all others."""
    best = -np.inf
    for c in range(len(sums)):
        if c != winner:
            best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
    return aims.weight[winner] * sums[winner] - aims.shift[winner] - best


@compiled
def logit_of(winner: int, sums: Floats) -> float:
    """The logit of the probability of a class, by the softmax of the sums."""
    top, total = -np.inf, 0.0
    for c in range(len(sums)):
        if c != winner:
            top = max(top, sums[c])
    for c in range(len(sums)):
        if c != winner:
            total += np.exp(sums[c] - top)
    return sums[winner] - top - np.log(total)


@compiled
def margin_of(aims: Aims, i: int, group: int, sums: Floats) -> float:
    """By how much the sums of row i exceed what is needed for a group: the least of its functionals."""
    kind, least = aims.kind[i], np.inf
    for q in range(aims.groups[group], aims.groups[group + 1]):
        value = aims.constant[i, q] - aims.needed[i, q]
        for c in range(len(sums)):
            value += aims.functional[kind, q, c] * sums[c]
        least = min(least, value)
    if aims.odds > -np.inf:
        least = min(least, logit_of(aims.winner[kind, group], sums) - aims.odds)
    if aims.contested:
        least = min(least, lead_of(aims, aims.winner[kind, group], sums) - aims.ahead)
    return least


@compiled
def reaches(aims: Aims, i: int, sums: Floats) -> bool:
    """Whether the model is sure to decide about sums of row i as was asked for."""
    best = -np.inf
    for group in range(len(aims.groups) - 1):
        best = max(best, margin_of(aims, i, group, sums))
    return best >= 0.0


@compiled
def may_reach(aims: Aims, i: int, sums: Floats, error: float) -> bool:
    """False only if sums that differ from these by rounding, within such an error, are sure not to reach the goal."""
    kind = aims.kind[i]
    if aims.contested:  # some class has to lead the original one
        own, best = aims.own[kind], -np.inf
        for c in range(len(sums)):
            if c != own:
                best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
        return best - (aims.weight[own] * sums[own] - aims.shift[own]) >= aims.behind - error
    for group in range(len(aims.groups) - 1):
        reached = True
        for q in range(aims.groups[group], aims.groups[group + 1]):
            value = aims.constant[i, q]
            for c in range(len(sums)):
                value += aims.functional[kind, q, c] * sums[c]
            reached = reached and value >= aims.excluded[i, q] - error
        if reached:
            return True
    return False


@compiled
def verdict_of(aims: Aims, i: int, sums: Floats) -> int:
    """Whether the model is sure to decide about sums of row i as was asked for, sure not to, or has to be asked."""
    kind, verdict = aims.kind[i], DROPPED
    for group in range(len(aims.groups) - 1):
        here, winner = ACCEPTED, aims.winner[kind, group]
        for q in range(aims.groups[group], aims.groups[group + 1]):
            value = aims.constant[i, q]
            for c in range(len(sums)):
                value += aims.functional[kind, q, c] * sums[c]
            here = worse(here, value, aims.needed[i, q], aims.excluded[i, q])
        if aims.odds > -np.inf and here != DROPPED:
            here = worse(here, logit_of(winner, sums), aims.odds, aims.unlikely)
        if aims.contested and here != DROPPED:
            here = worse(here, lead_over_others(aims, winner, aims.own[kind], sums), aims.ahead, aims.behind)
        if here == ACCEPTED:
            return ACCEPTED
        if here == IN_DOUBT:
            verdict = IN_DOUBT
    return verdict


@inlined
def lead_over_others(aims: Aims, winner: int, own: int, sums: Floats) -> float:
    """By how much a class leads all others but the original one."""
    best = -np.inf
    for c in range(len(sums)):
        if c not in (winner, own):
            best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
    return aims.weight[winner] * sums[winner] - aims.shift[winner] - best


@inlined
def worse(verdict: int, value: float, needed: float, excluded: float) -> int:
    """A verdict that one more value has to bear out."""
    if verdict == DROPPED or value < excluded:
        return DROPPED
    return verdict if value >= needed else IN_DOUBT
