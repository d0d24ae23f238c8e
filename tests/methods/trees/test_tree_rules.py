"""Answers about tree ensembles under linear rules, against all rows of a grid, and beside the search on tensors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.methods.requirements import ruled_trees

SEARCH = import_module("grace.methods.search")
WIDTH = 7  # different values of each number
NAMES = ["a", "b", "c"]
RULES = ["a <= b", "b < c + 2", "a + c <= 2 * b + 3", "3 <= a + c", "c <= a / 2 + 4", "b + 0.5 < a + c"]
IMPLIED: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "if a > 3 then k == 'x'": lambda r: (r["a"] <= 3) | (r["k"] == "x"),
    "if k == 'y' and b >= 2 then c != 4": lambda r: (r["k"] != "y") | (r["b"] < 2) | (r["c"] != 4),
    "if c in (1, 2, 5) then a <= 4": lambda r: ~r["c"].isin([1, 2, 5]) | (r["a"] <= 4),
    "if b < 3 then c >= 1 and k != 'y'": lambda r: (r["b"] >= 3) | ((r["c"] >= 1) & (r["k"] != "y")),
    "if a == 2 then b in (0, 3, 4)": lambda r: (r["a"] != 2) | r["b"].isin([0, 3, 4]),
}
TASKS = ("two", "three", "number")


def table_of(rng: np.random.Generator, gaps: bool = False) -> pd.DataFrame:
    frame = pd.DataFrame({name: rng.integers(0, WIDTH, 90) for name in NAMES} | {"k": rng.choice(list("xy"), 90)})
    frame["k"] = frame["k"].astype("category")
    if gaps:
        frame["b"] = frame["b"].astype(float).mask(rng.random(90) < 0.15)
    return frame


def model_of(rng: np.random.Generator, frame: pd.DataFrame, task: str) -> Any:
    value = frame["a"] * frame["c"] / 3 - frame["b"].fillna(3) + 2 * (frame["k"] == "x") + rng.normal(0, 2, len(frame))
    how: dict[str, Any] = {
        "max_iter": 6,
        "max_leaf_nodes": 8,
        "min_samples_leaf": 3,
        "categorical_features": "from_dtype",
    }
    if task == "number":
        return HistGradientBoostingRegressor(**how).fit(frame, value)
    ends = [0.6] if task == "two" else [0.3, 0.7]
    labels = np.array(["low", "mid", "high"])[np.digitize(value, np.quantile(value, ends))]
    return HistGradientBoostingClassifier(**how).fit(frame, labels)


def kept_by(rules: list[str], rows: pd.DataFrame, row: pd.Series) -> np.ndarray:
    """Whether each of some rows satisfies all rules about what differs in it from another row, literally."""
    out = np.ones(len(rows), dtype=bool)
    for rule in rules:
        used = [name for name in (*NAMES, "k") if re.search(rf"\b{name}\b", rule)]
        applies = (rows[used] != row[used]).any(axis=1).to_numpy() & bool(row[used].notna().all())
        out &= ~applies | (IMPLIED[rule](rows) if rule in IMPLIED else rows.eval(rule)).to_numpy()
    return out


def nearest_of_grid(
    explainer: grace.Explainer, model: Any, rules: list[str], row: pd.Series, flips: Any, free: list[str]
) -> tuple[float, float, float]:
    """The fewest changes, the least distance with so many, and the least of all, over all rows of the grid."""
    values = {n: sorted({row[n], *range(WIDTH)}) if n in free and pd.notna(row[n]) else [row[n]] for n in NAMES}
    values["k"] = ["x", "y"] if "k" in free else [row["k"]]
    every = pd.DataFrame(list(itertools.product(*values.values())), columns=list(values))
    every["k"] = every["k"].astype(pd.CategoricalDtype(list("xy")))
    good = every[flips(model.predict(every)) & kept_by(rules, every, row)]
    if not len(good):
        return np.inf, np.inf, np.inf
    same = (good == row) | (good.isna() & row.isna())
    spread = {f.name: f.spread for f in explainer.schema.features}
    far = sum(((good[n] - row[n]).abs() / spread[n]).fillna(0.0) for n in NAMES) + (good["k"] != row["k"])
    count = (~same).sum(axis=1)
    return float(count.min()), float(far[count == count.min()].min()), float(far.min())


@pytest.mark.parametrize("task", TASKS)
@given(
    st.integers(0, 1 << 20),
    st.lists(st.sampled_from([*RULES, *IMPLIED]), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
@settings(max_examples=16, derandomize=True)
def test_no_row_of_a_grid_has_fewer_changes(task: str, seed: int, rules: list[str], gaps: bool) -> None:
    """Nor, under one linear rule, is one nearer: under several, nearer values may be missed. Rows that break an
    implication themselves have the search on tensors, which promises less."""
    rng = np.random.default_rng(seed)
    frame = table_of(rng, gaps)
    model = model_of(rng, frame, task)
    free = [*NAMES, "k"] if seed % 2 else ["a", "b", "k"]
    explainer = grace.Explainer(model, frame, domain="minmax", gamma=1.0, max_features=4)
    assert explainer.model.trees is not None
    rows = frame.head(25)
    own = model.predict(rows)
    call: dict[str, Any] = {"only": free, "among": "nearest", "rules": rules}
    if task == "number":
        call["against"] = grace.above(float(np.median(own)) + 0.5)
    with mock.patch.object(SEARCH, "beam_search", wraps=SEARCH.beam_search) as on_tensors:
        batch = explainer.explain(rows, **call)
    left = sum(len(made.args[0]) for made in on_tensors.call_args_list)
    least = explainer.explain(rows, prefer="nearest", **call).answers.distance
    for i in range(len(rows)):
        row = rows.iloc[i]
        searched = all(IMPLIED[rule](rows.iloc[[i]]).item() for rule in rules if rule in IMPLIED)
        searched &= not row.isna().any() or not any(rule in IMPLIED for rule in rules)
        left -= not searched
        flips = (lambda p: p > np.median(own) + 0.5) if task == "number" else (lambda p, i=i: p != own[i])
        if task == "number" and flips(own)[i]:
            continue
        fewest, far, nearest = nearest_of_grid(explainer, model, rules, row, flips, free)
        if not batch.success[i]:
            assert not searched or fewest == np.inf
            continue
        answer = batch.contrast.iloc[[i]]
        assert kept_by(rules, answer, row).all()
        assert flips(model.predict(answer.astype(frame.dtypes))).all()
        count, distance = batch.changed.iloc[i].sum(), batch.answers.distance[i]
        assert count > fewest or distance >= far - 1e-9
        if searched:
            assert count == fewest
            assert sum(rule in RULES for rule in rules) > 1 or distance <= far + 1e-9
            assert sum(rule in RULES for rule in rules) > 1 or abs(least[i] - nearest) <= 1e-9
    assert left <= 0  # no row was given up


def test_a_change_that_only_a_rule_needs() -> None:
    """Only a matters to the model, and b has to move along where no threshold is."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, 400).round(1), "b": rng.uniform(0, 10, 400).round(1)})
    model = DecisionTreeClassifier(max_depth=1).fit(frame, np.where(frame["a"] > 5, "yes", "no"))
    explainer = grace.Explainer(model, frame, domain="minmax", gamma=1.0)
    row = {"a": 2.0, "b": 3.0}
    assert [change.feature.name for change in explainer.explain(row)[0].changes] == ["a"]
    ruled = explainer.explain(row, rules=["a <= b"])
    assert ruled.success.all()
    assert ruled.changed.to_numpy().all()
    assert 5 <= ruled.contrast["a"].iloc[0] <= ruled.contrast["b"].iloc[0] <= 5.2
    assert not explainer.explain(row, rules=["a <= b"], frozen=["b"]).success.any()
    assert not explainer.explain(row, rules=["a <= b"], max_features=1).success.any()


