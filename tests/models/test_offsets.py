"""No answer is lost to rounding, and none wrongly proven impossible, wherever the numbers lie on the line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import grace
from grace.problem.decimals import Decimals

PLACES = [
    (offset, spread)
    for offset in (0.0, 100.0, -4.5e6, 1.7e9)
    for spread in (1e-6, 1e-3, 0.05, 1.0, 50.0, 1e6, 1e9)
    if abs(offset) / spread < 1e11  # beyond, doubles hardly tell such values apart
]


def far_or_near(centre: float, spread: float, radius: float) -> grace.Model:
    """The class "far" where |t - centre| exceeds so many spreads; the other feature does nothing."""
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1 / spread, 0], [-1 / spread, 0]], dtype=torch.float64))
        network[0].bias.copy_(torch.tensor([-centre / spread, centre / spread], dtype=torch.float64))
        network[2].weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
        network[2].bias.copy_(torch.tensor([0.0, radius], dtype=torch.float64))
    return grace.wrap(network, classes=["far", "near"], outputs="logits")


def table(offset: float, spread: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"t": offset + spread * rng.normal(0, 1, 400), "b": rng.uniform(0, 2, 400)})


@pytest.mark.parametrize(
    ("offset", "spread", "method"),
    [(*place, "search") for place in PLACES[::3]] + [(*place, "gradient") for place in PLACES[::5]],
)
def test_rows_outside_the_range_keep_their_answers(offset: float, spread: float, method: str) -> None:
    frame = table(offset, spread, 0)
    explainer = grace.Explainer(far_or_near(offset, spread, 2.35), frame, method=method, domain=0.9)
    low, high = (float(end[0]) for end in explainer.schema.bounds())
    outside = frame[((frame.t < low) | (frame.t > high)) & (np.abs(frame.t - offset) / spread > 2.35)]
    assert len(outside)
    found = explainer.explain(outside, prove=True, budget=0.05, among="nearest")
    assert found.success.all()
    assert found.contrast["t"].between(low, high).all()
    assert {e.proof["verdict"] for e in found} == {"minimal"}
    # values between the range and the row, with which it would be "near", are no answers; rounding allows little more
    assert abs(offset) > 1000 * spread or (found.answers.nearest >= 0.98 * found.answers.distance).all()


@pytest.mark.parametrize("high", [0.8, 0.1 + 0.7, 0.79, 1 / 3])
@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_range_ends_that_are_no_short_decimals(high: float, method: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 2, 400).round(2), "b": rng.uniform(0, 2, 400).round(2)})
    explainer = grace.Explainer(far_or_near(0.0, 1.0, 1.0), frame, method=method)
    e = explainer.explain({"a": 1.5, "b": 1.0}, ranges={"a": (0, high)}, prove=True, budget=0.2)[0]
    assert e.success
    assert e.proof["verdict"] == "minimal"
    assert e.contrast["a"] <= high


@given(
    value=st.floats(-1e9, 1e9, allow_subnormal=False),
    digits=st.integers(-3, 6),
)
@settings(max_examples=300)
def test_steps_are_counted_exactly(value: float, digits: int) -> None:
    grid = Decimals.of(np.array([digits]))
    v = np.array([value])
    below, above = grid.floor(v), grid.ceil(v)
    assert grid.values(below) <= v < grid.values(below + 1)
    assert grid.values(above - 1) < v <= grid.values(above)


def test_fractions_among_whole_numbers_move_to_both_neighbours() -> None:
    """A hat around 3: from 2.5, only 3 is "yes"."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 10, 400), "b": rng.integers(0, 10, 400)})
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0], [1, 0], [1, 0]]))
        network[2].weight.copy_(torch.tensor([[0.0, 0, 0], [1, -2, 1]]))
        network[2].bias.copy_(torch.tensor([0.2, 0.0]))
    for centre, start in ((3.0, 2.5), (2.0, 2.5), (3.0, 3.5)):
        with torch.no_grad():
            network[0].bias.copy_(torch.tensor([0.4, 0.0, -0.4]) - centre)
        explainer = grace.Explainer(grace.wrap(network, classes=["no", "yes"], outputs="logits"), frame, gamma=1.0)
        for method in ("search", "gradient", "local"):
            e = explainer.explain({"a": start, "b": 4}, prove=True, method=method)[0]
            assert e.success
            assert e.contrast["a"] == centre
            assert e.proof["verdict"] == "minimal"
            assert e.proof["distance_at_least"] <= e.distance
