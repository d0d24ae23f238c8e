"""The tables in docs/search.md: the search beside the paper's two methods, and what is proven about it.

    python benchmarks/minimal.py [--seeds 3] [--rows 10000,mfeat=60] [--budget 1] [--workers 2] [--data ...]
    python benchmarks/minimal.py --hard [--budget 60] [--rows 10000,mfeat=12] [--longer 1]

Rows are test rows. A proof is asked for where it means something: rows whose answer changes two features or more, and
misses. `--hard` is about the proofs that take longest, with more time. All proofs are made on one core, where those of
problems on a GPU are made, too. Each writes its figures into the folder of the tables and then the page from all
figures there. Paper figures are those of Le, Wang and Lee (KDD 2020),
means of ten runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
import torch
from speed import machine

import grace
from grace import datasets
from grace.experiments.evaluate import Judge
from grace.experiments.task import Answers, network_of, prepare
from grace.proofs.certificate import FOUND, OPEN, PROVEN, Verdicts, prove
from grace.proofs.distance_bound import distance_bound

PAPER_FEATURES = (1.00, 1.55, 2.66, 1.25, 2.42, 1.60, 1.93, 1.09, 3.95, 2.76, 2.85)  # the better of its two methods
PAPER_INFLUENCE = (0.64, 0.52, 0.20, 0.65, 0.23, 0.45, 0.40, 0.88, 0.04, 0.18, 0.14)
RETRAINED = 5
HARD = [(name, said) for name in ("mfeat", "musk", "biodeg") for said in ("min–max", "1–99 %", "5–95 %")]
HARD += [("spam", "5–95 %"), ("cancer92", "5–95 %")]
TIMES = (1, 10, 60)
DOMAINS = {"min–max": "minmax", "1–99 %": "central", "5–95 %": 0.9}
DEFAULT = "1–99 %"
EASY = 0.95  # share of proofs decided
METHODS = ("search", "gradient", "local")


def explainer_of(name: str, seed: int, most: int) -> tuple[grace.Explainer, pd.DataFrame]:
    table = datasets.load(name)
    parts = table.split(seed)
    model = grace.training.fit(table, seed=seed)
    return grace.Explainer(model, parts.train, among="nearest"), model.impute(parts.test).head(most)


def run(name: str, seed: int, most: int, budget: float) -> list[dict[str, object]]:
    """One network in the three domains."""
    torch.set_num_threads(1)
    explainer, rows = explainer_of(name, seed, most)
    table = datasets.load(name)
    others = [network_of(table, seed, seed + 1 + k) for k in range(RETRAINED)]
    lines = []
    for said, domain in DOMAINS.items():
        batches = {m: explainer.explain(rows, method=m, domain=domain) for m in METHODS}
        judge = Judge(prepare(table, domain=domain, rows=most, seed=seed), others)
        line: dict[str, object] = {"data": name, "seed": seed, "ranges": said, "rows": len(rows)}
        for method, batch in batches.items():
            measures = batch.metrics(raw=True)
            for part in ("fidelity", "features", "distance", "influence", "influence_raw"):
                line[f"{method}_{part}"] = getattr(measures, part)
            found = np.where(batch.success[:, None], batch.answers.contrast, np.nan)
            judged = judge.verdict(Answers(found)).figures()
            line |= {f"{method}_{part}": judged[part] for part in ("kept_class", "plausibility", "percentile")}
        mine = batches["search"]
        line |= nearness(batches) | certified(explainer, mine, domain, budget) | gap(explainer, mine, domain)
        lines.append(line)
    return lines


def nearness(batches: dict[str, grace.Explanations]) -> dict[str, float]:
    """Mean distance of the search over that of each walk, on rows where both change equally many features."""
    out = {}
    mine = batches["search"]
    count = mine.changed.sum(axis=1).to_numpy()
    for method in METHODS[1:]:
        theirs = batches[method]
        same = mine.success & theirs.success & (theirs.changed.sum(axis=1).to_numpy() == count)
        out[f"distance_to_{method}"] = (
            float(mine.answers.distance[same].sum() / theirs.answers.distance[same].sum()) if same.any() else np.nan
        )
    return out


def problem_of(explainer: grace.Explainer, rows: np.ndarray, domain: object) -> grace.problem.problem.Problem:
    return explainer._problem(explainer.tensor(rows), None, explainer.schema_for(domain), explainer.settings)


def gap(explainer: grace.Explainer, batch: grace.Explanations, domain: object) -> dict[str, float]:
    """By how much, as a share, an answer with the same features could be nearer: proven to be no more."""
    done = np.flatnonzero(batch.success)
    problem = problem_of(explainer, batch.answers.rows[done], domain)
    least = distance_bound(problem, explainer.tensor(batch.answers.contrast[done]), 1.0).cpu().numpy()
    apart = 1 - least / batch.answers.distance[done]
    return {"gap_median": float(np.median(apart)), "gap_mean": float(apart.mean())}


def asked(batch: grace.Explanations, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows for which a proof means something, and how many changes it is about."""
    count = batch.changed.sum(axis=1).to_numpy()
    ask = np.flatnonzero(~batch.success | (count > 1))
    return ask, np.where(batch.success, count - 1, most)[ask]