@pytest.mark.parametrize("width", [2.0, 10.0, 40.0])  # of a, in which one unit costs more or less than one of b
def test_values_that_break_a_rule_together(width: float) -> None:
    """The nearest values with which the model flips, a = 4.9 and b = 2, break a <= b: what costs less goes further."""
    rng = np.random.default_rng(0)
    a, b = np.clip(rng.normal(5, width / 4, 3000), 0, 10).round(1), rng.uniform(0, 10, 3000).round(1)
    frame = pd.DataFrame({"a": a, "b": b})
    yes = (frame["a"] < 5) & (frame["b"] >= 2)
    model = DecisionTreeClassifier(max_depth=2).fit(frame, np.where(yes, "yes", "no"))
    explainer = grace.Explainer(model, frame, domain="minmax", gamma=1.0)
    row = pd.DataFrame({"a": [6.0], "b": [1.0]})
    with mock.patch.object(SEARCH, "beam_search", side_effect=AssertionError("the row was given up")):
        batch = explainer.explain(row, rules=["a <= b"], among="nearest")
    grid = np.array(list(itertools.product(np.arange(0, 10.01, 0.1).round(1), repeat=2)))
    every = pd.DataFrame(grid, columns=["a", "b"])
    good = every[(model.predict(every) == "yes") & (every["a"] <= every["b"])]
    spread = {f.name: f.spread for f in explainer.schema.features}
    far = (good["a"] - 6).abs() / spread["a"] + (good["b"] - 1).abs() / spread["b"]
    assert batch.success.all()
    assert batch.contrast["a"].iloc[0] <= batch.contrast["b"].iloc[0]
    assert batch.answers.distance[0] <= far.min() + 1e-9


