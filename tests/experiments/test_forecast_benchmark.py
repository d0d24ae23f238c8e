"""The benchmark of forecasts: its readers on a model whose answers are known, and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FRAME = pd.DataFrame(np.random.default_rng(2).normal(size=(300, 4)).round(2), columns=list("abcd"))


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from forecast_readers import Setting

    layer = nn.Linear(4, 2).double()
    layer.weight.data = torch.tensor([[0.0, 0, 0, 0], [2.0, -1, 1, 0]], dtype=torch.float64)
    layer.bias.data = torch.tensor([0.0, -0.5037], dtype=torch.float64)
    train = FRAME.assign(kind=np.where(FRAME["a"] > 0, "yes", "no"))
    explainer = grace.Explainer(grace.wrap(layer, classes=["no", "yes"], outputs="logits"), train, target="kind")
    assert explainer.background_rows is not None
    return Setting.of(explainer, explainer.background_rows[:4], seed=0)


def shares(setting: object, reader: str, module: str = "forecast_readers", *args: object) -> dict[str, float]:
    """The share of right forecasts of each policy, over all edits of all rows."""
    import importlib

    from grace.explain.scorecards.edits import Draw

    made = getattr(importlib.import_module(module), reader)(setting, *args)
    edits = Draw.of(setting.pool, 300, 9).applied(setting.rows)
    out = {}
    for policy, forecast in made.items():
        right = [
            forecast(i, edits[i]) == setting.predict_proba(edits[i]).argmax(axis=1) for i in range(len(setting.rows))
        ]
        out[policy] = float(np.mean(right))
    return out


def test_the_scorecard_of_a_linear_model_is_always_right_and_others_are_not(setting: object) -> None:
    from forecast_readers import cards

    assert shares(setting, "of_cards", "forecast_readers", cards(setting, 5))["the largest sum"] == 1
    for reader in ("nothing", "contrast"):
        ((_, share),) = shares(setting, reader).items()
        assert 0.5 < share < 1


def test_a_single_change_is_forecast_by_the_reasons_exactly(setting: object) -> None:
    from forecast_reasons import single_reasons

    forecast = single_reasons(setting)
    for i, row in enumerate(setting.rows):
        for j in range(4):
            edits = np.repeat(row[None], 50, axis=0)
            edits[:, j] = setting.pool[50:100, j]
            np.testing.assert_array_equal(forecast(i, edits), setting.predict_proba(edits).argmax(axis=1))


def test_reasons_are_read_as_they_are_shown(setting: object) -> None:
    from forecast_reasons import reasons, shown_sets

    layers = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    layers[0].weight.data = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.float64)
    layers[2].weight.data = torch.tensor([[1.0, 1], [0, 0]], dtype=torch.float64)
    layers[0].bias.data, layers[2].bias.data = torch.zeros(2).double(), torch.tensor([0, 0.7037]).double()
    explainer = grace.Explainer(grace.wrap(layers, classes=["high", "low"], outputs="logits"), FRAME)
    setting = type(setting).of(explainer, np.array([[1.0, 1, 1, 1], [0, 1, 1, 0]]), seed=0)
    known = shown_sets(setting)
    policies = reasons(setting, known)
    both, single = policies["single changes, or both of a pair"], policies["single changes that flip"]
    assert any(sets.pairs.any() for sets in known)
    for i, (row, sets) in enumerate(zip(setting.rows, known, strict=True)):
        edits = np.repeat(row[None], len(sets.labels), axis=0)
        np.put_along_axis(edits, sets.features, sets.values, axis=1)
        np.testing.assert_array_equal(both(i, edits), sets.labels)
        np.testing.assert_array_equal(policies["single changes, or inside the region of a pair"](i, edits), sets.labels)
        np.testing.assert_array_equal(policies["all sets added up, from 0.75 on"](i, edits), sets.labels)
        np.testing.assert_array_equal(single(i, edits[sets.pairs]), setting.own[i])
        farther = row + 1.5 * (edits - row)
        np.testing.assert_array_equal(both(i, farther), sets.labels)
        half = row + 0.5 * (edits - row)[sets.pairs]
        np.testing.assert_array_equal(both(i, half), setting.own[i])


@pytest.mark.parametrize(("reader", "policy", "least"), [("lime", "linear", 0.9), ("shap", "dependence plots", 0.85)])
def test_rivals_have_a_policy_that_forecasts_a_linear_model_well(
    setting: object, reader: str, policy: str, least: float
) -> None:
    pytest.importorskip(reader)
    found = shares(setting, reader, "forecast_rivals")
    assert max(share for name, share in found.items() if name.startswith(policy)) > least


def result(part: str, run: int, policies: dict[str, dict[str, list[float]]], rows: int = 6) -> dict[str, object]:
    out = {
        reader: {policy: [line] * rows for policy, line in by_policy.items()} for reader, by_policy in policies.items()
    }
    head = {"data": "spam", "model": "network", "run": run, "rows": rows, "used": rows, "results": out}
    if part == "grace":
        return {**head, "claims": [0.92] * (rows - 1) + [None]}
    return {**head, "complete": [True] * rows, "sets": [[2, 5]] * rows} if part == "reasons" else head


def test_the_page_reports_the_policy_that_was_best_on_other_edits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import forecast_page

    own = {
        r: {"only": [0.7, 0.7, 0.71, 0.71]}
        for r in forecast_page.READERS
        if r not in ("reasons", "LIME", "SHAP", "scorecard")
    }
    own["scorecard"] = {"only": [0.9, 0.9, 0.93, 0.93]}
    read = {"reasons": {forecast_page.ALONE: [0.6, 0.6, 0.61, 0.61], "pairs": [0.7, 0.7, 0.7, 0.7]}}
    rivals = {r: {"a": [0.8, 0.8, 0.6, 0.6], "b": [0.7, 0.7, 0.99, 0.99]} for r in ("LIME", "SHAP")}
    results = [
        result("grace", 0, own),
        result("reasons", 0, read),
        result("rivals", 0, rivals),
        result("grace", 1, own),
        result("reasons", 1, read),
        result("rivals", 1, rivals),
    ]
    forecast_page.write(results, tmp_path)
    frame = pd.read_csv(tmp_path / "forecast.csv").set_index("reader")
    assert (frame.loc["LIME", "policy"], frame.loc["LIME", "right"]) == ("a", 0.6)
    assert frame.loc["scorecard", ["low", "right", "high"]].tolist() == [0.93, 0.93, 0.93]
    assert frame.loc["scorecard", "rows"] == 12
    text = (tmp_path / "forecast.md").read_text(encoding="utf-8")
    assert "It is ahead of every rival on every table." in text
    assert "| spam | network | none | +0.220 |" in text
    assert "| 0.90–0.95 | 10 | 0.920 | 0.930 | 1.00 |" in text
    assert "Of 12 rows, 10 have a scorecard." in text
    assert (frame.loc["reasons", "policy"], frame.loc["reasons", "right"]) == ("pairs", 0.7)
    assert "is\n0.610 instead of 0.700." in text
    assert "2.0 single\n  features and 5.0 pairs" in text
