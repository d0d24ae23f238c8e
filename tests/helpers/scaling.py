"""A small world for jobs: a network saved by `Explainer.save`, and tables for it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import csv

from grace import Explainer, Schema, training
from grace.models.network import Network
from grace.models.torch import TorchModel
from grace.problem.background import Background
from grace.scale import run

SRC = Path(__file__).parents[2] / "src"


def loans(n: int, seed: int = 0) -> pd.DataFrame:
    """A number with decimals, a whole number, a category, a flag, and a date."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.uniform(10, 90, n).round(2),
            "years": rng.integers(0, 40, n),
            "home": rng.choice(["owned", "rented", "none"], n),
            "member": rng.integers(0, 2, n).astype(bool),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
        }
    )


def saved_explainer(folder: Path) -> Explainer:
    frame = loans(400)
    score = frame["income"] / 30 + frame["years"] / 20 + (frame["home"] == "owned") + frame["member"]
    frame["risk"] = np.select([score < 2.2, score < 3.6], ["high", "medium"], "low")
    explainer = Explainer(training.fit(frame, "risk", hidden=(12,), max_epochs=60), frame, target="risk")
    explainer.save(str(folder))
    return explainer


HOW = {"workers": 0, "part_rows": 20, "method": "gradient"}


def small_world(here: Path, rows: int, bad: list[int]) -> SimpleNamespace:
    """A saved explainer, and a frame of rows, some of which do not fit."""
    frame = loans(rows, seed=4)
    frame.loc[bad, "home"] = "castle"
    return SimpleNamespace(here=here, explainer=saved_explainer(here / "model"), model=here / "model", frame=frame)


def small_job(here: Path) -> SimpleNamespace:
    """Seventy rows in four parts, of which the second has two rows that do not fit and the last has one, explained into
    the folder "whole"."""
    world = small_world(here, 70, [25, 31, 69])
    world.rows = here / "rows.parquet"
    world.frame.to_parquet(world.rows)
    run(world.explainer, world.rows, here / "whole", **HOW)
    return world


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a job, to be compared byte for byte."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


PROGRAM = f"import sys; sys.path.insert(0, {str(SRC)!r}); from grace.cli import main; main()"


def command(*args: object, program: str = PROGRAM) -> subprocess.Popen[bytes]:
    """`grace explain` in a process of its own."""
    words = [sys.executable, "-c", program, "explain", *map(str, args)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def children(pid: int) -> list[int]:
    """The processes that a process has started, those that they started included."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended meanwhile
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    more = [pid]
    while more:
        more = [p for p, above in parents.items() if above in more]
        found += more
    return found


def taken(pid: int) -> int:
    """Bytes of a process in memory, what it shares with others divided among them (PSS)."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


def peak_of(process: subprocess.Popen[bytes]) -> int:
    """The most that a process and all that it started take together until it ends, looked at all the time."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(taken, (process.pid, *children(process.pid)))))
        time.sleep(0.02)
    return peak


def wide_explainer(columns: int, folder: Path, *, redundancy: bool = True) -> None:
    """An explainer of so many features with a network that was not trained, and arrays of the size that they have."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, columns)).round(3), columns=[f"f{i}" for i in range(columns)])
    schema = Schema.infer(frame)
    torch.manual_seed(0)
    network = Network(schema, (16,), 2).double().eval().requires_grad_(False)
    model = TorchModel(network, ("a", "b"), outputs="logits", schema=schema)
    explainer = Explainer(model, schema=schema, gamma=1.0)
    if redundancy:
        explainer.use(explainer.model, Background(frame.to_numpy(), np.zeros((columns, columns))))
    explainer.save(str(folder))


def wide_rows(columns: int, rows: int, path: Path) -> None:
    """Rows for it, in CSV or in Parquet with a single row group."""
    rng = np.random.default_rng(1)
    table = pa.table({f"f{i}": rng.normal(size=rows).round(3) for i in range(columns)})
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=rows)
