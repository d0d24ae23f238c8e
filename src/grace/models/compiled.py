"""ReLU networks in compiled code: their layers as arrays, and the scores along single features.

Along one feature a ReLU network is a polyline. `walk` follows it from breakpoint to breakpoint: in a piece in which the
slopes of a layer are constant it collects the units that switch, and descends to the next layer between them. No value
is sampled. Units that switch at the same place are processed one after another, with pieces of length zero between
them, so that no tolerance is needed; rounding may misplace a breakpoint by as much as the pre-activation there is
uncertain, which changes the scores by no more than a multiple of `rounding`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
F = TypeVar("F", bound=Callable[..., object])

ALLOWANCE = 16.0  # the bound on rounding, in units of the least double above 1 times the number of terms


def compiled(function: F) -> F:
    """Compile on first use, without the GIL; the machine code is cached on disk. Sums may be reordered to use vector
    instructions, which the bounds on rounding allow for; NaN and infinities are respected. No array is allocated
    within, so that none needs to be counted, which would take half of the time."""
    return _jit(function, no_cfunc_wrapper=True)


def inlined(function: F) -> F:
    """The same for a function that is called from compiled code alone, and becomes part of it."""
    return _jit(function, inline="always")


def _jit(function: F, **options: Any) -> F:
    options |= {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}, "_nrt": False}
    made: Any = numba.njit(**options)(function)
    with suppress(RuntimeError):  # nowhere may be written to: then every process compiles anew
        made.enable_caching()
    return cast(F, made)


class Layers(NamedTuple):
    """A network of H hidden layers. The units of all layers, the scores last, stand one after another."""

    first: Floats  # (features, h) weights of the numbers
    bias: Floats  # (h,)
    tables: Floats  # (entries, h) of all categories, one table after another
    begins: Ints  # (features,) where the table of each begins, -1 for a number
    widths: Ints  # (H + 1,) units of the hidden layers and scores
    units: Ints  # (H + 2,) where the units of each layer begin; the last is their number
    weights: Floats  # of the later layers, each (units, units of the next layer), flat
    offsets: Ints  # (H,) where those of each layer begin
    last: Floats  # (scores, units of the last hidden layer), the weights of the last layer
    biases: Floats  # of the units of the later layers
    leak: Floats  # (H,) the slope below zero
    steepest: Floats  # (features,) a bound on the slope of any score, or difference of scores, along each number


def layers_of(
    weight: Floats,
    bias: Floats,
    tables: Mapping[int, Floats],
    later: Sequence[tuple[Floats, Floats]],
    leak: Sequence[float] | None = None,
) -> Layers:
    """Weights (h, features) and biases of the first layer, a table (categories, h) per category, and weights and biases
    of the later layers."""
    begins = np.full(weight.shape[1], -1, dtype=np.int64)
    count = 0
    for j, table in tables.items():
        begins[j] = count
        count += len(table)
    entries = np.concatenate([*tables.values()]) if tables else np.zeros((0, len(bias)))
    widths = np.array([len(bias), *(len(b) for _, b in later)], dtype=np.int64)
    sizes = [w.size for w, _ in later]
    steepest = np.abs(weight)
    for w, _ in later:
        steepest = np.abs(w) @ steepest
    return Layers(
        first=np.ascontiguousarray(weight.T, dtype=np.float64),
        bias=np.ascontiguousarray(bias, dtype=np.float64),
        tables=np.ascontiguousarray(entries, dtype=np.float64),
        begins=begins,
        widths=widths,
        units=np.concatenate([[0], widths.cumsum()]).astype(np.int64),
        weights=np.concatenate([np.zeros(0), *(w.T.ravel() for w, _ in later)]),
        offsets=np.concatenate([[0], np.cumsum(sizes)])[: len(later)].astype(np.int64),
        last=np.ascontiguousarray(later[-1][0]) if later else np.zeros((0, 0)),
        biases=np.concatenate([np.zeros(0), *(b for _, b in later)]),
        leak=np.zeros(len(later)) if leak is None else np.asarray(leak, dtype=np.float64),
        steepest=(1 if len(steepest) == 1 else 2) * steepest.max(axis=0),
    )


class Scratch(NamedTuple):
    """Arrays that `walk` works with, one set per thread."""

    values: Floats  # (units,) pre-activations at `base` of their layer
    slopes: Floats
    on: Bools
    crossing: Floats  # where units switch
    crosser: Ints  # those that do within the current piece of their layer, in order
    base: Floats  # (H + 1,)
    end: Floats  # (H + 1,) of the current piece of each layer
    crossings: Ints  # (H,) how many, and the next one
    next: Ints
    delta: Floats  # (4, widest) changes of slopes, or bounds on changes of values


def scratch(net: Layers) -> Scratch:
    units, layers = int(net.units[-1]), len(net.widths)
    return Scratch(
        np.empty(units),
        np.empty(units),
        np.empty(units, dtype=np.bool_),
        np.empty(units),
        np.empty(units, dtype=np.int64),
        np.empty(layers),
        np.empty(layers),
        np.empty(layers, dtype=np.int64),
        np.empty(layers, dtype=np.int64),
        np.empty((4, net.widths.max())),
    )


@inlined
def first_layer(net: Layers, row: Floats, values: Floats) -> None:
    """The pre-activations of the first layer, into the first of `values`."""
    out = values[: net.widths[0]]
    for u in range(len(out)):
        out[u] = net.bias[u]
    for j in range(len(row)):
        begin = net.begins[j]
        if begin >= 0:
            entry = net.tables[begin + np.int64(row[j])]
            for u in range(len(out)):
                out[u] += entry[u]
        elif row[j] != 0.0:
            weights = net.first[j]
            for u in range(len(out)):
                out[u] += row[j] * weights[u]


@compiled
def move_feature(net: Layers, values: Floats, j: int, old: float, new: float) -> None:
    """Update the pre-activations of the first layer for a new value of one feature."""
    out, begin = values[: net.widths[0]], net.begins[j]
    if begin >= 0:
        before, after = net.tables[begin + np.int64(old)], net.tables[begin + np.int64(new)]
        for u in range(len(out)):
            out[u] += after[u] - before[u]
    else:
        step, weights = new - old, net.first[j]
        for u in range(len(out)):
            out[u] += step * weights[u]


@compiled
def forward(net: Layers, values: Floats) -> None:
    """All later layers from the pre-activations of the first; the scores come last."""
    # indices into slices need no test for being negative, so that loops over them use vector instructions
    for layer in range(len(net.leak)):
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        width, leak = net.widths[layer + 1], net.leak[layer]
        units, out = values[begin:after], values[after:end]
        biases = net.biases[after - net.widths[0] : end - net.widths[0]]
        for q in range(width):
            out[q] = biases[q]
        if layer == len(net.leak) - 1:
            for k in range(width):
                weights, total = net.last[k], 0.0
                for u in range(len(units)):
                    value = units[u]
                    total += (value if value > 0.0 else leak * value) * weights[u]
                out[k] += total
            return
        at = net.offsets[layer]
        for u in range(len(units)):
            value = units[u] if units[u] > 0.0 else leak * units[u]
            if value != 0.0:
                weights = net.weights[at : at + width]
                for q in range(width):
                    out[q] += value * weights[q]
            at += width


@compiled
def activate(net: Layers, row: Floats, values: Floats) -> None:
    """The pre-activations of all layers of a row; the scores come last."""
    first_layer(net, row, values)
    forward(net, values)


def rounding(net: Layers, low: Floats, high: Floats) -> float:
    """A bound on the rounding of scores anywhere between two rows: the sum of the absolute values of all their terms,
    times the number of operations on each and the precision of doubles."""
    mass = np.abs(net.bias) + np.where(net.begins < 0, np.maximum(np.abs(low), np.abs(high)), 0.0) @ np.abs(net.first)
    tables = [*(begin for begin in net.begins.tolist() if begin >= 0), len(net.tables)]
    for begin, end in itertools.pairwise(tables):
        mass = mass + np.abs(net.tables[begin:end]).max(axis=0)
    for layer, offset in enumerate(net.offsets.tolist()):
        units, after = net.units[layer + 1] - net.widths[0], net.units[layer + 2] - net.widths[0]
        weights = net.weights[offset : offset + net.widths[layer] * net.widths[layer + 1]]
        mass = mass @ np.abs(weights).reshape(net.widths[layer], -1) + np.abs(net.biases[units:after])
    return float(ALLOWANCE * (len(low) + net.units[-1]) * np.finfo(np.float64).eps * mass.max())


@compiled
def sort_by(keys: Floats, sign: float, order: Ints, count: int) -> None:
    """Shell sort of the first indices in `order` by rising keys, or falling ones if the sign is -1; equal ones by
    index."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for a in range(gap, count):
            index, b = order[a], a
            key = sign * keys[index]
            while b >= gap and (
                sign * keys[order[b - gap]] > key or (sign * keys[order[b - gap]] == key and order[b - gap] > index)
            ):
                order[b] = order[b - gap]
                b -= gap
            order[b] = index
        gap //= 3


