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
from grace.methods.trees.expansion import expand
from grace.methods.trees.margins import ACCEPTED, DIVIDED, DROPPED, IN_DOUBT, Aims, lead_of, logit_of
from grace.methods.trees.regions import FIXED, LIMIT, LIMITS, MARK, MOVED, OPEN, SPENT, SPLITS, VISITS
from grace.methods.trees.rules import is_ruled
from grace.methods.trees.search_nodes import (
    CROWDED,
    LOST,
    NODES,
    UNSURE,
    Search,
    accept,
    doubt,
    limit_moves,
    narrow_node,
    place_values,
    split,
)
from grace.methods.trees.slots import best_gains
from grace.models.compiled import Floats, compiled, inlined
from grace.models.trees.compiled import Trees, add_up

DONE, STOPPED, FOUND = 0, 1, 2
LOOSE = 1.0  # a range is split before further features are chosen if what it leaves open is so much of what they bring


@compiled
def begin_row(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, s: Search) -> None:
    """Make ready to look for answers of row i with so many changes to features that are `free`."""
    s.best[0] = np.inf
    limit_moves(trees, columns, table, i, s)
    begin_level(aims, most, s)


@compiled
def begin_level(aims: Aims, most: int, s: Search) -> None:
    """The same with another number of changes for a row without an answer so far, whose limits have not changed: one
    node per group, none of whose features moves."""
    s.best[0] = s.best[1] = np.inf
    s.state[NODES] = s.state[UNSURE] = s.state[LOST] = s.state[CROWDED] = 0
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
    if count > 0 and is_ruled(table) and not narrow_node(columns, table, i, node, s):
        return
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
