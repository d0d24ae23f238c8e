"""Queues: clients take turns, those who leave take their questions along, and nobody holds up the others."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import grace
from grace.problem.cancellation import CancelledWorkError, cancellable, check_cancelled
from grace.web import queues, service
from grace.web.pages import create_app
from grace.web.queues import CLIENT, ClientLimitError, FairQueue, Job, QueueFullError, Worker
from grace.web.service import Served
from studies import explainer, people
from visitors import dial, request, response, serving_app


def job(client: str, group: object = None) -> Job:
    return Job(client, lambda _, items: items, item=client, group=group)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from("abcd"), max_size=40))
def test_every_client_has_its_turn(asked: list[str]) -> None:
    """Between two jobs of one client, every other client that waits has one; each client's own come in order."""
    queue = FairQueue()
    jobs = [job(client) for client in asked]
    for one in jobs:
        queue.put(one)
    done = [queue.take()[0] for _ in jobs]
    assert queue.take() == []
    for client in set(asked):
        assert [j for j in done if j.client == client] == [j for j in jobs if j.client == client]
    rounds = [asked[:i].count(client) for i, client in enumerate(asked)]
    assert [rounds[jobs.index(j)] for j in done] == sorted(rounds)


def test_jobs_of_a_group_are_done_together() -> None:
    queue = FairQueue()
    jobs = [job("a", 1), job("a", 2), job("b", 1), job("c", 1), job("a", 1), job("c")]
    for one in jobs:
        queue.put(one)
    first = queue.take()
    assert first[0] is jobs[0]
    assert set(map(id, first)) == {id(jobs[i]) for i in (0, 2, 3, 4)}
    assert [queue.take() for _ in range(2)] == [[jobs[5]], [jobs[1]]]
    for one in (a := [job("a"), job("a"), job("a")]):
        queue.put(one)
    assert queue.take() == [a[0]]
    queue.put(newcomer := job("b"))  # comes before the second of the client that has just had a turn
    assert [queue.take()[0] for _ in range(3)] == [newcomer, a[1], a[2]]
    assert len(queue) == 0


def test_limits_of_one_client_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MAX_PER_CLIENT", 4)
    monkeypatch.setattr(queues, "MAX_WAITING", 6)
    queue = FairQueue()
    greedy = [job("a") for _ in range(4)]
    for one in [*greedy, job("b"), job("c")]:
        queue.put(one)
    with pytest.raises(ClientLimitError):
        queue.put(job("a"))
    queue.put(job("d"))  # takes the last place of the one who has most
    assert isinstance(greedy[-1].answer.exception(0), QueueFullError)
    assert len(queue) == 6
    for client in "ef":
        queue.put(job(client))
    with pytest.raises(QueueFullError):
        queue.put(job("g"))
    queue.drop(greedy[0])
    queue.put(job("g"))


def test_work_that_was_given_up_stops() -> None:
    check_cancelled()
    with cancellable(lambda: True), pytest.raises(CancelledWorkError):
        check_cancelled()
    check_cancelled()
    calls = []

    def given_up() -> bool:
        calls.append(1)
        return len(calls) > 2

    row = people().drop(columns="verdict").head(1)
    with pytest.raises(CancelledWorkError), cancellable(given_up):
        explainer().explain(row, prove=True, n=5)


def test_a_lane_drops_what_nobody_waits_for() -> None:
    lane, release, done = Worker(explainer()), threading.Event(), []

    def work(name: str) -> Callable[[grace.Explainer], str]:
        def do(_: grace.Explainer) -> str:
            release.wait(10)
            check_cancelled()
            done.append(name)
            return name

        return do

    async def ask() -> str:
        def put(client: str, name: str) -> asyncio.Task[str]:
            CLIENT.set(client)
            return asyncio.create_task(lane.run(work(name)))

        given_up = [put("a", f"a{i}") for i in range(20)]
        other = put("b", "b")
        await asyncio.sleep(0.05)
        for task in given_up:
            task.cancel()
        await asyncio.wait(given_up)
        assert len(lane.queue) == 1
        release.set()
        return await other

    assert asyncio.run(ask()) == "b"
    lane.close()
    assert done == ["b"]


# -- a real server -------------------------------------------------------------------------------


