"""How fast the answers of a batch are written as a frame, as sentences and as JSON.

    python benchmarks/output.py                   10,000 rows of spam, half a minute
    python benchmarks/output.py --rows 2_000

The rows are those of spam, drawn again and jittered. What the model is called for (the ranges in which answers stay the
same, and why there is none) is computed first and timed apart.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import grace


def spam_like(explainer: grace.Explainer, rows: int) -> pd.DataFrame:
    """Training rows drawn again, each cell up to a tenth larger or smaller."""
    rng = np.random.default_rng(0)
    known, features = explainer.background_rows, explainer.schema.features
    cells = known[rng.integers(0, len(known), rows)] * rng.uniform(0.9, 1.1, (rows, len(features)))
    return pd.DataFrame({f.name: cells[:, j].round(0 if f.integer else 3) for j, f in enumerate(features)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda s: int(s.replace("_", "")), default=10_000)
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of so many times counts")
    args = parser.parse_args()
    table = grace.datasets.load("spam")
    explainer = grace.Explainer(grace.training.fit(table), table.split(0).train)
    batch = explainer.explain(spam_like(explainer, args.rows), method="gradient")
    print(f"{args.rows:,} rows, {batch.success.mean():.1%} explained, load {os.getloadavg()[0]:.1f}")

    def timed(name: str, write: Callable[[], object], repeat: int) -> None:
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            write()
            seconds.append(time.perf_counter() - start)
        print(f"{name:12} {args.rows / min(seconds):10,.0f} answers a second", flush=True)

    timed("model calls", lambda: [e.computed() for e in batch], 1)
    timed("indexing", lambda: list(batch), args.repeat)
    timed("text", lambda: [e.text() for e in batch], args.repeat)
    timed("texts", batch.texts, args.repeat)
    timed("to_frame", batch.to_frame, args.repeat)
    timed("to_json", batch.to_json, args.repeat)


if __name__ == "__main__":
    main()
