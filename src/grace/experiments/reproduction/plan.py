"""What is asked for: tables, runs and parts, and what makes a stored result stale."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grace import datasets
from grace.datasets import Table
from grace.errors import GraceError

PARTS = ("table2", "table3", "figure-fidelity", "figure-k", "figure-gamma", "case-study", "reader")
READERS = ("reader-grace", "reader-lime", "reader-shap", "reader-none")
PATIENTS = "cancer95"  # the table of the case study


@dataclass(frozen=True)
class Sizes:
    """How much of it: the test rows that the effects of K and γ are measured on, the rows that a reader gets, and
    the samples of LIME and SHAP. Cells are rows times features, at most. The main table is on all test rows."""

    sweep_rows: int = 500
    reader_rows: int = 20
    lime_samples: int = 5000
    shap_samples: int = 1000
    sweep_cells: int = 20_000
    reader_cells: int = 2000

    def rows_for(self, features: int) -> int:
        """The rows that a reader gets of a table: fewer of a wide one, where LIME takes seconds for each."""
        return min(self.reader_rows, max(1, self.reader_cells // features))

    def sweep_for(self, features: int) -> int:
        """The test rows of a table that the effects of K and γ are measured on."""
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
    """Everything that is asked for."""

    tables: tuple[Table, ...]
    runs: int
    parts: tuple[str, ...]
    sizes: Sizes = Sizes()

    def units(self) -> list[Unit]:
        return [Unit(t.name, run, part) for t in self.tables for run in range(self.runs) for part in self._stored(t)]

    def _stored(self, table: Table) -> list[str]:
        """The parts of a table as they are stored: each method's reader is one, in case a package is missing."""
        out: list[str] = []
        for part in self.parts:
            if part == "reader":
                out += READERS
            elif part != "case-study" or table.name == PATIENTS:
                out.append(part)
        return out

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)


def slug(name: str) -> str:
    """A name that can be part of a file's."""
    return re.sub(r"[^\w.-]+", "_", name)


def plan_of(
    data: Sequence[str | Table] = datasets.PAPER,
    runs: int = 10,
    only: Sequence[str] = PARTS,
    sizes: Sizes | None = None,
) -> Plan:
    """A plan, checked."""
    if runs < 1:
        raise GraceError(f"runs={runs}: it must be at least 1")
    for part in only:
        if part not in PARTS:
            raise GraceError(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    tables = tuple(datasets.load(d) if isinstance(d, str) else d for d in data)
    if len({t.name for t in tables}) < len(tables):
        raise GraceError("a table is named twice; name each once")
    return Plan(tables, runs, tuple(p for p in PARTS if p in only), sizes or Sizes())


def marks(plan: Plan) -> dict[str, str]:
    """For each table, what changes with its rows or its schema."""
    out = {}
    for table in plan.tables:
        text = table.frame.to_csv(index=False) + table.declared.to_json()
        out[table.name] = hashlib.sha256(text.encode()).hexdigest()
    return out


def settings(part: str, sizes: Sizes) -> dict[str, Any]:
    """What a part depends on beside its rows: a result that was made with others is made again."""
    all_ = asdict(sizes)
    names = {
        "figure-fidelity": ["sweep_rows", "sweep_cells"],
        "figure-k": ["sweep_rows", "sweep_cells"],
        "figure-gamma": ["sweep_rows", "sweep_cells"],
        "case-study": ["lime_samples"],
        "reader-lime": ["reader_rows", "reader_cells", "lime_samples"],
        "reader-shap": ["reader_rows", "reader_cells", "shap_samples"],
        "reader-grace": ["reader_rows", "reader_cells"],
        "reader-none": ["reader_rows", "reader_cells"],
    }
    return {name: all_[name] for name in names.get(part, [])}


def stamp(mark: str, part: str, sizes: Sizes) -> str:
    said = json.dumps([mark, part, settings(part, sizes)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
