"""The tables as Markdown and, with the figures, as a self-contained HTML page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from grace.experiments.reproduction import paper
from grace.experiments.reproduction.tables import MEAN
from grace.experiments.results import markdown_table
from grace.pictures.report import report_environment

SIMULATED = (
    "Readers here are simulated: programs that know a text, the row and the table. Nobody was asked; only the figures "
    "in the column “people” are of people, those of the paper."
)
METHODS = ("nearest", "deepfool", "local", "gradient", "search")
VARIANTS = ("unpolished", "as-printed", "released", "by-labels")
SHOWN = (
    ("features", "avg #features", 2),
    ("info_gain_star_raw", "info-gain* (raw values)", 2),
    ("info_gain_star", "info-gain* (MDLP bins)", 2),
    ("influence_raw", "influence (raw values)", 2),
    ("influence", "influence (MDLP bins)", 2),
    ("fidelity", "fidelity", 3),
    ("domain", "domain", 2),
    ("domain_cells", "domain by cells", 2),
    ("distance", "distance", 2),
)
NOTES = {
    "table2": "On the test rows, F1 weighted by class: mean ± standard deviation over runs, the paper's, the "
    "difference, and the mean of networks trained as the authors' released program does it.",
    "table3": "K = 5, γ = 0.5, min–max domain, all test rows. Mean ± standard deviation over runs / the paper's; an "
    "asterisk where they differ by more than two standard deviations and the rounding of the paper.",
    "figure-fidelity": "Fidelity when at most this share of the features may be perturbed (one at least).",
    "figure-k": "Fidelity and avg #features for K = 1 … 10, mean over tables; the CSV has each table.",
    "figure-gamma": "Info-gain on raw values for each γ, the paper's in brackets.",
    "case-study": "The patient of the paper's Table Sup2, kept out of training, by the network of the first run.",
    "reader": SIMULATED,
}
TITLES = {
    "table2": "Accuracy and F1",
    "table3": "Contrastive samples",
    "figure-fidelity": "Fidelity against the share of features perturbed",
    "figure-k": "The effect of K",
    "figure-gamma": "The effect of γ",
    "case-study": "The case study",
    "reader": "What simulated readers (programs) do with it",
}
PICTURES = {"figure-k": ("figure-k", "figure-k-features")}
ROUNDING = 0.005  # numbers that differ by less are printed alike
PRINTED = ("features", "info_gain_star_raw", "influence_raw")  # the measures in the paper
Cells = dict[tuple[str, str, str], dict[str, Any]]
Block = tuple[str, list[str], list[list[str]]]
"""A title, column heads and lines of text."""


def blocks(name: str, frame: pd.DataFrame) -> list[Block]:
    """The tables of a part as text."""
    return SHOW[name](frame)


def _table2(frame: pd.DataFrame) -> list[Block]:
    lines = []
    for row in frame.to_dict("records"):
        cells = [str(row["data"]), str(row["rows"])]
        for m in ("accuracy", "f1"):
            star = "*" if row[f"{m}_beyond"] == 1 else ""
            cells += [_pm(row[f"{m}_mean"], row[f"{m}_sd"], 3) + star, _n(row[f"{m}_paper"], 3)]
            cells += [_n(row[f"{m}_difference"], 3, sign=True), _n(row[f"{m}_released"], 3)]
        lines.append(cells)
    each = ["paper", "difference", "as released"]
    return [("", ["data", "rows", "accuracy", *each, "F1", *each], lines)]


def _table3(frame: pd.DataFrame) -> list[Block]:
    cells = _cells(frame)
    data = list(dict.fromkeys(frame["data"]))
    out = []
    for measure, title, digits in SHOWN:
        lines = []
        for method in dict.fromkeys(frame["method"]):
            lines.append([method, *(_beside(cells.get((d, method, measure)), digits) for d in data)])
        out.append((title, ["method", *data], lines))
    return out


def _cells(frame: pd.DataFrame) -> Cells:
    rows: Any = frame.to_dict("records")
    return {(row["data"], row["method"], row["measure"]): row for row in rows}


def _beside(cell: dict[str, Any] | None, digits: int) -> str:
    if cell is None:
        return "–"
    theirs = f" / {cell['paper']:.2f}" if pd.notna(cell["paper"]) else ""
    return _pm(cell["mean"], cell["sd"], digits) + theirs + ("*" if cell["beyond"] == 1 else "")


def _shares(frame: pd.DataFrame) -> list[Block]:
    over = frame[frame["data"] == MEAN]
    swept = over[over["share"].notna()]
    wide = swept.pivot_table(index="method", columns="share", values="fidelity", sort=False)
    lines = [[str(method), *(_n(v, 3) for v in row)] for method, row in zip(wide.index, wide.to_numpy(), strict=True)]
    for row in over[over["share"].isna()].to_dict("records"):
        cell = f"{row['fidelity']:.3f} at {row['perturbed']:.0%}"
        lines.append([str(row["method"]), cell, *[""] * (len(wide.columns) - 1)])
    return [("", ["method", *(f"{100 * float(s):g} %" for s in wide.columns)], lines)]


def _ks(frame: pd.DataFrame) -> list[Block]:
    out = []
    for measure, title, digits in (("fidelity", "fidelity", 3), ("features", "avg #features", 2)):
        wide = frame[frame["data"] == MEAN].pivot_table(index="method", columns="k", values=measure, sort=False)
        lines = [[str(m), *(_n(v, digits) for v in row)] for m, row in zip(wide.index, wide.to_numpy(), strict=True)]
        out.append((title, ["method", *(f"K = {k}" for k in wide.columns)], lines))
    return out


def _gammas(frame: pd.DataFrame) -> list[Block]:
    lines = []
    for (data, method), part in frame.groupby(["data", "method"], sort=False):
        cells = [
            _n(row["info_gain_raw"], 3) + (f" ({row['paper']:.2f})" if pd.notna(row["paper"]) else "")
            for row in part.to_dict("records")
        ]
        lines.append([str(data), str(method), *cells])
    gammas = [f"γ = {g:g}" for g in dict.fromkeys(frame["gamma"])]
    return [("", ["data", "method", *gammas], lines)]


def _patient(frame: pd.DataFrame) -> list[Block]:
    first = frame[frame["run"] == frame["run"].min()]
    lines = [[str(row["method"]), str(row["text"])] for row in first.to_dict("records")]
    lines += [[f"{name} in the paper", text] for name, text in paper.PATIENT.items()]
    return [("", ["method", "text"], lines)]


def _readers(frame: pd.DataFrame) -> list[Block]:
    heads = ["method", "policy", "uses", "class changes", "people", "features moved", "distance"]
    heads += ["forecast, any edits", "forecast, own features", "rows"]
    lines = []
    for row in frame[frame["data"] == MEAN].to_dict("records"):
        cells = [str(row[key]) for key in ("method", "policy", "uses")]
        cells += [_n(row["flipped"], 3), _n(row["people"], 2), _n(row["moved"], 2), _n(row["distance"], 2)]
        lines.append([*cells, _n(row["forward_any"], 3), _n(row["forward_own"], 3), str(row["rows"])])
    return [("", heads, lines)]


SHOW: dict[str, Callable[[pd.DataFrame], list[Block]]] = {
    "table2": _table2,
    "table3": _table3,
    "figure-fidelity": _shares,
    "figure-k": _ks,
    "figure-gamma": _gammas,
    "case-study": _patient,
    "reader": _readers,
}


def over_tables(frame: pd.DataFrame) -> Block:
    """The measures of each method and those in the paper, as means over data sets."""
    lines = []
    for method, part in frame.groupby("method", sort=False):
        cells = [str(method)]
        for measure in ("fidelity", *PRINTED):
            of = part[part["measure"] == measure]
            cells += [_n(of["mean"].mean(), 2)] + ([] if measure == "fidelity" else [_n(of["paper"].mean(), 2)])
        lines.append(cells)
    heads = ["method", "fidelity", "#features", "paper", "info-gain*", "paper", "influence", "paper"]
    return ("Contrastive samples, mean over tables", heads, lines)


def differences(frame: pd.DataFrame) -> Block:
    """Each cell of the main table that differs from the paper by more than two standard deviations, with the values of
    its variants, and the variant that is nearest to the paper."""
    cells = _cells(frame)
    lines = []
    for (data, method, measure), cell in cells.items():
        if cell["beyond"] != 1 or method not in METHODS or measure not in PRINTED:
            continue
        distances = {"as it is": abs(cell["difference"])}
        texts = []
        for name, other in _variants(cells, data, method, measure):
            distances[name] = abs(other["mean"] - cell["paper"])
            texts.append(f"{name} {_pm(other['mean'], other['sd'], 2)}")
        ours = _pm(cell["mean"], cell["sd"], 2)
        nearest = min(distances, key=distances.__getitem__)
        lines.append([data, method, _word(measure), _n(cell["paper"], 2), ours, "; ".join(texts), nearest])
    return ("", ["data", "method", "measure", "paper", "ours", "other readings", "nearest"], lines)


def _variants(cells: Cells, data: str, method: str, measure: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other definitions of the same cell, where they differ: a miss counted as K, SU on bins, the domain by cells, and
    the variants of the method."""
    variants = [("a miss counts K", method, "features_all")] if measure == "features" else []
    if measure.endswith("_raw"):
        variants.append(("MDLP bins", method, measure.removesuffix("_raw")))
        variants.append(("domain by cells", method, measure.replace("_raw", "_cells_raw")))
    variants += [(variant, f"{method}-{variant}", measure) for variant in VARIANTS]
    for name, which, what in variants:
        other = cells.get((data, which, what))
        if other is not None and abs(other["mean"] - cells[data, method, measure]["mean"]) >= ROUNDING:
            yield name, other


