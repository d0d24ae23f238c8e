"""The audit of answers and sentences: it finds nothing where nothing is wrong, and what is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import grace
from explained import explainer_of

SCRIPT = importlib.util.spec_from_file_location("audit", Path(__file__).parents[2] / "benchmarks" / "audit.py")
audit = importlib.util.module_from_spec(SCRIPT)
SCRIPT.loader.exec_module(audit)
EXPLAIN = grace.Explainer.explain


def counted(name: str = "cancer95", rows: int = 60, **how: Any) -> dict[str, Any]:
    explainer, test = explainer_of(name)
    test = test.drop(columns=explainer.schema.target).head(rows)
    return audit.answers(explainer, test, **{"method": "search", "domain": 0.9, **how})


@pytest.mark.parametrize("name", ["cancer95", "german_credit"])
@pytest.mark.parametrize("method", ["search", "gradient", "local", "nearest", "deepfool"])
def test_nothing_is_false(name: str, method: str) -> None:
    counts = counted(name, 30, method=method)
    assert counts["checked"] > 10
    assert all(counts[check] == 0 for check in ("false", *audit.CHECKS))


def test_sentences_are_read_back() -> None:
    explainer, test = explainer_of("cancer95")
    counts = audit.sentences(explainer, test.drop(columns=explainer.schema.target), 2)
    assert counts["rows"] == 2
    assert counts["checked"] > 60
    assert counts["false"] == 0


def altered(batch: grace.Explanations, contrast: np.ndarray, **parts: Any) -> grace.Explanations:
    """The batch with other contrastive rows than were found."""
    batch.answers = batch.answers.with_contrast(contrast, **parts)
    return batch


def beyond_k(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    return EXPLAIN(explainer, rows, **{**how, "method": "deepfool"})


def beyond_gamma(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    return EXPLAIN(explainer, rows, **{**how, "gamma": 1.0, "method": "local"})


def beyond_range(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    batch = EXPLAIN(explainer, rows, **how)
    return altered(batch, np.where(batch.answers.changed, batch.answers.contrast + 0.5, batch.answers.contrast))


def not_flipped(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    batch = EXPLAIN(explainer, rows, **how)
    return altered(batch, batch.answers.rows)


def with_one_more(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    batch = EXPLAIN(explainer, rows, **how)
    more = batch.answers.contrast.copy()
    same = more[:, 0] == batch.answers.rows[:, 0]
    more[:, 0] = np.where(same & batch.success, np.where(more[:, 0] > 5, more[:, 0] - 1, more[:, 0] + 1), more[:, 0])
    return altered(batch, more)


def forgetful(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    batch = EXPLAIN(explainer, rows, **how)
    return altered(batch, batch.answers.rows, success=np.zeros(len(batch), dtype=bool))


def touching(explainer: grace.Explainer, rows: pd.DataFrame, **how: Any) -> grace.Explanations:
    """Cells that differ though nothing is said about them."""
    batch = with_one_more(explainer, rows, **how)
    followed = np.arange(batch.answers.rows.shape[1]) == np.zeros((len(batch), 1))
    return altered(batch, batch.answers.contrast, following=followed)


@pytest.mark.parametrize(
    ("check", "explain"),
    [
        ("features", beyond_k),
        ("gamma", beyond_gamma),
        ("domain", beyond_range),
        ("flip", not_flipped),
        ("irreducible", with_one_more),
        ("lost", forgetful),
        ("untouched", touching),
    ],
)
def test_what_is_wrong_is_found(check: str, explain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grace.Explainer, "explain", explain)
    if check == "gamma":
        monkeypatch.setattr(audit, "GAMMA", 0.05)
    counts = counted()
    assert counts[check] > 0
    assert counts["false"] > 0
