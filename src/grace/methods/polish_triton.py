"""Polish of ReLU networks on a GPU as one Triton kernel: a row is made irreducible and pulled back to the boundary.

A program has one row; BLOCK variants of it are scored at a time: subsets of its changes, or values of one feature.
`methods.polish` is the same in tensor operations, and says what is preferred to what.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.methods.decimals_triton import floor_steps, powers
from grace.models.gpu_layout import GpuLayout
from grace.models.kernels import leads, runs, scored
from grace.problem.decimals import tens

BLOCK = tl.constexpr(16)  # variants of a row that are scored together, and changes that a row may have
WARPS = 2
REGISTERS = 255
MOST = 10  # changes of a row, as every subset of them is tried
MORE_DIGITS = tl.constexpr(6)  # how many digits beyond the usual ones a value may get if nothing coarser works
ROUNDS = tl.constexpr(4)
SEARCHES = tl.constexpr(16)  # of a value, each to a seventeenth: enough for any number of steps


def works(packed: GpuLayout) -> bool:
    """Whether the kernel can be compiled and run here, tried on one row."""
    zero = torch.zeros(1, dtype=torch.int64, device=packed.first.device)
    cell, feature = packed.first.new_zeros(1, 1), packed.first[:, 0]

    def trial() -> None:
        columns = (feature, feature > 0, feature.long(), feature > 0)
        entries = zero[:, None]
        polished(packed, packed.bias[None], entries, (cell,) * 4, (entries, entries), columns, zero, True, 1.0, 1.0)

    return runs(trial, packed.first.device)


def polished(
    packed: GpuLayout,
    start: Tensor,
    chosen: Tensor,
    cells: tuple[Tensor, Tensor, Tensor, Tensor],
    entries: tuple[Tensor, Tensor],
    columns: tuple[Tensor, Tensor, Tensor, Tensor],
    key: Tensor,
    flip: bool,
    tolerance: float,
    norm: float,
) -> Tensor:
    """The new values (n, K) of the changed features `chosen` (n, K), -1 where there are no more; features of changes
    that are taken back get their old values. `cells` are the old values, the new ones, and the lowest and the highest;
    `entries` the table entries that come and go with a category; `columns` what a unit of each feature costs, whether
    it has units or costs that as a whole, its usual digits, and whether it is a whole number. `start` (n, A) is the
    first layer at the old values. The goal is any class but `key` (n,) if it is a `flip`, else that class."""
    n, most = chosen.shape
    values = cells[1].clone()
    a, b = packed.units
    _polished[(n,)](
        packed.first, packed.second_turned, packed.second_bias, packed.middle_turned, packed.middle_bias, packed.last,
        packed.last_bias, packed.tables, start, chosen, *cells, *entries, *columns, key, tens(start.device), values,
        most, TOLERANCE=tolerance, FLIP=flip, NORM=norm, TABLES=bool(packed.categorical), LAYERS=packed.layers,
        C=packed.classes, A=a, B=b, num_warps=WARPS, num_stages=1, maxnreg=REGISTERS,
    )  # fmt: skip
    return values


@triton.jit
def _place(values, place, k):
    """Value k of a block."""
    return tl.sum(tl.where(place == k, values, tl.zeros_like(values)), axis=0)


@triton.jit
def _margins(
    variants, x, number, change, start, key, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr,
    last_bias_ptr, FLIP: tl.constexpr, LAYERS: tl.constexpr, C: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The margins (BLOCK,) of variants (BLOCK, features) of a row. `change` (features, A) is what a unit of a number or
    the new category, adds to the first layer."""
    apart = variants - x[None, :]
    share = tl.where(number[None, :], apart, (apart != 0).to(tl.float64))
    z = tl.dot(share, change, out_dtype=tl.float64) + start[None, :]
    h = scored(z, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, LAYERS, A, B)
    return leads(h, last_ptr, last_bias_ptr, key, FLIP, C, B)


@triton.jit
def _costs(variants, x, unit, scaled, NORM: tl.constexpr):
    """The distances (BLOCK,) of variants."""
    apart = tl.abs(variants - x[None, :])
    cost = tl.where(apart > 0, unit[None, :] * tl.where(scaled[None, :], apart, 1.0), 0.0)
    if NORM == 1.0:
        return tl.sum(cost, axis=1)
    if NORM == 2.0:
        return tl.sum(cost * cost, axis=1)
    return tl.max(cost, axis=1)


