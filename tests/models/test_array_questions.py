"""Asking a library about arrays instead of frames: the same answers to the last bit, in original columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.models.array_questions import Codes, trials
from grace.models.predictor import Predictor

KINDS = ["red", "green", "blue", "rare"]


def frame(categories: bool, n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kinds = rng.choice(KINDS, n, p=[0.4, 0.3, 0.28, 0.02])
    table = pd.DataFrame({"b": rng.normal(size=n), "a": rng.integers(0, 50, n), "kind": kinds, "c": rng.random(n)})
    return table.astype({"kind": pd.CategoricalDtype(sorted(KINDS, reverse=True))}) if categories else table


def target(table: pd.DataFrame) -> np.ndarray:
    return ((table.b + table.a / 25 + (table.kind == "red") + table.c) > 2).astype(int).to_numpy()


def one_hot(last: Any, *numbers: Any) -> Any:
    words = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
    given = [(step, make_column_selector(dtype_include="number")) for step in numbers]
    return make_pipeline(make_column_transformer(words, *given, remainder="passthrough"), last)


def boosted(library: str, **options: Any) -> Any:
    module = pytest.importorskip(library)
    kind = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[library]
    return getattr(module, kind)(n_estimators=8, n_jobs=1, random_state=0, **options)


CASES: dict[str, tuple[Any, bool]] = {
    "XGBoost": (lambda: boosted("xgboost", enable_categorical=True), True),
    "LightGBM": (lambda: boosted("lightgbm", verbose=-1, min_child_samples=5), True),
    "histogram": (lambda: HistGradientBoostingClassifier(max_iter=8, categorical_features="from_dtype"), True),
    "forest": (lambda: one_hot(RandomForestClassifier(8, random_state=0)), False),
    "many jobs": (lambda: one_hot(ExtraTreesClassifier(8, random_state=0, n_jobs=2)), False),
    "scaled": (lambda: one_hot(HistGradientBoostingClassifier(max_iter=8), StandardScaler()), False),
    "scaled twice": (
        lambda: one_hot(GradientBoostingClassifier(n_estimators=8), make_pipeline(StandardScaler(), MinMaxScaler())),
        False,
    ),
    "ordinal": (
        lambda: make_pipeline(
            make_column_transformer((OrdinalEncoder(), ["kind"]), (StandardScaler(), ["a", "c"])),
            DecisionTreeClassifier(max_depth=4, random_state=0),
        ),
        False,
    ),
}


def asked(name: str) -> tuple[Any, pd.DataFrame, Predictor]:
    make, categories = CASES[name]
    table = frame(categories)
    estimator = make()
    estimator.fit(table, target(table))
    model = grace.Explainer(estimator, table).model
    assert isinstance(model, Predictor)
    return estimator, table, model


@pytest.mark.parametrize("name", CASES)
def test_arrays_get_the_answers_of_frames(name: str) -> None:
    estimator, table, model = asked(name)
    assert model._by_array is not None
    assert model.schema is not None
    rows = model.schema.encode(table)
    rows = np.concatenate([rows, trials(model.schema, rows)])
    np.testing.assert_array_equal(
        model.responses(rows).reshape(len(rows), -1)[:, -1], estimator.predict_proba(model.given(rows))[:, -1]
    )
    assert len(trials(model.schema, rows)) == 32 * len(KINDS)


def test_numbers_of_a_forest() -> None:
    table = frame(False).drop(columns="kind")
    forest = RandomForestRegressor(5, random_state=0).fit(table, table.a + table.b)
    model = grace.Explainer(forest, table).model
    assert isinstance(model, Predictor)
    assert model._by_array is not None
    rows = table.to_numpy(dtype=np.float64)[:, [table.columns.get_loc(n) for n in model.schema.names]]
    np.testing.assert_array_equal(model.responses(rows)[:, 0], forest.predict(table))


def test_numbers_too_large_are_refused_as_by_frames() -> None:
    _, table, model = asked("forest")
    assert model.schema is not None
    rows = model.schema.encode(table.head(2))
    rows[0, model.schema.names.index("b")] = 1e60
    with pytest.raises(grace.GraceError, match="too large for dtype"):
        model.responses(rows)


def test_what_is_not_known_is_asked_by_frames() -> None:
    """A class derived from a forest may predict something else; so may a pipeline with steps of one's own."""

    class Other(RandomForestClassifier):
        def predict_proba(self, x: Any) -> Any:
            return super().predict_proba(x)[:, ::-1]

        def predict(self, x: Any) -> Any:
            return self.predict_proba(x).argmax(axis=1)

    table = frame(False).drop(columns="kind")
    forest = Other(5, random_state=0).fit(table, table.b > 0)
    labels = [False, True]
    model = grace.Explainer(grace.wrap(forest, classes=labels), table).model
    assert isinstance(model, Predictor)
    assert model._by_array is None


