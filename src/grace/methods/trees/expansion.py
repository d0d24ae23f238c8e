"""The nodes that replace one with further changes left, in compiled code: one more feature moves in each."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.methods.trees.regions import LIMIT, OPEN
from grace.methods.trees.search_nodes import PICKED, Search, push
from grace.methods.trees.slots import insert, with_slot
from grace.models.compiled import inlined, sort_by


@inlined
def expand(
    columns: Columns, table: Table, i: int, count: int, left: int, cost: float, group: int, room: float, s: Search
) -> None:  # fmt: skip
    """Nodes for each next feature and side on which it could still reach the goal, `room` being what the moved ones
    leave. Features are taken in the order of what they bring, and each excludes those before it, so that every set of
    features is met once. One that does not reach the goal even with the best of the others is excluded altogether."""
    r, few = s.region, order_of_features(cost, s)
    best = 0.0
    for place in range(min(left - 1, few)):
        best += s.of_feature[s.order[place]]
    for place in range(few):
        f = s.order[place]
        s.parent_closed[f >> 6] |= np.int64(1) << (f & 63)
    while few > left and room + best + s.of_feature[s.order[few - 1]] < 0.0:
        few -= 1
        s.of_feature[s.order[few]] = 0.0
    s.state[PICKED] = 0
    for back in range(few):
        place = few - 1 - back
        f, others = s.order[place], 0.0
        s.parent_closed[f >> 6] &= ~(np.int64(1) << (f & 63))
        for p in range(place + 1, min(place + left, few)):
            others += s.of_feature[s.order[p]]
        if room + s.of_feature[f] + others >= 0.0:
            push_sides(columns, table, i, f, place, few, count, left, cost, group, room, others, s)
    for place in range(few):
        s.of_feature[s.order[place]] = 0.0
    if left == 1:  # the nearest slot on top
        sort_by(r.slot_cost, -1.0, s.chosen, s.state[PICKED])
        for at in range(s.state[PICKED]):
            slot = s.chosen[at]
            push_slots(columns, table, i, r.slot_feature[slot], slot, slot, count, 0, cost, group, s)


@inlined
def order_of_features(cost: float, s: Search) -> int:
    """The open features that can be afforded, in the order of the most that each brings, which is left in
    `of_feature`; returns how many there are. Those that cannot be afforded are closed."""
    r, few = s.region, 0
    for f in range(len(r.status)):
        if r.status[f] != OPEN:
            continue
        most = -1.0
        for slot in range(r.slots[f], r.slots[f + 1]):
            if with_slot(cost, slot, r) < r.costs[LIMIT]:
                most = max(most, s.gain[slot])
        if most >= 0.0:
            s.of_feature[f], s.order[few] = most, f
            few += 1
        else:
            s.parent_closed[f >> 6] |= np.int64(1) << (f & 63)
    sort_by(s.of_feature, -1.0, s.order, few)
    return few


@inlined
def push_sides(
    columns: Columns, table: Table, i: int, f: int, place: int, few: int, count: int, left: int, cost: float,
    group: int, room: float, others: float, s: Search,
) -> None:  # fmt: skip
    """The nodes in which one more feature moves, on either side, where it could still reach the goal with the features
    after it. If no more may move, its slots are picked instead."""
    r, x, first, last = s.region, table.rows[i, f], -1, -1
    for slot in range(r.slots[f], r.slots[f + 1] + 1):
        ends = slot == r.slots[f + 1]
        passes = not ends and room + s.gain[slot] + others >= 0.0 and with_slot(cost, slot, r) < r.costs[LIMIT]
        if passes and left > 1 and r.costs[LIMIT] < np.inf:
            passes = room + s.gain[slot] + affordable(place, few, left - 1, with_slot(cost, slot, r), s) >= 0.0
        if left == 1:
            if passes:
                s.chosen[s.state[PICKED]] = slot
                s.state[PICKED] += 1
            continue
        if first >= 0 and (ends or (r.slot_low[slot] > x and r.slot_low[first] < x)):  # the end of a side
            push_slots(columns, table, i, f, first, last, count, left - 1, cost, group, s)
            first = -1
        if passes:
            first, last = slot if first < 0 else first, slot


@inlined
def affordable(place: int, few: int, more: int, spent: float, s: Search) -> float:
    """The most that so many features after a place in the order bring, each in a slot that can be afforded."""
    r = s.region
    for p in range(more):
        s.key[p] = 0.0
    for after in range(place + 1, few):
        f, most = s.order[after], 0.0
        if s.of_feature[f] <= s.key[more - 1]:
            break
        for slot in range(r.slots[f], r.slots[f + 1]):
            if s.gain[slot] > most and with_slot(spent, slot, r) < r.costs[LIMIT]:
                most = s.gain[slot]
        insert(most, more, s.key)
    total = 0.0
    for p in range(more):
        total += s.key[p]
    return total


@inlined
def push_slots(
    columns: Columns, table: Table, i: int, f: int, first: int, last: int, count: int, left: int, cost: float,
    group: int, s: Search,
) -> None:  # fmt: skip
    """The nodes in which a feature moves within neighbouring slots; of a category, one for each code."""
    r, x = s.region, table.rows[i, f]
    if columns.begins[f + 1] > columns.begins[f]:
        for c in range(columns.begins[f], columns.begins[f + 1]):
            code = columns.choices[c]
            if code != x and table.low[i, f] <= code and code <= table.high[i, f]:
                push(columns, count, f, code, code, left, cost, group, x, s)
    else:
        push(columns, count, f, r.slot_low[first], r.slot_high[last], left, cost, group, x, s)
