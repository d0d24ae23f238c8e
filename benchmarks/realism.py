"""The tables in docs/realism.md: what it costs that a contrastive row looks like a row.

python benchmarks/realism.py [--data diabetes,cancer95,...] [--rows 100] [--workers 2]
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from per_table import main

import grace
from grace import datasets
from grace.schema.rules.keeping import broken_rules

SHARES = (0.0, 0.05, 0.1, 0.25)
TYPICAL = ("diabetes", "cancer95", "phoneme", "magic", "biodeg", "german_credit")
RULES = {
    "spam": [
        "capital_run_length_average <= capital_run_length_longest",
        "capital_run_length_longest <= capital_run_length_total",
    ],
    "cancer92": [
        f"mean_{part} <= worst_{part}"
        for part in ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity")
    ],
    "segment": [
        "rawred_mean = intensity_mean + exred_mean / 3",
        "rawgreen_mean = intensity_mean + exgreen_mean / 3",
        "rawblue_mean = intensity_mean + exblue_mean / 3",
        "exgreen_mean = -exred_mean - exblue_mean",
    ],
    "magic": ["fConc1 <= fConc", "fWidth <= fLength"],
    "biodeg": [
        "if `F02[C-N]` != 0 then nN != 0",
        "if `F03[C-N]` != 0 then nN != 0",
        "if `F04[C-N]` != 0 then nN != 0",
        "if `F03[C-O]` != 0 then nO != 0",
        "if SdO != 0 then nO != 0",
        "if `nCb-` != 0 then nCIR != 0",
    ],
    "adult": [
        "education_num follows education",
        "if relationship == 'Husband' then marital_status in ('Married-civ-spouse', 'Married-AF-spouse')",
        "if marital_status == 'Never-married' then relationship != 'Wife' and relationship != 'Husband'",
        "if capital_gain > 0 then capital_loss == 0",
    ],
}


def run(name: str, rows: int) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    table = datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, parts.train, rules=RULES.get(name, ()), among="nearest")
    frame = model.impute(parts.test).head(rows)
    lines = []
    for share in SHARES if name in TYPICAL else ():
        batch = explainer.explain(frame, plausible=share, rules=())
        lines.append({"asked": f"{share:g}", "typical": float(np.nanmean(batch.plausibility())), **figures(batch)})
    if name in RULES:
        asked: dict[str, dict[str, Any]] = {"nothing": {"rules": ()}, "rules": {}}
        asked |= {"follow": {"rules": (), "follow": True}, "both": {"follow": True}}
        for word, settings in asked.items():
            begun = time.perf_counter()
            batch = explainer.explain(frame, **settings)
            seconds = time.perf_counter() - begun
            before, after = (
                broken_rules(explainer.schema, rows) for rows in (batch.answers.rows, batch.answers.contrast)
            )
            wrong = after & ~before
            more = {"breaks": float(wrong.any(axis=1)[batch.success].mean()), "ms": 1000 * seconds / len(frame)}
            along = float(batch.followed.sum(axis=1)[batch.success].mean())
            lines.append({"asked": word, "along": along, **more, **figures(batch)})
    return [{"data": name, **line} for line in lines]


def figures(batch: grace.Explanations) -> dict[str, float]:
    m = batch.metrics()
    return {"fidelity": m.fidelity, "features": m.features, "distance": m.distance}


def write(results: pd.DataFrame, out: Path) -> None:
    typical = ["| data | plausible | fidelity | features | distance | typical |", "|---|---:|---:|---:|---:|---:|"]
    ruled = [
        "| data | asked for | fidelity | features | distance | moving along | break a rule | ms a row |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for _, r in results.iterrows():
        same = f"{r.fidelity:.2f} | {r.features:.2f} | {r.distance:.2f}"
        if "typical" in r and not np.isnan(r.typical):
            typical.append(f"| {r.data} | {'–' if r.asked == '0' else r.asked} | {same} | {r.typical:.2f} |")
        else:
            ruled.append(f"| {r.data} | {r.asked} | {same} | {r.along:.2f} | {r.breaks:.0%} | {r.ms:.0f} |")
    breaks = results.pivot_table(index="data", columns="asked", values="breaks", sort=False)
    more = breaks[breaks["follow"] > breaks["nothing"]] if "follow" in breaks else breaks.head(0)
    raised = ", ".join(f"{name} {r.nothing:.0%} → {r.follow:.0%}" for name, r in more.iterrows()) or "none here"
    text = f"""# Rows that look like rows

What it costs that contrastive rows are realistic, in three ways that go together. Made by
`python benchmarks/realism.py`: 1–99 % ranges, K = 5, γ = 0.5, up to 100 test rows; *distance* is in spreads.

## Typical of their class

`batch.plausibility()` says how typical each contrastive row is of its new class: the share of that class's training
rows that lie farther out (Mahalanobis distance with a shrunk covariance, per class that the model predicts; 0.5 is a
row in the middle of its class, 0 lies beyond all). `explain(rows, plausible=0.1)` asks for answers at least as typical
as the tenth percentile; it goes with `robust`, `against` and all limits. *Typical* is the mean plausibility of the
answers.

{chr(10).join(typical)}

## Rules kept, and features that follow

[Rules](rules.md) between features that hold in the whole table (those in `benchmarks/realism.py`, chosen among the ones
that `grace.rules.suggest` finds) and `follow=True`, by which numbers that the others explain well (R² of at least 0.5
on rows that were not fitted) move along. *Features* and *distance* are those of the intervention, *moving along* counts
the features that follow, *break a rule* is the share of answers that break a rule which their row kept. Times are those
of one run on a shared machine with two cores, and say no more than the order of magnitude.

`follow` goes by association: it moves a feature as far as training rows with such values lie apart, which need not be
what would happen if somebody changed the others. Nor does it know any rules. Used without them, it raises the share of
answers that break one on some tables ({raised}). Give the rules that you know as well: then none is broken.

{chr(10).join(ruled)}
"""
    (out / "realism.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(__doc__, ",".join(dict.fromkeys((*TYPICAL, *RULES))), run, write)
