"""Writes docs/reasons.md from the figures of benchmarks/decisions.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

PEERS = Path(__file__).parents[1] / "docs" / "decisions-peers.csv"
PYXAI = PEERS.with_name("pyxai-peers.csv")
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
{peers()}{pyxai()}"""


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


METHODS = {  # of PyXAI, as the page names them
    "tree_specific_reason": "tree-specific",
    "majoritary_reason": "majoritary",
    "sufficient_reason": "sufficient",
}


def pyxai() -> str:
    """The comparison with PyXAI on the same trees, if its figures are there."""
    if not PYXAI.exists():
        return ""
    lines = pd.read_csv(PYXAI)
    shown = listing(
        lines,
        {
            "data": text("data"),
            "model": text("model"),
            "PyXAI's reason": lambda r: METHODS[r["method"]],
            "trees": number("trees", 0),
            "features": number("features", 0),
            "instances": number("instances", 0),
            "answered": number("answered", 0),
            "PyXAI: conditions": number("literals"),
            "size": number("peer_size"),
            "s": number("peer_s", 3),
            "GRACE: size": number("size"),
            "s ": number("s", 3),
            "minimal": share("minimal"),
            "smallest: size": number("smallest_size"),
            "s  ": number("smallest_s", 3),
            "proven": share("smallest", "smallest_rows", "instances"),
        },
        left=3,
    )
    answered, proven, refuted, held = (int(lines[c].sum()) for c in ("answered", "entailed", "refuted", "held"))
    return f"""
## Beside PyXAI on the same trees

PyXAI 2.0.1 (Audemard and others, CRIL; github.com/crillab/pyxai) gives reasons as conditions on features, such as
f3 ≥ 0.07. `python benchmarks/pyxai_peer.py --python PATH`, with a Python that has it, asks both about the same models
with two classes, trained on numbers (words are coded), and the same rows, with no limit to any feature; PyXAI is told
that features are numbers. *Size* is the number of features in a reason, so that both count the same; *conditions* are
more, as two may be on one feature. Times are one core's own work on the same machine, that of child processes included.
What is claimed differs:

- **Tree-specific** reasons of boosted trees suffice by the worst leaf of each tree on its own, though no row may reach
  all of these leaves at once. So no condition can be left out by that measure, but some may be in truth. The best of 50
  greedy orders, its default. PyXAI 2.0.1 has no other reasons of boosted classifiers: `minimal_tree_specific_reasons`
  "is not available in V2".
- **Majoritary** reasons of forests suffice since a majority of the trees is decided, each on its own; the best of 50
  greedy orders, too. **Sufficient** reasons, by the solver MUSer2, are minimal: no condition can be left out. Both are
  short in conditions, not in features. A condition asks for less than the very value of a feature, so that reasons of
  PyXAI hold for more rows.
- **GRACE** names features whose values entail the class. *Minimal* is the share for which it is proven that none can be
  left out, *proven* that for which fewer would not do.

PyXAI counts the votes of a forest's trees, so the leaves of the forests here are made to vote. Means over the first
test rows that PyXAI had done when the time of a table, 20 to 25 seconds of work, was up; if that is none, over those
that GRACE had done. GRACE and the solver have ten seconds for each row. Of {answered} answers of PyXAI, the features
entail the class in {proven} by GRACE's proofs and do not in {refuted}; on random rows that meet the conditions, the
class is always that of the row in {held}. On cancer95 and german_credit PyXAI is mostly faster, on phoneme and magic
GRACE.

{shown}
"""
