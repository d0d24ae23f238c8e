"""Trees of LightGBM as nodes: they predict what its estimators and boosters do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

from grace.models.trees.lightgbm_reader import ZERO
from grace.models.trees.reading import read_trees
from grace.models.trees.reference import evaluate, predicted
from tree_data import CODED, FRAME, GAPS, HOLED, HOLES, LABELS, LIKED, MIX, NUMBERS, ROWS, THREE, TWO, frame_of
from tree_rows import agrees

FEW: dict[str, Any] = {"n_estimators": 4, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
KINDS: dict[str, dict[str, Any]] = {
    "trees": {},
    "dart": {"boosting_type": "dart", "drop_rate": 0.6},
    "forest": {"boosting_type": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "missing cells as zero": {"use_missing": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_classifiers(kind: str, target: Any, rows: Any) -> None:
    model = lightgbm.LGBMClassifier(**FEW | KINDS[kind]).fit(rows, target)
    agrees(model, rows, model.predict_proba, missing=True)


@pytest.mark.parametrize("kind", KINDS)
def test_regressors(kind: str) -> None:
    model = lightgbm.LGBMRegressor(**FEW | KINDS[kind]).fit(GAPS, NUMBERS)
    agrees(model, GAPS, model.predict, missing=True)


OBJECTIVES = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "cross_entropy": "logistic",
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective: str) -> None:
    target = NUMBERS / NUMBERS.max() if objective == "cross_entropy" else NUMBERS
    model = lightgbm.LGBMRegressor(**FEW, objective=objective).fit(ROWS, target)
    assert agrees(model, ROWS, model.predict, missing=True).link == OBJECTIVES[objective]


def test_the_steepness_of_the_sigmoid() -> None:
    model = lightgbm.LGBMClassifier(**FEW, sigmoid=1.7).fit(ROWS, TWO)
    agrees(model, ROWS, model.predict_proba, missing=True)


def test_an_objective_of_ones_own() -> None:
    def pulled(labels: Any, sums: Any) -> Any:
        return sums - labels, np.ones(len(sums))

    model = lightgbm.LGBMRegressor(**FEW, objective=pulled).fit(ROWS, NUMBERS)
    agrees(model, ROWS, model.predict, missing=True)
    assert read_trees(lightgbm.LGBMClassifier(**FEW, objective=pulled).fit(ROWS, TWO)) is None


@pytest.mark.parametrize("kind", ["trees", "forest"])
def test_the_best_iteration(kind: str, tmp_path: Path) -> None:
    data = lightgbm.Dataset(ROWS, THREE, params={"verbose": -1})
    other = lightgbm.Dataset(ROWS, np.random.default_rng(0).permutation(THREE), reference=data)
    settings = FEW | KINDS[kind] | {"objective": "multiclass", "num_class": 3, "n_estimators": 12}
    stop = lightgbm.early_stopping(3, verbose=False)
    booster = lightgbm.train(settings, data, valid_sets=[other], callbacks=[stop], keep_training_booster=True)
    assert booster.best_iteration < booster.current_iteration()
    few = agrees(booster, ROWS, booster.predict, missing=True)
    assert len(few.roots) == 3 * booster.best_iteration
    booster.save_model(tmp_path / "model.txt", num_iteration=-1)
    again = lightgbm.Booster(model_file=tmp_path / "model.txt")
    every = agrees(again, ROWS, again.predict, missing=True)
    assert len(every.roots) == 3 * booster.current_iteration()


@pytest.mark.parametrize("one_hot", [1, 50])
@pytest.mark.parametrize("frame", [FRAME, HOLES], ids=["whole", "with gaps"])
def test_categories(one_hot: int, frame: pd.DataFrame) -> None:
    settings = FEW | {"max_cat_to_onehot": one_hot, "min_data_per_group": 5, "cat_smooth": 1, "n_estimators": 8}
    model = lightgbm.LGBMRegressor(**settings).fit(frame, MIX)
    nodes = agrees(model, CODED, lambda rows: model.predict(frame_of(rows)), missing=True)
    assert {column: list(codes) for column, codes in nodes.codes.items()} == LABELS
    assert nodes.sets
    agrees(model.booster_, CODED, lambda rows: model.predict(frame_of(rows)), missing=True)
    unknown = frame.assign(colour=pd.Categorical(["another"] * len(frame)))
    rows = np.where(np.arange(4) == 1, np.nan, CODED if frame is FRAME else HOLED)
    read = predicted(nodes, evaluate(nodes, rows), classes=False)
    np.testing.assert_allclose(read, model.predict(unknown), rtol=1e-12)


def test_categories_that_are_given_as_codes() -> None:
    settings = FEW | {"min_data_per_group": 5, "cat_smooth": 1}
    model = lightgbm.LGBMClassifier(**settings).fit(CODED, LIKED, categorical_feature=[1, 3])
    unseen = CODED.copy()
    unseen[:, 1] = np.where(np.arange(len(CODED)) % 2, 50, 12)
    nodes = agrees(model, np.concatenate([CODED, unseen]), model.predict_proba, missing=True)
    assert nodes.sets
    assert not nodes.codes


@pytest.mark.parametrize("gaps", [False, True])
def test_ordered_categories_are_split_as_numbers(gaps: bool) -> None:
    """Which columns they are is not in the model."""
    model = lightgbm.LGBMRegressor(**FEW).fit(frame_of(HOLED if gaps else CODED, ordered=True), MIX)
    assert read_trees(model) is None
    assert read_trees(model, [1]) is None

    def ask(rows: Any) -> Any:
        return model.predict(frame_of(rows, ordered=True))

    nodes = agrees(model, CODED, ask, missing=True, categorical=[1, 3])
    assert {column: list(codes) for column, codes in nodes.codes.items()} == LABELS
    assert (nodes.members[nodes.column == 3] >= 0).all()
    assert 3 in nodes.column


TINY: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (-1, {}),
    (1, {"use_missing": False}),
    (-1, {"use_missing": False}),
    (1, {"zero_as_missing": True}),
]


@pytest.mark.parametrize(("sign", "settings"), TINY, ids=str)
def test_tiny_numbers_are_zero(sign: int, settings: dict[str, Any]) -> None:
    rows = sign * np.repeat([0.0, 1e-40, 5e-36, 1e-33, 1.0, 2.0], 20)[:, None]
    model = lightgbm.LGBMRegressor(**FEW, **settings).fit(rows, np.arange(120) // 40)
    edges = [ZERO, -ZERO, *np.nextafter([ZERO, ZERO, -ZERO, -ZERO], [0, 1, 0, -1]), 1e-35, -1e-35, 1e-300, -1e-300]
    nodes = agrees(model, np.concatenate([rows, np.array(edges)[:, None]]), model.predict, missing=True)
    assert (np.abs(nodes.threshold[nodes.column >= 0]) <= np.nextafter(ZERO, 1)).any()


def test_a_split_of_missing_cells_alone() -> None:
    rows = np.repeat([-1.0, 1.0, np.nan], 40)[:, None]
    model = lightgbm.LGBMRegressor(**FEW).fit(rows, np.arange(120) // 80)
    huge = [[1e300], [np.nextafter(1e300, np.inf)], [np.finfo(float).max], [np.inf], [-np.inf]]
    nodes = agrees(model, np.concatenate([rows, huge]), model.predict, missing=True)
    assert np.inf in nodes.threshold


class Derived(lightgbm.LGBMClassifier):
    """An estimator that might decide otherwise."""


def replaced() -> Any:
    model = lightgbm.LGBMClassifier(**FEW).fit(ROWS, TWO)
    model.booster_.predict = lambda rows: np.zeros(len(rows))
    return model


OTHERS = {
    "a derived class": lambda: Derived(**FEW).fit(ROWS, TWO),
    "a replaced method": replaced,
    "not fitted": lambda: lightgbm.LGBMClassifier(),
    "one against all": lambda: lightgbm.LGBMClassifier(**FEW, objective="multiclassova").fit(ROWS, THREE),
    "roots": lambda: lightgbm.LGBMRegressor(**FEW, reg_sqrt=True).fit(ROWS, NUMBERS),
    "lines": lambda: lightgbm.LGBMRegressor(**FEW, linear_tree=True).fit(ROWS, NUMBERS),
    "another link": lambda: lightgbm.LGBMClassifier(**FEW, objective="cross_entropy_lambda").fit(ROWS, TWO),
    "zeros that go elsewhere": lambda: lightgbm.LGBMRegressor(**FEW, zero_as_missing=True).fit(
        np.where(np.arange(240)[:, None] % 2, 0.0, np.abs(ROWS) + 1), np.arange(240) % 2 * 5 + np.abs(ROWS[:, 0])
    ),
    "sums": lambda: lightgbm.LGBMClassifier(**FEW, predict_raw_score=True).fit(ROWS, TWO),
    "ranks": lambda: lightgbm.LGBMRanker(**FEW).fit(ROWS, TWO, group=[120, 120]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_read(name: str) -> None:
    assert read_trees(OTHERS[name]()) is None
