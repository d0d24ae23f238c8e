"""Past one machine: Ray Data. Actors hold an explainer each; what is lost with one is done by another."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError, pip_install
from grace.problem.budget import LEAST, bytes_of, said_bytes
from grace.scale.budget import cuda_build_bytes
from grace.scale.extra_columns import Carried, names_beside
from grace.scale.saved_explainer import given, load_given, received
from grace.schema.tables.arrow import first_line
from grace.schema.tables.table_file import ROW, Part, TableFile

if TYPE_CHECKING:
    import pyarrow as pa

    from grace.explain.explainer import Explainer

CPUS = 0.5  # per actor: with 1, actors on all cores would leave none to whoever reads
BATCH = {"cpu": 4096, "cuda": 1 << 17}  # rows of a dataset that an actor is given at a time
BLOCKS = 4096  # most blocks of a list of parts
PROCESS = 450 * 10**6  # what an actor takes before it has a row: as a worker, and Ray's own
MEMORY = {"cpu": "1500MB", "cuda": "4GB"}  # what an actor may take, if nothing else is said
REASON = "rejected"


class PartActor:
    """Explains parts of a Parquet table and writes their files, as a worker on one machine does."""

    def __init__(
        self,
        explainer: Any,
        work: Mapping[str, Any],
        device: str,
        files: Sequence[str],
        columns: list[str],
        size: int,
    ) -> None:
        from grace.scale.worker import Worker

        with received(_got(explainer)) as reference:
            self.worker = Worker.of({**work, "explainer": reference}, device)
        self.table, self.columns, self.size = TableFile(tuple(map(Path, files)), text=False), columns, size

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """For each part how many rows it had, the device that was used, and what went wrong, if anything: Ray would
        do again what it does not understand."""
        device = self.worker.explainer.model.device.type
        found = [self._do(int(p)) for p in batch["part"]]
        rows, errors = zip(*found, strict=True)
        return {"part": batch["part"], "rows": list(rows), "device": [device] * len(found), "error": list(errors)}

    def _do(self, number: int) -> tuple[int, str]:
        try:
            part = self.table.part(number, self.size, self.columns)
            if not self.worker.place.holds(number):  # else done by an actor that died before it could say so
                self.worker.do(part)
        except Exception as reason:
            start = number * self.size
            return 0, f"rows {start} to {start + self.size - 1}: {first_line(reason)}"
        return part.stop - part.start, ""


class BatchActor:
    """Explains batches of a dataset. The explainer comes as the bytes of its files, so that no disk need be shared."""

    def __init__(self, explainer: Any, device: str, question: Mapping[str, Any]) -> None:
        from grace.scale.arrow_answers import JobQuestion, check
        from grace.scale.worker import room

        with received(_got(explainer)) as reference:
            self.explainer = load_given(reference, device)
        self.question = JobQuestion.of(question, room(self.explainer, question["memory"]))
        check(self.explainer, self.question)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The answers in the order of the rows, one line each, beside the columns that are no features; and why a row
        is set aside."""
        import numpy as np
        import pyarrow as pa

        from grace.scale.arrow_answers import explain_part

        n = len(rows)
        names = self.explainer.schema.columns
        for name in names:
            if name not in rows.column_names:
                raise GraceError(f"column {name!r} is missing from the dataset")
        numbered = rows.select(names).append_column(ROW, pa.array(np.arange(n)))
        answers, rejects = explain_part(self.explainer, Part(0, 0, n, numbered), self.question, Carried.none())
        aside = np.array([r.row for r in rejects], dtype=np.int64)
        place = np.concatenate([answers["row"].to_numpy(), aside])
        order = np.argsort(place, kind="stable")
        line = np.concatenate([np.arange(len(answers)), np.full(len(aside), -1)])[order]
        found = answers.drop_columns("row").take(pa.array(line, mask=line < 0))
        reasons = [r.reason if r.column is None else f"column {r.column!r}: {r.reason}" for r in rejects]
        why = np.array([None] * len(answers) + reasons, dtype=object)[order]
        found = found.append_column(REASON, pa.array(why, pa.string()))
        kept = [c for c in rows.column_names if c not in names]
        carried = rows.select(kept).take(pa.array(place[order])).rename_columns(names_beside(kept, found.column_names))
        return pa.table({c: table[c] for table in (carried, found) for c in table.column_names})


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
    """A Ray dataset of answers to the rows of another, with whatever `Explainer.explain` takes; nothing is worked out
    before it is looked at or written. Columns that are no features, such as a row's key, are carried along: the order
    of rows is Ray's. A row that does not fit has the reason in the column "rejected".

    `actors` is how many work at most, and `memory` what each of them may take. `device` is "cuda" for a GPU each, or
    "cpu"; left out, they have one each if the cluster has any.
    """
    from grace.scale.jobs import how_said, plain_settings

    ray = _ray()
    needs = Needs.of(ray, memory, device)
    with given(explainer, anywhere=True) as known:
        files, head = known.files(), known.head
        question = {"settings": plain_settings(asked), "impute": impute, "text": how_said(text), "memory": needs.rows}
        _check({"folder": "", "explainer": known.reference(), "question": question, "carried": ""})
    dataset = dataset.drop_columns([head["schemas"][0]["target"]]) if _has_target(dataset, head) else dataset
    return dataset.map_batches(
        BatchActor,
        fn_constructor_kwargs={"explainer": ray.put(files), "device": needs.device, "question": question},
        batch_size=BATCH[needs.device] if batch_rows is None else batch_rows,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors or needs.most(ray)),
        **needs.resources,
    )