def markdown(frames: dict[str, pd.DataFrame], notes: list[str]) -> str:
    """All tables as Markdown."""
    parts = ["# Reproduction\n", *(f"{line}\n" for line in notes)]
    for name, frame in frames.items():
        parts.append(f"## {TITLES[name]}\n\n{NOTES[name]}\n")
        for title, heads, lines in blocks(name, frame):
            parts.append((f"### {title}\n\n" if title else "") + markdown_table(heads, lines) + "\n")
    if "table3" in frames and len(differences(frames["table3"])[2]):
        parts.append("## Cells that differ by more than two standard deviations\n")
        parts.append(markdown_table(*differences(frames["table3"])[1:]) + "\n")
    return "\n".join(parts)


def page(frames: dict[str, pd.DataFrame], notes: list[str], folder: Path) -> str:
    """All tables, and the figures in the folder, as a self-contained HTML page."""
    sections = [
        (TITLES[name], NOTES[name], _pictures(name, folder), blocks(name, frame)) for name, frame in frames.items()
    ]
    template = report_environment("grace.experiments").get_template("reproduction.html")
    return template.render(
        title="The paper's experiments, again",
        said=notes,
        sections=sections,
        differing=differences(frames["table3"]) if "table3" in frames else ("", [], []),
    )


def _pictures(name: str, folder: Path) -> list[str]:
    """The figures of a part that are in the folder, in base64."""
    paths = [folder / f"{picture}.svg" for picture in PICTURES.get(name, (name,))]
    return [b64encode(path.read_bytes()).decode() for path in paths if path.exists()]


def _pm(mean: float, sd: float, digits: int) -> str:
    return _n(mean, digits) + (f" ± {sd:.{digits}f}" if pd.notna(sd) else "")


def _n(value: float, digits: int, *, sign: bool = False) -> str:
    return "–" if pd.isna(value) else f"{value:{'+' if sign else ''}.{digits}f}"


def _word(measure: str) -> str:
    return next(title for name, title, _ in SHOWN if name == measure)
