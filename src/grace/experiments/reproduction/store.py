"""Results on disk: one JSON file per table, run and part, written whole or not at all."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grace import __version__
from grace.errors import GraceError
from grace.experiments.reproduction.plan import Plan, Unit, marks, slug, stamp
from grace.schema.files import write_text

Figures = Mapping[str, Any]


class Store:
    """The results of a plan in a directory."""

    def __init__(self, out: str | Path, plan: Plan) -> None:
        self.place, self.plan = Path(out), plan
        self._marks = marks(plan)

    def get(self, unit: Unit) -> Figures | None:
        """The figures, if they are there and made from the same rows and settings."""
        try:
            kept = json.loads(self._file(unit).read_text(encoding="utf-8"))
            return dict(kept["figures"]) if kept["stamp"] == self._stamp(unit) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there, or damaged

    def put(self, unit: Unit, figures: Figures) -> None:
        from torch import __version__ as torch_version

        made = {"grace": __version__, "python": platform.python_version(), "torch": torch_version}
        made["machine"] = platform.machine()
        self._folder("runs")
        entry = {"stamp": self._stamp(unit), "made": made, "figures": figures}
        write_text(self._file(unit), json.dumps(entry, ensure_ascii=False, indent=1))

    def network(self, data: str, run: int) -> Path:
        """Where the network of a run is kept. Another table of the same name has another place."""
        return self._folder("networks") / f"{slug(data)}-{run}-{self._marks[data][:8]}"

    def missing(self) -> list[Unit]:
        return [unit for unit in self.plan.units() if self.get(unit) is None]

    def found(self) -> dict[Unit, Figures]:
        kept = {unit: self.get(unit) for unit in self.plan.units()}
        return {unit: figures for unit, figures in kept.items() if figures is not None}

    def _file(self, unit: Unit) -> Path:
        return self.place / "runs" / f"{unit.name}.json"

    def _stamp(self, unit: Unit) -> str:
        return stamp(self._marks[unit.data], unit.part, self.plan.sizes)

    def _folder(self, name: str) -> Path:
        folder = self.place / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise GraceError(f"{folder} cannot be made: {reason.strerror}") from reason
        return folder