def certified(explainer: grace.Explainer, batch: grace.Explanations, domain: object, budget: float) -> dict[str, float]:
    """Prove that answers change the minimum number of features, or that misses are impossible; count the decided."""
    count = batch.changed.sum(axis=1).to_numpy()
    ask, most = asked(batch, explainer.settings.max_features)
    minimum, decided = count.astype(float), np.ones(len(count), dtype=bool)
    minimum[~batch.success] = np.nan
    seconds = np.zeros(0)
    impossible = 0
    if len(ask):
        problem = problem_of(explainer, batch.answers.rows[ask], domain)
        verdict = prove(problem, torch.as_tensor(most), budget)
        status, seconds = verdict.status.numpy(), verdict.seconds.numpy()
        decided[ask] = status != OPEN
        found = ask[status == FOUND]
        minimum[found] = (verdict.rows != problem.rows).sum(dim=1).numpy()[status == FOUND]
        impossible = int((status[~batch.success[ask]] == PROVEN).sum())
    both = decided & batch.success
    possible = len(count) - impossible
    return {
        "asked": len(ask),
        "decided": float(decided[ask].mean()) if len(ask) else np.nan,
        "impossible": impossible,
        "fidelity_of_possible": float(batch.success.sum() / possible) if possible else np.nan,
        "features_proven": float(count[both].mean()) if both.any() else np.nan,
        "certified_minimum": float(minimum[both].mean()) if both.any() else np.nan,
        "proof_median_ms": float(np.median(seconds) * 1e3) if len(ask) else np.nan,
        "proof_p90_ms": float(np.quantile(seconds, 0.9) * 1e3) if len(ask) else np.nan,
    }


def hard(name: str, seed: int, rows: int, longer: int, budget: float) -> list[dict[str, object]]:
    """The share of proofs decided within a second, on rows spread over those asked for; and of the others, as far as
    some of them tell, within each longer time."""
    torch.set_num_threads(1)
    explainer, frame = explainer_of(name, seed, 10000)
    lines = []
    for said in [ranges for data, ranges in HARD if data == name]:
        batch = explainer.explain(frame, domain=DOMAINS[said])
        ask, most = asked(batch, explainer.settings.max_features)
        some = spread_over(len(ask), rows)
        problem = problem_of(explainer, batch.answers.rows[ask[some]], DOMAINS[said])
        first: Verdicts = prove(problem, torch.as_tensor(most[some]), TIMES[0])
        decided = first.status.numpy() != OPEN
        late = np.flatnonzero(~decided)[spread_over(int((~decided).sum()), longer)]
        index = torch.as_tensor(late)
        here = budget if name == "mfeat" or said == "5–95 %" else min(budget, TIMES[1])
        second = prove(problem.select(index), torch.as_tensor(most[some][late]), here) if len(late) else None
        within = {}
        for t in TIMES:
            share = float(decided.mean())
            if t > TIMES[0] and second is not None:
                done = (second.status != OPEN) & (second.seconds <= t)
                share = share + (1 - share) * float(done.double().mean()) if t <= here else np.nan
            within[f"within_{t}"] = share
        line = {"data": name, "ranges": said, "seed": seed, "rows": len(some), "longer": len(late)}
        rate = int(first.nodes.sum()) / max(float(first.seconds.sum()), 1e-9)
        lines.append(line | within | {"nodes_per_second": rate})
    return lines


