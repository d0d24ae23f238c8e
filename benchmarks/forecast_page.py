"""Writes docs/forecast.csv and docs/forecast.md from the results of benchmarks/forecast.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

READERS = ("none", "one contrast", "reasons", "LIME", "SHAP", "plain sum", "scorecard, no pairs", "scorecard")
RIVALS = ("none", "one contrast", "reasons", "LIME", "SHAP")
CHOSEN = ("reasons", "LIME", "SHAP")  # readers with several policies
ALONE = "single changes that flip"  # the policy of reasons that knows no pairs
CARD = "scorecard"
TARGET = 0.88  # the mean that is aimed at
CLAIMED = 0.9
BINS = (0.0, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)  # of claims
REPEATS = 2000  # of the bootstrap
TUNED_ON = 0  # the run on whose rows settings of scorecards were chosen
Result = Mapping[str, Any]
Key = tuple[str, str]


def write(results: Sequence[Result], out: Path) -> None:
    """Both files, from the results of all tables, runs and parts."""
    keys = list(dict.fromkeys((r["data"], r["model"]) for r in results))
    rated = {key: {reader: best(results, key, reader) for reader in READERS} for key in keys}
    lines = []
    for (data, model), readers in rated.items():
        for reader, (policy, runs) in readers.items():
            low, high = interval(runs, lambda rows: rows[:, 0].mean())
            right, exactly = np.concatenate(runs).mean(axis=0)
            count = sum(map(len, runs))
            ahead = {"low": round(low, 4), "high": round(high, 4), "which_class": round(float(exactly), 4)}
            shares = {"right": round(float(right), 4), **ahead}
            lines.append({"data": data, "model": model, "reader": reader, "rows": count, **shares, "policy": policy})
    frame = pd.DataFrame(lines)
    out.mkdir(parents=True, exist_ok=True)
    frame.to_csv(out / "forecast.csv", index=False)
    (out / "forecast.md").write_text(page(frame, rated, results), encoding="utf-8")


def best(results: Sequence[Result], key: Key, reader: str) -> tuple[str, list[np.ndarray]]:
    """The policy that is best on the edits to choose by, and for each run its shares (rows, 2) on the others."""
    runs = [r for r in results if (r["data"], r["model"]) == key and reader in r["results"]]
    runs.sort(key=lambda r: r["run"])
    every = {p: [np.array(r["results"][reader][p]) for r in runs] for p in runs[0]["results"][reader]}
    policy = max(every, key=lambda p: np.concatenate(every[p])[:, 0].mean())
    return policy, [rows[:, 2:] for rows in every[policy]]


def interval(runs: Sequence[np.ndarray], mean: Any) -> tuple[float, float]:
    """The 95 % interval of a mean over runs and the rows of each, by a bootstrap of both."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(REPEATS):
        drawn = [runs[k] for k in rng.integers(len(runs), size=len(runs))]
        found.append(mean(np.concatenate([rows[rng.integers(len(rows), size=len(rows))] for rows in drawn])))
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def page(frame: pd.DataFrame, rated: Mapping[Key, Any], results: Sequence[Result]) -> str:
    table = frame.pivot_table(index=["data", "model"], columns="reader", values="right", sort=False)
    means = table.mean()
    runs = len({r["run"] for r in results})
    rows = max(r["rows"] for r in results)
    claims = calibration(results)
    behind, level = compared(rated)
    total = int(frame[frame.reader == CARD].rows.sum())
    return f"""# Forecasting the model from an explanation

Who understands why a model decides as it does can tell what it would do with a slightly different row. Readers here
are programs. Each gets an explanation of a row, and forecasts for other edits of it whether the class changes.

Made by `python benchmarks/forecast.py` ({runs} runs, each with the first {rows} test rows, {total} rows in all; the
networks are the paper's, the trees are XGBoost's). An edit copies the values of some features from a training row; the
number of features is drawn log-uniformly, from one to all. All readers get the same edits, up to 100 of a row that
change its class and up to 100 that do not, weighted so that each kind is one half: guessing is right in 0.5.

- **none** knows the typical rows of the classes and forecasts the nearer one's.
- **one contrast** reads the sentence of `explain`: an edit that makes its changes fully changes the class.
- **reasons** knows what `reasons` with at most two features says: all values of single features that change the class
  alone, and every pair that does so only together, with the nearest values that do. {completeness(results)}
- **LIME, SHAP** with all features and all classes. They and the reasons are read by the best of several policies,
  chosen for each table on edits that are not reported (below).
- **plain sum** adds up what each change does alone, from the exact curves; **scorecard, no pairs** multiplies the sum
  of several changes by what so many changes count in this row; **scorecard** also has up to five pairs. Both are chosen
  for each row on edits of their own and are part of what is shown. Rows for which there is no scorecard count as with
  no explanation.

## Whether the class changes

{markdown(rated, table, means)}

Intervals (95 %, by a bootstrap over runs and rows) of the scorecard are in brackets, those of all readers in
[forecast.csv](forecast.csv). The mean of the scorecard is {means[CARD]:.3f}; the aim was {TARGET:.2f}, which is
{"reached" if means[CARD] >= TARGET else "not reached"}. {behind}

{level}

{untouched(rated, results)}

## Which class it is

Tables with more than two classes: the share of edits for which the forecast class is right.

{classes(frame)}

## The policies of reasons, LIME and SHAP

Tried for reasons: an edit changes the class if one of its changes does so alone; or also if it makes both changes of a
pair, at least as far as the values shown, or some share of the way to them on average, or if it is in the pair's proven
region. Or the changes of all sets are added up: at the values shown each feature of a set counts one part of it, on the
way there in proportion, and the class changes from some sum on. By single changes alone, the mean over the tables is
{single(results, rated):.3f} instead of {means["reasons"]:.3f}.

Tried for LIME: its local model with quartile bins (the default) or plain numbers, as it stands, or its effects from the
row's own probabilities on. For SHAP: a changed feature loses its value; or a share of it by how far it goes to the
typical value of the other classes; the same with SHAP values against that typical row alone; or it gets the mean value
that 60 other rows have there (a dependence plot, so that the reader has 60 more explanations). All but the local
model as it stands are also multiplied by factors from 0.5 to 16.

{policies(frame)}

## What a scorecard claims

Every scorecard says for how many of 100 other edits it forecasts right whether the class changes: the lower end of
Wilson's interval of one standard error, on edits that had no part in making it. On the edits of this page, which are
others again:

{claims}
"""


