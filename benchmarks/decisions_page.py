"""Writes docs/reasons.md from the figures of benchmarks/decisions.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

PEERS = Path(__file__).parents[1] / "docs" / "decisions-peers.csv"
Cell = Callable[[pd.Series], str]


def number(column: str, digits: int = 1) -> Cell:
    return lambda r: f"{r[column]:,.{digits}f}" if column in r and pd.notna(r[column]) else "–"


def share(column: str, of: str = "", whole: str = "rows") -> Cell:
    """A share in per cent; `of` is the column with the number of rows, said where it is not all of the `whole`."""

    def cell(r: pd.Series) -> str:
        if column not in r or pd.isna(r[column]):
            return "–"
        part = f" of {r[of]:.0f}" if of and r[of] < r[whole] else ""
        return f"{100 * r[column]:.0f} %{part}"

    return cell


def text(column: str) -> Cell:
    return lambda r: str(r[column])


def listing(lines: pd.DataFrame, columns: dict[str, Cell], left: int = 2) -> str:
    """A Markdown table; the first columns are text."""
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * left + "---:|" * (len(columns) - left)]
    rows = [f"| {' | '.join(cell(r) for cell in columns.values())} |" for _, r in lines.iterrows()]
    return "\n".join(head + rows)


LIMIT = 45  # seconds of a table and model for the figures in the repository
NAME = {"data": text("data"), "model": text("model")}


def page(lines: pd.DataFrame) -> str:
    reasons = listing(
        lines,
        NAME
        | {
            "features": number("features", 0),
            "rows": number("reasons_rows", 0),
            "alone": number("sets_1"),
            "pairs": number("sets_2"),
            "complete": share("complete_2"),
            "ms": number("reasons_ms", 0),
            "ms, 90 %": number("reasons_p90_ms", 0),
            "triples": number("sets_3"),
            "complete to three in 1 s": share("complete_3_1s", "complete_3_1s_rows"),
            "in 10 s": share("complete_3_10s", "complete_3_10s_rows"),
        },
    )
    profiles = listing(
        lines,
        NAME
        | {
            "flip alone": number("flip_alone"),
            "cannot": number("cannot_alone"),
            "open": number("open_alone", 2),
            "ms alone": number("profile_ms"),
            "ms, 90 %": number("profile_p90_ms"),
            "ms in a batch": number("profile_batch_ms"),
        },
    )
    because = listing(
        lines,
        NAME
        | {
            "of features": number("features", 0),
            "kept": number("because_size"),
            "minimal": share("because_minimal", "because_rows"),
            "undecided": number("because_undecided"),
            "said": share("because_few"),
            "ms": number("because_ms", 0),
            "ms, 90 %": number("because_p90_ms", 0),
            "kept in 10 s": number("smallest_size"),
            "minimal in 10 s": share("smallest_minimal", "smallest_rows"),
            "smallest in 10 s": share("smallest_smallest", "smallest_rows"),
        },
    )
    return f"""# How a model decides about a row: what it costs to know

Made by `python benchmarks/decisions.py`: 1–99 % ranges, the first test rows of each table, the networks of the paper
and ensembles of 100 trees. Times are milliseconds of one core's own work per row, the row asked alone. Each table and
model had {LIMIT} seconds; a part that ran out of its share of them ended with the rows done, and says of how many it
speaks. All figures are in [decisions-figures.csv](decisions-figures.csv).

## Reasons

`explainer.reasons(rows, max_features=2)` lists every minimal set of features that can flip a row. *Alone* and *pairs*
are their mean numbers; *complete* is the share of rows for which there is a proof, within a second of work, that there
are no others with at most two features. The last columns are for three features.

{reasons}

## Profiles

`explainer.profile(rows)` says for each feature at which values it flips the row alone. Mean numbers of features that
do, that provably cannot, and of open ones.

{profiles}

## Sufficient reasons

`explainer.because(rows)` names features that entail the prediction, whatever the others are within their ranges.
*Kept* is their mean number after a second of work, *minimal* the share of rows for which none of them can be left out,
*undecided* the mean number of which that is open, *said* the share with at most five features, none of which can be
left out. The last columns are for `smallest=True` with ten seconds. Every feature that flips a row alone is part of
each sufficient reason, so that wide ranges make them long.

{because}
{peers()}"""


def peers() -> str:
    """The comparison on the boosted trees that XReason has published, if its figures are there."""
    if not PEERS.exists():
        return ""
    lines = pd.read_csv(PEERS)
    shown = listing(
        lines,
        {
            "data": text("data"),
            "features": number("features", 0),
            "instances": number("instances", 0),
            "XReason SMT: size": number("smt_size"),
            "s": number("smt_s", 2),
            "XReason MaxSAT: size": number("mx_size"),
            "s ": number("mx_s", 2),
            "GRACE: size": number("size"),
            "s  ": number("s", 3),
            "minimal": share("minimal"),
            "smallest: size": number("smallest_size"),
            "proven": share("smallest", "smallest_rows", "instances"),
        },
        left=1,
    )
    return f"""
## Beside XReason on its own trees

XReason (Ignatiev, Izza, Stuckey and Marques-Silva, "Using MaxSAT for efficient explanations of tree ensembles", AAAI
2022) publishes boosted trees, test instances, and logs of its runs: the size and seconds of one minimal sufficient
reason of each instance, by an SMT solver and by MaxSAT (github.com/alexeyignatiev/xreason, folder `aaai22`). With a
copy of that repository, `python benchmarks/xreason.py` rebuilds the same trees from their text dumps and asks about the
same instances, with no limit to any feature. Its times are those of its logs, on its machine; ours are one core's own
work on ours, so that only orders of magnitude can be compared. Means over the first instances of each log, as many as
were done in a quarter of a minute with ten seconds of work for each; *minimal* is the share for which that sufficed.
*Smallest* is `smallest=True` within ten seconds: its mean size, and the share that is proven to be the smallest. On
tables with 30 features and more, MaxSAT is mostly faster.

{shown}
"""
