"""A saved explainer to damage, and what is asked of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

import grace
from grace.schema.schema import Schema


def rows(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "a": rng.normal(0, 2, n).round(2),
            "b": rng.integers(0, 30, n),
            "home": rng.choice(["owned", "rented", "other"], n),
            "grade": rng.choice(["low", "high"], n),
        }
    )
    score = frame["a"] + frame["b"] / 10 - 1.5 + (frame["home"] == "owned") + rng.normal(0, 0.3, n)
    return frame.assign(verdict=np.where(score > 0, "yes", "no"))


@cache
def explainer() -> grace.Explainer:
    """With rules, words in two languages, a cut-off and limits of an expert: whatever a file may hold."""
    frame = rows()
    schema = Schema.infer(frame, "verdict").replace("b", low=0, high=40, unit="years", phrase="the applicant's age")
    schema = schema.with_rules("a <= b + 50", "if home == 'owned' then b >= 0")
    schema = schema.translate("de", {"row": "die Zeile", "features": {"b": {"phrase": "das Alter"}}})
    model = grace.training.fit(frame, "verdict", schema=schema, hidden=(8, 4), max_epochs=30, learning_rate=0.03)
    return grace.Explainer(grace.wrap(model, threshold=0.45), frame, schema=schema)


@cache
def folder() -> Path:
    """The explainer on disk."""
    out = Path(mkdtemp(prefix="hostile-"))
    explainer().save(str(out))
    return out


def asked(found: grace.Explainer) -> None:
    """A row's answer, in words."""
    row = rows(8).drop(columns="verdict").iloc[[5]]
    batch = found.explain(row, missing="fill")
    batch[0].to_json()