@inlined
def through(net: Layers, layer: int, on: Bools, change: Floats, out: Floats) -> None:
    """The changes (units of the next layer) that changes of the pre-activations of a hidden layer make, while its
    units are on or off."""
    width, following, leak = net.widths[layer], net.widths[layer + 1], net.leak[layer]
    units = on[net.units[layer] : net.units[layer + 1]]
    if layer == len(net.leak) - 1:
        for k in range(following):
            weights, total = net.last[k], 0.0
            for u in range(width):
                total += (change[u] if units[u] else leak * change[u]) * weights[u]
            out[k] = total
        return
    for q in range(following):
        out[q] = 0.0
    at = net.offsets[layer]
    for u in range(width):
        moved = change[u] if units[u] else leak * change[u]
        if moved != 0.0:
            weights = net.weights[at : at + following]
            for q in range(following):
                out[q] += moved * weights[q]
        at += following


@inlined
def bound_change(net: Layers, start: Floats, j: int, step: float, lower: Floats, upper: Floats, work: Scratch) -> None:
    """Bounds on the change of each score while feature j moves by up to a step: interval arithmetic after the first
    layer, each unit of which changes in one direction only."""
    hidden = len(net.leak)
    low, high, next_low, next_high = work.delta[0], work.delta[1], work.delta[2], work.delta[3]
    weights = net.first[j]
    for u in range(net.widths[0]):
        value = start[u] + step * weights[u]
        low[u], high[u] = min(value, start[u]) - start[u], max(value, start[u]) - start[u]
    for layer in range(hidden):
        units, leak, width = start[net.units[layer] : net.units[layer + 1]], net.leak[layer], net.widths[layer + 1]
        for u in range(len(units)):  # through the ReLU
            value = units[u]
            here = value if value > 0.0 else leak * value
            value = units[u] + low[u]
            low[u] = (value if value > 0.0 else leak * value) - here
            value = units[u] + high[u]
            high[u] = (value if value > 0.0 else leak * value) - here
        for q in range(width):
            next_low[q] = next_high[q] = 0.0
        at = net.offsets[layer]
        for u in range(len(units)):
            fall, rise = low[u], high[u]
            row = net.weights[at : at + width]
            if fall != 0.0 and rise != 0.0:
                for q in range(width):
                    one, other = fall * row[q], rise * row[q]
                    next_low[q] += min(one, other)
                    next_high[q] += max(one, other)
            elif fall + rise != 0.0:
                for q in range(width):
                    one = (fall + rise) * row[q]
                    next_low[q] += min(one, 0.0)
                    next_high[q] += max(one, 0.0)
            at += width
        low, next_low = next_low, low
        high, next_high = next_high, high
    for k in range(net.widths[hidden]):
        lower[k], upper[k] = low[k], high[k]


