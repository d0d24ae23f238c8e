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
    if len(left) == 0:
        most = int(counts.max()) if n else 1
        return points[:, :most], scores[:, :most]
    others = scores_along(net, rows[left], column[left], low[left], high[left], 4 * room)
    wide = max(room, others[0].shape[1])
    points = np.pad(points, ((0, 0), (0, wide - room)), mode="edge")
    scores = np.pad(scores, ((0, 0), (0, wide - room), (0, 0)), mode="edge")
    points[left] = np.pad(others[0], ((0, 0), (0, wide - others[0].shape[1])), mode="edge")
    scores[left] = np.pad(others[1], ((0, 0), (0, wide - others[1].shape[1]), (0, 0)), mode="edge")
    return points, scores
