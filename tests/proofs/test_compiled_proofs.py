"""The prover in compiled code: its bounds beside points of its nodes, and its verdicts beside trying everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import grace
from grace.models.relu import relu_network
from grace.problem.cancellation import CancelledWorkError, cancellable
from grace.problem.goal import Against, Flip
from grace.problem.problem import Problem
from grace.proofs.certificate import FOUND, OPEN, PROVEN, network_of, prove
from grace.proofs.compiled import aims_of, proof_arrays, prove_compiled
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.lines import is_single_change_excluded, line_work
from grace.proofs.compiled.rows import CHANGED, CHILDREN, LEFT, NEXT, OPENED, Search, search
from grace.proofs.compiled.tree import examine, make_child
from grids import explainer_of, grid

MOST = 3
ODDITIES = ("twins", "negated", "dead", "whole", "always on")


def problem_of(explainer: grace.Explainer, frame: pd.DataFrame, gamma: float = 1.0, **limits: object) -> Problem:
    options = grace.problem.settings.settings_of(explainer.settings, {"gamma": gamma})
    schema = explainer.schema.constrain(**limits)
    return explainer._problem(torch.as_tensor(explainer.schema.encode(frame)), None, schema, options)


def make_odd(explainer: grace.Explainer, oddities: tuple[str, ...], seed: int) -> None:
    """Give the hidden layers units that switch together, opposite to each other, never, or where whole numbers are."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for layer in explainer.model.module.layers[:-1]:
            one, other = rng.choice(len(layer.bias), 2, replace=False).tolist()
            if "twins" in oddities:
                layer.weight[other], layer.bias[other] = layer.weight[one], layer.bias[one]
            if "negated" in oddities:
                layer.weight[other], layer.bias[other] = -layer.weight[one], -layer.bias[one]
            if "dead" in oddities:
                layer.weight[one], layer.bias[one] = 0.0, -1.0
            if "always on" in oddities:
                layer.bias[other] = 50.0
            if "whole" in oddities:
                layer.weight.mul_(2).round_()
                layer.bias.round_()
    explainer.model.cache.clear()


def mixed(seed: int, more: int = 0) -> pd.DataFrame:
    """Continuous numbers, so many more of them, whole ones and categories."""
    rng = np.random.default_rng(seed)
    whole = {"c": rng.integers(0, 4, 40), "d": rng.choice(["u", "v", "w"], 40)}
    further = {f"n{j}": rng.normal(size=40) for j in range(more)}
    return pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)} | whole | further)


def values_of(problem: Problem, i: int) -> list[list[float]]:
    """The values that each feature of a grid may be changed to."""
    space, x, out = problem.space, problem.rows[i], []
    for j in range(len(x)):
        span = range(int(problem.low[i, j]), int(problem.high[i, j]) + 1)
        every = space.choices[j].tolist() if j in space.categorical else span
        out.append([float(v) for v in every if v != x[j]] if problem.free[i, j] else [])
    return out


