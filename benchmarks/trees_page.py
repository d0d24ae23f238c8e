"""The page docs/trees.md and its figure, from the figures that `trees.py` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from tree_models import DATA, HIGH, LARGE, LARGE_DATA, MODELS, TREES
from trees_growth import growth_section

PEERS = {
    "search": "search",
    "nice-sparsity": "NICE sparsity",
    "dice-random": "DiCE random",
    "treecf-genetic": "treecf genetic",
    "treecf-exact": "treecf exact",
}
PEER_COLUMNS = ("proven", "optimal_rows", "optimal_equal", "fair_rows", "times_encoded")


def page(out: Path) -> None:
    """Write the page and the figure, from the figures that are there."""
    parts: dict[str, Callable[[pd.DataFrame], str]] = {
        "models": models_section,
        "peers": peers_section,
        "pipeline": pipeline_section,
        "rules": rules_section,
        "growth": lambda lines: growth_section(lines, out),
    }
    sections = [head(out)]
    for name, section in parts.items():
        if (out / f"trees-{name}.csv").exists():
            lines = pd.read_csv(out / f"trees-{name}.csv")
            failed = lines["failed"].notna()
            if name == "peers" and "method" in lines:  # a method that failed has dashes in the table
                failed &= lines["method"].isna()
            if not failed.all():
                sections.append(section(lines[~failed]))
            if failed.any():
                sections.append(failures(lines[failed]))
    (out / "trees.md").write_text("\n\n".join(s.strip() for s in sections) + "\n", encoding="utf-8")


def head(out: Path) -> str:
    command, machine = (out / "trees-machine.txt").read_text(encoding="utf-8").splitlines()
    return f"""# Trees

Made by `{command}`, which writes all figures beside this page (`trees-*.csv`). {machine}

Tree ensembles are read as trees and searched exactly ([Method](method.md)). The models have the defaults of
their libraries and {TREES} trees ({TREES} for each class where there are more than two), without early
stopping; *{LARGE}* has 500 trees of depth 8 and is asked about {", ".join(LARGE_DATA)} only. Text is a category
of pandas to XGBoost, LightGBM and HistGradientBoosting, one-hot columns inside a pipeline to the forest, and a
number to CatBoost (the position in the alphabet). Missing cells are filled in before: numbers by the median,
text by a word of its own. Explained are test rows in the default ranges (1–99 %), K = 5 and γ = 0.5; of
california_housing, rows that are predicted to be worth less than {HIGH:,} dollars are asked for more than that."""


def table(heads: list[str], rows: list[list[str]], texts: int = 1) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * texts + "---:|" * (len(heads) - texts)]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in rows)])


def number(value: float, digits: int = 3) -> str:
    """So many digits; large numbers whole; a dash for none."""
    if not np.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def share(value: float) -> str:
    return f"{value:.1%}".replace(".0%", "%") if np.isfinite(value) else "–"


def ordered(lines: pd.DataFrame) -> pd.DataFrame:
    """By table and model, in the usual order."""
    place = lines.assign(a=lines["data"].map(list(DATA).index), b=lines["model"].map(list(MODELS).index))
    return place.sort_values(["b", "a"], kind="stable").drop(columns=["a", "b"])


def failures(failed: pd.DataFrame) -> str:
    """What could not be measured, by reason."""
    said = []
    for why, part in failed.groupby("failed", sort=False):
        names = part.drop(columns="failed").select_dtypes(exclude="number").dropna(axis=1)
        cells = names[[c for c in ("method", "data", "model", "what", "grows") if c in names]].astype(str)
        said.append(f"{why} ({'; '.join(cells.agg(', '.join, axis=1))})")
    return "Not measured: " + "; ".join(said) + "."


def models_section(lines: pd.DataFrame) -> str:
    good = ordered(lines.reindex(columns=lines.columns.union(["except_ties"], sort=False)))
    return f"""## By model

