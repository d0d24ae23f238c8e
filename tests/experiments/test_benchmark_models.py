"""Benchmarks of any model: peers that ask this process, categories, numbers, clusters, and the exhaustive search."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import grace
from benchmark_world import loans
from grace.experiments import Task, compare, task_of
from grace.experiments.peers import PEERS, RUNNERS
from grace.experiments.process import ask_peer, served
from grace.experiments.runners import protocol

ASKER = f"""
import sys, time
sys.path.insert(0, {str(RUNNERS)!r})
from protocol import main

def prepare(task, variant):
    def ask(i):
        if variant == "slow" and i == 1:
            while True:
                task.proba(task.train)
        if variant == "crash" and i == 1:
            task.proba(task.train[:3])
            import os; os._exit(3)
        if variant == "bad":
            return task.proba([[float("nan")] * len(task.features)])[0]
        row = task.rows[i].copy()
        row[:] = task.logits(task.rows[[i]])[0][0]  # anything that shows whose answer it is
        for j in task.categorical:
            row[j] = 0
        assert len(task.proba(task.train[:0])) == 0
        return row
    return ask

main(prepare)
"""


@pytest.fixture(scope="module")
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = loans().split(0)
    return parts.train, parts.test


@pytest.fixture(scope="module")
def task(frames) -> Task:
    """Preprocessing inside, labels as text, three classes."""
    train, test = frames
    words = make_column_selector(dtype_exclude="number")
    encode = make_column_transformer((OneHotEncoder(), words), remainder="passthrough")
    model = make_pipeline(encode, RandomForestClassifier(6, random_state=0, n_jobs=1))
    model.fit(train.drop(columns="risk"), train["risk"])
    return task_of("loans, forest", model, train, test, target="risk", most=6, time_limit=1.0)


@pytest.fixture(scope="module")
def number(frames) -> Task:
    train, test = (f[["income", "debts", "age"]] for f in frames)
    worth = 3 * train["income"] - 10 * train["debts"]
    model = LinearRegression().fit(train, worth)
    return task_of("loans, worth", model, train, test, against=grace.above(150), most=6)


def asker(folder: Path) -> list[str]:
    script = folder / "asker.py"
    script.write_text(ASKER, encoding="utf-8")
    return [sys.executable, str(script)]


def test_a_runner_asks_the_very_model(task, tmp_path) -> None:
    task.save(tmp_path)
    scores = task.model.scores(torch.as_tensor(task.train)).numpy()
    with served(task) as address:
        (tmp_path / "address").write_text(address, encoding="utf-8")
        seen = protocol.Task(tmp_path)
        assert not seen.is_network
        np.testing.assert_array_equal(seen.logits(task.train), scores)
        np.testing.assert_array_equal(seen.proba(task.train).argmax(axis=1), scores.argmax(axis=1))
    with pytest.raises(OSError, match=r"."):
        seen.logits(task.train)  # nobody answers any more


@pytest.mark.parametrize("variant", ["fine", "slow", "crash"])
def test_peers_ask_from_a_process_of_their_own(task, tmp_path, variant) -> None:
    answers = ask_peer(task, asker(tmp_path), variant, setup=20)
    expected = task.model.scores(torch.as_tensor(task.rows)).numpy()[:, 0]
    found = answers.rows[:, 0]
    if variant != "fine":
        assert np.isnan(found[1])
        assert ("time limit" if variant == "slow" else "crash") in answers.note
        found, expected = np.delete(found, 1), np.delete(expected, 1)
    np.testing.assert_array_equal(found, expected)  # none got the answer to a question that was given up


def test_what_the_model_says_to_nonsense_is_the_peers_error(task, tmp_path) -> None:
    answers = ask_peer(task, asker(tmp_path), "bad", setup=20)
    assert np.isnan(answers.rows).all()
    assert "RuntimeError" in answers.note


def test_a_model_without_a_file_form_is_not_sent_to_one(task, tmp_path) -> None:
    task.save(tmp_path)
    with pytest.raises(grace.GraceError, match="give the function in Python"):
        Task.load(tmp_path)


def test_the_fingerprint_knows_a_model_by_its_answers(frames, task) -> None:
    train, test = frames
    plain = train.drop(columns=["risk", "home"]), test.drop(columns=["risk", "home"])
    one, same, other = (
        task_of("x", KMeans(3, n_init=1, random_state=s).fit(plain[0]), *plain, most=2).fingerprint() for s in (0, 0, 5)
    )
    assert one == same
    assert one != other


def test_every_task_is_compared(task, number, frames) -> None:
    train, test = (f[["income", "debts", "age"]] for f in frames)
    clusters = task_of("loans, clusters", KMeans(3, n_init=1, random_state=0).fit(train), train, test, most=6)
    frame = compare([task, number, clusters], own=["search", "nearest"]).frame()
    assert not frame["failed"].any(), frame["failed"].tolist()
    search = frame[frame["method"] == "search"]
    assert list(search["data"]) == ["loans, forest", "loans, worth", "loans, clusters"]
    assert (search[["valid", "within_k", "in_domain"]] == 1).all(axis=None)
    assert (search["features"].to_numpy() <= frame[frame["method"] == "nearest"]["features"].to_numpy()).all()


def test_numbers_are_judged_by_what_was_asked(number) -> None:
    predicted = number.model.predict(number.frame)
    assert (predicted < 150).all()  # of all others nothing had to be asked
    assert (
        number.classes_of(number.train).tolist()
        == (number.model.predict(number.schema.decode(number.train)) >= 150).astype(int).tolist()
    )
    with pytest.raises(grace.GraceError, match="above"):
        task_of("x", number.model, number.schema.decode(number.train), number.frame)


def test_missing_cells_are_not_for_peers(frames) -> None:
    train, test = (f[["income", "debts", "age"]] for f in frames)
    model = KMeans(2, n_init=1, random_state=0).fit(train)
    holes = test.assign(income=test["income"].where(test.index != test.index[0]))
    with pytest.raises(grace.GraceError, match="a cell of the rows is missing"):
        task_of("x", model, train, holes)


def test_the_exhaustive_search_tries_everything(task, monkeypatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from exhaustive import NONE, allowed, fewest

    found = fewest(task, values=6)
    assert {1} <= set(found.tolist()) <= {1, 2, NONE}
    columns = [allowed(task, j, 6) for j in range(4)]
    explainer = grace.Explainer(task.model, task.train_frame, schema=task.schema)
    for row, fewest_here in zip(task.rows, found, strict=True):
        every = np.array(list(product(*[[x, *c] for x, c in zip(row, columns, strict=True)])))
        flips = task.classes_of(every) != task.classes_of(row[None])
        changed = every != row
        redundant = (
            (changed @ (explainer.su > task.gamma).astype(float) * changed).sum(axis=1) - changed.sum(axis=1)
        ) > 0
        counts = changed.sum(axis=1)[flips & ~redundant]
        assert fewest_here == min(NONE, counts.min(initial=NONE))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dice-random", "nice-sparsity"])
def test_the_real_peers_answer_about_any_model(name, task, number, tmp_path_factory) -> None:
    """Makes the environments, in a folder that the runs share: needs pip and an index."""
    root = tmp_path_factory.getbasetemp() / "environments"
    answers = PEERS[name].ask(task, root)
    answered = np.isfinite(answers.rows).all(axis=1)
    assert answered.sum() >= 4, answers.note
    assert (task.classes_of(answers.rows[answered]) != task.classes_of(task.rows[answered])).all()
    if name == "nice-sparsity":
        with pytest.raises(grace.GraceError, match="classes, not numbers"):
            PEERS[name].ask(number, root)
    else:
        answers = PEERS[name].ask(number, root)
        assert number.classes_of(answers.rows).sum() >= 4, answers.note
