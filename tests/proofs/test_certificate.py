"""Proofs against exhaustive enumeration on small grids, and against an independent MILP solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from torch import nn

import grace
from grace.explain.solve import answer
from grace.models.relu import relu_network
from grace.problem.goal import Flip
from grace.proofs.certificate import FOUND, PROVEN, prove
from grids import enumerated, explainer_of, grid

pytestmark = pytest.mark.quick


def problem_of(explainer: grace.Explainer, rows: pd.DataFrame, **limits: object):
    settings = grace.problem.settings.settings_of(explainer.settings, {"gamma": limits.pop("gamma", 1.0)})
    schema = explainer.schema.constrain(**limits)
    encoded = torch.as_tensor(explainer.schema.encode(rows))
    return explainer._problem(encoded, None, schema, settings)


@pytest.mark.parametrize(
    "limits", [{}, {"frozen": ["a"]}, {"increase_only": ["a"], "decrease_only": ["d"]}, {"gamma": 0.02}]
)
@pytest.mark.parametrize(("seed", "tilt"), [(0, 2.5), (1, 0.7), (2, 2.5), (3, 2.5)])
def test_agrees_with_trying_everything(seed: int, tilt: float, limits: dict) -> None:
    frame = grid(seed)
    explainer = explainer_of(frame, seed, tilt=tilt)
    problem = problem_of(explainer, frame.head(12), **limits)
    seen = set()
    for most in (1, 2, 3):
        verdict = prove(problem, torch.full((12,), most), budget=10)
        for i in range(12):
            best = enumerated(problem, i, most)
            expected = FOUND if best >= 1e-6 else PROVEN
            assert int(verdict.status[i]) == expected, (i, most, best)
            seen.add(expected)
            if expected == FOUND:
                part, row = problem.select(torch.tensor([i])), verdict.rows[[i]]
                assert part.reached(row).all()
                assert part.inside(row).all()
                assert (row != part.rows).sum() <= most
    assert seen == {FOUND, PROVEN}


def best_by_milp(
    weights: list[tuple[np.ndarray, np.ndarray]],
    x,
    low,
    high,
    most: int,
    own: int,
    target: int,
    *,
    whole=(),
    conflicts=(),
    seconds: float = 60.0,
) -> float:
    """max f_target - f_own over rows with at most `most` changes: big-M ReLUs, solved by HiGHS; an upper bound
    on it if time is up. `whole` are the features with whole numbers, `conflicts` pairs that do not go together."""
    d = len(x)
    sizes = [len(b) for _, b in weights[:-1]]
    total = 2 * d + 3 * sum(sizes)  # x, changed?, then z, a, on? per hidden layer
    rows, lower, upper = [], [], []
    bounds_low, bounds_high = np.full(total, -np.inf), np.full(total, np.inf)
    integrality = np.zeros(total)
    bounds_low[:d], bounds_high[:d] = np.minimum(low, x), np.maximum(high, x)
    bounds_low[d : 2 * d], bounds_high[d : 2 * d], integrality[d : 2 * d] = 0, 1, 1
    integrality[list(whole)] = 1

    def add(terms: dict[int, float], least: float, greatest: float) -> None:
        row = np.zeros(total)
        for k, v in terms.items():
            row[k] += v
        rows.append(row)
        lower.append(least)
        upper.append(greatest)

    for j in range(d):  # x' - x within change * range
        add({j: 1, d + j: -(high[j] - x[j])}, -np.inf, x[j])
        add({j: 1, d + j: -(low[j] - x[j])}, x[j], np.inf)
    add({d + j: 1 for j in range(d)}, 0, most)
    for i, j in conflicts:
        add({d + i: 1, d + j: 1}, 0, 1)
    start, inputs, in_low, in_high = 2 * d, list(range(d)), bounds_low[:d], bounds_high[:d]
    for (w, b), size in zip(weights[:-1], sizes, strict=True):
        z_high = np.clip(w, 0, None) @ in_high + np.clip(w, None, 0) @ in_low + b
        z_low = np.clip(w, 0, None) @ in_low + np.clip(w, None, 0) @ in_high + b
        z, a, on = (list(range(start + k * size, start + (k + 1) * size)) for k in range(3))
        for i in range(size):
            add({z[i]: 1, **{inputs[k]: -w[i, k] for k in range(len(inputs))}}, b[i], b[i])
            bounds_low[a[i]], bounds_low[on[i]], bounds_high[on[i]], integrality[on[i]] = 0, 0, 1, 1
            add({a[i]: 1, z[i]: -1}, 0, np.inf)
            add({a[i]: 1, z[i]: -1, on[i]: -min(z_low[i], 0)}, -np.inf, -min(z_low[i], 0))
            add({a[i]: 1, on[i]: -max(z_high[i], 0)}, -np.inf, 0)
        start, inputs = start + 3 * size, a
        in_low, in_high = np.clip(z_low, 0, None), np.clip(z_high, 0, None)
    w, b = weights[-1]
    cost = np.zeros(total)
    cost[inputs] = -(w[target] - w[own])
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), lower, upper),
        bounds=Bounds(bounds_low, bounds_high),
        integrality=integrality,
        options={"time_limit": seconds},
    )
    return float(-found.mip_dual_bound + b[target] - b[own])


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_milp_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(40, 5)).round(3), columns=list("abcde"))
    explainer = explainer_of(frame, seed, hidden=(6, 5), classes=2)
    network = relu_network(explainer.model)
    weights = [(w.detach().numpy(), b.detach().numpy()) for w, b in ((network.weight, network.bias), *network.later)]
    problem = problem_of(explainer, frame.head(8))
    low, high = problem.space.low.numpy(), problem.space.high.numpy()
    for most in (1, 2):
        verdict = prove(problem, torch.full((8,), most), budget=10)
        for i in range(8):
            x = problem.rows[i].numpy()
            own = int(problem.model.scores(problem.rows[[i]]).argmax())
            best = best_by_milp(weights, x, low, high, most, own, 1 - own)
            if abs(best) > 1e-5:
                assert int(verdict.status[i]) == (FOUND if best > 0 else PROVEN), (i, most, best)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "domain"), [("cancer95", "central"), ("phoneme", "central"), ("diabetes", 0.9)])
def test_claims_about_the_papers_networks_hold_for_a_milp_solver(name: str, domain: object) -> None:
    table = grace.datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, parts.train, domain=domain)
    rows = model.impute(parts.test)
    batch = explainer.explain(rows, prove=True, budget=5)
    claims = [i for i, e in enumerate(batch) if e.proof["verdict"] == "impossible" or len(e.changes) > 1][:8]
    assert len(claims) >= 4
    network = relu_network(model)
    weights = [(w.detach().numpy(), b.detach().numpy()) for w, b in ((network.weight, network.bias), *network.later)]
    problem = problem_of(explainer, rows.iloc[claims], gamma=explainer.settings.gamma)
    low, high = problem.space.low.numpy(), problem.space.high.numpy()
    conflicts = [tuple(pair) for pair in np.argwhere(np.triu(problem.conflict.numpy(), 1))]
    whole = np.flatnonzero(problem.space.is_integer.numpy())
    agreed = 0
    for place, i in enumerate(claims):
        assert batch[i].proof["verdict"] in ("minimal", "impossible")
        most = len(batch[i].changes) - 1 if batch.success[i] else 5
        x = problem.rows[place].numpy()
        own = int(problem.model.scores(problem.rows[[place]]).argmax())
        limits = {"whole": whole, "conflicts": conflicts}
        best = best_by_milp(weights, x, low, high, most, own, 1 - own, **limits)
        agreed += best < 1e-6
    assert agreed == len(claims)


@pytest.mark.parametrize("hidden", [(), (7,), (6, 5, 4)])
def test_any_depth(hidden: tuple[int, ...]) -> None:
    frame = grid(9)
    explainer = explainer_of(frame, 9, hidden=hidden)
    problem = problem_of(explainer, frame.head(8))
    verdict = prove(problem, torch.full((8,), 2), budget=10)
    for i in range(8):
        assert int(verdict.status[i]) == (FOUND if enumerated(problem, i, 2) >= 1e-6 else PROVEN)


def test_relu_network_is_the_model() -> None:
    explainer = explainer_of(grid(1), 1)
    rows = torch.as_tensor(explainer.schema.encode(grid(1)))
    torch.testing.assert_close(relu_network(explainer.model).scores(rows), explainer.model.scores(rows))


def test_a_users_sequential_is_a_relu_network() -> None:
    torch.manual_seed(0)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
    single = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 1))
    model = grace.wrap(single, classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, frame)
    rows = torch.as_tensor(frame.to_numpy(copy=True))
    torch.testing.assert_close(relu_network(model).scores(rows), model.scores(rows))
    assert all(e.proof is not None for e in explainer.explain(frame.head(3), prove=True))
    curved = grace.wrap(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), classes=["no", "yes"])
    with pytest.raises(grace.GraceError, match="Linear and ReLU"):
        grace.Explainer(curved, frame).explain(frame.head(1), prove=True)


def test_explanations_say_what_was_proven() -> None:
    frame = grid(2)
    explainer = explainer_of(frame, 2)
    batch = explainer.explain(frame, gamma=1.0, prove=True, budget=10)
    for i, e in enumerate(batch):
        problem = problem_of(explainer, frame.iloc[[i]])
        assert e.proof["verdict"] in ("minimal", "impossible")
        assert (e.proof["verdict"] == "minimal") == e.success
        if e.success and len(e.changes) > 1:
            assert enumerated(problem, 0, len(e.changes) - 1) < 1e-6
            assert "Within these ranges, no" in e.text()
        if not e.success:
            assert enumerated(problem, 0, 5) < 1e-6
            assert "exists (proven)" in e.reason
        assert grace.Explanation.from_json(e.to_json()) == e
    assert any(len(e.changes) > 1 for e in batch)


def test_a_smaller_answer_is_used() -> None:
    """The gradient walk alone is not minimal; with a proof its answers become so."""
    frame = grid(5)
    explainer = explainer_of(frame, 5)
    plain = explainer.explain(frame, gamma=1.0, method="gradient")
    proven = explainer.explain(frame, gamma=1.0, method="gradient", prove=True, budget=10)
    before, after = plain.changed.sum(axis=1)[plain.success], proven.changed.sum(axis=1)[plain.success]
    assert (after <= before).all()
    assert (after < before).any() or proven.success.sum() > plain.success.sum()


def test_out_of_time_is_open() -> None:
    frame = grid(3)
    explainer = explainer_of(frame, 3)
    verdict = prove(problem_of(explainer, frame.head(12)), torch.full((12,), 3), budget=0)
    assert (verdict.status != PROVEN).any()


def test_an_endless_range_is_an_error() -> None:
    frame = grid(3)
    explainer = explainer_of(frame, 3)
    with pytest.raises(grace.GraceError, match="'a' has no finite range"):
        explainer.explain(frame.head(1), prove=True, method="gradient", ranges={"a": (0, float("inf"))})


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_more_confidence_in_the_rows_own_class_is_proven_like_any_other_class(method: str) -> None:
    """The lead of "b" is x + y: from 0.5 and 0, 90 % (a lead of 2.2) takes one change, within narrower ranges two."""
    frame = pd.DataFrame({"x": np.linspace(-4, 4, 81).round(1), "y": np.linspace(4, -4, 81).round(1)})
    network = nn.Sequential(nn.Linear(2, 2)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        network[0].bias.zero_()
    model = grace.wrap(network, classes=["a", "b"], outputs="logits")
    explainer = grace.Explainer(model, frame, domain="minmax", gamma=1.0)
    row = {"x": 0.5, "y": 0.0}
    asked = {"against": "b", "confidence": 0.9, "prove": True, "method": method}
    one = explainer.explain(row, **asked)[0]
    assert (one.success, len(one.changes), one.proof["verdict"]) == (True, 1, "minimal")
    two = explainer.explain(row, ranges={"x": (-1, 1.5), "y": (-1, 1.5)}, **asked)[0]
    assert (two.success, len(two.changes), two.proof["verdict"]) == (True, 2, "minimal")
    none = explainer.explain(row, ranges={"x": (-1, 1), "y": (-1, 1)}, **asked)[0]
    assert (none.success, none.proof["verdict"]) == (False, "impossible")


def test_a_row_at_a_tie_is_of_the_class_that_the_goal_says(monkeypatch) -> None:
    """Folded layers may round a tie to another class than the model does; the class of the goal is what counts."""
    frame = grid(1)
    problem = problem_of(explainer_of(frame, 1), frame.head(12))
    usual = prove(problem, torch.full((12,), 1), budget=10)
    scores = relu_network(problem.model).scores
    monkeypatch.setattr(type(relu_network(problem.model)), "scores", lambda self, rows: -scores(rows))
    again = prove(problem, torch.full((12,), 1), budget=10)
    assert torch.equal(usual.status, again.status)


def test_the_class_of_a_row_is_that_of_its_goal() -> None:
    """Of two classes equal but for rounding, the sentence names the one that the answer leaves."""
    frame = grid(1)
    problem = problem_of(explainer_of(frame, 1), frame.head(12))
    scores = problem.model.scores(problem.rows)
    second = scores.topk(2, dim=1).indices[:, 1]
    settings = grace.problem.settings.Settings(gamma=1.0)
    tied = replace(problem, goal=Flip(second))
    assert (answer(tied, settings).before.argmax(axis=1) == second.numpy()).all()
    assert (answer(problem, settings).before == scores.numpy()).all()
