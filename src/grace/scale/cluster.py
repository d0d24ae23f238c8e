"""Ray Data: actors with an explainer each, on one or more machines. Ray repeats the work of an actor that is lost."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError, pip_install
from grace.explain.answer_table import unique_names
from grace.problem.budget import LEAST, bytes_of, said_bytes
from grace.scale.budget import cuda_build_bytes
from grace.scale.saved_explainer import as_saved, load_reference, unpacked_files
from grace.scale.worker import JobQuestion, Worker, question_to_json, row_memory
from grace.schema.tables.arrow import first_line
from grace.schema.tables.table_file import ROW, Part, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

    from grace.explain.explainer import Explainer
    from grace.scale.engines import JobPlan, Report

CPUS = 0.5  # per actor: with 1, actors on all cores would leave none for reading
BATCH = {"cpu": 4096, "cuda": 1 << 17}  # rows of a dataset that an actor gets at a time
MAX_BLOCKS = 4096  # of the list of parts
PROCESS = 450 * 10**6  # bytes of an actor without rows: those of a worker and those of Ray
MEMORY = {"cpu": "1500MB", "cuda": "4GB"}  # default of an actor
REJECTED = "rejected"  # the column of a dataset with the reason why a row was rejected


class PartActor:
    """Reads parts of a Parquet table, explains them and writes their files."""

    def __init__(
        self,
        explainer: Any,
        task: Mapping[str, Any],
        device: str,
        files: Sequence[str],
        columns: list[str],
        part_rows: int,
    ) -> None:
        with unpacked_files(_fetched(explainer)) as reference:
            self.worker = Worker({**task, "explainer": reference}, device)
        self.table, self.columns, self.part_rows = TableFile(tuple(map(Path, files)), text=False), columns, part_rows

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """For each part its number of rows, the device that was used, and the error, if any: Ray would repeat a call
        that raises."""
        device = self.worker.explainer.model.device.type
        found = [self._explain(int(p)) for p in batch["part"]]
        rows, errors = zip(*found, strict=True)
        return {"part": batch["part"], "rows": list(rows), "device": [device] * len(found), "error": list(errors)}

    def _explain(self, number: int) -> tuple[int, str]:
        try:
            part = self.table.part(number, self.part_rows, self.columns)
            if not self.worker.folder.is_done(number):  # by an actor that died before it could report
                self.worker.explain(part)
        except Exception as reason:
            start = number * self.part_rows
            return 0, f"rows {start} to {start + self.part_rows - 1}: {first_line(reason)}"
        return part.stop - part.start, ""


class BatchActor:
    """Explains batches of a dataset. The explainer is sent as the bytes of its files: no shared disk is needed."""

    def __init__(self, explainer: Any, device: str, question: Mapping[str, Any]) -> None:
        from grace.scale.arrow_answers import check_question

        with unpacked_files(_fetched(explainer)) as reference:
            self.explainer = load_reference(reference, device)
        self.question = JobQuestion.from_json(question, row_memory(self.explainer, question["memory"]))
        check_question(self.explainer, self.question)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The answers in the order of the rows, one line each, with the extra columns before them and the reason of a
        rejected row after them."""
        import numpy as np
        import pyarrow as pa

        from grace.scale.arrow_answers import explain_part

        n = len(rows)
        names = self.explainer.schema.columns
        for name in names:
            if name not in rows.column_names:
                raise GraceError(f"column {name!r} is missing from the dataset")
        numbered = rows.select(names).append_column(ROW, pa.array(np.arange(n)))
        answers, rejects = explain_part(self.explainer, Part(0, 0, n, numbered), self.question)
        rejected = np.array([r.row for r in rejects], dtype=np.int64)
        positions = np.concatenate([answers["row"].to_numpy(), rejected])
        order = np.argsort(positions, kind="stable")
        line = np.concatenate([np.arange(len(answers)), np.full(len(rejected), -1)])[order]
        found = answers.drop_columns("row").take(pa.array(line, mask=line < 0))
        reasons = [r.reason if r.column is None else f"column {r.column!r}: {r.reason}" for r in rejects]
        cells = np.array([None] * len(answers) + reasons, dtype=object)[order]
        found = found.append_column(REJECTED, pa.array(cells, pa.string()))
        others = [c for c in rows.column_names if c not in names]
        extra = rows.select(others).take(pa.array(positions[order]))
        extra = extra.rename_columns(unique_names(others, found.column_names))
        return pa.table({c: table[c] for table in (extra, found) for c in table.column_names})


def explain_dataset(
    explainer: Explainer | str | Path,
    dataset: Any,
    *,
    actors: int | None = None,
    batch_rows: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    impute: bool = False,
    text: bool | Mapping[str, Any] = False,
    **asked: Any,
) -> Any:
    """A Ray dataset of answers to the rows of another, with the arguments of `Explainer.explain`; like any Ray dataset,
    it is computed lazily. Columns that are no features, such as a row's key, are copied beside the answers, as Ray does
    not keep the order of rows. A rejected row has the reason in the column "rejected".

    `actors` is the maximal number of actors, and `memory` the limit of each. `device` is "cuda" for a GPU each, or
    "cpu"; by default they have a GPU each if the cluster has any.
    """
    ray = _connected_ray()
    resources = ActorResources.of(ray, memory, device)
    with as_saved(explainer, portable=True) as saved:
        files, target = saved.files(), saved.target
        question = {**question_to_json(asked, impute=impute, text=text), "memory": resources.row_memory}
        _check({"folder": "", "explainer": saved.reference(), "question": question, "extra_columns": ""})
    if target is not None and target in dataset.columns():
        dataset = dataset.drop_columns([target])
    return dataset.map_batches(
        BatchActor,
        fn_constructor_kwargs={"explainer": ray.put(files), "device": resources.device, "question": question},
        batch_size=BATCH[resources.device] if batch_rows is None else batch_rows,
        batch_format="pyarrow",
        **resources.options(ray, actors),
    )