def test_many_rows_of_a_forest_with_several_jobs_are_asked_by_frames() -> None:
    _, _, model = asked("many jobs")
    assert model._by_array is not None
    assert model._by_array.fits(4096)
    assert not model._by_array.fits(4097)


def test_wrong_codes_are_noticed() -> None:
    """Of two categories, each has the code of the other."""
    _, table, model = asked("XGBoost")
    found = model._by_array
    assert found is not None
    assert isinstance(found.prepare, Codes)
    assert model.schema is not None
    assert model.reader is not None
    ((place, codes),) = found.prepare.tables
    rows = model.schema.encode(table.head(20))
    scores = model._answers(model.reader, model.reader.ask(model.given(rows)))
    for order, kept in (([0, 1, 2, 3], True), ([1, 0, 2, 3], False), ([0, 1, 3, 2], False)):
        other = replace(found, prepare=replace(found.prepare, tables=((place, codes[order]),)))
        model.array_question = lambda *_, other=other: other
        assert (model._asked_by_array(rows, scores) is other) == kept


@pytest.mark.parametrize("rounds", [None, 2])
@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_with_and_without_early_stopping(classes: int, rounds: int | None) -> None:
    table = frame(False).drop(columns="kind")
    labels = np.digitize(table.b + table.c, np.linspace(-0.5, 1.5, classes + 1)[1:-1])
    estimator = boosted("xgboost", learning_rate=1.0, early_stopping_rounds=rounds)
    estimator.set_params(n_estimators=30)
    noise = np.random.default_rng(1).integers(0, classes, 60)
    estimator.fit(table[60:], labels[60:], eval_set=[(table[:60], noise)], verbose=False)
    model = grace.Explainer(estimator, table).model
    assert isinstance(model, Predictor)
    assert model._by_array is not None
    rows = model.schema.encode(table)
    np.testing.assert_array_equal(model.responses(rows)[:, -1], estimator.predict_proba(table)[:, -1])
    if rounds is not None:
        assert estimator.best_iteration < 29


@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_by_its_c_interface(classes: int) -> None:
    """The same numbers as by its method in Python, which is asked where the interface complains, and says why."""
    xgboost = pytest.importorskip("xgboost")
    from grace.models.xgboost_calls import by_interface, in_place

    table = frame(False).drop(columns="kind")
    model = xgboost.XGBClassifier(n_estimators=5).fit(table, np.digitize(table.a + table.b, [15, 30][: classes - 1]))
    rows, ask, booster = table.to_numpy(dtype=np.float64), by_interface(), model.get_booster()
    rows[3, 1] = np.nan
    for some in (rows[:1], rows, rows[::2], np.asfortranarray(rows)):
        found = ask(booster, some, np.nan)
        np.testing.assert_array_equal(found, in_place(booster, some, np.nan))
        assert found.dtype == np.float32
    with pytest.raises(ValueError, match="Number of columns"):
        ask(booster, rows[:, :2], np.nan)