Means over the tables, but for times, leaves and ratios, which are the smallest and the largest. *Features* and
*distance* are those of the answers; *fidelity* is the share of rows with an answer. *Certified minimum* is the
mean number of features that have to change, on rows where that was proven; *search there* what the search alone
changes on the same rows. *Decided* is the share of rows for which the count was proven within a second of work
(of a row without an answer: that there is none), ties aside where the model decides one as was asked for. *Gap*
is by how much, proven, an answer with the same features could at most be nearer: the median over rows and their
mean. Answers have the decimals of their columns and the bound does not, so that a very small change may have a large
gap; and a tie that the model decides as was asked for may be nearer than any answer. *Alone* is the median over rows
asked one at a time, *batch* a row among all of them, both from a DataFrame to checked answers without a proof; *times
faster* is the median of the same model as a black box, over that of the search on trees, on the same rows in the same
process.

{by_model(good)}

{reading(good)}

## By table

*None exists* counts the rows that are proven to have no answer, *ties aside* those decided whose proof leaves ties
aside. Of times, *p90* is the ninth decile of rows asked
alone, *proof* a row with its proof in batches of a few, and *read* the making of an explainer: reading the trees and
comparing them with the model on training rows and at thresholds.

{by_table(good)}

## Beside the black box

The same rows of the same model, asked without reading it, as models are of which only the predictions are known: as
many rows as it answers in the time that it gets. A dash: not one.

{beside_box(good)}
"""


def span(values: pd.Series) -> str:
    low, high = number(float(values.min())), number(float(values.max()))
    return low if low == high else f"{low} – {high}"


def by_model(lines: pd.DataFrame) -> str:
    heads = ["model", "tables", "leaves", "fidelity", "features", "distance", "certified minimum", "search there"]
    heads += ["decided", "least decided", "gap median", "gap mean", "alone ms", "batch ms", "times faster"]
    rows = []
    for name, part in lines.groupby("model", sort=False):
        m = part.mean(numeric_only=True)
        cells = [str(name), str(len(part)), span(part.leaves), f"{m.fidelity:.3f}", f"{m.features:.2f}"]
        cells += [f"{m.distance:.2f}", f"{m.certified_minimum:.2f}", f"{m.search_there:.2f}", share(m.decided)]
        cells += [share(part.decided.min()), share(m.gap_median), share(m.gap_mean)]
        rows.append([*cells, span(part.alone_ms), span(part.batch_ms), span(part.times)])
    return table(heads, rows)


def reading(lines: pd.DataFrame) -> str:
    """What the targets of the proofs come to, and whether the search has found all minima."""
    boosted, forests = ~lines.model.isin(["forest", LARGE]), lines.model == "forest"
    kinds = {"boosted models": lines[boosted], "forests": lines[forests]}
    said = []
    for name, part in kinds.items():
        if len(part):
            decided = (part.decided * part.asked).sum() / part.asked.sum()
            said.append(f"{share(decided)} of the {part.asked.sum():.0f} rows of {name} with {TREES} trees")
    worse = lines[lines.search_worse > 0]
    where = ", ".join(f"{r.search_worse:.0f} of {r.model}, {r.data}" for r in worse.itertuples())
    found = f"on all but {worse.search_worse.sum():.0f} rows ({where})" if len(worse) else "on every row"
    text = f"The count is proven for {' and '.join(said)}. " if said else ""
    return text + f"Where it is, the search alone finds an answer with as few features {found}."


def by_table(lines: pd.DataFrame) -> str:
    heads = ["model", "data", "leaves", "rows", "fidelity", "features", "distance", "certified minimum", "search there"]
    heads += ["decided", "ties aside", "none exists", "gap median", "gap mean", "alone ms", "p90", "batch ms"]
    heads += ["proof ms", "read s"]
    rows = []
    for r in lines.itertuples():
        cells = [r.model, r.data, f"{r.leaves:,.0f}", f"{r.rows:.0f}", f"{r.fidelity:.3f}", number(r.features)]
        cells += [number(r.distance), number(r.certified_minimum), number(r.search_there)]
        cells += [share(r.decided) + ("" if r.asked == r.rows else f" of {r.asked:.0f}"), number(r.except_ties)]
        cells += [f"{r.impossible:.0f}", share(r.gap_median), share(r.gap_mean)]
        cells += [number(v) for v in (r.alone_ms, r.alone_p90_ms, r.batch_ms, r.proof_ms, r.read_s)]
        rows.append(cells)
    return table(heads, rows, 2)


def beside_box(lines: pd.DataFrame) -> str:
    heads = ["model", "data", "rows", "features: trees", "black box", "distance: trees", "black box"]
    heads += ["fidelity: black box", "alone ms: black box", "batch ms: black box", "times faster alone"]
    rows = []
    for r in lines.itertuples():
        cells = [r.model, r.data, f"{r.box_rows:.0f}", number(r.features_there), number(r.box_features)]
        cells += [number(r.distance_there), number(r.box_distance), number(r.box_fidelity)]
        rows.append([*cells, number(r.box_alone_ms), number(r.box_batch_ms), number(r.times)])
    return table(heads, rows, 2)


def peers_section(lines: pd.DataFrame) -> str:
    asked = ordered(lines[lines.method.notna()].reindex(columns=lines.columns.union(PEER_COLUMNS, sort=False)))
    good = asked[asked.failed.isna()]
    heads = ["model", "data", "method", "rows", "valid", "in domain", "features", "distance", "search: fewer", "more"]
    heads += ["proven", "optimum: equal", "ms median", "mean", "times the search", "from encoded rows"]
    rows = []
    for r in asked.itertuples():
        if isinstance(r.failed, str):
            rows.append([r.model, r.data, PEERS[r.method], *["–"] * (len(heads) - 3)])
            continue
        proven = [share(r.proven), f"{r.optimal_equal:.0f} of {r.optimal_rows:.0f}"] if r.proven >= 0 else ["", ""]
        cells = [r.model, r.data, PEERS[r.method], f"{r.rows:.0f}", f"{r.valid:.2f}", number(r.in_domain)]
        cells += [number(r.features), number(r.distance)]
        cells += ["", ""] if r.method == "search" else [share(r.search_fewer), share(r.search_more)]
        rows.append([*cells, *proven, *(number(v) for v in (r.median_ms, r.mean_ms, r.times, r.times_encoded))])
    summaries = [f"**{name}**, {TREES} trees:\n\n{beside(part)}" for name, part in good.groupby("model", sort=False)]
    if len(summaries) > 1:
        summaries.append(f"**All models:**\n\n{beside(good)}")
    several = "\n\n".join(summaries)
    return f"""## Beside other libraries

