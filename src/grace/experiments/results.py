"""Tables of a benchmark: measures, their ratios to the best peer, and comparisons of two methods row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grace.experiments.evaluate import HIGHER, LOWER, MEASURES, Verdict
from grace.pictures.report import report_environment
from grace.schema.files import escape_formulas, write_text

REFERENCE = "search"
MIN_VALID = 0.5  # share of valid answers from which on a method is compared by its other measures
TEXT_COLUMNS = {"data", "domain", "method", "measure", "policy", "uses", "text", "other readings", "nearest"}
ROUNDING = 1e-9  # difference of distances that counts as none
FRONT = ("features", "distance", "plausibility", "kept_class")  # measures of the Pareto front


@dataclass(frozen=True)
class Line:
    """The measures of one method on one task, or why it failed."""

    head: Mapping[str, Any]
    ours: bool
    rows: int
    figures: Mapping[str, float] = field(default_factory=dict)
    verdict: Verdict | None = None
    note: str = ""
    failed: str = ""


class Results:
    """The results of a benchmark."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def frame(self) -> pd.DataFrame:
        """One line per table, domain and method: the measures, and the ratio of each to the best peer's."""
        lines = []
        for line in self.lines:
            best = self._best(line)
            entry = {**line.head, "ours": line.ours, "rows": line.rows}
            entry |= {m: line.figures.get(m, float("nan")) for m in MEASURES}
            entry |= {f"{m}_ratio": _ratio(line.figures.get(m), best.get(m)) for m in MEASURES}
            entry["dominated_by"] = " ".join(self.dominated_by(line))
            lines.append({**entry, "note": line.note, "failed": line.failed})
        return pd.DataFrame(lines)

    def dominated_by(self, of: Line) -> list[str]:
        """The methods that dominate this one on the same task: at least as good in all measures of `FRONT`, better in
        one, and with `MIN_VALID` valid answers."""
        if not self._comparable(of):
            return []
        others = [p for p in self._same_task(of) if p is not of and self._comparable(p)]
        rivals = [p for p in others if p.figures["valid"] >= MIN_VALID]
        mine = _losses(of)
        return [str(p.head["method"]) for p in rivals if (_losses(p) <= mine).all() and (_losses(p) < mine).any()]

    @staticmethod
    def _comparable(line: Line) -> bool:
        return not line.failed and bool(np.isfinite(_losses(line)).all())

    def _best(self, of: Line) -> dict[str, float]:
        """The best value of each measure among the peers on the same task."""
        peers = [p.figures for p in self._same_task(of) if not p.ours and not p.failed]
        found = {}
        for measure, (better, _) in MEASURES.items():
            usable = [f[measure] for f in peers if measure == "valid" or f["valid"] >= MIN_VALID]
            usable = [v for v in usable if np.isfinite(v)]
            if usable:
                found[measure] = max(usable) if better == HIGHER else min(usable)
        return found

    def _same_task(self, of: Line) -> list[Line]:
        keys = ("data", "domain", "seed")
        return [p for p in self.lines if all(p.head[k] == of.head[k] for k in keys)]

    def pairs(self) -> pd.DataFrame:
        """The search compared with each other method, on rows where both answers are valid: how often it changes fewer
        or more features, and the mean distances where both change equally many."""
        lines = []
        for search in self.lines:
            if search.head["method"] != REFERENCE or search.verdict is None:
                continue
            for other in self._same_task(search):
                if other is search or other.verdict is None:
                    continue
                entry = {**search.head, "method": other.head["method"]}
                lines.append({**entry, **compare(search.verdict, other.verdict)})
        return pd.DataFrame(lines)

    def markdown(self) -> str:
        """All tables as Markdown."""
        parts = ["# Benchmark\n", legend(), ""]
        for title, heads, rows, remarks in self.tables():
            parts += [f"## {title}\n", markdown_table(heads, rows), "", *(f"- {text}" for text in remarks), ""]
        overall = over_tasks(self.frame())
        if len(overall):
            parts += ["\n## Over all tasks\n", OVERALL, "", markdown_table(*_cells(overall)), ""]
        pairs = self.pairs()
        if len(pairs):
            parts += ["\n## The search beside the others, row by row\n", PAIRS, "", markdown_table(*_cells(pairs)), ""]
        return "\n".join(parts)

    def html(self) -> str:
        """All tables as an HTML page."""
        sections = [
            (title, words, *_cells(frame))
            for title, words, frame in (
                ("Over all tasks", OVERALL, over_tasks(self.frame())),
                ("The search beside the others, row by row", PAIRS, self.pairs()),
            )
            if len(frame)
        ]
        ours = frozenset(str(line.head["method"]) for line in self.lines if line.ours)
        lines = legend().splitlines()
        template = report_environment("grace.experiments").get_template("benchmark.html")
        return template.render(
            title="Benchmark",
            tasks=self.tables(),
            sections=sections,
            ours=ours,
            meanings=[line.split("**")[1:] for line in lines if line.startswith("- ")],
            rest=" ".join(line for line in lines if not line.startswith("- ")).strip(),
        )

    def to_json(self) -> str:
        """Measures and pairs as JSON records, with null for NaN."""
        tables = {"results": self.frame(), "pairs": self.pairs()}
        return json.dumps({k: json.loads(t.to_json(orient="records")) for k, t in tables.items()}, indent=1)

    def write(self, out: str | Path) -> None:
        """Write results.csv, pairs.csv, results.md and results.html to a folder."""
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "results.csv", escape_formulas(self.frame()).to_csv(index=False, float_format="%.6g"))
        write_text(folder / "pairs.csv", escape_formulas(self.pairs()).to_csv(index=False, float_format="%.6g"))
        write_text(folder / "results.md", self.markdown())
        write_text(folder / "results.html", self.html())

    def tables(self) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
        """Per task: a title, column heads, lines of text, and remarks."""
        firsts = [line for line in self.lines if self._same_task(line)[0] is line]
        return [(_title(line), *self._table(line), self._remarks(line)) for line in firsts]

    def _table(self, of: Line) -> tuple[list[str], list[list[str]]]:
        """The measures of a task, each with its ratio to the best peer's."""
        best = self._best(of)
        rows = []
        for line in self._same_task(of):
            cells = [str(line.head["method"])]
            for measure in MEASURES:
                value = line.figures.get(measure)
                ratio = _ratio(value, best.get(measure))
                cells.append(number(value) + (f" ({number(ratio)}×)" if np.isfinite(ratio) else ""))
            rows.append(cells)
        return ["method", *MEASURES], rows

    def _remarks(self, of: Line) -> list[str]:
        remarks = []
        for line in self._same_task(of):
            if line.failed:
                remarks.append(f"{line.head['method']} failed: {line.failed}")
            elif line.note:
                remarks.append(f"{line.head['method']}: {line.note}")
        better = {str(p.head["method"]): self.dominated_by(p) for p in self._same_task(of) if self._comparable(p)}
        if len(better) > 1:
            front = ", ".join(name for name, others in better.items() if not others)
            remarks.append(f"On the front of {', '.join(FRONT)}: {front}")
            remarks += [f"{name} is dominated by {', '.join(others)}" for name, others in better.items() if others]
        return remarks


