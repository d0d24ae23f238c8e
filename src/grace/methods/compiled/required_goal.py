"""Goals of several networks at once and of what else is required, in compiled code."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled import goal as plain
from grace.methods.compiled.goal import FLIP, RANGE, CompiledGoal, clip, margin_of_class
from grace.methods.compiled.required import Line, rooms_of_row, rooms_on_line, variant
from grace.models.compiled import Floats, compiled


@compiled
def margin_of_values(goal: CompiledGoal, i: int, values: Floats, at: int, classes: int) -> float:
    """The margin of row i, whose scores begin at a place, and of what else is required: the values of the linear
    functions stand after the scores."""
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
def margin_on_line(goal: CompiledGoal, i: int, scores: Floats, place: float, line: Line) -> float:
    """The margin of the scores at a place on a line, and of what else is required there."""
    rooms_on_line(goal.required, i, place, line)
    return margin_required(goal, i, scores, 0, line.rooms, 0)


@compiled
def margin_in_all(goal: CompiledGoal, k: int, scores: Floats, at: int) -> float:
    """The least margin of class k in any network."""
    least, shift = np.inf, goal.required.shift
    classes = shift.shape[1]
    for m in range(len(shift)):
        least = min(least, margin_of_class(goal.odds, shift[m], k, scores, at + m * classes, classes))
    return least


@compiled
def margin_within(goal: CompiledGoal, k: int, scores: Floats, piece: int, share: float, trial: Floats) -> float:
    """The least margin of class k in any network at a share of a piece."""
    for c in range(scores.shape[1]):
        trial[c] = scores[piece, c] + share * (scores[piece + 1, c] - scores[piece, c])
    return margin_in_all(goal, k, trial, 0)


border = compiled(variant(plain.border, margin_within=margin_within))
confident_part = compiled(variant(plain.confident_part, margin_within=margin_within, border=border))


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