The same rows of the same models; see [Benchmark](benchmark.md) for how they are asked. None of them knows γ, so
that the search is asked without it here (`gamma=1`). *Fewer* and *more* are the shares of rows on which the
search changes fewer or more features than the method, where that has an answer in the domain; where the search,
which may change five, has none and the method changes more than that, the row is left out. treecf's exact search
proves the fewest changes (*proven*); *equal* says on how many of these rows the search changes as many.
Times are of rows asked alone, in the same run; *times the search* is the ratio of the medians, and over tables
their geometric mean, where a method has any answer in its time. The others are given encoded rows, and the search a
DataFrame of one row; *from encoded rows* is the ratio where it gets those too, and ends with values that the model
itself has confirmed. NICE and DiCE ask the model for predictions, treecf gets the trees that were read and asks the
model nothing.

{several}

{table(heads, rows, 3)}

{unanswered(asked[asked.failed.notna()])}
"""


def beside(good: pd.DataFrame) -> str:
    """Each method beside the search, over the tables of some models."""
    said = []
    for method, part in good[good.method != "search"].groupby("method", sort=False):
        times, fair = part.times.dropna(), part.fair_rows.fillna(part.rows)  # with an answer in the domain
        if len(times) == 0:
            said.append(f"- {PEERS[str(method)]}: no answers.")
            continue
        more = (part.search_more * fair).sum() / max(fair.sum(), 1)
        what = ("table" if len(set(good.model)) == 1 else "cell") + "s" * (len(times) > 1)
        text = (
            f"- {PEERS[str(method)]}: {number(np.exp(np.log(times).mean()))} times the time of the search (geometric "
            f"mean over {len(times)} {what} with answers; {number(times.min())} to {number(times.max())})"
        )
        if part.times_encoded.notna().any():
            core = part.times_encoded.dropna()
            text += (
                f", from encoded rows {number(np.exp(np.log(core).mean()))} times ({number(core.min())} to "
                f"{number(core.max())})"
            )
        text += f"; the search changes more features on {share(more)} of {fair.sum():.0f} rows"
        if part.optimal_rows.notna().any():
            text += f", and as many on {part.optimal_equal.sum():.0f} of the {part.optimal_rows.sum():.0f} proven rows"
        said.append(text + ".")
    return "\n".join(said)


def unanswered(failed: pd.DataFrame) -> str:
    """Why methods have dashes, with the tables of each reason."""
    said = []
    for (why, method), part in failed.groupby(["failed", "method"], sort=False):
        tables = [
            str(data) if len(mine) == failed.model.nunique() else f"{data} ({', '.join(mine.model)})"
            for data, mine in part.groupby("data", sort=False)
        ]
        said.append(f"{PEERS[str(method)]}: {why} ({', '.join(tables)})")
    return f"Dashes: {'; '.join(said)}." if said else ""


def pipeline_section(lines: pd.DataFrame) -> str:
    heads = ["data", "model", "rows", "columns", "leaves", "fidelity", "features", "decided", "gap mean"]
    heads += ["alone ms", "batch ms", "proof ms"]
    rows, said = [], []
    for r in lines.itertuples():
        cells = [r.data, r.what, f"{r.rows:.0f}", f"{r.features_all:.0f}", f"{r.leaves:,.0f}", f"{r.fidelity:.3f}"]
        cells += [number(r.features), share(r.decided), share(r.gap_mean)]
        rows.append([*cells, *(number(v) for v in (r.alone_ms, r.batch_ms, r.proof_ms))])
    for data, part in lines.groupby("data", sort=False):
        both = part.set_index("what")
        if len(both) == 2:
            ratio = both.loc["pipeline"][["alone_ms", "batch_ms", "proof_ms"]] / both.loc["bare trees"]
            said.append(
                f"{data} {number(ratio.alone_ms, 2)} times alone, {number(ratio.batch_ms, 2)} in a batch and "
                f"{number(ratio.proof_ms, 2)} with a proof"
            )
    return f"""## A pipeline

