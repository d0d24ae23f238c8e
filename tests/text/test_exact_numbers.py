"""Statements about many numbers at once are those about each."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from grace.schema.features import Numeric
from grace.schema.formatting import decimal, digits, many_digits
from grace.text.exact_numbers import Scaled, is_short, stays_whole
from grace.text.precision import Delta, Replacement, difference, value_pair

RNG = np.random.default_rng(0)
NUMBERS = np.concatenate(
    [
        *(RNG.normal(0, 10.0**k, 400).round(d) for k in range(-4, 7) for d in (0, 1, 2, 3, 6)),
        RNG.normal(size=300),
        RNG.normal(size=100) * 1e18,
        [0.0, -0.0, 1.0, -1.0, 1e-5, 1e22, 9999.0, 10_000.0, 123456.75, 0.1 + 0.2, 5e-324],
    ]
)


@pytest.mark.parametrize("marks", [(",", "."), (".", ",")])
def test_digits(marks: tuple[str, str]) -> None:
    numbers = NUMBERS[~np.signbit(NUMBERS) | (NUMBERS != 0)].tolist()
    assert many_digits(numbers, *marks) == [digits(decimal(x), *marks) for x in numbers]


def test_shortest_decimals() -> None:
    scaled = Scaled.of(NUMBERS)
    for value, whole, places, known in zip(NUMBERS, *(part.tolist() for part in vars(scaled).values()), strict=True):
        assert not known or Decimal(whole).scaleb(-places) == decimal(value)
    assert scaled.known.mean() > 0.8
    assert not scaled.known[np.signbit(NUMBERS) & (NUMBERS == 0)].any()


@pytest.mark.parametrize("decimals", [0, 2, 5])
def test_differences(decimals: int) -> None:
    feature = Numeric(name="x", low=-1e20, high=1e20, decimals=decimals, integer=False, spread=1000.0)
    old, new = RNG.permutation(NUMBERS), RNG.permutation(NUMBERS)
    old, new = old[old != new], new[old != new]
    a, b = Scaled.of(old), Scaled.of(new)
    size = b.difference(a)
    short = is_short(size, b, np.full(len(old), feature.digits))
    whole = stays_whole(a, b) & a.known & b.known
    texts, ones = size.texts((",", ".")), size.are_one
    for k in np.flatnonzero(size.known).tolist():
        stated = difference(feature, old[k], new[k], "exact", ratios=False)
        assert bool(short[k]) == isinstance(stated, Delta)
        if isinstance(stated, Delta):
            assert texts[k] == digits(stated.size, ",", ".")
            assert bool(ones[k]) == (stated.size == 1)
    for k in np.flatnonzero(whole).tolist():
        assert value_pair(feature, old[k], new[k]) == Replacement(decimal(new[k]), decimal(old[k]))
