"""Engines, which explain the parts of a job: in this process, in a pool of worker processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from grace.errors import GraceError
from grace.scale.budget import Budget
from grace.scale.pool import WorkerPool
from grace.scale.saved_explainer import SavedExplainer
from grace.scale.worker import Worker
from grace.schema.tables.table_file import Part, TableFile

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

ENGINES = ("local", "ray")
Report = Callable[[int], None]


@dataclass(frozen=True)
class JobPlan:
    """The input of an engine: the table, the explainer, the extra columns to read, the number of rows per part and in
    total, the parts that are done, and the task of each worker, see `grace.scale.worker`."""

    table: TableFile
    explainer: SavedExplainer
    extra: list[str]
    part_rows: int
    rows: int
    done: frozenset[int]
    task: Mapping[str, Any]

    @property
    def columns(self) -> list[str]:
        return [*self.explainer.columns, *self.extra]

    def parts(self) -> Iterator[Part]:
        """The parts that are not done, read one after another."""
        return self.table.parts(self.part_rows, self.explainer.columns, self.done, self.extra)


class Engine(Protocol):
    """Explains the parts of a job."""

    def run(self, plan: JobPlan, report: Report) -> None:
        """Explain the parts that are not done and write their files; `report` is called with the number of rows of
        each part when it is finished."""


@dataclass(frozen=True)
class LocalEngine:
    """This process, by an explainer in memory or else by the one of the plan."""

    explainer: Explainer | None
    memory: int
    device: str

    def run(self, plan: JobPlan, report: Report) -> None:
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in worker processes: the order of summation decides the last bit
        try:
            worker = Worker({**plan.task, "memory": self.memory}, self.device, self.explainer)
            for part in plan.parts():
                report(worker.explain(part))
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class PoolEngine:
    """Worker processes, each with its share of the memory; they inherit the lock of the folder."""

    workers: int
    memory: int
    device: str
    lock: int

    def run(self, plan: JobPlan, report: Report) -> None:
        if self.device == "cpu" and plan.explainer.has_network:
            from grace.methods.compiled import all_ready

            all_ready()  # once here rather than in every worker
        task = {**plan.task, "memory": self.memory, "workers": self.workers, "device": self.device}
        WorkerPool(task, self.workers, inherited=[self.lock]).run(plan.parts(), report)


@dataclass(frozen=True)
class RayEngine:
    """Ray actors, which read the parts themselves; `overhead` is the memory of each without the work on rows."""

    actors: int | None
    memory: int | str | None
    device: str | None
    overhead: int

    def run(self, plan: JobPlan, report: Report) -> None:
        from grace.scale.cluster import explain_parts

        explain_parts(plan, report, self.actors, self.memory, self.device, self.overhead)


def choose_engine(
    name: str,
    explainer: Explainer | str | Path,
    saved: SavedExplainer,
    budget: Budget,
    *,
    workers: int | None,
    memory: int | str | None,
    device: str | None,
    lock: int,
) -> Engine:
    """The engine for the arguments of `grace.scale.run`. A model that cannot be saved is used in this process."""
    if name == "ray":
        return RayEngine(workers, memory, device, budget.overhead)
    where = device or "cpu"
    if saved.behaviour or workers == 0:
        if workers:
            raise GraceError("this model cannot be saved, and so not be given to other processes; use workers=0")
        in_memory = None if device or isinstance(explainer, str | Path) else explainer
        return LocalEngine(in_memory, budget.single_process(), where)
    count, share = budget.shares(1 if workers is None and where != "cpu" else workers)
    return PoolEngine(count, share, where, lock)
