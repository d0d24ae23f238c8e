"""The sums of tree ensembles along whole lines, one per row, in compiled code: both ends of every step."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.profiles import joined_lines
from grace.methods.compiled.threads import over_rows
from grace.methods.trees.steps import Steps, staircase, steps_arrays
from grace.models.compiled import Floats, Ints, compiled
from grace.models.trees.compiled import Trees

ROOM = 128  # points of a line, to begin with


@compiled
def follow_rows(
    trees: Trees, rows: Floats, column: Ints, low: Floats, high: Floats, begin: int, end: int, points: Floats,
    sums: Floats, counts: Ints, work: Steps,
) -> None:  # fmt: skip
    """Follow one number (n,) of each row from `low` to `high`. Writes both ends (n, P) of every step in rising order,
    and twice the row's own value, the last repeated; the sums (n, P, k) there, and how many points there are, or -1 for
    a line without room for all."""
    most, k = points.shape[1], sums.shape[2]
    for i in range(begin, end):
        x, at = rows[i, column[i]], 0
        steps = staircase(trees, rows[i], column[i], low[i], high[i], work)
        counts[i] = -1
        if 2 * steps + 2 > most:
            continue
        for p in range(steps):
            first = work.start[p]
            last = np.nextafter(work.start[p + 1], -np.inf) if p + 1 < steps else high[i]
            within = first <= x and x <= last
            for place in range(4 if within else 2):
                points[i, at] = first if place == 0 else (x if within and place < 3 else last)
                for c in range(k):
                    sums[i, at, c] = work.sums[p, c]
                at += 1
        counts[i] = at
        for p in range(at, most):
            points[i, p] = points[i, at - 1]
            for c in range(k):
                sums[i, p, c] = sums[i, at - 1, c]


def sums_along(
    trees: Trees, rows: Floats, column: Ints, low: Floats, high: Floats, room: int = ROOM
) -> tuple[Floats, Floats]:
    """The ends (n, P) of the steps of one number (n,) of each row between two values, and the sums (n, P, k) there.
    Lines with more steps than there is room for get more room."""
    n, k = len(rows), len(trees.base)
    points, sums, counts = np.empty((n, room)), np.empty((n, room, k)), np.empty(n, dtype=np.int64)

    def follow(begin: int, end: int, work: Steps) -> None:
        follow_rows(trees, rows, column, low, high, begin, end, points, sums, counts, work)

    over_rows(n, follow, lambda: steps_arrays(trees))
    left = np.flatnonzero(counts < 0)
    others = sums_along(trees, rows[left], column[left], low[left], high[left], 4 * room) if len(left) else None
    return joined_lines(points, sums, counts, others)