def markdown(rated: Mapping[Key, Any], table: pd.DataFrame, means: pd.Series) -> str:
    out = [f"| data | model | {' | '.join(READERS)} |", "|---|---|" + "---:|" * len(READERS)]
    for key, readers in rated.items():
        cells = [f"{table.loc[key, r]:.3f}" for r in READERS]
        low, high = interval(readers[CARD][1], lambda rows: rows[:, 0].mean())
        cells[READERS.index(CARD)] = f"**{cells[READERS.index(CARD)]}** ({low:.3f}–{high:.3f})"
        out.append(f"| {key[0]} | {key[1]} | {' | '.join(cells)} |")
    out.append(f"| mean | | {' | '.join(f'{means[r]:.3f}' for r in READERS)} |")
    return "\n".join(out)


def compared(rated: Mapping[Key, Any]) -> tuple[str, str]:
    """A sentence, and a table of how far the scorecard is ahead of its best rival, row by row."""
    out = ["| data | model | best rival | ahead by | 95 % interval |", "|---|---|---|---:|---:|"]
    behind, unclear = [], []
    for (data, model), readers in rated.items():
        rival = max(RIVALS, key=lambda r: np.concatenate(readers[r][1])[:, 0].mean())
        pairs = zip(readers[CARD][1], readers[rival][1], strict=True)
        ahead = [card[:, :1] - other[:, :1] for card, other in pairs]
        low, high = interval(ahead, lambda rows: rows.mean())
        mean = np.concatenate(ahead).mean()
        out.append(f"| {data} | {model} | {rival} | {mean:+.3f} | {low:+.3f} to {high:+.3f} |")
        if mean < 0:
            behind.append(data)
        elif low <= 0:
            unclear.append(data)
    said = "It is ahead of every rival on every table" if not behind else f"It is behind a rival on {', '.join(behind)}"
    return said + (f"; on {', '.join(unclear)} the interval includes 0." if unclear else "."), "\n".join(out)


