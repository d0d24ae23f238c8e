"""Nearest single changes of ReLU networks on a GPU, in one Triton kernel: numbers are followed along their exact lines.

A program takes one row and walks its lines from breakpoint to breakpoint: which units are on is kept, and units that
switch at the same place are taken one after another, without tolerances. Once an answer is known, lines are followed no
further than it costs. `methods.compiled.lines` does the same on a CPU. The kernel looks for answers and proves nothing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.methods.decimals_triton import decimal_beyond, powers
from grace.models.gpu_layout import GpuLayout
from grace.models.kernels import A_WARP, runs
from grace.problem.decimals import tens

MORE_DIGITS = tl.constexpr(6)  # how many digits beyond the usual ones a value may get if nothing coarser works
PIECES = tl.constexpr(1 << 14)  # of a line, at most


def works(packed: GpuLayout) -> bool:
    """Whether the kernel can be compiled and run here, tried on one row."""
    row, feature = packed.first.new_zeros(1, packed.first.shape[0]), packed.first[:, 0]
    none = torch.zeros(1, dtype=torch.int64, device=row.device)

    def trial() -> None:
        columns = (feature, feature.long(), feature > 0)
        singles(packed, packed.bias[None], row, (row, row, row > 0), columns, feature.long(), none, True, 1.0)

    return runs(trial, packed.first.device)


def singles(
    packed: GpuLayout,
    start: Tensor,
    rows: Tensor,
    limits: tuple[Tensor, Tensor, Tensor],
    columns: tuple[Tensor, Tensor, Tensor],
    order: Tensor,
    key: Tensor,
    flip: bool,
    tolerance: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The cost (n,), infinite if there is none, the feature and the value of the nearest single change of each row that
    brings it to its goal by the tolerance: to any class but `key` (n,) if it is a `flip`, else to that class. `start`
    (n, A) is the first layer of the rows, `limits` are the lowest and highest values and whether a cell may change,
    `columns` the cost of a unit of each feature, its usual digits, and whether it is a whole number; features are
    looked at in some `order`."""
    n, d = rows.shape
    cost, value = torch.full_like(start[:, 0], torch.inf), torch.zeros_like(start[:, 0])
    feature = torch.full((n,), -1, dtype=torch.int64, device=rows.device)
    low, high, free = (t.contiguous() for t in limits)
    a, b = packed.units
    _singles[(n,)](
        packed.first, packed.second_turned, packed.second_bias, packed.middle_turned, packed.middle_bias, packed.last,
        packed.last_bias, start, rows.contiguous(), low, high, free, *columns, order, key, tens(rows.device),
        cost, feature, value, len(order), d,
        TOLERANCE=tolerance, FLIP=flip, LAYERS=packed.layers, C=len(packed.last), A=a, B=b,
        num_warps=max(1, packed.largest // A_WARP), num_stages=1,
    )  # fmt: skip
    return cost, feature, value


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
def _singles(
    first_ptr, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr, last_bias_ptr,
    start_ptr, row_ptr, low_ptr, high_ptr, free_ptr, unit_ptr, digits_ptr, whole_ptr, order_ptr, key_ptr, tens_ptr,
    cost_ptr, feature_ptr, value_ptr, features, d,
    TOLERANCE: tl.constexpr, FLIP: tl.constexpr, LAYERS: tl.constexpr, C: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    infinite, one = tl.full([], float("inf"), tl.float64), tl.full([], 1.0, tl.float64)
    key, start = tl.load(key_ptr + i), tl.load(start_ptr + i * A + a)
    second_bias = tl.load(second_bias_ptr + b)
    last, last_bias = tl.load(last_ptr + c[:, None] * B + b[None, :]), tl.load(last_bias_ptr + c)
    real = last_bias > -infinite
    last_bias = tl.where(real, last_bias, 0.0)
    counts = real & ((c != key) if FLIP else (c == key))
    rivals = (c[:, None] != c[None, :]) & real[None, :]
    # leads over class `key`, or of it
    key_row = tl.load(last_ptr + key * B + b)
    leads = (last - key_row[None, :]) if FLIP else (key_row[None, :] - last)
    key_bias = tl.load(last_bias_ptr + key)
    leads_bias = (last_bias - key_bias) if FLIP else (key_bias - last_bias)
    best, best_feature, best_value = infinite, tl.full([], -1, tl.int64), tl.full([], 0.0, tl.float64)
    for line in range(2 * features):
        j = tl.load(order_ptr + line // 2)
        sign = tl.where(line % 2 == 0, one, -one)
        x, low, high = tl.load(row_ptr + i * d + j), tl.load(low_ptr + i * d + j), tl.load(high_ptr + i * d + j)
        unit, whole = tl.load(unit_ptr + j), tl.load(whole_ptr + j).to(tl.int1)
        digits, free = tl.load(digits_ptr + j), tl.load(free_ptr + i * d + j).to(tl.int1)
        up, down = powers(tens_ptr, digits, whole, tl.abs(x))
        far = tl.where(sign > 0, high - x, x - low)
        t = tl.maximum(tl.where(sign > 0, low - x, x - high), 0.0)
        # no further than the best answer costs, and a step, in which the first decimal number lies
        reach = tl.where(unit > 0, tl.minimum(far, best / tl.where(unit > 0, unit, one) + down / up), far)
        going = free & (reach > 0) & (reach >= t)
        # the first layer where the line begins, and where its units switch
        slope = sign * tl.load(first_ptr + j * A + a)
        z = start + t * slope
        on = (z > 0) | ((z == 0) & (slope > 0))
        turns = ((z > 0) & (slope < 0)) | ((z < 0) & (slope > 0))
        event = tl.where(turns, t - z / tl.where(turns, slope, one), infinite)
        # a later layer changes by v + (t' - t) s up to the next place where a unit of the layers before it switches
        ahead = start + reach * slope
        if LAYERS > 1:
            second = tl.load(second_ptr + a[:, None] * B + b[None, :], mask=going, other=0.0)
            v = tl.sum(second * tl.where(on, z, 0.0)[:, None], axis=0) + second_bias
            s = tl.sum(second * tl.where(on, slope, 0.0)[:, None], axis=0)
            # what the next layer can be at both ends: its inputs lie between their chords and so much below these
            gap = _gap(z, ahead)
            there = tl.sum(second * tl.maximum(ahead, 0.0)[:, None], axis=0) + second_bias
            above = tl.sum(tl.where(second < 0, -second, 0.0) * gap[:, None], axis=0)
            below = tl.sum(tl.where(second > 0, second, 0.0) * gap[:, None], axis=0)
            low_a, low_e, high_a, high_e = v - below, there - below, v + above, there + above
        else:
            v, s = z, slope
            low_a, low_e, high_a, high_e = z, ahead, z, ahead
        bits = ((v > 0) | ((v == 0) & (s > 0))).to(tl.int32)
        h, g = v, s
        for layer in tl.static_range(LAYERS - 2):
            active = ((bits >> layer) & 1) > 0
            weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
            bias = _vector(middle_bias_ptr + layer * B, b)
            h = tl.sum(weight * tl.where(active, h, 0.0)[:, None], axis=0) + bias
            g = tl.sum(weight * tl.where(active, g, 0.0)[:, None], axis=0)
            bits |= ((h > 0) | ((h == 0) & (g > 0))).to(tl.int32) << (layer + 1)
            gap = _gap(low_a, low_e)
            least_a, most_a = (tl.maximum(low_a, 0.0) - gap)[:, None], tl.maximum(high_a, 0.0)[:, None]
            least_e, most_e = (tl.maximum(low_e, 0.0) - gap)[:, None], tl.maximum(high_e, 0.0)[:, None]
            low_a = tl.sum(weight * tl.where(weight > 0, least_a, most_a), axis=0) + bias
            high_a = tl.sum(weight * tl.where(weight > 0, most_a, least_a), axis=0) + bias
            low_e = tl.sum(weight * tl.where(weight > 0, least_e, most_e), axis=0) + bias
            high_e = tl.sum(weight * tl.where(weight > 0, most_e, least_e), axis=0) + bias
        gap = _gap(low_a, low_e)
        bound = tl.maximum(
            _largest(low_a, high_a, gap, leads, leads_bias), _largest(low_e, high_e, gap, leads, leads_bias)
        )
        if FLIP:
            bound = tl.max(tl.where(counts, bound, -infinite), axis=0)
        else:
            bound = tl.min(tl.where(real & (c != key), bound, infinite), axis=0)
        going = going & (bound + 1e-9 * tl.abs(bound) >= TOLERANCE)
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
        price = unit * tl.abs(found - x)
        if (found < infinite) & ((price < best) | ((price == best) & (j < best_feature))):
            best, best_feature, best_value = price, j, found
    tl.store(cost_ptr + i, best)
    tl.store(feature_ptr + i, best_feature)
    tl.store(value_ptr + i, best_value)
