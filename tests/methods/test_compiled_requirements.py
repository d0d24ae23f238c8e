"""The compiled search with rules, typical answers and several networks: margins as models have them, all values of a
grid, and what is not served."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf
from test_compiled_search import NAMES, frame, network

import grace
from grace import datasets, training
from grace.methods import compiled
from grace.methods.compiled.required import activate, inside_ball
from grace.methods.compiled.required_goal import margin_of_values
from grace.methods.requirements import serves
from grace.problem.problem import Problem

SEARCH = import_module("grace.methods.search")
POLISH = import_module("grace.methods.polish")


def wrapped(seed: int, classes: int) -> grace.models.TorchModel:
    return grace.wrap(network(seed, False, classes), classes=list("wxyz"[:classes]), outputs="logits")


def problem_of(explainer: grace.Explainer, rows: pd.DataFrame, **call: Any) -> Problem:
    """The problem of a call, as the search gets it."""
    seen: list[Problem] = []

    def keep(problem: Problem) -> torch.Tensor:
        seen.append(problem)
        return problem.rows

    with mock.patch.object(SEARCH, "search_required", keep), mock.patch.object(SEARCH, "beam_search", keep):
        explainer.explain(rows, **call)
    return seen[0]


# -- margins -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def credit() -> tuple[list[grace.models.TorchModel], pd.DataFrame, pd.DataFrame]:
    """Networks on numbers, ordered and other categories."""
    table = datasets.load("german_credit")
    models = [training.fit(table, seed=seed, max_epochs=3) for seed in range(3)]
    parts = table.split(0)
    return models, parts.train, models[0].impute(parts.test).head(12)


CREDIT_RULES = ["duration_months < age / 2 + 10", "100 * age <= credit_amount + 500 * duration_months"]
CREDIT_CALLS: list[dict[str, Any]] = [
    {"rules": CREDIT_RULES},
    {"plausible": 0.2},
    {"robust": True},
    {"robust": True, "confidence": 0.8},
    {"rules": CREDIT_RULES, "plausible": 0.3, "robust": True, "confidence": 0.6},
]


@pytest.mark.parametrize("call", CREDIT_CALLS, ids=lambda call: "+".join(call))
def test_margins_are_those_of_the_models(
    credit: tuple[list[grace.models.TorchModel], pd.DataFrame, pd.DataFrame], call: dict[str, Any]
) -> None:
    models, train, rows = credit
    call = {**call, "robust": models[1:] if call.get("robust") else ()}
    margins_agree(problem_of(grace.Explainer(models[0], train), rows, **call), 40)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.7]))
def test_margins_of_several_classes(seed: int, classes: int, ruled: bool, typical: bool, confidence: float) -> None:
    """Also of networks with the classes in another order, and of rows that break a rule themselves."""
    rng = np.random.default_rng(seed)
    train = frame(rng, 60)
    first, other = wrapped(seed, classes), network(seed + 1, False, classes)
    second = grace.wrap(other, classes=list("wxyz"[:classes])[::-1], outputs="logits")
    explainer = grace.Explainer(first, train, domain="minmax", gamma=1.0)
    call = {"rules": ["a <= b + 1", "a + c < 2"] if ruled else [], "plausible": 0.2 if typical else 0.0}
    problem = problem_of(explainer, train.head(10), robust=[second], confidence=confidence, **call)
    margins_agree(problem, 20)


def margins_agree(problem: Problem, times: int) -> None:
    """Margins after random changes. They have many digits, as changes that happen to leave the slack of a rule that the
    row breaks as it was are taken for none."""
    rng = np.random.default_rng(0)
    net, goal, columns, table = compiled.arrays_of(problem)
    values = compiled.workspace(net, columns, problem.rows.shape[1], 2).first
    at, classes = int(net.units[-2]), int(net.widths[-1])
    for _ in range(times):
        moved = problem.rows.numpy().copy()
        for i in range(len(moved)):
            for j in rng.choice(moved.shape[1], rng.integers(1, 3), replace=False):
                codes = columns.choices[columns.begins[j] : columns.begins[j + 1]]
                low, high = table.low[i, j], table.high[i, j]
                moved[i, j] = rng.choice(codes) if len(codes) else np.round(rng.uniform(low, high), 6)
        expected = problem.margin(torch.from_numpy(moved)).numpy()
        for i in range(len(moved)):
            activate(net, moved[i], values)
            margin = margin_of_values(goal, i, values, at, classes)
            # probabilities next to 1 round otherwise
            assert min(margin, 10.0) == pytest.approx(min(expected[i], 10.0), rel=1e-6, abs=1e-6)


# -- single changes ----------------------------------------------------------------------------------------------------


def typical_rows(train: pd.DataFrame, spread: np.ndarray, own: np.ndarray, name: str, share: float, rows: np.ndarray):
    """Whether rows are at least as typical of a class as a share of its training rows, literally."""
    members = train.to_numpy(dtype=float)[own == name] / spread
    if len(members) < 10:
        return np.zeros(len(rows), dtype=bool)
    shape = LedoitWolf().fit(members)

    def far(points: np.ndarray) -> np.ndarray:
        apart = points - shape.location_
        return np.sqrt(np.einsum("ij,jk,ik->i", apart, shape.precision_, apart))

    return (far(members)[None] >= far(rows / spread)[:, None] * (1 + 1e-5)).mean(axis=1) >= share


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 3), st.sampled_from(["rules", "robust", "plausible", "all"]))
def test_the_nearest_single_change_of_all_on_a_grid(seed: int, classes: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    train = frame(rng, 60)
    models = [wrapped(seed + k, classes) for k in range(3 if kind in ("robust", "all") else 1)]
    share = 0.1 if kind in ("plausible", "all") else 0.0
    bound, limit = rng.integers(-2, 3, 2)
    ruled = kind in ("rules", "all")
    explainer = grace.Explainer(models[0], train, domain="minmax", gamma=1.0, max_features=1, among="nearest")
    rules = [f"a <= b + {bound}".replace("+ -", "- "), f"a + 2 * c < {limit}"] if ruled else []
    rows = train.iloc[2:8].reset_index(drop=True)
    batch = explainer.explain(rows, rules=rules, robust=models[1:], plausible=share)
    spread = np.array([f.spread for f in explainer.schema.features])
    own, known = models[0].predict(rows), models[0].predict(train)

    def breaks(cells: pd.DataFrame) -> np.ndarray:
        """Which rule each row breaks, exactly: values have two decimals."""
        a, b, c = (np.round(cells[n].to_numpy() * 100).astype(int) for n in NAMES)
        return np.stack([a > b + 100 * bound, a + 2 * c >= 100 * limit], axis=1) & ruled

    for i in range(len(rows)):
        best, exists = np.inf, False
        for j, name in enumerate(NAMES):
            step = 1.0 if name == "b" else 0.01
            values = np.round(np.arange(-3, 3 + step / 2, step), 2)
            tried = pd.concat([rows.iloc[[i]]] * len(values), ignore_index=True)
            tried[name] = values.astype(rows[name].dtype)
            touched = np.array([name in "ab", name in "ac"]) & (values != rows[name].iloc[i])[:, None]
            works = ~(breaks(tried) & touched).any(axis=1)
            said = np.stack([model.predict(tried) for model in models])
            works &= (said != own[i]).all(axis=0) & (said == said[0]).all(axis=0)
            for model in models:
                scores = np.sort(np.log(model.predict_proba(tried).to_numpy()), axis=1)
                works &= scores[:, -1] - scores[:, -2] > 2e-6
            if share:
                cells = tried.to_numpy(dtype=float)
                each = {c: typical_rows(train[NAMES], spread, known, c, share, cells) for c in set(said[0])}
                works &= np.array([each[c][k] for k, c in enumerate(said[0])])
            exists |= bool(works.any())
            coarse = works & (np.abs(values * 10 - np.round(values * 10)) < 1e-9)
            if coarse.any():
                best = min(best, np.abs(values[coarse] - rows[name].iloc[i]).min() / spread[j])
        if exists:
            assert batch.success[i]
        if np.isfinite(best):
            assert batch.answers.distance[i] <= best + 1e-9
        if batch.success[i]:
            answer = batch.contrast.iloc[[i]]
            touched = np.array([(answer[list(n)] != rows.loc[[i], list(n)]).any(axis=None) for n in ("ab", "ac")])
            if (np.round(answer.to_numpy(), 2) == answer.to_numpy()).all():
                assert not (breaks(answer)[0] & touched).any()
            assert len({str(model.predict(answer)[0]) for model in models}) == 1


@settings(max_examples=200, deadline=None)
@given(*[st.floats(-3, 3) for _ in range(5)])
def test_the_interval_inside_a_ball(p: float, q: float, u: float, v: float, t: float) -> None:
    """The point (p, q) + t (u, v) is within the unit ball just if t is in the interval."""
    first, last = inside_ball(p * p + q * q, p * u + q * v, u * u + v * v, 1.0)
    square = (p + t * u) ** 2 + (q + t * v) ** 2
    if square < 1 - 1e-9:
        assert first <= t <= last
    elif square > 1 + 1e-9:
        assert not first < t < last or min(t - first, last - t) < 1e-6 * (1 + abs(t))


# -- several changes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segment() -> tuple[list[grace.models.TorchModel], grace.Explainer, pd.DataFrame]:
    table = datasets.load("segment")
    models = [training.fit(table, seed=seed, max_epochs=10) for seed in range(3)]
    parts = table.split(0)
    explainer = grace.Explainer(models[0], parts.train, max_features=3, among="nearest")
    return models, explainer, models[0].impute(parts.test).head(30)


SEGMENT_RULES = ["intensity_mean <= value_mean", "rawred_mean <= value_mean", "hue_mean < rawred_mean"]
SEGMENT_CALLS: list[dict[str, Any]] = [
    {"rules": SEGMENT_RULES},
    {"robust": True},
    {"plausible": 0.1},
    {"rules": SEGMENT_RULES, "robust": True, "plausible": 0.05, "prefer": "nearest", "distance": "l2"},
    {"rules": SEGMENT_RULES, "robust": True, "confidence": 0.7, "against": "grass"},
]


@pytest.mark.parametrize("call", SEGMENT_CALLS, ids=lambda call: "+".join(call))
def test_as_good_as_the_search_in_tensor_operations(
    segment: tuple[list[grace.models.TorchModel], grace.Explainer, pd.DataFrame], call: dict[str, Any]
) -> None:
    """No fewer rows have an answer. What one change answers stays a single change, no farther away. Beyond that both
    searches are heuristics: all rows together change at most 5 % more features, and where they change as many, the
    answers are together at most 2 % farther. Where the nearest answer is asked for, they are no farther on average."""
    models, explainer, rows = segment
    call = {**call, "robust": models[1:] if call.get("robust") else ()}
    mine = explainer.explain(rows, **call)
    nothing = mock.Mock(return_value=None)
    with mock.patch.object(SEARCH, "serves", nothing), mock.patch.object(POLISH, "serves", nothing):
        plain = explainer.explain(rows, **call)
    assert nothing.called
    assert mine.success.sum() >= plain.success.sum()
    both = mine.success & plain.success
    few, many = (b.changed.sum(axis=1).to_numpy()[both] for b in (mine, plain))
    near, far = (b.answers.distance[both] for b in (mine, plain))
    if call.get("prefer") == "nearest":
        assert near.mean() <= far.mean() * (1 + 1e-9)
    else:
        assert few.sum() <= many.sum() * 1.05
        same = few == many
        assert near[same].sum() <= far[same].sum() * 1.02
        assert (few[many == 1] == 1).all()
        single = same & (few == 1)
        assert (near[single] <= far[single] * (1 + 1e-9)).all()


def test_neither_batches_nor_threads_matter(
    segment: tuple[list[grace.models.TorchModel], grace.Explainer, pd.DataFrame],
) -> None:
    models, explainer, rows = segment
    call: dict[str, Any] = {"rules": SEGMENT_RULES, "robust": models[1:], "plausible": 0.05}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        together = explainer.explain(rows, **call).answers.contrast
        alone = [explainer.explain(rows.iloc[[i]], **call).answers.contrast[0] for i in range(len(rows))]
        torch.set_num_threads(3)
        threaded = explainer.explain(rows, **call).answers.contrast
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(together, np.stack(alone))
    assert np.array_equal(together, threaded)


def test_what_is_served(credit: tuple[list[grace.models.TorchModel], pd.DataFrame, pd.DataFrame]) -> None:
    models, train, rows = credit
    explainer = grace.Explainer(models[0], train)
    assert serves(problem_of(explainer, rows, rules=CREDIT_RULES)) is not None
    assert serves(problem_of(explainer, rows, rules=CREDIT_RULES, plausible=0.1, robust=models[1:])) is not None
    assert serves(problem_of(explainer, rows, rules=["if age < 25 then duration_months < 50"])) is None
    assert serves(problem_of(explainer, rows, rules=[*CREDIT_RULES, lambda table: table["age"] > 0])) is None
    assert serves(problem_of(explainer, rows, follow={"credit_amount": ["duration_months"]})) is None
    assert serves(problem_of(explainer, rows, robust=[Pipe(models[0])])) is None


class Pipe:
    """A model of which only predictions are known."""

    def __init__(self, model: grace.models.TorchModel) -> None:
        self.model, self.classes_ = model, np.array(model.classes)

    def predict(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict(table))

    def predict_proba(self, table: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(table).to_numpy()
