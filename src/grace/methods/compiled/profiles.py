"""The scores of ReLU networks along whole lines, one per row, in compiled code: every breakpoint within a range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.threads import over_rows
from grace.models.compiled import Floats, Ints, Layers, activate, compiled
from grace.models.compiled_lines import Scratch, scratch, walk

ROOM = 64  # breakpoints of a line, to begin with


class FollowWork(NamedTuple):
    """Arrays to work with, one set per thread."""

    start: Floats  # (units,)
    places: Floats  # (P,)
    scores: Floats  # (P, classes)
    scratch: Scratch


@compiled
def follow_rows(
    net: Layers, rows: Floats, column: Ints, low: Floats, high: Floats, begin: int, end: int, points: Floats,
    scores: Floats, counts: Ints, work: FollowWork,
) -> None:  # fmt: skip
    """Follow one numeric feature (n,) of each row from `low` to `high`. Writes the breakpoints (n, P) in rising order,
    among them both ends and the row's own value, the last repeated, the scores (n, P, classes) there, and how many
    points there are; -1 for a line without room for all."""
    classes, most = scores.shape[2], points.shape[1]
    for i in range(begin, end):
        j, count = column[i], 0
        x = rows[i, j]
        activate(net, rows[i], work.start)
        for side in range(2):  # down, to be reversed; then up
            reach = x - low[i] if side == 0 else high[i] - x
            found = 1
            if reach > 0.0:
                sign = -1.0 if side == 0 else 1.0
                found = walk(net, work.start, j, sign, reach, work.places, work.scores, work.scratch, -1)
            if count + found > most or (reach > 0.0 and work.places[found - 1] < reach):
                count = -1
                break
            for p in range(1 if side == 0 else 0, found):
                at = found - 1 - p if side == 0 else count + p
                points[i, at] = x - work.places[p] if side == 0 else x + work.places[p]
                for k in range(classes):
                    scores[i, at, k] = work.scores[p, k]
            if side == 1 and reach <= 0.0:
                points[i, count] = x
                for k in range(classes):
                    scores[i, count, k] = work.start[net.units[len(net.leak)] + k]
            if reach > 0.0:
                points[i, 0 if side == 0 else count + found - 1] = low[i] if side == 0 else high[i]
            count += found - 1 if side == 0 else found
        counts[i] = count
        for p in range(count, most if count > 0 else count):
            points[i, p] = points[i, count - 1]
            for k in range(classes):
                scores[i, p, k] = scores[i, count - 1, k]


def scores_along(
    net: Layers, rows: Floats, column: Ints, low: Floats, high: Floats, room: int = ROOM
) -> tuple[Floats, Floats]:
    """The breakpoints (n, P) of one numeric feature (n,) of each row between two values, and the scores (n, P, classes)
    there, between which they are linear. Lines with more breakpoints than there is room for get more room."""
    n, classes = len(rows), int(net.widths[-1])
    points, scores, counts = np.empty((n, room)), np.empty((n, room, classes)), np.empty(n, dtype=np.int64)

    def follow(begin: int, end: int, work: FollowWork) -> None:
        follow_rows(net, rows, column, low, high, begin, end, points, scores, counts, work)

    over_rows(
        n, follow, lambda: FollowWork(np.empty(net.units[-1]), np.empty(room), np.empty((room, classes)), scratch(net))
    )
    left = np.flatnonzero(counts < 0)
    others = scores_along(net, rows[left], column[left], low[left], high[left], 4 * room) if len(left) else None
    return joined_lines(points, scores, counts, others)


def joined_lines(
    points: Floats, values: Floats, counts: Ints, others: tuple[Floats, Floats] | None
) -> tuple[Floats, Floats]:
    """The points (n, P) of lines and the values (n, P, k) there, as wide as the longest line. `others` are the lines
    without room for all, whose count is -1, with more room; shorter lines repeat their last point."""
    if others is None:
        most = int(counts.max()) if len(counts) else 1
        return points[:, :most], values[:, :most]
    wide, left = max(points.shape[1], others[0].shape[1]), counts < 0
    points, values = (_widened(part, wide) for part in (points, values))
    points[left], values[left] = (_widened(part, wide) for part in others)
    return points, values


def _widened(part: Floats, wide: int) -> Floats:
    """Lines (n, P, ...) with their last point repeated."""
    return np.pad(part, ((0, 0), (0, wide - part.shape[1]), *[(0, 0)] * (part.ndim - 2)), mode="edge")
