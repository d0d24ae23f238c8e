"""Slots of open features in compiled code: ranges of values on one side of the row's own, between thresholds.

What a feature can bring is bounded slot by slot, which is less than what it brings anywhere: trees whose best leaves
lie in different slots do not add up. A slot is a cell between two thresholds where a side has few of them, and several
cells otherwise. Values next to the row's own, which no threshold separates from it, bring nothing: they have a slot
only where a rule may need them.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of
from grace.methods.trees.regions import LIMIT, LIVE, MARKED, OPEN, SIDE, SPENT, Region, above, below
from grace.methods.trees.rules import in_rules, is_ruled
from grace.models.compiled import Bools, Floats, compiled, inlined
from grace.models.trees.compiled import Trees


@compiled
def joined(columns: Columns, total: float, cost: float) -> float:
    """A distance to which the cost of one more change is added; of the 2-norm, its square."""
    if columns.norm == 1.0:
        return total + cost
    return total + cost * cost if columns.norm == 2.0 else max(total, cost)


@inlined
def with_slot(total: float, slot: int, r: Region) -> float:
    """The distance to which the least cost of a slot is added."""
    return max(total, r.slot_cost[slot]) if r.farthest[0] else total + r.slot_cost[slot]


@compiled
def make_slots(trees: Trees, columns: Columns, table: Table, i: int, free: Bools, r: Region) -> None:
    """The slots of all features of row i that are free, within their limits."""
    count, x = 0, table.rows[i]
    r.farthest[0] = columns.norm != 1.0 and columns.norm != 2.0
    for f in range(len(x)):
        r.slots[f] = count
        if not free[f]:
            continue
        if columns.begins[f + 1] > columns.begins[f]:
            least = np.inf
            for c in range(columns.begins[f], columns.begins[f + 1]):
                code = columns.choices[c]
                if code != x[f] and table.low[i, f] <= code and code <= table.high[i, f]:
                    least = min(least, cost_of(columns, f, x[f], code))
            if least < np.inf:
                r.slot_low[count], r.slot_high[count], r.slot_feature[count] = -np.inf, np.inf, f
                r.slot_cost[count] = joined(columns, 0.0, least)
                count += 1
            continue
        down, up = below(x[f]), above(x[f])
        if columns.whole[f]:
            down, up = np.ceil(x[f]) - 1.0, np.floor(x[f]) + 1.0
        own = is_ruled(table) and in_rules(table.rules, f)
        count = slots_of_side(trees, columns, f, x[f], r.least[f], min(down, r.most[f]), own, count, r)
        count = slots_of_side(trees, columns, f, x[f], max(up, r.least[f]), r.most[f], own, count, r)
    r.slots[len(x)] = count


@compiled
def slots_of_side(
    trees: Trees, columns: Columns, f: int, x: float, start: float, stop: float, own_too: bool, count: int, r: Region
) -> int:  # fmt: skip
    """The slots of number f from `start` to `stop`, both above or both below x; returns how many slots there are. With
    `own_too`, values next to x have one, as rules may need them."""
    if not start <= stop:
        return count
    begin, end = cut_after(trees, f, start), cut_after(trees, f, stop)
    first, last, own_below = 0, end - begin, False  # cells; whether the row's own is the last one
    if x != trees.missing[f]:
        own = cut_after(trees, f, x)
        if start > x and own == begin:
            if own_too:
                count = add_slot(columns, f, x, start, end_of_cell(trees, begin, end, stop), count, r)
            first += 1
        own_below = stop < x and own == end
        last -= own_below
    cells = last - first + 1
    groups = min(cells, SIDE)
    for g in range(groups):
        one, other = first + g * cells // groups, first + (g + 1) * cells // groups - 1
        low = trees.cuts.threshold[begin + one - 1] if one > 0 else start
        count = add_slot(columns, f, x, low, end_of_cell(trees, begin + other, end, stop), count, r)
    if own_too and own_below:
        low = trees.cuts.threshold[end - 1] if end > begin else start
        count = add_slot(columns, f, x, low, stop, count, r)
    return count


@inlined
def end_of_cell(trees: Trees, cut: int, end: int, stop: float) -> float:
    """The last value below a threshold, or `stop` behind the last one."""
    return below(trees.cuts.threshold[cut]) if cut < end else stop


@inlined
def add_slot(columns: Columns, f: int, x: float, low: float, high: float, count: int, r: Region) -> int:
    """Add a slot, unless it has no values; returns how many slots there are."""
    if columns.whole[f]:
        low, high = np.ceil(low), np.floor(high)
    if low <= high:
        r.slot_low[count], r.slot_high[count], r.slot_feature[count] = low, high, f
        r.slot_cost[count] = joined(columns, 0.0, cost_of(columns, f, x, low if low > x else high))
        count += 1
    return count


@compiled
def cut_after(trees: Trees, f: int, value: float) -> int:
    """The place of the first threshold of number f that is above a value."""
    low, high = trees.cuts.begins[f], trees.cuts.begins[f + 1]
    while low < high:
        middle = (low + high) // 2
        if trees.cuts.threshold[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def first_slot(f: int, since: float, r: Region) -> int:
    """The first slot of a feature that does not end before a value."""
    slot = r.slots[f]
    while slot < r.slots[f + 1] and r.slot_high[slot] < since:
        slot += 1
    return slot


@inlined
def last_slot(f: int, until: float, r: Region) -> int:
    """The last slot of a feature that does not begin after a value."""
    slot = r.slots[f + 1] - 1
    while slot >= r.slots[f] and r.slot_low[slot] > until:
        slot -= 1
    return slot


@inlined
def cheapest(one: int, other: int, r: Region) -> int:
    """Of neighbouring slots, one that costs least."""
    best = one
    for slot in range(one + 1, other + 1):
        if r.slot_cost[slot] < r.slot_cost[best]:
            best = slot
    return best


@inlined
def raise_share(slot: int, share: float, r: Region) -> None:
    """The share of a slot in a tree is at least so much."""
    if share > r.share[slot]:
        if r.share[slot] == 0.0:
            r.marked[r.counts[MARKED]] = slot
            r.counts[MARKED] += 1
        r.share[slot] = share


@inlined
def add_gain(slot: int, share: float, r: Region) -> None:
    """Add a share to the gain of a slot."""
    if r.gain[slot] == 0.0:
        r.live[r.counts[LIVE]] = slot
        r.counts[LIVE] += 1
    r.gain[slot] += share


@inlined
def best_gains(gain: Floats, left: int, key: Floats, by_feature: Floats, r: Region) -> float:
    """The most that so many open features bring, each in one slot that can be afforded: the sum of the largest gains,
    which are left in `key` in falling order. `by_feature` is room for d zeros."""
    for p in range(left):
        key[p] = 0.0
    if left == 0:
        return 0.0
    for at in range(r.counts[LIVE]):
        slot = r.live[at]
        f = r.slot_feature[slot]
        if r.status[f] == OPEN and with_slot(r.costs[SPENT], slot, r) < r.costs[LIMIT]:
            by_feature[f] = max(by_feature[f], gain[slot])
    for at in range(r.counts[LIVE]):
        f = r.slot_feature[r.live[at]]
        value = by_feature[f]
        by_feature[f] = 0.0
        insert(value, left, key)
    total = 0.0
    for p in range(left):
        total += key[p]
    return total


@inlined
def insert(value: float, size: int, key: Floats) -> None:
    """Put a value into a list of the largest, in falling order, if it belongs there."""
    if value > key[size - 1]:
        p = size - 1
        while p > 0 and key[p - 1] < value:
            key[p] = key[p - 1]
            p -= 1
        key[p] = value
