"""Queues in front of a model: clients take turns, and work that nobody waits for any more is dropped.

A lane is one thread with an explainer of its own. Jobs wait by client (an address); the thread serves the clients in
turn, so that a hundred questions of one client delay a question of another by one job. A client that goes away takes
its waiting jobs along, and a proof that runs for it stops (`grace.problem.cancellation`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from grace.explain.explainer import Explainer
from grace.problem.cancellation import CancelledWorkError, cancellable

T = TypeVar("T")
Work = Callable[[Explainer, list[Any]], list[Any]]

MOST_WAITING = 200  # jobs a lane may hold before it turns further ones away
MOST_OF_ONE = 64  # of one client
MOST_TOGETHER = 32  # jobs done as one batch

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""Who asks: set for every request by `grace.web.middleware`."""


class BusyError(Exception):
    """Too many questions are waiting."""


class GreedyError(Exception):
    """Too many questions of this client are waiting."""


@dataclass(eq=False)
class Job:
    """An item for `work`; jobs of the same `group` may be done together, as one batch."""

    client: str
    work: Work
    item: Any = None
    group: Hashable = None
    answer: Future[Any] = field(default_factory=Future)
    given_up: bool = False


class Turns:
    """Jobs that wait, by client. The client that has waited longest for a turn is first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: OrderedDict[str, list[Job]] = OrderedDict()
        self.last = ""

    def __len__(self) -> int:
        return sum(map(len, self.clients.values()))

    def put(self, job: Job) -> None:
        """Let a job wait. Of a full queue, the client with most jobs loses its last one to a client with fewer."""
        with self.lock:
            own = self.clients.get(job.client, [])
            if len(own) >= MOST_OF_ONE:
                raise GreedyError
            if len(self) >= MOST_WAITING:
                longest = max(self.clients.values(), key=len, default=own)
                if len(longest) <= len(own) + 1:
                    raise BusyError
                last = longest.pop()
                if last.answer.set_running_or_notify_cancel():
                    last.answer.set_exception(BusyError())
            self.clients.setdefault(job.client, own).append(job)

    def take(self) -> list[Job]:
        """The job whose turn it is, with others that can be done together with it."""
        with self.lock:
            if not self.clients:
                return []
            if self.last in self.clients:  # no two turns in a row while another client waits
                self.clients.move_to_end(self.last)
            client, own = self.clients.popitem(last=False)
            self.last = client
            first = own.pop(0)
            if own:
                self.clients[client] = own
            together = [first]
            for jobs in self.clients.values() if first.group is not None else ():
                alike = [job for job in jobs if job.group == first.group][: MOST_TOGETHER - len(together)]
                together += alike
                jobs[:] = [job for job in jobs if job not in alike]
            self._tidy()
            return together

    def drop(self, job: Job) -> None:
        """Forget a job that waits; one that has begun is told to stop."""
        job.given_up = True
        with self.lock:
            own = self.clients.get(job.client, [])
            if job in own:
                own.remove(job)
                self._tidy()

    def _tidy(self) -> None:
        for client in [client for client, jobs in self.clients.items() if not jobs]:
            del self.clients[client]


class Worker:
    """One thread with an explainer of its own."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self.pool = ThreadPoolExecutor(1)
        self.turns = Turns()

    async def run(self, work: Callable[[Explainer], T]) -> T:
        """What `work` gives, when it is the client's turn."""
        result: T = await self._wait(Job(CLIENT.get(), lambda explainer, _: [work(explainer)]))
        return result

    async def run_together(self, work: Callable[[Explainer, list[Any]], list[T]], item: Any, group: Hashable) -> T:
        """What `work` gives for an item, asked in one batch with items of the same group that wait too."""
        result: T = await self._wait(Job(CLIENT.get(), work, item, group))
        return result

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, job: Job) -> Any:
        self.turns.put(job)
        self.pool.submit(self._next)  # one call per job; which job it does is decided when it runs
        try:
            return await asyncio.wrap_future(job.answer)
        finally:
            self.turns.drop(job)

    def _next(self) -> None:
        jobs = [job for job in self.turns.take() if job.answer.set_running_or_notify_cancel()]
        if jobs:
            self._do(jobs)

    def _do(self, jobs: list[Job]) -> None:
        try:
            with cancellable(lambda: all(job.given_up for job in jobs)):
                answers = jobs[0].work(self.explainer, [job.item for job in jobs])
        except Exception as reason:
            if len(jobs) == 1 or isinstance(reason, CancelledWorkError):
                for job in jobs:
                    job.answer.set_exception(reason)
                return
            for job in jobs:  # the others need not suffer
                self._do([job])
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.answer.set_result(answer)
