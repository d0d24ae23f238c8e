"""Writes docs/steady.md from the lines of benchmarks/steady.py."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

WAYS = ("nearest", "steady", "nearest, middle", "steady, middle", "widest span")
NOISE = ("noise 1% changed", "noise 1% all", "noise 5% changed", "noise 5% all")
MEASURES = ("kept", *NOISE, "ratio", "features")


def write(results: pd.DataFrame, out: Path) -> None:
    """The page."""
    (out / "steady.md").write_text(page(results), encoding="utf-8")


def page(results: pd.DataFrame) -> str:
    parts = results.groupby(["model", "changes", "answers"], sort=False)
    means = {key: part[list(MEASURES)].mean() for key, part in parts}
    counts = results[results.answers == "nearest"].groupby("model").agg(data=("data", "nunique"), rows=("rows", "sum"))
    tables = "; ".join(f"{model} {c.rows} rows of {c.data} tables" for model, c in counts.iterrows())
    return f"""# Answers that last: nearest, steady, and in the middle of their room

The nearest answer stands at the boundary of the model, or on a spike: a little further, and the class is another one
again. `among="steady"` takes, of answers with equally few features, the nearest that is no spike, a tenth of its span
inside. Every answer has a `region`, too, the box around it in which the class holds, and may be moved to its middle.

Made by `python benchmarks/steady.py`, which goes on with the tables that are not there yet: {tables}. Models are
fitted to at most 2,000 training rows, each with four others.

## Means over tables

{means_table(means)}

*Kept*: the share of models, fitted anew to samples of the training rows with replacement, that say the new class.
*Noise*: the share of draws of normal noise of 1 % and of 5 % of a spread, on the changed numbers or on all numbers of
the answer, after which the model still says it; whole numbers stay whole. *Distance*: that of the answer beside that of
the nearest one, the geometric mean. *Middle*: each changed number in the middle of its interval of the region. *Widest
span*: of single changes, the middle of the widest span of any number of the row; other answers are left as they are.

{verdict(results, means)}

## By table

{by_table(results)}

The distance is that of the steady answer beside that of the nearest. Milliseconds are for a row of a batch, in time of
one core, the least of three (`--times`): they compare columns, and are no measure of speed. All figures are in
`steady.csv`.
"""


def means_table(means: dict[tuple[str, str, str], pd.Series]) -> str:
    head = (
        "| model | changes | answers | kept | noise 1 % changed | all | noise 5 % changed | all | distance | features |"
    )
    lines = [head, "|---|---|---|" + "---:|" * len(MEASURES)]
    for model in dict.fromkeys(key[0] for key in means):
        for changes in ("single", "several"):
            for way in WAYS:
                if (model, changes, way) in means and not (changes == "several" and way == "widest span"):
                    cells = " | ".join(f"{means[model, changes, way][m]:.2f}" for m in MEASURES)
                    lines.append(f"| {model} | {changes} | {way} | {cells} |")
    return "\n".join(lines)


def by_table(results: pd.DataFrame) -> str:
    lines = [
        "| model | data | changes | rows | kept: nearest | steady | middle | noise 5 %: nearest | steady | middle | "
        "distance | ms: nearest | steady |",
        "|---|---|---|" + "---:|" * 10,
    ]
    for (model, data, changes), part in results.groupby(["model", "data", "changes"], sort=False):
        by = part.set_index("answers")
        ways = ("nearest", "steady", "steady, middle")
        kept, noise = (" | ".join(f"{by.loc[way, m]:.2f}" for way in ways) for m in ("kept", "noise 5% all"))
        took = " | ".join(f"{by.loc[way, 'ms']:.1f}" for way in ("nearest", "steady"))
        lines.append(
            f"| {model} | {data} | {changes} | {by.rows.iloc[0]} | {kept} | {noise} | "
            f"{by.loc['steady', 'ratio']:.2f} | {took} |"
        )
    return "\n".join(lines)


def verdict(results: pd.DataFrame, means: dict[tuple[str, str, str], pd.Series]) -> str:
    """What the table says about the default."""
    pairs = results.pivot_table(index=["model", "data", "changes"], columns="answers", values="kept", sort=False)
    better, worse = (pairs["steady"] > pairs["nearest"]).sum(), (pairs["steady"] < pairs["nearest"]).sum()
    ranges = {}
    for name in ("kept", "noise 5% all", "ratio"):
        for way in ("nearest", "steady", "steady, middle"):
            values = [m[name] for key, m in means.items() if key[2] == way]
            ranges[name, way] = f"{min(values):.2f}–{max(values):.2f}"
    took = results[results.answers.isin(["nearest", "steady"])].drop_duplicates(["model", "data", "answers"])
    slower = took.pivot_table(index=["model", "data"], columns="answers", values="ms")
    times = (slower["steady"] / slower["nearest"]).groupby("model").median()
    cost = ", ".join(f"{model} {ratio:.1f} ×" for model, ratio in times.items())
    return f"""## What follows

Steady answers outlive noise far better than the nearest (5 % on all numbers: {ranges["noise 5% all", "nearest"]} →
{ranges["noise 5% all", "steady"]}), and other models better (kept: {ranges["kept", "nearest"]} →
{ranges["kept", "steady"]}; more on {better} of {len(pairs)} lines of the table below, less on {worse}), at
{ranges["ratio", "steady"]} × the distance, for networks and for trees. The middle of the region of a steady answer
keeps more ({ranges["kept", "steady, middle"]}), at {ranges["ratio", "steady, middle"]} × the distance.

A steady answer of a network or of trees takes little longer than the nearest (the median of tables: {cost}): compiled
code moves the nearest one along its lines or steps, and looks at other features only where that leaves a spike. So
steady answers are the default for networks and trees (`among="auto"`); `among="nearest"` takes the literal nearest."""
