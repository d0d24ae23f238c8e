"""Time against leaves and rows: the last section of docs/trees.md and its figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from speed_page import number
from trees_measure import GROWTH_DATA, USUAL

PANELS = {
    "trees": ("leaves", f"leaves: 25 to 800 trees of depth {USUAL['depth']}"),
    "depth": ("leaves", f"leaves: {USUAL['trees']} trees of depth 2 to 12"),
    "rows": ("rows", "rows of a batch"),
}


def exponent(part: pd.DataFrame, against: str) -> float:
    """The slope of the logarithms: 1 is linear growth."""
    if len(part) < 2:
        return float("nan")
    return float(np.polyfit(np.log(part[against]), np.log(part["seconds"]), 1)[0])


def growth_section(lines: pd.DataFrame, out: Path) -> str:
    picture(lines, out / "pictures" / "trees-growth.svg")
    rows = [
        f"| {r.grows} | {r.value:,} | {r.leaves:,.0f} | {r.rows:,.0f} | {number(r.seconds / r.rows * 1e3)} "
        f"| {number(r.alone_ms)} | {number(r.seconds / r.rows / r.leaves * 1e9)} |"
        for r in lines.itertuples()
    ]
    said = [
        f"{exponent(lines[lines.grows == what], against):.2f} in {words}"
        for what, (against, words) in PANELS.items()
        if (lines.grows == what).sum() > 1
    ]
    return f"""## Growth

XGBoost on {GROWTH_DATA}, without proofs: {USUAL["trees"]} trees of depth {USUAL["depth"]} and {USUAL["rows"]} rows in a
batch, and one of these changed at a time. An exponent of 1, the slope in the figure, is linear growth: here
{"; ".join(said) or "not measured"}. The dashed line is linear.

![Time against leaves and rows](pictures/trees-growth.svg)

| grows | to | leaves | rows | ms a row | alone ms | ns a row and leaf |
|---|---:|---:|---:|---:|---:|---:|
{chr(10).join(rows)}
"""


def picture(lines: pd.DataFrame, path: Path) -> None:
    """The time of a batch against leaves and rows, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "grace", "font.size": 9, "svg.fonttype": "none"}):
        figure, axes = plt.subplots(1, len(PANELS), figsize=(9, 3), layout="constrained")
        for axis, (what, (against, words)) in zip(axes, PANELS.items(), strict=True):
            part = lines[lines.grows == what].sort_values(against)
            axis.set(xscale="log", yscale="log", xlabel=words)
            for scale in (axis.xaxis, axis.yaxis):
                scale.set_minor_formatter(NullFormatter())  # labels between powers of ten would overlap
            if len(part):
                x, y = part[against].to_numpy(float), part["seconds"].to_numpy(float)
                middle = np.exp(np.log(y).mean() - np.log(x).mean())
                axis.plot(x, middle * x, "--", color="0.6", linewidth=1)
                axis.plot(x, y, "o-", color="#1f6f8b", markersize=4)
                axis.set_title(f"exponent {exponent(part, against):.2f}", fontsize=9)
        axes[0].set_ylabel("seconds of a batch")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
