"""The scores of a ReLU network along single features, in compiled code.

Along one feature a ReLU network is a polyline. `walk` follows it from breakpoint to breakpoint: in a piece in which the
slopes of a layer are constant it collects the units that switch, and descends to the next layer between them. No value
is sampled; a line with more breakpoints than there is room for is followed in sections. Units that switch at the same
place are processed one after another, with pieces of length zero between them, so that no tolerance is needed; rounding
may misplace a breakpoint by as much as the pre-activation there is uncertain, which changes the scores by a multiple of
the rounding of their terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, Ints, Layers, compiled, inlined, push, sort_by


class Scratch(NamedTuple):
    """Arrays that `walk` works with, one set per thread."""

    values: Floats  # (units,) pre-activations at `base` of their layer
    slopes: Floats
    side: Floats  # of zero on which each unit is: 1 if it is on, else -1
    crossing: Floats  # where units switch
    crosser: Ints  # those that do within the current piece of their layer, in order
    base: Floats  # (H + 1,)
    end: Floats  # (H + 1,) of the current piece of each layer
    crossings: Ints  # (H,) how many, and the next one
    next: Ints
    delta: Floats  # (4, widest) changes of slopes, or bounds on values
    switches: Ints  # (1,) how many units have switched so far


def scratch(net: Layers) -> Scratch:
    units, layers = int(net.units[-1]), len(net.widths)
    return Scratch(
        np.empty(units),
        np.empty(units),
        np.empty(units),
        np.empty(units),
        np.empty(units, dtype=np.int64),
        np.empty(layers),
        np.empty(layers),
        np.empty(layers, dtype=np.int64),
        np.empty(layers, dtype=np.int64),
        np.empty((4, net.widths.max())),
        np.zeros(1, dtype=np.int64),
    )


@inlined
def through(net: Layers, layer: int, side: Floats, change: Floats, out: Floats) -> None:
    """The changes (units of the next layer) that changes of the pre-activations of a hidden layer make, while its
    units are on or off."""
    width, following, leak = net.widths[layer], net.widths[layer + 1], net.leak[layer]
    units = side[net.units[layer] : net.units[layer + 1]]
    if layer == len(net.leak) - 1:
        for k in range(following):
            weights, total = net.last[k], 0.0
            for u in range(width):
                total += (change[u] if units[u] > 0.0 else leak * change[u]) * weights[u]
            out[k] = total
        return
    push(net, layer, change[:width], units, leak, net.zeros, out[:following])


@inlined
def bound_line(
    net: Layers, start: Floats, stop: Floats, target: int, above: Floats, below: Floats, work: Scratch
) -> None:
    """How far each score, or its lead over that of a target class, lies at most above and below the chord of a line:
    the straight line between its values at both ends, whose pre-activations are `start` and `stop`.

    A ReLU is convex: below its own chord it lies by most where it switches, and above it by no more than what moves its
    ends. Only units that switch, or depend on some that do, add to the bounds."""
    hidden = len(net.leak)
    up, down, next_up, next_down = work.delta[0], work.delta[1], work.delta[2], work.delta[3]
    for k in range(len(above)):
        above[k] = below[k] = 0.0
    for layer in range(hidden):
        begin, after = net.units[layer], net.units[layer + 1]
        near, far, leak, width = start[begin:after], stop[begin:after], net.leak[layer], net.widths[layer + 1]
        if layer == 0:
            for u in range(len(near)):
                one, two = near[u], far[u]
                up[u], down[u] = 0.0, 0.0
                if (one > 0.0) != (two > 0.0):
                    down[u] = (leak - 1.0) * one * two / abs(two - one)
        else:
            for u in range(len(near)):
                up[u], down[u] = beside_chord(near[u], far[u], up[u], down[u], leak)
        if layer == hidden - 1:
            break
        for q in range(width):
            next_up[q] = next_down[q] = 0.0
        at = net.offsets[layer]
        for u in range(len(near)):
            rise, fall = up[u], down[u]
            if rise > 0.0 or fall > 0.0:
                positive, negative = net.positive[at : at + width], net.negative[at : at + width]
                for q in range(width):
                    next_up[q] += rise * positive[q] - fall * negative[q]
                    next_down[q] += fall * positive[q] - rise * negative[q]
            at += width
        up, next_up = next_up, up
        down, next_down = next_down, down
    for k in range(len(above) if hidden > 0 else 0):
        weights, rivals = net.last[k], net.last[rival_of(net, k, target)]
        share, high, low = 1.0 if target >= 0 else 0.0, 0.0, 0.0
        for u in range(len(weights)):
            weight = weights[u] - share * rivals[u]
            high += weight * (up[u] if weight > 0.0 else -down[u])
            low += weight * (down[u] if weight > 0.0 else -up[u])
        above[k], below[k] = high, low


@inlined
def rival_of(net: Layers, k: int, target: int) -> int:
    """The score with which score k is compared, if there is a target class."""
    return max(target, 0)


@inlined
def beside_chord(near: float, far: float, up: float, down: float, leak: float) -> tuple[float, float]:
    """How far an activation lies at most above and below its chord, if its pre-activation, from `near` to `far`, does
    so by `up` and `down`."""
    one, two = near if near > 0.0 else leak * near, far if far > 0.0 else leak * far
    above = max(
        (near + up if near + up > 0.0 else leak * (near + up)) - one,
        (far + up if far + up > 0.0 else leak * (far + up)) - two,
    )
    below = max(
        one - (near - down if near > down else leak * (near - down)),
        two - (far - down if far > down else leak * (far - down)),
    )
    if (near > down) != (far > down):  # it may switch where the chord is `down`
        below = max(below, one + (two - one) * (down - near) / (far - near))
    return above, below


@inlined
def first_slopes(net: Layers, start: Floats, j: int, direction: float, work: Scratch) -> None:
    """The slopes of all units along feature j at a row, and which units are on when it moves in a direction."""
    slopes, side, weights = work.slopes, work.side, net.first[j]
    for u in range(net.widths[0]):
        slopes[u] = direction * weights[u]
    for layer in range(len(net.leak)):
        begin, after = net.units[layer], net.units[layer + 1]
        for u in range(begin, after):
            side[u] = 1.0 if start[u] > 0.0 or (start[u] == 0.0 and slopes[u] > 0.0) else -1.0
        through(net, layer, side, slopes[begin:after], slopes[after : net.units[layer + 2]])


@inlined
def walk(
    net: Layers, start: Floats, j: int, direction: float, reach: float, places: Floats, scores: Floats, work: Scratch,
    last: int,
) -> int:  # fmt: skip
    """The scores along feature j, a number, from a row whose pre-activations are `start`, in a direction (1 or -1), up
    to a distance. Writes the breakpoints as distances in rising order, from 0 to `reach`, and the scores (breakpoints,
    classes) there, between which they are linear. Returns how many. If there is no room for all, the last of them is
    before `reach`; to go on from it, call again with its place among those that were written, else with -1."""
    hidden = len(net.leak)
    values, slopes, classes = work.values, work.slopes, net.widths[hidden]
    last_values, last_slopes = values[net.units[hidden] :], slopes[net.units[hidden] :]
    here, layer = 0.0, 0
    if last < 0:
        first_slopes(net, start, j, direction, work)
        for u in range(net.units[-1]):
            values[u] = start[u]
        for layer in range(hidden + 1):
            work.base[layer] = 0.0
        layer, work.end[0], work.switches[0] = 0, reach, 0
    else:  # all is as it was left, but for a breakpoint that has not been written
        here, layer = places[last], hidden
    places[0] = here
    for k in range(classes):
        scores[0, k] = last_values[k]
    count = 1
    while True:
        while layer < hidden:  # down: the switches of each layer within the piece of the layer before it
            collect(net, work, layer, here)
            layer += 1
        step = work.end[hidden] - here
        if step > 0.0:
            if count == len(places):
                return count
            here = work.end[hidden]
            places[count] = here
            for k in range(classes):
                last_values[k] += last_slopes[k] * step
                scores[count, k] = last_values[k]
            count += 1
        layer = hidden - 1
        while layer >= 0 and work.next[layer] == work.crossings[layer]:
            layer -= 1  # up: to the last layer of which a unit switches here
        if layer < 0:
            return count
        switch(net, work, layer, here)
        begin, place = net.units[layer], work.next[layer]
        unit = work.crosser[begin + place] if place < work.crossings[layer] else 0
        work.end[layer + 1] = work.crossing[begin + unit] if place < work.crossings[layer] else work.end[layer]
        layer += 1


@inlined
def collect(net: Layers, work: Scratch, layer: int, here: float) -> None:
    """The units of a layer that switch within its current piece, in order."""
    begin, after = net.units[layer], net.units[layer + 1]
    values, slopes, side = work.values[begin:after], work.slopes[begin:after], work.side[begin:after]
    crossing, crosser = work.crossing[begin:after], work.crosser[begin:after]
    base, end = work.base[layer], work.end[layer]
    passed, some, found = end - base, 0, 0
    for u in range(len(values)):
        some += (values[u] + slopes[u] * passed) * side[u] < 0.0
    if some > 0:
        for u in range(len(values)):  # without branches, which would be mispredicted
            crosser[found] = u
            found += (values[u] + slopes[u] * passed) * side[u] < 0.0
        some, found = found, 0
        for place in range(some):
            u = crosser[place]
            at = max(here, base - values[u] / slopes[u])
            if slopes[u] * side[u] < 0.0 and at < end:
                crossing[u], crosser[found] = at, u
                found += 1
        sort_by(crossing, 1.0, crosser, found)
    work.crossings[layer], work.next[layer] = found, 0
    work.end[layer + 1] = crossing[crosser[0]] if found else end


@inlined
def switch(net: Layers, work: Scratch, layer: int, here: float) -> None:
    """The next unit of a layer switches: change the slopes of all later layers, after bringing their values here."""
    hidden, side = len(net.leak), work.side
    begin, width = net.units[layer], net.widths[layer + 1]
    unit = work.crosser[begin + work.next[layer]]
    work.next[layer] += 1
    work.switches[0] += 1
    side[begin + unit] = -side[begin + unit]
    change = (1.0 - net.leak[layer]) * work.slopes[begin + unit] * side[begin + unit]
    turn, at = 0, net.offsets[layer] + unit * width
    delta, weights = work.delta[0], net.weights[at : at + width]
    for q in range(width):
        delta[q] = change * weights[q]
    for later in range(layer + 1, hidden + 1):
        begin, after = net.units[later], net.units[later + 1]
        values, slopes, delta = work.values[begin:after], work.slopes[begin:after], work.delta[turn]
        passed = here - work.base[later]
        if later < hidden:
            work.base[later] = here
            for q in range(len(values)):
                values[q] += slopes[q] * passed
        for q in range(len(values)):
            slopes[q] += delta[q]
        if later < hidden:
            through(net, later, side, delta, work.delta[1 - turn])
        turn = 1 - turn


walk_alone = compiled(walk.py_func)  # type: ignore[attr-defined]
"""`walk`, to be called from Python."""
