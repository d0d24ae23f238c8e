"""Peers that read trees: what they are given, and proofs of theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import grace
from benchmark_world import loans
from grace.experiments import Answers, Task, task_of
from grace.experiments.peers import PEERS, RUNNERS
from grace.experiments.process import ask_peer, served
from grace.experiments.runners import protocol
from grace.experiments.task import prepare
from grace.experiments.tree_arrays import tree_arrays

HALF = f"""
import sys
sys.path.insert(0, {str(RUNNERS)!r})
from protocol import Answer, main

def prepare(task, variant):
    def ask(i):
        return Answer(None if i == 0 else task.rows[i], proven=i % 2 == 0)
    return ask

main(prepare)
"""


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = loans().split(0)
    return tuple(f.assign(risk=np.where(f["risk"] == "low", "low", "high")) for f in (parts.train, parts.test))  # type: ignore[return-value]


def boosted(**limits: Any) -> Task:
    """Categories as they are."""
    train, test = (f.astype({"home": "category"}) for f in frames())
    model = HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype", random_state=0)
    model.fit(train.drop(columns="risk"), train["risk"])
    return task_of("boosted", model, train, test, target="risk", **limits)


def forest(**limits: Any) -> Task:
    """Preprocessing in front, sums that are probabilities."""
    train, test = frames()
    numbers = (StandardScaler(), make_column_selector(dtype_include="number"))
    encode = make_column_transformer((OneHotEncoder(), make_column_selector(dtype_exclude="number")), numbers)
    model = make_pipeline(encode, RandomForestClassifier(9, random_state=0, n_jobs=1))
    return task_of("forest", model.fit(train.drop(columns="risk"), train["risk"]), train, test, target="risk", **limits)


def worth(**limits: Any) -> Task:
    """A number."""
    train, test = (f[["income", "debts", "age"]] for f in frames())
    model = HistGradientBoostingRegressor(max_iter=12, random_state=0).fit(train, train["income"] - 9 * train["debts"])
    return task_of("worth", model, train, test, against=grace.within(20, 30), **limits)


KINDS = {"boosted": boosted, "forest": forest, "worth": worth}


def given(task: Task, folder: Path) -> protocol.Task:
    """The task as a runner reads it."""
    task.save(folder)
    with served(task) as address:
        (folder / "address").write_text(address, encoding="utf-8")
        return protocol.Task(folder)


@pytest.fixture
def runner(monkeypatch) -> Any:
    monkeypatch.syspath_prepend(RUNNERS)
    import run_treecf

    return run_treecf


def leaf(nodes: list[Any], row: Any) -> float:
    """The value of the leaf that a row reaches."""
    node = nodes[0]
    while node.feature is not None:
        x = row[node.feature]
        left = x < node.threshold if node.codes is None else int(x) in node.codes
        node = nodes[node.left if left else node.right]
    assert node.value is not None
    return float(node.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_runner_gets_the_trees_of_the_model(kind, runner, tmp_path) -> None:
    task = KINDS[kind](most=5)
    seen = given(task, tmp_path)
    assert seen.trees is not None
    trees = [runner.nodes_of(seen, int(root)) for root in seen.trees["roots"]]
    sums = [seen.trees["base"] + sum(leaf(nodes, row) for nodes in trees) for row in task.train]
    np.testing.assert_allclose(sums, [runner.score(seen, row) for row in task.train], atol=1e-12)
    low, high = seen.trees["wanted"]
    inside = (np.array(sums) > low) & (np.array(sums) < high)
    np.testing.assert_array_equal(inside, task.classes_of(task.train) == 1)
    for row in task.rows:
        least, most = runner.interval(seen, row)
        assert not least <= runner.score(seen, row) <= most


def test_a_threshold_is_in_the_sums(runner, tmp_path) -> None:
    task = forest(most=3)
    strict = Task(**{**vars(task), "model": task.model.with_threshold({"low": 0.8})})
    strict.classes_of(task.train)  # chooses how the model is asked
    seen = given(strict, tmp_path)
    decided = [runner.score(seen, row) > 0 for row in task.train]
    np.testing.assert_array_equal(decided, strict.classes_of(task.train) == 1)
    assert np.mean(decided) < task.classes_of(task.train).mean()


def test_splits_that_divide_nothing_are_left_out(runner, tmp_path) -> None:
    seen = given(boosted(most=3), tmp_path)
    assert seen.trees is not None
    root = int(seen.trees["roots"][0])
    below = int(seen.trees["left"][root])
    seen.trees["threshold"][root], seen.trees["members"][root] = np.inf, -1
    assert runner.nodes_of(seen, root) == runner.nodes_of(seen, below)


def test_only_trees_of_two_classes_or_numbers_are_given() -> None:
    train, test = (f.drop(columns="home") for f in (loans().split(0).train, loans().split(0).test))
    model = RandomForestClassifier(5, random_state=0).fit(train.drop(columns="risk"), train["risk"])
    assert tree_arrays(task_of("three", model, train, test, target="risk", most=2).model, None) == {}
    assert tree_arrays(prepare(loans(), rows=2).model, None) == {}


def test_proofs_of_a_peer_are_kept(tmp_path) -> None:
    task = boosted(most=4)
    (tmp_path / "half.py").write_text(HALF, encoding="utf-8")
    answers = ask_peer(task, [sys.executable, str(tmp_path / "half.py")], "x", setup=20)
    assert answers.proven is not None
    assert answers.proven.tolist() == [True, False, True, False]
    assert np.isnan(answers.rows[0]).all()
    assert answers.note == "2 of 4 rows proven"
    again = Answers.from_dict(answers.to_dict(), 4)
    np.testing.assert_array_equal(again.proven, answers.proven)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_treecf_answers_and_its_optimum_is_ours(make: Callable[..., Task], tmp_path_factory) -> None:
    """Makes the environment, in a folder that the runs share: needs pip and an index."""
    root = tmp_path_factory.getbasetemp() / "environments"
    task = make(most=8, time_limit=30)
    settings: dict[str, Any] = {"gamma": 1.0, "max_features": 4}
    if task.wanted is not None:
        settings["against"] = grace.within(*task.wanted)
    explainer = grace.Explainer(task.model, task.train_frame, schema=task.schema, domain=task.domain)
    own = explainer.explain(task.frame, **settings)
    for name in ("treecf-genetic", "treecf-exact"):
        answers = PEERS[name].ask(task, root)
        answered = np.isfinite(answers.rows).all(axis=1)
        assert answered.all(), answers.note
        assert (task.classes_of(answers.rows) != task.classes_of(task.rows)).all()
        fewest = (answers.rows != task.rows).sum(axis=1)
        assert (own.answers.changed.sum(axis=1) <= fewest).all()
    assert answers.proven is not None
    assert answers.proven.all()
    np.testing.assert_array_equal(own.answers.changed.sum(axis=1), fewest)


@pytest.mark.slow
def test_treecf_says_what_it_cannot_do(tmp_path_factory) -> None:
    root = tmp_path_factory.getbasetemp() / "environments"
    with pytest.raises(grace.GraceError, match="two classes only"):
        PEERS["treecf-exact"].ask(prepare(loans(), rows=2), root)
    from grace import datasets

    with pytest.raises(grace.GraceError, match="needs trees"):
        PEERS["treecf-exact"].ask(prepare(datasets.load("diabetes"), rows=2), root)
