"""The walk of a ReLU network as one Triton kernel: a row's whole walk, from the first step to the last.

Written as tensor operations, a walk is thousands of small kernels whose launch overhead dominates. Here a program keeps
the state of its row in registers. `walk_kernel` says when it serves; `walk.grow` is the same in tensor operations.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.methods import walk_state
from grace.models.gpu_layout import GpuLayout
from grace.models.kernels import A_WARP, runs

OVERSHOOT, MARGIN = tl.constexpr(1 + walk_state.OVERSHOOT), tl.constexpr(walk_state.MARGIN)
POOR, PUSHES = tl.constexpr(walk_state.POOR), tl.constexpr(2.0**walk_state.PUSHES)
PATIENCE, PROGRESS = tl.constexpr(walk_state.PATIENCE), tl.constexpr(walk_state.PROGRESS)
ROUND = tl.constexpr(6755399441055744.0)  # 1.5 x 2^52: added and subtracted, it rounds to the nearest whole number
ROUNDABLE = tl.constexpr(2251799813685248.0)  # 2^51: up to here


def works(packed: GpuLayout) -> bool:
    """Whether the kernel can be compiled and run here, tried on one row."""
    zero = torch.zeros(1, dtype=torch.int64, device=packed.first.device)
    cell, features = packed.first.new_zeros(1, 1), packed.first[:, 0]

    def trial() -> None:
        walks(packed, packed.bias[None], zero[:, None], cell, (cell, cell), features, features > 0, zero, zero, 1.0, 1)

    return runs(trial, packed.first.device)


def walks(
    packed: GpuLayout,
    start: Tensor,
    chosen: Tensor,
    x: Tensor,
    limits: tuple[Tensor, Tensor],
    scale: Tensor,
    whole: Tensor,
    target: Tensor,
    own: Tensor,
    tolerance: float,
    steps: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 1 with Algorithm 2 inside, for the features `chosen` (n, K), -1 where there are no more: x (n, K), the
    lowest and highest values, and of all features their scale and whether they are whole numbers. `start` (n, A) is
    the first layer at x, `target` (n,) the class walked to, `own` the class to leave, -1 if only the target counts.

    Returns the values (n, K), how many of the features were needed (n,), 0 where no walk arrives, and how many steps
    were taken (n,)."""
    n, most = chosen.shape
    a, b = packed.units
    values, count = x.clone(), torch.zeros(n, dtype=torch.int32, device=x.device)
    taken = torch.zeros_like(count)
    _walks[(n,)](
        packed.first, packed.second, packed.second_turned, packed.second_bias, packed.middle, packed.middle_turned,
        packed.middle_bias, packed.last, packed.last_bias,
        start, chosen, x, *limits, scale, whole, target, own, values, count, taken, steps,
        TOLERANCE=tolerance, LAYERS=packed.layers, K=most, C=len(packed.last), A=a, B=b,
        P=triton.next_power_of_2(most), num_warps=max(1, packed.largest // A_WARP), num_stages=1,
    )  # fmt: skip
    return values, count, taken


@triton.jit
def _walks(
    first_ptr, second_ptr, second_turned_ptr, second_bias_ptr, middle_ptr, middle_turned_ptr, middle_bias_ptr,
    last_ptr, last_bias_ptr,
    start_ptr, chosen_ptr, x_ptr, low_ptr, high_ptr, scale_ptr, whole_ptr, target_ptr, own_ptr,
    values_ptr, count_ptr, taken_ptr, steps,
    TOLERANCE: tl.constexpr, LAYERS: tl.constexpr, K: tl.constexpr, C: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place, a, b, c = tl.arange(0, P), tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    there = place < K
    feature = tl.load(chosen_ptr + row * K + place, mask=there, other=-1)
    real = feature >= 0
    count = tl.sum(real.to(tl.int32), axis=0)
    feature = tl.where(real, feature, 0)
    x = tl.load(x_ptr + row * K + place, mask=there, other=0.0)
    low = tl.load(low_ptr + row * K + place, mask=there, other=0.0)
    high = tl.load(high_ptr + row * K + place, mask=there, other=0.0)
    scale, whole = tl.load(scale_ptr + feature), tl.load(whole_ptr + feature)
    start, first = tl.load(start_ptr + row * A + a), tl.load(first_ptr + feature[None, :] * A + a[:, None])  # (A, P)
    target, own = tl.load(target_ptr + row), tl.load(own_ptr + row)
    second_bias = tl.load(second_bias_ptr + b)
    last, last_bias = tl.load(last_ptr + c[:, None] * B + b[None, :]), tl.load(last_bias_ptr + c)

    infinite, one = tl.full([], float("inf"), tl.float64), tl.full([], 1.0, tl.float64)
    value, push, aim, best, margin = x, one, one, -infinite, -infinite
    k, step, idle, taken = 0, 0, 0, 0
    found, going = count < 0, count > 0
    while going:
        # the network. Sums run over the first axis, which a thread has to itself: hence the weights that lie turned,
        # read again at every step, as they would not all fit into registers
        z = start + tl.sum(first * (value - x)[None, :], axis=1)
        on = z > 0
        hidden = tl.where(on, z, 0.0)
        if LAYERS > 1:
            second_turned = tl.load(second_turned_ptr + a[:, None] * B + b[None, :])
            hidden = tl.sum(second_turned * hidden[:, None], axis=0) + second_bias
        bits = (hidden > 0).to(tl.int32)
        hidden = tl.where(hidden > 0, hidden, 0.0)
        for layer in range(LAYERS - 2):
            weight = tl.load(middle_turned_ptr + layer * B * B + b[:, None] * B + b[None, :])
            hidden = tl.sum(weight * hidden[:, None], axis=0) + tl.load(middle_bias_ptr + layer * B + b)
            bits |= (hidden > 0).to(tl.int32) << (layer + 1)
            hidden = tl.where(hidden > 0, hidden, 0.0)
        scores = tl.sum(last * hidden[None, :], axis=1) + last_bias
        # the target's lead over the best of the others; and the lead that counts, of any class but the own
        others = tl.where(c == target, -infinite, scores)
        rival = tl.argmax(others, axis=0)
        now = tl.sum(tl.where(c == target, scores, 0.0), axis=0) - tl.max(others, axis=0)
        lead = now
        if own >= 0:
            free = tl.where(c == own, -infinite, scores)
            winner = tl.argmax(free, axis=0)
            lead = tl.max(free, axis=0) - tl.max(tl.where(c == winner, -infinite, scores), axis=0)
        hit = lead >= TOLERANCE
        # the slope of the target's lead
        ahead = (c == target).to(tl.float64) - (c == rival).to(tl.float64)
        back = tl.sum(last * ahead[:, None], axis=0)
        for late in range(LAYERS - 2):
            layer = LAYERS - 3 - late
            weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
            back = tl.sum(weight * tl.where(((bits >> (layer + 1)) & 1) > 0, back, 0.0)[:, None], axis=0)
        if LAYERS > 1:
            second = tl.load(second_ptr + b[:, None] * A + a[None, :])
            back = tl.sum(second * tl.where((bits & 1) > 0, back, 0.0)[:, None], axis=0)
        slope = tl.sum(first * tl.where(on, back, 0.0)[:, None], axis=0)
        # a feature at its bound and pushed outwards leaves the step
        room = tl.where(slope > 0, high - value, value - low)
        unit = tl.where((place <= k) & real & (room > 0), slope, 0.0) * scale
        grad_sq_norm = tl.sum(unit * unit, axis=0)
        # how the walk gets on, as in `StepControl`
        closed = (now - margin) / aim
        push = tl.where(closed < POOR, tl.where(closed > -1e-6, push * 2, one), push)
        better = now > best + PROGRESS * tl.abs(now)
        best = tl.where(better, now, best)
        idle = tl.where(better, 0, idle + 1)
        margin = now
        over = (
            hit
            | (idle >= PATIENCE)
            | (push >= PUSHES)
            | (grad_sq_norm <= 0)
            | (grad_sq_norm != grad_sq_norm)
            | (step >= steps)
        )
        # a step on
        aim = tl.where(now < 0, -now, 0.0) * OVERSHOOT + MARGIN
        stride = push * aim / tl.where(over, one, grad_sq_norm) * unit * scale
        landed = tl.minimum(tl.maximum(value + stride, low), high)
        nearest = tl.where(tl.abs(landed) < ROUNDABLE, (landed + ROUND) - ROUND, landed)
        landed = tl.where(whole, nearest, landed)
        moved = tl.where(tl.abs(stride) > 0, landed, value)
        # or from x with one feature more
        again = over & ~hit
        value = tl.where(over, tl.where(hit, value, x), moved)
        k, step, idle = tl.where(again, k + 1, k), tl.where(again, 0, step + 1), tl.where(again, 0, idle)
        push, aim = tl.where(again, one, push), tl.where(again, one, aim)
        best, margin = tl.where(again, -infinite, best), tl.where(again, -infinite, margin)
        taken += 1
        found, going = hit, (k < count) & ~hit
    needed = tl.where(found, k + 1, 0)
    tl.store(values_ptr + row * K + place, value, mask=there & (place < needed))
    tl.store(count_ptr + row, needed)
    tl.store(taken_ptr + row, taken)
