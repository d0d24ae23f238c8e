"""Running the command in tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
from click.testing import CliRunner, Result

from grace.cli import main

TO = ("--target", "risk", "-o")  # and a directory


def run(*args: object, columns: int = 80) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args], env={"COLUMNS": str(columns)}, prog_name="grace")


def succeed(*args: object, **terminal: int) -> Result:
    result = run(*args, **terminal)
    assert result.exit_code == 0, result.output
    return result


def error_of(*args: object, code: int = 1) -> str:
    """The message of a command that has to fail: one line on stderr, after the usage where that was wrong."""
    result = run(*args)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert code == 2 or len(lines) == 1, result.stderr
    assert lines[-1].startswith("Error: ")
    return lines[-1]


def loans(n: int = 160) -> pd.DataFrame:
    """Three classes, of which the category decides much and the numbers the rest."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.integers(10, 90, n) * 100,
            "debt_ratio": rng.uniform(0, 1, n).round(2),
            "home": rng.choice(["owned", "rented"], n),
        }
    )
    score = frame["income"] / 3000 - 2 * frame["debt_ratio"] + (frame["home"] == "owned")
    return frame.assign(risk=np.select([score < 0.4, score < 1.4], ["high", "medium"], "low"))