def best_margin(problem: Problem, i: int, most: int) -> float:
    """Over every row of a grid with at most so many changes."""
    values, best = values_of(problem, i), -np.inf
    for size in range(1, most + 1):
        for chosen in combinations(range(len(values)), size):
            if any(problem.conflict[p, q] for p, q in combinations(chosen, 2)):
                continue
            tried = list(product(*(values[j] for j in chosen)))
            if tried:
                rows = problem.rows[i].repeat(len(tried), 1)
                rows[:, list(chosen)] = torch.tensor(tried, dtype=rows.dtype)
                best = max(best, float(problem.select(torch.full((len(tried),), i)).margin(rows).max()))
    return best


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    oddities=st.lists(st.sampled_from(ODDITIES), max_size=3).map(tuple),
    hidden=st.sampled_from([(6,), (6, 5), (5, 4, 4)]),
    asked=st.sampled_from(["flip", "against", "confident"]),
    limits=st.sampled_from([{}, {"frozen": ["b"]}, {"increase_only": ["a"], "decrease_only": ["d"]}, {"gamma": 0.02}]),
)
@example(seed=1, oddities=("twins", "negated", "dead", "whole"), hidden=(6, 5), asked="flip", limits={})
def test_verdicts_are_those_of_trying_everything(seed, oddities, hidden, asked, limits) -> None:
    frame = grid(seed)
    explainer = explainer_of(frame, seed, hidden=hidden)
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(4), **limits)
    scores = problem.model.scores(problem.rows)
    if asked == "against":
        problem = replace(problem, goal=Against(scores.argmin(dim=1)))
    if asked == "confident":
        problem = replace(problem, goal=Flip(scores.argmax(dim=1), confidence=0.8))
    for most in (1, 2, 3):
        verdict = prove(problem, torch.full((4,), most), budget=10)
        for i in range(4):
            best, status = best_margin(problem, i, most), int(verdict.status[i])
            if best >= 1e-6:
                assert status == FOUND or (asked == "confident" and status == OPEN)
            else:
                assert status != FOUND
                assert status == PROVEN or best > -1e-9 or asked == "confident"
            assert status != PROVEN or best < 0
            if status == FOUND:
                part, row = problem.select(torch.tensor([i])), verdict.rows[[i]]
                assert (part.reached(row) & part.inside(row).all(dim=1) & ~part.redundant(row)).all()
                assert 1 <= (row != part.rows).sum() <= most


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    oddities=st.lists(st.sampled_from(ODDITIES), max_size=2).map(tuple),
    hidden=st.sampled_from([(5,), (7, 6), (6, 5, 4)]),
    more=st.sampled_from([0, 10, 70]),  # few ways, a block of them, and more than one block
)
def test_no_point_of_a_node_lies_above_its_bound(seed, oddities, hidden, more) -> None:
    """Down random paths of the tree: points with any admissible choice of the open ways."""
    rng = np.random.default_rng(seed)
    frame = mixed(seed, more)
    explainer = explainer_of(frame, seed, hidden=hidden, tilt=0.5)
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(1))
    network = relu_network(problem.model)
    (net, _, columns, table), aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    work = search(net, frame.shape[1], MOST)
    begin_row(net, columns, table, aims, 0, MOST, work)
    classes = len(network.later[-1][1])
    winner = next(c for c in range(classes) if c != int(problem.goal.original[0]))
    path = -1
    for _ in range(12):
        if path >= 0:
            if work.counts[path, NEXT] == work.counts[path, CHILDREN]:
                break
            for _ in range(1 + rng.integers(work.counts[path, CHILDREN] - work.counts[path, NEXT])):
                make_child(columns, table, path, work)
        excluded = examine(net, table, aims, 0, path + 1, 1e-6, work)
        path += 1
        left = work.counts[path, LEFT]
        bound = 0.0 if excluded else work.rest[path] + work.gains[path, :left].sum()
        rows = torch.as_tensor(points_in(work, path, problem, rng))
        scores = network.scores(rows)
        lead = scores[:, winner] - scores[:, int(problem.goal.original[0])]
        assert float(lead.max()) <= bound
        assert not excluded or float(lead.max()) < 0
        if excluded:
            break


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    oddities=st.lists(st.sampled_from(ODDITIES), max_size=3).map(tuple),
    hidden=st.sampled_from([(6,), (6, 5), (5, 4, 4)]),
    against=st.booleans(),
)
def test_lines_exclude_what_branch_and_bound_does(seed, oddities, hidden, against) -> None:
    """Of single changes: nothing else, and as much where no number has to be whole."""
    frame = mixed(seed)
    explainer = explainer_of(frame, seed, hidden=hidden, tilt=1.5)
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(12))
    if against:
        problem = replace(problem, goal=Against(problem.model.scores(problem.rows).argmin(dim=1)))
    network = network_of(problem)
    without = replace(problem, free=problem.free & ~problem.space.is_integer)
    for part, complete in ((problem, False), (without, True)):
        (net, _, columns, table), aims = proof_arrays(part, network.compiled), aims_of(part, network)
        work, lines = search(net, 4, 1), line_work(net)
        excluded = [is_single_change_excluded(net, columns, table, aims, i, work, lines) for i in range(12)]
        with mock.patch("grace.proofs.compiled.sharing.is_single_change_excluded", return_value=False):
            proven = [status == PROVEN for status in statuses(part, torch.ones(12, dtype=torch.int64))]
        assert excluded == proven if complete else all(p or not e for e, p in zip(excluded, proven, strict=True))


