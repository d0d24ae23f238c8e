"""Runs of values of one number that reach the goal, in compiled code: how wide they are, which of them is taken, and
where in it an answer stands. What is steady is said in `methods.steady`."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, said_within
from grace.methods.steady import STEADY, WHOLE
from grace.models.compiled import compiled

Run = tuple[float, float, float, float]
"""The ends of a run as distances from the row's value, the nearer first; its width, 1 for one that is just steady and
-inf if there is none; and the width of the run around the value that the answer has, -inf if there is none."""


@compiled
def wholes_needed(x: float, low: float, high: float) -> float:
    """How many whole numbers a steady run has: two, if as many follow each other on one side of x within its range."""
    above = np.floor(high) - max(np.ceil(low), np.floor(x) + 1.0) + 1.0
    below = min(np.floor(high), np.ceil(x) - 1.0) - np.ceil(low) + 1.0
    return max(1.0, min(WHOLE, max(above, below)))


@compiled
def width_of(columns: Columns, j: int, low: float, high: float, wholes: float) -> float:
    """How wide a run is, in terms of what is steady."""
    if columns.whole[j]:
        return (np.floor(high + 1e-9) - np.ceil(low - 1e-9) + 1.0) / wholes
    return (high - low) / (STEADY * columns.spread[j])


@compiled
def better_run(
    columns: Columns, j: int, x: float, direction: float, since: float, until: float, begin: float, wholes: float,
    at: float, best: Run,
) -> Run:  # fmt: skip
    """The better of the best run so far and another one, of which values nearer than `begin` may not be taken: the
    nearest that is steady, else the widest. A run that goes on to x is none. `at` is where the answer is,
    and `wholes` how many whole numbers are steady."""
    near, far, width, own = best
    first = max(since, begin)
    if not since > 0.0 or until < first:
        return best
    one, two = x + direction * first, x + direction * until
    wide = width_of(columns, j, min(one, two), max(one, two), wholes)
    if columns.whole[j] and not wide > 0.0:
        return best
    slack = 1e-9 * columns.spread[j]
    if at >= first - slack and at <= until + slack:
        own = wide
    if (wide >= 1.0 and (width < 1.0 or first < near)) or (wide < 1.0 and wide > width):
        near, far, width = first, until, wide
    return near, far, width, own


@compiled
def inside_run(columns: Columns, j: int, x: float, direction: float, near: float, far: float, share: float) -> float:
    """A value that can be said, a share of a run inside it, as seen from x; nearer if there is none. NaN if there is
    none at all."""
    end = x + direction * far
    value = said_within(columns, j, x, x + direction * (near + share * (far - near)), end)
    return said_within(columns, j, x, x + direction * near, end) if np.isnan(value) else value


@compiled
def is_wider(wide: float, cost: float, width: float, least: float) -> bool:
    """Whether an answer with a width and a cost is better than another one: steady, or wider where both are spikes, and
    of equal ones the nearer."""
    wide, width = min(wide, 1.0), min(width, 1.0)
    if wide > width * (1.0 + 1e-9):
        return True
    return wide >= width * (1.0 - 1e-9) and cost < least * (1.0 - 1e-9)
