"""The answers as a figure: every rating, the means and their 95 % intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from grace.errors import GraceError, pip_install
from grace.study.analysis import Report, shown
from grace.study.design import METHODS

FORMATS = (".svg", ".png", ".pdf")
COLOURS = {"grace": "#0066a1", "lime": "#b84a00"}
NAMES = {"grace": "GRACE", "lime": "LIME"}
TITLES = {"intuitive": "intuitive and friendly", "comprehensible": "comprehensible", "correct": "accurate actions"}


def draw(report: Report, path: str | Path) -> None:
    """Write the figure as SVG, PNG or PDF."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise GraceError(f"a figure needs matplotlib: {pip_install('plot')}") from reason
    if Path(path).suffix not in FORMATS:
        raise GraceError(f"{path}: the name must end in {', '.join(FORMATS)}")
    figure = Figure(figsize=(2.6 * len(report.hypotheses) + 0.6, 3.6), layout="constrained")
    panels = figure.subplots(1, len(report.hypotheses), squeeze=False)[0]
    rng = np.random.default_rng(0)
    for axes, h in zip(panels, report.hypotheses, strict=True):
        shares = h.measure == "correct"
        for x, method in enumerate(METHODS):
            values = np.array(h.values[method])
            if not len(values):
                continue
            group, colour = h.groups[method], COLOURS[method]
            if not shares:
                aside = x + rng.uniform(-0.22, 0.22, len(values))
                axes.scatter(aside, values, s=14, color=colour, alpha=0.35, linewidths=0)
            reach = [[max(0.0, group.mean - group.low)], [max(0.0, group.high - group.mean)]]
            axes.errorbar(x, group.mean, yerr=reach, fmt="o", color=colour, capsize=5, markersize=8, linewidth=2)
        sizes = [f"{NAMES[m]}\nn = {len(h.values[m])}" for m in METHODS]
        axes.set_xticks(range(len(METHODS)), sizes)
        axes.set_xlim(-0.6, len(METHODS) - 0.4)
        axes.set_ylim((-0.03, 1.03) if shares else (0.5, 10.5))
        axes.set_ylabel("share of right answers" if shares else "rating, 1 to 10")
        p = "no test" if h.student is None else f"t = {h.student.statistic:.2f}, p = {shown(h.student.p)}"
        axes.set_title(f"{h.name}: {TITLES[h.measure]}\n{p}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    try:
        with mpl.rc_context({"svg.hashsalt": "grace", "svg.fonttype": "none"}):
            stamp = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}[Path(path).suffix]
            figure.savefig(path, dpi=150, metadata=stamp)
    except OSError as reason:
        raise GraceError(f"{path} cannot be written: {reason.strerror}") from reason