@pytest.mark.parametrize(("level", "expected"), [(-1.1, True), (-1.001, False), (-0.9, False)])
def test_many_switches_take_more_allowance_for_rounding(
    monkeypatch: pytest.MonkeyPatch, level: float, expected: bool
) -> None:
    """A line with 256 pieces whose largest value is 1, in several sections."""
    layers: list[torch.nn.Module] = []
    for place in range(9):
        layer = torch.nn.Linear(2 if place else 1, 2 if place < 8 else 1).double()
        layer.weight.data = torch.tensor([[2.0, -4.0] if place else [1.0]] * len(layer.bias), dtype=torch.float64)
        layer.bias.data = torch.tensor([0.0, -0.5] if place < 8 else [level], dtype=torch.float64)
        layers += [layer, torch.nn.ReLU()]
    frame = pd.DataFrame({"a": np.linspace(0, 1, 50)})
    model = grace.wrap(torch.nn.Sequential(*layers[:-1]), classes=["no", "yes"])
    problem = problem_of(grace.Explainer(model, frame, domain="minmax"), frame.head(1))
    network = network_of(problem)
    (net, _, columns, table), aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    monkeypatch.setattr("grace.proofs.compiled.lines.SECTION", 16)
    work, lines = search(net, 1, 1), line_work(net)
    assert is_single_change_excluded(net, columns, table, aims, 0, work, lines) == expected
    assert aims.slack[0, 0] < 0.001
    assert lines.scratch.switches[0] >= (255 if expected else 1)


def points_in(work: Search, f: int, problem: Problem, rng: np.random.Generator) -> np.ndarray:
    out = problem.rows.numpy().repeat(200, axis=0)
    for row in out:
        for a in range(work.counts[f, CHANGED]):
            share = rng.choice([0.0, 1.0, rng.random()])
            value = work.low[f, a] + share * (work.high[f, a] - work.low[f, a])
            row[work.feature[work.taken[f, a]]] = value
        ways = work.open[f, : work.counts[f, OPENED]]
        for w in rng.permutation(ways)[: work.counts[f, LEFT]]:
            row[work.feature[w]] = work.near[w] + rng.choice([1.0, rng.random()]) * (work.far[w] - work.near[w])
    return out


