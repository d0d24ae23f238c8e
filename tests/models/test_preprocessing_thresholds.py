"""Thresholds in original numbers: exact at both neighbours, whatever stands between the number and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from grace.models.preprocessing.thresholds import LARGEST, from_order, threshold_in_original, to_order

pytestmark = pytest.mark.quick

DATA = np.random.default_rng(0).lognormal(1, 1, (200, 1)).round(2)
TRANSFORMERS: dict[str, Any] = {
    "standard": StandardScaler(),
    "minmax": MinMaxScaler(clip=True),
    "quantiles": QuantileTransformer(n_quantiles=30),
    "power": PowerTransformer(),
    "cbrt": FunctionTransformer(np.cbrt),
}
for transformer in TRANSFORMERS.values():
    transformer.fit(DATA)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda x: x.astype(np.float32),
    "log1p": lambda x: np.log1p(np.maximum(x, -0.5)),
    "round": lambda x: np.round(x, 1),
}
NUMBER = st.floats(-1e30, 1e30)
FAR = 1e4


def chained(names: list[str], sign: float = 1.0) -> Callable[[Any], Any]:
    def evaluate(x: Any) -> Any:
        x = sign * x
        for name in names:
            x = np.asarray(x, dtype=np.float64)
            x = TRANSFORMERS[name].transform(x[:, None])[:, 0] if name in TRANSFORMERS else FUNCTIONS[name](x)
        return x

    return evaluate


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_the_order_of_doubles_is_that_of_integers(numbers: list[float]) -> None:
    x = np.array(numbers)
    np.testing.assert_array_equal(from_order(to_order(x)), x)
    np.testing.assert_array_equal(to_order(x) > to_order(x[:1]), x > x[:1])
    np.testing.assert_array_equal(to_order(x) == to_order(x[:1]), x == x[:1])
    finite = np.where(np.abs(x) < LARGEST, x, 1.0)
    np.testing.assert_array_equal(to_order(np.nextafter(finite, np.inf)), to_order(finite) + 1)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([*TRANSFORMERS, *FUNCTIONS]), max_size=3, unique=True),
    st.lists(st.floats(-100, 100), min_size=1, max_size=4),
    st.lists(st.floats(-30, 60), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_both_neighbours_are_on_their_sides(
    names: list[str], limits: list[float], points: list[float], strict: bool, rising: bool
) -> None:
    evaluate = chained(names, 1.0 if rising else -1.0)
    t = np.concatenate([limits, np.asarray(evaluate(np.array(points)), dtype=float)])  # values that are taken, too
    found = threshold_in_original(evaluate, t, strict, rising=rising, low=-FAR, high=FAR)
    assert found.shape == t.shape

    def right(x: Any) -> Any:
        values = evaluate(x)
        return ~(values < t) if strict else ~(values <= t)

    inside = np.isfinite(found) & (found > -FAR)
    edge = np.where(inside, found, 0.0)
    assert (right(edge) == rising)[inside].all()
    assert (right(np.nextafter(edge, -np.inf)) != rising)[inside].all()
    assert (right(np.full(len(t), FAR)) != rising)[found == np.inf].all()
    assert (right(np.full(len(t), -FAR)) == rising)[found == -FAR].all()


@given(NUMBER, st.booleans())
def test_without_preprocessing_it_is_the_threshold_itself(t: float, strict: bool) -> None:
    found = float(threshold_in_original(lambda x: x, t, strict))
    assert found == (t if strict else np.nextafter(t, np.inf))


@given(st.floats(-1000, 1000), st.booleans())
def test_half_precision_against_many_numbers(t: float, strict: bool) -> None:
    found = float(threshold_in_original(lambda x: x.astype(np.float16), t, strict, low=-6e4, high=6e4))
    every = np.arange(-6e4, 6e4, 0.25)
    values = every.astype(np.float16).astype(np.float64)  # or t would be rounded too
    right = ~(values < t) if strict else ~(values <= t)
    np.testing.assert_array_equal(right, every >= found)
