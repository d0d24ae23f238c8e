"""The plan of a reproduction (tables, runs and parts), and its results on disk: one JSON file per table, run and part,
with a hash of what the result depends on."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grace import __version__, datasets
from grace.datasets import Table
from grace.errors import GraceError
from grace.schema.files import write_text

PARTS = ("table2", "table3", "figure-fidelity", "figure-k", "figure-gamma", "case-study", "reader")
READERS = ("reader-grace", "reader-lime", "reader-shap", "reader-none")
CASE_STUDY_TABLE = "cancer95"
Result = Mapping[str, Any]
"""The result of a unit as JSON."""

SWEEP, ROWS = ("sweep_rows", "sweep_cells"), ("reader_rows", "reader_cells")
DEPENDS_ON = {
    "figure-fidelity": SWEEP,
    "figure-k": SWEEP,
    "figure-gamma": SWEEP,
    "case-study": ("lime_samples",),
    "reader-lime": (*ROWS, "lime_samples"),
    "reader-shap": (*ROWS, "shap_samples"),
    "reader-grace": ROWS,
    "reader-none": ROWS,
}
"""The sizes that the result of a part depends on."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of test rows on which the effects of K and γ are measured (`sweep_rows`) and that a simulated reader gets
    (`reader_rows`), both limited by cells (rows times features), and of samples of LIME and SHAP."""

    sweep_rows: int = 500
    reader_rows: int = 20
    lime_samples: int = 5000
    shap_samples: int = 1000
    sweep_cells: int = 20_000
    reader_cells: int = 2000

    def rows_for(self, features: int) -> int:
        """The number of rows that a reader gets; LIME takes seconds for each row of a wide table."""
        return min(self.reader_rows, max(1, self.reader_cells // features))

    def sweep_for(self, features: int) -> int:
        """The number of test rows on which the effects of K and γ are measured."""
        return min(self.sweep_rows, max(1, self.sweep_cells // features))


@dataclass(frozen=True)
class Unit:
    """One stored result: a part for one table and run."""

    data: str
    run: int
    part: str

    @property
    def name(self) -> str:
        return f"{slug(self.data)}-{self.run}-{self.part}"


@dataclass(frozen=True)
class Plan:
    """The tables, the number of runs of each, and the parts of the reproduction."""

    tables: tuple[Table, ...]
    runs: int
    parts: tuple[str, ...]
    sizes: Sizes = Sizes()

    def units(self) -> list[Unit]:
        return [Unit(t.name, run, part) for t in self.tables for run in range(self.runs) for part in self._stored(t)]

    def _stored(self, table: Table) -> list[str]:
        """The parts of a table as they are stored: one per simulated reader, as packages of some may be missing."""
        out: list[str] = []
        for part in self.parts:
            if part == "reader":
                out += READERS
            elif part != "case-study" or table.name == CASE_STUDY_TABLE:
                out.append(part)
        return out

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)


def slug(name: str) -> str:
    """A name with the characters that a file name may have."""
    return re.sub(r"[^\w.-]+", "_", name)


def plan_of(
    data: Sequence[str | Table] = datasets.PAPER,
    runs: int = 10,
    only: Sequence[str] = PARTS,
    sizes: Sizes | None = None,
) -> Plan:
    """A plan with these tables, number of runs and parts, or an error."""
    if runs < 1:
        raise GraceError(f"runs={runs}: it must be at least 1")
    for part in only:
        if part not in PARTS:
            raise GraceError(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    tables = tuple(datasets.load(d) if isinstance(d, str) else d for d in data)
    if len({t.name for t in tables}) < len(tables):
        raise GraceError("a table is named twice; name each once")
    return Plan(tables, runs, tuple(p for p in PARTS if p in only), sizes or Sizes())


class Store:
    """The results of a plan in a folder. A result is valid for the table's rows and schema and the sizes it was made
    with."""

    def __init__(self, out: str | Path, plan: Plan) -> None:
        self.folder, self.plan = Path(out), plan
        contents = {t.name: t.frame.to_csv(index=False) + t.declared.to_json() for t in plan.tables}
        self._hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in contents.items()}

    def get(self, unit: Unit) -> Result | None:
        """The result of a unit; None if it is missing, damaged or no longer valid."""
        try:
            entry = json.loads(self._file(unit).read_text(encoding="utf-8"))
            return dict(entry["figures"]) if entry["stamp"] == self._stamp(unit) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, unit: Unit, result: Result) -> None:
        """Write a result atomically, with the versions that made it."""
        from torch import __version__ as torch_version

        made = {"grace": __version__, "python": platform.python_version(), "torch": torch_version}
        made["machine"] = platform.machine()
        self._subfolder("runs")
        entry = {"stamp": self._stamp(unit), "made": made, "figures": result}
        write_text(self._file(unit), json.dumps(entry, ensure_ascii=False, indent=1))

    def network(self, data: str, run: int) -> Path:
        """The folder of the network of a run; it depends on the content of the table."""
        return self._subfolder("networks") / f"{slug(data)}-{run}-{self._hashes[data][:8]}"

    def missing(self) -> list[Unit]:
        return [unit for unit in self.plan.units() if self.get(unit) is None]

    def results(self) -> dict[Unit, Result]:
        every = {unit: self.get(unit) for unit in self.plan.units()}
        return {unit: result for unit, result in every.items() if result is not None}

    def _file(self, unit: Unit) -> Path:
        return self.folder / "runs" / f"{unit.name}.json"

    def _stamp(self, unit: Unit) -> str:
        sizes = asdict(self.plan.sizes)
        settings = {name: sizes[name] for name in DEPENDS_ON.get(unit.part, ())}
        content = json.dumps([self._hashes[unit.data], unit.part, settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def _subfolder(self, name: str) -> Path:
        folder = self.folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise GraceError(f"{folder} cannot be made: {reason.strerror}") from reason
        return folder
