"""The table in docs/search.md: the search beside the paper's two methods, and what is proven about it.

    python benchmarks/minimal.py [--seeds 3] [--rows 10000,mfeat=60] [--budget 1] [--workers 2] [--data ...]

Rows are test rows. A proof is asked for where it means something: rows whose answer changes two features or more, and
misses. Paper figures are those of Le, Wang and Lee (KDD 2020), means of ten runs.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import grace
from grace import datasets
from grace.certificate import FOUND, OPEN, PROVEN, prove

PAPER_FEATURES = (1.00, 1.55, 2.66, 1.25, 2.42, 1.60, 1.93, 1.09, 3.95, 2.76, 2.85)  # the better of its two methods
PAPER_INFLUENCE = (0.64, 0.52, 0.20, 0.65, 0.23, 0.45, 0.40, 0.88, 0.04, 0.18, 0.14)
DOMAINS = {"min–max": "minmax", "1–99 %": "central", "5–95 %": 0.9}
METHODS = ("search", "gradient", "local")


def run(name: str, seed: int, most: int, budget: float) -> list[dict[str, object]]:
    """One network in the three domains."""
    torch.set_num_threads(1)
    table = datasets.load(name)
    parts = table.split(seed)
    model = grace.training.fit(table, seed=seed)
    rows = model.impute(parts.test).head(most)
    explainer = grace.Explainer(model, parts.train)
    lines = []
    for said, domain in DOMAINS.items():
        batches = {m: explainer.explain(rows, method=m, domain=domain) for m in METHODS}
        line: dict[str, object] = {"data": name, "seed": seed, "ranges": said, "rows": len(rows)}
        for method, batch in batches.items():
            measures = batch.metrics(raw=True)
            for part in ("fidelity", "features", "distance", "influence", "influence_raw"):
                line[f"{method}_{part}"] = getattr(measures, part)
        line |= nearness(batches) | certified(explainer, batches["search"], domain, budget)
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


def certified(explainer: grace.Explainer, batch: grace.Explanations, domain: object, budget: float) -> dict[str, float]:
    """Prove the answers of the search minimal, or the misses impossible; count what is decided."""
    count = batch.changed.sum(axis=1).to_numpy()
    ask = np.flatnonzero(~batch.success | (count > 1))
    minimum, decided = count.astype(float), np.ones(len(count), dtype=bool)
    minimum[~batch.success] = np.nan
    seconds = np.zeros(0)
    impossible = 0
    if len(ask):
        most = np.where(batch.success, count - 1, explainer.settings.max_features)[ask]
        problem = explainer._problem(
            explainer._tensor(batch.answers.rows[ask]), None, explainer.schema_for(domain), explainer.settings
        )
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


def table_of(results: pd.DataFrame, ranges: str) -> str:
    heads = (
        "data",
        "fidelity: search",
        "gradient",
        "local",
        "of possible",
        "features: search",
        "gradient",
        "local",
        "paper",
        "certified minimum",
        "search there",
        "asked",
        "decided",
        "proof median ms",
        "p90",
        "influence",
        "raw",
        "paper",
    )
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
        cells += [f"{m.search_influence:.2f}", f"{m.search_influence_raw:.2f}", f"{PAPER_INFLUENCE[i]:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(results: pd.DataFrame, out: Path, command: str) -> None:
    results.to_csv(out / "search.csv", index=False, float_format="%.6g")
    sections = "\n\n".join(f"## {ranges}\n\n{table_of(results, ranges)}" for ranges in DOMAINS)
    near = results[[f"distance_to_{m}" for m in METHODS[1:]]].mean()
    text = f"""# The search, and what is proven about it

Made by `{command}`, one core per network;
K = 5, γ = 0.5. All figures are in [search.csv](search.csv).

*Fidelity* is the share of all rows with an answer, *of possible* the share of those not proven to have none. A proof
is *asked* for rows whose answer changes two features or more and for misses; it is *decided* if it ends within the
budget, whatever it says. *Certified minimum* is the mean number of features that have to change on rows that are
decided or need only one, *search there* what the search changes on the same rows. *Influence* is given for the search,
in both readings, beside the better of the paper's two methods.

On rows where both change equally many features, the search's distance is {near.iloc[0]:.2f} times that of
`gradient` and {near.iloc[1]:.2f} times that of `local` (mean over tables, domains and seeds).

{sections}
"""
    (out / "search.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", default="10000,mfeat=60", help="most rows, and exceptions")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--data", default=",".join(datasets.PAPER))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    args = parser.parse_args()
    command = f"python benchmarks/minimal.py --seeds {args.seeds} --rows {args.rows} --budget {args.budget:g}"
    limit, *exceptions = args.rows.split(",")
    most = {e.split("=")[0]: int(e.split("=")[1]) for e in exceptions}
    # the long ones first
    jobs = [(name, seed) for name in reversed(args.data.split(",")) for seed in range(args.seeds)]
    with ProcessPoolExecutor(max_workers=args.workers) as pool:
        futures = [pool.submit(run, *job, most.get(job[0], int(limit)), args.budget) for job in jobs]
        lines = []
        for job, future in zip(jobs, futures, strict=True):
            lines += future.result()
            print(f"{job[0]} seed {job[1]}: done", flush=True)
    write(pd.DataFrame(lines), args.out, command)


if __name__ == "__main__":
    main()