@inlined
def first_slopes(net: Layers, start: Floats, j: int, direction: float, work: Scratch) -> None:
    """The slopes of all units along feature j at a row, and which units are on when it moves in a direction."""
    slopes, on, weights = work.slopes, work.on, net.first[j]
    for u in range(net.widths[0]):
        slopes[u] = direction * weights[u]
    for layer in range(len(net.leak)):
        begin, after = net.units[layer], net.units[layer + 1]
        for u in range(begin, after):
            on[u] = start[u] > 0.0 or (start[u] == 0.0 and slopes[u] > 0.0)
        through(net, layer, on, slopes[begin:after], slopes[after : net.units[layer + 2]])


@inlined
def walk(
    net: Layers, start: Floats, j: int, direction: float, reach: float, places: Floats, scores: Floats, work: Scratch
) -> int:
    """The scores along feature j, a number, from a row whose pre-activations are `start`, in a direction (1 or -1), up
    to a distance. Writes the breakpoints as distances in rising order, from 0 to `reach`, and the scores (breakpoints,
    classes) there, between which they are linear. Returns how many; -1 if there is no room for all."""
    hidden = len(net.leak)
    values, slopes, classes = work.values, work.slopes, net.widths[hidden]
    first_slopes(net, start, j, direction, work)
    for u in range(net.units[-1]):
        values[u] = start[u]
    for layer in range(hidden + 1):
        work.base[layer] = 0.0
    last_values, last_slopes = values[net.units[hidden] :], slopes[net.units[hidden] :]
    places[0] = 0.0
    for k in range(classes):
        scores[0, k] = last_values[k]
    count, here, layer = 1, 0.0, 0
    work.end[0] = reach
    while True:
        while layer < hidden:  # down: the switches of each layer within the piece of the layer before it
            collect(net, work, layer, here)
            layer += 1
        step = work.end[hidden] - here
        if step > 0.0:
            here = work.end[hidden]
            if count == len(places):
                return -1
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
    values, slopes, on = work.values[begin:after], work.slopes[begin:after], work.on[begin:after]
    crossing, crosser = work.crossing[begin:after], work.crosser[begin:after]
    base, end = work.base[layer], work.end[layer]
    passed, some = end - base, 0
    for u in range(len(values)):
        some += on[u] != (values[u] + slopes[u] * passed > 0.0)
    found = 0
    if some > 0:
        for u in range(len(values)):  # without branches, which would be mispredicted half of the time
            slope = slopes[u]
            at = max(here, base - values[u] / slope)
            crossing[u], crosser[found] = at, u
            found += ((slope < 0.0) == on[u]) & (slope != 0.0) & (at < end)
        sort_by(crossing, 1.0, crosser, found)
    work.crossings[layer], work.next[layer] = found, 0
    work.end[layer + 1] = crossing[crosser[0]] if found else end


@inlined
def switch(net: Layers, work: Scratch, layer: int, here: float) -> None:
    """The next unit of a layer switches: change the slopes of all later layers, after bringing their values here."""
    hidden, on = len(net.leak), work.on
    begin, width = net.units[layer], net.widths[layer + 1]
    unit = work.crosser[begin + work.next[layer]]
    work.next[layer] += 1
    on[begin + unit] = not on[begin + unit]
    slope = work.slopes[begin + unit]
    change = (1.0 - net.leak[layer]) * (slope if on[begin + unit] else -slope)
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
            through(net, later, on, delta, work.delta[1 - turn])
        turn = 1 - turn


walk_alone = compiled(walk.py_func)  # type: ignore[attr-defined]
"""`walk`, to be called from Python."""
