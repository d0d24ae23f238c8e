"""The nodes of the branch and bound over a tree ensemble, in compiled code: which features move and within which range,
what that costs, and the values that are taken from a node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of, said_within
from grace.methods.trees.regions import LIMIT, LIMITS, SPLITS, Region, below, region
from grace.methods.trees.rules import is_ruled, keeps_rules, mend, narrow
from grace.methods.trees.slots import joined, make_slots
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined, sort_by
from grace.models.trees.compiled import Trees

NODES, UNSURE, LOST, CROWDED, PICKED = 0, 1, 2, 3, 4
"""In `Search.state`: nodes that wait, cells in question, whether there was no room for more nodes, or cells, and slots
that were picked."""


class Search(NamedTuple):
    """The search of a row, and arrays to work with; one set per thread. M is the number of nodes that may wait."""

    region: Region
    free: Bools  # (d,) which features may change
    moved: Ints  # (M,) how many features move in a node,
    left: Ints  # (M,) how many more may,
    closed: Ints  # (M, W) and bits of the features that may not,
    feature: Ints  # (M, K)
    low: Floats  # (M, K)
    high: Floats
    cost: Floats  # (M,) the least cost
    group: Ints  # (M,)
    gain: Floats  # (B,) of slots, by the functional whose bound is lowest
    chosen: Ints  # (max(d, B, S),)
    order: Ints  # (d,) features
    key: Floats  # (K,)
    of_feature: Floats  # (d,) zeros between uses
    parent: Ints  # (K,) the features of the node that is replaced,
    parent_low: Floats  # (K,) and their ranges
    parent_high: Floats
    parent_closed: Ints  # (W,)
    value: Floats  # (K,)
    trial: Floats  # (d,)
    sums: Floats  # (k,)
    line: Floats  # (k,) a functional
    unsure: Floats  # (U, d) rows of cells in question,
    unsure_cost: Floats  # (U,) and what they cost
    state: Ints  # (5,)
    best: Floats  # (2,) the cost of the answer, and the least cost that any may have


def search_arrays(trees: Trees, columns: Columns, d: int, most: int, unsure: int = 64) -> Search:
    """Arrays to search rows of d features with."""
    k, choices = max(most, 1), len(columns.choices)
    inner = region(trees, d, most)
    slots, words = len(inner.gain), -(-d // 64)
    nodes = k * (2 * d + choices) + slots + 256 * k + len(trees.base) + 16

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Search(
        region=inner,
        free=np.zeros(d, dtype=np.bool_),
        moved=whole(nodes),
        left=whole(nodes),
        closed=whole(nodes, words),
        feature=whole(nodes, k),
        low=np.zeros((nodes, k)),
        high=np.zeros((nodes, k)),
        cost=np.zeros(nodes),
        group=whole(nodes),
        gain=np.zeros(slots),
        chosen=whole(max(d, slots, len(inner.split_at))),
        order=whole(d),
        key=np.zeros(k),
        of_feature=np.zeros(d),
        parent=whole(k),
        parent_low=np.zeros(k),
        parent_high=np.zeros(k),
        parent_closed=whole(words),
        value=np.zeros(k),
        trial=np.zeros(d),
        sums=np.zeros(len(trees.base)),
        line=np.zeros(len(trees.base)),
        unsure=np.zeros((unsure, d)),
        unsure_cost=np.zeros(unsure),
        state=whole(5),
        best=np.zeros(2),
    )


@compiled
def limit_moves(trees: Trees, columns: Columns, table: Table, i: int, s: Search) -> None:
    """Limits of each feature: those of the row, and no farther than the best answer costs; and the slots within."""
    r, x, cost = s.region, table.rows[i], s.best[0]
    reach = np.sqrt(cost) if columns.norm == 2.0 else cost
    r.counts[LIMITS] += 1
    for f in range(len(x)):
        low, high = table.low[i, f], table.high[i, f]
        if columns.begins[f + 1] == columns.begins[f] and reach < np.inf and columns.weight[f] > 0.0:
            room = reach * columns.spread[f] / columns.weight[f]
            low, high = max(low, x[f] - room), min(high, x[f] + room)
            if columns.whole[f]:
                low, high = np.ceil(low), np.floor(high)
        r.least[f], r.most[f] = low, high
    r.costs[LIMIT] = cost
    make_slots(trees, columns, table, i, s.free, r)


@compiled
def push(
    columns: Columns, count: int, f: int, start: float, stop: float, left: int, cost: float, group: int, x: float,
    s: Search,
) -> None:  # fmt: skip
    """A node in which the features of the parent move, and one more within a range."""
    if not start <= stop:
        return
    total = joined(columns, cost, cost_of(columns, f, x, min(max(x, start), stop)))
    if not total < s.best[0]:
        return
    node = s.state[NODES]
    if node >= len(s.moved):
        s.state[LOST] = 1
        return
    for p in range(count):
        s.feature[node, p], s.low[node, p], s.high[node, p] = s.parent[p], s.parent_low[p], s.parent_high[p]
    s.feature[node, count], s.low[node, count], s.high[node, count] = f, start, stop
    s.moved[node], s.left[node], s.cost[node], s.group[node] = count + 1, left, total, group
    for word in range(len(s.parent_closed)):
        s.closed[node, word] = s.parent_closed[word]
    s.state[NODES] += 1


@inlined
def split(columns: Columns, table: Table, i: int, node: int, s: Search) -> None:
    """Two nodes for the two sides of a threshold: of the feature whose thresholds decide most, the median. The side
    nearer to the row comes on top."""
    r, x, count, best, at = s.region, table.rows[i], s.moved[node], -1.0, 0
    found = r.counts[SPLITS]
    for p in range(count):
        weight = 0.0
        for place in range(found):
            if r.split_feature[place] == s.feature[node, p]:
                weight += r.split_weight[place]
        if weight > best:
            best, at = weight, p
    f, few = s.feature[node, at], 0
    for place in range(found):
        if r.split_feature[place] == f:
            s.chosen[few] = place
            few += 1
    sort_by(r.split_at, 1.0, s.chosen, few)
    passed, middle = 0.0, r.split_at[s.chosen[few - 1]]
    for place in range(few):
        passed += r.split_weight[s.chosen[place]]
        if passed >= 0.5 * best:
            middle = r.split_at[s.chosen[place]]
            break
    for p in range(count):
        s.parent[p], s.parent_low[p], s.parent_high[p] = s.feature[node, p], s.low[node, p], s.high[node, p]
    for word in range(len(s.parent_closed)):
        s.parent_closed[word] = s.closed[node, word]
    group, left, upwards = s.group[node], s.left[node], s.parent_low[at] > x[f]
    for turn in range(2):
        above_it = (turn == 0) == upwards  # the far side first
        start = max(s.parent_low[at], middle) if above_it else s.parent_low[at]
        stop = s.parent_high[at] if above_it else min(s.parent_high[at], below(middle))
        if columns.whole[f]:
            start, stop = np.ceil(start), np.floor(stop)
        push_split(columns, table, i, count, at, start, stop, left, group, s)


@compiled
def push_split(
    columns: Columns, table: Table, i: int, count: int, at: int, start: float, stop: float, left: int, group: int,
    s: Search,
) -> None:  # fmt: skip
    """The parent with another range of one of its features."""
    node, x, total = s.state[NODES], table.rows[i], 0.0
    if not start <= stop:
        return
    if node >= len(s.moved):
        s.state[LOST] = 1
        return
    for p in range(count):
        f, low, high = s.parent[p], s.parent_low[p], s.parent_high[p]
        if p == at:
            low, high = start, stop
        s.feature[node, p], s.low[node, p], s.high[node, p] = f, low, high
        total = joined(columns, total, cost_of(columns, f, x[f], min(max(x[f], low), high)))
    if total < s.best[0]:
        s.moved[node], s.left[node], s.cost[node], s.group[node] = count, left, total, group
        for word in range(len(s.parent_closed)):
            s.closed[node, word] = s.parent_closed[word]
        s.state[NODES] += 1


@inlined
def place_values(columns: Columns, table: Table, i: int, node: int, s: Search) -> float:
    """The nearest values within a node that can be said, in `trial`; returns what they cost together."""
    x, total = table.rows[i], 0.0
    for f in range(len(x)):
        s.trial[f] = x[f]
    for p in range(s.moved[node]):
        f, low, high = s.feature[node, p], s.low[node, p], s.high[node, p]
        if columns.begins[f + 1] > columns.begins[f]:
            value = low
        else:
            upwards = low > x[f]
            value = said_within(columns, f, x[f], low if upwards else high, high if upwards else low)
            if not (value >= low and value <= high):
                value = low if upwards else high
        s.trial[f] = value
        total = joined(columns, total, cost_of(columns, f, x[f], value))
    return total


@compiled
def place_ruled_values(columns: Columns, table: Table, i: int, node: int, s: Search) -> float:
    """The same where rules are to be kept; infinite if no values are found that do."""
    total = place_values(columns, table, i, node, s)
    if not is_ruled(table) or keeps_rules(table, i, s.trial):
        return total
    if not mend(columns, table, i, s.feature[node], s.low[node], s.high[node], s.moved[node], s.trial):
        s.state[LOST] = 1
        return np.inf
    total = 0.0
    for p in range(s.moved[node]):
        f = s.feature[node, p]
        total = joined(columns, total, cost_of(columns, f, table.rows[i, f], s.trial[f]))
    return total


@inlined
def narrow_node(columns: Columns, table: Table, i: int, node: int, s: Search) -> bool:
    """Narrow the ranges of a node, which have been set, by the rules. False if it has no answer that keeps them and is
    nearer than the best."""
    count, total = s.moved[node], 0.0
    if not narrow(columns, table, i, s.feature[node], count, s.region):
        return False
    for p in range(count):
        f = s.feature[node, p]
        if columns.begins[f + 1] == columns.begins[f]:
            s.low[node, p], s.high[node, p] = s.region.low[f], s.region.high[f]
        x = table.rows[i, f]
        total = joined(columns, total, cost_of(columns, f, x, min(max(x, s.low[node, p]), s.high[node, p])))
    s.cost[node] = total
    return total < s.best[0]


@inlined
def accept(columns: Columns, table: Table, i: int, node: int, answer: Floats, s: Search) -> None:
    """All values of a node reach the goal: the nearest that keep the rules are an answer."""
    s.best[1] = min(s.best[1], s.cost[node])
    cost = place_ruled_values(columns, table, i, node, s)
    if cost < s.best[0]:
        s.best[0] = cost
        for f in range(len(answer)):
            answer[f] = s.trial[f]


@inlined
def doubt(columns: Columns, table: Table, i: int, node: int, s: Search) -> None:
    """All values of a node have the same sums, so near to the goal that the model itself has to decide."""
    s.best[1] = min(s.best[1], s.cost[node])
    cost = place_ruled_values(columns, table, i, node, s)
    if cost < np.inf:
        record_doubt(cost, s)


@compiled
def record_doubt(cost: float, s: Search) -> None:
    """Keep `trial`, which costs so much, as a row that the model itself has to decide about."""
    place = s.state[UNSURE]
    if place < len(s.unsure):
        s.state[UNSURE] += 1
    else:  # the farthest makes room
        s.state[CROWDED] = 1
        place = np.argmax(s.unsure_cost)
        if not cost < s.unsure_cost[place]:
            return
    s.unsure_cost[place] = cost
    for f in range(len(s.trial)):
        s.unsure[place, f] = s.trial[f]
