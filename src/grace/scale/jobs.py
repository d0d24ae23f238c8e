"""A file explained into a folder, by all cores, within a memory budget; broken off, it goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.problem.budget import LEAST, bytes_of
from grace.problem.target_range import TargetRange
from grace.scale import results
from grace.scale.budget import MEMORY, Budget, rows_per_part
from grace.scale.extra_columns import Carried
from grace.scale.job_folder import JobFolder
from grace.scale.pool import Pool
from grace.scale.saved_explainer import given, load_given
from grace.schema.tables.table_file import Part, TableFile

if TYPE_CHECKING:
    import pandas as pd

    from grace.explain.explainer import Explainer

ENGINES = ("local", "ray")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """A job that is done: its folder, and how many rows were explained, had no answer, or were set aside; the columns
    that were carried along, and what was repaired."""

    folder: Path
    explained: int
    not_explained: int
    set_aside: int
    carried: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()

    def read(self, columns: list[str] | None = None, *, check: bool = True) -> pd.DataFrame:
        """The answers, under the numbers of their rows; see `grace.scale.read`."""
        return results.read(self.folder, columns, check=check)

    def rejects(self) -> pd.DataFrame:
        """The rows that were set aside, with the column and the reason."""
        return results.rejects(self.folder)


def run(
    explainer: Explainer | str | Path,
    path: str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    memory: int | str | None = None,
    part_rows: int | None = None,
    impute: bool = False,
    text: bool | Mapping[str, Any] = False,
    id: str | Sequence[str] | None = None,
    model: str | Path | None = None,
    repair: bool = False,
    engine: str = "local",
    device: str | None = None,
    progress: Progress | None = None,
    **asked: Any,
) -> Job:
    """Explain every row of a Parquet or CSV file, with whatever `Explainer.explain` takes, into the folder `out`.

    Started again with the same arguments, it goes on where it was broken off, and the files are the same to the byte.

    explainer  an Explainer, or the folder of a saved one
    workers    processes; left out, one per core, as far as the memory goes; 0 for none but this one, which is all that
               a model that cannot be saved has; on a GPU one, if nothing else is said
    memory     what the job and its processes may take altogether ["2GB", on a GPU "6GB"]; with Ray, what each actor may
    part_rows  rows per file of answers [10,000, or a million cells of a table with more than 100 columns]
    impute     fill in missing cells as in training, where they would set the row aside
    text       add the sentence; a dict says how, with the arguments of `Explanation.text`
    id         the columns that are carried along beside the answers; left out, all that are neither features nor the
               target
    model      the file of the model, as `grace.load` takes it, where the folder does not find it by itself
    repair     do parts again whose files are not as the job wrote them, and remove files that it did not write; they
               are an error otherwise
    engine     "local", or "ray" for the cluster that this process is connected to, or else a local one
    device     such as "cuda", where the model works; left out, the processors, and with Ray a GPU for each actor if
               there are any
    progress   called with rows done and rows in all
    """
    if engine not in ENGINES:
        raise GraceError(f"engine={engine!r} is unknown; use one of {', '.join(ENGINES)}")
    if part_rows is not None and (isinstance(part_rows, bool) or not isinstance(part_rows, int) or part_rows < 1):
        raise GraceError(f"part_rows={part_rows!r}: it must be a whole number of at least 1")
    where = device or "cpu"
    budget = bytes_of(MEMORY.get(where, MEMORY["cuda"]) if memory is None else memory)
    if device is not None and engine == "local":
        from grace.models.base import device_of

        device_of(device)
    place, table = JobFolder(Path(out)), TableFile.of(path)
    if engine == "ray" and table.text:
        raise GraceError(f"{path}: Ray reads parts of Parquet wherever they lie in the file; convert the CSV first")
    free = engine == "ray" or device is not None
    with place.locked() as lock, given(explainer, model=model, anywhere=free) as known:
        schema = known.head["schemas"][0]
        names = [c for f in schema["features"] for c in f.get("columns") or [f["name"]]]
        table.need(names)
        only = [id] if isinstance(id, str) else None if id is None else list(id)
        carried = Carried.of(table, names, schema["target"], only)
        more = [c for c in carried.names if c not in names]
        size = rows_per_part(len(names) + len(more)) if part_rows is None else part_rows
        stamps = table.stamps()
        content, rows = table.fingerprint()
        question = {"settings": plain_settings(asked), "impute": impute, "text": how_said(text)}
        about = {
            "input": content,
            "explainer": known.identity,
            "question": {**question, "id": only},
            "part_rows": size,
        }
        repaired = place.begin(about, known.recorded(), repair=repair)
        work = {
            "folder": str(place.folder),
            "explainer": known.reference(),
            "question": question,
            "carried": carried.text(),
        }
        done = place.done()
        count = min(rows, len(done) * size)

        def report(more: int) -> None:
            nonlocal count
            count += more
            if progress is not None:
                progress(count, max(rows, count))

        report(0)
        bounds = Budget.of(budget, table, rows, [*names, *more], size, known.sizes(), where)
        if engine == "ray":
            from grace.scale.cluster import run_parts

            work["files"] = known.files()
            how: dict[str, Any] = {"actors": workers, "memory": memory, "device": device, "beside": bounds.beside}
            run_parts(table, [*names, *more], size, rows, done, work, report, **how)
        elif known.apart or workers == 0:
            if workers:
                raise GraceError("this model cannot be saved, and so not be given to other processes; use workers=0")
            own = None if device or isinstance(explainer, str | Path) else explainer
            room = max(LEAST, budget - bounds.reader - bounds.process)
            _here(own, table.parts(size, names, done, more), {**work, "memory": room}, report, device)
        else:
            many, share = bounds.shares(1 if workers is None and where != "cpu" else workers)
            pool = Pool({**work, "memory": share, "workers": many, "device": where}, many, kept_open=[lock])
            pool.run(table.parts(size, names, done, more), report)
        if not place.done():
            raise GraceError(f"{path} has no rows: the table is empty")
        if table.stamps() != stamps:
            place.write_manifest({**about, "input": "changed while it was read"})
            raise GraceError(f"{path} has changed while it was read; explain it into another folder")
        return Job(place.folder, *place.finish(about), tuple(carried.names), repaired)


def _here(
    explainer: Explainer | None,
    parts: Iterator[Part],
    work: Mapping[str, Any],
    report: Callable[[int], None],
    device: str | None,
) -> None:
    """All parts in this process, by the explainer that is there already, if one is."""
    import torch

    from grace.scale.arrow_answers import JobQuestion
    from grace.scale.worker import Worker, room

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in processes of their own: sums then come out the same to the last bit
    try:
        if explainer is None:
            explainer = load_given(work["explainer"], device or "cpu")
        question = JobQuestion.of(work["question"], room(explainer, work["memory"]))
        worker = Worker(explainer, question, JobFolder(Path(work["folder"])), work["carried"])
        for part in parts:
            report(worker.do(part))
    finally:
        torch.set_num_threads(threads)


def plain_settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `explain` as JSON has them; those at their defaults are left out."""
    some = {k: v for k, v in asked.items() if v is not None}
    out = {k: v for k, v in some.items() if k in ("rules", "only") or not isinstance(v, list | tuple | dict) or v}
    if "robust" in out:
        raise GraceError("robust= is not for jobs, as other models are not saved with the explainer")
    against = out.get("against")
    if isinstance(against, TargetRange):
        out["against"] = asdict(against)
    elif isinstance(against, list | tuple) or hasattr(against, "__array__"):
        raise GraceError("against: a job contrasts every row with the same class")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(out, default=lambda v: v.item()))
    except (TypeError, AttributeError, ValueError) as reason:
        raise GraceError(f"a setting of a job must be plain values: {reason}") from reason
    return plain


def how_said(text: bool | Mapping[str, Any]) -> dict[str, Any] | None:
    if text is False:
        return None
    return {} if text is True else {k: v for k, v in text.items() if v not in (None, False)}
