"""The lower bound on the distance, against trying everything and against a distance known by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from grace.proofs.distance_bound import ENOUGH, distance_bound
from grids import explainer_of, grid, nearest_by_trying

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("distance", ["l1", "l2", "linf"])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_trying_everything(seed: int, distance: str) -> None:
    frame = grid(seed)
    explainer = explainer_of(frame, seed, tilt=1.5)
    batch = explainer.explain(frame, gamma=1.0, method="gradient", distance=distance)
    rows = frame[batch.success]
    settings = grace.problem.settings.settings_of(explainer.settings, {"gamma": 1.0, "distance": distance})
    problem = explainer._problem(torch.as_tensor(explainer.schema.encode(rows)), None, explainer.schema, settings)
    contrast = torch.as_tensor(batch.answers.contrast[batch.success])
    bound = distance_bound(problem, contrast, budget=10)
    assert len(rows) > 5
    for i in range(len(rows)):
        nearest = nearest_by_trying(problem, i, contrast[i])
        assert (1 - ENOUGH) * nearest - 1e-9 <= float(bound[i]) <= nearest + 1e-9


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
