"""Trees of CatBoost as nodes: they predict what its estimators do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grace.models.trees.reading import read_trees
from tree_data import FRAME, GAPS, LIKED, NUMBERS, ROWS, THREE, TWO
from tree_rows import agrees

catboost = pytest.importorskip("catboost")
pytestmark = pytest.mark.slow

FEW: dict[str, Any] = {"iterations": 4, "depth": 3, "learning_rate": 0.5, "thread_count": 1, "random_seed": 0}
FEW |= {"verbose": False, "allow_writing_files": False}
KINDS: dict[str, dict[str, Any]] = {
    "symmetric": {},
    "by depth": {"grow_policy": "Depthwise"},
    "by loss": {"grow_policy": "Lossguide", "max_leaves": 6},
    "missing cells on top": {"nan_mode": "Max"},
    "missing cells on top, by depth": {"nan_mode": "Max", "grow_policy": "Depthwise"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_classifiers(kind: str, target: Any, rows: Any) -> None:
    model = catboost.CatBoostClassifier(**FEW | KINDS[kind]).fit(rows, target)
    agrees(model, rows, model.predict_proba, missing=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_regressors(kind: str, rows: Any) -> None:
    model = catboost.CatBoostRegressor(**FEW | KINDS[kind]).fit(rows, NUMBERS)
    agrees(model, rows, model.predict, missing=True)


LOSSES = ("MAE", "Quantile:alpha=0.3", "MAPE", "Huber:delta=1", "Expectile:alpha=0.3", "Lq:q=3", "LogCosh")


@pytest.mark.parametrize("loss", [*LOSSES, "Poisson", "Tweedie:variance_power=1.5"])
def test_losses(loss: str, tmp_path: Path) -> None:
    model = catboost.CatBoostRegressor(**FEW, loss_function=loss).fit(ROWS, NUMBERS)
    nodes = agrees(model, ROWS, model.predict, missing=True)
    assert nodes.link == ("identity" if loss in LOSSES else "exp")
    model.save_model(str(tmp_path / "model"))
    again = catboost.CatBoostRegressor()
    again.load_model(str(tmp_path / "model"))
    agrees(again, ROWS, again.predict, missing=True)
    general = catboost.CatBoost(FEW | {"loss_function": loss}).fit(ROWS, NUMBERS)
    agrees(general, ROWS, general.predict, missing=True)


def test_two_classes_as_several() -> None:
    model = catboost.CatBoostClassifier(**FEW, loss_function="MultiClass").fit(ROWS, TWO)
    assert agrees(model, ROWS, model.predict_proba, missing=True).link == "softmax"


def test_the_general_class() -> None:
    model = catboost.CatBoost(FEW | {"loss_function": "Logloss"}).fit(ROWS, TWO)
    agrees(model, ROWS, lambda rows: model.predict(rows, prediction_type="Probability"), missing=True)


def test_scale_and_bias() -> None:
    model = catboost.CatBoostRegressor(**FEW).fit(ROWS, NUMBERS)
    model.set_scale_and_bias(2.5, -3.0)
    agrees(model, ROWS, model.predict, missing=True)


def test_a_part_of_the_columns() -> None:
    model = catboost.CatBoostRegressor(**FEW, ignored_features=[1]).fit(ROWS, NUMBERS)
    nodes = agrees(model, ROWS, model.predict, missing=True)
    assert nodes.columns == 4
    assert 3 in nodes.column


def derived() -> Any:
    class Derived(catboost.CatBoostClassifier):
        """An estimator that might decide otherwise."""

    return Derived(**FEW).fit(ROWS, TWO)


def replaced() -> Any:
    model = catboost.CatBoostClassifier(**FEW).fit(ROWS, TWO)
    model.predict = lambda rows: np.zeros(len(rows))
    return model


def threshold() -> Any:
    model = catboost.CatBoostClassifier(**FEW).fit(ROWS, TWO)
    model.set_probability_threshold(0.3)
    return model


OTHERS = {
    "a derived class": derived,
    "a replaced method": replaced,
    "another threshold": threshold,
    "not fitted": lambda: catboost.CatBoostClassifier(),
    "categories": lambda: catboost.CatBoostClassifier(**FEW).fit(FRAME, LIKED, cat_features=["colour", "size"]),
    "one against all": lambda: catboost.CatBoostClassifier(**FEW, loss_function="MultiClassOneVsAll").fit(ROWS, THREE),
    "several targets": lambda: catboost.CatBoostRegressor(**FEW, loss_function="MultiRMSE").fit(
        ROWS, np.stack([NUMBERS, NUMBERS], axis=1)
    ),
    "uncertainty": lambda: catboost.CatBoostRegressor(**FEW, loss_function="RMSEWithUncertainty").fit(ROWS, NUMBERS),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_read(name: str) -> None:
    assert read_trees(OTHERS[name]()) is None