def forest(rng: np.random.Generator, rows: int, d: int) -> tuple[pd.DataFrame, Any]:
    frame = pd.DataFrame(rng.normal(size=(rows, d)).round(2), columns=[f"x{j}" for j in range(d)])
    score = frame @ rng.normal(size=d) + 2 * np.sin(3 * frame["x0"]) * frame["x1"]
    labels = np.where(score > score.median(), "high", "low")
    return frame, RandomForestClassifier(30, max_depth=6, random_state=0).fit(frame, labels)


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_no_worse_than_those_of_the_search_on_tensors(seed: int) -> None:
    frame, model = forest(np.random.default_rng(seed), 400, 8)
    explainer = grace.Explainer(model, frame, gamma=1.0)
    rules = ["x0 <= x1 + 1.5", "x2 + x3 <= 2 * x4 + 2", "x5 < x6 + 1"]
    rows = frame.head(30)
    batch = explainer.explain(rows, rules=rules, among="nearest")
    with mock.patch.object(SEARCH, "ruled_trees", return_value=None):
        other = explainer.explain(rows, rules=rules, among="nearest")
    assert (batch.success >= other.success).all()
    both = batch.success & other.success
    count, before = batch.changed.sum(axis=1)[both], other.changed.sum(axis=1)[both]
    assert (count <= before).all()
    same = (count == before).to_numpy()
    assert batch.answers.distance[both][same].mean() <= other.answers.distance[both][same].mean() + 1e-9
    for i in np.flatnonzero(batch.success):
        row, answer = rows.iloc[i], batch.contrast.iloc[i]
        changed = set(batch.changed.columns[batch.changed.iloc[i]])
        for names, holds in (
            ({"x0", "x1"}, answer["x0"] <= answer["x1"] + 1.5 + 1e-8),
            ({"x2", "x3", "x4"}, answer["x2"] + answer["x3"] <= 2 * answer["x4"] + 2 + 1e-8),
            ({"x5", "x6"}, answer["x5"] < answer["x6"] + 1),
        ):
            assert holds or not names & changed
        assert (answer[[c for c in row.index if c not in changed]] == row.drop(list(changed))).all()
        alone = explainer.explain(rows.iloc[[i]], rules=rules, among="nearest")
        assert np.array_equal(alone.answers.contrast[0], batch.answers.contrast[i])


def test_what_is_served() -> None:
    frame, model = forest(np.random.default_rng(5), 200, 4)
    explainer = grace.Explainer(model, frame, gamma=1.0)
    seen: list[bool] = []

    def noted(problem: Any) -> Any:
        seen.append(ruled_trees(problem) is not None)
        return ruled_trees(problem)

    with mock.patch.object(SEARCH, "ruled_trees", noted):
        explainer.explain(frame.head(2), rules=["x0 <= x1", "x2 < x3 + 1"])
        explainer.explain(frame.head(2), rules=["if x0 > 0 then x1 > -1"])
        assert len(seen) > 1
        assert all(seen)
        for rules in (["x0 = x1 + x2"], [lambda rows: rows["x0"] < 9]):
            seen.clear()
            explainer.explain(frame.head(2), rules=rules)
            assert seen
            assert not any(seen)
