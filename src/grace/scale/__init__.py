"""Jobs: tables of any size explained part by part, resumable, on all cores or on a Ray cluster.

jobs             `run` explains a table into a folder; `sample` draws random rows of one
engines          how the parts of a job are explained: in this process, in worker processes, or by Ray
pool             worker processes, replaced when they die
worker           the program of each, and what a job asks about each row, as JSON and as arguments of `explain`
cluster          Ray actors for the parts of a job, and for Ray datasets (`explain_dataset`)
saved_explainer  the explainer of a job as files, for other processes and machines
budget           estimates the memory of a job, and how many workers fit into it
arrow_answers    explains the rows of a part; the answers are an Arrow table with one line each
extra_columns    columns of the input that are copied beside the answers
rejected_rows    rows that cannot be explained, with the reason
job_folder       the folder of a job: manifest, files of the parts, lock
part_records     the record of each part, with the hashes of its files; finds changed files and repairs them
results          reads answers and rejected rows back (`read`, `rejects`)

Tables are read by `grace.schema.tables`; the command line is in `grace.cli.jobs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace import lazily

if TYPE_CHECKING:
    from grace.scale.cluster import explain_dataset
    from grace.scale.jobs import Job, run, sample
    from grace.scale.results import read, rejects

__all__ = ["Job", "explain_dataset", "read", "rejects", "run", "sample"]

_HOMES = {
    "Job": "jobs",
    "explain_dataset": "cluster",
    "read": "results",
    "rejects": "results",
    "run": "jobs",
    "sample": "jobs",
}

__getattr__ = lazily(__name__, _HOMES)
