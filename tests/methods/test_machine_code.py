"""Compiled functions are called without numba's look at the types of all arguments."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
from numba import types
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier

import grace
from grace.models.compiled import compiled
from grace.models.machine_code import MachineCode

RNG = np.random.default_rng(3)
N = 150
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(0, 2, N).round(2),
        "b": RNG.integers(0, 9, N),
        "c": RNG.normal(0, 1, N),
        "k": RNG.integers(0, 3, N),
    }
)
WORTH = FRAME["a"] + FRAME["b"] / 2 - FRAME["c"] + FRAME["k"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that were called: with arguments of the types for which they were compiled, and only these take
    the short way."""
    made: list[str] = []
    usual = MachineCode.serves

    def serves(self: MachineCode, given: tuple[Any, ...]) -> bool:
        found = usual(self, given)
        alike = all(map(are_alike, map(numba.typeof, given), map(numba.typeof, self.sample)))
        assert alike or not found, self.function.__name__
        assert found or self.function.__name__ == "check_rows", self.function.__name__
        made.append(self.function.__name__ if found else "")
        return found

    monkeypatch.setattr(MachineCode, "serves", serves)
    return made


def are_alike(own: Any, expected: Any) -> bool:
    if isinstance(expected, types.Array):
        return (own.dtype, own.ndim, own.layout) == (expected.dtype, expected.ndim, expected.layout)
    if isinstance(expected, types.BaseTuple):
        return len(own.types) == len(expected.types) and all(map(are_alike, own.types, expected.types))
    return bool(own == expected)


QUESTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"among": "nearest"},
    {"prefer": "nearest", "max_features": 2},
    {"frozen": ["a"], "n": 2},
    {"increase_only": ["b"], "costs": {"c": 2.0}, "distance": "l2"},
    {"gamma": 1.0},
    {"ranges": {"a": (-1e30, 1e30)}},
)


def ask(explainer: grace.Explainer, *more: dict[str, Any]) -> None:
    for asked in (*QUESTIONS, *more):
        for rows in (1, 5, 40):
            explainer.explain(FRAME.head(rows), **asked)


@pytest.mark.parametrize("classes", [2, 3])
def test_networks(calls: list[str], classes: int) -> None:
    label = np.array(list("xyz"))[np.digitize(WORTH, [1.5, 4][: classes - 1])]
    frame = FRAME.assign(k=FRAME["k"].map({0: "red", 1: "green", 2: "blue"}))
    network = grace.training.fit(frame.assign(y=label), "y", max_epochs=8)
    explainer = grace.Explainer(network, frame, gamma=0.9)
    cut = grace.Explainer(grace.wrap(network, threshold=dict.fromkeys("xyz"[:classes], 0.4)), frame)
    for one in (explainer, cut):
        for asked in (*QUESTIONS, {"against": "y"}, {"confidence": 0.6}, {"method": "gradient"}, {"method": "local"}):
            for rows in (1, 5, 40):
                one.explain(frame.head(rows), **asked)
    assert {"search_rows", "improve_rows", "steady_rows", "check_rows", "need_every_change", "walk_rows"} <= {*calls}


def test_numbers(calls: list[str]) -> None:
    for model in (grace.training.fit(FRAME.assign(y=WORTH), "y", max_epochs=8), HistGradientBoostingRegressor()):
        fitted = model.fit(FRAME, WORTH) if isinstance(model, HistGradientBoostingRegressor) else model
        explainer = grace.Explainer(fitted, FRAME)
        for against in (grace.above(4), [grace.below(2)] * 5):
            explainer.explain(FRAME.head(5), against=against)
        explainer.explain(FRAME.head(1), against=grace.within(3, 4))
    assert {"search_rows", "add_up_rows"} <= {*calls}


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=12),
        RandomForestClassifier(9, random_state=0),
        CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=5), ensemble=False, cv=2),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_trees(calls: list[str], model: Any, classes: int) -> None:
    model.fit(FRAME, np.digitize(WORTH, [1.5, 4][: classes - 1]))
    ask(grace.Explainer(model, FRAME), {"against": 1}, {"confidence": 0.6})
    if not isinstance(model, CalibratedClassifierCV) or classes == 2:
        assert {"search_rows", "steady_rows", "add_up_rows"} <= {*calls}


@compiled
def total(table: np.ndarray, pair: tuple[np.ndarray, int]) -> float:
    out = 0.0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            out += table[i, j] * pair[0][j] * pair[1]
    return out


def test_other_arguments_are_left_to_numba() -> None:
    cells, weights = np.arange(12.0).reshape(3, 4), np.ones(4)
    code = MachineCode(total, cells, (weights, 2), kept=(1,))
    pair = weights, 2
    for given in (pair, pair, (weights.copy(), 2)):
        assert code.serves((cells, given))
        assert code(cells, given) == 132
    for table in (cells.T.copy().T, np.broadcast_to(cells[:1], (3, 4)), cells.astype(np.float32), cells.astype(int)):
        assert not code.serves((table, pair))
        assert code(table, pair) == 2 * table.sum()
    for other in ((np.ones(8)[::2], 2), (weights, 2.0), (np.ones(4, dtype=int), 2)):
        assert not code.serves((cells, other))
        assert code(cells, other) == 132