@triton.jit
def _polished(
    first_ptr, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr, last_bias_ptr, table_ptr,
    start_ptr, chosen_ptr, x_ptr, value_ptr, low_ptr, high_ptr, come_ptr, go_ptr, unit_ptr, scaled_ptr, digits_ptr,
    whole_ptr, key_ptr, tens_ptr, out_ptr, most,
    TOLERANCE: tl.constexpr, FLIP: tl.constexpr, NORM: tl.constexpr, TABLES: tl.constexpr, LAYERS: tl.constexpr,
    C: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    place, a = tl.arange(0, BLOCK), tl.arange(0, A)
    cell = i * most + place
    feature = tl.load(chosen_ptr + cell, mask=place < most, other=-1)
    real = feature >= 0
    feature = tl.where(real, feature, 0)
    x = tl.load(x_ptr + cell, mask=real, other=0.0)
    value = tl.load(value_ptr + cell, mask=real, other=0.0)
    low, high = tl.load(low_ptr + cell, mask=real, other=0.0), tl.load(high_ptr + cell, mask=real, other=0.0)
    come, go = tl.load(come_ptr + cell, mask=real, other=0), tl.load(go_ptr + cell, mask=real, other=0)
    unit, scaled = tl.load(unit_ptr + feature), tl.load(scaled_ptr + feature).to(tl.int1)
    digits, whole = tl.load(digits_ptr + feature), tl.load(whole_ptr + feature).to(tl.int1)
    number = real & (come == go)
    change = tl.load(first_ptr + feature[:, None] * A + a[None, :], mask=real[:, None], other=0.0)
    if TABLES:
        comes = tl.load(table_ptr + come[:, None] * A + a[None, :])
        change = tl.where(number[:, None], change, comes - tl.load(table_ptr + go[:, None] * A + a[None, :]))
    start, key = tl.load(start_ptr + i * A + a), tl.load(key_ptr + i)
    infinite = tl.full([], float("inf"), tl.float64)
    sign = tl.where(value > x, 1.0, -1.0).to(tl.float64)
    size = tl.maximum(tl.abs(x), tl.abs(value))

    # values that can be said: rounded away from x, with as few digits as work
    variants = tl.zeros([BLOCK, BLOCK], tl.float64) + value[None, :]
    kept = place > MORE_DIGITS
    for more in range(MORE_DIGITS + 1):
        up, down = powers(tens_ptr, digits + more, whole, size)
        steps = -floor_steps(-sign * value, up, down)
        farthest = floor_steps(tl.where(sign > 0, high, -low), up, down)
        rounded = sign * (tl.minimum(steps, farthest) / up * down)
        inside = (rounded >= low) & (rounded <= high) & (sign * (rounded - x) > 0)
        all_fit = tl.min((inside | ~number).to(tl.int32), axis=0) > 0
        variants = tl.where((place == more)[:, None] & number[None, :], rounded[None, :], variants)
        kept = kept | ((place == more) & all_fit)
    margin = _margins(
        variants, x, number, change, start, key, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr,
        last_ptr, last_bias_ptr, FLIP, LAYERS, C, A, B,
    )  # fmt: skip
    works = kept & (margin >= TOLERANCE) & (place <= MORE_DIGITS)
    more = tl.min(tl.where(works, place, MORE_DIGITS + 1), axis=0)
    value = tl.sum(tl.where((place == more)[:, None], variants, 0.0), axis=0)
    movable = number & (more <= MORE_DIGITS)
    up, down = powers(tens_ptr, digits + more, whole, size)

    turn = 0
    going = turn == 0
    while going:
        # the smallest subset of the changes that works, and of those the nearest
        changed = real & (value != x)
        count = tl.sum(changed.to(tl.int32), axis=0)
        rank = tl.cumsum(changed.to(tl.int32), axis=0) - 1
        subsets, least, fewest, chosen = 1 << count, infinite, count, 0
        base = 0
        while (base < subsets) & (count > 1):
            mask = base + place
            bit = ((mask[:, None] >> tl.maximum(rank, 0)[None, :]) & 1) > 0
            variants = tl.where(changed[None, :] & ~bit, x[None, :], value[None, :])
            margin = _margins(
                variants, x, number, change, start, key, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr,
                last_ptr, last_bias_ptr, FLIP, LAYERS, C, A, B,
            )  # fmt: skip
            proper = (mask > 0) & (mask < subsets - 1) & (margin >= TOLERANCE)
            sizes = tl.sum((bit & changed[None, :]).to(tl.int32), axis=1)
            smallest = tl.min(tl.where(proper, sizes, BLOCK), axis=0)
            costs = tl.where(proper & (sizes == smallest), _costs(variants, x, unit, scaled, NORM), infinite)
            nearest = tl.min(costs, axis=0)
            which = tl.min(tl.where(costs == nearest, mask, subsets), axis=0)
            better = (smallest < fewest) | ((smallest == fewest) & (nearest < least))
            fewest, least = tl.where(better, smallest, fewest), tl.where(better, nearest, least)
            chosen = tl.where(better, which, chosen)
            base += BLOCK
        reduced = chosen > 0
        taken = ((chosen >> tl.maximum(rank, 0)) & 1) > 0
        value = tl.where(changed & reduced & ~taken, x, value)
        changed = real & (value != x)
        going = ((turn == 0) | reduced) & (turn < ROUNDS)
        turn += 1
        if going:
            left = changed & movable
            rate, todo = tl.where(left, 0.0 * value, infinite), tl.sum(left.to(tl.int32), axis=0)
            if todo > 1:
                # features by the margin that a change gives up for its cost, least first
                own = place[:, None] == place[None, :]
                variants = tl.where(own & changed[None, :], x[None, :], value[None, :])
                margin = _margins(
                    variants, x, number, change, start, key, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr,
                    last_ptr, last_bias_ptr, FLIP, LAYERS, C, A, B,
                )  # fmt: skip
                lost = _place(margin, place, BLOCK - 1) - margin  # the last variant is the row as it is
                price = tl.maximum(unit * tl.where(scaled, tl.abs(value - x), 1.0), 1e-300)
                rate = tl.where(left, lost / price, infinite)
            while todo > 0:
                lowest = tl.min(rate, axis=0)
                k = tl.min(tl.where(left & (rate == lowest), place, BLOCK - 1), axis=0)
                mine = place == k
                left, rate = left & ~mine, tl.where(mine, infinite, rate)
                todo -= 1
                # steps of the feature from the first value beyond x to its own
                old, own_up, own_down = _place(x, place, k), _place(up, place, k), _place(down, place, k)
                towards, here = _place(sign, place, k), _place(value, place, k)
                bottom, top = _place(low, place, k), _place(high, place, k)
                nearer = tl.where(towards > 0, bottom, -top)
                begin = tl.maximum(
                    floor_steps(towards * old, own_up, own_down) + 1, -floor_steps(-nearer, own_up, own_down)
                )
                length = floor_steps(towards * here, own_up, own_down) - begin
                fails, reaches = begin * 0.0 - 1.0, tl.maximum(length, 0.0)
                whole_way = reaches
                searches = 0
                while (reaches - fails > 1) & (searches < SEARCHES):
                    searches += 1
                    share = (place + 1).to(tl.float64) / (BLOCK + 1)
                    tried = fails + tl.floor((reaches - fails) * share)
                    tried = tl.minimum(tl.maximum(tried, fails + 1), reaches - 1)
                    number_at = towards * ((begin + tried) / own_up * own_down)
                    variants = tl.where(mine[None, :], number_at[:, None], value[None, :])
                    margin = _margins(
                        variants, x, number, change, start, key, second_ptr, second_bias_ptr, middle_ptr,
                        middle_bias_ptr, last_ptr, last_bias_ptr, FLIP, LAYERS, C, A, B,
                    )  # fmt: skip
                    nearest = tl.min(tl.where(margin >= TOLERANCE, tried, reaches), axis=0)
                    fails = tl.max(tl.where(tried < nearest, tried, fails), axis=0)
                    reaches = nearest
                new = tl.where(reaches == whole_way, here, towards * ((begin + reaches) / own_up * own_down))
                value = tl.where(mine, new, value)
    tl.store(out_ptr + cell, value, mask=real)
