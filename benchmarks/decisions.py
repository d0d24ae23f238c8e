"""The tables in docs/reasons.md: profiles, reasons and sufficient reasons of networks and of trees.

    python benchmarks/decisions.py [--data spam,diabetes] [--models network,XGBoost] [--rows 20] [--resume]
    python benchmarks/decisions.py --quick          three tables, four rows, a minute; writes nothing

Each table and model is a cell, which ends after --limit seconds with the rows done; its figures are written to
docs/decisions-figures.csv at once, and the page is made from all that are there. --resume leaves out cells that are
there already. Times are those of one core's own work, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from decisions_page import page
from tree_models import MODELS, table

import grace
from grace import datasets
from grace.experiments.task import network_of

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "decisions-figures.csv"
QUICK = ("diabetes", "cancer95", "phoneme")
KINDS = ("network", "XGBoost", "LightGBM")
TREE_DATA = ("diabetes", "cancer95", "phoneme", "magic", "spam", "german_credit")
SECONDS, LONG = 1.0, 10.0  # of work that reasons of a row may take
Line = dict[str, Any]


def subject_of(data: str, kind: str, rows: int) -> tuple[grace.Explainer, pd.DataFrame]:
    """The explainer of a model, and rows to ask about."""
    if kind != "network":
        subject = MODELS[kind](table(data))
        return subject.explainer(), subject.rows(rows)
    loaded = datasets.load(data)
    model, parts = network_of(loaded, 0, 0), loaded.split(0)
    return grace.Explainer(model, parts.train), model.impute(parts.test).head(rows)


def each(frame: pd.DataFrame, ask: Callable[[pd.DataFrame], Any], until: float) -> tuple[list[Any], np.ndarray]:
    """The results for rows one by one until some time, and the milliseconds of work of each."""
    found, took = [], []
    for i in range(len(frame)):
        if found and time.perf_counter() > until:
            break
        begun = time.process_time()
        found.append(ask(frame.iloc[[i]])[0])
        took.append(1e3 * (time.process_time() - begun))
    return found, np.array(took)


def quantiles(name: str, took: np.ndarray) -> Line:
    return {f"{name}_ms": float(np.median(took)), f"{name}_p90_ms": float(np.quantile(took, 0.9))}


def of_profiles(explainer: grace.Explainer, frame: pd.DataFrame, until: float) -> Line:
    found, took = each(frame, explainer.profile, until)
    begun = time.process_time()
    explainer.profile(frame)
    free = [f.verdict for p in found for f in p.features if f.verdict != "fixed"]
    return {
        **quantiles("profile", took),
        "profile_batch_ms": 1e3 * (time.process_time() - begun) / len(frame),
        "flip_alone": free.count("flips") / len(found),
        "cannot_alone": free.count("cannot") / len(found),
        "open_alone": (len(free) - free.count("flips") - free.count("cannot")) / len(found),
    }


def of_reasons(explainer: grace.Explainer, frame: pd.DataFrame, until: float) -> Line:
    found, took = each(frame, lambda row: explainer.reasons(row, 2, seconds=SECONDS), until)
    sizes = np.array([r.counts for r in found])
    return {
        "reasons_rows": len(found),
        "sets_1": float(sizes[:, 0].mean()),
        "sets_2": float(sizes[:, 1].mean()),
        "complete_2": float(np.mean([r.complete for r in found])),
        **quantiles("reasons", took),
    }


def of_triples(explainer: grace.Explainer, frame: pd.DataFrame, seconds: float, until: float) -> Line:
    found, _ = each(frame, lambda row: explainer.reasons(row, 3, seconds=seconds, shown=1), until)
    name = f"complete_3_{seconds:g}s"
    return {
        f"{name}_rows": len(found),
        name: float(np.mean([r.complete for r in found])),
        "sets_3": float(np.mean([r.counts[2] for r in found])),
    }


def of_sufficient(explainer: grace.Explainer, frame: pd.DataFrame, seconds: float, until: float, name: str) -> Line:
    found, took = each(frame, lambda row: explainer.because(row, seconds=seconds, smallest=name == "smallest"), until)
    return {
        f"{name}_rows": len(found),
        f"{name}_size": float(np.mean([len(r.features) for r in found])),
        f"{name}_minimal": float(np.mean([r.minimal for r in found])),
        f"{name}_undecided": float(np.mean([len(r.undecided) for r in found])),
        f"{name}_smallest": float(np.mean([r.smallest for r in found])),
        f"{name}_few": float(np.mean([r.minimal and len(r.features) <= 5 for r in found])),
        **quantiles(name, took),
    }


def measure(data: str, kind: str, rows: int, limit: float) -> Line:
    """One model of one table; each part ends after its share of the time."""
    torch.set_num_threads(1)
    explainer, frame = subject_of(data, kind, rows)
    for warm in (explainer.profile, explainer.reasons, explainer.because):
        warm(frame.head(1))
    line: Line = {"data": data, "model": kind, "rows": len(frame), "features": len(explainer.schema)}
    parts: list[tuple[float, Callable[[float], Line]]] = [
        (0.1, lambda until: of_profiles(explainer, frame, until)),
        (0.2, lambda until: of_reasons(explainer, frame, until)),
        (0.15, lambda until: of_triples(explainer, frame, SECONDS, until)),
        (0.2, lambda until: of_triples(explainer, frame, LONG, until)),
        (0.15, lambda until: of_sufficient(explainer, frame, SECONDS, until, "because")),
        (0.2, lambda until: of_sufficient(explainer, frame, LONG, until, "smallest")),
    ]
    for share, part in parts:
        line |= part(time.perf_counter() + share * limit)
    return line


def cells(data: list[str], kinds: list[str]) -> list[tuple[str, str]]:
    return [(d, k) for k in kinds for d in data if k == "network" or d in TREE_DATA]


def put(lines: pd.DataFrame, line: Line) -> pd.DataFrame:
    """Replace the line of a cell."""
    if len(lines):
        lines = lines[(lines.data != line["data"]) | (lines.model != line["model"])]
    return pd.concat([lines, pd.DataFrame([line])], ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join((*datasets.PAPER, "german_credit")))
    parser.add_argument("--models", default=",".join(KINDS))
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a cell")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--page", action="store_true", help="make the page from the figures that are there")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.data, args.models, args.rows, args.limit = ",".join(QUICK), "network", 4, 20.0
    lines = pd.read_csv(FIGURES) if FIGURES.exists() and not args.quick else pd.DataFrame()
    known = set(zip(lines.data, lines.model, strict=True)) if args.resume and len(lines) else set()
    for data, kind in [] if args.page else cells(args.data.split(","), args.models.split(",")):
        if (data, kind) in known:
            continue
        line = measure(data, kind, args.rows, args.limit)
        print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in line.items()}, flush=True)
        lines = put(lines, line)
        if not args.quick:
            lines.to_csv(FIGURES, index=False, float_format="%.4g")
    if not args.quick:
        (DOCS / "reasons.md").write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
