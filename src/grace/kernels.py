"""Kernels for ReLU networks on a GPU, in Triton: a row's whole walk, and the scores after single moves.

Written step by step, these are thousands of small operations, each of which a GPU takes longer to be told than to do.
A kernel keeps what belongs to a row in registers, from the first step to the last. `models.packed` says when they
serve; `methods.walk.grow` and `Moves.scores` are the same in plain operations.
"""

from __future__ import annotations

import warnings

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.methods import pace
from grace.models.packed import Packed

OVERSHOOT, MARGIN = tl.constexpr(1 + pace.OVERSHOOT), tl.constexpr(pace.MARGIN)
POOR, PUSHES = tl.constexpr(pace.POOR), tl.constexpr(2.0**pace.PUSHES)
PATIENCE, PROGRESS = tl.constexpr(pace.PATIENCE), tl.constexpr(pace.PROGRESS)
ROUND = tl.constexpr(6755399441055744.0)  # 1.5 x 2^52: added and taken away, it leaves the nearest whole number
ROUNDABLE = tl.constexpr(2251799813685248.0)  # 2^51: up to here
A_WARP = 2048  # weights of a layer that a warp can work on
CELLS = 4096  # moves of a row at a time, times units


def walks(
    packed: Packed,
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
        steep = tl.sum(unit * unit, axis=0)
        # how the walk gets on, as `Pace` has it
        closed = (now - margin) / aim
        push = tl.where(closed < POOR, tl.where(closed > -1e-6, push * 2, one), push)
        better = now > best + PROGRESS * tl.abs(now)
        best = tl.where(better, now, best)
        idle = tl.where(better, 0, idle + 1)
        margin = now
        over = hit | (idle >= PATIENCE) | (push >= PUSHES) | (steep <= 0) | (steep != steep) | (step >= steps)
        # a step on
        aim = tl.where(now < 0, -now, 0.0) * OVERSHOOT + MARGIN
        stride = push * aim / tl.where(over, one, steep) * unit * scale
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


def moves_at_once(packed: Packed) -> int:
    """What fits beside the weights into the memory that the threads of a row share."""
    return (2 * CELLS if packed.largest <= CELLS // 2 else CELLS) // max(packed.units)


def works(packed: Packed) -> bool:
    """Whether the kernels can be built and run here: Triton needs a compiler, and a GPU may have too little room."""
    device, moves = packed.first.device, moves_at_once(packed)
    whole = torch.zeros(1, dtype=torch.int64, device=device)
    one = packed.first.new_zeros(1, moves)
    try:
        start = packed.bias[None]
        moved_scores(packed, start, whole.expand(1, moves), one, None)
        features = packed.first[:, 0]
        cell = one[:, :1].contiguous()
        walks(packed, start, whole[:, None], cell, (cell, cell), features, features > 0, whole, whole, 1.0, 1)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except Exception as reason:  # whatever a compiler or driver has to say
        line = str(reason).strip().split("\n")[0]
        warnings.warn(f"kernels do not work here, so that the GPU is slower than it could be: {line}", stacklevel=2)
        return False
    return True


def moved_scores(packed: Packed, start: Tensor, feature: Tensor, step: Tensor, entries: Tensor | None) -> Tensor:
    """The scores (n, M, classes) after each of M moves of each row: `start` (n, A) is the first layer before it,
    `feature` (n or 1, M) moves by `step` (n, M); `entries` (n, M, 2) are the table entries that come and go."""
    step = step.contiguous()
    n, moves = step.shape
    scores = step.new_empty(n, moves, packed.classes)
    a, b = packed.units
    block = min(moves_at_once(packed), max(16, triton.next_power_of_2(moves)))
    blocks = triton.cdiv(moves, block)
    _moved_scores[(n * blocks,)](
        packed.first, packed.second_turned, packed.second_bias, packed.middle_turned, packed.middle_bias, packed.last,
        packed.last_bias, packed.tables,
        start, feature, step, step if entries is None else entries, scores, moves, blocks,
        feature.stride(0) if len(feature) > 1 else 0, feature.stride(1),
        TABLES=entries is not None, LAYERS=packed.layers, C=packed.classes, A=a, B=b, BLOCK=block,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    return scores


@triton.jit
def _moved_scores(
    first_ptr, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, last_ptr, last_bias_ptr, table_ptr,
    start_ptr, feature_ptr, step_ptr, entry_ptr, scores_ptr, moves, blocks, down, across,
    TABLES: tl.constexpr, LAYERS: tl.constexpr, C: tl.constexpr, A: tl.constexpr, B: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = (program // blocks).to(tl.int64)
    m = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.arange(0, A), tl.arange(0, B)
    there = m < moves
    feature = tl.load(feature_ptr + row * down + m * across, mask=there, other=0)
    step = tl.load(step_ptr + row * moves + m, mask=there, other=0.0)
    start = tl.load(start_ptr + row * A + a)
    z = start[None, :] + step[:, None] * tl.load(first_ptr + feature[:, None] * A + a[None, :])
    if TABLES:
        comes = tl.load(entry_ptr + (row * moves + m) * 2, mask=there, other=0)
        goes = tl.load(entry_ptr + (row * moves + m) * 2 + 1, mask=there, other=0)
        z += tl.load(table_ptr + comes[:, None] * A + a[None, :]) - tl.load(table_ptr + goes[:, None] * A + a[None, :])
    z = tl.where(z > 0, z, 0.0)
    if LAYERS > 1:
        second = tl.load(second_ptr + a[:, None] * B + b[None, :])
        z = tl.dot(z, second, out_dtype=tl.float64) + tl.load(second_bias_ptr + b)[None, :]
        z = tl.where(z > 0, z, 0.0)
    for layer in range(LAYERS - 2):
        weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
        z = tl.dot(z, weight, out_dtype=tl.float64) + tl.load(middle_bias_ptr + layer * B + b)[None, :]
        z = tl.where(z > 0, z, 0.0)
    for c in range(C):
        score = tl.sum(z * tl.load(last_ptr + c * B + b)[None, :], axis=1) + tl.load(last_bias_ptr + c)
        tl.store(scores_ptr + (row * moves + m) * C + c, score, mask=there)