def explain_parts(
    plan: JobPlan,
    report: Report,
    actors: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    overhead: int = 0,
) -> None:
    """Explain the parts of a job that are not done by actors, which read the table and write the files themselves."""
    todo = [{"part": p} for p in range(-(-plan.rows // plan.part_rows)) if p not in plan.done]
    if not todo:
        return
    ray = _connected_ray()
    resources = ActorResources.of(ray, memory, device, overhead)
    _check(plan.task)
    task = {k: plan.task[k] for k in ("question", "extra_columns")}
    task |= {"folder": str(Path(plan.task["folder"]).absolute()), "memory": resources.row_memory}
    parts = ray.data.from_items(todo, override_num_blocks=min(len(todo), MAX_BLOCKS)).map_batches(
        PartActor,
        fn_constructor_kwargs={
            "explainer": ray.put(plan.explainer.files()),
            "task": task,
            "device": resources.device,
            "files": [str(f.absolute()) for f in plan.table.files],
            "columns": plan.columns,
            "part_rows": plan.part_rows,
        },
        batch_size=1,
        batch_format="numpy",
        **resources.options(ray, actors),
    )
    warned = False
    try:
        for line in parts.iter_rows():
            if line["error"]:
                raise GraceError(line["error"])
            if line["device"] != resources.device and not warned:
                warned = True
                warnings.warn("the cluster has GPUs, but torch sees none in an actor, which uses the CPU", stacklevel=2)
            report(int(line["rows"]))
    except ray.exceptions.RayError as reason:
        raise GraceError(_last_line(reason)) from reason


@dataclass(frozen=True)
class ActorResources:
    """The resources that an actor requests from Ray: a fraction of a core, memory, and perhaps a GPU."""

    memory: int
    device: str
    overhead: int = 0  # bytes for a part and the explainer, in addition to a process without rows

    @classmethod
    def of(cls, ray: Any, memory: int | str | None, device: str | None, overhead: int = 0) -> ActorResources:
        """The requested resources, if a machine of the cluster has them; otherwise Ray would wait forever."""
        if device not in (None, *MEMORY):
            raise GraceError(f"device={device!r}: with Ray it is cpu or cuda; each actor has its own GPU")
        gpus = any(node["Resources"].get("GPU", 0) >= 1 for node in _alive(ray))
        if device == "cuda" and not gpus:
            raise GraceError("device='cuda': no machine of the cluster has a GPU; leave device out")
        device = device or ("cuda" if gpus else "cpu")
        size = bytes_of(MEMORY[device] if memory is None else memory)
        least = PROCESS + cuda_build_bytes() + overhead + LEAST
        if size < least:
            raise GraceError(
                f"memory={said_bytes(size)} is too little for an actor of Ray; give at least {said_bytes(least)}"
            )
        resources = cls(size, device, overhead)
        if not resources.max_actors(ray):
            most = max((int(n["Resources"].get("memory", 0)) for n in _alive(ray)), default=0)
            raise GraceError(
                f"memory={said_bytes(size)}: no machine of the cluster has so much for an actor; Ray lends "
                f"{said_bytes(most)} at most, see `ray start --memory`"
            )
        return resources

    @property
    def requests(self) -> dict[str, float]:
        return {"num_cpus": CPUS, "memory": self.memory, **({"num_gpus": 1} if self.device == "cuda" else {})}

    @property
    def row_memory(self) -> int:
        """Bytes for the work on rows."""
        return self.memory - PROCESS - cuda_build_bytes() - self.overhead

    def max_actors(self, ray: Any) -> int:
        """One actor per GPU, or else per core, as far as the memory of each machine suffices."""
        machines = [node["Resources"] for node in _alive(ray)]
        units = [int(m.get("GPU", 0)) if self.device == "cuda" else math.ceil(m.get("CPU", 0)) for m in machines]
        return sum(min(n, int(m.get("memory", 0) // self.memory)) for n, m in zip(units, machines, strict=True))

    def options(self, ray: Any, actors: int | None) -> dict[str, Any]:
        """Arguments of `map_batches`, for at most so many actors."""
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=actors or self.max_actors(ray))
        return {"compute": pool, **self.requests}


def _fetched(files: Any) -> Mapping[str, bytes]:
    """The files of an explainer, from Ray's object store unless they are given."""
    if isinstance(files, Mapping):
        return files
    import ray

    return dict(ray.get(files))


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _last_line(reason: BaseException) -> str:
    """The error of an actor, which is the last line after Ray's traceback."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else type(reason).__name__


def _check(task: Mapping[str, Any]) -> None:
    """Check the question in this process, where an error has no traceback of Ray."""
    Worker({**task, "memory": LEAST})


def _connected_ray() -> Any:
    """Ray, connected to a cluster; if there is none, to a new one on this machine."""
    try:
        import ray
        import ray.data
    except ImportError as missing:
        raise GraceError(f"more than one machine needs Ray: {pip_install('ray')}") from missing
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.WARNING, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        for name in ("ray.data", "ray.data._internal"):
            logging.getLogger(name).setLevel(logging.ERROR)
    return ray