def spread_over(count: int, most: int) -> np.ndarray:
    """At most so many positions, evenly chosen."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def table_of(results: pd.DataFrame, ranges: str) -> str:
    heads = ["data", "fidelity: search", "gradient", "local", "of possible"]
    heads += ["features: search", "gradient", "local", "paper", "certified minimum", "search there"]
    heads += ["asked", "decided", "proof median ms", "p90", "gap", "influence", "raw", "paper"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for i, name in enumerate(datasets.PAPER):
        r = results[(results.data == name) & (results.ranges == ranges)]
        if r.empty:
            continue
        m = r.mean(numeric_only=True)
        cells = [f"{m[f'{k}_fidelity']:.3f}" for k in METHODS] + [f"{m.fidelity_of_possible:.3f}"]
        cells += [f"{m[f'{k}_features']:.2f}" for k in METHODS] + [f"{PAPER_FEATURES[i]:.2f}"]
        cells += [f"{m.certified_minimum:.2f}", f"{m.features_proven:.2f}", f"{r.asked.sum():.0f}"]
        asked = r[r.asked > 0]
        share = (asked.decided * asked.asked).sum() / asked.asked.sum() if len(asked) else np.nan
        cells += ["–" if np.isnan(share) else f"{share:.0%}"]
        cells += ["–" if np.isnan(v) else f"{v:.0f}" for v in (m.proof_median_ms, m.proof_p90_ms)]
        cells += [f"{m.gap_median:.1%}"]
        cells += [f"{m.search_influence:.2f}", f"{m.search_influence_raw:.2f}", f"{PAPER_INFLUENCE[i]:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def kept_table(results: pd.DataFrame) -> str:
    """What small answers cost: validity on retrained networks, and how typical the new rows are."""
    lines = []
    for name in datasets.PAPER:
        cells = []
        for what in ("kept_class", "percentile"):
            for said in DOMAINS:
                r = results[(results.data == name) & (results.ranges == said)].mean(numeric_only=True)
                if r.isna().all():
                    continue
                cells.append(" / ".join(f"{r[f'{m}_{what}']:.2f}" for m in METHODS))
        if cells:
            lines.append(f"| {name} | {' | '.join(cells)} |")
    heads = ["data", *(f"{what}, {said}" for what in ("kept", "percentile") for said in DOMAINS)]
    return "\n".join(["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1), *lines])


def proofs_decided(results: pd.DataFrame) -> str:
    """How many of the proofs asked for are decided: in each domain, and by table in the default one."""
    asked = results[results.asked > 0].assign(done=lambda r: r.decided * r.asked)
    whole = asked.groupby("ranges")[["done", "asked"]].sum()
    said = [
        f"{r.done:,.0f} of {r.asked:,.0f} ({r.done / r.asked:.0%}) with {name} ranges" for name, r in whole.iterrows()
    ]
    usual = asked[asked.ranges == DEFAULT].groupby("data")
    share, median = usual["done"].sum() / usual["asked"].sum(), usual["proof_median_ms"].mean()
    easy = share[share >= EASY].index
    rest = ", ".join(f"{name} {share[name]:.0%}" for name in share.index.difference(easy)) or "none"
    return fill(
        f"Decided are, of the proofs asked for, {'; '.join(said)}. With {DEFAULT} ranges, the default, {EASY:.0%} or "
        f"more are decided on {len(easy)} of the {len(share)} tables that have such rows, in a median of "
        f"{median[easy].min():.0f} to {median[easy].max():.0f} ms; the others: {rest}.",
        120,
    )


def hard_table(proofs: pd.DataFrame) -> str:
    heads = ["data", "ranges", "rows", *(f"{t} s" for t in TIMES), "nodes a second"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * (len(heads) - 2)]
    figures = [f"within_{t}" for t in TIMES] + ["nodes_per_second"]
    proofs = proofs.sort_values("data", key=lambda names: names.map(list(datasets.PAPER).index), kind="stable")
    for (name, said), part in proofs.groupby(["data", "ranges"], sort=False):
        r = part[figures].mul(part.rows, axis=0).sum(skipna=False) / part.rows.sum()
        shares = ["–" if np.isnan(r[f"within_{t}"]) else f"{r[f'within_{t}']:.0%}" for t in TIMES]
        lines.append(f"| {name} | {said} | {part.rows.sum()} | {' | '.join(shares)} | {r.nodes_per_second:,.0f} |")
    return "\n".join(lines)


def write(out: Path) -> None:
    """The page, from the figures."""
    results, proofs = pd.read_csv(out / "search.csv"), out / "proofs.csv"
    sections = "\n\n".join(f"## {ranges}\n\n{table_of(results, ranges)}" for ranges in DOMAINS)
    near = results[[f"distance_to_{m}" for m in METHODS[1:]]].mean()
    text = f"""# The search, and what is proven about it

