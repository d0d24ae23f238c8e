"""Rows that are decided by several threads: the same verdicts, answers and nodes as by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiled_proofs import make_odd, mixed, problem_of

import grace
from grace.problem.cancellation import CancelledWorkError, cancellable
from grace.problem.goal import Against
from grace.problem.problem import Problem
from grace.proofs.certificate import FOUND, OPEN, PROVEN, network_of, prove
from grace.proofs.compiled import aims_of, proof_arrays, sharing
from grace.proofs.compiled.lines import line_work
from grace.proofs.compiled.rows import DEPTH, GROUP, STUCK, search
from grace.proofs.compiled.tree import CANDIDATE, CLOSED, PAUSED, advance
from grace.proofs.verdicts import Verdicts
from grids import explainer_of

THREADS = 4


@pytest.fixture(autouse=True)
def often_split(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Threads look at each other after every evaluation; the list has what each split returned."""
    before, splits, usual = torch.get_num_threads(), [], sharing.split

    def split(*given: object) -> int:
        splits.append(usual(*given))  # type: ignore[arg-type]
        return splits[-1]

    monkeypatch.setattr(sharing, "SLICE", 1)
    monkeypatch.setattr(sharing, "split", split)
    yield splits
    torch.set_num_threads(before)


def by(threads: int, problem: Problem, most: int, budget: float = 30.0) -> Verdicts:
    torch.set_num_threads(threads)
    return prove(problem, torch.full((len(problem),), most), budget)


@pytest.mark.parametrize(
    ("hidden", "seed", "tilt"), [((14,), 1, 6.0), ((12, 9), 1, 12.0), ((8, 7, 6), 0, 3.0), ((8, 7, 6), 3, 6.0)]
)
def test_a_row_on_several_threads(often_split: list[int], hidden: tuple[int, ...], seed: int, tilt: float) -> None:
    """Of four classes, whose groups of functionals are shared, too."""
    frame, seen = mixed(seed, 4), set()
    explainer = explainer_of(frame, seed, hidden=hidden, classes=4, tilt=tilt)
    for i in range(6):
        problem = problem_of(explainer, frame.iloc[[i]])
        one, several = by(1, problem, 3), by(THREADS, problem, 3)
        assert torch.equal(one.status, several.status)
        assert torch.equal(one.rows, several.rows)
        if int(one.status[0]) == PROVEN:
            assert torch.equal(one.nodes, several.nodes)
        seen.add(int(one.status[0]))
    assert seen == {FOUND, PROVEN}
    assert any(often_split)


def test_the_last_rows_of_a_batch_are_shared(often_split: list[int]) -> None:
    frame = mixed(1, 4)
    problem = problem_of(explainer_of(frame, 1, hidden=(12, 9), classes=4, tilt=12.0), frame.head(6))
    one, several = by(1, problem, 3), by(THREADS, problem, 3)
    assert torch.equal(one.status, several.status)
    assert torch.equal(one.rows, several.rows)
    assert any(often_split)


