"""A small world for jobs: a network saved by `Explainer.save`, and tables for it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd

from grace import Explainer, training

SRC = Path(__file__).parent.parent / "src"


def loans(n: int, seed: int = 0) -> pd.DataFrame:
    """A number with decimals, a whole number, a category, a flag, and a date."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.uniform(10, 90, n).round(2),
            "years": rng.integers(0, 40, n),
            "home": rng.choice(["owned", "rented", "none"], n),
            "member": rng.integers(0, 2, n).astype(bool),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
        }
    )


def saved_explainer(folder: Path) -> Explainer:
    frame = loans(400)
    score = frame["income"] / 30 + frame["years"] / 20 + (frame["home"] == "owned") + frame["member"]
    frame["risk"] = np.select([score < 2.2, score < 3.6], ["high", "medium"], "low")
    explainer = Explainer(training.fit(frame, "risk", hidden=(12,), max_epochs=60), frame, target="risk")
    explainer.save(str(folder))
    return explainer


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a job, to be compared byte for byte."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


PROGRAM = f"import sys; sys.path.insert(0, {str(SRC)!r}); from grace.cli import main; main()"


def command(*args: object, program: str = PROGRAM) -> subprocess.Popen[bytes]:
    """`grace explain` in a process of its own."""
    words = [sys.executable, "-c", program, "explain", *map(str, args)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def children(pid: int) -> list[int]:
    """The processes that a process has started, those that they started included."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended meanwhile
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    more = [pid]
    while more:
        more = [p for p, above in parents.items() if above in more]
        found += more
    return found
