"""How fast: the tables in docs/speed.md, of ratios measured in one run on one machine.

    python benchmarks/speed.py [--rows 100000] [--peers] [--device cuda] [--only floor,growth] [--out docs]

The floor is what no method that takes steps can beat: bare forward and backward passes of the same network on the same
rows, times the steps taken. `--peers` asks NICE and DiCE too, in environments of their own (see docs/benchmark.md).
Each part writes its figures into a table beside the page, and the page is made from all that are there.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from single_row import verified
from speed_page import page
from torch import Tensor

import grace
from grace.explain.batching import rows_at_once
from grace.methods import METHODS
from grace.models import Network, TorchModel, relu
from grace.problem.settings import Settings

AUTHORS = 9.0  # milliseconds per row that the released code takes on a machine of this kind
SMALL = ("eegeye", "diabetes", "cancer95", "phoneme", "segment", "magic", "biodeg", "spam", "cancer92")
WIDE = ("mfeat", "musk")
WITH_DICE = ("spam", "diabetes")
WITHOUT_DICE = tuple(n for n in (*grace.datasets.PAPER, *grace.datasets.CATEGORICAL) if n not in WITH_DICE)
PARTS = ("floor", "tables", "one", "output", "growth", "peers")
ON_GPU = {
    "gradient": (100_000, 1_000_000, 4_000_000),
    "local": (100_000, 1_000_000),
    "search": (10_000, 100_000, 400_000),
}
Line = dict[str, Any]


def timed(work: Callable[[], object], repeats: int = 3) -> float:
    """The seconds that it takes when warm, the median of several times."""
    work()
    times = []
    for _ in range(repeats):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def explainer_of(name: str, device: str) -> tuple[grace.Explainer, pd.DataFrame]:
    table = grace.datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    return grace.Explainer(model, parts.train, device=device, among="nearest"), model.impute(parts.test)[
        table.schema.names
    ]


def alike(frame: pd.DataFrame, n: int) -> pd.DataFrame:
    """So many rows: those of a table, drawn with repetition and, if all cells are numbers, each moved by up to a
    tenth."""
    rng = np.random.default_rng(0)
    drawn = frame.iloc[rng.integers(len(frame), size=n)].reset_index(drop=True)
    if not all(map(pd.api.types.is_numeric_dtype, frame.dtypes)):
        return drawn
    return drawn * rng.uniform(0.9, 1.1, size=drawn.shape)


def problem_of(explainer: grace.Explainer, rows: pd.DataFrame, method: str) -> Any:
    settings = replace(explainer.settings, method=method)
    encoded = explainer.tensor(explainer.schema.encode(rows))
    return explainer._problem(encoded, None, explainer.schema, settings)


def solved(explainer: grace.Explainer, rows: pd.DataFrame, method: str) -> Callable[[], object]:
    """The method alone on all rows, in parts as `explain` has them."""
    problem = problem_of(explainer, rows, method)
    known = 0 if problem.background is None else len(problem.background.rows)
    step = rows_at_once(explainer.model, problem.space, known, replace(explainer.settings, method=method))
    parts = [problem.select(index) for index in torch.arange(len(problem), device=problem.rows.device).split(step)]
    return lambda: [METHODS[method].solve(part) for part in parts]


def floor(rows: int) -> Iterator[Line]:
    """Methods beside bare passes over the same rows, on rows like spam's."""
    explainer, test = explainer_of("spam", "cpu")
    frame = alike(test, rows)
    bare = bare_pass(explainer, frame.head(20_000))
    for method in ("gradient", "local", "search"):
        some = frame if method == "gradient" else frame.head(4_000)
        line = beside_floor(explainer, some, method, bare)
        yield {**line, "times_authors": AUTHORS * 1e3 / line["us"]}


def floor_on_gpu() -> Iterator[Line]:
    """The same on a GPU by kernels, and in plain operations."""
    explainer, test = explainer_of("spam", "cuda")
    bare = bare_pass(explainer, alike(test, 1_000_000))
    where = {"gpu": torch.cuda.get_device_name()}
    for method, sizes in ON_GPU.items():
        for rows in sizes:
            yield {**where, "how": "kernels", **beside_floor(explainer, alike(test, rows), method, bare)}
        with mock.patch.object(relu, "usable", return_value=False):
            yield {**where, "how": "plain", **beside_floor(explainer, alike(test, sizes[1]), method, bare)}


