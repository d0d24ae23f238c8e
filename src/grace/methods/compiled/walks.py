"""GRACE-Gradient and GRACE-Local in compiled code: Algorithms 1 and 2, one row at a time. `methods.walk` is the same in
tensor operations."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import (
    AGAINST,
    FLIP,
    CompiledGoal,
    margin_at,
    margin_towards,
    slope_of_margin,
)
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.local import Background, local_worth
from grace.methods.compiled.polish import Work, distance, polish_row
from grace.methods.compiled.walk_arrays import Coordinates, WalkOptions, WalkWork
from grace.methods.walk_state import MARGIN, OVERSHOOT, PATIENCE, POOR, PROGRESS, PUSHES
from grace.models.compiled import (
    Floats,
    Ints,
    Layers,
    activate,
    backward,
    compiled,
    dot,
    forward,
    inlined,
    move_feature,
)

NEARLY = 1e-9  # values that differ by no more than this share of the largest are equal


@compiled
def walk_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, coordinates: Coordinates, background: Background,
    begin: int, end: int, local: bool, options: WalkOptions, found: Floats, work: WalkWork,
) -> None:  # fmt: skip
    """The answers of GRACE-Local or GRACE-Gradient to some rows, into `found`, where there are any."""
    for i in range(begin, end):
        activate(net, table.rows[i], work.origin)
        v = nearest_alternative(net, goal, coordinates, i, work)
        rank(net, goal, columns, table, background, i, v, local, options, work)
        grow(net, goal, columns, table, coordinates, i, v, 1, options, found[i], work)


@compiled
def improve_rows(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, coordinates: Coordinates, background: Background,
    begin: int, end: int, options: WalkOptions, found: Floats, walks: WalkWork, work: Work,
) -> None:  # fmt: skip
    """Replace answers of the search by polished ones of the walks that have fewer changes, or as many and are nearer.
    The nearest single change cannot be improved, and where there is none the walks begin with two features."""
    fewest = 1 if options.nearest else 2
    for i in range(begin, end):
        x, best, answer = table.rows[i], found[i], walks.answer
        count = changes(x, best)
        if count == 1 and not options.nearest:
            continue
        least = distance(columns, x, best) if count > 0 else np.inf
        activate(net, x, walks.origin)
        for u in range(len(work.origin)):
            work.origin[u] = walks.origin[u]
        v = nearest_alternative(net, goal, coordinates, i, walks)
        for method in range(2 if len(background.points) > 0 else 1):
            for j in range(len(x)):
                answer[j] = x[j]
            rank(net, goal, columns, table, background, i, v, method == 1, options, walks)
            if not grow(net, goal, columns, table, coordinates, i, v, fewest, options, answer, walks):
                continue
            far = polish_row(net, goal, columns, table, i, answer, options.tolerance, work)
            some = changes(x, answer)
            nearer, equal = far < least * (1.0 - NEARLY), far <= least * (1.0 + NEARLY)
            fewer = count == 0 or some < count
            if (nearer or (equal and fewer)) if options.nearest else (fewer or (some == count and nearer)):
                count, least = some, far
                for j in range(len(x)):
                    best[j] = answer[j]


@inlined
def changes(row: Floats, other: Floats) -> int:
    """How many features differ."""
    count = 0
    for j in range(len(row)):
        count += row[j] != other[j]
    return count


@compiled
def nearest_alternative(net: Layers, goal: CompiledGoal, coordinates: Coordinates, i: int, work: WalkWork) -> int:
    """v = argmin |f_c - f_C| / ||grad f_c - grad f_C|| at x (Alg. 2, line 2), lengths in units of each feature's
    scale; of classes that are equally near, the first."""
    if goal.kind == AGAINST:
        return goal.target[i]
    if goal.kind != FLIP:
        return 0
    at, classes = net.units[len(net.leak)], net.widths[len(net.leak)]
    least, most = np.inf, 0.0
    for k in range(classes):
        if k == goal.target[i]:
            continue
        gradient(net, goal, i, k, work.origin, work)
        back, square = work.slopes[: net.widths[0]], 0.0
        for j in range(len(coordinates.scale)):
            begin, end, scale = coordinates.begins[j], coordinates.begins[j + 1], coordinates.scale[j]
            if begin == end:
                square += (dot(net.first[j], back) * scale) ** 2
            for t in range(begin, end):
                square += (dot(coordinates.weights[t], back) * scale) ** 2
        margin = margin_towards(goal, i, k, work.origin, at, classes)
        work.apart[k] = abs(margin) / max(np.sqrt(square), 1e-12)
        least, most = min(least, work.apart[k]), max(most, work.apart[k])
    for k in range(classes):
        if k != goal.target[i] and work.apart[k] <= least + NEARLY * (2.0 * most + 1.0):
            return k
    return -1


@compiled
def gradient(net: Layers, goal: CompiledGoal, i: int, v: int, values: Floats, work: WalkWork) -> None:
    """The gradient of the margin of an alternative in all units, whose pre-activations are `values`, into `slopes`."""
    at = net.units[len(net.leak)]
    slope_of_margin(goal, i, v, values[at:], work.slopes[at:])
    backward(net, values, work.slopes)


@compiled
def rank(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, background: Background, i: int, v: int,
    local: bool, options: WalkOptions, work: WalkWork,
) -> None:  # fmt: skip
    """What each feature is worth, by W_Local or W_Gradient."""
    gradient(net, goal, i, v, work.origin, work)
    if local:
        toward = work.slopes[net.units[len(net.leak)] :]
        if len(background.number) > 0:  # the second side is that which reaches the goal
            toward[0] = 1.0
        local_worth(goal, columns, table, background, i, toward, options.tolerance, work.worth, work.local)
    else:
        gradient_worth(net, columns, table, i, work.slopes[: net.widths[0]], work.worth)


@inlined
def gradient_worth(net: Layers, columns: Columns, table: Table, i: int, back: Floats, worth: Floats) -> None:
    """The first-order gain that each feature can still bring within its range; `back` is the gradient in the first
    layer."""
    x = table.rows[i]
    for j in range(len(x)):
        first, last, low, high = columns.begins[j], columns.begins[j + 1], table.low[i, j], table.high[i, j]
        if first == last:
            slope = dot(net.first[j], back)
            worth[j] = max(slope * (high - x[j]), slope * (low - x[j]))
            continue
        worth[j], here = -np.inf, dot(net.tables[net.begins[j] + np.int64(x[j])], back)
        for c in range(first, last):
            code = columns.choices[c]
            there = dot(net.tables[net.begins[j] + np.int64(code)], back) if low <= code <= high else here
            worth[j] = max(worth[j], there - here)


@inlined
def choose(table: Table, i: int, most: int, worth: Floats, chosen: Ints) -> int:
    """W_Entropy (Alg. 3): best first, the features that may change and are redundant with none before them; of equal
    ones the first. Returns how many. `worth` is overwritten."""
    top, count = 1e-300, 0
    for j in range(len(worth)):
        top = max(top, abs(worth[j]))
    for j in range(len(worth)):
        worth[j] = np.rint(worth[j] / top / NEARLY) if table.free[i, j] else -np.inf
    while count < most:
        best = 0
        for j in range(len(worth)):
            if worth[j] > worth[best]:
                best = j
        if not worth[best] > -np.inf:
            break
        chosen[count], worth[best] = best, -np.inf
        count += 1
        for j in range(len(worth)):
            if table.conflict[best, j]:
                worth[j] = -np.inf
    return count


@compiled
def grow(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, coordinates: Coordinates, i: int, v: int,
    fewest: int, options: WalkOptions, answer: Floats, work: WalkWork,
) -> bool:  # fmt: skip
    """Algorithm 1: S = the first k features of U*, from the fewest to the most, until row i reaches the goal."""
    count = choose(table, i, len(work.chosen), work.worth, work.chosen)
    for k in range(fewest, count + 1):
        if walk(net, goal, columns, table, coordinates, i, v, k, options, work):
            for place in range(k):
                answer[work.chosen[place]] = work.cells[place]
            return True
    return False


@inlined
def walk(
    net: Layers, goal: CompiledGoal, columns: Columns, table: Table, coordinates: Coordinates, i: int, v: int, k: int,
    options: WalkOptions, work: WalkWork,
) -> bool:  # fmt: skip
    """Algorithm 2: step onto the linearised boundary to v on the first k features, project with P, repeat until the
    goal is reached. A step that closes too little of its gap is doubled, and a walk that gets no further is given up,
    see `StepControl`."""
    x, values, at, classes = table.rows[i], work.values, net.units[len(net.leak)], net.widths[len(net.leak)]
    for place in range(k):
        work.cells[place] = x[work.chosen[place]]
    push, aim, best, last, idle = 1.0, 1.0, -np.inf, -np.inf, 0
    for _ in range(options.steps + 1):
        for u in range(net.widths[0]):
            values[u] = work.origin[u]
        for place in range(k):
            j = work.chosen[place]
            if work.cells[place] != x[j]:
                move_feature(net, values, j, x[j], work.cells[place])
        forward(net, values)
        if margin_at(goal, i, values, at, classes) >= options.tolerance:
            return True
        margin = margin_towards(goal, i, v, values, at, classes)
        gradient(net, goal, i, v, values, work)
        square = direction(net, table, coordinates, i, k, work)
        closed = (margin - last) / aim
        if closed < POOR:
            push = 2.0 * push if closed > -1e-6 else 1.0
        idle += 1
        if margin > best + PROGRESS * abs(margin):
            best, idle = margin, 0
        if idle >= PATIENCE or push >= 2.0**PUSHES or not square > 0.0:
            return False
        last, aim = margin, max(-margin, 0.0) * (1.0 + OVERSHOOT) + MARGIN
        move(net, columns, table, coordinates, i, k, push * aim / square, work)
    return False


@inlined
def direction(net: Layers, table: Table, coordinates: Coordinates, i: int, k: int, work: WalkWork) -> float:
    """The gradient on the first k features, in units of their scale, without numbers at a bound that it points out of;
    returns its squared length."""
    back, square = work.slopes[: net.widths[0]], 0.0
    for place in range(k):
        j = work.chosen[place]
        begin, end, scale, unit = (
            coordinates.begins[j],
            coordinates.begins[j + 1],
            coordinates.scale[j],
            work.unit[place],
        )
        for t in range(begin, end):
            unit[t - begin] = dot(coordinates.weights[t], back) * scale
            square += unit[t - begin] ** 2
        if begin == end:
            slope, cell = dot(net.first[j], back), work.cells[place]
            room = table.high[i, j] - cell if slope > 0.0 else cell - table.low[i, j]
            unit[0] = 0.0 if room <= 0.0 else slope * scale
            square += unit[0] ** 2
    return square


@inlined
def move(
    net: Layers, columns: Columns, table: Table, coordinates: Coordinates, i: int, k: int, length: float, work: WalkWork
) -> None:
    """A step of the first k features, projected with P."""
    for place in range(k):
        j = work.chosen[place]
        begin, end = coordinates.begins[j], coordinates.begins[j + 1]
        stride, unit = length * coordinates.scale[j], work.unit[place]
        if begin == end:
            step = stride * unit[0]
            if step != 0.0:
                cell = min(max(work.cells[place] + step, table.low[i, j]), table.high[i, j])
                work.cells[place] = np.rint(cell) if columns.whole[j] else cell
        else:
            own = coordinates.vectors[net.begins[j] + np.int64(work.cells[place])]
            size = 0.0
            for t in range(end - begin):
                size = max(size, abs(stride * unit[t]))
                unit[t] = own[t] + stride * unit[t]
            if size > 0.0:
                work.cells[place] = nearest_category(net, columns, table, coordinates, i, j, unit[: end - begin], work)


@inlined
def nearest_category(
    net: Layers, columns: Columns, table: Table, coordinates: Coordinates, i: int, j: int, point: Floats, work: WalkWork
) -> float:
    """The category whose vector is nearest to a point; of equal ones the first."""
    first, last = columns.begins[j], columns.begins[j + 1]
    least, most = np.inf, 0.0
    for c in range(first, last):
        vector, total = coordinates.vectors[net.begins[j] + np.int64(columns.choices[c])], 0.0
        for t in range(len(point)):
            total += (point[t] - vector[t]) ** 2
        most = max(most, total)
        if coordinates.one_way[j] and not table.low[i, j] <= columns.choices[c] <= table.high[i, j]:
            total = np.inf
        work.apart[c - first] = total
        least = min(least, total)
    for c in range(first, last):
        if work.apart[c - first] <= least + NEARLY * most:
            return columns.choices[c]
    return columns.choices[first]
