"""How fast and in how much memory a job goes through a big table, Parquet to Parquet.

    python benchmarks/scale.py                                         the table in docs/scale.md, a quarter of an hour
    python benchmarks/scale.py --rows 10_000_000 --methods gradient    the real size, half an hour on two free cores
    python benchmarks/scale.py --rows 10_000_000 --methods learn       an explainer from so many training rows
    python benchmarks/scale.py --rows 2_000_000 --methods gradient --device cuda --workers 1      on a GPU

The rows are those of spam, drawn again and jittered. The peak is that of the reader and all workers together, shared
pages counted once (PSS), looked at ten times a second. Time of the processors is that of all processes, start included.
The method "learn" is none: it makes an explainer of the file as training rows, and explains a hundred by `nearest`.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import grace

OUT = Path(__file__).parent.parent / "docs" / "scale.csv"
FIELDS = ("method", "rows", "memory", "workers", "seconds", "rows_per_second", "cpu_ms_per_row", "peak_mb", "machine")
GROUP = 100_000


def spam_like(explainer: grace.Explainer, rows: int, path: Path) -> None:
    """Training rows drawn again, each cell up to a tenth larger or smaller."""
    rng = np.random.default_rng(0)
    known, features = explainer.background_rows, explainer.schema.features
    writer = None
    for start in range(0, rows, GROUP):
        count = min(GROUP, rows - start)
        cells = known[rng.integers(0, len(known), count)] * rng.uniform(0.9, 1.1, (count, len(features)))
        columns = {f.name: cells[:, j].round(0 if f.integer else 3) for j, f in enumerate(features)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, grown = {pid}, True
    while grown:
        more = {p for p, above in parents.items() if above in found} - found
        found, grown = found | more, bool(more)
    return sorted(found)


def resident(pid: int) -> int:
    """Bytes of a process in memory, those that it shares divided among the sharers."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    except (OSError, IndexError):
        return 0


LEARN = """
import sys, grace
model = grace.load(sys.argv[1])
explainer = grace.Explainer(model.model, sys.argv[2], method="nearest")
print(explainer)
assert explainer.explain(model.schema.decode(model.background_rows[:100])).success.any()
"""


def command(model: Path, rows: Path, method: str, memory: str, workers: int, out: Path, device: str) -> list[str]:
    """The job of a method, or the program that learns from the rows."""
    if method == "learn":
        return ["-c", LEARN, str(model), str(rows)]
    words = ["explain", model, rows, "--out", out, "--method", method, "--memory", memory, "--workers", workers]
    if device != "cpu":
        words += ["--device", device, "--part-rows", 200_000]
    return ["-m", "grace.cli", *map(str, words)]


def measured(words: list[str]) -> dict[str, float]:
    """One process, from its start to its end."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL)
    while True:
        done, status, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        peak = max(peak, sum(map(resident, family(process.pid))))
        time.sleep(0.1)
    if status:
        raise SystemExit(f"the job failed with status {status}")
    return {"seconds": time.perf_counter() - start, "cpu": used.ru_utime + used.ru_stime, "peak": peak}


def machine() -> str:
    names = [x.partition(":")[2].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x]
    load = os.getloadavg()[0]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda s: int(s.replace("_", "")), nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--methods", nargs="+", default=["gradient", "search"])
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", help="such as cuda, for parts that are worth its while")
    parser.add_argument("--out", type=Path, default=OUT, help="the CSV that lines are added to")
    args = parser.parse_args()
    table = grace.datasets.load("spam")
    explainer = grace.Explainer(grace.training.fit(table), table.split(0).train)
    fresh = not args.out.exists()
    with tempfile.TemporaryDirectory() as folder, args.out.open("a", newline="") as stream:
        here, writer = Path(folder), csv.DictWriter(stream, FIELDS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        explainer.save(str(here / "model"))
        for rows in args.rows:
            spam_like(explainer, rows, here / "rows.parquet")
            for method in args.methods:
                where = machine() if args.device == "cpu" else torch.cuda.get_device_name(args.device)
                how = ("", 0) if method == "learn" else (args.memory, args.workers)
                words = command(here / "model", here / "rows.parquet", method, *how, here / "out", args.device)
                found = measured(words)
                shutil.rmtree(here / "out", ignore_errors=True)
                line = {
                    "method": method,
                    "rows": rows,
                    "memory": how[0],
                    "workers": how[1],
                    "seconds": round(found["seconds"], 1),
                    "rows_per_second": round(rows / found["seconds"]),
                    "cpu_ms_per_row": round(1000 * found["cpu"] / rows, 3),
                    "peak_mb": round(found["peak"] / 1e6),
                    "machine": where,
                }
                writer.writerow(line)
                stream.flush()
                print(line, flush=True)


if __name__ == "__main__":
    main()
