"""The table in docs/ranges.md: what it costs, and brings, that rare values and categories are not chosen.

python benchmarks/ranges.py [--data diabetes,adult,...] [--rows 100] [--workers 2]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from per_table import main

import grace
from grace import datasets
from grace.experiments.evaluate import Judge
from grace.experiments.task import Answers, network_of, prepare
from grace.schema.features import Categorical, Feature

FEW = 20  # different values of a whole number that was given its whole range
RETRAINED = 3


def opened(feature: Feature, values: pd.Series) -> Feature:
    """The feature with every value of whole numbers that have few, and every category, open."""
    if isinstance(feature, Categorical):
        return replace(feature, always=tuple(c for c in feature.categories if c not in feature.never))
    seen = values.dropna()
    if feature.integer and seen.nunique() <= FEW:
        return replace(feature, low=float(seen.min()), high=float(seen.max()))
    return feature


def run(name: str, rows: int) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    table = datasets.load(name)
    train = table.split(0).train
    task = prepare(table, rows=rows)
    judge = Judge(task, [network_of(table, 0, 1 + k) for k in range(RETRAINED)])
    frame = task.schema.decode(task.rows)
    wide = replace(task.schema, features=tuple(opened(f, train[f.name]) for f in task.schema.features))
    lines = []
    for said, schema in (("all of few", wide), ("middle 98 %", task.schema)):
        batch = grace.Explainer(task.model, task.model.impute(train), schema=schema, among="nearest").explain(frame)
        found = np.where(batch.success[:, None], batch.answers.contrast, np.nan)
        judged = judge.verdict(Answers(found)).figures()
        figures = {k: judged[k] for k in ("valid", "features", "distance", "plausibility", "percentile", "kept_class")}
        lines.append({"data": name, "ranges": said, "rows": len(frame), **figures})
    return lines


def write(results: pd.DataFrame, out: Path) -> None:
    table = [
        "| data | ranges | fidelity | features | distance | to its neighbours | percentile | class kept |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for _, r in results.iterrows():
        same = f"{r.valid:.2f} | {r.features:.2f} | {r.distance:.2f} | {r.plausibility:.2f} | {r.percentile:.2f}"
        table.append(f"| {r.data} | {r.ranges} | {same} | {r.kept_class:.2f} |")
    text = f"""# Rare values are not chosen

`domain="central"`, the default, lets a change go to the middle 98 % of the training values. That holds for every
column: for whole numbers with few values (a count whose 99 % quantile is 2 does not go to 8), and for categories, of
which the rarest that together make up at most 1 % of the rows are not chosen. At least two categories stay, and a range
of a single value extends to the commonest other one. Another domain cuts off another share; `domain="minmax"` allows
all that was seen. An expert's `low` and `high`, `never` and `always`, and the `ranges` of a call win.

What it costs, and what it brings, beside ranges that leave whole numbers with at most {FEW} values, and categories, as
they are. Made by `python benchmarks/ranges.py`: the search, K = 5, γ = 0.5, up to 100 test rows. *Fidelity* is the
share of rows with an answer, *distance* is in spreads (1 for a category). *To its neighbours* is the mean distance to
the five nearest training rows of the new class, *percentile* the share of that class's training rows that lie nearer to
their own; lower is more plausible. *Class kept* is the share of {RETRAINED} networks trained anew that agree.

{chr(10).join(table)}
"""
    (out / "ranges.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(__doc__, ",".join((*datasets.PAPER, "adult", "german_credit")), run, write)
