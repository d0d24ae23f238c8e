"""Stored results as tables: means and standard deviations over runs, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from grace.experiments.reproduction import paper
from grace.experiments.reproduction.plan import Unit
from grace.experiments.reproduction.reader import POLICIES
from grace.experiments.reproduction.store import Figures

ROUNDING = 0.005  # the paper prints two decimals
MEAN = "mean"  # stands for a table where figures are means over all tables
ALONE = {("grace", "exact"), ("grace", "magnitude"), ("lime", "edge")}
"""Readers who need nothing but the text; the others also know what is typical or usual in the table."""
Found = Mapping[Unit, Figures]


def tables(found: Found) -> dict[str, pd.DataFrame]:
    """Every table that the stored results make, by name."""
    made = {
        "table2": table2(found),
        "table3": table3(found),
        "figure-fidelity": sweep(found, "figure-fidelity", ["share"], ["fidelity"]),
        "figure-k": sweep(found, "figure-k", ["k"], ["fidelity", "features"]),
        "figure-gamma": gamma(found),
        "case-study": case_study(found),
        "reader": reader(found),
    }
    return {name: frame for name, frame in made.items() if len(frame)}


def table2(found: Found) -> pd.DataFrame:
    """Accuracy and F1."""
    lines = []
    for data, runs in _by_table(found, "table2").items():
        line: dict[str, Any] = {"data": data, "runs": len(runs), "rows": runs[0]["rows"]}
        for measure, theirs in (("accuracy", paper.ACCURACY), ("f1", paper.F1)):
            line |= _prefixed(measure, beside([r[measure] for r in runs], theirs.get(data)))
            line[f"{measure}_released"] = beside([r["released"][measure] for r in runs if "released" in r], None)[
                "mean"
            ]
        lines.append(line)
    return pd.DataFrame(lines)


def table3(found: Found) -> pd.DataFrame:
    """The main table: a line for each table, method and measure."""
    lines = []
    for data, runs in _by_table(found, "table3").items():
        for method in runs[0]["methods"]:
            for measure in runs[0]["methods"][method]:
                values = [r["methods"][method][measure] for r in runs]
                theirs = paper.MAIN.get(measure, {}).get(method.split("-")[0], {}).get(data)
                lines.append({"data": data, "method": method, "measure": measure, **beside(values, theirs)})
    return pd.DataFrame(lines)


def beside(values: Iterable[float], theirs: float | None) -> dict[str, float]:
    """Mean and standard deviation over runs, the paper's figure, the difference, and whether that is more than two
    standard deviations and the paper's rounding. Runs without a value (nothing flipped) do not count."""
    kept = np.array([v for v in values if np.isfinite(v)])
    mean = float(kept.mean()) if len(kept) else float("nan")
    sd = float(kept.std(ddof=1)) if len(kept) > 1 else float("nan")
    apart = float("nan") if theirs is None else mean - theirs
    far = float("nan") if not np.isfinite(apart) or not np.isfinite(sd) else float(abs(apart) > 2 * sd + ROUNDING)
    theirs = float("nan") if theirs is None else theirs
    return {"runs": len(kept), "mean": mean, "sd": sd, "paper": theirs, "difference": apart, "beyond": far}


def sweep(found: Found, part: str, keys: list[str], measures: list[str]) -> pd.DataFrame:
    """A line for each table, method and setting, then the means over tables."""
    flat = _flat(found, part)
    if not len(flat):
        return flat
    if part == "figure-fidelity":  # a baseline has no shares to choose from: it changes what it changes
        flat["share"] = flat["share"].where(~flat["method"].isin(["nearest", "deepfool"]), np.nan)
    groups = flat.groupby(["data", "method", *keys], sort=False, dropna=False)
    first = groups[measures].agg(["mean", "std"])
    first.columns = pd.Index([m + end for m in measures for end in ("", "_sd")])
    first["runs"] = groups["run"].nunique()
    if part == "figure-fidelity":
        first["perturbed"] = groups["perturbed"].mean()
    each = first.reset_index()
    over = each.groupby(["method", *keys], sort=False, dropna=False)[
        [*measures, *each.columns.intersection(["perturbed"])]
    ]
    return pd.concat([each, over.mean().reset_index().assign(data=MEAN, runs=each["runs"].min())], ignore_index=True)


