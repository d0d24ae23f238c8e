"""Fair queues in front of a model: one worker thread with its own explainer, clients served in turn (round robin).

Jobs wait by client (an address), so that a hundred jobs of one client delay another client by one job. When a client
disconnects, its waiting jobs are dropped and a running proof is cancelled (`grace.problem.cancellation`).
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

MAX_WAITING = 200  # jobs in a queue
MAX_PER_CLIENT = 64
MAX_BATCH = 32

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client of the current request, set by `grace.web.middleware`."""


class QueueFullError(Exception):
    """The queue is full."""


class ClientLimitError(Exception):
    """The client has too many waiting jobs."""


@dataclass(eq=False)
class Job:
    """An item for `work`; jobs of the same `group` may be run as one batch."""

    client: str
    work: Work
    item: Any = None
    group: Hashable = None
    answer: Future[Any] = field(default_factory=Future)
    abandoned: bool = False


class FairQueue:
    """Waiting jobs by client, the client that has waited longest first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: OrderedDict[str, list[Job]] = OrderedDict()
        self.last_client = ""

    def __len__(self) -> int:
        return sum(map(len, self.clients.values()))

    def put(self, job: Job) -> None:
        """Add a job. If the queue is full, the client with the most jobs loses its last one to a client with fewer."""
        with self.lock:
            jobs = self.clients.get(job.client, [])
            if len(jobs) >= MAX_PER_CLIENT:
                raise ClientLimitError
            if len(self) >= MAX_WAITING:
                longest = max(self.clients.values(), key=len, default=jobs)
                if len(longest) <= len(jobs) + 1:
                    raise QueueFullError
                last_client = longest.pop()
                if last_client.answer.set_running_or_notify_cancel():
                    last_client.answer.set_exception(QueueFullError())
            self.clients.setdefault(job.client, jobs).append(job)

    def take(self) -> list[Job]:
        """The next job, with waiting jobs of its group."""
        with self.lock:
            if not self.clients:
                return []
            if self.last_client in self.clients:  # no two turns in a row while other clients wait
                self.clients.move_to_end(self.last_client)
            client, jobs = self.clients.popitem(last=False)
            self.last_client = client
            first = jobs.pop(0)
            if jobs:
                self.clients[client] = jobs
            batch = [first]
            for jobs in self.clients.values() if first.group is not None else ():
                same_group = [job for job in jobs if job.group == first.group][: MAX_BATCH - len(batch)]
                batch += same_group
                jobs[:] = [job for job in jobs if job not in same_group]
            self._remove_empty()
            return batch

    def drop(self, job: Job) -> None:
        """Remove a waiting job; a running one is marked as abandoned."""
        job.abandoned = True
        with self.lock:
            jobs = self.clients.get(job.client, [])
            if job in jobs:
                jobs.remove(job)
                self._remove_empty()

    def _remove_empty(self) -> None:
        for client in [client for client, jobs in self.clients.items() if not jobs]:
            del self.clients[client]


class Worker:
    """A thread with its own explainer and queue."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self.pool = ThreadPoolExecutor(1)
        self.queue = FairQueue()

    async def run(self, work: Callable[[Explainer], T]) -> T:
        """The result of `work`, run when it is the client's turn."""
        result: T = await self._wait(Job(CLIENT.get(), lambda explainer, _: [work(explainer)]))
        return result

    async def run_batched(self, work: Callable[[Explainer, list[Any]], list[T]], item: Any, group: Hashable) -> T:
        """The result of `work` for an item, run in one batch with waiting items of the same group."""
        result: T = await self._wait(Job(CLIENT.get(), work, item, group))
        return result

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, job: Job) -> Any:
        self.queue.put(job)
        self.pool.submit(self._next)  # one call per job; the job is chosen when it runs
        try:
            return await asyncio.wrap_future(job.answer)
        finally:
            self.queue.drop(job)

    def _next(self) -> None:
        jobs = [job for job in self.queue.take() if job.answer.set_running_or_notify_cancel()]
        if jobs:
            self._do(jobs)

    def _do(self, jobs: list[Job]) -> None:
        try:
            with cancellable(lambda: all(job.abandoned for job in jobs)):
                answers = jobs[0].work(self.explainer, [job.item for job in jobs])
        except Exception as error:
            if len(jobs) == 1 or isinstance(error, CancelledWorkError):
                for job in jobs:
                    job.answer.set_exception(error)
                return
            for job in jobs:  # one by one, as only some may fail
                self._do([job])
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.answer.set_result(answer)
