"""Branch and bound over features and cells of a tree ensemble, in compiled code: the nearest row with at most so many
changes that reaches a goal, or the proof that there is none.

A node of the search says which features move, each within a range or to a category, and how many more may. Features are
taken in the order of what they could bring to the row itself, so that every set of features is met once. A node whose
bound (`bounds`) cannot reach the goal is dropped, and so is one that costs more than the best answer. One with further
changes left is replaced by one node for each next feature and direction; one without is done if all of its values reach
the goal, and is split at a threshold otherwise. A sum is the same everywhere between thresholds, so that this ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.lines import Columns, Table, cost_of, said_within
from grace.methods.trees.bounds import FIXED, MOVED, OPEN, SPLITS, VISITS, Region, above, below, bound, region
from grace.models.compiled import Bools, Floats, Ints, compiled, inlined, sort_by
from grace.models.trees.compiled import Trees, add_up

DONE, STOPPED = 0, 1
DROPPED, ACCEPTED, IN_DOUBT, DIVIDED = 0, 1, 2, 3
LOOSE = 1.0  # a range is split before further features are chosen if what it leaves open is so much of what they bring
NODES, UNSURE, LOST = 0, 1, 2  # in `Search.state`: nodes that wait, cells in question, and whether some were lost


class Aims(NamedTuple):
    """What counts as an answer for each of n rows: Q functionals of the sums. A row reaches the goal if all functionals
    of one of its groups do."""

    functional: Floats  # (A, Q, k) for each of A kinds of rows
    kind: Ints  # (n,)
    constant: Floats  # (n, Q)
    needed: Floats  # (n, Q) a value from which on the model is sure to agree,
    excluded: Floats  # (n, Q) and one below which it is sure not to
    groups: Ints  # (G + 1,) where the functionals of each group begin
    winner: Ints  # (A, G) the class that a group is about
    odds: float  # the logit of its least probability, by the softmax of the sums; -inf if the functionals say it all,
    unlikely: float  # and one below which it is sure not to be as probable
    contested: (
        bool  # whether the functionals compare with the original class alone, and the winner leads all others too
    )
    own: Ints  # (A,) the original class,
    weight: Floats  # (k,) by what its sum is multiplied and what is taken off it,
    shift: Floats  # (k,) before the class is compared,
    ahead: float  # a lead from which on the model is sure to decide for a class,
    behind: float  # and one below which it is sure not to


class Search(NamedTuple):
    """The search of a row, and arrays to work with; one set per thread. M is the number of nodes that may wait."""

    region: Region
    free: Bools  # (d,) which features may change
    order: Ints  # (d,) features by what each could bring,
    rank: Ints  # (d,) and the place of each there
    root_gain: Floats  # (d,)
    moved: Ints  # (M,) how many features move in a node,
    left: Ints  # (M,) how many more may,
    last: Ints  # (M,) the rank from which on they are taken,
    feature: Ints  # (M, K)
    low: Floats  # (M, K)
    high: Floats
    cost: Floats  # (M,) the least cost
    group: Ints  # (M,)
    gain: Floats  # (d,) of the functional whose bound is lowest
    chosen: Ints  # (max(d, S),)
    key: Floats  # (K,)
    parent: Ints  # (K,) the features of the node that is replaced,
    parent_low: Floats  # (K,) and their ranges
    parent_high: Floats
    value: Floats  # (K,)
    trial: Floats  # (d,)
    sums: Floats  # (k,)
    line: Floats  # (k,) a functional
    unsure: Floats  # (U, d) rows of cells in question,
    unsure_cost: Floats  # (U,) and what they cost
    state: Ints  # (3,)
    best: Floats  # (2,) the cost of the answer, and the least cost that any may have


def search_arrays(trees: Trees, columns: Columns, d: int, most: int, unsure: int = 64) -> Search:
    """Arrays to search rows of d features with."""
    k, choices = max(most, 1), len(columns.choices)
    nodes = k * (2 * d + choices) + 256 * k + len(trees.base) + 16
    inner = region(trees, d, most)

    def whole(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Search(
        region=inner,
        free=np.zeros(d, dtype=np.bool_),
        order=whole(d),
        rank=whole(d),
        root_gain=np.zeros(d),
        moved=whole(nodes),
        left=whole(nodes),
        last=whole(nodes),
        feature=whole(nodes, k),
        low=np.zeros((nodes, k)),
        high=np.zeros((nodes, k)),
        cost=np.zeros(nodes),
        group=whole(nodes),
        gain=np.zeros(d),
        chosen=whole(max(d, len(inner.split_at))),
        key=np.zeros(max(k, 1)),
        parent=whole(k),
        parent_low=np.zeros(k),
        parent_high=np.zeros(k),
        value=np.zeros(k),
        trial=np.zeros(d),
        sums=np.zeros(len(trees.base)),
        line=np.zeros(len(trees.base)),
        unsure=np.zeros((unsure, d)),
        unsure_cost=np.zeros(unsure),
        state=whole(3),
        best=np.zeros(2),
    )


@compiled
def joined(columns: Columns, total: float, cost: float) -> float:
    """A distance to which the cost of one more change is added; of the 2-norm, its square."""
    if columns.norm == 1.0:
        return total + cost
    return total + cost * cost if columns.norm == 2.0 else max(total, cost)


@compiled
def limit_moves(columns: Columns, table: Table, i: int, s: Search) -> None:
    """Limits of each feature: those of the row, and no farther than the best answer costs."""
    r, x, cost = s.region, table.rows[i], s.best[0]
    reach = np.sqrt(cost) if columns.norm == 2.0 else cost
    for f in range(len(x)):
        low, high = table.low[i, f], table.high[i, f]
        if columns.begins[f + 1] == columns.begins[f] and reach < np.inf and columns.weight[f] > 0.0:
            room = reach * columns.spread[f] / columns.weight[f]
            low, high = max(low, x[f] - room), min(high, x[f] + room)
            if columns.whole[f]:
                low, high = np.ceil(low), np.floor(high)
        r.least[f], r.most[f] = low, high


@compiled
def begin_row(trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, most: int, s: Search) -> None:
    """Make ready to look for answers of row i with so many changes to features that are `free`: one node per group,
    none of whose features moves."""
    x = table.rows[i]
    s.best[0] = s.best[1] = np.inf
    s.state[NODES] = s.state[UNSURE] = s.state[LOST] = 0
    limit_moves(columns, table, i, s)
    groups = len(aims.groups) - 1
    for g in range(groups):
        node = s.state[NODES]
        s.moved[node], s.left[node], s.last[node], s.cost[node], s.group[node] = 0, most, -1, 0.0, g
        s.state[NODES] += 1
    # the order of features: by what each brings to the first functional of the group that is nearest to the goal
    for f in range(len(x)):
        s.root_gain[f] = 0.0
        s.region.status[f] = OPEN if s.free[f] else FIXED
    for q in range(aims.functional.shape[1]):
        bound(trees, aims.functional[aims.kind[i], q], x, 1, False, s.region)
        for f in range(len(x)):
            s.root_gain[f] = max(s.root_gain[f], s.region.gain[f])
    for f in range(len(x)):
        s.order[f] = f
    sort_by(s.root_gain, -1.0, s.order, len(x))
    for place in range(len(x)):
        s.rank[s.order[place]] = place


@compiled
def advance(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, nearest: bool, visits: int, answer: Floats,
    s: Search,
) -> int:  # fmt: skip
    """Go on until all nodes are done, or so many nodes of trees were visited. The best answer and its cost are kept in
    `answer` and `best`. With `nearest`, answers with fewer changes count too."""
    until = s.region.counts[VISITS] + visits
    while s.state[NODES] > 0:
        if s.region.counts[VISITS] > until:
            return STOPPED
        s.state[NODES] -= 1
        node = s.state[NODES]
        if s.cost[node] < s.best[0]:
            process(trees, aims, columns, table, i, node, nearest, answer, s)
    return DONE


@inlined
def process(
    trees: Trees, aims: Aims, columns: Columns, table: Table, i: int, node: int, nearest: bool, answer: Floats,
    s: Search,
) -> None:  # fmt: skip
    """Bound a node; drop it, take its values as an answer, or replace it by others."""
    r, d, kind = s.region, table.rows.shape[1], aims.kind[i]
    count, left, group = s.moved[node], s.left[node], s.group[node]
    set_status(table, i, node, s)
    tightest, sure, mixed, apart = np.inf, True, -1, 0.0
    for q in range(aims.groups[group], aims.groups[group + 1]):
        high, low = bound(trees, aims.functional[kind, q], table.rows[i], left, count > 0, r)
        high, low = high + aims.constant[i, q], low + aims.constant[i, q]
        room = high - aims.excluded[i, q] + best_gains(r.gain, r.status, left, s.key)
        if not room >= 0.0:
            return
        sure = sure and low >= aims.needed[i, q]
        if left > 0 and room < tightest:
            tightest = room
            for f in range(d):
                s.gain[f] = r.gain[f]
        if r.counts[SPLITS] > 0:
            mixed = q
            apart = max(apart, high - low)
    if left > 0 and (mixed < 0 or count == 0 or apart < LOOSE * best_gains(s.gain, r.status, left, s.key)):
        for p in range(count):
            s.parent[p], s.parent_low[p], s.parent_high[p] = s.feature[node, p], s.low[node, p], s.high[node, p]
        cost = s.cost[node]
        if nearest and count > 0:  # the same node without further changes takes its place
            s.left[node] = 0
            s.state[NODES] = node + 1
        expand(columns, table, i, count, left, cost, group, tightest, s)
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
            bound(trees, aims.functional[kind, mixed], table.rows[i], 0, True, r)
    elif aims.contested:
        verdict = contest(trees, aims, columns, table, i, group, node, verdict, s)
    if verdict == ACCEPTED:
        accept(columns, table, i, node, answer, s)
        limit_moves(columns, table, i, s)
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
        high, low = bound(trees, s.line, table.rows[i], 0, True, s.region)
        apart = aims.shift[k] - aims.shift[winner]
        if high + apart < aims.behind:
            return DROPPED
        if low + apart < aims.ahead:
            if s.region.counts[SPLITS] > 0:
                return DIVIDED
            verdict = IN_DOUBT
    return verdict


@compiled
def lead_of(aims: Aims, winner: int, sums: Floats) -> float:
    """By how much a class leads all others."""
    best = -np.inf
    for c in range(len(sums)):
        if c != winner:
            best = max(best, aims.weight[c] * sums[c] - aims.shift[c])
    return aims.weight[winner] * sums[winner] - aims.shift[winner] - best


@inlined
def set_status(table: Table, i: int, node: int, s: Search) -> None:
    """Which features move in a node and which may."""
    r, count, left = s.region, s.moved[node], s.left[node]
    for f in range(len(r.status)):
        r.status[f] = OPEN if left > 0 and s.free[f] and s.rank[f] > s.last[node] else FIXED
    for p in range(count):
        j = s.feature[node, p]
        r.status[j], r.low[j], r.high[j] = MOVED, s.low[node, p], s.high[node, p]
        if left > 0:
            for f in range(len(r.status)):
                if table.conflict[j, f] and r.status[f] == OPEN:
                    r.status[f] = FIXED


@inlined
def best_gains(gain: Floats, status: Ints, left: int, key: Floats) -> float:
    """The sum of the largest gains of so many open features, which are left in `key` in falling order."""
    for p in range(left):
        key[p] = 0.0
    if left > 0:
        for f in range(len(gain)):
            if status[f] == OPEN and gain[f] > key[left - 1]:
                p = left - 1
                while p > 0 and key[p - 1] < gain[f]:
                    key[p] = key[p - 1]
                    p -= 1
                key[p] = gain[f]
    total = 0.0
    for p in range(left):
        total += key[p]
    return total


@inlined
def expand(
    columns: Columns, table: Table, i: int, count: int, left: int, cost: float, group: int, room: float, s: Search
) -> None:  # fmt: skip
    """Nodes for each next feature that could still reach the goal, the most promising on top."""
    r, x, others = s.region, table.rows[i], 0
    best_gains(s.gain, r.status, left, s.key)
    weakest = s.key[left - 1]
    for f in range(len(x)):  # with another feature in the place of the weakest of the best
        if r.status[f] == OPEN and room - max(0.0, weakest - s.gain[f]) >= 0.0:
            s.chosen[others] = f
            others += 1
    sort_by(s.gain, 1.0, s.chosen, others)
    for place in range(others):
        f = s.chosen[place]
        if columns.begins[f + 1] > columns.begins[f]:
            for c in range(columns.begins[f], columns.begins[f + 1]):
                code = columns.choices[c]
                if code != x[f] and table.low[i, f] <= code and code <= table.high[i, f]:
                    push(columns, count, f, code, code, left - 1, cost, group, x[f], s)
        else:
            down, up = below(x[f]), above(x[f])
            if columns.whole[f]:
                down, up = np.ceil(x[f]) - 1.0, np.floor(x[f]) + 1.0
            push(columns, count, f, r.least[f], min(down, r.most[f]), left - 1, cost, group, x[f], s)
            push(columns, count, f, max(up, r.least[f]), r.most[f], left - 1, cost, group, x[f], s)


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
    s.moved[node], s.left[node], s.last[node], s.cost[node], s.group[node] = count + 1, left, s.rank[f], total, group
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
    group, left, last, upwards = s.group[node], s.left[node], s.last[node], s.parent_low[at] > x[f]
    for turn in range(2):
        above_it = (turn == 0) == upwards  # the far side first
        start = max(s.parent_low[at], middle) if above_it else s.parent_low[at]
        stop = s.parent_high[at] if above_it else min(s.parent_high[at], below(middle))
        if columns.whole[f]:
            start, stop = np.ceil(start), np.floor(stop)
        push_split(columns, table, i, count, at, start, stop, left, last, group, s)


@compiled
def push_split(
    columns: Columns, table: Table, i: int, count: int, at: int, start: float, stop: float, left: int, last: int,
    group: int, s: Search,
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
        s.moved[node], s.left[node], s.last[node], s.cost[node], s.group[node] = count, left, last, total, group
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


@inlined
def accept(columns: Columns, table: Table, i: int, node: int, answer: Floats, s: Search) -> None:
    """All values of a node reach the goal: the nearest are an answer."""
    s.best[1] = min(s.best[1], s.cost[node])
    cost = place_values(columns, table, i, node, s)
    if cost < s.best[0]:
        s.best[0] = cost
        for f in range(len(answer)):
            answer[f] = s.trial[f]


@inlined
def doubt(columns: Columns, table: Table, i: int, node: int, s: Search) -> None:
    """All values of a node have the same sums, so near to the goal that the model itself has to decide."""
    place, s.best[1] = s.state[UNSURE], min(s.best[1], s.cost[node])
    cost = place_values(columns, table, i, node, s)
    if place < len(s.unsure):
        s.state[UNSURE] += 1
    else:  # the farthest makes room
        s.state[LOST] = 1
        place = np.argmax(s.unsure_cost)
        if not cost < s.unsure_cost[place]:
            return
    s.unsure_cost[place] = cost
    for f in range(len(s.trial)):
        s.unsure[place, f] = s.trial[f]


@compiled
def logit_of(winner: int, sums: Floats) -> float:
    """The logit of the probability of a class, by the softmax of the sums."""
    top, total = -np.inf, 0.0
    for c in range(len(sums)):
        if c != winner:
            top = max(top, sums[c])
    for c in range(len(sums)):
        if c != winner:
            total += np.exp(sums[c] - top)
    return sums[winner] - top - np.log(total)


@compiled
def margin_of(aims: Aims, i: int, group: int, sums: Floats) -> float:
    """By how much the sums of row i exceed what is needed for a group: the least of its functionals."""
    kind, least = aims.kind[i], np.inf
    for q in range(aims.groups[group], aims.groups[group + 1]):
        value = aims.constant[i, q] - aims.needed[i, q]
        for c in range(len(sums)):
            value += aims.functional[kind, q, c] * sums[c]
        least = min(least, value)
    if aims.odds > -np.inf:
        least = min(least, logit_of(aims.winner[kind, group], sums) - aims.odds)
    if aims.contested:
        least = min(least, lead_of(aims, aims.winner[kind, group], sums) - aims.ahead)
    return least


@compiled
def reaches(aims: Aims, i: int, sums: Floats) -> bool:
    """Whether the model is sure to decide about sums of row i as was asked for."""
    best = -np.inf
    for group in range(len(aims.groups) - 1):
        best = max(best, margin_of(aims, i, group, sums))
    return best >= 0.0
