"""ReLU networks in compiled code: their layers as arrays, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core.types import unliteral

from grace.models.vectors import (
    COLUMNS,
    LANES,
    times_activations_2,
    times_activations_4,
    times_block,
    times_block_4,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
plain_type: Callable[[Any], Any] = unliteral
F = TypeVar("F", bound=Callable[..., object])
BLOCK = 64  # rows whose layers are computed together


def compiled(function: F) -> F:
    """Compile on first use, without the GIL; the machine code is cached on disk. Sums may be reordered to use vector
    instructions, which the bounds on rounding allow for; NaN and infinities are respected. No array is allocated
    within, so that none needs to be counted, which would take half of the time."""
    return _jit(function, no_cfunc_wrapper=True)


def inlined(function: F) -> F:
    """The same for a function that is called from compiled code alone, and becomes part of it."""
    return _jit(function, inline="always")


def embedded(function: F) -> F:
    """The same for a short function, whose machine code becomes part of its callers': to pass it the arrays of a
    network would take longer than what it does."""
    return _jit(function, no_cfunc_wrapper=True, forceinline=True)


def _jit(function: F, **options: Any) -> F:
    options |= {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}, "_nrt": False}
    made: Any = numba.njit(**options)(function)
    template = made.get_call_template

    def without_constants(args: Any, named: Any) -> Any:
        return template([plain_type(a) for a in args], {name: plain_type(a) for name, a in named.items()})

    made.get_call_template = without_constants  # else it is compiled once more for each constant that is passed to it
    with suppress(RuntimeError):  # nowhere may be written to: then every process compiles anew
        made.enable_caching()
    return cast(F, made)


class Layers(NamedTuple):
    """A network of H hidden layers. The units of all layers, the scores last, stand one after another."""

    first: Floats  # (features, h) weights of the numbers
    bias: Floats  # (h,)
    tables: Floats  # (entries, h) of all categories, one table after another, and of missing numbers
    begins: Ints  # (features,) where the table of each begins, -1 for a number
    widths: Ints  # (H + 1,) units of the hidden layers and scores
    units: Ints  # (H + 2,) where the units of each layer begin; the last is their number
    weights: Floats  # of the later layers, each (units, units of the next layer), flat
    offsets: Ints  # (H,) where those of each layer begin
    positive: Floats  # the weights with zeros for the negative ones,
    negative: Floats  # and for the positive ones
    last: Floats  # (scores, units of the last hidden layer), the weights of the last layer
    biases: Floats  # of the units of the later layers
    zeros: Floats  # (widest layer,)
    leak: Floats  # (H,) the slope below zero
    steepest: Floats  # (features,) a bound on the slope of any score, or difference of scores, along each number
    missing: Floats  # (features,) the code of a missing cell of a number, NaN where there is none,
    gaps: Ints  # (features,) and the entry of `tables` that it adds
    linear: Any = ()  # linear functions of the row, where more is required than a goal; see `methods.compiled.required`


def layers_of(
    weight: Floats,
    bias: Floats,
    tables: Mapping[int, Floats],
    later: Sequence[tuple[Floats, Floats]],
    leak: Sequence[float] | None = None,
    missing: Mapping[int, tuple[float, Floats]] | None = None,
) -> Layers:
    """Weights (h, features) and biases of the first layer, a table (categories, h) per category, and weights and biases
    of the later layers; of a number that may be missing, the code of that, and what it adds (h,)."""
    missing = missing or {}
    begins = np.full(weight.shape[1], -1, dtype=np.int64)
    count = 0
    for j, table in tables.items():
        begins[j] = count
        count += len(table)
    vectors = [vector[None] for _, vector in missing.values()]
    entries = np.concatenate([np.zeros((0, len(bias))), *tables.values(), *vectors])
    codes, gaps = np.full(weight.shape[1], np.nan), np.full(weight.shape[1], -1, dtype=np.int64)
    codes[list(missing)] = [code for code, _ in missing.values()]
    gaps[list(missing)] = count + np.arange(len(missing))
    widths = np.array([len(bias), *(len(b) for _, b in later)], dtype=np.int64)
    sizes = [w.size for w, _ in later]
    steepest = np.abs(weight)
    for w, _ in later:
        steepest = np.abs(w) @ steepest
    weights = np.concatenate([np.zeros(0), *(w.T.ravel() for w, _ in later)])
    return Layers(
        first=np.ascontiguousarray(weight.T, dtype=np.float64),
        bias=np.ascontiguousarray(bias, dtype=np.float64),
        tables=np.ascontiguousarray(entries, dtype=np.float64),
        begins=begins,
        widths=widths,
        units=np.concatenate([[0], widths.cumsum()]).astype(np.int64),
        weights=weights,
        offsets=np.concatenate([[0], np.cumsum(sizes)])[: len(later)].astype(np.int64),
        positive=np.maximum(weights, 0.0),
        negative=np.minimum(weights, 0.0),
        last=np.ascontiguousarray(later[-1][0]) if later else np.zeros((0, 0)),
        biases=np.concatenate([np.zeros(0), *(b for _, b in later)]),
        zeros=np.zeros(widths.max()),
        leak=np.zeros(len(later)) if leak is None else np.asarray(leak, dtype=np.float64),
        steepest=(1 if len(steepest) == 1 else 2) * steepest.max(axis=0),
        missing=codes,
        gaps=gaps,
    )


@inlined
def first_layer(net: Layers, row: Floats, values: Floats) -> None:
    """The pre-activations of the first layer, into the first of `values`."""
    out = values[: net.widths[0]]
    for u in range(len(out)):
        out[u] = net.bias[u]
    for j in range(len(row)):
        begin = net.begins[j]
        if begin >= 0 or row[j] == net.missing[j]:
            entry = net.tables[begin + np.int64(row[j]) if begin >= 0 else net.gaps[j]]
            for u in range(len(out)):
                out[u] += entry[u]
        elif row[j] != 0.0:
            weights = net.first[j]
            for u in range(len(out)):
                out[u] += row[j] * weights[u]


@embedded
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


@embedded
def forward(net: Layers, values: Floats) -> None:
    """All later layers from the pre-activations of the first; the scores come last."""
    # indices into slices need no test for being negative, so that loops over them use vector instructions
    for layer in range(len(net.leak)):
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        width, leak = net.widths[layer + 1], net.leak[layer]
        units, out = values[begin:after], values[after:end]
        biases = net.biases[after - net.widths[0] : end - net.widths[0]]
        if layer == len(net.leak) - 1:
            for k in range(width):
                weights, total = net.last[k], 0.0
                for u in range(len(units)):
                    value = units[u]
                    total += (value if value > 0.0 else leak * value) * weights[u]
                out[k] = biases[k] + total
            return
        push(net, layer, units, units, leak, biases, out)


@inlined
def push(net: Layers, layer: int, values: Floats, side: Floats, leak: float, begin: Floats, out: Floats) -> None:
    """What a hidden layer makes of values, themselves where `side` is positive, else `leak` times as large: their
    products with the weights to the next layer, added to `begin`. The last vectors may overlap with those before."""
    width, at, q = len(out), net.offsets[layer], 0
    if width >= 4 * LANES:
        while q < width:
            times_activations_4(out, min(q, width - 4 * LANES), begin, values, side, leak, net.weights, at, width)
            q += 4 * LANES
    elif width >= 2 * LANES:
        while q < width:
            times_activations_2(out, min(q, width - 2 * LANES), begin, values, side, leak, net.weights, at, width)
            q += 2 * LANES
    else:
        for q in range(width):
            out[q] = begin[q]
        for u in range(len(values)):
            value, weights = values[u] if side[u] > 0.0 else leak * values[u], net.weights[at : at + width]
            for q in range(width):
                out[q] += value * weights[q]
            at += width


@compiled
def forward_block(net: Layers, values: Floats, active: Floats, rows: int) -> None:
    """All later layers of some rows from the pre-activations (units, BLOCK) of the first; the scores come last. Rows
    are the fast axis: no step depends on the data. Rows beyond the last, up to a whole number of vectors, are computed,
    too. `active` (widest layer, BLOCK) is room for the activations of a layer."""
    for layer in range(len(net.leak)):
        begin, after, width, leak = net.units[layer], net.units[layer + 1], net.widths[layer + 1], net.leak[layer]
        count, bias, at = after - begin, after - net.widths[0], net.offsets[layer]
        for u in range(count):
            unit, out = values[begin + u], active[u]
            for c in range(rows):
                out[c] = unit[c] if unit[c] > 0.0 else leak * unit[c]
        for c in range(0, rows, COLUMNS):
            for q in range(0, width, 4 if width >= 4 else 1):
                if width >= 4:  # the last four may overlap with those before
                    p = min(q, width - 4)
                    times_block_4(
                        values, after + p, c, net.biases, bias + p, active, count, net.weights, at + p, width
                    )  # fmt: skip
                else:
                    times_block(values, after + q, c, net.biases, bias + q, active, count, net.weights, at + q, width)


@compiled
def activate(net: Layers, row: Floats, values: Floats) -> None:
    """The pre-activations of all layers of a row; the scores come last."""
    first_layer(net, row, values)
    forward(net, values)


@compiled
def backward(net: Layers, values: Floats, slopes: Floats) -> None:
    """The gradient of a function of the scores in the pre-activations of every layer, from that in the scores, which
    comes last in `slopes`; `values` are the pre-activations."""
    for back in range(len(net.leak)):
        layer = len(net.leak) - 1 - back
        begin, after, end = net.units[layer], net.units[layer + 1], net.units[layer + 2]
        units, out, later = values[begin:after], slopes[begin:after], slopes[after:end]
        leak, width, at = net.leak[layer], end - after, net.offsets[layer]
        if back == 0:
            for u in range(len(out)):
                out[u] = 0.0
            for k in range(width):
                slope, weights = later[k], net.last[k]
                if slope != 0.0:
                    for u in range(len(out)):
                        out[u] += slope * weights[u]
            for u in range(len(out)):
                out[u] *= 1.0 if units[u] > 0.0 else leak
            continue
        for u in range(len(out)):
            factor = 1.0 if units[u] > 0.0 else leak
            out[u] = factor * dot(net.weights[at : at + width], later) if factor != 0.0 else 0.0
            at += width


@compiled
def dot(a: Floats, b: Floats) -> float:
    """The inner product of vectors of the same length."""
    total = 0.0
    for u in range(len(a)):
        total += a[u] * b[u]
    return total


@inlined
def largest_first(keys: Floats, order: Ints, count: int, most: int) -> int:
    """The indices of the largest of the first keys, falling, into `order`; equal ones by index. How many there are."""
    size = 0
    for index in range(count):
        key = keys[index]
        if size < most or key > keys[order[size - 1]]:
            size = min(size + 1, most)
            place = size - 1
            while place > 0 and keys[order[place - 1]] < key:
                order[place] = order[place - 1]
                place -= 1
            order[place] = index
    return size


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
