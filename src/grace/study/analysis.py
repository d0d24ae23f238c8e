"""Tests of the paper's three hypotheses, H1, H2 and H3, and a figure of them.

The paper's t-tests are Student's, with pooled variance: its degrees of freedom are n + m - 2, and 15 of 20 against
3 of 19 right answers give its t of 4.4875, where Welch's would be 4.5075. Both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grace.errors import GraceError, pip_install
from grace.study import power, statistics
from grace.study.design import METHODS, MINUTES
from grace.study.responses import Response
from grace.study.statistics import Effect, Group, Test

ALPHA = 0.05
MAX_DETECTABLE = 1.0  # standard deviations; groups that are too small to detect such an effect allow no conclusion

CLAIMS = {
    "H1": ("intuitive", "GRACE is more intuitive and friendly than LIME"),
    "H2": ("comprehensible", "GRACE is more comprehensible than LIME"),
    "H3": ("correct", "GRACE leads to more accurate actions than LIME"),
}


@dataclass(frozen=True)
class Exclusion:
    """An answer that is not counted, and the reason."""

    participant: str
    method: str
    task: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One hypothesis: values and statistics of both groups, tests, effect sizes, and a verdict as text."""

    name: str
    claim: str
    measure: str
    values: dict[str, list[float]]
    groups: dict[str, Group]
    student: Test | None
    welch: Test | None
    robust: Test | None
    effects: list[Effect]
    detectable: float | None
    holm: float | None = None
    verdict: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of one or more studies."""

    received: int
    alpha: float
    hypotheses: list[Hypothesis]
    exclusions: list[Exclusion]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        return dict(_json_safe(asdict(self)))


def analyse(
    responses: Sequence[Response],
    *,
    alpha: float = ALPHA,
    min_minutes: float | None = None,
    attention: bool = True,
    picture: bool | None = None,
) -> Report:
    """Test each hypothesis for which there are answers. Answers given faster than the limit (`min_minutes`, else the
    study's, else the paper's) or with a failed attention check are excluded, and listed."""
    if not 0 < alpha < 1:
        raise GraceError(f"alpha={alpha}: it must lie between 0 and 1")
    selected = [r for r in responses if picture is None or r.picture is picture]
    if not selected:
        raise GraceError("there are no answers to analyse")
    checked = [(r, _exclusion(r, min_minutes, attention)) for r in selected]
    exclusions = [reason for _, reason in checked if reason is not None]
    valid = [r for r, reason in checked if reason is None]
    results = [_hypothesis(name, valid, alpha) for name in CLAIMS if any(_value(r, name) is not None for r in selected)]
    if not results:
        raise GraceError(
            "the answers have no ratings (intuitive, comprehensible) and no correct; nothing can be tested"
        )
    tested = [h for h in results if h.student is not None]
    adjusted = statistics.holm([h.student.p for h in tested if h.student is not None])
    holm = {h.name: p for h, p in zip(tested, adjusted, strict=True)}
    hypotheses = [replace(h, holm=holm.get(h.name), verdict=_verdict(h, holm.get(h.name), alpha)) for h in results]
    notes = _notes(selected, valid, hypotheses)
    return Report(received=len(selected), alpha=alpha, hypotheses=hypotheses, exclusions=exclusions, notes=notes)


def _exclusion(r: Response, min_minutes: float | None, attention: bool) -> Exclusion | None:
    least = min_minutes if min_minutes is not None else MINUTES[r.task] if r.min_minutes is None else r.min_minutes
    if r.minutes is not None and r.minutes < least:
        reason = f"too fast: {r.minutes:.2f} of at least {least:g} minutes"
    elif attention and r.attention is False:
        reason = "the attention check was answered wrongly"
    else:
        return None
    return Exclusion(r.participant, r.method, r.task, reason)


def _value(r: Response, name: str) -> float | None:
    value = getattr(r, CLAIMS[name][0])
    return None if value is None else float(value)


def _hypothesis(name: str, valid: Iterable[Response], alpha: float) -> Hypothesis:
    measure, claim = CLAIMS[name]
    values: dict[str, list[float]] = {method: [] for method in METHODS}
    for r in valid:
        value = _value(r, name)
        if value is not None:
            values[r.method].append(value)
    a, b = values["grace"], values["lime"]
    proportions = measure == "correct"
    if proportions:
        robust = statistics.fisher(a, b)
        effects = [statistics.risk_difference(a, b), statistics.odds_ratio(a, b), statistics.cohen_d(a, b)]
    else:
        robust = statistics.mann_whitney(a, b)
        effects = [statistics.cohen_d(a, b), statistics.hedges_g(a, b), statistics.superiority(a, b)]
    return Hypothesis(
        name=name,
        claim=claim,
        measure=measure,
        values=values,
        groups={method: statistics.describe(v, proportions=proportions) for method, v in values.items() if v},
        student=statistics.t_test(a, b),
        welch=statistics.t_test(a, b, pooled=False),
        robust=robust,
        effects=effects,
        detectable=power.detectable(len(a), len(b), alpha=alpha) if min(len(a), len(b)) >= 2 else None,
    )


def _verdict(h: Hypothesis, p: float | None, alpha: float) -> str:
    n, m = (len(h.values[method]) for method in METHODS)
    if h.detectable is None:
        return f"No conclusion: {n} and {m} valid answers, and a comparison needs at least two of each."
    if h.detectable > MAX_DETECTABLE:
        return (
            f"No conclusion: {n} and {m} valid answers are too few. An effect would have to exceed "
            f"{h.detectable:.1f} standard deviations to be found with 80 % power."
        )
    if p is None or h.student is None:
        return "No conclusion: all answers are alike, so that there is nothing to compare."
    if p < alpha:
        but = ""
        if h.robust is not None and h.robust.p >= alpha:
            but = f" But {h.robust.name} does not agree (p = {h.robust.p:.3f})."
        return f"Supported: p = {format_p(p)} after Holm's correction, below {alpha:g}.{but}"
    return (
        f"Not shown: p = {format_p(p)} after Holm's correction. That is no proof of equality: effects below "
        f"{h.detectable:.2f} standard deviations are easily missed with {n} and {m} answers."
    )


def _notes(selected: Sequence[Response], valid: Sequence[Response], hypotheses: Sequence[Hypothesis]) -> list[str]:
    notes = []
    if len(hypotheses) > 1:
        notes.append(
            f"{len(hypotheses)} hypotheses are tested at once: verdicts use p-values after Holm's correction, which "
            "keeps the chance of any false finding at alpha."
        )
    received = {method: sum(r.method == method for r in selected) for method in METHODS}
    counted = {method: sum(r.method == method for r in valid) for method in METHODS}
    if all(received.values()):
        lost = {method: 1 - counted[method] / received[method] for method in METHODS}
        if abs(lost["grace"] - lost["lime"]) > 0.1:
            notes.append(
                f"Exclusions differ between the methods (GRACE {lost['grace']:.0%}, LIME {lost['lime']:.0%}); the "
                "groups may no longer be alike."
            )
    if {r.picture for r in valid} >= {True, False}:
        notes.append(
            "Answers with and without pictures are taken together; --picture and --no-picture take them apart."
        )
    if len({r.participant for r in valid}) < len(valid):
        notes.append("Somebody answered more than once; the tests take all answers as independent.")
    return notes


def format_p(p: float) -> str:
    """A p-value as text."""
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.2e}"


def _json_safe(part: Any) -> Any:
    """The value with None instead of NaN and infinity."""
    if isinstance(part, dict):
        return {k: _json_safe(v) for k, v in part.items()}
    if isinstance(part, list | tuple):
        return [_json_safe(v) for v in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part


FORMATS = (".svg", ".png", ".pdf")
COLOURS = {"grace": "#0066a1", "lime": "#b84a00"}
NAMES = {"grace": "GRACE", "lime": "LIME"}
TITLES = {"intuitive": "intuitive and friendly", "comprehensible": "comprehensible", "correct": "accurate actions"}


def draw(report: Report, path: str | Path) -> None:
    """Write a figure of all ratings, the means and their 95 % intervals as SVG, PNG or PDF."""
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
        proportions = h.measure == "correct"
        for x, method in enumerate(METHODS):
            values = np.array(h.values[method])
            if not len(values):
                continue
            group, colour = h.groups[method], COLOURS[method]
            if not proportions:
                jittered = x + rng.uniform(-0.22, 0.22, len(values))
                axes.scatter(jittered, values, s=14, color=colour, alpha=0.35, linewidths=0)
            errors = [[max(0.0, group.mean - group.low)], [max(0.0, group.high - group.mean)]]
            axes.errorbar(x, group.mean, yerr=errors, fmt="o", color=colour, capsize=5, markersize=8, linewidth=2)
        sizes = [f"{NAMES[m]}\nn = {len(h.values[m])}" for m in METHODS]
        axes.set_xticks(range(len(METHODS)), sizes)
        axes.set_xlim(-0.6, len(METHODS) - 0.4)
        axes.set_ylim((-0.03, 1.03) if proportions else (0.5, 10.5))
        axes.set_ylabel("share of right answers" if proportions else "rating, 1 to 10")
        p = "no test" if h.student is None else f"t = {h.student.statistic:.2f}, p = {format_p(h.student.p)}"
        axes.set_title(f"{h.name}: {TITLES[h.measure]}\n{p}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    try:
        with mpl.rc_context({"svg.hashsalt": "grace", "svg.fonttype": "none"}):
            metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}[Path(path).suffix]
            figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as reason:
        raise GraceError(f"{path} cannot be written: {reason.strerror}") from reason
