"""Branch and bound over features and cells of a tree ensemble, in compiled code: the nearest row with at most so many
changes that reaches a goal, or the proof that there is none.

A node of the search says which features move, each within a range or to a category, and how many more may. A node whose
bound (`bounds`) cannot reach the goal is dropped, and so is one that costs more than the best answer. One with further
changes left is replaced by one node for each next feature and side of the row's own value, in the order of what the
features bring there; each excludes the features before it, so that every set of features is met once. One without is
done if all of its values reach the goal, and is split at a threshold otherwise. A sum is the same everywhere between
thresholds, so that this ends.
"""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.lines import Columns, Table
from grace.methods.trees.bounds import bound, is_held, remember
from grace.methods.trees.margins import Aims, lead_of, logit_of
from grace.methods.trees.regions import FIXED, LIMIT, LIMITS, MARK, MOVED, OPEN, SPENT, SPLITS, VISITS
from grace.methods.trees.search_nodes import (
    CROWDED,
    LOST,
    NODES,
    PICKED,
    UNSURE,
    Search,
    accept,
    doubt,
    limit_moves,
    place_values,
    push,
    split,
)
from grace.methods.trees.slots import best_gains, insert, with_slot
from grace.models.compiled import Floats, compiled, inlined, sort_by
from grace.models.trees.compiled import Trees, add_up

DONE, STOPPED, FOUND = 0, 1, 2
DROPPED, ACCEPTED, IN_DOUBT, DIVIDED = 0, 1, 2, 3
LOOSE = 1.0  # a range is split before further features are chosen if what it leaves open is so much of what they bring


@compiled
def begin_row(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, s: Search) -> None:
    """Make ready to look for answers of row i with so many changes to features that are `free`: one node per group,
    none of whose features moves."""
    x = table.rows[i]
    s.best[0] = s.best[1] = np.inf
    s.state[NODES] = s.state[UNSURE] = s.state[LOST] = s.state[CROWDED] = 0
    limit_moves(trees, columns, table, i, s)
    for g in range(len(aims.groups) - 1):
        s.moved[g], s.left[g], s.cost[g], s.group[g] = 0, most, 0.0, g
        for word in range(s.closed.shape[1]):
            s.closed[g, word] = 0
        s.state[NODES] += 1


@compiled
def advance(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, nearest: bool, visits: int, answer: Floats,
    s: Search,
) -> int:  # fmt: skip
    """Go on until all nodes are done, or so many nodes of trees were visited. The best answer and its cost are kept in
    `answer` and `best`. With `nearest`, answers with fewer changes count too."""
    return walk_nodes(trees, aims, columns, table, i, nearest, False, visits, answer, s)


@compiled
def next_answer(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, visits: int, answer: Floats, s: Search
) -> int:
    """Go on like `advance` until an answer is found that is nearer than the best so far."""
    return walk_nodes(trees, aims, columns, table, i, False, True, visits, answer, s)


@compiled
def walk_nodes(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, nearest: bool, one: bool, visits: int,
    answer: Floats, s: Search,
) -> int:  # fmt: skip
    """The nodes one after another, the last one first; with `one`, until a first answer is found."""
    until, best = s.region.counts[VISITS] + visits, s.best[0]
    while s.state[NODES] > 0:
        if s.region.counts[VISITS] > until:
            return STOPPED
        s.state[NODES] -= 1
        node = s.state[NODES]
        if s.cost[node] < s.best[0]:
            process(trees, aims, columns, table, i, node, nearest, answer, s)
            if one and s.best[0] < best:
                return FOUND
    return DONE


