"""Trees of XGBoost as nodes: they predict what its estimators and boosters do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from grace.models.trees.reading import read_trees
from tree_data import CODED, FRAME, GAPS, HOLES, LABELS, LIKED, MIX, NUMBERS, ROWS, THREE, TWO, frame_of
from tree_rows import agrees

FEW: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "random_state": 0, "n_jobs": 1}
KINDS: dict[str, dict[str, Any]] = {
    "trees": {},
    "several at once": {"num_parallel_tree": 3, "subsample": 0.6},
    "dart": {"booster": "dart", "rate_drop": 0.6, "learning_rate": 0.9, "n_estimators": 8},
    "from a given score": {"base_score": 0.8},
    "leaf by leaf": {"grow_policy": "lossguide", "max_leaves": 6},
    "exactly": {"tree_method": "exact"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("rows", [ROWS, GAPS], ids=["whole", "with gaps"])
def test_classifiers(kind: str, target: Any, rows: Any) -> None:
    model = xgboost.XGBClassifier(**FEW | KINDS[kind]).fit(rows, target)
    agrees(model, rows, model.predict_proba, missing=True)


@pytest.mark.parametrize("kind", KINDS)
def test_regressors(kind: str) -> None:
    model = xgboost.XGBRegressor(**FEW | KINDS[kind]).fit(GAPS, NUMBERS)
    agrees(model, GAPS, model.predict, missing=True)


OBJECTIVES = {
    "reg:squarederror": "identity",
    "reg:squaredlogerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:absoluteerror": "identity",
    "reg:logistic": "logistic",
    "binary:logistic": "logistic",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective: str) -> None:
    target = NUMBERS / NUMBERS.max() if "logistic" in objective else NUMBERS
    model = xgboost.XGBRegressor(**FEW, objective=objective).fit(ROWS, target)
    nodes = agrees(model, ROWS, model.predict, missing=True)
    assert nodes.link == OBJECTIVES[objective]


def test_forests() -> None:
    settings = FEW | {"subsample": 0.7, "colsample_bynode": 0.7}
    two, three = (xgboost.XGBRFClassifier(**settings).fit(ROWS, target) for target in (TWO, THREE))
    number = xgboost.XGBRFRegressor(**settings).fit(ROWS, NUMBERS)
    assert len(agrees(two, ROWS, two.predict_proba, missing=True).roots) == 4
    assert len(agrees(three, ROWS, three.predict_proba, missing=True).roots) == 12
    agrees(number, ROWS, number.predict, missing=True)


def test_a_vector_per_leaf() -> None:
    model = xgboost.XGBClassifier(**FEW, multi_strategy="multi_output_tree").fit(GAPS, THREE)
    nodes = agrees(model, GAPS, model.predict_proba, missing=True)
    assert len(nodes.roots) == 4


@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
def test_an_objective_of_ones_own(target: Any) -> None:
    """Estimators predict probabilities with it all the same."""

    def pulled(labels: Any, sums: Any) -> Any:
        hot = np.eye(3)[labels.astype(int)] if sums.ndim == 2 else labels
        return sums - hot, np.ones(sums.shape)

    model = xgboost.XGBClassifier(**FEW, objective=pulled).fit(ROWS, target)
    agrees(model, ROWS, model.predict_proba, missing=True)


def test_softmax_of_an_estimator() -> None:
    model = xgboost.XGBClassifier(**FEW, objective="multi:softmax").fit(ROWS, THREE)
    agrees(model, ROWS, model.predict_proba, missing=True)


@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("kind", ["trees", "several at once", "dart"])
def test_estimators_stop_early_and_boosters_do_not(kind: str, target: Any, tmp_path: Path) -> None:
    shuffled = np.random.default_rng(0).permutation(target)
    model = xgboost.XGBClassifier(**FEW | {"n_estimators": 9} | KINDS[kind], early_stopping_rounds=2)
    model.fit(ROWS, target, eval_set=[(ROWS, shuffled)], verbose=False)
    few = agrees(model, ROWS, model.predict_proba, missing=True)
    booster = model.get_booster()
    every = agrees(booster, ROWS, _asked(booster), missing=True)
    assert len(few.roots) < len(every.roots)
    model.save_model(tmp_path / "model.json")
    again = xgboost.XGBClassifier()
    again.load_model(tmp_path / "model.json")
    agrees(again, ROWS, again.predict_proba, missing=True)


def _asked(booster: Any) -> Any:
    def asked(rows: Any) -> Any:
        own = booster.predict(xgboost.DMatrix(rows))
        one = own.ndim == 1 and "logistic" in json.loads(booster.save_config())["learner"]["objective"]["name"]
        return np.stack([1 - own, own], axis=1) if one else own

    return asked


def test_boosters() -> None:
    data = xgboost.DMatrix(GAPS, NUMBERS)
    booster = xgboost.train({"max_depth": 3, "nthread": 1}, data, 4)
    agrees(booster, GAPS, _asked(booster), missing=True)

    def pulled(sums: Any, matrix: Any) -> Any:
        return sums - matrix.get_label(), np.ones(len(sums))

    booster = xgboost.train({"max_depth": 3, "nthread": 1}, data, 4, obj=pulled)
    agrees(booster, GAPS, _asked(booster), missing=True)
    part = booster[1:3]
    agrees(part, GAPS, _asked(part), missing=True)


@pytest.mark.parametrize("one_hot", [1, 50])
@pytest.mark.parametrize("frame", [FRAME, HOLES], ids=["whole", "with gaps"])
def test_categories(one_hot: int, frame: pd.DataFrame) -> None:
    model = xgboost.XGBRegressor(**FEW, enable_categorical=True, max_cat_to_onehot=one_hot).fit(frame, MIX)
    nodes = agrees(model, CODED, lambda rows: model.predict(frame_of(rows)), missing=True)
    assert {column: list(codes) for column, codes in nodes.codes.items()} == LABELS
    assert nodes.sets
    assert all(len(s) == 1 for s in nodes.sets) == (one_hot == 50)


def test_categories_that_are_given_as_codes() -> None:
    types = ["q", "c", "q", "c"]
    model = xgboost.XGBClassifier(**FEW, enable_categorical=True, feature_types=types, max_cat_to_onehot=1)
    model.fit(CODED, LIKED)
    nodes = agrees(model, CODED, model.predict_proba, missing=True)
    assert nodes.sets
    assert not nodes.codes
    unseen = CODED.copy()
    unseen[:, 1] = 40
    unseen[::2, 1] = 13
    agrees(model, np.concatenate([CODED, unseen]), model.predict_proba, missing=True)


class Derived(xgboost.XGBClassifier):
    """An estimator that might decide otherwise."""


def replaced() -> Any:
    model = xgboost.XGBClassifier(**FEW).fit(ROWS, TWO)
    model.predict_proba = lambda rows: np.zeros((len(rows), 2))
    return model


def trained(**settings: Any) -> Any:
    target = THREE if "num_class" in settings else TWO
    return xgboost.train({"max_depth": 2, "nthread": 1} | settings, xgboost.DMatrix(ROWS, target), 2)


def _japanese() -> pd.DataFrame:
    return FRAME.assign(colour=FRAME["colour"].cat.rename_categories({"a": "赤"}))


OTHERS = {
    "a derived class": lambda: Derived(**FEW).fit(ROWS, TWO),
    "a replaced method": replaced,
    "not fitted": lambda: xgboost.XGBClassifier(),
    "another mark of missing cells": lambda: xgboost.XGBClassifier(**FEW, missing=0.0).fit(ROWS, TWO),
    "steps": lambda: trained(objective="binary:hinge"),
    "sums": lambda: trained(objective="binary:logitraw"),
    "numbers of classes": lambda: trained(objective="multi:softmax", num_class=3),
    "ranks": lambda: trained(objective="rank:pairwise"),
    "several targets": lambda: xgboost.XGBRegressor(**FEW).fit(ROWS, np.stack([NUMBERS, MIX], axis=1)),
    "lines": lambda: xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(ROWS, TWO), 2),
    "mangled labels": lambda: xgboost.XGBRegressor(**FEW, enable_categorical=True).fit(_japanese(), MIX),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_read(name: str) -> None:
    assert read_trees(OTHERS[name]()) is None
