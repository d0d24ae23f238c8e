"""The tables in docs/mixed.md: any model, any column, any task, beside DiCE and NICE and a search of a whole grid.

    python benchmarks/mixed.py [--rows 100] [--time-limit 10] [--out docs]

Every model is asked about the same rows by everybody. Answers are kept in --keep, so that a run goes on where it
stopped. The peers' environments are made on first use (see docs/benchmark.md).
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread for everybody

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from exhaustive import NONE, fewest
from per_table import Line
from sklearn.cluster import KMeans
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import grace
from grace.experiments import Task, compare, task_of
from grace.experiments.evaluate import Verdict
from grace.experiments.task import prepare

PEERS = ("dice-random", "nice-sparsity")
SHOWN = ("valid", "in_domain", "features", "distance", "ms")
HIGH = 250_000  # dollars that a house of a district should have been worth at least
Make = Callable[..., Task]


def filled(name: str) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """The target, and training and test rows with missing cells as a category of their own."""
    table = grace.datasets.load(name)
    parts = table.split(0)
    known = grace.training.fit(table, seed=0, max_epochs=1)
    return table.target, known.impute(parts.train), known.impute(parts.test)


def network(name: str) -> Make:
    def make(most: int, **limits: Any) -> Task:
        return replace(prepare(grace.datasets.load(name), rows=most, **limits), name=f"{name}, network")

    return make


def boosted(name: str) -> Make:
    """Trees that take categories as they are."""

    def make(**limits: Any) -> Task:
        target, train, test = filled(name)
        words = [c for c in train.columns if c != target and not pd.api.types.is_numeric_dtype(train[c])]
        kinds = {c: pd.CategoricalDtype(sorted(train[c].unique())) for c in words}
        train, test = train.astype(kinds), test.astype(kinds)
        model = HistGradientBoostingClassifier(max_iter=100, categorical_features="from_dtype", random_state=0)
        model.fit(train.drop(columns=target), train[target])
        return task_of(f"{name}, boosted trees", model, train, test, target=target, **limits)

    return make


def pipeline(name: str) -> Make:
    """Preprocessing inside, labels as text."""

    def make(**limits: Any) -> Task:
        target, train, test = filled(name)
        words = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
        encode = make_column_transformer(words, (StandardScaler(), make_column_selector(dtype_include="number")))
        forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0, n_jobs=1)
        model = make_pipeline(encode, forest).fit(train.drop(columns=target), train[target])
        return task_of(f"{name}, pipeline", model, train, test, target=target, **limits)

    return make


def number(kind: str) -> Make:
    def make(**limits: Any) -> Task:
        table = grace.datasets.load("california_housing")
        parts = table.split(0)
        train, test = (part.drop(columns=table.target) for part in (parts.train, parts.test))
        model: Any = grace.training.fit(table, seed=0)
        if kind != "network":
            model = HistGradientBoostingRegressor(random_state=0).fit(train, parts.train[table.target])
        return task_of(f"california_housing, {kind}", model, train, test, against=grace.above(HIGH), **limits)

    return make


def clusters(name: str, what: str, model: Any) -> Make:
    def make(**limits: Any) -> Task:
        table = grace.datasets.load(name)
        parts = table.split(0)
        train, test = (part.drop(columns=table.target) for part in (parts.train, parts.test))
        return task_of(f"{name}, {what}", make_pipeline(StandardScaler(), model).fit(train), train, test, **limits)

    return make


SUBJECTS: dict[str, Make] = {
    "adult-network": network("adult"),
    "adult-boosted": boosted("adult"),
    "adult-pipeline": pipeline("adult"),
    "german_credit-network": network("german_credit"),
    "german_credit-boosted": boosted("german_credit"),
    "german_credit-pipeline": pipeline("german_credit"),
    "california-network": number("network"),
    "california-boosted": number("boosted trees"),
    "segment-kmeans": clusters("segment", "7 clusters (k-means)", KMeans(7, n_init=3, random_state=0)),
    "diabetes-mixture": clusters("diabetes", "4 clusters (mixture)", GaussianMixture(4, random_state=0)),
}


def beside_exhaustive(task: Task, own: Verdict) -> Line:
    """The search beside all single changes and pairs of a grid."""
    found = fewest(task)
    ours = np.where(own.valid, own.features, NONE)
    some = found < NONE
    as_few = float((ours <= found)[some].mean()) if some.any() else float("nan")
    more = " ".join(map(str, np.flatnonzero(some & (ours > found))))
    return {"single": int((found == 1).sum()), "pair": int((found == 2).sum()), "as_few": as_few, "more": more}


def run(name: str, args: argparse.Namespace) -> tuple[pd.DataFrame, Line]:
    """The figures of every method on one model, and the search beside the exhaustive one."""
    task = SUBJECTS[name](most=args.rows, time_limit=args.time_limit)
    results = compare([task], own=("search",), peers=PEERS, out=args.keep, tell=lambda said: print(said, flush=True))
    own = results.lines[0].verdict
    assert own is not None
    return results.frame(), {"data": task.name, "rows": len(task.rows), **beside_exhaustive(task, own)}


def write(results: pd.DataFrame, checked: pd.DataFrame, out: Path) -> None:
    results["fidelity"] = results.valid * results.within_k.fillna(0)
    kept = ["data", "method", "rows", "fidelity", *SHOWN, "batch_ms", "note", "failed"]
    results[kept].to_csv(out / "mixed.csv", index=False, float_format="%.6g")
    checked.to_csv(out / "exhaustive.csv", index=False, float_format="%.6g")
    text = (out / "mixed.md").read_text(encoding="utf-8")
    for part, lines in (("peers", peers_table(results)), ("exhaustive", exhaustive_table(checked))):
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{lines}\n{end}{rest.split(end)[1]}"
    (out / "mixed.md").write_text(text, encoding="utf-8")


def peers_table(results: pd.DataFrame) -> str:
    heads = ["model", "method", "rows", "fidelity", *(h.replace("_", " ") for h in SHOWN), "batch ms"]
    lines = [f"| {' | '.join(heads)} |", "|---|---" + "|---:" * (len(heads) - 2) + "|"]
    for _, r in results.iterrows():
        if r.failed:
            lines.append(f"| {r.data} | {r.method} | | cannot: {r.failed.split(': ')[-1]} |" + " |" * (len(heads) - 4))
            continue
        cells = [f"{r[c]:.2f}" for c in ("fidelity", *SHOWN[:-1])] + [f"{r.ms:.1f}", f"{r.batch_ms:.1f}"]
        lines.append(f"| {r.data} | {r.method} | {r.rows} | {' | '.join(cells)} |")
    return "\n".join(lines)


def exhaustive_table(checked: pd.DataFrame) -> str:
    lines = [
        "| model | rows | a single change does | a pair does | the search needs no more |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [f"| {r.data} | {r.rows} | {r.single} | {r.pair} | {r.as_few:.3f} |" for _, r in checked.iterrows()]
    known = checked.single + checked.pair
    share = float((checked.as_few * known).sum() / known.sum())
    lines.append(
        f"| **all** | {checked.rows.sum()} | {checked.single.sum()} | {checked.pair.sum()} | **{share:.3f}** |"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--time-limit", type=float, default=10.0, help="Seconds a peer may take for a row.")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--keep", type=Path, default=Path("results/mixed"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = [run(name, args) for name in SUBJECTS]
    write(pd.concat([frame for frame, _ in found]), pd.DataFrame([line for _, line in found]), args.out)


if __name__ == "__main__":
    main()
