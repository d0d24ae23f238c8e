"""Jobs: a table explained into a folder. An interrupted job is continued by the same call. Also random rows of a table,
to train on one that does not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.errors import GraceError
from grace.problem.budget import bytes_of
from grace.scale import results
from grace.scale.budget import MEMORY, Budget, rows_per_part
from grace.scale.engines import ENGINES, JobPlan, choose_engine
from grace.scale.extra_columns import ExtraColumns
from grace.scale.job_folder import JobFolder
from grace.scale.saved_explainer import as_saved
from grace.scale.worker import question_to_json
from grace.schema.sources import ParquetSource
from grace.schema.tables.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd

    from grace.explain.explainer import Explainer

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """A finished job: its folder, the number of rows that were explained, that have no answer, and that were rejected
    (`set_aside`), the extra columns that were copied beside the answers (`carried`), and what was repaired."""

    folder: Path
    explained: int
    not_explained: int
    set_aside: int
    carried: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()

    def read(self, columns: list[str] | None = None, *, check: bool = True) -> pd.DataFrame:
        """The answers, indexed by row number; see `grace.scale.read`."""
        return results.read(self.folder, columns, check=check)

    def rejects(self) -> pd.DataFrame:
        """The rejected rows, with column and reason."""
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
    """Explain every row of a Parquet or CSV file, with the arguments of `Explainer.explain`, into the folder `out`.

    The same call continues a job that was interrupted; the files are the same, byte for byte, as without interruption.

    explainer  an Explainer, or the folder of a saved one
    workers    number of processes; by default one per core, as far as the memory suffices, and one on a GPU; 0 for this
               process alone, which is the only choice for a model that cannot be saved
    memory     limit for the job and its processes together ["2GB", on a GPU "6GB"]; with Ray, for each actor
    part_rows  rows per file of answers [10,000, or a million cells of a table with more than 100 columns]
    impute     fill in missing cells as in training; otherwise their rows are rejected
    text       add the sentence; a dict has arguments of `Explanation.text`
    id         the extra columns to copy beside the answers; by default all that are neither features nor the target
    model      the file of the model, as for `grace.load`, if the folder does not find it
    repair     explain parts again whose files were changed, and remove files that the job did not write; otherwise they
               raise an error
    engine     "local", or "ray" for the cluster that this process is connected to, or else a local one
    device     where the model runs, such as "cuda"; by default the CPU, and with Ray a GPU for each actor if there are
               any
    progress   called with the number of finished rows and of all rows
    """
    if engine not in ENGINES:
        raise GraceError(f"engine={engine!r} is unknown; use one of {', '.join(ENGINES)}")
    if part_rows is not None and (isinstance(part_rows, bool) or not isinstance(part_rows, int) or part_rows < 1):
        raise GraceError(f"part_rows={part_rows!r}: it must be a whole number of at least 1")
    limit = bytes_of(MEMORY.get(device or "cpu", MEMORY["cuda"]) if memory is None else memory)
    if device is not None and engine == "local":
        from grace.models.base import device_of

        device_of(device)
    folder, table = JobFolder(Path(out)), TableFile.of(path)
    if engine == "ray" and table.text:
        raise GraceError(f"{path}: Ray reads parts of Parquet wherever they lie in the file; convert the CSV first")
    portable = engine == "ray" or device is not None
    with folder.locked() as lock, as_saved(explainer, model=model, portable=portable) as saved:
        stamps, features = table.stamps(), saved.columns
        table.need(features)
        ids = [id] if isinstance(id, str) else None if id is None else list(id)
        extra = ExtraColumns.of(table, features, saved.target, ids)
        also_read = [c for c in extra.names if c not in features]
        size = rows_per_part(len(features) + len(also_read)) if part_rows is None else part_rows
        content, rows = table.fingerprint()
        question = question_to_json(asked, impute=impute, text=text)
        about = {"input": content, "explainer": saved.identity, "question": {**question, "id": ids}, "part_rows": size}
        done, repaired = folder.begin(about, saved.recorded(), repair=repair)
        task = {
            "folder": str(folder.folder),
            "explainer": saved.reference(),
            "question": question,
            "extra_columns": extra.to_text(),
        }
        plan = JobPlan(table, saved, also_read, size, rows, done, task)
        report = _RowCount(min(rows, len(done) * size), rows, progress)
        report(0)
        budget = Budget.of(limit, table, rows, plan.columns, size, saved.sizes(), device or "cpu")
        how: dict[str, Any] = {"workers": workers, "memory": memory, "device": device, "lock": lock}
        choose_engine(engine, explainer, saved, budget, **how).run(plan, report)
        if not folder.done():
            raise GraceError(f"{path} has no rows: the table is empty")
        if table.stamps() != stamps:
            folder.write_manifest({**about, "input": "changed while it was read"})
            raise GraceError(f"{path} has changed while it was read; explain it into another folder")
        return Job(folder.folder, *folder.finish(about), tuple(extra.names), repaired)


@dataclass
class _RowCount:
    """Counts finished rows and tells the caller's `progress`. The total of a CSV file is an estimate."""

    done: int
    total: int
    progress: Progress | None

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(self.done, max(self.total, self.done))


def sample(path: str | Path, rows: int, *, seed: int = 0) -> pd.DataFrame:
    """Rows drawn at random without replacement from a Parquet table of any size, in the order of the table and indexed
    by row number."""
    source = ParquetSource.of(path)
    total = len(source)
    return source.take(np.sort(np.random.default_rng(seed).choice(total, min(rows, total), replace=False)))