def gamma(found: Found) -> pd.DataFrame:
    """The effect of γ, beside the paper's figures for two tables."""
    frame = sweep(found, "figure-gamma", ["gamma"], ["info_gain", "info_gain_raw", "fidelity"])
    if len(frame):
        keys = zip(frame["data"], frame["method"], frame["gamma"], strict=True)
        frame["paper"] = [paper.GAMMA.get((d, m), {}).get(g, float("nan")) for d, m, g in keys]
    return frame


def case_study(found: Found) -> pd.DataFrame:
    """What was said of the patient in each run."""
    lines = []
    for unit, figures in found.items():
        if unit.part == "case-study":
            head = {"run": unit.run, "class": figures["class"], "probability": figures["probability"]}
            lines.append({**head, "method": "lime", "text": figures["lime"]["text"]})
            for method, told in figures["grace"].items():
                lines.append({**head, "method": method, "text": told["text"]})
    return pd.DataFrame(lines)


def reader(found: Found) -> pd.DataFrame:
    """What simulated readers make of the texts, a line for each table, method and policy, then over all tables.

    A share over a table is that of all its rows and runs; over all tables, the mean of the tables.
    """
    lines = []
    for method, policies in POLICIES.items():
        for data, runs in _by_table(found, f"reader-{method}").items():
            for place, policy in enumerate(policies):
                lines.append({"data": data, **_read(method, policy, [r["policies"][place] for r in runs])})
    each = pd.DataFrame(lines)
    if not len(each):
        return each
    measures = ["flipped", "moved", "distance", "forward_any", "forward_own"]
    counts = ["rows", "edits_any", "edits_own"]
    groups = each.groupby(["method", "policy", "uses"], sort=False)
    over = pd.concat([groups[measures].mean(), groups[counts].sum()], axis=1).reset_index()
    over = over.assign(data=MEAN, runs=each["runs"].min())
    out = pd.concat([each, over], ignore_index=True)
    out["people"] = [paper.PEOPLE.get(m, float("nan")) for m in out["method"]]
    return out


def _read(method: str, policy: str, runs: list[Figures]) -> dict[str, Any]:
    sums = {key: float(sum(sum(r[key]) for r in runs)) for key in runs[0] if key != "policy"}
    rows = sum(len(r["flipped"]) for r in runs)
    line: dict[str, Any] = {"method": method, "policy": policy}
    line |= {"uses": "text" if (method, policy) in ALONE else "text and table" if method != "none" else "table"}
    line |= {"runs": len(runs), "rows": rows}
    line |= {key: sums[key] / rows for key in ("flipped", "moved", "distance")}
    for kind in ("any", "own"):
        total = sums[f"{kind}_total"]
        line |= {
            f"forward_{kind}": sums[f"{kind}_right"] / total if total else float("nan"),
            f"edits_{kind}": int(total),
        }
    return line


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """Of each method, the reader who most often changes the class, over all tables."""
    over = frame[frame["data"] == MEAN]
    return over.loc[over.groupby("method", sort=False)["flipped"].idxmax()]


def _by_table(found: Found, part: str) -> dict[str, list[Figures]]:
    out: dict[str, list[Figures]] = {}
    for unit, figures in found.items():
        if unit.part == part:
            out.setdefault(unit.data, []).append(figures)
    return out


def _flat(found: Found, part: str) -> pd.DataFrame:
    """A line for each table, run, method and setting."""
    lines = []
    for unit, figures in found.items():
        if unit.part == part:
            for method, entries in figures["methods"].items():
                for entry in entries:
                    extra = {"perturbed": entry["k"] / figures["features"]} if "features" in figures else {}
                    lines.append({"data": unit.data, "run": unit.run, "method": method, **entry, **extra})
    return pd.DataFrame(lines)


def _prefixed(name: str, entries: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in entries.items() if key not in ("runs",)}