@pytest.fixture
def slow_proofs(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[str], Served]]:
    """A server on which proofs with a budget of 5 take 5 s, like real ones stopping when given up; what has ended; and
    its model, whose lanes close with the server."""
    model = Served("own", explainer())
    real, ended = service.explain_batch, []

    def ask(explainer: grace.Explainer, questions: list[service.RowQuestion]) -> list[service.Answer]:
        until = time.monotonic() + (5 if questions[0].limits.get("budget") == 5 else 0)
        while time.monotonic() < until:
            check_cancelled()
            time.sleep(0.01)
        ended.append("whole")
        return real(explainer, questions)

    monkeypatch.setattr(service, "explain_batch", ask)
    with serving_app(create_app([model])) as port:
        yield port, ended, model


def hard(row: Any, number: int = 0, budget: float = 5) -> bytes:
    return request("/api/explain", {"row": row, "prove": True, "budget": budget, "gamma": 0.5 + number / 10_000})


def test_questions_that_were_given_up_hold_up_nobody(slow_proofs: tuple[int, list[str], Served]) -> None:
    port, ended, model = slow_proofs
    row = model.example(1)
    connections = [dial(port) for _ in range(queues.MAX_PER_CLIENT + 1)]  # one runs, the others wait
    for i, connection in enumerate(connections):
        connection.sendall(hard(row, i))
    pipelined = dial(port, "127.0.0.3")
    for part in range(4):  # more and more on one connection
        pipelined.sendall(b"".join(hard(row, 100 + 5 * part + i) for i in range(5)))
        time.sleep(0.1)
    until = time.monotonic() + 20
    while len(model.slow.queue) < queues.MAX_PER_CLIENT + 1 and time.monotonic() < until:
        time.sleep(0.02)
    with dial(port) as greedy:
        greedy.sendall(hard(row, 99))
        status, headers, body = response(greedy)
        assert (status, int(headers["retry-after"]) > 0, b"of yours are waiting" in body) == (429, True, True)
    for connection in [*connections, pipelined]:
        connection.close()
    begun = time.monotonic()
    with dial(port, "127.0.0.2") as other:
        other.sendall(hard(row, budget=1))
        assert response(other)[0] == 200
    assert time.monotonic() - begun < 4
    assert ended == ["whole"]
    assert len(model.slow.queue) == 0


def test_others_keep_their_pace_while_many_wait(slow_proofs: tuple[int, list[str], Served]) -> None:
    port, _, model = slow_proofs
    row = model.example(1)
    connections = [dial(port) for _ in range(20)]
    for i, connection in enumerate(connections):
        connection.sendall(hard(row, i))
    begun = time.monotonic()
    with dial(port, "127.0.0.2") as other:
        other.sendall(hard(row, budget=1))
        assert response(other)[0] == 200
    took = time.monotonic() - begun
    for connection in connections:
        connection.close()
    assert took < 9  # one proof of the other client, not twenty


@pytest.mark.slow
def test_250_hard_proofs_given_up_then_one_within_its_budget() -> None:
    """A network so wide, and classes so far apart, that no proof ends before its budget."""
    torch.manual_seed(0)
    rows = np.random.default_rng(0).normal(size=(300, 40)).round(2)
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(40)])
    net = nn.Sequential(nn.Linear(40, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2))
    with torch.no_grad():
        net[4].bias[0] += 0.6
    model = Served("hard", grace.Explainer(grace.wrap(net, classes=["a", "b"]), frame, max_features=6))
    row = model.example(1)
    with serving_app(create_app([model])) as port:
        for number in (998, 999):  # the first one also pays for what is prepared once
            begun = time.monotonic()
            with dial(port, "127.0.0.2") as other:
                other.sendall(hard(row, number, budget=5))
                status, _, body = response(other)
            alone = time.monotonic() - begun
            assert status == 200
            assert b'"verdict":"open"' in body
        connections: list[socket.socket] = []
        for i in range(250):
            connections.append(dial(port, f"127.0.1.{1 + i % 5}"))
            connections[-1].sendall(hard(row, i))
        until = time.monotonic() + 30
        while len(model.slow.queue) < queues.MAX_WAITING - 5 and time.monotonic() < until:
            time.sleep(0.05)
        waiting = len(model.slow.queue)
        for connection in connections:
            connection.close()
        begun = time.monotonic()
        with dial(port, "127.0.0.2") as other:
            other.sendall(hard(row, 1000, budget=5))
            assert response(other)[0] == 200
        took = time.monotonic() - begun
    assert waiting >= queues.MAX_WAITING - 5
    assert took < 1.5 * alone + 5  # in turn it would take a quarter of an hour
