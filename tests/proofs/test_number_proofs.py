"""Proofs about networks that predict a number: against trying everything, a MILP solver, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsRegressor

import grace
from grace.models import Network, TorchModel
from grace.problem.goal import Between
from grace.problem.problem import Problem
from grace.proofs.certificate import FOUND, OPEN, PROVEN, prove
from grace.proofs.compiled.nearest import ENOUGH
from grace.proofs.distance_bound import distance_bound
from grids import enumerated, grid, nearest_by_trying
from milp_checker import Question, decide
from milp_network import Weights, weights_of
from milp_question import Aim, cells_of

GOALS = ("above", "below", "within", "each")


def regressor_of(frame: pd.DataFrame, seed: int, hidden: tuple[int, ...] = (8, 6)) -> grace.Explainer:
    """A random network, whose predictions are some hundreds."""
    schema = grace.Schema.infer(frame)
    network = Network(schema, hidden, 1)
    numeric = [f for f in schema.features if isinstance(f, grace.Numeric)]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        centre, scale = torch.tensor([f.typical for f in numeric]), torch.tensor([f.spread for f in numeric])
        network.initialise(centre, scale, generator)
        for layer in network.layers:
            layer.weight.mul_(1.5)
            layer.bias.normal_(0, 0.5, generator=generator)
        network.layers[-1].weight.mul_(100)
        network.layers[-1].bias.fill_(250.0)
    model = TorchModel(network.double().eval(), (), outputs="logits", schema=schema, task="regression")
    return grace.Explainer(model, frame, domain="minmax")


def mixed(seed: int, rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = {name: rng.normal(size=rows).round(3) for name in "abc"}
    return pd.DataFrame(numbers | {"d": rng.integers(0, 4, rows), "e": rng.choice(["u", "v", "w"], rows)})


def problem_of(explainer: grace.Explainer, frame: pd.DataFrame, goal: str, share: float) -> Problem:
    """Rows that ask for a number beyond that share of all predictions, or between it and a bit more."""
    options = grace.problem.settings.settings_of(explainer.settings, {"gamma": 1.0})
    rows = torch.as_tensor(explainer.schema.encode(frame))
    predicted = np.sort(explainer.background_scores()[:, 0])
    share = 1 - share if goal == "below" else share
    reached, beyond = (float(np.quantile(predicted, q)) for q in (share, min(1.0, share + 0.03)))
    n = len(frame)
    low, high = torch.full((n,), reached, dtype=torch.float64), torch.full((n,), np.inf, dtype=torch.float64)
    if goal == "below":
        low, high = -high, low
    if goal == "within":
        high = torch.full_like(high, beyond)
    if goal == "each":
        high = torch.where(torch.arange(n) % 3 == 0, high, beyond)
        low = torch.where(torch.arange(n) % 3 == 1, -torch.inf, low)
    problem = explainer._problem(rows, grace.above(0.0), explainer.schema, options)
    return replace(problem, goal=Between(low, high, explainer.spread()))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(GOALS), st.sampled_from([0.5, 0.9, 0.99, 1.0]), st.booleans())
def test_verdicts_are_those_of_trying_everything(seed: int, goal: str, share: float, deep: bool) -> None:
    frame = grid(seed)
    problem = problem_of(regressor_of(frame, seed, (6, 5, 4) if deep else (7,)), frame.head(6), goal, share)
    asked = ~problem.reached(problem.rows)
    for most in (1, 2, 3):
        verdict = prove(problem, torch.full((6,), most), 10)
        for i in torch.nonzero(asked)[:, 0].tolist():
            best, status = enumerated(problem, i, most), int(verdict.status[i])
            assert status == (FOUND if best >= 1e-6 else PROVEN) or (status == OPEN and abs(best) < 1e-5)
            assert status != PROVEN or best < 0
            if status == FOUND:
                part, row = problem.select(torch.tensor([i])), verdict.rows[[i]]
                assert (part.reached(row) & part.inside(row).all(dim=1)).all()
                assert 1 <= (row != part.rows).sum() <= most


@pytest.mark.parametrize("goal", GOALS)
def test_bounds_on_the_distance(goal: str) -> None:
    frame = grid(1)
    explainer = regressor_of(frame, 1)
    problem = problem_of(explainer, frame, goal, 0.8)
    found = prove(problem, torch.where(problem.reached(problem.rows), 0, 2), 10)
    hits = torch.nonzero(found.status == FOUND)[:, 0]
    part, rows = problem.select(hits), found.rows[hits]
    bound = distance_bound(part, rows, budget=10)
    assert len(hits) > 5
    for i in range(len(hits)):
        nearest = nearest_by_trying(part, i, rows[i])
        assert (1 - ENOUGH) * nearest - 1e-9 <= float(bound[i]) <= nearest + 1e-9


def as_classes(weights: Weights, low: float | None, high: float | None) -> tuple[Weights, Aim]:
    """A range as a question about classes: the first, always 0, has to lead what is missing below and above."""
    (weight, bias), before = weights.later[-1], weights.later[:-1]
    rows, offsets = [0 * weight[0]], [0.0]
    if low is not None:
        rows, offsets = [*rows, -weight[0]], [*offsets, low - bias[0]]
    if high is not None:
        rows, offsets = [*rows, weight[0]], [*offsets, bias[0] - high]
    last = (np.stack(rows), np.array(offsets))
    return replace(weights, later=(*before, last)), Aim({0: tuple(range(1, len(rows)))})


def limits_of(seed: int) -> dict[str, object]:
    return [{}, {"frozen": ["a"]}, {"increase_only": ["b", "d"]}, {"ranges": {"c": (-0.5, 0.5)}}][seed % 4]


@pytest.mark.parametrize("seed", range(8))
def test_claims_hold_for_a_milp_solver(seed: int) -> None:
    frame, limits, decided = mixed(seed), limits_of(seed), 0
    explainer = regressor_of(frame, seed)
    low, high = np.quantile(explainer.background_scores()[:, 0], [0.93, 0.96])
    asked = [grace.above(float(high)), grace.below(100.0), grace.within(float(low), float(high)), grace.by("+30 %")]
    against = [asked[i % 4] for i in range(12)]
    batch = explainer.explain(
        frame.head(12), against=against, prove=True, budget=10, gamma=1.0, max_features=3, **limits
    )
    base = weights_of(explainer.model.module, explainer.schema.features, 1)
    for i, e in enumerate(batch):
        if e.proof is None:  # predicted already
            continue
        assert e.proof["verdict"] in {"minimal", "impossible"}
        weights, aim = as_classes(base, e.proof["wanted"]["low"], e.proof["wanted"]["high"])
        cells = cells_of(explainer.schema.features, batch.answers.rows[i], limits)
        most = e.proof["changes"] - 1 if e.success else 3
        if most:
            verdict = decide(weights, Question(cells, aim, most))
            assert verdict.answer != "yes", (e.proof, verdict.row)
            decided += verdict.answer == "no"
        if e.success:
            changed = [
                c if c.value != v else replace(c, free=False)
                for c, v in zip(cells, batch.answers.contrast[i], strict=True)
            ]
            nearer = ("l1", e.proof["distance_at_least"] * (1 - 1e-5))
            verdict = decide(weights, Question(changed, aim, len(changed), (), nearer))
            assert verdict.answer != "yes", (e.proof, verdict.row)
            decided += verdict.answer == "no"
    assert decided >= 5


# -- what is said --------------------------------------------------------------------------------------


def valley() -> grace.Explainer:
    """10 + a + b for numbers up to 4: each alone leads to 14 at most."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        module[0].weight.fill_(1.0)
        module[0].bias.fill_(10.0)
    frame = pd.DataFrame({"a": np.linspace(0, 4, 41), "b": np.linspace(4, 0, 41)})
    return grace.Explainer(grace.wrap(module, task="regression"), frame, domain="minmax", gamma=1.0)


