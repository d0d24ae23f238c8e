"""Triton kernel for ReLU networks on a GPU: the scores after many single-feature moves of each row.

`gpu_layout` says when it serves; `Moves.scores` is the same in tensor operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from grace.models.gpu_layout import GpuLayout

CELLS = 4096  # moves of a row at a time, times units
A_WARP = 2048  # weights of a layer that a warp can work on


def moves_at_once(packed: GpuLayout) -> int:
    """What fits beside the weights into the memory that the threads of a row share."""
    return (2 * CELLS if packed.largest <= CELLS // 2 else CELLS) // max(packed.units)


def works(packed: GpuLayout) -> bool:
    """Whether the kernel can be compiled and run here, tried on one row."""
    moves = moves_at_once(packed)
    zero = torch.zeros(1, dtype=torch.int64, device=packed.first.device)
    step = packed.first.new_zeros(1, moves)
    return runs(lambda: moved_scores(packed, packed.bias[None], zero.expand(1, moves), step, None), packed.first.device)


def runs(trial: Callable[[], object], device: torch.device) -> bool:
    """Whether a kernel can be compiled and run: Triton needs a compiler, and a GPU may have too little memory."""
    try:
        trial()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except Exception as reason:  # whatever a compiler or driver raises
        line = str(reason).strip().split("\n")[0]
        warnings.warn(f"kernels do not work here, so that the GPU is slower than it could be: {line}", stacklevel=3)
        return False
    return True


def moved_scores(packed: GpuLayout, start: Tensor, feature: Tensor, step: Tensor, entries: Tensor | None) -> Tensor:
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
    z = scored(z, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr, LAYERS, A, B)
    for c in range(C):
        score = tl.sum(z * tl.load(last_ptr + c * B + b)[None, :], axis=1) + tl.load(last_bias_ptr + c)
        tl.store(scores_ptr + (row * moves + m) * C + c, score, mask=there)


@triton.jit
def scored(
    z, second_ptr, second_bias_ptr, middle_ptr, middle_bias_ptr,
    LAYERS: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The last hidden layer (M, B) from the first before its ReLU (M, A)."""
    a, b = tl.arange(0, A), tl.arange(0, B)
    z = tl.where(z > 0, z, 0.0)
    if LAYERS > 1:
        second = tl.load(second_ptr + a[:, None] * B + b[None, :])
        z = tl.dot(z, second, out_dtype=tl.float64) + tl.load(second_bias_ptr + b)[None, :]
        z = tl.where(z > 0, z, 0.0)
    for layer in range(LAYERS - 2):
        weight = tl.load(middle_ptr + layer * B * B + b[:, None] * B + b[None, :])
        z = tl.dot(z, weight, out_dtype=tl.float64) + tl.load(middle_bias_ptr + layer * B + b)[None, :]
        z = tl.where(z > 0, z, 0.0)
    return z


@triton.jit
def leads(h, last_ptr, last_bias_ptr, key, FLIP: tl.constexpr, C: tl.constexpr, B: tl.constexpr):
    """By how much the best class other than `key` leads all others, or class `key` if it is no flip, from the last
    hidden layer h (M, B)."""
    b = tl.arange(0, B)
    own = tl.sum(h, axis=1) * 0
    best = own - float("inf")
    second = best
    for c in range(C):
        score = tl.sum(h * tl.load(last_ptr + c * B + b)[None, :], axis=1) + tl.load(last_bias_ptr + c)
        if c == key:
            own = score
        else:
            second = tl.maximum(second, tl.minimum(best, score))
            best = tl.maximum(best, score)
    return best - tl.maximum(second, own) if FLIP else own - best
