"""The table in docs/realism.md: what it costs that a contrastive row looks like a row of its class.

python benchmarks/realism.py [--data diabetes,cancer95,...] [--rows 100] [--workers 2]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from per_table import main

import grace
from grace import datasets

SHARES = (0.0, 0.05, 0.1, 0.25)


def run(name: str, rows: int) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    table = datasets.load(name)
    parts = table.split(0)
    model = grace.training.fit(table, seed=0)
    explainer = grace.Explainer(model, parts.train)
    frame = model.impute(parts.test).head(rows)
    lines = []
    for share in SHARES:
        batch = explainer.explain(frame, plausible=share)
        m = batch.metrics()
        figures = {"fidelity": m.fidelity, "features": m.features, "distance": m.distance}
        lines.append({"data": name, "plausible": share, **figures, "typical": float(np.nanmean(batch.plausibility()))})
    return lines


def write(results: pd.DataFrame, out: Path) -> None:
    lines = ["| data | plausible | fidelity | features | distance | typical |", "|---|---:|---:|---:|---:|---:|"]
    for _, r in results.iterrows():
        asked = "–" if r.plausible == 0 else f"{r.plausible:g}"
        lines.append(
            f"| {r.data} | {asked} | {r.fidelity:.2f} | {r.features:.2f} | {r.distance:.2f} | {r.typical:.2f} |"
        )
    text = f"""# Rows that look like rows

`batch.plausibility()` says how typical each contrastive row is of its new class: the share of that class's training
rows that lie farther out (Mahalanobis distance with a shrunk covariance, per class that the model predicts; 0.5 is a
row in the middle of its class, 0 lies beyond all). `explain(rows, plausible=0.1)` asks for answers at least as typical
as the tenth percentile; it goes with `robust`, `against` and all limits.

Made by `python benchmarks/realism.py`: 1–99 % ranges, K = 5, γ = 0.5, up to 100 test rows. *Typical* is the mean
plausibility of the answers, *distance* is in spreads.

{chr(10).join(lines)}
"""
    (out / "realism.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(__doc__, "diabetes,cancer95,phoneme,magic,biodeg,german_credit", run, write)
