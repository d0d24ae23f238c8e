"""The tables and the figure in docs/trees.md: tree ensembles read as trees, searched exactly, with proofs.

    python benchmarks/trees.py [--data spam,adult] [--models XGBoost,forest] [--rows 50,mfeat=20] [--peers] [--resume]
    python benchmarks/trees.py --only growth

Parts: models (answers, proofs and times, beside the same models as black boxes), pipeline, rules, growth, and with
--peers NICE, DiCE and treecf, in environments of their own (see docs/benchmark.md), on all tables and --peer-models:
--only peers takes about half an hour. Each cell is measured in a process that is ended after --limit seconds; its
figures are written to a table beside the page at once, and the page is made from all that are there. --resume goes on
with a run that was interrupted: it leaves out cells that are there already, and keeps the command and the machine that
the page names.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from minimal import limits as rows_of
from speed import machine
from tree_models import DATA, LARGE, MODELS, cells, ruled_cells
from trees_measure import Limits, Line, growth_cell, growth_cells, model_cell, pipeline_cell, rules_cell
from trees_page import page
from trees_peers import peer_cell

ROWS = "50,mfeat=20,adult=30"
PEER_MODELS = ",".join(name for name in MODELS if name != LARGE)
PIPELINES = ("german_credit", "adult")
PARTS = ("models", "pipeline", "rules", "growth", "peers")
KEYS = {"models": ["data", "model"], "pipeline": ["data"], "rules": ["data", "model"], "growth": ["grows", "value"]}
KEYS["peers"] = ["data", "model"]
Job = tuple[Any, ...]
Work = Callable[..., list[Line]]


class Figures:
    """The lines of a part in a file, which is written after each cell."""

    def __init__(self, path: Path, keys: list[str]) -> None:
        self.path, self.keys, self.lock = path, keys, threading.Lock()
        self.lines = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=keys)

    def has(self, job: Job) -> bool:
        return bool(self._are(job).any())

    def _are(self, job: Job) -> pd.Series:
        same = pd.Series(True, index=self.lines.index)
        for key, value in zip(self.keys, job, strict=True):
            same &= self.lines[key] == value
        return same

    def put(self, job: Job, lines: list[Line]) -> None:
        """Replace the lines of a cell."""
        with self.lock:
            rest = self.lines[~self._are(job)]
            new = pd.DataFrame(lines)
            self.lines = pd.concat([rest, new], ignore_index=True) if len(rest) else new
            self.lines.to_csv(self.path, index=False, float_format="%.5g")
        for line in lines:
            shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()}
            print(self.path.stem, shown, flush=True)


def serve(connection: Any, work: Work, jobs: list[Job]) -> None:
    """Send the lines of one job after another."""
    for job in jobs:
        try:
            connection.send(work(*job))
        except Exception as reason:
            connection.send(f"{type(reason).__name__}: {reason}")


def measured(work: Work, jobs: Iterable[Job], limit: float, put: Callable[[Job, list[Line] | str], None]) -> None:
    """The lines of all jobs, from a process that is replaced when a job takes longer than so many seconds."""
    context, todo = multiprocessing.get_context("spawn"), list(jobs)
    while todo:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=serve, args=(there, work, todo))
        process.start()
        there.close()
        try:
            lost = False
            while todo and not lost:
                found: list[Line] | str = f"longer than {limit:g} s"
                lost = True
                if here.poll(limit):
                    try:
                        found, lost = here.recv(), False
                    except EOFError:
                        found = "the process ended"
                put(todo.pop(0), found)
        finally:
            process.kill()
            process.join()


def run(part: str, jobs: list[Job], args: argparse.Namespace) -> None:
    """Measure the cells of a part; those of a table one after another."""
    most = rows_of(args.rows)
    figures = Figures(args.out / f"trees-{part}.csv", KEYS[part])
    todo = [job for job in jobs if not (args.resume and figures.has(job))]
    done: list[Job] = []
    begun = time.perf_counter()
    work: dict[str, Work] = {
        "models": model_cell,
        "pipeline": pipeline_cell,
        "rules": rules_cell,
        "growth": growth_cell,
        "peers": peer_cell,
    }

    def put(job: Job, found: list[Line] | str) -> None:
        head = dict(zip(KEYS[part], job, strict=True))
        figures.put(job, [{**head, "failed": found}] if isinstance(found, str) else found)
        done.append(job)
        print(f"{part}: {len(done)} of {len(todo)} cells, {time.perf_counter() - begun:.0f} s", flush=True)

    def group(data: str, mine: list[Job]) -> None:
        few, peers = (min(most(data), n) for n in (args.few_rows, args.peer_rows))
        limits = Limits(most(data), few, args.budget, args.stage, peers, args.peer_limit, args.peer_cell)
        measured(partial(work[part], limits), mine, args.limit, put)

    with ThreadPoolExecutor(args.workers) as pool:
        groups = [(str(name), list(mine)) for name, mine in groupby(todo, key=lambda job: job[0])]
        for group_done in [pool.submit(group, *each) for each in groups]:
            group_done.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rows", default=ROWS, help="most rows, and exceptions")
    parser.add_argument("--few-rows", type=int, default=8, help="rows for the black box")
    parser.add_argument("--peer-rows", type=int, default=4, help="rows for the peers")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of a proof")
    parser.add_argument("--stage", type=float, default=12.0, help="seconds of a stage of a cell")
    parser.add_argument("--peer-limit", type=float, default=2.5, help="seconds a peer may take for a row")
    parser.add_argument(
        "--peer-cell", type=float, default=10.0, help="seconds until a peer that was stopped is not restarted"
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a cell, training included")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--peer-models", default=PEER_MODELS, help="models that the peers are asked about")
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--resume", action="store_true", help="leave out cells that are there already")
    parser.add_argument("--workers", type=int, default=1, help="cells at a time; times are comparable with one only")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data, models = args.data.split(","), args.models.split(",")
    chosen = args.only.split(",") if args.only else [p for p in PARTS if p != "peers" or args.peers]
    jobs: dict[str, list[Job]] = {
        "models": cells(data, models),
        "pipeline": [(name,) for name in PIPELINES if name in data],
        "rules": ruled_cells(data, models),
        "growth": growth_cells(),
        "peers": cells(data, [m for m in args.peer_models.split(",") if m in models]),
    }
    about = args.out / "trees-machine.txt"
    if not (args.resume and about.exists()):
        given = shlex.join(["python", *sys.argv])
        about.write_text(f"{given}\n{machine()}\n", encoding="utf-8")
    for part in chosen:
        run(part, jobs[part], args)
    page(args.out)


if __name__ == "__main__":
    main()
