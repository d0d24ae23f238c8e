"""Tables of the stored results: means and standard deviations over runs, compared with the numbers in the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from grace.experiments.reproduction import paper
from grace.experiments.reproduction.plan import Result, Unit
from grace.experiments.reproduction.reader import POLICIES

ROUNDING = 0.005  # the paper prints two decimals
MEAN = "mean"  # in the column "data": the mean over all tables
TEXT_ONLY = {("grace", "exact"), ("grace", "magnitude"), ("lime", "edge")}
"""Readers that use the text alone; the others also use typical values of the table."""
Results = Mapping[Unit, Result]


def tables(results: Results) -> dict[str, pd.DataFrame]:
    """All tables for which there are results, by name."""
    made = {
        "table2": table2(results),
        "table3": table3(results),
        "figure-fidelity": sweep(results, "figure-fidelity", ["share"], ["fidelity"]),
        "figure-k": sweep(results, "figure-k", ["k"], ["fidelity", "features"]),
        "figure-gamma": gamma(results),
        "case-study": case_study(results),
        "reader": reader(results),
    }
    return {name: frame for name, frame in made.items() if len(frame)}


def table2(results: Results) -> pd.DataFrame:
    """Accuracy and F1."""
    lines = []
    for data, runs in _by_table(results, "table2").items():
        line: dict[str, Any] = {"data": data, "runs": len(runs), "rows": runs[0]["rows"]}
        for measure, theirs in (("accuracy", paper.ACCURACY), ("f1", paper.F1)):
            line |= _prefixed(measure, beside([r[measure] for r in runs], theirs.get(data)))
            line[f"{measure}_released"] = beside([r["released"][measure] for r in runs if "released" in r], None)[
                "mean"
            ]
        lines.append(line)
    return pd.DataFrame(lines)


def table3(results: Results) -> pd.DataFrame:
    """The main table: a line per data set, method and measure."""
    lines = []
    for data, runs in _by_table(results, "table3").items():
        for method in runs[0]["methods"]:
            for measure in runs[0]["methods"][method]:
                values = [r["methods"][method][measure] for r in runs]
                theirs = paper.MAIN.get(measure, {}).get(method.split("-")[0], {}).get(data)
                lines.append({"data": data, "method": method, "measure": measure, **beside(values, theirs)})
    return pd.DataFrame(lines)


def beside(values: Iterable[float], theirs: float | None) -> dict[str, float]:
    """Mean and standard deviation over the runs with a finite value, the number in the paper, the difference, and
    whether it exceeds two standard deviations and the paper's rounding."""
    finite = np.array([v for v in values if np.isfinite(v)])
    mean = float(finite.mean()) if len(finite) else np.nan
    sd = float(finite.std(ddof=1)) if len(finite) > 1 else np.nan
    theirs = np.nan if theirs is None else theirs
    difference = mean - theirs
    beyond = np.nan if not np.isfinite([difference, sd]).all() else float(abs(difference) > 2 * sd + ROUNDING)
    return {"runs": len(finite), "mean": mean, "sd": sd, "paper": theirs, "difference": difference, "beyond": beyond}


def sweep(results: Results, part: str, keys: list[str], measures: list[str]) -> pd.DataFrame:
    """A line per data set, method and setting, then the means over data sets."""
    flat = _flat(results, part)
    if not len(flat):
        return flat
    if part == "figure-fidelity":  # the share is no setting of the baselines
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


def gamma(results: Results) -> pd.DataFrame:
    """The effect of γ, with the numbers in the paper for two data sets."""
    frame = sweep(results, "figure-gamma", ["gamma"], ["info_gain", "info_gain_raw", "fidelity"])
    if len(frame):
        keys = zip(frame["data"], frame["method"], frame["gamma"], strict=True)
        frame["paper"] = [paper.GAMMA.get((d, m), {}).get(g, float("nan")) for d, m, g in keys]
    return frame


def case_study(results: Results) -> pd.DataFrame:
    """The texts about the patient in each run."""
    lines = []
    for unit, result in results.items():
        if unit.part == "case-study":
            head = {"run": unit.run, "class": result["class"], "probability": result["probability"]}
            lines.append({**head, "method": "lime", "text": result["lime"]["text"]})
            for method, grace in result["grace"].items():
                lines.append({**head, "method": method, "text": grace["text"]})
    return pd.DataFrame(lines)


def reader(results: Results) -> pd.DataFrame:
    """Results of the simulated readers: a line per data set (over all rows and runs), method and policy, then the means
    over data sets."""
    lines = []
    for method, policies in POLICIES.items():
        for data, runs in _by_table(results, f"reader-{method}").items():
            for k, policy in enumerate(policies):
                lines.append({"data": data, **_reader_line(method, policy, [r["policies"][k] for r in runs])})
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


def _reader_line(method: str, policy: str, runs: list[Result]) -> dict[str, Any]:
    sums = {key: float(sum(sum(r[key]) for r in runs)) for key in runs[0] if key != "policy"}
    rows = sum(len(r["flipped"]) for r in runs)
    line: dict[str, Any] = {"method": method, "policy": policy}
    line |= {"uses": "text" if (method, policy) in TEXT_ONLY else "text and table" if method != "none" else "table"}
    line |= {"runs": len(runs), "rows": rows}
    line |= {key: sums[key] / rows for key in ("flipped", "moved", "distance")}
    for kind in ("any", "own"):
        total = sums[f"{kind}_total"]
        line |= {
            f"forward_{kind}": sums[f"{kind}_right"] / total if total else float("nan"),
            f"edits_{kind}": int(total),
        }
    return line


def _by_table(results: Results, part: str) -> dict[str, list[Result]]:
    out: dict[str, list[Result]] = {}
    for unit, result in results.items():
        if unit.part == part:
            out.setdefault(unit.data, []).append(result)
    return out


def _flat(results: Results, part: str) -> pd.DataFrame:
    """A line per data set, run, method and setting."""
    lines = []
    for unit, result in results.items():
        if unit.part == part:
            for method, entries in result["methods"].items():
                for entry in entries:
                    extra = {"perturbed": entry["k"] / result["features"]} if "features" in result else {}
                    lines.append({"data": unit.data, "run": unit.run, "method": method, **entry, **extra})
    return pd.DataFrame(lines)


def _prefixed(name: str, entries: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in entries.items() if key not in ("runs",)}