def bare_pass(explainer: grace.Explainer, frame: pd.DataFrame) -> float:
    """The seconds of a forward and backward pass, per row."""
    network = explainer.model.module
    x = explainer.tensor(explainer.schema.encode(frame)).requires_grad_(True)

    def passes() -> Tensor:
        (slope,) = torch.autograd.grad(network(x)[:, 0].sum(), x)
        return slope

    return timed(passes) / len(x)


def beside_floor(explainer: grace.Explainer, rows: pd.DataFrame, method: str, bare: float) -> Line:
    """A method on some rows: alone, from a frame to checked answers, and beside the bare passes of its steps."""
    work = solved(explainer, rows, method)
    spent = timed(work, 2) / len(rows)
    whole = timed(lambda: explainer.explain(rows, method=method), 1) / len(rows)
    steps = steps_of(work) / len(rows)
    return {
        "method": method,
        "rows": len(rows),
        "us": spent * 1e6,
        "explain_us": whole * 1e6,
        "steps": steps,
        "bare_us": bare * 1e6,
        "times_floor": spent / (steps * bare),
    }


def steps_of(work: Callable[[], object]) -> float:
    """How many rows the model's slopes are worked out for; counted in plain operations, as compiled code does not."""
    count, usual = 0.0, TorchModel.slopes

    def slopes(self: TorchModel, rows: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        nonlocal count
        count += len(rows)
        return usual(self, rows, *rest)

    def walks(*given: Any) -> tuple[Tensor, ...]:
        nonlocal count
        found = by_kernel(*given)
        count += float(found[2].sum())
        return found

    with ExitStack() as patched:
        patched.enter_context(mock.patch.object(TorchModel, "slopes", slopes))
        for module in (sys.modules["grace.methods.walk"], sys.modules["grace.methods.search"]):
            patched.enter_context(mock.patch.object(module, "is_compiled", return_value=False))
        if torch.cuda.is_available():
            from grace.methods import walk_triton

            by_kernel = walk_triton.walks
            patched.enter_context(mock.patch.object(walk_triton, "walks", walks))
        work()
    return count


def tables(device: str) -> Iterator[Line]:
    """The search on each of the paper's tables, in batches of 4,000 rows like the test rows."""
    for name in grace.datasets.PAPER:
        explainer, test = explainer_of(name, device)
        n = 4_000 if name in SMALL else 400
        problem = problem_of(explainer, test.iloc[np.arange(n) % len(test)], "search")
        spent = timed(lambda p=problem: METHODS["search"].solve(p), 2)
        yield {"data": name, "rows": n, "ms": spent / n * 1e3}


def one(device: str) -> Iterator[Line]:
    """A single row, warm, from a DataFrame to an answer; by the search also with a proof that no fewer changes do."""
    ways = {"gradient": {"method": "gradient"}, "search": {}, "search, with a proof": {"prove": True}}
    for name in ("spam", "diabetes", "adult"):
        explainer, test = explainer_of(name, device)
        rows = [test.iloc[[i]] for i in range(min(50, len(test)))]
        for method, asked in ways.items():
            explainer.explain(rows[0], **asked)
            times = []
            for row in rows:
                begun = time.perf_counter()
                explainer.explain(row, **asked)
                times.append(time.perf_counter() - begun)
            yield {"data": name, "method": method, "rows": len(rows), "median_ms": np.median(times) * 1e3}


def growth(device: str) -> Iterator[Line]:
    """What grows with what, on random networks: one thing changed at a time. So many rows at a time are solved as
    `explain` does within its usual memory; the peak is what that took, beside the rows."""
    usual = {"rows": 1000, "features": 50, "classes": 2, "width": 50, "depth": 2}
    ranges = {
        "rows": (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000),
        "features": (5, 50, 500, 5_000, 10_000),
        "classes": (2, 10, 100, 1_000),
        "width": (25, 50, 100, 200),
        "depth": (1, 2, 4, 8),
    }
    for what, values in ranges.items():
        for value in values:
            sizes = {**usual, what: value}
            if sizes["features"] * sizes["classes"] > 5_000:
                sizes["rows"] = 100
            explainer, frame = random_world(sizes, device)
            for method in ("gradient", "search"):
                n = min(sizes["rows"], 10_000) if method == "search" else sizes["rows"]
                settings = Settings(method=method, gamma=1.0)
                step = rows_at_once(explainer.model, explainer._space(explainer.schema), 0, settings)
                spent, peak = watched(partial(solve_within, explainer, frame.head(n), method, step))
                line = {"what": what, "value": value, "method": method, "rows": n}
                yield {**line, "ms": spent / n * 1e3, "mb": peak / 1e6}


def solve_within(explainer: grace.Explainer, frame: pd.DataFrame, method: str, step: int) -> None:
    for start in range(0, len(frame), step):
        METHODS[method].solve(problem_of(explainer, frame.iloc[start : start + step], method))


def watched(work: Callable[[], object]) -> tuple[float, float]:
    """The seconds that it takes when warm, and the most memory beyond what there was (NaN where Linux does not say)."""

    def status(key: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])

    seconds = timed(work, 1)
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed before must not hide what is taken now
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
        before = status("VmRSS")
        work()
        return seconds, status("VmHWM") - before
    except OSError:
        return seconds, float("nan")


