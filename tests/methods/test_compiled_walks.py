"""The compiled walks: against those in tensor operations, a slow reference of their rankings, threads, and dispatch."""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

import grace
import reference
from grace.methods.compiled import problem_arrays, ready, walk_compiled
from grace.methods.compiled.logistic import fit_logistic, logistic_fit
from grace.methods.compiled.walk_arrays import WalkWork, walk_arrays, walk_options, walk_workspace
from grace.methods.compiled.walks import walk_rows
from grace.methods.walk import gradient, is_compiled_walk, local
from grace.models import Network, TorchModel
from grace.models.relu import relu_network
from grace.problem.goal import Against, Between, Flip, Goal
from grace.problem.problem import Problem

WALK = sys.modules["grace.methods.walk"]
GRADES = ["low", "middle", "high", "top"]


def frame(rng: np.random.Generator, n: int, mixed: bool) -> pd.DataFrame:
    table = pd.DataFrame(rng.normal(size=(n, 4)) * [1, 10, 0.1, 3], columns=list("abcd")).round(3)
    table["b"] = table.b.round().astype(int)
    if mixed:
        table["kind"] = rng.choice(["bolt", "nut", "screw"], n)
        table["grade"] = pd.Categorical(rng.choice(GRADES, n), categories=GRADES, ordered=True)
    return table


def network(schema: grace.Schema, rows: torch.Tensor, seed: int, outputs: int) -> Network:
    """A random network of which every class is near."""
    net = Network(schema, (12, 8), outputs)
    numbers = rows[:, net.numeric]
    net.initialise(numbers.mean(dim=0), numbers.std(dim=0), torch.Generator().manual_seed(seed))
    net = net.double().eval()
    with torch.no_grad():
        net.layers[-1].bias -= net(rows).mean(dim=0)
    return net


def random_problem(
    seed: int, outputs: int, mixed: bool = False, asked: str = "flip", confidence: float = 0.0, **call: object
) -> Problem:
    """A random network and 16 rows of its training data. `asked` is a flip or one class; with one output, a range."""
    rng = np.random.default_rng(seed)
    train = frame(rng, 120, mixed)
    schema = grace.Schema.infer(train)
    encoded = torch.as_tensor(schema.encode(train))
    net, classes = network(schema, encoded, seed, outputs), [f"c{k}" for k in range(outputs)] if outputs > 1 else []
    task = "classification" if outputs > 1 else "regression"
    model = TorchModel(net, classes, outputs="logits", schema=schema, task=task)
    explainer = grace.Explainer(model, train, gamma=0.8, domain="minmax", max_features=4)
    rows = encoded[:16]
    scores = model.scores(rows)
    goal: Goal = Between(scores[:, 0] + 0.3, scores[:, 0] + 1.0, 0.5)
    if outputs > 1:
        own = scores.argmax(dim=1)
        goal = Flip(own, confidence) if asked == "flip" else Against((own + 1) % outputs, confidence)
    chosen = grace.explain.explainer.settings_of(explainer.settings, {"method": "local", **call})
    limits = {"increase_only": ["grade"]} if mixed and seed % 2 else {}
    return explainer._problem(rows, goal, explainer.schema.constrain(**limits), chosen)


problems = st.builds(
    random_problem,
    st.integers(0, 2**31),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.sampled_from(["flip", "against"]),
    st.sampled_from([0.0, 0.7]),
)


@pytest.mark.parametrize("method", [gradient, local])
@given(problems)
@settings(max_examples=25)
def test_as_in_tensor_operations(method, problem: Problem) -> None:
    assert is_compiled_walk(problem)
    found = method(problem)
    with mock.patch.object(WALK, "is_compiled_walk", return_value=False):
        plain = method(problem)
    changed = found != problem.rows
    moved = changed.any(dim=1)
    assert problem.reached(found)[moved].all()
    assert problem.inside(found).all()
    assert not problem.redundant(found).any()
    assert int(changed.sum(dim=1).max()) <= problem.max_features
    same = torch.isclose(found, plain, rtol=1e-6, atol=1e-8).all(dim=1)
    assert int(same.sum()) >= len(same) - 2  # a step that is rounded otherwise may end elsewhere
    some = torch.arange(len(problem)).flip(0)[::3]
    assert torch.equal(method(problem.select(some)), found[some])


@given(problems, st.booleans())
@settings(max_examples=15)
def test_the_search_is_never_worse_than_the_walks(problem: Problem, nearest: bool) -> None:
    problem = replace(problem, prefer="nearest" if nearest else "fewest")
    search, polish = sys.modules["grace.methods.search"], sys.modules["grace.methods.polish"]
    found = search.search(problem)
    count, far = (found != problem.rows).sum(dim=1), problem.space.distance(problem.rows, found)
    for walked in (gradient(problem), local(problem)):
        hit = torch.nonzero((walked != problem.rows).any(dim=1))[:, 0]
        part = problem.select(hit)
        polished = polish.polish(part, walked[hit])
        other, farther = (polished != part.rows).sum(dim=1), part.space.distance(part.rows, polished)
        assert (count[hit] > 0).all()
        if nearest:
            assert (far[hit] <= farther * (1 + 1e-8)).all()
        else:
            assert (count[hit] <= other).all()
            assert ((far[hit] <= farther * (1 + 1e-8)) | (count[hit] < other)).all()


