"""Past one machine: Ray Data. Actors hold an explainer each; what is lost with one is done by another."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.saved import HEAD
from grace.scale.manifest import saved_files
from grace.scale.tables import ROW, Big, Part

if TYPE_CHECKING:
    import pyarrow as pa

    from grace.explainer import Explainer

CPUS = 0.5  # per actor: with 1, actors on all cores would leave none to whoever reads
BATCH = 4096  # rows of a dataset that an actor is given at a time
BLOCKS = 4096  # most blocks of a list of parts
ROOM = 10**9  # bytes an actor may use for rows
REASON = "rejected"


class PartActor:
    """Explains parts of a Parquet table and writes their files, as a worker on one machine does."""

    def __init__(
        self, work: Mapping[str, Any], device: str | None, files: Sequence[str], columns: list[str], size: int
    ):
        from grace.scale.worker import Worker

        self.worker = Worker.of(work, device)
        self.table, self.columns, self.size = Big(tuple(map(Path, files)), text=False), columns, size

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"part": batch["part"], "rows": [self._do(int(p)) for p in batch["part"]]}

    def _do(self, number: int) -> int:
        part = self.table.part(number, self.size, self.columns)
        if not self.worker.place.answers(number).exists():  # else done by an actor that died before it could say so
            self.worker.do(part)
        return part.stop - part.start


class BatchActor:
    """Explains batches of a dataset. The explainer comes as the bytes of its files, so that no disk need be shared."""

    def __init__(self, files: Mapping[str, bytes], device: str | None, question: Mapping[str, Any]) -> None:
        from grace.scale.answers import Question, check
        from grace.scale.worker import explainer_at

        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            self.explainer = explainer_at(folder, device)
        self.question = Question.of(question, question["memory"])
        check(self.explainer, self.question)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The answers in the order of the rows, beside the columns that are no features; and why a row is set aside."""
        import numpy as np
        import pyarrow as pa

        from grace.scale.answers import explain_part

        n = len(rows)
        names = self.explainer.schema.columns
        for name in names:
            if name not in rows.column_names:
                raise GraceError(f"column {name!r} is missing from the dataset")
        numbered = rows.select(names).append_column(ROW, pa.array(np.arange(n)))
        answers, rejects = explain_part(self.explainer, Part(0, 0, n, numbered), self.question)
        place = np.full(n, -1)
        place[answers["row"].to_numpy()] = np.arange(len(answers))
        found = answers.drop_columns("row").take(pa.array(place, mask=place < 0))
        reason = np.full(n, None, dtype=object)
        for r in rejects:
            reason[r.row] = r.reason if r.column is None else f"column {r.column!r}: {r.reason}"
        found = found.append_column(REASON, pa.array(reason, pa.string()))
        carried = [c for c in rows.column_names if c not in names]
        for name in carried:
            if name in found.column_names:
                raise GraceError(f"column {name!r} of the dataset has the name of an answer; rename it")
        return pa.table({c: rows[c] for c in carried} | {c: found[c] for c in found.column_names})


def explain_dataset(
    explainer: Explainer | str | Path,
    dataset: Any,
    *,
    actors: int | None = None,
    batch_rows: int = BATCH,
    memory: int | str = ROOM,
    impute: bool = False,
    text: bool | Mapping[str, Any] = False,
    **asked: Any,
) -> Any:
    """A Ray dataset of answers to the rows of another, with whatever `Explainer.explain` takes; nothing is worked out
    before it is looked at or written. Columns that are no features, such as a row's key, are carried along: the order
    of rows is Ray's. A row that does not fit has the reason in the column "rejected".

    `actors` is how many work at most, each on a GPU if the cluster has any; `memory` what each may use for rows.
    """
    from grace.memory import bytes_of
    from grace.scale.jobs import how_said, plain_settings, saved

    ray = _ray()
    with saved(explainer) as (folder, apart):
        if apart:
            raise GraceError("this model cannot be saved, and so not be given to a cluster")
        files = {path.name: path.read_bytes() for path in saved_files(folder)}
        question = {
            "settings": plain_settings(asked),
            "impute": impute,
            "text": how_said(text),
            "memory": bytes_of(memory),
        }
        _check({"folder": str(folder), "explainer": str(folder), "question": question})
    head = json.loads(files[HEAD])
    dataset = dataset.drop_columns([head["schemas"][0]["target"]]) if _has_target(dataset, head) else dataset
    resources, device = _resources(ray)
    return dataset.map_batches(
        BatchActor,
        fn_constructor_kwargs={"files": files, "device": device, "question": question},
        batch_size=batch_rows,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors or _most(ray, resources)),
        **resources,
    )


def run_parts(
    table: Big,
    columns: list[str],
    size: int,
    rows: int,
    done: frozenset[int],
    work: Mapping[str, Any],
    report: Callable[[int], None],
    actors: int | None = None,
) -> None:
    """Have the parts of a table that are not done explained by actors, which read and write the files themselves."""
    todo = [{"part": p} for p in range(-(-rows // size)) if p not in done]
    if not todo:
        return
    ray = _ray()
    resources, device = _resources(ray)
    files = [str(f.absolute()) for f in table.files]
    _check(work)
    reached = {**work, **{k: str(Path(work[k]).absolute()) for k in ("folder", "explainer")}, "memory": ROOM}
    parts = ray.data.from_items(todo, override_num_blocks=min(len(todo), BLOCKS)).map_batches(
        PartActor,
        fn_constructor_kwargs={"work": reached, "device": device, "files": files, "columns": columns, "size": size},
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors or _most(ray, resources)),
        **resources,
    )
    for line in parts.iter_rows():
        report(int(line["rows"]))


def _check(work: Mapping[str, Any]) -> None:
    """Whether the question can be asked, found out here, where an error is said in one line."""
    from grace.scale.worker import Worker

    Worker.of({**work, "memory": ROOM})


def _has_target(dataset: Any, head: Mapping[str, Any]) -> bool:
    target = head["schemas"][0]["target"]
    return target is not None and target in dataset.columns()


def _ray() -> Any:
    """Ray, connected to a cluster; where there is none, to one of this machine alone."""
    try:
        import ray
        import ray.data
    except ImportError as missing:
        raise GraceError("more than one machine needs Ray: pip install 'grace-xai[ray]'") from missing
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.WARNING, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        for name in ("ray.data", "ray.data._internal"):
            logging.getLogger(name).setLevel(logging.ERROR)
    return ray


def _resources(ray: Any) -> tuple[dict[str, float], str | None]:
    """What an actor asks for, and the device it works on."""
    if ray.cluster_resources().get("GPU", 0) >= 1:
        return {"num_gpus": 1, "num_cpus": CPUS}, "cuda"
    return {"num_cpus": CPUS}, None


def _most(ray: Any, resources: Mapping[str, float]) -> int:
    """As many actors as there are GPUs, or else cores."""
    name = "GPU" if "num_gpus" in resources else "CPU"
    return max(1, int(ray.cluster_resources()[name]))
