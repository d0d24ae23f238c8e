"""Steady answers of compiled code beside a literal choice on a fine grid, in plain Python; threads and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from test_compiled_search import NAMES, frame, network
from torch import nn

import grace
from grace import datasets, training
from grace.methods.steady import INSIDE, STEADY
from tree_cases import TASKS, case

END = 3.0
STEP = 0.001  # of the grid


@dataclass(frozen=True)
class Span:
    """Values of one feature for which the goal is reached by one class, the nearest first."""

    name: str
    near: float
    far: float
    width: float
    cost: float


def decision(model: Any, rows: pd.DataFrame, own: Any, call: dict[str, Any]) -> list[Any]:
    """The class by which each row is an answer, None if it is none."""
    if model.task == "regression":
        goal = call["against"]
        return [bool(v >= goal.low) for v in model.predict(rows)]
    proba = model.predict_proba(rows).to_numpy()
    top = proba.argmax(axis=1)
    labels = np.array(list(model.classes), dtype=object)[top]
    sure = proba.max(axis=1) >= call.get("confidence", 0)
    wanted = call.get("against")
    return [
        label if s and (label == wanted if wanted is not None else label != own) else None
        for label, s in zip(labels, sure, strict=True)
    ]


def literal_spans(
    explainer: grace.Explainer, row: pd.DataFrame, name: str, ends: tuple[float, float], call: dict[str, Any]
) -> list[Span]:
    """All spans of a feature alone, read off a grid."""
    model, old = explainer.model, float(row[name].iloc[0])
    spread = next(f.spread for f in explainer.schema.features if f.name == name)
    whole = name == "b"
    values = np.arange(ends[0], ends[1] + 0.5, 1.0) if whole else np.arange(ends[0], ends[1] + STEP / 2, STEP)
    tried = pd.concat([row] * len(values), ignore_index=True)
    tried[name] = values.astype(int) if whole else values
    own = model.predict(row)[0]
    classes = decision(model, tried, own, call)
    needed = 1 if whole and max(ends[1] - old, old - ends[0]) < 2 else 2
    out: list[Span] = []
    begin = 0
    for at in range(1, len(values) + 1):
        if at < len(values) and classes[at] == classes[begin] and not values[at - 1] < old <= values[at]:
            continue
        if classes[begin] not in (None, False):
            low, high = values[begin], values[at - 1]
            near, far = (low, high) if low > old else (high, low)
            width = (high - low + 1) / needed if whole else (high - low) / (STEADY * spread)
            out.append(Span(name, near, far, width, abs(near - old) / spread))
        begin = at
    return [s for s in out if s.near != old]


CALLS: list[dict[str, Any]] = [
    {},
    {"confidence": 0.7},
    {"frozen": ["a"]},
    {"increase_only": ["a", "b", "c"]},
    {"against": "w"},
]


def check(explainer: grace.Explainer, rows: pd.DataFrame, call: dict[str, Any]) -> int:
    """Single changes beside the literal choice; returns how many were compared."""
    limits = {"ranges": dict.fromkeys(NAMES, (-END, END)), "max_features": 1}
    near, steady = (explainer.explain(rows, among=among, **limits, **call) for among in ("nearest", "steady"))
    assert (near.success == steady.success).all()
    spread = {f.name: f.spread for f in explainer.schema.features}
    compared = 0
    for i in np.flatnonzero(near.success):
        row, spans = rows.iloc[[i]], []
        for name in NAMES:
            low, high = -END, END
            if name in call.get("frozen", []):
                continue
            if name in call.get("increase_only", []):
                low = float(row[name].iloc[0])
            spans += literal_spans(explainer, row, name, (low, high), call)
        if any(0.9 < s.width < 1.1 for s in spans):  # the grid does not say whether it is steady
            continue
        compared += 1
        (name,) = np.array(NAMES)[steady.answers.changed[i]]
        old, new = float(row[name].iloc[0]), float(steady.contrast[name].iloc[i])
        own = [s for s in spans if s.name == name and min(s.near, s.far) - STEP <= new <= max(s.near, s.far) + STEP]
        firm = [s for s in spans if s.width >= 1]
        if not firm:
            assert not own or own[0].width >= max(s.width for s in spans) - 2 * STEP / (STEADY * spread[name])
            continue
        assert own, (name, old, new, spans)
        assert own[0].width >= 1
        (first,) = np.array(NAMES)[near.answers.changed[i]]
        value = float(near.contrast[first].iloc[i])
        stood = [
            s for s in spans if s.name == first and min(s.near, s.far) - STEP <= value <= max(s.near, s.far) + STEP
        ]
        if stood and stood[0].width >= 1:  # the nearest answer is steady: it moves inside
            assert name == first
            assert abs(own[0].near - old) <= abs(stood[0].near - float(row[first].iloc[0])) + STEP
        step = 1.0 if name == "b" else 0.1  # of values that can be said
        depth = abs(new - own[0].near)
        assert depth >= INSIDE * abs(own[0].far - own[0].near) - 2 * STEP or name == "b"
        assert depth <= INSIDE * abs(own[0].far - own[0].near) + step + 2 * STEP
        if not (stood and stood[0].width >= 1):  # of all steady spans, none would have been clearly nearer
            best = min(
                s.cost + (INSIDE * abs(s.far - s.near) + (1.0 if s.name == "b" else 0.1)) / spread[s.name] for s in firm
            )
            assert steady.answers.distance[i] <= best + 2 * STEP / spread[name]
    return compared


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("classes", [2, 4])
def test_single_changes_of_networks(call: dict[str, Any], classes: int) -> None:
    compared = 0
    for seed in range(4):
        train = frame(np.random.default_rng(seed), 60)
        model = grace.wrap(network(seed, seed == 3, classes), classes=list("wxyz"[:classes]), outputs="logits")
        explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
        compared += check(explainer, train.iloc[2:8].reset_index(drop=True), call)
    assert compared >= 2


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_single_changes_of_trees(call: dict[str, Any], classes: int) -> None:
    compared = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        train = frame(rng, 120)
        score = np.sin(2 * train.a) + train.b * train.c / 3 + rng.normal(0, 0.3, 120)
        labels = np.array(list("wxyz"))[pd.qcut(score, classes, labels=False)]
        fitted = GradientBoostingClassifier(n_estimators=12, max_depth=3, random_state=0).fit(train, labels)
        explainer = grace.Explainer(fitted, train, domain="minmax", gamma=1.0)
        compared += check(explainer, train.iloc[2:8].reset_index(drop=True), call)
    assert compared >= 2


@pytest.mark.parametrize("kind", ["network", "trees"])
def test_single_changes_of_predicted_numbers(kind: str) -> None:
    compared = 0
    for seed in range(3):
        train = frame(np.random.default_rng(seed), 120)
        number = np.sin(2 * train.a) + train.b * train.c / 3
        model: Any = network(seed, False, 1)
        if kind == "trees":
            model = GradientBoostingRegressor(n_estimators=12, max_depth=3, random_state=0).fit(train, number)
        else:
            model = grace.wrap(model, task="regression")
        explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
        high = float(np.quantile(explainer.model.predict(train), 0.7)) + 0.01  # beside plateaus
        compared += check(explainer, train.iloc[2:8].reset_index(drop=True), {"against": grace.above(high)})
    assert compared >= 2


def bumps() -> nn.Sequential:
    """The class "yes" on a spike at a = 3, where b is above 6, and where a is above 7."""
    inner = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    places = torch.tensor([2.98, 3.0, 3.02, 6.0, 7.0, 0.0], dtype=torch.float64)
    inner[0].weight.data = torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1], [1, 0], [0, 0]], dtype=torch.float64)
    inner[0].bias.data = -places
    inner[2].weight.data = torch.zeros(2, 6, dtype=torch.float64)
    inner[2].weight.data[1] = torch.tensor([100.0, -200, 100, 1, 1, 0])
    inner[2].bias.data = torch.tensor([0.5, 0.0]).double()
    return inner


def test_a_spike_of_a_network_is_passed_over() -> None:
    train = pd.DataFrame({"a": np.linspace(0, 10, 101).round(2), "b": np.linspace(10, 0, 101).round(2)})
    model = grace.wrap(bumps(), classes=["no", "yes"], outputs="logits")
    explainer = grace.Explainer(model, train, domain="minmax", gamma=1.0)
    row = {"a": 1.0, "b": 1.0}
    near = explainer.explain(row, among="nearest")[0]
    assert 2.98 < near.contrast["a"] < 3.02
    steady = explainer.explain(row, among="steady")[0]
    assert steady.contrast["a"] == 1
    assert 6.85 - 1e-9 <= steady.contrast["b"] <= 6.95  # a tenth of 6.5 to 10
    only = explainer.explain(row, among="steady", frozen=["b"])[0]
    assert 7.75 - 1e-9 <= only.contrast["a"] <= 7.85  # a tenth of 7.5 to 10


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["forest", "xgboost"])
def test_answers_of_random_trees_keep_all_promises(kind: str, task: str) -> None:
    """Categories, whole numbers, limits, gamma, goals; also one row beside the batch."""
    for seed in range(6):
        asked = case(np.random.default_rng(seed), kind, task)
        call = {k: v for k, v in asked.call.items() if k != "prove"} | {"prefer": "fewest"}
        near, steady = (asked.explainer.explain(asked.rows, among=a, **call) for a in ("nearest", "steady"))
        assert (near.success == steady.success).all()
        assert (steady.changed.sum(axis=1) <= near.changed.sum(axis=1)).all()
        for name in ("flip", "features", "gamma", "domain"):
            assert steady.answers.checks[name][steady.success].all()
        for i in range(len(asked.rows)):
            alone = asked.explainer.explain(asked.rows.iloc[[i]], among="steady", **call)
            assert np.array_equal(alone.answers.contrast, steady.answers.contrast[[i]], equal_nan=True)


@pytest.mark.parametrize(
    "call", [{}, {"confidence": 0.8}, {"gamma": 0.2}, {"distance": "l2"}, {"distance": "linf"}], ids=str
)
def test_answers_of_a_network_keep_all_promises(call: dict[str, Any]) -> None:
    table = datasets.load("german_credit")
    model = training.fit(table, seed=0, max_epochs=20)
    parts = table.split(0)
    explainer, rows = grace.Explainer(model, parts.train), model.impute(parts.test).head(40)
    near, steady = (explainer.explain(rows, among=a, **call) for a in ("nearest", "steady"))
    assert (near.success == steady.success).all()
    assert (steady.changed.sum(axis=1) <= near.changed.sum(axis=1)).all()
    assert all(held[steady.success].all() for held in steady.answers.checks.values())
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        assert explainer.explain(rows, among="steady", **call).contrast.equals(steady.contrast)
    finally:
        torch.set_num_threads(threads)
    assert explainer.explain(rows.iloc[[7]], among="steady", **call).contrast.equals(steady.contrast.iloc[[7]])


def test_by_default_answers_are_steady_where_lines_are_known_exactly() -> None:
    """Of networks and trees; other models, methods and preferences get the nearest."""
    table = datasets.load("diabetes")
    parts = table.split(0)
    model = training.fit(table, seed=0, max_epochs=30)
    rows = model.impute(parts.test)[table.schema.names].head(12)
    trees = GradientBoostingClassifier(n_estimators=12, random_state=0).fit(
        parts.train[table.schema.names], parts.train[table.target]
    )

    def contrasts(explainer: grace.Explainer, **call: Any) -> np.ndarray:
        return explainer.explain(rows, **call).answers.contrast

    for read in (model, trees):
        explainer = grace.Explainer(read, parts.train[[*table.schema.names, table.target]], target=table.target)
        default, nearest = contrasts(explainer), contrasts(explainer, among="nearest")
        assert np.array_equal(default, contrasts(explainer, among="steady"))
        assert not np.array_equal(default, nearest)
        for call in (
            {"prefer": "nearest"},
            {"method": "gradient"},
            {"rules": ["serum_insulin <= plasma_glucose + 900"]},
        ):
            assert np.array_equal(contrasts(explainer, **call), contrasts(explainer, among="nearest", **call))
    black_box = grace.wrap(lambda frame: trees.predict_proba(frame), classes=list(trees.classes_))
    explainer = grace.Explainer(black_box, parts.train[table.schema.names])
    assert np.array_equal(contrasts(explainer), contrasts(explainer, among="nearest"))


@pytest.mark.parametrize("among", ["auto", "nearest", "steady"])
def test_what_was_saved_stays(tmp_path: Any, among: str) -> None:
    table = datasets.load("diabetes")
    explainer = grace.Explainer(training.fit(table, max_epochs=1), table.split(0).train, among=among)
    explainer.save(str(tmp_path / "saved"))
    assert grace.load(str(tmp_path / "saved")).settings.among == among