def test_threads_do_not_matter() -> None:
    problem = random_problem(3, 4, mixed=True)
    problem = problem.select(torch.arange(16).repeat(4))
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append([walk_compiled(problem, local=False), walk_compiled(problem, local=True)])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for others in found[1:] for a, b in zip(found[0], others, strict=True))


def walked_alone(problem: Problem, i: int, by_local: bool) -> WalkWork:
    """What the compiled walk of a row leaves in its workspace."""
    ready("walks")
    one = problem.select(torch.tensor([i]))
    net = relu_network(one.model).compiled
    further = walk_arrays(one)
    work = walk_workspace(one, net, *further)
    work.chosen[:] = -1
    walk_rows(*problem_arrays(one, net), *further, 0, 1, by_local, walk_options(one), one.rows.numpy().copy(), work)
    return work


@pytest.mark.parametrize("seed", range(4))
def test_rankings_as_in_the_reference(seed: int) -> None:
    problem = random_problem(seed, 4, gamma=1.0)
    spread, low, high = (t.numpy() for t in (problem.space.spread, problem.space.low, problem.space.high))
    known = problem.background
    classes = known.classes.numpy()

    def f(x: torch.Tensor) -> torch.Tensor:
        return problem.model.module(x[None])[0]

    for i, x in enumerate(problem.rows.numpy()):
        order = reference.rank_gradient_gain(f, x, low, high, spread)
        assert walked_alone(problem, i, by_local=False).chosen.tolist() == list(order[:4])

        points = known.coordinates.numpy()
        near = reference.nearest_rows(points, classes, x / spread, problem.neighbours)
        work = walked_alone(problem, i, by_local=True)
        for k, rows in near.items():
            assert work.local.near[k, : work.local.found[k]].tolist() == rows
        chosen = np.concatenate(list(near.values()))
        weights, _ = reference.local_weights(points[chosen], known.scores[chosen].softmax(dim=1).numpy())
        scores, gradients = reference.scores_and_gradients(f, x)
        own = int(scores.argmax())
        apart = weights[reference.nearest_class(scores, gradients * spread, own)] - weights[own]
        assert work.local.weight == pytest.approx(apart, abs=1e-4)


def test_neighbours_beside_an_outlier() -> None:
    """Distances are told apart however far away another row is."""
    problem = random_problem(5, 2)
    known = problem.background
    known.coordinates[0] = 1e9
    points, classes = known.coordinates.numpy(), known.classes.numpy()
    for i, x in enumerate(problem.rows.numpy()):
        near = reference.nearest_rows(points, classes, x / problem.space.spread.numpy(), problem.neighbours)
        work = walked_alone(problem, i, by_local=True)
        for k, rows in near.items():
            assert work.local.near[k, : work.local.found[k]].tolist() == rows


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 5), st.floats(0.01, 100), st.booleans())
@settings(max_examples=60)
@example(2, 2, 2, 87.5625, True)
def test_the_logistic_model_is_optimal(seed: int, features: int, classes: int, scale: float, sure: bool) -> None:
    """The loss is convex, with a curvature of at least 1 in W: W is as near to the minimum as its slope is small.
    Points many spreads apart may use up the steps, but never raise the loss."""
    ready("walks")
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4 * classes + 1))
    near = rng.normal(size=(count, features)) * scale
    soft = rng.dirichlet(np.full(classes, 1e-3 if sure else 1.0), size=count)
    soft[count // 2 :] = soft[-1]  # points that say the same
    fit, centred = logistic_fit(classes, 4 * classes), near - near.mean(axis=0)
    fit.gram[:count, :count], fit.y[:, :count] = centred @ centred.T, soft.T
    fit_logistic(fit, count)
    weights = centred.T @ fit.a[:, :count].T
    scores = torch.as_tensor(centred @ weights + fit.b)
    wrong = scores.softmax(dim=1).numpy() - soft
    loss = -(torch.as_tensor(soft) * scores.log_softmax(dim=1)).sum() + (weights**2).sum() / 2
    assert float(loss) <= count * np.log(classes) + 1e-9
    if scale <= 3:
        assert np.abs(centred.T @ wrong + weights).max() <= 1e-4
        assert np.abs(wrong.sum(axis=0)).max() <= 1e-4


def test_where_nothing_is_compiled() -> None:
    assert is_compiled_walk(random_problem(0, 3))
    assert not is_compiled_walk(random_problem(0, 3, as_printed=True))
    assert not is_compiled_walk(random_problem(0, 3, local_model="tree"))
    coded = grace.wrap(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).double(), classes=["x", "y"])
    train = frame(np.random.default_rng(0), 60, mixed=True)
    explainer = grace.Explainer(coded, train)
    rows = torch.as_tensor(explainer.schema.encode(train.head(4)))
    problem = explainer._problem(rows, None, explainer.schema, explainer.settings)
    assert relu_network(coded) is not None
    assert not is_compiled_walk(problem)  # the slope of a category that is read as a code is that of no vector
    assert local(problem).shape == rows.shape