One-hot columns for text, scaled numbers, and HistGradientBoosting with {TREES} trees behind them, explained and
proven in the original columns; and the same trees on the columns that they get, explained in those. The time of
the pipeline beside that of the bare trees: {"; ".join(said) or "not measured"}.

{table(heads, rows, 2)}
"""


def rules_section(lines: pd.DataFrame) -> str:
    heads = ["model", "data", "rules", "rows", "fidelity", "features", "distance", "alone ms", "batch ms"]
    heads += ["without rules: features", "alone ms", "black box: rows", "fidelity: trees", "black box"]
    heads += ["features: trees", "black box", "alone ms: black box", "times faster alone"]
    rows = []
    for r in ordered(lines).itertuples():
        cells = [r.model, r.data, f"{r.rules:.0f}", f"{r.rows:.0f}", f"{r.fidelity:.3f}"]
        cells += [
            number(v) for v in (r.features, r.distance, r.alone_ms, r.batch_ms, r.plain_features, r.plain_alone_ms)
        ]
        cells += [f"{r.box_rows:.0f}", number(r.fidelity_there), number(r.box_fidelity)]
        rows.append([*cells, *(number(v) for v in (r.features_there, r.box_features, r.box_alone_ms, r.times))])
    return f"""## Under rules

[Rules](rules.md) that hold in the whole table: *magic* `fConc1 <= fConc` and one more, *spam*
`capital_run_length_average <= capital_run_length_longest` and one more, *cancer92* `mean_radius <= worst_radius` and
six more, *adult* `if capital_gain > 0 then capital_loss == 0` and two more implications. They are part of the exact
search. A black box, which is asked the same, is searched by a beam that mends what a change has broken, and may change
more features than are needed.

{table(heads, rows, 2)}
"""
