"""Goals in compiled code: margins of scores, and where a piece on which scores are linear reaches the goal.

Two classes are one score, the lead of the second, and a goal about it is a range, as it is for a predicted number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, compiled, embedded, inlined

RANGE, FLIP, AGAINST = 0, 1, 2
BISECTIONS = 60


class CompiledGoal(NamedTuple):
    """What counts as an answer for each of n rows."""

    kind: int
    target: Ints  # (n,) the class to leave (FLIP) or to reach (AGAINST)
    low: Floats  # (n,) of a RANGE
    high: Floats
    scale: float  # margins of a RANGE are in units of it
    odds: float  # the logit of the least probability of the winner; -inf if none is asked for
    shift: Floats  # (classes,) what probabilities add to the scores
    required: Any = ()  # what else is required; see `required.Required`


@embedded
def margin_at(goal: CompiledGoal, i: int, scores: Floats, at: int, classes: int) -> float:
    """The margin of the scores of row i that begin at a place: the best of the classes that count as an answer."""
    if goal.kind == RANGE:
        return min(scores[at] - goal.low[i], goal.high[i] - scores[at]) / goal.scale
    target, best = goal.target[i], -np.inf
    if goal.kind == AGAINST:
        return margin_of_class(goal.odds, goal.shift, target, scores, at, classes)
    if goal.odds == -np.inf:  # the best of the other classes leads by most
        first = second = -np.inf
        for k in range(classes):
            if k != target:
                score = scores[at + k]
                second = max(second, min(first, score))
                first = max(first, score)
        return first - max(second, scores[at + target])
    for k in range(classes):
        if k != target:
            best = max(best, margin_of_class(goal.odds, goal.shift, k, scores, at, classes))
    return best


@compiled
def margin_of_class(odds: float, shift: Floats, k: int, scores: Floats, at: int, classes: int) -> float:
    """By how much class k leads, or its probability exceeds the least one, in logits, if that is less."""
    rival = -np.inf
    for c in range(classes):
        if c != k:
            rival = max(rival, scores[at + c])
    lead = scores[at + k] - rival
    if odds == -np.inf:
        return lead
    top = -np.inf
    for c in range(classes):
        if c != k:
            top = max(top, scores[at + c] + shift[c])
    total = 0.0
    for c in range(classes):
        if c != k:
            total += np.exp(scores[at + c] + shift[c] - top)
    return min(lead, scores[at + k] + shift[k] - top - np.log(total) - odds)


@compiled
def margin_towards(goal: CompiledGoal, i: int, k: int, scores: Floats, at: int, classes: int) -> float:
    """The margin of class k, or of the range."""
    if goal.kind == RANGE:
        return margin_at(goal, i, scores, at, classes)
    return margin_of_class(goal.odds, goal.shift, k, scores, at, classes)


@compiled
def slope_of_margin(goal: CompiledGoal, i: int, k: int, scores: Floats, slope: Floats) -> None:
    """The gradient (classes,) of `margin_towards` in the scores (classes,)."""
    if goal.kind == RANGE:
        rises = scores[0] - goal.low[i] <= goal.high[i] - scores[0]
        slope[0] = (1.0 if rises else -1.0) / goal.scale
        return
    rival, top, total = -1, -np.inf, 0.0
    for c in range(len(scores)):
        slope[c] = 0.0
        if c != k:
            top = max(top, scores[c] + goal.shift[c])
            if rival < 0 or scores[c] > scores[rival]:
                rival = c
    slope[k], slope[rival] = 1.0, -1.0
    if goal.odds == -np.inf:
        return
    for c in range(len(scores)):
        if c != k:
            total += np.exp(scores[c] + goal.shift[c] - top)
    if scores[k] + goal.shift[k] - top - np.log(total) - goal.odds < scores[k] - scores[rival]:
        for c in range(len(scores)):
            if c != k:
                slope[c] = -np.exp(scores[c] + goal.shift[c] - top) / total


@inlined
def part_of_piece(
    goal: CompiledGoal, i: int, k: int, scores: Floats, piece: int, threshold: float, trial: Floats
) -> tuple[float, float]:
    """The part of a piece, as shares of its length, on which the margin of class k, or of the range, is at least a
    threshold: an interval, since the margin is concave there. The first is above the second if there is none."""
    first, last = 0.0, 1.0
    classes = scores.shape[1]
    if goal.kind == RANGE:
        near, far = scores[piece, 0], scores[piece + 1, 0]
        first, last = clip(first, last, near - goal.low[i] - threshold * goal.scale,
                           far - goal.low[i] - threshold * goal.scale)  # fmt: skip
        return clip(first, last, goal.high[i] - near - threshold * goal.scale,
                    goal.high[i] - far - threshold * goal.scale)  # fmt: skip
    for c in range(classes):
        if c != k:
            near = scores[piece, k] - scores[piece, c] - threshold
            far = scores[piece + 1, k] - scores[piece + 1, c] - threshold
            first, last = clip(first, last, near, far)
            if first > last:
                return 1.0, 0.0
    if goal.odds == -np.inf:
        return first, last
    return confident_part(goal, k, scores, piece, threshold, trial, first, last)


@compiled
def clip(first: float, last: float, near: float, far: float) -> tuple[float, float]:
    """The part of an interval on which a line from `near` at 0 to `far` at 1 is not negative."""
    if near < 0.0 and not far >= 0.0:
        return 1.0, 0.0
    if near < 0.0:
        first = max(first, min(1.0, near / (near - far)))
    elif far < 0.0:
        last = min(last, near / (near - far))
    return first, last


@compiled
def margin_within(goal: CompiledGoal, k: int, scores: Floats, piece: int, share: float, trial: Floats) -> float:
    """The margin of class k at a share of a piece."""
    classes = scores.shape[1]
    for c in range(classes):
        trial[c] = scores[piece, c] + share * (scores[piece + 1, c] - scores[piece, c])
    return margin_of_class(goal.odds, goal.shift, k, trial, 0, classes)


@compiled
def confident_part(
    goal: CompiledGoal, k: int, scores: Floats, piece: int, threshold: float, trial: Floats, first: float, last: float
) -> tuple[float, float]:
    """The part of an interval on which the probability of class k suffices: ternary search for the top of a concave
    function, then bisection to both sides."""
    low, high = first, last
    for _ in range(BISECTIONS):
        third = (high - low) / 3.0
        left, right = low + third, high - third
        if margin_within(goal, k, scores, piece, left, trial) < margin_within(goal, k, scores, piece, right, trial):
            low = left
        else:
            high = right
    top = first
    for share in (last, 0.5 * (low + high)):
        if margin_within(goal, k, scores, piece, share, trial) > margin_within(goal, k, scores, piece, top, trial):
            top = share
    if margin_within(goal, k, scores, piece, top, trial) < threshold:
        return 1.0, 0.0
    return (
        border(goal, k, scores, piece, threshold, trial, top, first),
        border(goal, k, scores, piece, threshold, trial, top, last),
    )


@compiled
def border(
    goal: CompiledGoal, k: int, scores: Floats, piece: int, threshold: float, trial: Floats, inside: float, end: float
) -> float:
    """The last share from `inside` towards `end` at which the margin is at least a threshold."""
    if margin_within(goal, k, scores, piece, end, trial) >= threshold:
        return end
    outside = end
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        if margin_within(goal, k, scores, piece, middle, trial) >= threshold:
            inside = middle
        else:
            outside = middle
    return inside


@inlined
def may_reach(goal: CompiledGoal, i: int, scores: Floats, margins: Floats, piece: int, threshold: float) -> bool:
    """False only if the margin is below a threshold all over a piece, at whose ends the margins are given. That of a
    range with one end is linear; between classes, no class that counts leads the class to leave, or the class to reach
    does not lead some other: their differences are linear."""
    if goal.kind == RANGE:
        two_sided = goal.low[i] > -np.inf and goal.high[i] < np.inf
        return two_sided or max(margins[piece], margins[piece + 1]) >= threshold
    target = goal.target[i]
    for c in range(scores.shape[1]):
        if c != target:
            near = scores[piece, c] - scores[piece, target]
            far = scores[piece + 1, c] - scores[piece + 1, target]
            if goal.kind == FLIP and max(near, far) >= threshold:
                return True
            if goal.kind == AGAINST and min(near, far) > -threshold:
                return False
    return goal.kind == AGAINST


@inlined
def largest_margin(goal: CompiledGoal, i: int, near: Floats, far: Floats, above: Floats, below: Floats) -> float:
    """A bound on the margin of row i along a line with these scores at its ends, between which each score, or its lead
    over that of the target, lies no farther above and below its chord than that."""
    if goal.kind == RANGE:
        high, low = max(near[0], far[0]) + above[0], min(near[0], far[0]) - below[0]
        return min(high - goal.low[i], goal.high[i] - low) / goal.scale
    target, best = goal.target[i], -np.inf if goal.kind == FLIP else np.inf
    for c in range(len(above)):
        if c != target:
            one, two = near[c] - near[target], far[c] - far[target]
            best = max(best, max(one, two) + above[c]) if goal.kind == FLIP else min(best, below[c] - min(one, two))
    return best
