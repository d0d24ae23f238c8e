"""The lower bound on the distance, against trying everything and against a distance known by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiled_proofs import make_odd, mixed
from torch import nn

import grace
from grace.problem.goal import Against, Flip
from grace.proofs.certificate import FOUND, prove
from grace.proofs.compiled import distances
from grace.proofs.compiled.nearest import ENOUGH, boxes_of, pop, push
from grace.proofs.distance_bound import distance_bound
from grids import answers_by_trying, explainer_of, grid, nearest_by_trying

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("distance", ["l1", "l2", "linf"])
@pytest.mark.parametrize(("seed", "grades"), [(0, False), (1, False), (2, False), (3, True), (4, True), (5, True)])
def test_agrees_with_trying_everything(seed: int, grades: bool, distance: str) -> None:
    frame = grid(seed)
    if grades:  # categories with an order, some of which cost less than others
        order = ["bad", "fair", "good", "fine", "best"]
        frame["c"] = pd.Categorical(np.random.default_rng(seed).choice(order, 40), order, ordered=True)
    explainer = explainer_of(frame, seed, tilt=1.5)
    batch = explainer.explain(frame, gamma=1.0, method="gradient", distance=distance)
    rows = frame[batch.success]
    settings = grace.problem.settings.settings_of(explainer.settings, {"gamma": 1.0, "distance": distance})
    problem = explainer._problem(torch.as_tensor(explainer.schema.encode(rows)), None, explainer.schema, settings)
    contrast = torch.as_tensor(batch.answers.contrast[batch.success])
    farthest = torch.stack([answers_by_trying(problem, i, contrast[i])[1] for i in range(len(rows))])
    assert len(rows) > 5
    for answers in (contrast, farthest):
        bound = distance_bound(problem, answers, budget=10)
        for i in range(len(rows)):
            nearest = nearest_by_trying(problem, i, answers[i])
            assert (1 - ENOUGH) * nearest - 1e-9 <= float(bound[i]) <= nearest + 1e-9


def answers_to(seed: int, hidden: tuple[int, ...], oddities: tuple[str, ...], asked: str, norm: str):
    """A problem with continuous and whole numbers and a category, and answers that change up to three features."""
    frame = mixed(seed)
    explainer = explainer_of(frame, seed, hidden=hidden, tilt=1.5)
    make_odd(explainer, oddities, seed)
    options = grace.problem.settings.settings_of(explainer.settings, {"gamma": 1.0, "distance": norm})
    rows = torch.as_tensor(explainer.schema.encode(frame.head(6)))
    problem = explainer._problem(rows, None, explainer.schema, options)
    scores = problem.model.scores(problem.rows)
    if asked == "against":
        problem = replace(problem, goal=Against(scores.argmin(dim=1)))
    if asked == "confident":
        problem = replace(problem, goal=Flip(scores.argmax(dim=1), confidence=0.8))
    found = prove(problem, torch.full((6,), 3), budget=0.1)
    hits = torch.nonzero(found.status == FOUND)[:, 0]
    return problem.select(hits), found.rows[hits]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    hidden=st.sampled_from([(6,), (7, 5), (5, 4, 4)]),
    oddities=st.lists(st.sampled_from(("twins", "negated", "dead", "whole")), max_size=2).map(tuple),
    asked=st.sampled_from(["flip", "against", "confident"]),
    norm=st.sampled_from(["l1", "l2", "linf"]),
    budget=st.sampled_from([0.0, 0.1]),
)
def test_no_answer_is_nearer(seed, hidden, oddities, asked, norm, budget) -> None:
    """Not at random points either, nor at points between the row and an answer, nor where time is up."""
    rng = np.random.default_rng(seed)
    problem, contrast = answers_to(seed, hidden, oddities, asked, norm)
    if len(contrast) == 0:
        return
    bound = distance_bound(problem, contrast, budget)
    assert (bound <= problem.space.distance(problem.rows, contrast)).all()
    for i in range(len(contrast)):
        x, answer, count = problem.rows[i].numpy(), contrast[i].numpy(), 300
        rows = np.repeat(x[None], count, axis=0)
        for j in np.flatnonzero(answer != x):
            low, high = float(problem.low[i, j]), float(problem.high[i, j])
            if j in problem.space.categorical:
                values = rng.choice([x[j], *problem.space.choices[int(j)].numpy()], count)
            else:
                values = np.where(rng.random(count) < 0.5, rng.uniform(low, high, count), 0.0)
                values = np.where(values == 0.0, x[j] + rng.random(count) * (answer[j] - x[j]), values)
                values = np.round(values) if bool(problem.space.is_integer[j]) else values
            rows[:, j] = np.where(rng.random(count) < 0.2, x[j], values)
        each, tried = problem.select(torch.full((count,), i)), torch.as_tensor(rows)
        hits = each.reached(tried) & each.inside(tried).all(dim=1)
        length = problem.space.distance(each.rows, tried)[hits]
        assert not len(length) or float(bound[i]) <= float(length.min()) + 1e-12


def test_more_boxes_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, contrast = answers_to(3, (7, 5), (), "flip", "l2")
    usual = distance_bound(problem, contrast, 20)
    grew, grown = [], distances.grown
    monkeypatch.setattr(distances, "ROOM", 2)
    monkeypatch.setattr(distances, "grown", lambda boxes: grew.append(len(boxes.bound)) or grown(boxes))
    assert torch.equal(distance_bound(problem, contrast, 20), usual)
    assert grew
    monkeypatch.setattr(distances, "MOST_BOXES", 4)
    assert (distance_bound(problem, contrast, 20) <= usual).all()


@settings(max_examples=50, deadline=None)
@given(bounds=st.lists(st.floats(0, 10), min_size=1, max_size=40))
def test_boxes_leave_the_heap_in_order(bounds: list[float]) -> None:
    boxes, work = boxes_of(len(bounds), 1), SimpleNamespace(state=np.zeros(2, dtype=np.int64), box=np.zeros((2, 1)))
    for place, bound in enumerate(bounds):
        work.box[:] = place
        push.py_func(boxes, 1, bound, place, work)
    out = []
    for _ in bounds:
        out.append((boxes.bound[0], boxes.group[0], boxes.low[0, 0]))
        pop.py_func(boxes, 1, work)
    assert [bound for bound, _, _ in out] == sorted(bounds)
    assert all(bounds[group] == bound and low == group for bound, group, low in out)


def from_three_on() -> tuple[grace.Explainer, float]:
    """f says "yes" from a + b = 3 on; from (0, 0) the nearest answer costs 3 / spread. The second is the spread."""
    frame = pd.DataFrame({"a": np.linspace(-5, 5, 41), "b": np.linspace(5, -5, 41)})
    module = nn.Sequential(nn.Linear(2, 1))
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[1.0, 1.0]]))
        module[0].bias.fill_(-3.0)
    model = grace.wrap(module, classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, frame, domain="minmax", gamma=1.0)
    return explainer, explainer.schema.features[0].spread


def test_a_boundary_known_by_hand() -> None:
    explainer, spread = from_three_on()
    e = explainer.explain({"a": 0.0, "b": 0.0}, prove=True, among="nearest")[0]
    assert e.distance == pytest.approx(3 / spread, rel=0.01)
    assert 0.985 * 3 / spread < e.proof["distance_at_least"] <= 3 / spread * (1 + 1e-6)


def test_far_answers_have_the_bound_of_near_ones() -> None:
    """The bound is about the features, not about the values that an answer happens to have."""
    explainer, spread = from_three_on()
    rows = np.zeros((3, 2))
    problem = explainer._problem(explainer.tensor(rows), None, explainer.schema, explainer.settings)
    bound = distance_bound(problem, torch.tensor([[5.0, 5.0], [2.0, 4.5], [0.0, 5.0]], dtype=torch.float64), budget=10)
    assert (bound <= 3 / spread * (1 + 1e-6)).all()
    assert (bound >= (1 - ENOUGH) * 3 / spread * (1 - 1e-6)).all()


def test_a_proof_says_what_it_is_about() -> None:
    frame = grid(2)
    explainer = explainer_of(frame, 2)
    e = explainer.explain(frame.iloc[0], gamma=1.0, prove=True, frozen=["d"], increase_only=["a"])[0]
    a = float(frame["a"].iloc[0])
    assert e.proof["box"]["a"] == [a, 3.0]
    assert set(e.proof["box"]["c"]) == {"u", "v", "w"}
    assert "d" not in e.proof["box"]
    assert e.proof["frozen"] == ["d"]
    assert e.proof["margin"] == explainer.model.tolerance
    assert grace.Explanation.from_json(e.to_json()) == e
