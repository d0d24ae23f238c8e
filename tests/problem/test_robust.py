"""Answers that hold for several models: known ones, the shares, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import grace
from grace.experiments.task import network_of

pytestmark = pytest.mark.quick

FRAME = pd.DataFrame({"a": np.linspace(0, 10, 101), "b": np.linspace(10, 0, 101)})


def above(limit: float, classes: tuple[str, str] = ("no", "yes")) -> grace.models.TorchModel:
    """ "yes" from a + b / 10 = limit on, whatever the order of the classes."""
    module = nn.Sequential(nn.Linear(2, 2))
    sign = 1.0 if classes[1] == "yes" else -1.0
    with torch.no_grad():
        module[0].weight.copy_(sign * torch.tensor([[0.0, 0.0], [1.0, 0.1]]))
        module[0].bias.copy_(sign * torch.tensor([0.0, -limit]))
    return grace.wrap(module, classes=classes, outputs="logits")


def test_the_nearest_answer_that_all_models_share() -> None:
    explainer = grace.Explainer(above(3), FRAME, domain="minmax", gamma=1.0)
    row = {"a": 0.0, "b": 0.0}
    alone = explainer.explain(row, among="nearest")[0]
    shared = explainer.explain(row, robust=[above(5), above(4, ("yes", "no"))])[0]
    assert alone.contrast["a"] == pytest.approx(3, abs=0.02)
    assert shared.contrast["a"] == pytest.approx(5, abs=0.02)
    assert shared.contrast["a"] >= 5
    assert (shared.original_class, shared.contrast_class) == ("no", "yes")
    assert len(shared.after) == 2
    assert grace.Explanation.from_json(shared.to_json()) == shared


def test_validity_is_the_share_of_models_that_agree() -> None:
    explainer = grace.Explainer(above(3), FRAME, domain="minmax", gamma=1.0)
    rows = pd.DataFrame({"a": [0.0, 9.0], "b": [0.0, 0.0]})
    batch = explainer.explain(rows)
    others = [above(2), above(2.5, ("yes", "no")), above(4), above(5)]
    np.testing.assert_allclose(batch.validity(others), [0.5, 0.5])
    assert batch.validity([above(3)]).tolist() == [1.0, 1.0]
    held = explainer.explain(rows, robust=others)
    np.testing.assert_allclose(held.validity(others), 1.0)


def test_against_confidence_and_misses_go_with_it() -> None:
    explainer = grace.Explainer(above(3), FRAME, domain="minmax", gamma=1.0)
    row = {"a": 0.0, "b": 0.0}
    sure = explainer.explain(row, against="yes", confidence=0.9, robust=[above(5)])[0]
    assert sure.contrast["a"] == pytest.approx(5 + np.log(9), abs=0.02)
    none = explainer.explain(row, robust=[above(20)])
    assert not none.success[0]
    assert np.isnan(none.validity([above(3)])[0])
    assert none[0].reason


def test_a_network_trained_here_and_three_others() -> None:
    table = grace.datasets.load("diabetes")
    parts = table.split(0)
    networks = [grace.training.fit(table, seed=0, max_epochs=8)]
    networks += [network_of(table, 0, k) for k in (1, 2, 3)]
    explainer = grace.Explainer(networks[0], parts.train)
    rows = networks[0].impute(parts.test).head(12)
    plain, held = explainer.explain(rows), explainer.explain(rows, robust=networks[1:])
    assert np.nanmean(held.validity(networks[1:])) == 1.0
    assert np.nanmean(plain.validity(networks[1:])) < 1.0
    one = explainer.explain(rows.iloc[[3]], robust=networks[1:])
    pd.testing.assert_frame_equal(one.contrast, held.contrast.iloc[[3]])


def test_what_does_not_go_together_is_said() -> None:
    explainer = grace.Explainer(above(3), FRAME, domain="minmax", gamma=1.0)
    row = {"a": 0.0, "b": 0.0}
    with pytest.raises(grace.GraceError, match="method='search'"):
        explainer.explain(row, robust=[above(5)], method="gradient")
    with pytest.raises(grace.GraceError, match="prove"):
        explainer.explain(row, robust=[above(5)], prove=True)
    with pytest.raises(grace.GraceError, match="same task"):
        explainer.explain(row, robust=[above(5, ("no", "perhaps"))])
    with pytest.raises(grace.GraceError, match="at least one"):
        explainer.explain(row).validity([])
