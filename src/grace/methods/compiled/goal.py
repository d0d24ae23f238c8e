"""Goals in compiled code: margins of scores, and where a piece on which scores are linear reaches the goal.

Two classes are one score, the lead of the second, and a goal about it is a range, as it is for a predicted number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.required import NOTHING, Required, rooms_of_row
from grace.models.compiled import Floats, Ints, compiled, inlined

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
    required: Required = NOTHING


@compiled
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
def margin_of_values(goal: CompiledGoal, i: int, values: Floats, at: int, classes: int) -> float:
    """The margin of row i, whose scores begin at a place, and of what else is required: the values of the linear
    functions stand after the scores."""
    if not goal.required.used:
        return margin_at(goal, i, values, at, classes)
    rooms = rooms_of_row(goal.required, i, values, at + classes)
    return margin_required(goal, i, values, at, values, rooms)


@compiled
def margin_required(goal: CompiledGoal, i: int, scores: Floats, at: int, rooms: Floats, begin: int) -> float:
    """The margin of the scores of all networks, which begin at a place, and of what else is required, for which `rooms`
    has a number per class and one for the rules from another place on."""
    required, best = goal.required, np.inf
    classes, ruled = len(required.known), rooms[begin + len(required.known)]
    if goal.kind == RANGE:
        for m in range(required.networks):
            score = scores[at + m]
            best = min(best, min(score - required.low[i, m], required.high[i, m] - score) / goal.scale)
        if classes > 0:
            best = min(best, rooms[begin + required.wanted[i]])
        return min(best, ruled)
    target, best = goal.target[i], -np.inf
    for k in range(required.shift.shape[1]):
        if (k != target) == (goal.kind == FLIP):
            margin = margin_in_all(goal, k, scores, at)
            if classes > 0:
                margin = min(margin, rooms[begin + k])
            best = max(best, margin)
    return min(best, ruled)


@compiled
def margin_in_all(goal: CompiledGoal, k: int, scores: Floats, at: int) -> float:
    """The least margin of class k in any network."""
    least, shift = np.inf, goal.required.shift
    classes = shift.shape[1]
    for m in range(len(shift)):
        least = min(least, margin_of_class(goal.odds, shift[m], k, scores, at + m * classes, classes))
    return least


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
def part_in_all(
    goal: CompiledGoal, i: int, k: int, scores: Floats, piece: int, threshold: float, trial: Floats
) -> tuple[float, float]:
    """`part_of_piece` for several networks: where the margin is at least a threshold in each of them."""
    required, first, last = goal.required, 0.0, 1.0
    classes = required.shift.shape[1]
    for m in range(required.networks):
        if goal.kind == RANGE:
            near, far, room = scores[piece, m], scores[piece + 1, m], threshold * goal.scale
            first, last = clip(first, last, near - required.low[i, m] - room, far - required.low[i, m] - room)
            first, last = clip(first, last, required.high[i, m] - near - room, required.high[i, m] - far - room)
        for c in range(classes if goal.kind != RANGE else 0):
            if c != k:
                one, two = m * classes + k, m * classes + c
                near = scores[piece, one] - scores[piece, two] - threshold
                far = scores[piece + 1, one] - scores[piece + 1, two] - threshold
                first, last = clip(first, last, near, far)
        if first > last:
            return 1.0, 0.0
    if goal.kind == RANGE or goal.odds == -np.inf:
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
    if goal.required.used:
        return margin_in_all(goal, k, trial, 0)
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


@compiled
def largest_in_all(goal: CompiledGoal, i: int, near: Floats, far: Floats, above: Floats, below: Floats) -> float:
    """`largest_margin` for several networks; rules and ellipsoids only make the margin smaller."""
    required = goal.required
    classes, best = required.shift.shape[1], np.inf
    if goal.kind == RANGE:
        for m in range(required.networks):
            high, low = max(near[m], far[m]) + above[m], min(near[m], far[m]) - below[m]
            best = min(best, min(high - required.low[i, m], required.high[i, m] - low) / goal.scale)
        return best
    target, best = goal.target[i], -np.inf if goal.kind == FLIP else np.inf
    for c in range(classes):
        if c != target:
            least = np.inf
            for m in range(required.networks):
                at, own = m * classes + c, m * classes + target
                one, two = near[at] - near[own], far[at] - far[own]
                least = min(least, max(one, two) + above[at] if goal.kind == FLIP else below[at] - min(one, two))
            best = max(best, least) if goal.kind == FLIP else min(best, least)
    return best