Made by `python benchmarks/minimal.py`, one core per network; {results.seed.nunique()} networks per table,
K = 5, γ = 0.5. All figures are in [search.csv](search.csv). {(out / "search-machine.txt").read_text().strip()}

*Fidelity* is the share of all rows with an answer, *of possible* the share of those not proven to have none. Proofs are
made on request (`prove=True`). Here a proof is *asked* for rows whose answer changes two features or more and for
misses; it is *decided* if it ends within one second of work, whatever it says. *Certified minimum* is the mean number
of features that have to change on rows that are decided or need only one, *search there* what the search changes on the
same rows. *Gap* is by how much, proven, an answer with the same features could at most be nearer (median; proofs stop
at 1 %). *Influence* is given for the search, in both readings, beside the better of the paper's two methods.

{proofs_decided(results)}

On rows where both change equally many features, the search's distance is {near.iloc[0]:.2f} times that of
`gradient` and {near.iloc[1]:.2f} times that of `local` (mean over tables, domains and seeds); beside DiCE and NICE see
[benchmark.md](benchmark.md).

{sections}

## The price of small answers

*Kept* is the share of (answer, network) pairs in which the new class also holds for one of {RETRAINED} networks
trained anew with other seeds; *percentile* is the share of the new class's training rows that lie nearer to their
neighbours than the new row does (0.5 is a typical row, 1 lies farther out than all). Each cell: search / gradient /
local. Nearest flips die easily when the network is trained anew, and wide ranges allow untypical rows.

{kept_table(results)}
"""
    if proofs.exists():
        text += f"""
## The hardest proofs

Made by `python benchmarks/minimal.py --hard` on one core per network. The share of rows decided within one second, on
all rows asked for (mfeat: 12 of them per network); and within 10 s and 60 s, reckoned from one of the others per
network. A dash: not given that long.

{hard_table(pd.read_csv(proofs))}
"""
    (out / "search.md").write_text(text, encoding="utf-8")


def limits(said: str) -> Callable[[str], int]:
    """How many rows of each table: "10000,mfeat=60" is 60 of mfeat and 10000 of any other."""
    most, *exceptions = said.split(",")
    special = {name: int(count) for name, count in (e.split("=") for e in exceptions)}
    return lambda name: special.get(name, int(most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", default=None, help="most rows, and exceptions")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=None)
    parser.add_argument("--data", default=",".join(datasets.PAPER))
    parser.add_argument("--hard", action="store_true", help="the proofs that take longest")
    parser.add_argument("--longer", type=int, default=1, help="rows per network that get the whole budget")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "search-machine.txt").write_text(machine() + "\n", encoding="utf-8")
    # the long ones first
    names = list(reversed(args.data.split(",")))
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        if args.hard:
            budget, hardest = args.budget or max(TIMES), [n for n in names if n in {data for data, _ in HARD}]
            most = limits(args.rows or "10000,mfeat=12")
            jobs = [(n, s, most(n), args.longer, budget) for n in hardest for s in range(args.seeds)]
            parts = [f.result() for f in [pool.submit(hard, *job) for job in jobs]]
            lines = pd.DataFrame([line for part in parts for line in part])
            path = args.out / "proofs.csv"
            before = pd.read_csv(path) if path.exists() else lines.head(0)
            other = ~before.data.isin(hardest)
            lines = pd.concat([before[other], lines]) if other.any() else lines
            lines.to_csv(path, index=False, float_format="%.6g")
        else:
            most = limits(args.rows or "10000,mfeat=60")
            jobs = [(n, s, most(n), args.budget or 1.0) for n in names for s in range(args.seeds)]
            parts = [f.result() for f in [pool.submit(run, *job) for job in jobs]]
            results = pd.DataFrame([line for part in parts for line in part])
            path = args.out / "search.csv"
            before = pd.read_csv(path) if path.exists() else results.head(0)
            results = pd.concat([before[~before.data.isin(names)], results])
            results.to_csv(path, index=False, float_format="%.6g")
    if (args.out / "search.csv").exists():
        write(args.out)


if __name__ == "__main__":
    main()
