"""A tree ensemble along single features, in compiled code: its sums are steps between thresholds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, said_within
from grace.methods.trees.margins import Aims, margin_of, reaches
from grace.methods.trees.rules import limits_by_rules
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined, sort_by
from grace.models.trees.compiled import Trees, add_up, goes_left


class Steps(NamedTuple):
    """Arrays to work with, one set per thread. E is the most thresholds of a feature, and D the depth of the deepest
    tree."""

    start: Floats  # (E + 1,) where each step begins,
    sums: Floats  # (E + 1, k) and its sums
    at: Floats  # (E,) thresholds,
    before: Ints  # (E,) the leaves on both sides of each,
    after: Ints
    order: Ints  # (E,)
    stack: Ints  # (D + 2,)
    low: Floats  # (D + 2,)
    high: Floats  # (D + 2,)
    row: Floats  # (d,)
    trial: Floats  # (k,)
    changed: Bools  # (d,)


def steps_arrays(trees: Trees) -> Steps:
    inner = trees.feature[trees.feature >= 0]
    events = int(np.bincount(inner).max()) if len(inner) else 1
    k, deep = len(trees.base), trees.depth + 2

    def whole(size: int) -> Ints:
        return np.zeros(size, dtype=np.int64)

    return Steps(
        np.zeros(events + 1),
        np.zeros((events + 1, k)),
        np.zeros(events),
        whole(events),
        whole(events),
        whole(events),
        whole(deep),
        np.zeros(deep),
        np.zeros(deep),
        np.zeros(len(trees.missing)),
        np.zeros(k),
        np.zeros(len(trees.missing), dtype=np.bool_),
    )


@compiled
def staircase(trees: Trees, row: Floats, f: int, low: float, high: float, s: Steps) -> int:
    """The sums of a row as number f goes from `low` to `high`: where each step begins, and its sums. Returns how many
    steps there are."""
    found, k = 0, len(trees.base)
    for c in range(k):
        s.sums[0, c] = trees.base[c]
    for t in range(len(trees.roots)):
        top, last = 0, -1
        s.stack[0], s.low[0], s.high[0] = trees.roots[t], low, high
        while top >= 0:
            node, since, until = s.stack[top], s.low[top], s.high[top]
            top -= 1
            j = trees.feature[node]
            if j < 0:
                if last < 0:
                    for c in range(k):
                        s.sums[0, c] += trees.value[node, c]
                else:
                    s.at[found], s.before[found], s.after[found] = since, last, node
                    found += 1
                last = node
            elif j != f:
                top += 1
                s.stack[top] = trees.left[node] if goes_left(trees, node, row[j]) else trees.right[node]
                s.low[top], s.high[top] = since, until
            else:
                at = trees.threshold[node]
                if until >= at:  # the left side comes on top
                    top += 1
                    s.stack[top], s.low[top], s.high[top] = trees.right[node], max(since, at), until
                if since < at:
                    top += 1
                    s.stack[top], s.low[top] = trees.left[node], since
                    s.high[top] = min(until, np.nextafter(at, -np.inf))
    for e in range(found):
        s.order[e] = e
    sort_by(s.at, 1.0, s.order, found)
    count = 1
    s.start[0] = low
    for place in range(found):
        e = s.order[place]
        if s.at[e] > s.start[count - 1]:
            s.start[count] = s.at[e]
            for c in range(k):
                s.sums[count, c] = s.sums[count - 1, c]
            count += 1
        for c in range(k):
            s.sums[count - 1, c] += trees.value[s.after[e], c] - trees.value[s.before[e], c]
    return count


@inlined
def best_step(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, group: int, f: int, s: Steps
) -> tuple[float, float]:
    """The best margin of a group that feature f of the row in `row` can bring, and the nearest value with which it
    does."""
    x, best, value = table.rows[i, f], -np.inf, np.nan
    if columns.begins[f + 1] > columns.begins[f]:
        old = s.row[f]
        for c in range(columns.begins[f], columns.begins[f + 1]):
            code = columns.choices[c]
            if code != x and table.low[i, f] <= code and code <= table.high[i, f]:
                s.row[f] = code
                add_up(trees, s.row, s.trial)
                margin = margin_of(aims, i, group, s.trial)
                if margin > best:
                    best, value = margin, code
        s.row[f] = old
        return best, value
    low, high = limits_by_rules(table, i, s.row, f, table.low[i, f], table.high[i, f])
    count = staircase(trees, s.row, f, low, high, s) if low <= high else 0
    for p in range(count):
        margin = margin_of(aims, i, group, s.sums[p])
        end = np.nextafter(s.start[p + 1], -np.inf) if p + 1 < count else high
        near = min(max(x, s.start[p]), end)
        if columns.whole[f]:
            near = np.ceil(near) if near > x else np.floor(near)
            if near < s.start[p] or near > end:
                continue
        if near == x:
            continue
        closer = margin == best and abs(near - x) < abs(value - x)
        if margin > best or closer:
            best, value = margin, near
    return best, value


@compiled
def descend(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, turn: int, start: int, most: int, tried: Ints,
    s: Steps,
) -> bool:  # fmt: skip
    """Change one feature after another to what brings most, of those that are `tried` (in this order, up to a first
    -1), until the goal is reached, into `row`; for the group that is nearest to the goal, or with `turn` for one of the
    next. The first feature is `start`, unless that is -1. Returns whether the goal is reached."""
    d, chosen = table.rows.shape[1], 0
    for f in range(d):
        s.row[f], s.changed[f] = table.rows[i, f], False
    add_up(trees, s.row, s.trial)
    groups, before = len(aims.groups) - 1, np.inf
    if turn >= groups:
        return False
    for _ in range(turn + 1):  # the next smaller margin
        nearest = -np.inf
        for group in range(groups):
            margin = margin_of(aims, i, group, s.trial)
            if margin > nearest and margin < before:
                nearest, chosen = margin, group
        before = nearest
    for step in range(most):
        top, feature, to = -np.inf, -1, 0.0
        for place in range(len(tried)):
            f = tried[place]
            if f < 0:
                break
            if s.changed[f] or in_conflict(table, f, s.changed) or (step == 0 and start >= 0 and f != start):
                continue
            margin, value = best_step(trees, aims, columns, table, i, chosen, f, s)
            if margin > top:
                top, feature, to = margin, f, value
        if feature < 0:
            return False
        s.row[feature], s.changed[feature] = to, True
        if top >= 0.0:
            return True
    return False


@inlined
def in_conflict(table: Table, f: int, changed: Bools) -> bool:
    """Whether a feature is redundant with one that is changed."""
    conflicts = 0
    for j in range(len(changed)):
        conflicts += changed[j] and table.conflict[j, f]
    return conflicts > 0


@compiled
def settle(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, row: Floats, s: Steps) -> None:
    """Give each changed number of an answer of row i a value of as few digits as the steps around it allow that reach
    the goal."""
    for f in range(len(row)):
        x = table.rows[i, f]
        if row[f] == x or columns.begins[f + 1] > columns.begins[f]:
            continue
        low, high = table.low[i, f], table.high[i, f]
        low, high = (
            (max(low, np.nextafter(x, np.inf)), high) if row[f] > x else (low, min(high, np.nextafter(x, -np.inf)))
        )
        low, high = limits_by_rules(table, i, row, f, low, high)
        if not (row[f] >= low and row[f] <= high):  # by rounding
            continue
        count = staircase(trees, row, f, low, high, s)
        here = 0
        while here + 1 < count and s.start[here + 1] <= row[f]:
            here += 1
        if not reaches(aims, i, s.sums[here]):
            continue
        first, last = here, here
        while first > 0 and reaches(aims, i, s.sums[first - 1]):
            first -= 1
        while last + 1 < count and reaches(aims, i, s.sums[last + 1]):
            last += 1
        since = s.start[first]
        until = np.nextafter(s.start[last + 1], -np.inf) if last + 1 < count else high
        value = said_within(columns, f, x, since if row[f] > x else until, until if row[f] > x else since)
        if value >= since and value <= until:
            row[f] = value
