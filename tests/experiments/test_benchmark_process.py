"""The file protocol of the peers, and peers that hang, crash or talk nonsense."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmark_world import fake, loans
from grace import GraceError
from grace.experiments import process
from grace.experiments.peers import LIBRARIES, PEERS, RUNNERS, find
from grace.experiments.process import GIVE_UP, ask_peer, environment
from grace.experiments.runners import protocol
from grace.experiments.task import Answers, Task, as_answers, prepare


@pytest.fixture(scope="module")
def task() -> Task:
    return prepare(loans(), domain="central", rows=7, seed=0, time_limit=0.4)


@pytest.fixture(scope="module")
def saved(task, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    task.save(folder)
    return folder


def test_a_task_survives_the_disk(task, saved) -> None:
    again = Task.load(saved)
    assert again.fingerprint() == task.fingerprint()
    np.testing.assert_array_equal(again.rows, task.rows)
    assert again.schema == task.schema
    rows = torch.as_tensor(task.train)
    assert torch.equal(again.model.scores(rows), task.model.scores(rows))
    assert again.train_frame.equals(task.train_frame)


def test_the_fingerprint_tells_tasks_apart(task) -> None:
    other = [replace(task, rows=task.rows + 1), replace(task, seed=9), replace(task, time_limit=9.0)]
    other.append(replace(task, model=prepare(loans(), rows=7, seed=1).model))
    assert len({t.fingerprint() for t in (task, *other)}) == 5


def test_a_runner_reads_the_same_network(task, saved) -> None:
    seen = protocol.Task(saved)
    scores = task.model.scores(torch.as_tensor(task.train)).numpy()
    np.testing.assert_allclose(seen.logits(task.train), scores, rtol=0, atol=1e-12)
    np.testing.assert_allclose(seen.proba(task.train).sum(axis=1), 1)
    assert seen.categorical == [2]
    assert [seen.runner_up(r) for r in task.train[:9]] == [int(np.argsort(s)[1]) for s in scores[:9]]
    low, high = task.schema.bounds()
    clipped = seen.inside(task.train)
    assert (clipped[:, seen.numeric] >= low[seen.numeric]).all()
    assert (clipped[:, seen.numeric] <= high[seen.numeric]).all()
    np.testing.assert_array_equal(clipped[:, 2], task.train[:, 2])


def test_unit_coordinates_are_the_same_network_and_come_back(task, saved, monkeypatch) -> None:
    monkeypatch.syspath_prepend(RUNNERS)
    from unit import Unit

    seen = protocol.Task(saved)
    low, high = task.train.min(axis=0)[seen.numeric], task.train.max(axis=0)[seen.numeric]
    net = Unit(seen, low, high, {2: [0, 1, 2]})
    for row in task.train[:20]:
        inputs = net.into(row)
        assert ((inputs >= 0) & (inputs <= 1)).all()
        np.testing.assert_allclose(net(torch.as_tensor(inputs)).numpy()[0], seen.logits(row)[0], atol=1e-9)
        np.testing.assert_array_equal(net.back(inputs, row), row)
        moved = inputs.copy()
        moved[0], moved[3:] = 0.5, [0.1, 0.3, 0.7]
        back = net.back(moved, row)
        assert back[0] == pytest.approx((low[0] + high[0]) / 2)
        assert back[2] == 2
        np.testing.assert_array_equal(back[[1, 3]], row[[1, 3]])


def run(task: Task, folder: Path, variant: str) -> Answers:
    return ask_peer(task, [sys.executable, str(fake(folder))], variant, grace_period=0.4, setup=20)


def test_a_good_peer(task, tmp_path) -> None:
    found = run(task, tmp_path, "good")
    expected = task.rows.copy()
    expected[:, 0] += 1000
    np.testing.assert_array_equal(found.rows, expected)  # to the bit, through JSON
    assert found.tried == 7
    assert found.note == ""
    assert (found.seconds < 0.4).all()
    assert found.batch_seconds == pytest.approx(found.seconds.sum())


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("hang", "over the time limit"),
        ("deaf", "over the time limit"),
        ("crash", "crash: out of luck"),
        ("raise", "ValueError: not today"),
        ("nan", "NaN"),
        ("shape", "shape (3,) instead of (4,)"),
        ("text", "could not convert"),
        ("category", "category of 'home'"),
        ("nothing", ""),
    ],
)
def test_one_bad_row_is_no_answer_and_the_rest_are(task, tmp_path, variant, said) -> None:
    found = run(task, tmp_path, variant)
    assert found.tried == 7
    assert np.isnan(found.rows[1]).all()
    assert np.isfinite(np.delete(found.rows, 1, axis=0)).all()
    assert said in found.note
    assert bool(found.note) == bool(said)


@pytest.mark.parametrize("variant", ["noise", "exit", "linger"])
def test_what_happens_besides_the_rows_does_not_matter(task, tmp_path, variant) -> None:
    """Lines that are no events, a failing exit, an exit that never comes."""
    found = run(task, tmp_path, variant)
    assert np.isfinite(found.rows).all()
    assert found.note == ""


@pytest.mark.parametrize("variant", ["always-hang", "always-crash"])
def test_a_hopeless_peer_is_given_up(task, tmp_path, variant) -> None:
    found = run(task, tmp_path, variant)
    assert found.tried == GIVE_UP
    assert np.isnan(found.rows).all()
    assert "2 rows not tried" in found.note


def test_a_peer_out_of_time_is_not_restarted(task, tmp_path) -> None:
    command = [sys.executable, str(fake(tmp_path))]
    found = ask_peer(task, command, "always-crash", grace_period=0.4, setup=20, total=0.0)
    assert found.tried == 1
    assert "out of time; 6 rows not tried" in found.note


def test_a_peer_that_cannot_be_set_up_says_why(task, tmp_path) -> None:
    with pytest.raises(GraceError, match="RuntimeError: no such backend"):
        run(task, tmp_path, "setup")
    with pytest.raises(GraceError, match="no row was answered"):
        run(task, tmp_path, "lazy")
    with pytest.raises(GraceError, match=r"longer than 0\.5 s"):
        ask_peer(task, [sys.executable, "-c", "import time; time.sleep(60)"], "x", setup=0.5)


def test_a_process_is_ended_with_its_children(tmp_path) -> None:
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print('up', flush=True); input()"
    command = [sys.executable, "-c", f"import time; {code.replace('input()', 'time.sleep(60)')}"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    process.end(child)
    assert child.stdout.read() == b""  # the pipe ends only when nobody holds it
    child.stdout.close()


def test_what_a_method_returns_is_checked(task) -> None:
    frame = task.frame
    np.testing.assert_array_equal(as_answers(task, frame).rows, task.rows)
    frame.loc[0] = None
    assert np.isnan(as_answers(task, frame).rows[0]).all()
    for wrong, said in [
        (frame.head(3), "3 rows for 7"),
        (task.rows[:, :2], r"shape \(7, 2\)"),
        ("abc", "not rows of numbers"),
        (None, r"shape \(\)"),
        (frame.assign(home="castle"), "unknown category 'castle'"),
    ]:
        with pytest.raises(GraceError, match=said):
            as_answers(task, wrong)


def test_answers_survive_json(task) -> None:
    rows = task.rows.copy()
    rows[2] = np.nan
    seconds = np.array([0.1, np.nan, 0.3, 0.1, 0.1, 0.1, 0.1])
    again = Answers.from_dict(Answers(rows, seconds, 1.5, 6, "x").to_dict(), 4)
    np.testing.assert_array_equal(again.rows, rows)
    np.testing.assert_array_equal(again.seconds, seconds)
    assert (again.batch_seconds, again.tried, again.note) == (1.5, 6, "x")


def test_every_version_is_pinned_and_every_runner_exists() -> None:
    for library in LIBRARIES.values():
        assert (RUNNERS / library.runner).is_file()
        assert all(r.count("==") == 1 for r in library.requirements)
        assert len({r.split("==")[0].lower() for r in library.requirements}) == len(library.requirements)


def test_peers_by_name() -> None:
    assert [p.name for p in find(["nice", "dice-random", "nice-sparsity", "jsma"])] == [
        "nice-sparsity",
        "nice-proximity",
        "nice-plausibility",
        "dice-random",
        "jsma",
    ]
    with pytest.raises(GraceError, match=r"no peer 'alibi'; there are dice, nice, .*file\.py:function"):
        find(["alibi"])


@pytest.fixture
def no_index(monkeypatch, tmp_path) -> list[list[str]]:
    """Commands that would be run, all of which succeed, except that pip knows no `unheard-of`."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command)
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        unheard = any("unheard-of" in part for part in command)
        return SimpleNamespace(returncode=int(unheard), stderr="ERROR: No matching distribution\nWARNING: old pip\n")

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_an_environment_is_made_once_for_the_same_versions(no_index, tmp_path) -> None:
    python = environment("mine", ("a==1",), tmp_path)
    assert python == (tmp_path / "mine" / "bin" / "python").absolute()
    assert [c[1:3] for c in no_index] == [["-m", "venv"], ["-m", "pip"]]
    assert "--no-deps" in no_index[1]
    assert environment("mine", ("a==1",), tmp_path) == python
    assert len(no_index) == 2
    environment("mine", ("a==2",), tmp_path)
    assert len(no_index) == 4


def test_an_environment_that_cannot_be_made_says_why_and_is_tried_again(no_index, tmp_path) -> None:
    for _ in range(2):
        with pytest.raises(GraceError, match="pip install failed: ERROR: No matching distribution"):
            environment("mine", ("unheard-of==1",), tmp_path)
    assert len(no_index) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.library != "treecf"])  # of trees
def test_the_real_peers_answer(name, tmp_path_factory) -> None:
    """Makes the environments, in a folder that the runs share: needs pip and an index."""
    from grace import datasets

    root = tmp_path_factory.getbasetemp() / "environments"
    found = prepare(datasets.load("diabetes"), rows=3, time_limit=60)
    answers = PEERS[name].ask(found, root)
    assert np.isfinite(answers.rows).all(axis=1).sum() >= 2, answers.note
    answered = np.isfinite(answers.rows).all(axis=1)
    assert (found.classes_of(answers.rows[answered]) != found.classes_of(found.rows[answered])).mean() >= 0.5
