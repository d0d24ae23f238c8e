"""Profiles and spans against dense grids and lines whose kinks are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from grace.explain.details import spans_of
from grace.methods.profiles import profiles_of
from grace.methods.search import best_of_each
from grace.methods.steady import steadied, steadiness
from grace.problem.goal import Against


def random_network(seed: int, hidden: tuple[int, ...], classes: int, whole: bool) -> nn.Sequential:
    """Random layers with twins, negated twins and dead units, of whole-number weights if asked for."""
    generator = torch.Generator().manual_seed(seed)
    widths, parts = [3, *hidden, classes], []
    for a, b in pairwise(widths):
        layer = nn.Linear(a, b).double()
        with torch.no_grad():
            layer.weight.normal_(0, 1.5, generator=generator)
            layer.bias.normal_(0, 1, generator=generator)
            if whole:
                layer.weight.round_()
                layer.bias.round_()
            if b > 4:
                layer.weight[1], layer.bias[1] = layer.weight[0], layer.bias[0]
                layer.weight[2], layer.bias[2] = -layer.weight[0], -layer.bias[0]
                layer.weight[3], layer.bias[3] = 0 * layer.weight[0], -1.0
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def problem_of(model: grace.Model, frame: pd.DataFrame, rows: torch.Tensor, goal: object = None):
    explainer = grace.Explainer(model, frame, gamma=1.0, domain="minmax")
    return explainer._problem(rows, goal, explainer.schema, explainer.settings)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("hidden", [(), (7,), (6, 5), (6, 5, 5)])
@pytest.mark.parametrize("classes", [2, 4])
def test_between_breakpoints_the_margin_is_at_least_the_straight_line(
    hidden: tuple[int, ...], classes: int, whole: bool
) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(0, 2, (60, 3)).round(2), columns=list("abc"))
        model = grace.wrap(random_network(seed, hidden, classes, whole), classes=list(range(classes)), outputs="logits")
        rows = torch.tensor(frame.to_numpy()[:20])
        goal = Against(torch.as_tensor(rng.integers(0, classes, 20)))
        problem = problem_of(model, frame, rows, goal)
        for j in range(3):
            lines = profiles_of(problem, rows, torch.full((20,), j))
            assert lines.exact
            assert (lines.points.diff(dim=1) >= 0).all()
            assert (lines.points[:, 0] == problem.low[:, j]).all()
            assert (lines.points[:, -1] == problem.high[:, j]).all()
            for t in np.linspace(0, 1, 37):
                value = lines.points[:, 0] + t * (lines.points[:, -1] - lines.points[:, 0])
                margin = problem.margin(rows.clone().index_copy_(1, torch.tensor([j]), value[:, None]))
                place = torch.searchsorted(lines.points.contiguous(), value[:, None].contiguous())[:, 0]
                place = place.clamp(1, lines.points.shape[1] - 1)
                each = torch.arange(20)
                a, b = lines.points[each, place - 1], lines.points[each, place]
                share = torch.where(b > a, (value - a) / (b - a).clamp_min(1e-300), 0.0)
                straight = torch.lerp(lines.margin[each, place - 1], lines.margin[each, place], share)
                assert (margin >= straight - 1e-8).all()
                if classes == 2:
                    assert (margin <= straight + 1e-8).all()


def bump() -> grace.Model:
    """The class "yes" for 2 < a < 3 and for a > 5."""
    network = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 0], [1, 0], [1, 0], [1, 0]]))
        network[0].bias.copy_(torch.tensor([-1.5, -2.5, -3.5, -4.5]))
        network[2].weight.copy_(torch.tensor([[0.0, 0, 0, 0], [1, -2, 1, 1]]))
        network[2].bias.copy_(torch.tensor([0.5, 0.0]))
    return grace.wrap(network, classes=["no", "yes"], outputs="logits")


FRAME = pd.DataFrame({"a": np.linspace(0, 8, 401).round(2), "b": np.linspace(8, 0, 401).round(2)})


@pytest.mark.parametrize("kind", ["network", "function"])
def test_spans_of_a_bump(kind: str) -> None:
    model = bump()
    if kind == "function":
        inner = model.module
        model = grace.wrap(
            lambda f: torch.softmax(inner(torch.tensor(f.to_numpy(dtype=float))), dim=1).detach().numpy(),
            classes=["no", "yes"],
        )
    rows = torch.tensor([[0.0, 4], [0, 4], [8, 4]], dtype=torch.float64)
    contrast = torch.tensor([[2.01, 4], [5.01, 4], [4.0, 4]], dtype=torch.float64)
    problem = problem_of(model, FRAME, rows, Against(torch.tensor([1, 1, 0])))
    found, brittle = spans_of(problem, contrast)
    assert not brittle.any()
    assert found[:, 1].isnan().all()
    slack = 0 if kind == "network" else 0.2  # of a function, a grid says less
    for (low, high), (least, most) in zip(found[:, 0].tolist(), [(2.01, 2.99), (5.01, 8.0), (3.0, 4.99)], strict=True):
        assert least - 1e-9 <= low <= least + slack + 0.011
        assert most - slack - 0.011 <= high <= most + 1e-9


def test_spans_of_whole_numbers_are_whole() -> None:
    frame = pd.DataFrame({"a": np.arange(90) % 9, "b": np.arange(90) % 5})
    problem = problem_of(bump(), frame, torch.tensor([[0.0, 1], [0, 1]]).double(), Against(torch.tensor([1, 1])))
    found, _ = spans_of(problem, torch.tensor([[6.0, 1], [8, 1]]).double())
    assert found[:, 0].tolist() == [[6.0, 8.0], [6.0, 8.0]]


# -- answers with room around them ------------------------------------------------------------


def spikes(frame: pd.DataFrame) -> np.ndarray:
    """The class "yes" on a spike at a = 3, for b > 6, and for a > 7; jumps, as trees have them."""
    a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
    yes = ((a > 2.96) & (a < 3.04)) | (b > 6) | (a > 7)
    return np.stack([1 - yes, yes], axis=1).astype(float)


def test_steady_answers_pass_over_a_spike_and_stand_inside_their_span() -> None:
    explainer = grace.Explainer(grace.wrap(spikes, classes=["no", "yes"]), FRAME, gamma=1.0, domain="minmax")
    row = {"a": 1.0, "b": 1.0}
    near, steady = explainer.explain(row)[0], explainer.explain(row, among="steady")[0]
    assert 2.96 < near.contrast["a"] < 3.04
    assert steady.contrast["a"] == 1
    assert 6.1 <= steady.contrast["b"] <= 6.5  # a tenth of 6 to 8, but for the grid
    only = explainer.explain(row, among="steady", frozen=["b"])[0]  # another span of the same line
    assert 7.05 <= only.contrast["a"] <= 7.4


def test_where_none_is_steady_the_widest_is_taken() -> None:
    def narrow(frame: pd.DataFrame) -> np.ndarray:
        a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
        yes = ((a > 2.99) & (a < 3.01)) | ((b > 4.97) & (b < 5.03))
        return np.stack([1 - yes, yes], axis=1).astype(float)

    rows = torch.ones(2, 2, dtype=torch.float64)
    problem = replace(problem_of(grace.wrap(narrow, classes=["no", "yes"]), FRAME, rows), among="steady")
    answers = steadied(problem, torch.tensor([[3.0, 1], [1, 5]], dtype=torch.float64))
    width = steadiness(problem, answers)
    assert width[0] < width[1] < 1
    assert best_of_each(problem, answers, torch.tensor([0, 0]), 1).tolist() == [1]


@pytest.mark.parametrize("name", ["diabetes", "cancer95", "segment"])
def test_steady_answers_have_as_few_features_and_all_else_holds(name: str) -> None:
    table = grace.datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, parts.train)
    rows = model.impute(parts.test).head(40)
    near, steady = explainer.explain(rows), explainer.explain(rows, among="steady")
    assert (near.success == steady.success).all()
    assert (steady.changed.sum(axis=1) <= near.changed.sum(axis=1)).all()
    assert all(check[steady.success].all() for check in steady.answers.checks.values())
    alone = explainer.explain(rows.iloc[[7]], among="steady")
    assert alone.contrast.equals(steady.contrast.iloc[[7]])


def test_steady_is_for_the_search_and_few_features() -> None:
    explainer = grace.Explainer(bump(), FRAME, gamma=1.0)
    for settings in ({"method": "gradient"}, {"prefer": "nearest"}):
        with pytest.raises(grace.GraceError, match="among='steady'"):
            explainer.explain({"a": 1.0, "b": 1.0}, among="steady", **settings)