@pytest.mark.parametrize(("tent", "status"), [(1.0, FOUND), (0.0, OPEN)])
def test_rows_with_ties_are_decided_by_one_thread(often_split: list[int], tent: float, status: int) -> None:
    """Wherever a + b >= 1 the second class leads by less than the tolerance, which is no answer; around c = 0.5 it may
    lead clearly. Threads that come upon either first may not change the verdict."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[-1.0, -1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
        module[0].bias.copy_(torch.tensor([1.0, -0.4, -0.5, -0.6, -0.3]))
        module[2].weight.copy_(torch.tensor([[0.0, 0, 0, 0, 0], [-1, tent, -2 * tent, tent, -0.1]]))
        module[2].bias.copy_(torch.tensor([0.0, 5e-7]))
    frame = pd.DataFrame(np.random.default_rng(0).random((50, 4)), columns=list("abcd"))
    frame.loc[0], frame.loc[1] = 0.0, 1.0
    explainer = grace.Explainer(grace.wrap(module, classes=["no", "yes"]), frame, domain="minmax")
    problem = problem_of(explainer, frame.head(1))
    one = by(1, problem, 4)
    assert int(one.status[0]) == status
    for _ in range(20):
        several = by(THREADS, problem, 4)
        assert torch.equal(one.status, several.status)
        assert torch.equal(one.rows, several.rows)
    assert any(often_split)


def test_a_row_with_a_tie_begins_anew() -> None:
    """Even if another thread has found an answer: by one thread, it may be another one."""
    frame = mixed(0)
    problem = problem_of(explainer_of(frame, 0), frame.head(1))
    network = network_of(problem)
    arrays, aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    proofs = sharing.SharedProofs(problem, arrays, aims, [3], 1.0)
    (row,) = proofs.rows
    first = proofs._begin(row)
    second = sharing.Part(row, proofs._free_work(), first.end)
    row.parts.append(second)
    row.was_split, row.status, row.answer = True, FOUND, problem.rows[0].numpy()
    first.work.state[STUCK] = 1
    assert not proofs._goes_on(first, CLOSED, None)
    assert not first.wanted
    assert not second.wanted
    assert list(proofs.waiting) == row.parts
    assert row.alone
    assert row.answer is None
    assert row.parts[0].fresh


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    oddities=st.lists(st.sampled_from(("twins", "negated", "whole")), max_size=2).map(tuple),
    against=st.booleans(),
)
def test_parts_are_the_whole_search(seed: int, oddities: tuple[str, ...], against: bool) -> None:
    """Split at random and done one after another, in their order, parts come to the same end."""
    rng = np.random.default_rng(seed)
    frame = mixed(seed, 2)
    explainer = explainer_of(frame, seed, hidden=(9, 7), classes=3, tilt=float(rng.uniform(3, 15)))
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(1))
    if against:
        problem = replace(problem, goal=Against(problem.model.scores(problem.rows).argmin(dim=1)))
    network = network_of(problem)
    arrays, aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    net, lines, d = arrays[0], line_work(arrays[0]), frame.shape[1]
    whole = search(net, d, 3)
    status = sharing.decide_row(problem, arrays, aims, 0, 3, 30.0, whole, lines)
    first = search(net, d, 3)
    sharing.is_decided_at_once(arrays, aims, 0, 3, first, lines)
    parts = [(first, len(aims.groups) - 1)]
    found, stuck = None, False
    while parts and found is None:
        work, end = parts[0]
        here = aims._replace(groups=aims.groups[: end + 1])
        code = advance(*arrays, here, 0, problem.model.tolerance, int(rng.integers(1, 40)), work)
        if code == CANDIDATE and sharing.is_answer(problem, 0, work):
            found = work.trial
        stuck |= code == CLOSED and bool(work.state[STUCK])
        if code == CLOSED:
            assert work.state[DEPTH] < 0
            assert work.state[GROUP] == end
            parts.pop(0)
        elif code == PAUSED and rng.random() < 0.5:
            other = search(net, d, 3)
            before = sharing.split(work, other, end)
            if before:
                parts[:1] = [(work, before), (other, end)]
    if not stuck:
        assert (found is not None) == (status == FOUND)
        assert found is None or (found == whole.trial).all()
    else:
        assert status in (OPEN, FOUND)


def test_work_on_a_row_is_given_up_on_all_threads() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 30)), columns=[f"f{i}" for i in range(30)])
    problem = problem_of(explainer_of(frame, 0, hidden=(60, 60), classes=2, tilt=20.0), frame.head(1))
    asked = iter([False] * 50)
    torch.set_num_threads(THREADS)
    with cancellable(lambda: next(asked, True)), pytest.raises(CancelledWorkError):
        prove(problem, torch.tensor([8]), budget=1e6)


def test_the_budget_is_that_of_all_threads() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 30)), columns=[f"f{i}" for i in range(30)])
    problem = problem_of(explainer_of(frame, 0, hidden=(60, 60), classes=2, tilt=20.0), frame.head(2))
    verdict = by(THREADS, problem, 8, budget=0.2)
    assert (verdict.status == OPEN).all()
    assert (verdict.seconds >= 0.2).all()
    assert (verdict.seconds < 2.0).all()


def test_an_error_on_another_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends the work of all."""
    frame = mixed(3, 4)
    problem = problem_of(explainer_of(frame, 3, hidden=(12, 9), tilt=4.0), frame.head(6))

    def broken(*_: object) -> bool:
        raise RuntimeError("no")

    monkeypatch.setattr(sharing, "is_decided_at_once", broken)
    with pytest.raises(RuntimeError, match="no"):
        by(THREADS, problem, 3)
