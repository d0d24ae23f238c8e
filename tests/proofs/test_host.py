"""Problems elsewhere than in host memory: their tensors, like those of a GPU, give no numpy arrays until moved."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pytest
import test_compiled_proofs as compiled_proofs
import test_number_proofs as number_proofs
import torch
from torch import Tensor

from grace.models.relu import relu_network
from grace.problem.goal import Against
from grace.problem.problem import Problem
from grace.proofs.certificate import FOUND, PROVEN, network_of, prove
from grace.proofs.compiled import prove_compiled
from grace.proofs.distance_bound import distance_bound
from grace.proofs.host import HOST, DistantModel, on_host
from grace.proofs.regions import regions_of
from grace.proofs.sets import set_prover
from grids import explainer_of, grid

pytestmark = pytest.mark.quick
GOALS = ("flip", "against", "number")


class Distant(Tensor):
    """A tensor elsewhere, as is what comes of it; only what is moved to the host is there."""

    is_cpu = False  # type: ignore[assignment]

    def numpy(self, **_: Any) -> NoReturn:
        raise TypeError("move the tensor to host memory first")

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.as_subclass(Tensor)

    def to(self, *args: Any, **options: Any) -> Tensor:
        moved = super().to(*args, **options)
        return moved.as_subclass(Tensor) if HOST in args else moved


def distant(value: Any) -> Any:
    """The same with all tensors elsewhere."""
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value).as_subclass(Distant)
    if isinstance(value, Tensor):
        return value.as_subclass(Distant)
    if isinstance(value, dict):
        return {key: distant(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(distant, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: distant(getattr(value, f.name)) for f in fields(value)})
    return value


def elsewhere(problem: Problem) -> Problem:
    """The problem elsewhere, with what was read off its model."""
    space, model = copy(problem.space), copy(problem.model)
    vars(space).update({name: distant(value) for name, value in vars(space).items()})
    model.cache = {"relu": distant(relu_network(model))}  # type: ignore[attr-defined]
    cells = {name: distant(getattr(problem, name)) for name in ("rows", "low", "high", "free", "conflict")}
    return replace(problem, space=space, model=model, goal=distant(problem.goal), **cells)


def problem_of(goal: str, seed: int) -> Problem:
    """Rows that ask for another class, one class with cut-offs, or a number."""
    if goal == "number":
        frame = number_proofs.mixed(seed, 20)
        return number_proofs.problem_of(number_proofs.regressor_of(frame, seed, (12, 9)), frame, "within", 0.97)
    frame = compiled_proofs.mixed(seed).head(20)
    explainer = explainer_of(frame, seed, hidden=(12, 9), tilt=1.5)
    problem = compiled_proofs.problem_of(explainer, frame, gamma=0.5, increase_only=["a"])
    if goal == "flip":
        return problem
    own = explainer.model.scores(problem.rows).argmax(dim=1)
    shift = torch.tensor([0.0, 0.1, -0.1], dtype=torch.float64)
    return replace(problem, goal=Against((own + 1) % 3, 0.0, shift))


def asked_for(problem: Problem, most: int) -> Tensor:
    return torch.where(problem.reached(problem.rows), 0, most)


def test_nothing_is_read_before_it_is_moved() -> None:
    problem = elsewhere(problem_of("flip", 0))
    with pytest.raises(TypeError, match="move the tensor"):
        problem.rows.numpy()
    with pytest.raises(TypeError, match="move the tensor"):
        prove_compiled(problem, network_of(problem), torch.ones(len(problem), dtype=torch.int64), 1)


def test_on_the_host_nothing_is_moved() -> None:
    problem = problem_of("flip", 0)
    assert on_host(problem) is problem
    assert network_of(problem).on_host is network_of(problem)


@pytest.mark.parametrize("goal", GOALS)
def test_a_problem_on_the_host_is_the_same(goal: str) -> None:
    problem = problem_of(goal, 0)
    moved = on_host(elsewhere(problem))
    cells = ("rows", "low", "high", "free", "conflict")
    assert all(torch.equal(getattr(moved, name), getattr(problem, name)) for name in cells)
    assert type(moved.rows) is type(moved.space.weight) is Tensor
    other = problem.rows.roll(1, dims=0)
    for one, two in zip(answers_of(moved, other), answers_of(problem, other), strict=True):
        assert type(one) is Tensor
        assert torch.equal(one, two)


def answers_of(problem: Problem, rows: Tensor) -> tuple[Tensor, ...]:
    distance = problem.space.distance(problem.rows, rows)
    return problem.margin(rows), problem.inside(rows), problem.redundant(rows), distance, *problem.space.limits(rows)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("most", [1, 2])
def test_verdicts_are_those_of_the_host(goal: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the model elsewhere is asked about every answer."""
    confirmed, usual = [], DistantModel.scores

    def scores(model: DistantModel, rows: Tensor) -> Tensor:
        confirmed.append(len(rows))
        return usual(model, rows)

    monkeypatch.setattr(DistantModel, "scores", scores)
    seen: set[int] = set()
    for seed in range(2):
        problem = problem_of(goal, seed)
        asked, far = asked_for(problem, most), elsewhere(problem)
        one = prove(problem, asked, 20)
        assert not confirmed
        other = prove(far, distant(asked), 20)
        assert torch.equal(one.status, other.status)
        assert torch.equal(one.rows, other.rows)
        assert sum(confirmed) >= int((one.status == FOUND).sum())
        confirmed.clear()
        seen |= set(one.status[asked > 0].tolist())
    assert PROVEN in seen


def test_bounds_on_distances_are_those_of_the_host() -> None:
    frame = grid(1)
    problem = compiled_proofs.problem_of(explainer_of(frame, 1, tilt=1.5), frame)
    found = prove(problem, torch.full((len(frame),), 2), 20)
    hits = torch.nonzero(found.status == FOUND)[:, 0]
    part, rows = problem.select(hits), found.rows[hits]
    assert len(hits) > 5
    far = distance_bound(elsewhere(part), distant(rows), budget=20)
    torch.testing.assert_close(far.cpu(), distance_bound(part, rows, budget=20))


@pytest.mark.parametrize("goal", ["against", "number"])
def test_regions_are_proven(goal: str) -> None:
    problem = problem_of(goal, 0)
    found = prove(problem, asked_for(problem, 3), 20)
    hits = torch.nonzero(found.status == FOUND)[:, 0]
    part, rows = problem.select(hits), found.rows[hits]
    one, other = regions_of(part, rows), regions_of(elsewhere(part), distant(rows))
    assert one.proven
    assert other.proven
    assert (one.low < one.high).any()
    for name in ("low", "high", "known", "complete", "points"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for j, codes in one.categories.items():
        np.testing.assert_array_equal(codes, other.categories[j])


@pytest.mark.parametrize("goal", ["flip", "number"])
def test_sets_are_decided_on_the_host(goal: str) -> None:
    problem = problem_of(goal, 0)
    provers = set_prover(problem, 2), set_prover(elsewhere(problem), 2)
    assert all(provers)
    for i in torch.nonzero(asked_for(problem, 1))[:6, 0].tolist():
        for j in range(problem.rows.shape[1] - 1):
            free = problem.free[i].numpy() & (np.arange(problem.rows.shape[1]) // 2 == j // 2)
            (one, row), (other, far) = (prover.decide(i, free, 2, 20.0) for prover in provers if prover)
            assert one == other
            assert row is far is None or np.array_equal(row, far)