def run_parts(
    table: TableFile,
    columns: list[str],
    size: int,
    rows: int,
    done: frozenset[int],
    work: Mapping[str, Any],
    report: Callable[[int], None],
    *,
    actors: int | None = None,
    memory: int | str | None = None,
    device: str | None = None,
    beside: int = 0,
) -> None:
    """Have the parts of a table that are not done explained by actors, which read and write the files themselves, and
    take so much memory `beside` rows for it."""
    todo = [{"part": p} for p in range(-(-rows // size)) if p not in done]
    if not todo:
        return
    ray = _ray()
    needs = Needs.of(ray, memory, device, beside)
    files = [str(f.absolute()) for f in table.files]
    _check(work)
    reached = {k: work[k] for k in ("question", "carried")}
    reached |= {"folder": str(Path(work["folder"]).absolute()), "memory": needs.rows}
    parts = ray.data.from_items(todo, override_num_blocks=min(len(todo), BLOCKS)).map_batches(
        PartActor,
        fn_constructor_kwargs={
            "explainer": ray.put(work["files"]),
            "work": reached,
            "device": needs.device,
            "files": files,
            "columns": columns,
            "size": size,
        },
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors or needs.most(ray)),
        **needs.resources,
    )
    told = False
    try:
        for line in parts.iter_rows():
            if line["error"]:
                raise GraceError(line["error"])
            if line["device"] != needs.device and not told:
                told = True
                warnings.warn("the cluster has GPUs, but torch sees none in an actor, which uses the CPU", stacklevel=2)
            report(int(line["rows"]))
    except ray.exceptions.RayError as reason:
        raise GraceError(_last_line(reason)) from reason


@dataclass(frozen=True)
class Needs:
    """What an actor asks Ray for: a part of a core, memory, and the device that it works on."""

    memory: int
    device: str
    beside: int = 0  # bytes for a part and the explainer, beside what every actor takes

    @classmethod
    def of(cls, ray: Any, memory: int | str | None, device: str | None, beside: int = 0) -> Needs:
        """What was asked for, if a machine of the cluster has it: Ray would wait for one without end."""
        if device not in (None, *MEMORY):
            raise GraceError(f"device={device!r}: with Ray it is cpu or cuda; each actor has its own GPU")
        gpus = any(node["Resources"].get("GPU", 0) >= 1 for node in _alive(ray))
        if device == "cuda" and not gpus:
            raise GraceError("device='cuda': no machine of the cluster has a GPU; leave device out")
        device = device or ("cuda" if gpus else "cpu")
        size = bytes_of(MEMORY[device] if memory is None else memory)
        taken = PROCESS + cuda_build_bytes() + beside + LEAST
        if size < taken:
            least = said_bytes(taken)
            raise GraceError(f"memory={said_bytes(size)} is too little for an actor of Ray; give at least {least}")
        needs = cls(size, device, beside)
        if not needs.most(ray):
            most = max((int(n["Resources"].get("memory", 0)) for n in _alive(ray)), default=0)
            raise GraceError(
                f"memory={said_bytes(size)}: no machine of the cluster has so much for an actor; Ray lends "
                f"{said_bytes(most)} at most, see `ray start --memory`"
            )
        return needs

    @property
    def resources(self) -> dict[str, float]:
        return {"num_cpus": CPUS, "memory": self.memory, **({"num_gpus": 1} if self.device == "cuda" else {})}

    @property
    def rows(self) -> int:
        """Bytes for the work on rows."""
        return self.memory - PROCESS - cuda_build_bytes() - self.beside

    def most(self, ray: Any) -> int:
        """As many actors as there are GPUs, or else cores, as far as the memory of each machine goes."""
        machines = [node["Resources"] for node in _alive(ray)]
        seats = [int(m.get("GPU", 0)) if self.device == "cuda" else math.ceil(m.get("CPU", 0)) for m in machines]
        return sum(min(n, int(m.get("memory", 0) // self.memory)) for n, m in zip(seats, machines, strict=True))


def _got(files: Any) -> Mapping[str, bytes]:
    """The files of an explainer, from Ray's store unless they are at hand."""
    if isinstance(files, Mapping):
        return files
    import ray

    return dict(ray.get(files))


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _last_line(reason: BaseException) -> str:
    """What went wrong in an actor, which comes after Ray's account of where."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else type(reason).__name__


def _check(work: Mapping[str, Any]) -> None:
    """Whether the question can be asked, found out here, where an error is said in one line."""
    from grace.scale.worker import Worker

    Worker.of({**work, "memory": LEAST})


def _has_target(dataset: Any, head: Mapping[str, Any]) -> bool:
    target = head["schemas"][0]["target"]
    return target is not None and target in dataset.columns()


def _ray() -> Any:
    """Ray, connected to a cluster; where there is none, to one of this machine alone."""
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