def untouched(rated: Mapping[Key, Any], results: Sequence[Result]) -> str:
    """A sentence about the runs by which nothing was tuned."""
    later = [r for r in results if r["run"] != TUNED_ON]
    if {(r["data"], r["model"]) for r in later} != set(rated):
        return "There is one run only."
    again = {key: {reader: best(later, key, reader) for reader in READERS} for key in rated}
    mean = np.mean([np.concatenate(readers[CARD][1])[:, 0].mean() for readers in again.values()])
    return (
        "The settings of scorecards (the factors that are tried, the number and grid of pairs) were chosen on up to\n"
        "20 rows of each table in the first run, which are among the rows above; that flatters them. In the other\n"
        f"runs alone, by which nothing was tuned, the mean of the scorecard is {mean:.3f}. {compared(again)[0]}"
    )


def classes(frame: pd.DataFrame) -> str:
    out = [f"| data | {' | '.join(READERS)} |", "|---|" + "---:|" * len(READERS)]
    for name, part in frame.groupby("data", sort=False):
        if not np.allclose(part.right, part.which_class):
            by_reader = part.set_index("reader").which_class
            out.append(f"| {name} | {' | '.join(f'{by_reader[r]:.3f}' for r in READERS)} |")
    return "\n".join(out) if len(out) > 2 else "None here."


def policies(frame: pd.DataFrame) -> str:
    out = [f"| data | {' | '.join(CHOSEN)} |", "|---|" + "---|" * len(CHOSEN)]
    for name, part in frame.groupby("data", sort=False):
        chosen = part.set_index("reader").policy
        out.append(f"| {name} | {' | '.join(chosen[reader] for reader in CHOSEN)} |")
    return "\n".join(out)


def completeness(results: Sequence[Result]) -> str:
    """For how many rows the reasons are proven to be complete, and how many sets there are."""
    parts = [r for r in results if "complete" in r]
    complete = np.concatenate([r["complete"] for r in parts])
    alone, pairs = np.concatenate([r["sets"] for r in parts]).mean(axis=0)
    return (
        "With a second of work for\n"
        f"  a row, it is proven of {complete.mean():.0%} of the rows that there are no others; "
        f"in the mean there are {alone:.1f} single\n  features and {pairs:.1f} pairs."
    )


def single(results: Sequence[Result], rated: Mapping[Key, Any]) -> float:
    """The mean over the tables of reasons read by single changes alone."""
    shares = [
        np.concatenate(
            [r["results"]["reasons"][ALONE] for r in results if (r["data"], r["model"]) == key and "complete" in r]
        )
        for key in rated
    ]
    return float(np.mean([rows[:, 2].mean() for rows in shares]))


def calibration(results: Sequence[Result]) -> str:
    """Claims against what was reached, by the size of the claim, and a sentence about the high ones."""
    claims, reached, without = [], [], 0
    for r in results:
        if "claims" in r:
            ((_, lines),) = r["results"][CARD].items()
            for claim, line in zip(r["claims"], lines, strict=True):
                without += claim is None
                if claim is not None:
                    claims.append(claim)
                    reached.append(line[2])
    claim, right = np.array(claims), np.array(reached)
    out = ["| claim | rows | mean claim | reached | rows that reach theirs |", "|---|---:|---:|---:|---:|"]
    for low, high in pairwise(BINS):
        here = (claim >= low) & (claim < high)
        if here.any():
            said = f"below {high:.2f}" if low == 0 else f"{low:.2f} or more" if high > 1 else f"{low:.2f}–{high:.2f}"
            share = (right[here] >= claim[here]).mean()
            out.append(f"| {said} | {here.sum()} | {claim[here].mean():.3f} | {right[here].mean():.3f} | {share:.2f} |")
    sure = claim >= CLAIMED
    sentence = (
        f"Of {len(claim) + without} rows, {len(claim)} have a scorecard. The {sure.sum()} rows that claim {CLAIMED} or "
        f"more reach\n{right[sure].mean():.3f} in the mean; {(right[sure] >= CLAIMED).mean():.0%} of them reach "
        f"{CLAIMED} themselves, on edits whose number leaves a standard error of about 0.02."
    )
    return "\n".join(out) + "\n\n" + sentence