@pytest.fixture
def hard() -> Problem:
    """More than can be decided in any time that a test may take."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 30)), columns=[f"f{i}" for i in range(30)])
    explainer = explainer_of(frame, 0, hidden=(60, 60), classes=2, tilt=20.0)
    return problem_of(explainer, frame.head(6))


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("count", [1, 3])
def test_work_is_given_up_within_a_row(hard: Problem, count: int) -> None:
    torch.set_num_threads(count)
    asked = iter([False] * 3)
    with cancellable(lambda: next(asked, True)), pytest.raises(CancelledWorkError):
        prove(hard, torch.full((6,), 8), budget=1e6)


@pytest.mark.usefixtures("threads")
def test_verdicts_depend_on_the_row_alone() -> None:
    frame = mixed(7)
    problem = problem_of(explainer_of(frame, 7, hidden=(12, 9), tilt=3.0), frame)
    most = torch.arange(len(frame)) % 4
    torch.set_num_threads(1)
    usual = prove(problem, most, 30)
    torch.set_num_threads(3)
    again = prove(problem, most, 30)
    alone = [prove(problem.select(torch.tensor([i])), most[[i]], 30) for i in range(len(frame))]
    for name in ("status", "rows", "nodes"):
        assert torch.equal(getattr(usual, name), getattr(again, name))
        assert torch.equal(getattr(usual, name), torch.cat([getattr(v, name) for v in alone]))


def test_rows_without_a_way_have_no_answer() -> None:
    frame = grid(0)
    problem = problem_of(explainer_of(frame, 0), frame.head(3), frozen=list(frame))
    verdict = prove(problem, torch.tensor([0, 1, 3]), budget=1)
    assert (verdict.status == PROVEN).all()


def test_a_candidate_is_an_answer_only_if_the_model_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = grid(3)
    problem = problem_of(explainer_of(frame, 3, tilt=0.7), frame.head(12))
    assert (prove(problem, torch.full((12,), 2), budget=10).status == FOUND).any()
    monkeypatch.setattr(Problem, "reached", lambda self, rows: torch.zeros(len(rows), dtype=torch.bool))
    again = prove(problem, torch.full((12,), 2), budget=10)
    assert not (again.status == FOUND).any()
    assert (again.status == OPEN).any()


def test_the_allowance_for_rounding_is_needed_for_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more of it, less is proven, and nothing else is found."""
    frame = grid(1)
    problem = problem_of(explainer_of(frame, 1), frame.head(12))
    most = torch.full((12,), 1)
    usual = prove(problem, most, budget=10).status
    monkeypatch.setattr("grace.proofs.compiled.aims.ROUNDING", 1.0)
    wary = prove(problem, most, budget=1).status
    assert (usual == PROVEN).any()
    assert not (wary == PROVEN).any()
    assert torch.equal(wary == FOUND, usual == FOUND)


def statuses(problem: Problem, most: Tensor) -> list[int]:
    return prove_compiled(problem, network_of(problem), most, 10).status.tolist()


def test_ranges_that_do_not_contain_the_row() -> None:
    """A row outside of a range may change into it; beyond it lies what would be an answer."""
    frame = grid(4)
    explainer = explainer_of(frame, 4)
    problem = problem_of(explainer, frame.head(12), ranges={"a": (1, 2), "d": (2, 2)})
    assert (problem.rows[:, 0] < problem.low[:, 0]).any()
    for most in (1, 2):
        found = statuses(problem, torch.full((12,), most))
        assert found == [FOUND if best_margin(problem, i, most) >= 1e-6 else PROVEN for i in range(12)]


@pytest.mark.parametrize(("level", "tent", "status"), [(5e-7, 1.0, FOUND), (5e-7, 0.0, OPEN), (-1e-4, 0.0, PROVEN)])
def test_ties_do_not_hold_up_the_search(level: float, tent: float, status: int) -> None:
    """Wherever a + b >= 1 the second class leads by less than the tolerance, which is neither an answer nor can it be
    excluded; around c = 0.5 it may lead clearly."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[-1.0, -1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]))
        module[0].bias.copy_(torch.tensor([1.0, -0.4, -0.5, -0.6]))
        module[2].weight.copy_(torch.tensor([[0.0, 0, 0, 0], [-1, tent, -2 * tent, tent]]))
        module[2].bias.copy_(torch.tensor([0.0, level]))
    frame = pd.DataFrame(np.random.default_rng(0).random((50, 3)), columns=list("abc"))
    frame.loc[0], frame.loc[1] = 0.0, 1.0
    explainer = grace.Explainer(grace.wrap(module, classes=["no", "yes"]), frame, domain="minmax")
    problem = problem_of(explainer, frame.head(1))
    verdict = prove(problem, torch.tensor([3]), budget=60)
    assert int(verdict.status[0]) == status
    assert int(verdict.nodes[0]) < 1000
