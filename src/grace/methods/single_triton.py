"""Nearest single changes of ReLU networks on a GPU, in Triton kernels: numbers along their exact lines.

First the lines of each row are bounded: most cannot reach the goal. The others are walked from breakpoint to
breakpoint, each by a program of its own: which units are on is kept, and units that switch at the same place are taken
one after another, without tolerances. `methods.compiled.lines` does the same on a CPU. The kernels look for answers and
prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.methods.decimals_triton import decimal_beyond
from grace.models.gpu_layout import GpuLayout
from grace.models.kernels import A_WARP, runs
from grace.problem.decimals import tens

ROUNDING = tl.constexpr(1e-9)  # of a bound, relative to it
PART = tl.constexpr(16)  # units of the first layer that are read at a time
MORE_DIGITS = tl.constexpr(6)  # how many digits beyond the usual ones a value may get if nothing coarser works
PIECES = tl.constexpr(1 << 14)  # of a line, at most


def works(packed: GpuLayout) -> bool:
    """Whether the kernels can be compiled and run here, tried on one row."""
    row, feature = packed.first.new_zeros(1, packed.first.shape[0]), packed.first[:, 0]
    none = torch.zeros(1, dtype=torch.int64, device=row.device)
    walked = Lines(packed, packed.bias[None], row, row, row + 1, row == 0, none, True, 1.0)

    def trial() -> None:
        walked.bounded(none)
        walked.walked(none, none, (feature, none.expand(len(feature)).contiguous(), feature > 0))

    return runs(trial, packed.first.device)


@dataclass(frozen=True)
class Lines:
    """The lines of rows: two of each feature, upwards and downwards. The goal is any class but `key` (n,) by the
    tolerance if it is a `flip`, else that class. `start` (n, A) is the first layer of the rows."""

    packed: GpuLayout
    start: Tensor
    rows: Tensor
    low: Tensor
    high: Tensor
    free: Tensor
    key: Tensor
    flip: bool
    tolerance: float

    def bounded(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The rows and lines (2 features, + 1 for the downward ones) of some features that may reach the goal."""
        n, d = self.rows.shape
        alive = torch.empty(n, 2 * len(features), dtype=torch.int8, device=self.rows.device)
        packed = self.packed
        _bounded[(n,)](
            *self._network(), self.start, *self._cells(), features, self.key, alive, len(features), d,
            num_warps=2 * max(1, packed.largest // A_WARP), **self._settings(),
        )  # fmt: skip
        row, place = torch.nonzero(alive, as_tuple=True)
        return row, 2 * features[place // 2] + place % 2

    def walked(self, row: Tensor, line: Tensor, columns: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The nearest value of each line that reaches the goal, infinite if there is none, and its cost. `columns` are
        the cost of a unit of each feature, its usual digits, and whether it is a whole number."""
        value = torch.full_like(line, torch.inf, dtype=torch.float64)
        if len(line) == 0:
            return value, value
        _walked[(len(line),)](
            *self._network(), self.start, *self._cells(), *columns[1:], self.key, tens(self.rows.device), row, line,
            value, self.rows.shape[1], num_warps=1, **self._settings(),
        )  # fmt: skip
        feature = line // 2
        return value, columns[0][feature] * (value - self.rows[row, feature]).abs()

    def _network(self) -> tuple[Tensor, ...]:
        packed = self.packed
        return (
            packed.first, packed.second_turned, packed.second_bias, packed.middle_turned, packed.middle_bias,
            packed.last, packed.last_bias,
        )  # fmt: skip

    def _cells(self) -> tuple[Tensor, ...]:
        return tuple(t.contiguous() for t in (self.rows, self.low, self.high, self.free))

    def _settings(self) -> dict[str, Any]:
        (a, b), packed = self.packed.units, self.packed
        sizes = {"LAYERS": packed.layers, "C": len(packed.last), "A": a, "B": b}
        return {"TOLERANCE": self.tolerance, "FLIP": self.flip, "num_stages": 1, **sizes}


def singles(lines: Lines, features: Tensor, columns: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The cost (n,), infinite if there is none, the feature, -1 if there is none, and the value of the nearest change
    of one of the features that brings each row to its goal; of equally near ones that of the first feature."""
    row, line = lines.bounded(features)
    value, price = lines.walked(row, line, columns)
    cost = value.new_full((len(lines.rows),), torch.inf).scatter_reduce(0, row, price, "amin")
    best = (price == cost[row]) & (price < torch.inf)
    none = 2 * lines.rows.shape[1]
    first = line.new_full(cost.shape, none).scatter_reduce(0, row, torch.where(best, line, none), "amin")
    best &= line == first[row]
    found = torch.zeros_like(cost).index_put((row[best],), value[best])
    return cost, torch.where(first < none, first // 2, -1), found


@triton.jit
def _vector(ptr, b):
    """A vector as sums of columns are laid out in registers: Triton cannot compile loops in which both layouts meet."""
    return tl.sum(tl.load(ptr + b[None, :]), axis=0)


@triton.jit
def _gap(begin, end):
    """By how much a ReLU lies at most below its chord, between two values of a straight line."""
    apart = tl.abs(begin) + tl.abs(end)
    return tl.where(begin * end < 0, -begin * end / tl.where(apart > 0, apart, 1.0), 0.0)


@triton.jit
def _largest(low, high, gap, weight, bias):
    """A bound on the margin at one end of a line, from bounds on the last layer before its ReLU; `weight` (C, B) and
    `bias` are the leads that count."""
    most, least = tl.maximum(high, 0.0), tl.maximum(low, 0.0) - gap
    return tl.sum(weight * tl.where(weight > 0, most[None, :], least[None, :]), axis=1) + bias


@triton.jit
def _bounded(
    first_ptr, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr, last_bias_ptr,
    start_ptr, row_ptr, low_ptr, high_ptr, free_ptr, features_ptr, key_ptr, alive_ptr, features, d,
    TOLERANCE: tl.constexpr, FLIP: tl.constexpr, LAYERS: tl.constexpr, C: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    infinite = tl.full([], float("inf"), tl.float64)
    key, start = tl.load(key_ptr + i), tl.load(start_ptr + i * A + a)
    # leads over class `key`, or of it
    key_row, key_bias = tl.load(last_ptr + key * B + b), tl.load(last_bias_ptr + key)
    last, last_bias = tl.load(last_ptr + c[:, None] * B + b[None, :]), tl.load(last_bias_ptr + c)
    others = (last_bias > -infinite) & (c != key)
    last_bias = tl.where(others, last_bias, 0.0)
    leads = (last - key_row[None, :]) if FLIP else (key_row[None, :] - last)
    leads_bias = (last_bias - key_bias) if FLIP else (key_bias - last_bias)
    if LAYERS > 1:
        second_bias = tl.load(second_bias_ptr + b)
        second = tl.load(second_ptr + a[:, None] * B + b[None, :])
    for line in range(2 * features):
        j, sign = tl.load(features_ptr + line // 2), tl.where(line % 2 == 0, 1.0, -1.0)
        x, low, high = tl.load(row_ptr + i * d + j), tl.load(low_ptr + i * d + j), tl.load(high_ptr + i * d + j)
        begin, reach = tl.where(sign > 0, low - x, x - high), tl.where(sign > 0, high - x, x - low)
        begin = tl.maximum(begin, 0.0)
        alive = tl.load(free_ptr + i * d + j).to(tl.int1) & (reach > 0) & (reach >= begin)
        if alive:
            slope = sign * tl.load(first_ptr + j * A + a)
            low_a, low_e = start + begin * slope, start + reach * slope
            high_a, high_e = low_a, low_e
            if LAYERS > 1:
                # what the next layer can be at both ends: its inputs lie between their chords and so much below these
                gap = _gap(low_a, low_e)
                here = tl.sum(second * tl.maximum(low_a, 0.0)[:, None], axis=0) + second_bias
                there = tl.sum(second * tl.maximum(low_e, 0.0)[:, None], axis=0) + second_bias
                net = tl.sum(second * gap[:, None], axis=0)
                whole = tl.sum(tl.abs(second) * gap[:, None], axis=0)
                above, below = 0.5 * (whole - net), 0.5 * (whole + net)  # of negative weights, and of positive ones
                low_b, low_f, high_b, high_f = here - below, there - below, here + above, there + above
            else:
                low_b, low_f, high_b, high_f = low_a, low_e, high_a, high_e
            for layer in tl.static_range(LAYERS - 2):
                weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
                bias, gap = _vector(middle_bias_ptr + layer * B, b), _gap(low_b, low_f)
                least_b, most_b = (tl.maximum(low_b, 0.0) - gap)[:, None], tl.maximum(high_b, 0.0)[:, None]
                least_f, most_f = (tl.maximum(low_f, 0.0) - gap)[:, None], tl.maximum(high_f, 0.0)[:, None]
                low_b = tl.sum(weight * tl.where(weight > 0, least_b, most_b), axis=0) + bias
                high_b = tl.sum(weight * tl.where(weight > 0, most_b, least_b), axis=0) + bias
                low_f = tl.sum(weight * tl.where(weight > 0, least_f, most_f), axis=0) + bias
                high_f = tl.sum(weight * tl.where(weight > 0, most_f, least_f), axis=0) + bias
            gap = _gap(low_b, low_f)
            bound = tl.maximum(
                _largest(low_b, high_b, gap, leads, leads_bias), _largest(low_f, high_f, gap, leads, leads_bias)
            )
            if FLIP:
                bound = tl.max(tl.where(others, bound, -infinite), axis=0)
            else:
                bound = tl.min(tl.where(others, bound, infinite), axis=0)
            alive = bound + ROUNDING * tl.abs(bound) >= TOLERANCE
        tl.store(alive_ptr + i * 2 * features + line, alive.to(tl.int8))


@triton.jit
def _walked(
    first_ptr, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr, last_bias_ptr,
    start_ptr, row_ptr, low_ptr, high_ptr, free_ptr, digits_ptr, whole_ptr, key_ptr, tens_ptr, which_ptr, line_ptr,
    value_ptr, d,
    TOLERANCE: tl.constexpr, FLIP: tl.constexpr, LAYERS: tl.constexpr, C: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    i, line = tl.load(which_ptr + program), tl.load(line_ptr + program)
    j = line // 2
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    infinite, one = tl.full([], float("inf"), tl.float64), tl.full([], 1.0, tl.float64)
    sign = tl.where(line % 2 == 0, one, -one)
    key = tl.load(key_ptr + i)
    last, last_bias = tl.load(last_ptr + c[:, None] * B + b[None, :]), tl.load(last_bias_ptr + c)
    real = last_bias > -infinite
    last_bias = tl.where(real, last_bias, 0.0)
    counts = real & ((c != key) if FLIP else (c == key))
    rivals = (c[:, None] != c[None, :]) & real[None, :]
    x, low, high = tl.load(row_ptr + i * d + j), tl.load(low_ptr + i * d + j), tl.load(high_ptr + i * d + j)
    digits, whole = tl.load(digits_ptr + j), tl.load(whole_ptr + j).to(tl.int1)
    reach = tl.where(sign > 0, high - x, x - low)
    t = tl.maximum(tl.where(sign > 0, low - x, x - high), 0.0)
    # the first layer where the line begins, and where its units switch
    slope = sign * tl.load(first_ptr + j * A + a)
    z = tl.load(start_ptr + i * A + a) + t * slope
    on = (z > 0) | ((z == 0) & (slope > 0))
    turns = ((z > 0) & (slope < 0)) | ((z < 0) & (slope > 0))
    event = tl.where(turns, t - z / tl.where(turns, slope, one), infinite)
    # a later layer changes by v + (t' - t) s up to the next place where a unit of the layers before it switches
    if LAYERS > 1:
        v, s = _vector(second_bias_ptr, b), _vector(second_bias_ptr, b) * 0
        part = tl.arange(0, PART)
        for begin in range(0, A, PART):  # few registers
            some = begin + part
            slopes = sign * tl.load(first_ptr + j * A + some)
            values = tl.load(start_ptr + i * A + some) + t * slopes
            active = (values > 0) | ((values == 0) & (slopes > 0))
            second = tl.load(second_ptr + some[:, None] * B + b[None, :])
            v += tl.sum(second * tl.where(active, values, 0.0)[:, None], axis=0)
            s += tl.sum(second * tl.where(active, slopes, 0.0)[:, None], axis=0)
    else:
        v, s = z, slope
    bits = ((v > 0) | ((v == 0) & (s > 0))).to(tl.int32)
    h, g = v, s
    for layer in tl.static_range(LAYERS - 2):
        active = ((bits >> layer) & 1) > 0
        weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
        h = tl.sum(weight * tl.where(active, h, 0.0)[:, None], axis=0) + _vector(middle_bias_ptr + layer * B, b)
        g = tl.sum(weight * tl.where(active, g, 0.0)[:, None], axis=0)
        bits |= ((h > 0) | ((h == 0) & (g > 0))).to(tl.int32) << (layer + 1)
    going = t <= reach
    found, since, until, candidate = infinite, infinite, t, infinite
    winner, pieces = tl.full([], -1, tl.int32), 0
    while going:
        # where the next unit switches, of the first layer and of a later one
        switch, late, unit_a, flips = infinite, infinite, tl.full([], 0, tl.int32), 0 * bits
        if LAYERS > 1:
            switch, unit_a = tl.min(event, axis=0, return_indices=True)
        h, g = v, s
        for layer in tl.static_range(LAYERS - 1 if LAYERS > 1 else 1):
            active = ((bits >> layer) & 1) > 0
            turns_b = (active & (g < 0)) | ((~active) & (g > 0))
            wait = tl.where(turns_b, tl.maximum(-h / tl.where(turns_b, g, one), 0.0), infinite)
            soonest = tl.min(wait, axis=0)
            flips = tl.where(t + soonest < late, (wait == soonest).to(tl.int32) << layer, flips)
            late = tl.minimum(late, t + soonest)
            h, g = tl.where(active, h, 0.0), tl.where(active, g, 0.0)
            if layer < LAYERS - 2:
                weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
                h = tl.sum(weight * h[:, None], axis=0) + _vector(middle_bias_ptr + layer * B, b)
                g = tl.sum(weight * g[:, None], axis=0)
        end = tl.minimum(tl.minimum(switch, late), reach)
        # where on this piece each class reaches the goal, and where it leaves it: leads are straight lines
        score, rise = tl.sum(last * h[None, :], axis=1) + last_bias, tl.sum(last * g[None, :], axis=1)
        lead, grow = score[:, None] - score[None, :] - TOLERANCE, rise[:, None] - rise[None, :]
        cross = -lead / tl.where(grow == 0, one, grow)
        enter = tl.where(lead >= 0, 0.0, tl.where(grow > 0, cross, infinite))
        leave = tl.where(grow < 0, cross, tl.where((lead >= 0) | (grow > 0), infinite, -infinite))
        enters = t + tl.max(tl.where(rivals, enter, 0.0), axis=1)
        leaves = t + tl.min(tl.where(rivals, leave, infinite), axis=1)
        open_ = counts & (enters <= leaves) & (enters <= end)
        # a span that goes on is that of its own class
        spans = since < infinite
        open_ = open_ & (((c == winner) & (enters <= t)) | (not spans))
        at, who = tl.min(tl.where(open_, enters, infinite), axis=0, return_indices=True)
        hit = at < infinite
        if hit:
            until = tl.minimum(tl.sum(tl.where(c == who, leaves, 0.0), axis=0), end)
            if not spans:
                since, winner = at, who
                candidate = decimal_beyond(tens_ptr, digits, whole, x, x + sign * since, sign)
        spans = since < infinite
        closed = spans & ((not hit) | (until < end) | (end >= reach))
        away = sign * (candidate - x)
        if spans & (away >= since) & (away <= until) & (candidate >= low) & (candidate <= high):
            found = candidate
        elif closed:
            # the span has no number with the usual digits
            for more in range(1, MORE_DIGITS + 1):
                number = decimal_beyond(tens_ptr, digits + more, whole, x, x + sign * since, sign)
                away = sign * (number - x)
                fits = (found == infinite) & (away >= since) & (away <= until) & (number >= low) & (number <= high)
                found = tl.where(fits, number, found)
            found = tl.where((found == infinite) & (not whole), x + sign * 0.5 * (since + until), found)
            since = infinite
        # on to the next piece
        pieces += 1
        going = (found == infinite) & (end < reach) & (pieces < PIECES)
        v += (end - t) * s
        early = switch <= late
        if LAYERS > 1:
            mine = a == tl.where(early, unit_a, -1)
            step = tl.sum(tl.where(mine, tl.where(on, -slope, slope), 0.0), axis=0)
            s += step * _vector(second_ptr + tl.where(early, unit_a, 0) * B, b)
            on, event = on ^ mine, tl.where(mine, infinite, event)
        bits = tl.where(early, bits, bits ^ flips)
        t = end
    tl.store(value_ptr + program, found)
