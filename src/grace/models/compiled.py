"""ReLU networks in compiled code: their layers as arrays, and their scores."""

from __future__ import annotations

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
BLOCK = 64  # rows whose layers are computed together


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
    positive: Floats  # the weights with zeros for the negative ones,
    negative: Floats  # and for the positive ones
    last: Floats  # (scores, units of the last hidden layer), the weights of the last layer
    biases: Floats  # of the units of the later layers
    leak: Floats  # (H,) the slope below zero
    steepest: Floats  # (features,) a bound on the slope of any score, or difference of scores, along each number
    group: int  # scores of each network, where several of them stand side by side
    linear: Floats  # (features, e) of linear functions of the row, whose values come after the scores: their factors,
    linear_tables: Floats  # (entries, e) what each category adds,
    linear_bias: Floats  # (e,) and constants


def layers_of(
    weight: Floats,
    bias: Floats,
    tables: Mapping[int, Floats],
    later: Sequence[tuple[Floats, Floats]],
    leak: Sequence[float] | None = None,
    networks: int = 1,
) -> Layers:
    """Weights (h, features) and biases of the first layer, a table (categories, h) per category, and weights and biases
    of the later layers; the scores are those of so many networks."""
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
        leak=np.zeros(len(later)) if leak is None else np.asarray(leak, dtype=np.float64),
        steepest=(1 if len(steepest) == networks else 2) * steepest.max(axis=0),
        group=int(widths[-1]) // networks,
        linear=np.zeros((weight.shape[1], 0)),
        linear_tables=np.zeros((len(entries), 0)),
        linear_bias=np.zeros(0),
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
    if len(net.linear_bias) > 0:
        linear_functions(net, row, values)


@compiled
def linear_functions(net: Layers, row: Floats, values: Floats) -> None:
    """The values of the linear functions of a row, which come after the scores."""
    out = values[net.units[-1] : net.units[-1] + len(net.linear_bias)]
    for u in range(len(out)):
        out[u] = net.linear_bias[u]
    for j in range(len(row)):
        begin = net.begins[j]
        if begin >= 0:
            entry = net.linear_tables[begin + np.int64(row[j])]
            for u in range(len(out)):
                out[u] += entry[u]
        else:
            factors = net.linear[j]
            for u in range(len(out)):
                out[u] += row[j] * factors[u]


@compiled
def move_linear(net: Layers, values: Floats, j: int, old: float, new: float) -> None:
    """Update the values of the linear functions for a new value of one feature."""
    out, begin = values[net.units[-1] : net.units[-1] + len(net.linear_bias)], net.begins[j]
    if begin >= 0:
        before, after = net.linear_tables[begin + np.int64(old)], net.linear_tables[begin + np.int64(new)]
        for u in range(len(out)):
            out[u] += after[u] - before[u]
    else:
        step, factors = new - old, net.linear[j]
        for u in range(len(out)):
            out[u] += step * factors[u]


@inlined
def copy_row(net: Layers, values: Floats, out: Floats) -> None:
    """Copy the first layer of a row, and the values of its linear functions."""
    for u in range(net.widths[0]):
        out[u] = values[u]
    for u in range(net.units[-1], net.units[-1] + len(net.linear_bias)):
        out[u] = values[u]


@compiled
def move_feature(net: Layers, values: Floats, j: int, old: float, new: float) -> None:
    """Update the pre-activations of the first layer, and the linear functions, for a new value of one feature."""
    out, begin = values[: net.widths[0]], net.begins[j]
    if begin >= 0:
        before, after = net.tables[begin + np.int64(old)], net.tables[begin + np.int64(new)]
        for u in range(len(out)):
            out[u] += after[u] - before[u]
    else:
        step, weights = new - old, net.first[j]
        for u in range(len(out)):
            out[u] += step * weights[u]
    if len(net.linear_bias) > 0:
        move_linear(net, values, j, old, new)


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
def forward_block(net: Layers, values: Floats, active: Floats, rows: int) -> None:
    """All later layers of some rows from the pre-activations (units, BLOCK) of the first; the scores come last. Rows
    are the fast axis: no step depends on the data. Four units of the next layer are computed together, from the
    activations of two units of the layer at a time, so that each is loaded for four sums, and a sum stored half as
    often. `active` (widest layer, BLOCK) is room for the activations of a layer."""
    for layer in range(len(net.leak)):
        begin, after, width, leak = net.units[layer], net.units[layer + 1], net.widths[layer + 1], net.leak[layer]
        count, biases = after - begin, net.biases[after - net.widths[0] :]
        for u in range(count):
            unit, out = values[begin + u], active[u]
            for c in range(rows):
                out[c] = unit[c] if unit[c] > 0.0 else leak * unit[c]
        for q in range(0, width - width % 4, 4):
            o0, o1, o2, o3 = values[after + q], values[after + q + 1], values[after + q + 2], values[after + q + 3]
            bias, at = biases[q : q + 4], net.offsets[layer] + q
            for c in range(rows):
                o0[c], o1[c], o2[c], o3[c] = bias[0], bias[1], bias[2], bias[3]
            for u in range(0, count - count % 2, 2):
                a, b = active[u], active[u + 1]
                v, w = net.weights[at : at + 4], net.weights[at + width : at + width + 4]
                v0, v1, v2, v3, w0, w1, w2, w3 = v[0], v[1], v[2], v[3], w[0], w[1], w[2], w[3]
                for c in range(rows):
                    x, y = a[c], b[c]
                    o0[c] += x * v0 + y * w0
                    o1[c] += x * v1 + y * w1
                    o2[c] += x * v2 + y * w2
                    o3[c] += x * v3 + y * w3
                at += 2 * width
            if count % 2 == 1:
                a, v = active[count - 1], net.weights[at : at + 4]
                v0, v1, v2, v3 = v[0], v[1], v[2], v[3]
                for c in range(rows):
                    x = a[c]
                    o0[c] += x * v0
                    o1[c] += x * v1
                    o2[c] += x * v2
                    o3[c] += x * v3
        for q in range(width - width % 4, width):
            out, at = values[after + q], net.offsets[layer] + q
            for c in range(rows):
                out[c] = biases[q]
            for u in range(count):
                a, weight = active[u], net.weights[at]
                for c in range(rows):
                    out[c] += a[c] * weight
                at += width


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
