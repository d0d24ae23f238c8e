"""Trees of scikit-learn as nodes: they predict what the estimators do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from grace.models.trees.reading import read_trees
from grace.models.trees.reference import evaluate, predicted
from tree_data import CODED, FRAME, GAPS, HOLED, HOLES, LABELS, LIKED, NUMBERS, ROWS, THREE, TWO, frame_of
from tree_rows import agrees

FEW: dict[str, Any] = {"max_depth": 3, "random_state": 0}
FOREST = FEW | {"n_estimators": 4}
HIST: dict[str, Any] = {"max_iter": 4, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 0}

CLASSIFIERS = {
    "tree": DecisionTreeClassifier(**FEW),
    "weighted": DecisionTreeClassifier(**FEW, class_weight="balanced"),
    "extra": ExtraTreeClassifier(**FEW),
    "forest": RandomForestClassifier(**FOREST),
    "extras": ExtraTreesClassifier(**FOREST),
    "bag": BaggingClassifier(DecisionTreeClassifier(**FEW), 4, random_state=0),
    "bag of columns": BaggingClassifier(ExtraTreesClassifier(**FOREST), 4, max_features=2, random_state=0),
    "vote": VotingClassifier(
        [("a", RandomForestClassifier(**FOREST)), ("b", DecisionTreeClassifier(**FEW)), ("c", "drop")],
        voting="soft",
        weights=[3, 1, 5],
    ),
    "boosting": GradientBoostingClassifier(**FOREST),
    "boosting of nothing": GradientBoostingClassifier(**FOREST, init="zero"),
    "boosting of a dummy": GradientBoostingClassifier(**FOREST, init=DummyClassifier()),
    "histograms": HistGradientBoostingClassifier(**HIST),
    "stopped histograms": HistGradientBoostingClassifier(**HIST, early_stopping=True, n_iter_no_change=1),
}
REGRESSORS = {
    "tree": DecisionTreeRegressor(**FEW),
    "extra": ExtraTreeRegressor(**FEW),
    "forest": RandomForestRegressor(**FOREST),
    "extras": ExtraTreesRegressor(**FOREST),
    "bag": BaggingRegressor(DecisionTreeRegressor(**FEW), 4, max_features=2, bootstrap_features=True, random_state=0),
    "bag of histograms": BaggingRegressor(HistGradientBoostingRegressor(**HIST), 2, max_features=2, random_state=0),
    "vote": VotingRegressor(
        [("a", GradientBoostingRegressor(**FOREST)), ("b", RandomForestRegressor(**FOREST))], weights=[0.3, 0.6]
    ),
    **{
        f"boosting {loss}": GradientBoostingRegressor(**FOREST, loss=loss)
        for loss in ("squared_error", "absolute_error", "huber", "quantile")
    },
    **{
        f"histograms {loss}": HistGradientBoostingRegressor(**HIST, loss=loss)
        for loss in ("squared_error", "absolute_error", "gamma", "poisson")
    },
    "histograms quantile": HistGradientBoostingRegressor(**HIST, loss="quantile", quantile=0.3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
def test_classifiers(name: str, target: Any) -> None:
    model = CLASSIFIERS[name].fit(ROWS, target)
    agrees(model, ROWS, model.predict_proba, missing=name.endswith("histograms"))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name: str) -> None:
    model = REGRESSORS[name].fit(ROWS, NUMBERS)
    agrees(model, ROWS, model.predict, missing="histograms" in name)


def test_the_exponential_loss_has_another_probability() -> None:
    model = GradientBoostingClassifier(**FOREST, loss="exponential").fit(ROWS, TWO)
    agrees(model, ROWS, model.predict_proba)


@pytest.mark.parametrize("name", ["tree", "extra", "forest", "extras", "bag", "histograms"])
def test_missing_cells_of_training(name: str) -> None:
    model = CLASSIFIERS[name].fit(GAPS, THREE)
    nodes = agrees(model, GAPS, model.predict_proba, missing=True)
    inner = nodes.column >= 0
    assert nodes.missing_left[inner].any()
    assert not nodes.missing_left[inner].all()


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("frame", [FRAME, HOLES], ids=["whole", "with gaps"])
def test_categories(stop: bool, frame: pd.DataFrame) -> None:
    settings = HIST | {"early_stopping": stop, "categorical_features": "from_dtype"}
    model = HistGradientBoostingClassifier(**settings).fit(frame, LIKED)
    nodes = agrees(model, CODED, lambda rows: model.predict_proba(frame_of(rows)), missing=True)
    assert {column: list(codes) for column, codes in nodes.codes.items()} == {1: LABELS[1], 3: LABELS[3]}
    assert nodes.sets


def test_unknown_categories_are_missing() -> None:
    model = HistGradientBoostingClassifier(**HIST, categorical_features="from_dtype").fit(HOLES, LIKED)
    nodes = read_trees(model)
    assert nodes is not None
    unknown = HOLES.assign(colour=pd.Categorical(["another"] * len(HOLES)))
    rows = HOLED.copy()
    rows[:, 1] = np.nan
    read = predicted(nodes, evaluate(nodes, rows), classes=True)
    np.testing.assert_allclose(read, model.predict_proba(unknown), rtol=1e-12)


def test_a_category_that_only_validation_rows_have() -> None:
    codes = np.tile(np.arange(4.0), 50)
    codes[0] = 4
    rows = np.stack([codes, np.arange(200) % 7.0], axis=1)
    target = (codes == 1) ^ (rows[:, 1] > 3)
    for seed in range(6):
        model = HistGradientBoostingClassifier(
            **HIST | {"random_state": seed}, categorical_features=[0], early_stopping=True, validation_fraction=0.5
        ).fit(rows, target)
        agrees(model, rows, model.predict_proba, missing=True)


def test_members_of_a_bag_may_lack_classes() -> None:
    """Where scikit-learn routes metadata, a member is fitted on the rows of its sample alone."""
    with config_context(enable_metadata_routing=True):
        model = BaggingClassifier(DecisionTreeClassifier(**FEW), 6, max_samples=4, random_state=0).fit(ROWS, THREE)
    assert {len(member.classes_) for member in model.estimators_} > {2}
    agrees(model, ROWS, model.predict_proba)


class Derived(RandomForestClassifier):
    """A forest that might decide otherwise."""


def replaced() -> Any:
    model = DecisionTreeClassifier(**FEW).fit(ROWS, TWO)
    model.predict = lambda rows: np.zeros(len(rows))
    return model


def within(member: Any) -> Any:
    return BaggingClassifier(member, 2, random_state=0).fit(ROWS, TWO)


OTHERS = {
    "a derived class": lambda: Derived(**FOREST).fit(ROWS, TWO),
    "a derived member": lambda: within(Derived(**FOREST)),
    "a replaced method": replaced,
    "not fitted": lambda: RandomForestClassifier(),
    "no trees": lambda: LogisticRegression().fit(ROWS, TWO),
    "several targets": lambda: RandomForestRegressor(**FOREST).fit(ROWS, np.stack([NUMBERS, NUMBERS], axis=1)),
    "a vote of classes": lambda: VotingClassifier([("a", DecisionTreeClassifier(**FEW))]).fit(ROWS, TWO),
    "a vote with a line": lambda: VotingRegressor([("a", DecisionTreeRegressor(**FEW)), ("b", LinearRegression())]).fit(
        ROWS, NUMBERS
    ),
    "two precisions": lambda: VotingRegressor(
        [("a", DecisionTreeRegressor(**FEW)), ("b", HistGradientBoostingRegressor(**HIST))]
    ).fit(ROWS, NUMBERS),
    "a bag of sums": lambda: within(GradientBoostingClassifier(**FOREST)),
    "a boosted line": lambda: GradientBoostingClassifier(**FOREST, init=LogisticRegression()).fit(ROWS, TWO),
    "a random beginning": lambda: GradientBoostingClassifier(**FOREST, init=DummyClassifier(strategy="stratified")).fit(
        ROWS, TWO
    ),
    "weighted decisions": lambda: AdaBoostClassifier(n_estimators=2).fit(ROWS, TWO),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_read(name: str) -> None:
    assert read_trees(OTHERS[name]()) is None