def compare(search: Verdict, other: Verdict) -> dict[str, float]:
    """Two methods on the rows where both answers are valid."""
    count = min(len(search.valid), len(other.valid))
    both = search.valid[:count] & other.valid[:count]
    mine, theirs = search.features[:count][both], other.features[:count][both]
    equal = mine == theirs
    near, far = search.distance[:count][both][equal], other.distance[:count][both][equal]
    found: dict[str, float] = {"both": int(both.sum()), "fewer": _mean(mine < theirs), "more": _mean(mine > theirs)}
    found |= {"equal": int(equal.sum()), "distance_search": _mean(near), "distance_method": _mean(far)}
    return {**found, "ratio": _ratio(_mean(near), _mean(far)), "not_farther": _mean(near <= far + ROUNDING)}


def over_tasks(frame: pd.DataFrame) -> pd.DataFrame:
    """The measures of each method divided by those of the search on the same task: geometric means over the tasks for
    which both are known. `frame` is `Results.frame()`, or results.csv."""
    tasks = ["data", "domain", "seed"]
    search = frame[frame["method"] == REFERENCE].set_index(tasks)[list(MULTIPLES)]
    lines = []
    for method, part in frame[frame["method"] != REFERENCE].groupby("method", sort=False):
        ratios = (part.set_index(tasks)[list(MULTIPLES)] / search).dropna(how="all")
        if len(ratios):
            means = np.exp(np.log(ratios.where(ratios > 0)).mean())
            lines.append({"method": method, "tasks": len(ratios), **means.to_dict()})
    return pd.DataFrame(lines)


MULTIPLES = ("features", "distance", "ms", "batch_ms")
OVERALL = (
    "Means over the valid answers of a task as multiples of the search's on that task; of these, the geometric mean "
    "over tasks, so that no single table decides."
)
PAIRS = (
    "Rows where both answers are valid (both): the share on which the search changes fewer features, and more; on rows "
    "where both change equally many (equal), the mean distance of the search and of the other method, their ratio, "
    "and the share of rows on which the search is not farther."
)


def legend() -> str:
    lines = [f"- **{name}**: {meaning} ({better} is better)" for name, (better, meaning) in MEASURES.items()]
    return "\n".join(
        [*lines, f"\nIn brackets: the ratio to the best peer (one with at least {MIN_VALID:.0%} valid answers)."]
    )


def number(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    if 0 < value < 0.001:
        return "<0.001"
    return f"{value:.0f}" if value >= 100 or value == round(value) else f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def _title(line: Line) -> str:
    return f"{line.head['data']}, {line.head['domain']} domain, seed {line.head['seed']}, {line.rows} rows"


def _losses(line: Line) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The measures of the front, negated where higher is better."""
    values = [line.figures.get(m, float("nan")) * (1 if MEASURES[m][0] == LOWER else -1) for m in FRONT]
    return np.array(values)


def _ratio(value: float | None, best: float | None) -> float:
    if value is None or best is None or not np.isfinite(value) or not np.isfinite(best) or best == 0:
        return float("nan")
    return value / best


def _mean(values: np.ndarray[Any, np.dtype[Any]]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    rows = [[v if isinstance(v, str) else number(float(v)) for v in row] for row in frame.itertuples(index=False)]
    return [str(c) for c in frame.columns], rows


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; text is aligned to the left, numbers to the right."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    rule = "|" + "|".join("---" if h in TEXT_COLUMNS else "---:" for h in heads) + "|"
    return "\n".join([line(heads), rule, *map(line, rows)])
