"""Polish: values a person can say, as near as they can be, and no change too many."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace.methods.polish import polish
from grace.problem.decimals import Decimals
from problems import BOX, Formula

pytestmark = pytest.mark.quick


def problem(formula, rows: list[list[float]], train: pd.DataFrame = BOX, **schema: object):
    model = grace.wrap(Formula(formula), classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
    for name, parts in schema.items():
        explainer.schema = explainer.schemas["minmax"] = explainer.schema.replace(name, **parts)
    return explainer._problem(torch.tensor(rows, dtype=torch.float64), None, explainer.schema, explainer.settings)


def over(score: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.zeros_like(score), score], dim=1)


def polished(formula, row: list[float], candidate: list[float], **schema: object) -> list[float]:
    p = problem(formula, [row], **schema)
    found = torch.tensor([candidate], dtype=torch.float64)
    assert p.reached(found).all()
    return polish(p, found)[0].tolist()


def test_leaves_out_what_is_not_needed() -> None:
    assert polished(lambda x: over(x[:, 0] - 1), [0, 0, 0], [3, 2, 1]) == [1.01, 0, 0]


def test_prefers_fewer_features_then_the_nearer_subset() -> None:
    either = lambda x: over(torch.maximum(x[:, 0] - 1, x[:, 1] - 2))  # noqa: E731
    assert polished(either, [0, 0, 0], [3, 3, 0]) == [1.01, 0, 0]


def test_rounds_away_from_the_row() -> None:
    assert polished(lambda x: over(x[:, 0] - 0.337), [0, 0, 0], [0.33712345, 0, 0]) == [0.34, 0, 0]
    assert polished(lambda x: over(-x[:, 0] - 0.337), [0, 0, 0], [-0.33712345, 0, 0]) == [-0.34, 0, 0]


def test_more_digits_only_if_nothing_coarser_works() -> None:
    window = lambda x: over(0.002 - (x[:, 0] - 0.3355).abs())  # noqa: E731
    (value, *_) = polished(window, [0, 0, 0], [0.3361, 0, 0])
    assert value == 0.334


def test_stays_as_found_when_no_sayable_value_works() -> None:
    needle = lambda x: over(5e-6 - (x[:, 0] - 1 / 3).abs() * 1e4)  # noqa: E731
    assert polished(needle, [0, 0, 0], [1 / 3, 0, 0])[0] == pytest.approx(1 / 3, abs=1e-9)


def test_finds_the_nearest_crossing_on_a_scan() -> None:
    """The candidate lies in a far region that flips; a nearer one is found."""
    humps = lambda x: over(torch.where(x[:, 0] > 3, x[:, 0] - 3.5, 0.4 - (x[:, 0] - 1).abs()))  # noqa: E731
    assert polished(humps, [0, 0, 0], [3.9, 0, 0])[0] == 0.61


def test_gives_up_the_cheap_distance_first() -> None:
    """b moves the margin four times as much as a per spread: a is the one to take back."""
    result = polished(lambda x: over(x[:, 0] + 4 * x[:, 1] - 12), [0, 0, 0], [3.5, 2.8, 0])
    assert result[1] == 2.8
    assert result[0] == pytest.approx(0.81, abs=0.011)


def test_stays_inside_an_experts_range_off_the_grid() -> None:
    (value, *_) = polished(lambda x: over(x[:, 0] - 0.512), [0, 0, 0], [0.5155, 0, 0], a={"high": 0.5155})
    assert 0.512 < value <= 0.5155


def test_whole_numbers_stay_whole() -> None:
    train = pd.DataFrame({"i": np.arange(3000), "b": 0.5})
    p = problem(lambda x: over(x[:, 0] - 1234.5), [[3, 0.5]], train=train)
    assert polish(p, torch.tensor([[2500.0, 0.5]], dtype=torch.float64))[0, 0] == 1235


@pytest.mark.parametrize("digits", [-2, 0, 1, 3, 7])
def test_the_grid_is_made_of_the_nearest_doubles(digits: int) -> None:
    steps = torch.arange(-999, 1000, 7, dtype=torch.float64)
    grid = Decimals.of(torch.tensor(digits))
    values = grid.values(steps)
    assert values.tolist() == [float(f"{int(s)}e{-digits}") for s in steps]
    assert (grid.floor(values) == steps).all()
    assert (grid.ceil(values) == steps).all()


def test_many_changes_are_taken_back_one_by_one() -> None:
    train = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (50, 14)).round(2), columns=list("abcdefghijklmn"))
    model = grace.wrap(Formula(lambda x: over(x.sum(dim=1) - 0.5)), classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
    p = explainer._problem(torch.zeros(1, 14, dtype=torch.float64), None, explainer.schema, explainer.settings)
    found = polish(p, torch.full((1, 14), 0.6, dtype=torch.float64))
    assert (found != 0).sum() == 1
    assert p.reached(found).all()


@pytest.mark.parametrize("high", [1e3, 1e15, 1e18, 1e300])
def test_a_far_limit_leaves_values_near_and_short(high: float) -> None:
    (value, *_) = polished(lambda x: over(x[:, 0] - 0.512), [0, 0, 0], [0.9, 0, 0], a={"high": high})
    assert value == 0.52
