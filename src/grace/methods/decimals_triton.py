"""Decimal numbers in Triton kernels: `problem.decimals` of blocks of values."""

from __future__ import annotations

import triton
import triton.language as tl

from grace.problem import decimals

ROUND = tl.constexpr(6755399441055744.0)  # 1.5 x 2^52: added and subtracted, it rounds to the nearest whole number
ROUNDABLE = tl.constexpr(2251799813685248.0)  # 2^51: up to here
LOG = tl.constexpr(0.30102999566398120)  # of 2 to the base of 10
LARGEST, MOST_STEPS = tl.constexpr(decimals.LARGEST), tl.constexpr(float(decimals.MOST_STEPS))


@triton.jit
def nearest_whole(value):
    return tl.where(tl.abs(value) < ROUNDABLE, (value + ROUND) - ROUND, value)


@triton.jit
def powers(tens_ptr, digits, whole, size):
    """10**digits and 10**-digits, or 1 where that is less, of numbers up to some size (`decimals.digits_of`)."""
    digits = tl.where(whole & (digits > 0), 0, digits)
    places = MOST_STEPS - tl.ceil(tl.log2(tl.minimum(tl.maximum(size, 1.0), 1e300)) * LOG)
    digits = tl.minimum(digits, places.to(tl.int64))
    digits = tl.minimum(tl.maximum(digits, -LARGEST), LARGEST)
    return tl.load(tens_ptr + tl.maximum(digits, 0)), tl.load(tens_ptr + tl.maximum(-digits, 0))


@triton.jit
def floor_steps(value, up, down):
    """The most steps of down / up whose decimal number is not above a value."""
    steps = nearest_whole(value * up / down)
    steps = tl.where((steps + 1) / up * down <= value, steps + 1, steps)
    return tl.where(steps / up * down > value, steps - 1, steps)


@triton.jit
def decimal_beyond(tens_ptr, digits, whole, x, near, sign):
    """The first decimal number with so many digits from `near` on, away from x to the side of `sign`."""
    up, down = powers(tens_ptr, digits, whole, tl.maximum(tl.abs(x), tl.abs(near)))
    steps = floor_steps(-sign * near, up, down)
    steps = tl.where(-sign * (steps / up * down) == x, steps - 1, steps)
    return -sign * (steps / up * down)
