"""Figures by matplotlib as PNG and SVG, reproducible byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from grace.errors import GraceError, pip_install
from grace.experiments.reproduction import paper
from grace.experiments.reproduction.plan import Result
from grace.experiments.reproduction.tables import MEAN, TEXT_ONLY
from grace.schema.files import atomic_replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of Okabe and Ito; lines also differ in dash and marker
STYLES: dict[str, dict[str, Any]] = {
    "gradient": {"color": "#0072b2", "marker": "o", "linestyle": "-"},
    "local": {"color": "#d55e00", "marker": "s", "linestyle": "--"},
    "search": {"color": "#009e73", "marker": "^", "linestyle": "-."},
    "nearest": {"color": "#000000", "marker": "X", "linestyle": "none"},
    "deepfool": {"color": "#cc79a7", "marker": "D", "linestyle": "none"},
}
NAMES = {"gradient": "GRACE-Gradient", "local": "GRACE-Local", "search": "search (ours)"}
NAMES |= {"nearest": "NearestCT", "deepfool": "DeepFool"}
READERS = {"grace": "GRACE", "lime": "LIME", "shap": "SHAP", "none": "no explanation"}
FOR, AGAINST = "#d55e00", "#0072b2"


def draw(frames: dict[str, pd.DataFrame], patient: Result | None, folder: Path) -> list[str]:
    """Draw a figure for each table that has one into a folder; returns their names."""
    figures: dict[str, Figure] = {}
    if "figure-fidelity" in frames:
        figures["figure-fidelity"] = fidelity(frames["figure-fidelity"])
    if "figure-k" in frames:
        figures["figure-k"] = panels(frames["figure-k"], "fidelity", "fidelity", (0, 1.05))
        figures["figure-k-features"] = panels(frames["figure-k"], "features", "avg #features", None)
    if "figure-gamma" in frames:
        figures["figure-gamma"] = gamma(frames["figure-gamma"])
    if patient is not None:
        figures["case-study"] = case_study(patient)
    if "reader" in frames:
        figures["reader"] = reader(frames["reader"])
    for name, figure in figures.items():
        save(figure, folder / name)
    return list(figures)


def fidelity(frame: pd.DataFrame) -> Figure:
    """Fidelity against the share of features that may be perturbed: the mean over tables, and each table thinner."""
    figure = _figure(7.2, 4.2)
    axes = figure.subplots()
    for method, style in STYLES.items():
        part = frame[frame["method"] == method]
        if style["linestyle"] == "none":
            mean = part[part["data"] == MEAN]
            axes.plot(100 * mean["perturbed"], mean["fidelity"], label=f"{NAMES[method]} (perturbs so many)", **style)
            continue
        for data, each in part.groupby("data", sort=False):
            width = {"linewidth": 2.2} if data == MEAN else {"linewidth": 0.7, "alpha": 0.3, "marker": ""}
            label = NAMES[method] if data == MEAN else None
            axes.plot(100 * each["share"], each["fidelity"], label=label, **{**style, **width})
    axes.axvline(12.5, color="#777777", linewidth=0.8, linestyle=":")
    axes.annotate("the paper: ≈ 0.95 at 12.5 %", (12.5, 0.03), (13.5, 0.03), fontsize=8, color="#555555")
    axes.set_xscale("log")
    ticks = [1, 2.5, 5, 12.5, 25, 50, 100]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks], minor=False)
    axes.minorticks_off()
    axes.set_xlabel("% of features that may be perturbed (one at least)")
    axes.set_ylabel("fidelity")
    axes.set_ylim(0, 1.05)
    axes.legend(fontsize=8, loc="center right", frameon=False)
    return _tidy(figure)


def panels(frame: pd.DataFrame, measure: str, label: str, limits: tuple[float, float] | None) -> Figure:
    """A measure against K = 1 ... 10, with a panel for each table and one for the mean."""
    names = list(dict.fromkeys(frame["data"]))
    across = min(4, len(names))
    down = -(-len(names) // across)
    figure = _figure(2.5 * across + 0.4, 2.0 * down + 0.6)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for i, axes in enumerate(grid.flat):
        if i >= len(names):
            axes.set_visible(False)
            continue
        part = frame[frame["data"] == names[i]]
        for method, each in part.groupby("method", sort=False):
            axes.plot(each["k"], each[measure], label=NAMES[str(method)], markersize=3.5, **STYLES[str(method)])
        axes.set_title("mean of the tables" if names[i] == MEAN else names[i], fontsize=9)
        axes.set_xticks([1, 5, 10])
        if limits is not None:
            axes.set_ylim(*limits)
    figure.supxlabel("K", fontsize=9)
    figure.supylabel(label, fontsize=9)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return _tidy(figure)


def gamma(frame: pd.DataFrame) -> Figure:
    """Info-gain on raw values, as in the paper, against γ: the mean over tables, and each table thinner."""
    methods = [m for m in STYLES if m in set(frame["method"])]
    figure = _figure(2.7 * len(methods) + 0.4, 3.2)
    grid = figure.subplots(1, len(methods), sharey=True, squeeze=False)
    for axes, method in zip(grid[0], methods, strict=True):
        part = frame[frame["method"] == method].sort_values("gamma", ascending=False, kind="stable")
        for data, each in part.groupby("data", sort=False):
            width = {"linewidth": 2.2} if data == MEAN else {"linewidth": 0.7, "alpha": 0.45, "marker": ""}
            axes.plot([f"{g:g}" for g in each["gamma"]], each["info_gain_raw"], **{**STYLES[method], **width})
            if each["paper"].notna().any():
                style = {"color": "#555555", "marker": "x", "linestyle": ":", "linewidth": 1}
                axes.plot([f"{g:g}" for g in each["gamma"]], each["paper"], **style)
                label, start = f"{data} (paper)", (0, each["paper"].iloc[0])
                axes.annotate(label, start, (4, 5), textcoords="offset points", fontsize=7, color="#555555")
        axes.set_title(NAMES[method], fontsize=9)
        axes.set_xlabel("γ")
    grid[0][0].set_ylabel("info-gain (raw)")
    return _tidy(figure)


def case_study(result: Result) -> Figure:
    """LIME's weights and GRACE's changes for the patient, side by side."""
    reasons, changes = result["lime"]["reasons"], result["grace"]["search"]["changes"]
    label, other = result["class"], result["contrast"]["search"]
    figure = _figure(10.5, 3.6)
    left, right = figure.subplots(1, 2)
    lines = list(range(len(reasons)))
    left.barh(lines, [r["weight"] for r in reasons], color=[FOR if r["weight"] > 0 else AGAINST for r in reasons])
    left.set_yticks(lines, [r["inside"] for r in reasons])
    left.invert_yaxis()
    left.axvline(0, color="#333333", linewidth=0.8)
    left.set_xlabel(f"weight: against (−) or for (+) {label}")
    left.set_title(f"LIME: what speaks for {label} (p = {result['probability']:.2f})", fontsize=10)
    for line, change in enumerate(changes):
        low, high = result["ranges"][change["feature"]]
        right.plot([low, high], [line, line], color="#cccccc", linewidth=6, solid_capstyle="round", zorder=1)
        right.annotate(
            "",
            (change["new"], line),
            (change["old"], line),
            arrowprops={"arrowstyle": "->", "color": "#333333", "lw": 1.5},
        )
        right.plot(change["old"], line, marker="o", color=FOR, markersize=10, linestyle="none", label=f"is: {label}")
        right.plot(
            change["new"], line, marker="D", color=AGAINST, markersize=9, linestyle="none", label=f"would be: {other}"
        )
        for value in (change["old"], change["new"]):
            right.annotate(f"{value:g}", (value, line), (0, 9), textcoords="offset points", ha="center", fontsize=9)
    right.set_yticks(range(len(changes)), [c["feature"].replace("_", " ") for c in changes])
    right.set_ylim(len(changes) - 0.25, -0.5)
    right.set_xlabel("value, on its range")
    handles, names = right.get_legend_handles_labels()
    right.legend(handles[:2], names[:2], fontsize=8, loc="lower right", frameon=False)
    right.set_title(f"GRACE: with these changes it would be {other}", fontsize=10)
    return _tidy(figure)


def reader(frame: pd.DataFrame) -> Figure:
    """How often a simulated reader changes the class, and how well it predicts the effect of other edits."""
    over = frame[frame["data"] == MEAN].reset_index(drop=True)
    figure = _figure(10.5, 0.36 * len(over) + 1.5)
    left, right = figure.subplots(1, 2, sharey=True)
    lines = list(over.index)
    kinds = [(m, p) in TEXT_ONLY for m, p in zip(over["method"], over["policy"], strict=True)]
    left.barh(lines, over["flipped"], color=["#0072b2" if k else "#9cc9e3" for k in kinds])
    for line, share, moved in zip(lines, over["flipped"], over["moved"], strict=True):
        left.annotate(f"{share:.2f} by {moved:.1f} features", (1.03, line), va="center", fontsize=8)
    for method, share in paper.PEOPLE.items():  # people saw the values that GRACE names, and the edges that LIME does
        first = next((i for i in lines if over["method"][i] == method), None)
        if first is not None:
            label = "people, in the paper" if method == "grace" else None
            left.plot(share, first, marker="D", color="#d55e00", markersize=9, linestyle="none", label=label)
    left.legend(fontsize=8, frameon=False, loc="lower right")
    left.set_yticks(lines, [f"{READERS[m]}, {p}" for m, p in zip(over["method"], over["policy"], strict=True)])
    left.invert_yaxis()
    left.set_xlim(0, 1.45)
    left.set_xticks([0, 0.25, 0.5, 0.75, 1])
    left.set_title("Simulated round trip: share of rows whose class changes\n(dark: by the text alone)", fontsize=9)
    for column, name, style in (("forward_any", "any edits", "gradient"), ("forward_own", "named features", "local")):
        right.plot(over[column], lines, label=name, **{**STYLES[style], "linestyle": "none"})
    right.axvline(0.5, color="#777777", linewidth=0.8, linestyle=":")
    right.set_xlim(0.4, 1.02)
    right.set_title("Simulated forecast of other edits: share right\n(guessing: 0.5)", fontsize=9)
    right.legend(fontsize=8, frameon=False, loc="lower right")
    return _tidy(figure)


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise GraceError(f"figures need matplotlib: {pip_install('plot')}") from reason
    return Figure(figsize=(width, height), layout="constrained")


def _tidy(figure: Figure) -> Figure:
    for axes in figure.axes:
        _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both", alpha=0.2)
    axes.set_axisbelow(True)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and SVG, atomically."""
    import matplotlib as mpl

    for suffix, stamp in ((".png", None), (".svg", {"Date": None})):
        target = path.with_suffix(suffix)
        with atomic_replace(target) as fresh, mpl.rc_context({"svg.hashsalt": "grace", "svg.fonttype": "none"}):
            figure.savefig(fresh, format=suffix[1:], dpi=150, metadata=stamp)