@inlined
def process(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, node: int, nearest: bool, answer: Floats,
    s: Search,
) -> None:  # fmt: skip
    """Bound a node; drop it, take its values as an answer, or replace it by others."""
    r, d, kind = s.region, table.rows.shape[1], aims.kind[i]
    count, left, group = s.moved[node], s.left[node], s.group[node]
    set_status(trees, table, i, node, s)
    tightest, lacks, brings, sure, mixed, apart = np.inf, 0.0, 0.0, True, -1, 0.0
    for q in range(aims.groups[group], aims.groups[group + 1]):
        if is_held(left, q, r) and r.held[left, q] != r.counts[LIMITS]:  # not yet, or the limits are narrower by now
            open_all(s)
            remember(trees, aims.functional[kind, q], table.rows[i], max(left, 1), q, r)
            set_status(trees, table, i, node, s)
        high, low = bound(trees, aims.functional[kind, q], table.rows[i], left, count > 0, q, r)
        high, low = high + aims.constant[i, q], low + aims.constant[i, q]
        room, more = high - aims.excluded[i, q], best_gains(r.gain, left, s.key, s.of_feature, r)
        if not room + more >= 0.0:
            return
        sure = sure and low >= aims.needed[i, q]
        if left > 0 and room + more < tightest:
            tightest, lacks, brings = room + more, room, more
            for slot in range(r.slots[d]):
                s.gain[slot] = r.gain[slot]
        if r.counts[SPLITS] > 0:
            mixed = q
            apart = max(apart, high - low)
    if left > 0 and (mixed < 0 or count == 0 or apart < LOOSE * brings):
        for p in range(count):
            s.parent[p], s.parent_low[p], s.parent_high[p] = s.feature[node, p], s.low[node, p], s.high[node, p]
        for word in range(len(s.parent_closed)):
            s.parent_closed[word] = s.closed[node, word]
        cost = s.cost[node]
        if nearest and count > 0:  # the same node without further changes takes its place
            s.left[node] = 0
            s.state[NODES] = node + 1
        expand(columns, table, i, count, left, cost, group, lacks, s)
        return
    if left > 0:
        sure = False
    if aims.odds > -np.inf and mixed < 0 and left == 0:
        place_values(columns, table, i, node, s)
        add_up(trees, s.trial, s.sums)
        chance = logit_of(aims.winner[kind, group], s.sums)
        if chance < aims.unlikely:
            return
        sure = sure and chance >= aims.odds
    elif aims.odds > -np.inf:
        sure = False
    verdict = ACCEPTED if sure else IN_DOUBT if mixed < 0 else DIVIDED
    if verdict == DIVIDED:
        if mixed < aims.groups[group + 1] - 1:  # the thresholds of a later functional were collected last
            bound(trees, aims.functional[kind, mixed], table.rows[i], 0, True, mixed, r)
    elif aims.contested:
        verdict = contest(trees, aims, columns, table, i, group, node, verdict, s)
    if verdict == ACCEPTED:
        accept(columns, table, i, node, answer, s)
        limit_moves(trees, columns, table, i, s)
    elif verdict == IN_DOUBT:
        doubt(columns, table, i, node, s)
    elif verdict == DIVIDED:
        split(columns, table, i, node, s)


@inlined
def contest(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, group: int, node: int, verdict: int, s: Search
) -> int:  # fmt: skip
    """What becomes of a node whose class leads the original one, by its leads over the others: two that are equal have
    no winner. Where it is divided, the thresholds that divide it are collected."""
    kind = aims.kind[i]
    winner, own = aims.winner[kind, group], aims.own[kind]
    place_values(columns, table, i, node, s)
    add_up(trees, s.trial, s.sums)
    for c in range(len(s.sums)):
        if c != own and lead_of(aims, c, s.sums) >= aims.ahead:
            return ACCEPTED
    for k in range(len(s.sums)):
        if k in (winner, own):
            continue
        for c in range(len(s.sums)):
            s.line[c] = 0.0
        s.line[winner], s.line[k] = aims.weight[winner], -aims.weight[k]
        high, low = bound(trees, s.line, table.rows[i], 0, True, -1, s.region)
        apart = aims.shift[k] - aims.shift[winner]
        if high + apart < aims.behind:
            return DROPPED
        if low + apart < aims.ahead:
            if s.region.counts[SPLITS] > 0:
                return DIVIDED
            verdict = IN_DOUBT
    return verdict


@inlined
def open_all(s: Search) -> None:
    """No feature is moved, and all that are free may be."""
    for f in range(len(s.free)):
        s.region.status[f] = OPEN if s.free[f] else FIXED


@inlined
def set_status(trees: Trees, table: Table, i: int, node: int, s: Search) -> None:
    """Which features move in a node and which may, and which trees split on those that do."""
    r, count, left = s.region, s.moved[node], s.left[node]
    r.counts[MARK] += 1
    r.costs[SPENT], r.costs[LIMIT] = s.cost[node], s.best[0]
    for f in range(len(r.status)):
        closed = (s.closed[node, f >> 6] >> (f & 63)) & 1
        r.status[f] = OPEN if left > 0 and s.free[f] and closed == 0 else FIXED
    for p in range(count):
        j = s.feature[node, p]
        r.status[j], r.low[j], r.high[j] = MOVED, s.low[node, p], s.high[node, p]
        for use in range(trees.uses.tree_begins[j], trees.uses.tree_begins[j + 1]):
            r.touched[trees.uses.trees[use]] = r.counts[MARK]
        if left > 0:
            for f in range(len(r.status)):
                if table.conflict[j, f] and r.status[f] == OPEN:
                    r.status[f] = FIXED


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
