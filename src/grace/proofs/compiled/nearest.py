"""How near a row an answer can be that changes given features: branch and bound over boxes of their values, in compiled
code.

The box in which answers may be nearest is halved first. In a box, a functional of the scores is at most a linear
function of the changes (`box_bounds`). If that stays below zero, the box holds no answer; else the nearest point where
it does not is a fractional knapsack: features are moved in the order of what they bring for their cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Ints, Layers, activate, compiled, dot, forward, inlined, move_feature
from grace.proofs.compiled.box_bounds import PRODUCTS, Work, upper_bound
from grace.proofs.compiled.rows import Aims

ENOUGH = 0.01  # a gap that need not be closed
THINNEST = 1e-10  # a range of this share of the whole is not halved any more
A_BOX = 1_000  # products that take as long as a box does beside its own
DONE, PAUSED, FULL = 0, 1, 2
UNSEEN = -1.0  # the bound of a box that has not been looked at
COUNT = 0  # a place of the state
NEAREST, LEAST = 0, 1  # of the distances


class Boxes(NamedTuple):
    """The boxes of a row that may hold a nearer answer: a heap, of which the first may hold the nearest one."""

    bound: Floats  # (room,) how near an answer can be
    group: Ints  # (room,) of functionals
    low: Floats  # (room, K) the ranges of the changed features
    high: Floats


def boxes_of(room: int, changes: int) -> Boxes:
    return Boxes(np.zeros(room), np.zeros(room, dtype=np.int64), np.zeros((room, changes)), np.zeros((room, changes)))


def grown(boxes: Boxes) -> Boxes:
    """The same boxes with twice the room."""
    return Boxes(*(np.concatenate([part, np.zeros_like(part)]) for part in boxes))


def lowest_bound(boxes: Boxes, s: Work) -> float:
    """The distance below which there is no answer, as far as it is known."""
    open_boxes = boxes.bound[0] if s.state[COUNT] > 0 else np.inf
    return float(min(max(open_boxes, 0.0), s.distances[LEAST], (1.0 - ENOUGH) * s.distances[NEAREST]))


@compiled
def begin(
    net: Layers, columns: Columns, table: Table, aims: Aims, i: int, contrast: Floats, distance: float, boxes: Boxes,
    s: Work,
) -> int:  # fmt: skip
    """Make ready for row i and an answer to it at a distance: one box for each group. How many features change."""
    x, k = table.rows[i], 0
    activate(net, x, s.start)
    for j in range(len(x)):
        if contrast[j] != x[j]:
            s.features[k] = j
            find_options(columns, table, i, k, s)
            k += 1
    groups = len(aims.groups) - 1
    for g in range(groups):
        boxes.bound[g], boxes.group[g] = UNSEEN, g
        for a in range(k):
            j = s.features[a]
            if s.options[a] > 0:
                boxes.low[g, a], boxes.high[g, a] = 0.0, s.options[a] - 1.0
            else:
                boxes.low[g, a], boxes.high[g, a] = min(table.low[i, j], x[j]), max(table.high[i, j], x[j])
    s.state[COUNT], s.state[PRODUCTS] = groups, 0
    s.distances[NEAREST], s.distances[LEAST] = distance, np.inf
    return k


@inlined
def find_options(columns: Columns, table: Table, i: int, a: int, s: Work) -> None:
    """The categories that a changed feature may have, its own first, then by their cost; or what a number costs."""
    j, x = s.features[a], table.rows[i, s.features[a]]
    s.rates[a], s.options[a] = columns.weight[j] / columns.spread[j], 0
    begin, end = columns.begins[j], columns.begins[j + 1]
    if begin == end:
        return
    count, codes, costs = 1, s.codes[a], s.costs[a]
    codes[0], costs[0] = x, 0.0
    for c in range(begin, end):
        code = columns.choices[c]
        if code == x or code < table.low[i, j] or code > table.high[i, j]:
            continue
        cost, place = s.rates[a] * abs(code - x) if columns.magnitude[j] else columns.weight[j], count
        while place > 1 and costs[place - 1] > cost:
            codes[place], costs[place] = codes[place - 1], costs[place - 1]
            place -= 1
        codes[place], costs[place] = code, cost
        count += 1
    s.options[a] = count


@compiled
def go_on(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, aims: Aims, i: int, k: int, tolerance: float,
    limit: int, boxes: Boxes, s: Work,
) -> int:  # fmt: skip
    """Halve boxes until none can hold an answer that is nearer by more than a hundredth (DONE), there is no room for
    more (FULL), or so many products are done (PAUSED)."""
    until = s.state[PRODUCTS] + limit
    while s.state[COUNT] > 0 and boxes.bound[0] < (1.0 - ENOUGH) * s.distances[NEAREST]:
        if s.state[PRODUCTS] >= until:
            return PAUSED
        if s.state[COUNT] + 2 > len(boxes.bound):
            return FULL
        group, bound = boxes.group[0], boxes.bound[0]
        for a in range(k):
            s.box[0, a], s.box[1, a] = boxes.low[0, a], boxes.high[0, a]
        pop(boxes, k, s)
        if bound == UNSEEN:
            bound = bound_box(net, columns, table, aims, i, group, k, s)
            if bound == np.inf:
                continue
        a = widest(table, i, k, s)
        if a < 0:
            s.distances[LEAST] = min(s.distances[LEAST], bound)
            continue
        low, high = s.box[0, a], s.box[1, a]
        # a box around a fraction in a column of whole numbers is halved like any other, so that no value of it is lost
        whole = s.options[a] > 0 or (columns.whole[s.features[a]] and low == np.floor(low) and high == np.floor(high))
        middle = 0.5 * (low + high)
        below, above = (np.floor(middle), np.floor(middle) + 1.0) if whole else (middle, middle)
        for half in range(2):
            s.box[0, a], s.box[1, a] = (low, below) if half == 0 else (above, high)
            near = max(bound, bound_box(net, columns, table, aims, i, group, k, s))
            if near < np.inf:
                try_corner(net, goal, columns, table, i, k, tolerance, s)
            if near < (1.0 - ENOUGH) * s.distances[NEAREST]:
                push(boxes, k, near, group, s)
    return DONE


@inlined
def widest(table: Table, i: int, k: int, s: Work) -> int:
    """The feature whose range is to be halved: a category with several options, else the number whose range costs the
    most; -1 if there is none."""
    best, largest = -1, 0.0
    for a in range(k):
        width, j = s.box[1, a] - s.box[0, a], s.features[a]
        if s.options[a] > 0:
            if width > 0.0:
                return a
            continue
        span = max(table.high[i, j], table.rows[i, j]) - min(table.low[i, j], table.rows[i, j])
        size = width * s.rates[a] + 1e-9 * width / max(span, 1e-300)
        if width > THINNEST * span and size > largest:
            best, largest = a, size
    return best


@inlined
def push(boxes: Boxes, k: int, bound: float, group: int, s: Work) -> None:
    """Put the box that is looked at into the heap."""
    place = s.state[COUNT]
    s.state[COUNT] += 1
    while place > 0 and boxes.bound[(place - 1) // 2] > bound:
        copy_box(boxes, (place - 1) // 2, place, k)
        place = (place - 1) // 2
    boxes.bound[place], boxes.group[place] = bound, group
    for a in range(k):
        boxes.low[place, a], boxes.high[place, a] = s.box[0, a], s.box[1, a]


@inlined
def pop(boxes: Boxes, k: int, s: Work) -> None:
    """Take the first box from the heap."""
    s.state[COUNT] -= 1
    count, place = s.state[COUNT], 0
    last = boxes.bound[count]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        child += child + 1 < count and boxes.bound[child + 1] < boxes.bound[child]
        if boxes.bound[child] >= last:
            break
        copy_box(boxes, child, place, k)
        place = child
    copy_box(boxes, count, place, k)


@inlined
def copy_box(boxes: Boxes, source: int, place: int, k: int) -> None:
    boxes.bound[place], boxes.group[place] = boxes.bound[source], boxes.group[source]
    for a in range(k):
        boxes.low[place, a], boxes.high[place, a] = boxes.low[source, a], boxes.high[source, a]


@compiled
def bound_box(net: Layers, columns: Columns, table: Table, aims: Aims, i: int, group: int, k: int, s: Work) -> float:
    """How near an answer in the box can be; infinite if it holds none. A range without the row's own value, which may
    lie outside the limits, ends at these."""
    s.state[PRODUCTS] += A_BOX
    for a in range(k):
        j, x = s.features[a], table.rows[i, s.features[a]]
        if s.options[a] == 0 and not (s.box[0, a] <= x and x <= s.box[1, a]):
            s.box[0, a], s.box[1, a] = max(s.box[0, a], table.low[i, j]), min(s.box[1, a], table.high[i, j])
            if s.box[0, a] > s.box[1, a]:
                return np.inf
    most = upper_bound(net, table, aims, i, group, k, s)
    return np.inf if most < 0.0 else nearest_point(net, columns, table, i, k, most, s)


@inlined
def nearest_point(net: Layers, columns: Columns, table: Table, i: int, k: int, most: float, s: Work) -> float:
    """The least distance of a point of the box at which the function in `function`, which is at most `most`, may be at
    least 0."""
    h, cost, powers, largest = net.widths[0], 0.0, 0.0, 0.0
    for a in range(k):
        s.order[a] = a
        if s.options[a] > 0:
            near = s.costs[a, np.int64(s.box[0, a])]
            s.slopes[a] = s.room[a] = 0.0
        else:
            x = table.rows[i, s.features[a]]
            point = min(max(x, s.box[0, a]), s.box[1, a])
            slope = dot(s.function[:h], net.first[s.features[a]])
            near = s.rates[a] * abs(point - x)
            s.slopes[a] = slope
            s.room[a] = abs(slope) * (s.box[1, a] - point if slope > 0.0 else point - s.box[0, a])
            most -= s.room[a]
        cost, powers, largest = cost + near, powers + near * near, max(largest, near)
    if columns.norm != 1.0:
        return np.sqrt(powers) if columns.norm == 2.0 else largest
    for place in range(1, k):  # by what they cost for what they bring
        a, at = s.order[place], place
        while at > 0 and s.rates[s.order[at - 1]] * abs(s.slopes[a]) > s.rates[a] * abs(s.slopes[s.order[at - 1]]):
            s.order[at] = s.order[at - 1]
            at -= 1
        s.order[at] = a
    need = -most  # beyond the point of the box that is nearest to the row
    for place in range(k):
        a = s.order[place]
        if need > 0.0 and s.room[a] > 0.0:
            cost += min(need, s.room[a]) * s.rates[a] / abs(s.slopes[a])
            need -= s.room[a]
    return cost


@inlined
def try_corner(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, i: int, k: int, tolerance: float, s: Work
) -> None:
    """The corner of the box that the function likes best may be an answer that is nearer than the one known."""
    for u in range(net.widths[0]):
        s.values[u] = s.start[u]
    cost, powers, largest = 0.0, 0.0, 0.0
    for a in range(k):
        j, x = s.features[a], table.rows[i, s.features[a]]
        if s.options[a] > 0:
            option = np.int64(s.box[0, a])
            value, near = s.codes[a, option], s.costs[a, option]
        else:
            value = s.box[1, a] if s.slopes[a] > 0.0 else s.box[0, a]
            near = s.rates[a] * abs(value - x)
            fits = value == x or (table.low[i, j] <= value <= table.high[i, j])
            if not fits or (columns.whole[j] and value != x and value != np.floor(value)):
                return
        if value != x:
            move_feature(net, s.values, j, x, value)
        cost, powers, largest = cost + near, powers + near * near, max(largest, near)
    length = cost if columns.norm == 1.0 else np.sqrt(powers) if columns.norm == 2.0 else largest
    if length >= s.distances[NEAREST]:
        return
    forward(net, s.values)
    if margin_at(goal, i, s.values, net.units[len(net.leak)], net.widths[len(net.leak)]) >= tolerance:
        s.distances[NEAREST] = length
