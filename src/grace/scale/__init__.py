"""Tables that do not fit into memory, jobs that survive, and more than one machine.

tables    Parquet and CSV files as parts of equally many rows, read one after another
reading   what pyarrow says of files
stored    training rows in Parquet files, by columns or drawn
sifting   rows that cannot be explained, set aside with the reason
answers   the explained rows of a part as a table, one line per answer; carrying adds columns of the input to it
writing   files that are written whole or not at all; records has the hash of each file of a job, and finds damage
manifest  what a job is about, and its folder; results reads the answers back
explainers  the explainer of a job, for its processes and on other machines
worker    a process that explains parts; pool starts several and replaces those that die
jobs      a file explained into a folder, from wherever it was broken off
cluster   the same by Ray, on as many machines as there are
command   the job form of `grace explain`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace import lazily

if TYPE_CHECKING:
    from grace.scale.cluster import explain_dataset
    from grace.scale.jobs import Job, run
    from grace.scale.results import read, rejects
    from grace.scale.sampling import sample

__all__ = ["Job", "explain_dataset", "read", "rejects", "run", "sample"]

_HOMES = {
    "Job": "jobs",
    "explain_dataset": "cluster",
    "read": "results",
    "rejects": "results",
    "run": "jobs",
    "sample": "sampling",
}

__getattr__ = lazily(__name__, _HOMES)
