"""The results of a plan: tables, figures and a page from what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.experiments.reproduction import figures, page, tables
from grace.experiments.reproduction.plan import Plan
from grace.experiments.reproduction.store import Store
from grace.schema.files import escape_formulas, write_text

BRIEF = (0, 1, 3, 4, 5, 7, 8)  # columns of the readers' table for a screen


class Reproduction:
    """What the runs of a plan found, as far as they are stored in a directory."""

    def __init__(self, plan: Plan, out: str | Path, wanting: list[str] | None = None) -> None:
        self.plan, self.place, self.wanting = plan, Path(out), wanting or []
        self.found = Store(out, plan).found()
        self.frames = tables.tables(self.found)

    def write(self) -> list[str]:
        """CSV files, reproduction.md, reproduction.html and the figures; returns what could not be made, and why."""
        self.place.mkdir(parents=True, exist_ok=True)
        undone = []
        for name, frame in self.frames.items():
            write_text(self.place / f"{name}.csv", escape_formulas(frame).to_csv(index=False, float_format="%.6g"))
        try:
            figures.draw(self.frames, self._patient(), self.place)
        except GraceError as reason:
            undone.append(f"{reason}, then run the same command again")
        write_text(self.place / "reproduction.md", page.markdown(self.frames, self.said()))
        write_text(self.place / "reproduction.html", page.page(self.frames, self.said(), self.place))
        if "case-study" in self.frames:
            write_text(self.place / "case-study.txt", self.case_study())
        return undone

    def said(self) -> list[str]:
        """What there is, in sentences."""
        names = ", ".join(t.name for t in self.plan.tables)
        seeds = "1 run" if self.plan.runs == 1 else f"{self.plan.runs} runs"
        out = [f"{seeds} on {names}. Figures beside them are those of Le, Wang and Lee (KDD 2020)."]
        missing = len(self.plan.units()) - len(self.found)
        if missing:
            out.append(f"{missing} of {len(self.plan.units())} results are missing.")
        return out + [f"{line}." for line in self.wanting]

    def case_study(self) -> str:
        """What LIME and GRACE say of the paper's patient, run by run."""
        lines = []
        for row in self.frames["case-study"].to_dict("records"):
            head = f"run {row['run']}, {row['method']} ({row['class']}, p = {row['probability']:.3f})"
            lines.append(f"{head}: {row['text']}\n")
        return "\n".join(lines)

    def to_json(self) -> str:
        """All tables, null where there is no figure."""
        out: dict[str, Any] = {name: json.loads(frame.to_json(orient="records")) for name, frame in self.frames.items()}
        return json.dumps({"said": self.said(), **out}, ensure_ascii=False, indent=1)

    def summary(self) -> list[page.Block]:
        """The main figures, small enough for a screen."""
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

    def _patient(self) -> Any:
        """The case study of the first run."""
        runs = {unit.run: f for unit, f in self.found.items() if unit.part == "case-study"}
        return runs[min(runs)] if runs else None