ROW = {"a": 0.0, "b": 0.0}


def test_a_proof_in_words() -> None:
    e = valley().explain(ROW, against=grace.above(16), prove=True)[0]
    assert e.proof["verdict"] == "minimal"
    assert e.proof["wanted"] == {"low": 16.0, "high": None, "spread": e.wanted["spread"]}
    assert e.text().endswith("Within these ranges, no single change could have led to a prediction of at least 16.")
    assert e.text(language="de").endswith(
        "Innerhalb dieser Bereiche hätte keine einzelne Änderung zu einer Vorhersage von mindestens 16 geführt."
    )
    assert grace.Explanation.from_json(e.to_json()) == e
    assert 0.98 * e.distance < e.proof["distance_at_least"] <= e.distance
    between = valley().explain(ROW, against=grace.within(15, 15.5), prove=True)[0]
    assert "could have led to a prediction of between 15 and 15.5." in between.text()
    assert "zu einer Vorhersage zwischen 15 und 15,5 geführt." in between.text(language="de")


def test_conditions_are_named() -> None:
    e = valley().explain(ROW, against=grace.above(19), prove=True, increase_only=["a"])[0]
    assert not e.success
    assert e.proof["verdict"] == "impossible"
    assert e.reason.startswith(
        "no contrast in favour of at least 19 exists (proven) with at most 5 changes within the observed ranges, "
        "with a only going up; "
    )
    e = valley().explain(ROW, against=grace.above(16), prove=True, increase_only=["a", "b"])[0]
    assert (
        "Within these ranges, with a and b only going up, no single change could have led to a prediction" in e.text()
    )


def test_a_single_change_is_the_least_that_does() -> None:
    e = valley().explain(ROW, against=grace.by("+25 %"), prove=True)[0]
    assert e.proof["verdict"] == "minimal"
    (note,) = e.notes
    assert note.startswith("proven: one change is the fewest there can be, and within these ranges, no change of ")
    assert note.endswith(" could have led to a prediction of at least 12.5")
    least = float(note.split("by less than ")[1].split()[0])
    assert 2.45 < least <= 2.5


@pytest.mark.parametrize(
    ("against", "verdict"), [(grace.above(np.inf), "impossible"), (grace.below(-1e300), "impossible")]
)
def test_what_no_number_reaches(against: object, verdict: str) -> None:
    assert valley().explain(ROW, against=against, prove=True)[0].proof["verdict"] == verdict


def test_models_without_layers_have_no_proofs() -> None:
    frame = mixed(0)[["a", "b", "c"]]
    model = KNeighborsRegressor().fit(frame, frame["a"] + frame["b"])
    explainer = grace.Explainer(model, frame.assign(y=frame["a"] + frame["b"]), target="y")
    with pytest.raises(grace.GraceError, match="a proof needs a network"):
        explainer.explain(frame.head(1), against=grace.above(1.0), prove=True)
