"""The kernels of the search beside compiled code and plain operations; see `test_kernels` for where they run."""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import grace
from grace.methods import gpu_kernels
from grace.methods.compiled import search_compiled
from grace.methods.polish import polish
from grace.methods.search import search
from grace.models import Network, TorchModel, relu
from grace.problem.goal import Against, Between
from grace.problem.problem import Problem
from grace.problem.settings import Settings
from grace.problem.space import Space
from problems import MIXED, seeded_network
from subsets import but

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
NETWORKS = [((40, 20), 2), ((20,), 2), ((), 3), ((12, 20, 9), 5), ((16, 16, 16, 16), 2)]
FEW = but([((40, 20), 2), ((12, 20, 9), 5)], NETWORKS)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches the code for GPUs on and off, on the CPU."""

    def switch(on: bool) -> None:
        monkeypatch.setattr(relu, "usable", lambda device: on)
        for module in ("search", "polish", "walk"):
            monkeypatch.setattr(sys.modules[f"grace.methods.{module}"], "is_compiled", lambda problem: False)

    return switch


def table(n: int = 60, features: int = 7) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(n, features)).round(3), columns=[f"f{i}" for i in range(features)])
    return frame.assign(f2=rng.integers(0, 6, n), f5=rng.integers(-40, 40, n))


def problem_of(hidden: tuple[int, ...], classes: int, rows: int = 6, **settings: object) -> Problem:
    frame = table()
    schema = grace.Schema.infer(frame)
    network = Network(schema, hidden, classes)
    generator = torch.Generator().manual_seed(len(hidden))
    network.initialise(torch.tensor(frame.mean().to_numpy()), torch.tensor(frame.std().to_numpy()), generator)
    network = network.double().eval()
    with torch.no_grad():  # every class is near
        network.layers[-1].bias -= network(torch.tensor(schema.encode(frame))).mean(dim=0)
    model = TorchModel(network, [f"c{i}" for i in range(classes)], outputs="logits", schema=schema)
    return of_model(model, frame, rows, **settings)


def of_model(model: object, frame: pd.DataFrame, rows: int, **settings: object) -> Problem:
    explainer = grace.Explainer(model, frame, gamma=0.9, domain="minmax")
    encoded = explainer.tensor(explainer.schema.encode(frame.head(rows)))
    chosen = Settings(max_features=3, steps=30, among="nearest", **settings)  # type: ignore[arg-type]
    return explainer._problem(encoded, None, explainer.schema, chosen)


def nearest_singles(problem: Problem) -> Tensor:
    """By compiled code, which follows the same exact lines."""
    return search_compiled(replace(problem, max_features=1), walks=False)


@pytest.mark.parametrize(("hidden", "classes"), FEW)
@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nearest_single_changes_are_those_of_exact_lines(
    kernels: Callable[[bool], None], hidden: tuple[int, ...], classes: int, asked: bool
) -> None:
    problem = problem_of(hidden, classes)
    if asked:
        problem = replace(problem, goal=Against((problem.goal.original + 1) % classes))  # type: ignore[attr-defined]
    expected = nearest_singles(problem)
    kernels(True)
    found = gpu_kernels.nearest_single_changes(problem)
    assert found is not None
    assert (expected != problem.rows).any()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_limits_of_rows_hold(kernels: Callable[[bool], None]) -> None:
    """Rows beyond their limits, one-way and frozen cells, and no room at all."""
    problem = problem_of((20,), 2, rows=8)
    low, high, free = problem.low.clone(), problem.high.clone(), problem.free.clone()
    low[:2], high[2:4], free[4, ::2], high[5] = problem.rows[:2] + 0.2, problem.rows[2:4], False, problem.rows[5]
    low[5] = problem.rows[5]
    problem = replace(problem, low=low, high=torch.maximum(low, high), free=free)
    expected = nearest_singles(problem)
    kernels(True)
    found = gpu_kernels.nearest_single_changes(problem)
    assert found is not None
    assert torch.equal(found[5], problem.rows[5])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_units_that_switch_together(kernels: Callable[[bool], None]) -> None:
    """Twins, negated pairs, dead units and whole-number weights: breakpoints at the same place."""
    weight = torch.tensor([[1.0, 2.0, 0.0], [-1.0, -2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [2.0, -1.0, 1.0]])
    bias = torch.tensor([-1.0, 1.0, -1.0, -5.0, 0.0])
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        first, last = nn.Linear(3, 5), nn.Linear(5, 2)
        with torch.no_grad():
            first.weight.copy_(weight)
            first.bias.copy_(bias)
            last.weight.copy_(torch.randint(-3, 4, (2, 5), generator=generator).double())
        frame = pd.DataFrame(np.random.default_rng(seed).integers(-4, 5, (40, 3)) / 2, columns=list("abc"))
        model = nn.Sequential(first, nn.ReLU(), last).double().eval()
        problem = of_model(grace.wrap(model, classes=["no", "yes"]), frame, 12)
        expected = nearest_singles(problem)
        kernels(True)
        found = gpu_kernels.nearest_single_changes(problem)
        assert found is not None
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_single_categories_change_too(kernels: Callable[[bool], None]) -> None:
    problem = of_model(seeded_network(), MIXED, 12)
    expected = nearest_singles(problem)
    kernels(True)
    found = gpu_kernels.nearest_single_changes(problem)
    assert found is not None
    changed = found != problem.rows
    assert torch.equal(changed, expected != problem.rows)
    assert changed[:, problem.space.categorical].any()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def candidates(problem: Problem) -> tuple[Problem, Tensor]:
    """Rows that reach the goal by several changes, taken from other rows."""
    generator = torch.Generator().manual_seed(1)
    other = problem.rows[torch.randperm(len(problem), generator=generator)]
    mixed = torch.where(torch.rand(problem.rows.shape, generator=generator) < 0.5, other, problem.rows)
    mixed = torch.where(problem.free, mixed.clamp(problem.low, problem.high), problem.rows)
    some = torch.nonzero(problem.reached(mixed) & (mixed != problem.rows).any(dim=1))[:10, 0]
    return problem.select(some), mixed[some]


@pytest.mark.parametrize(("hidden", "classes"), FEW)
@pytest.mark.parametrize("norm", ["l1", pytest.param("l2", marks=pytest.mark.slow), "linf"])
def test_polished_rows_are_those_of_plain_operations(
    kernels: Callable[[bool], None], hidden: tuple[int, ...], classes: int, norm: str
) -> None:
    problem = problem_of(hidden, classes, rows=60)
    schema = problem.model.schema
    assert schema is not None
    problem, rows = candidates(replace(problem, space=Space(schema, {}, "cpu", norm)))
    kernels(False)
    plain = polish(problem, rows)
    kernels(True)
    fast = polish(problem, rows)
    assert gpu_kernels.polish_at_once(problem, rows) is not None
    assert problem.reached(fast).all()
    assert problem.inside(fast).all()
    assert torch.equal(plain != problem.rows, fast != problem.rows)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-12)


def test_categories_are_polished_too(kernels: Callable[[bool], None]) -> None:
    problem, rows = candidates(of_model(seeded_network(), MIXED, len(MIXED)))
    kernels(False)
    plain = polish(problem, rows)
    kernels(True)
    fast = gpu_kernels.polish_at_once(problem, rows)
    assert fast is not None
    assert (rows != problem.rows)[:, problem.space.categorical].any()
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prefer", ["fewest", "nearest"])
def test_answers_of_the_search_are_no_worse(kernels: Callable[[bool], None], prefer: str) -> None:
    problem = problem_of((12, 8), 3, rows=5, prefer=prefer)
    kernels(False)
    plain = search(problem)
    kernels(True)
    fast = search(problem)
    distance = problem.space.distance
    assert ((fast != problem.rows).any(dim=1) == (plain != problem.rows).any(dim=1)).all()
    if prefer == "fewest":
        assert ((fast != problem.rows).sum(dim=1) <= (plain != problem.rows).sum(dim=1)).all()
    assert distance(problem.rows, fast).sum() <= distance(problem.rows, plain).sum() * 1.001


def test_other_problems_are_left_to_plain_operations(kernels: Callable[[bool], None]) -> None:
    kernels(True)
    problem = problem_of((12, 8), 2, rows=4)
    zero = torch.zeros(4, dtype=torch.float64)
    for other in (
        replace(problem, goal=Between(zero, zero + 1)),
        replace(problem, goal=replace(problem.goal, confidence=0.8)),  # type: ignore[type-var]
    ):
        assert gpu_kernels.nearest_single_changes(other) is None
        assert gpu_kernels.polish_at_once(other, other.rows + 1) is None