def output() -> Iterator[Line]:
    """Answers a second as sentences, as a table and as JSON, once the model has been asked what they say."""
    for name in ("spam", "diabetes", "adult", "german_credit"):
        explainer, test = explainer_of(name, "cpu")
        rows = test.sample(4_000, replace=True, random_state=0, ignore_index=True)
        batch = explainer.explain(rows)
        ways = {"texts": batch.texts, "frame": batch.to_frame, "json": batch.to_json}
        yield {"data": name, "rows": len(rows), **{way: len(rows) / busy(write) for way, write in ways.items()}}


def busy(work: Callable[[], object], repeats: int = 5) -> float:
    """The processor seconds that it takes when warm, the least of several times."""
    times = []
    for _ in range(repeats + 1):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times[1:])


def random_world(sizes: dict[str, int], device: str) -> tuple[grace.Explainer, pd.DataFrame]:
    """A network with random weights and standard normal rows."""
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(sizes["features"])]
    frame = pd.DataFrame(rng.normal(size=(max(sizes["rows"], 200), len(names))).round(3), columns=names)
    schema = grace.Schema.infer(frame.head(1000))
    network = Network(schema, (sizes["width"],) * sizes["depth"], sizes["classes"])
    zero = torch.zeros(len(names))
    network.initialise(zero, zero + 1, torch.Generator().manual_seed(0))
    classes = [f"c{i}" for i in range(sizes["classes"])]
    model = TorchModel(network.double().eval(), classes, outputs="logits", schema=schema)
    return grace.Explainer(model, schema=schema, gamma=1.0, device=device), frame.head(sizes["rows"])


def peers() -> Iterator[Line]:
    """The search beside NICE, and on two tables DiCE, on the same rows of the same networks."""
    from grace.experiments import benchmark

    for names, others in ((WITH_DICE, ("nice-sparsity", "dice-random")), (WITHOUT_DICE, ("nice-sparsity",))):
        found = benchmark(names, own=("search",), peers=others, retrained=0)
        for name, part in found.frame().groupby("data", sort=False):
            explainer, test = explainer_of(str(name), "cpu")
            encoded = [explainer.tensor(row[None]) for row in explainer.schema.encode(test.head(100))]
            core = float(np.mean([timed(lambda e=explainer, x=x: verified(e, x), 1) for x in encoded])) * 1e3
            many = alike(test, 4_000 if name not in WIDE else 400)
            large = timed(lambda e=explainer, m=many: e.explain(m), 1) / len(many) * 1e3
            for _, line in part.iterrows():
                figures = {k: float(line[k]) for k in ("valid", "features", "distance", "ms", "batch_ms")}
                own = line.method == "search"
                figures["encoded_ms"] = core if own else figures["ms"]
                figures["large_ms"] = large if own else figures["batch_ms"]
                yield {"data": name, "method": line.method, **figures, "times": figures["large_ms"] / large}


def machine() -> str:
    """This machine, in words."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    load = os.getloadavg()[0]
    return f"{name}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, load {load:.1f} at the start."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows like spam's for the floor on a CPU")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = args.only.split(",") if args.only else [p for p in PARTS if p != "peers" or args.peers]
    if args.device == "cpu":
        (args.out / "speed-machine.txt").write_text(machine() + "\n", encoding="utf-8")
    work: dict[str, Callable[[], Iterator[Line]]] = {
        "floor": floor_on_gpu if args.device == "cuda" else lambda: floor(args.rows),
        "tables": lambda: tables(args.device),
        "one": lambda: one(args.device),
        "output": output,
        "growth": lambda: growth(args.device),
        "peers": peers,
    }
    for name in chosen:
        lines = []
        for line in work[name]():
            print(name, {k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}, flush=True)
            lines.append(line)
        file = "gpu" if name == "floor" and args.device == "cuda" else name
        pd.DataFrame(lines).to_csv(args.out / f"speed-{file}.csv", index=False, float_format="%.4g")
    (args.out / "speed.md").write_text(page(args.out), encoding="utf-8")


if __name__ == "__main__":
    main()
