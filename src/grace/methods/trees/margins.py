"""What counts as an answer, in compiled code: functionals of the sums of trees, and margins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, compiled


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
