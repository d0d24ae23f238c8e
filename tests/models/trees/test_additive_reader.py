"""Terms of explainable boosting machines as nodes: they predict what the machines do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from grace.models.trees.reading import read_trees
from grace.models.trees.reference import evaluate, predicted
from tree_data import CODED, FRAME, GAPS, HOLES, LABELS, LIKED, MIX, NUMBERS, ROWS, THREE, TWO, frame_of
from tree_rows import agrees

glassbox = pytest.importorskip("interpret.glassbox")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Missing values detected", "ignore:Interactions with 3 or more terms"),
]

FEW: dict[str, Any] = {"outer_bags": 1, "max_rounds": 20, "max_bins": 12, "max_interaction_bins": 6, "n_jobs": 1}
FEW |= {"random_state": 0, "learning_rate": 0.2}


@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_two_classes(rows: Any) -> None:
    model = glassbox.ExplainableBoostingClassifier(**FEW, interactions=2).fit(rows, TWO)
    agrees(model, rows, model.predict_proba, missing=True)


@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_several_classes(rows: Any) -> None:
    model = glassbox.ExplainableBoostingClassifier(**FEW, interactions=0).fit(rows, THREE)
    agrees(model, rows, model.predict_proba, missing=True)


@pytest.mark.parametrize("objective", ["rmse", "poisson_deviance", "gamma_deviance"])
def test_regressors(objective: str) -> None:
    model = glassbox.ExplainableBoostingRegressor(**FEW, interactions=[(0, 1), (0, 2, 3)], objective=objective)
    model.fit(GAPS, NUMBERS)
    nodes = agrees(model, GAPS, model.predict, missing=True)
    assert nodes.link == ("identity" if objective == "rmse" else "exp")


TYPES = ["continuous", "nominal", "continuous", "nominal"]


@pytest.mark.parametrize("ordered", [False, True])
def test_categories(ordered: bool) -> None:
    types = [*TYPES[:3], "ordinal" if ordered else "nominal"]
    model = glassbox.ExplainableBoostingRegressor(**FEW, interactions=[(0, 1), (1, 3)], feature_types=types)
    model.fit(frame_of(CODED, ordered), MIX)
    nodes = agrees(model, CODED, lambda rows: model.predict(frame_of(rows, ordered)), missing=True)
    assert nodes.codes[1] == {label: code for code, label in enumerate(LABELS[1])}
    for code, label in enumerate(LABELS[3]):  # as in the table, and as interpret writes it
        assert nodes.codes[3][label] == nodes.codes[3][float(label)] == nodes.codes[3][str(label)] == code
    rows = np.where(np.arange(4) == 1, np.nan, CODED)
    read = predicted(nodes, evaluate(nodes, rows), classes=False)
    unknown = FRAME.assign(colour=pd.Categorical(["another"] * len(FRAME)))
    np.testing.assert_allclose(read, model.predict(unknown), rtol=1e-12)


class Derived(glassbox.ExplainableBoostingRegressor):
    """A machine that might decide otherwise."""


OTHERS = {
    "a derived class": lambda: Derived(**FEW).fit(ROWS, NUMBERS),
    "not fitted": lambda: glassbox.ExplainableBoostingRegressor(),
    "missing and unknown categories differ": lambda: glassbox.ExplainableBoostingClassifier(
        **FEW, feature_types=TYPES
    ).fit(HOLES, LIKED),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_read(name: str) -> None:
    assert read_trees(OTHERS[name]()) is None
