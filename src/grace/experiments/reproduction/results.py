"""Writes the stored results of a plan as tables, figures and a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.experiments.reproduction import figures, page, tables
from grace.experiments.reproduction.plan import Plan, Store
from grace.schema.files import escape_formulas, write_text

BRIEF = (0, 1, 3, 4, 5, 7, 8)  # columns of the readers' table in the summary


class Reproduction:
    """The results of a plan that are stored in a folder. `unavailable` has a sentence for each missing package."""

    def __init__(self, plan: Plan, out: str | Path, unavailable: list[str] | None = None) -> None:
        self.plan, self.folder, self.unavailable = plan, Path(out), unavailable or []
        self.results = Store(out, plan).results()
        self.frames = tables.tables(self.results)

    def write(self) -> list[str]:
        """CSV files, reproduction.md, reproduction.html and the figures; returns why figures cannot be drawn."""
        self.folder.mkdir(parents=True, exist_ok=True)
        failures = []
        for name, frame in self.frames.items():
            write_text(self.folder / f"{name}.csv", escape_formulas(frame).to_csv(index=False, float_format="%.6g"))
        try:
            figures.draw(self.frames, self._case_study(), self.folder)
        except GraceError as reason:
            failures.append(f"{reason}, then run the same command again")
        write_text(self.folder / "reproduction.md", page.markdown(self.frames, self.notes()))
        write_text(self.folder / "reproduction.html", page.page(self.frames, self.notes(), self.folder))
        if "case-study" in self.frames:
            write_text(self.folder / "case-study.txt", self.case_study())
        return failures

    def notes(self) -> list[str]:
        """Sentences about the runs, and what is missing."""
        names = ", ".join(t.name for t in self.plan.tables)
        seeds = "1 run" if self.plan.runs == 1 else f"{self.plan.runs} runs"
        out = [f"{seeds} on {names}. Figures beside them are those of Le, Wang and Lee (KDD 2020)."]
        missing = len(self.plan.units()) - len(self.results)
        if missing:
            out.append(f"{missing} of {len(self.plan.units())} results are missing.")
        return out + [f"{line}." for line in self.unavailable]

    def case_study(self) -> str:
        """The texts of LIME and GRACE about the paper's patient, for each run."""
        lines = []
        for row in self.frames["case-study"].to_dict("records"):
            head = f"run {row['run']}, {row['method']} ({row['class']}, p = {row['probability']:.3f})"
            lines.append(f"{head}: {row['text']}\n")
        return "\n".join(lines)

    def to_json(self) -> str:
        """All tables as JSON records, with null for NaN."""
        out: dict[str, Any] = {name: json.loads(frame.to_json(orient="records")) for name, frame in self.frames.items()}
        return json.dumps({"said": self.notes(), **out}, ensure_ascii=False, indent=1)

    def summary(self) -> list[page.Block]:
        """The main results, for a terminal."""
        out: list[page.Block] = []
        if "table2" in self.frames:
            _, heads, lines = page.blocks("table2", self.frames["table2"])[0]
            out.append(("Accuracy", heads[:6], [line[:6] for line in lines]))
        if "table3" in self.frames:
            out.append(page.over_tables(self.frames["table3"]))
        if "reader" in self.frames:
            _, heads, lines = page.blocks("reader", self.frames["reader"])[0]
            out.append((page.TITLES["reader"], [heads[i] for i in BRIEF], [[line[i] for i in BRIEF] for line in lines]))
        return out

    def _case_study(self) -> Any:
        """The case study of the first run."""
        runs = {unit.run: result for unit, result in self.results.items() if unit.part == "case-study"}
        return runs[min(runs)] if runs else None
