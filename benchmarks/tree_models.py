"""Tables and the tree ensembles that benchmarks/trees.py asks about."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from realism import RULES as TABLE_RULES
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import grace
from grace import datasets

HIGH = 250_000  # dollars that a house of a district should have been worth at least
TREES = 100
DATA = (*datasets.PAPER, *datasets.CATEGORICAL, *datasets.NUMBERS)
RULED = ("magic", "spam", "cancer92", "adult")
RULES = {name: [rule for rule in TABLE_RULES[name] if "follows" not in rule] for name in RULED}
LARGE = "XGBoost 500 × 8"
LARGE_DATA = ("magic", "spam", "german_credit")


@dataclass(frozen=True)
class Subject:
    """Training and test rows of a table, without missing cells, and a fitted model."""

    data: str
    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    number: bool
    model: Any = None

    @property
    def inputs(self) -> pd.DataFrame:
        """The training rows without the target."""
        return self.train.drop(columns=self.target)

    @property
    def words(self) -> list[str]:
        """The columns that are text."""
        return [c for c in self.inputs if not pd.api.types.is_numeric_dtype(self.train[c])]

    def explainer(self) -> grace.Explainer:
        """An explainer of the model with the default limits."""
        if self.number:
            return grace.Explainer(self.model, self.inputs)
        return grace.Explainer(self.model, self.train, target=self.target)

    def against(self) -> dict[str, Any]:
        """What is asked of the model's prediction."""
        return {"against": grace.above(HIGH)} if self.number else {}

    def asked(self) -> dict[str, Any]:
        """What an explainer is asked: for the nearest answers, as distances are compared."""
        return {"among": "nearest", **self.against()}

    def rows(self, most: int) -> pd.DataFrame:
        """The first test rows; of a regression, of those that are not predicted as asked for already."""
        found = self.test.drop(columns=self.target)
        if self.number:
            found = found[np.asarray(self.model.predict(found)) < HIGH]
        return found.head(most)


def table(name: str, run: int = 0) -> Subject:
    """A table with plain column names, which LightGBM and XGBoost need, and classes as numbers from 0 on; split as in a
    run of the experiments."""
    loaded = datasets.load(name)
    frame = loaded.frame.rename(columns=plain_names(list(loaded.frame.columns)))
    target = plain_names(list(loaded.frame.columns))[loaded.target]
    number = name in datasets.NUMBERS
    for column in frame.columns.drop(target):
        if pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].fillna(frame[column].median())
        else:
            frame[column] = frame[column].astype(object).where(frame[column].notna(), "unknown").astype(str)
    if not number:
        frame[target] = pd.factorize(frame[target], sort=True)[0]
    parts = loaded.split(run)
    train, test = frame.loc[parts.train.index], frame.loc[parts.test.index]
    return Subject(name, train.reset_index(drop=True), test.reset_index(drop=True), target, number)


def plain_names(columns: list[str]) -> dict[str, str]:
    """Names of letters, digits and underscores, all different."""
    out: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"\W+", "_", column).strip("_") or "column"
        out[column] = f"{name}_{len(out)}" if name in out.values() else name
    return out


def with_categories(subject: Subject) -> Subject:
    """Text as categories of pandas."""
    both = pd.concat([subject.train, subject.test])
    kinds = {c: pd.CategoricalDtype(sorted(both[c].unique())) for c in subject.words}
    return replace(subject, train=subject.train.astype(kinds), test=subject.test.astype(kinds))


def with_codes(subject: Subject) -> Subject:
    """Text as the position of the word in the order of the alphabet."""
    coded = with_categories(subject)
    codes = {c: lambda frame, c=c: frame[c].cat.codes.astype(np.int64) for c in subject.words}
    return replace(coded, train=coded.train.assign(**codes), test=coded.test.assign(**codes))


def fitted(subject: Subject, model: Any) -> Subject:
    """The subject with the model, fitted; by one thread, as several wait for each other on a busy machine."""
    with threadpool_limits(1):
        return replace(subject, model=model.fit(subject.inputs, subject.train[subject.target]))


def xgboost(subject: Subject, trees: int = TREES, **options: Any) -> Subject:
    import xgboost as library

    kind = library.XGBRegressor if subject.number else library.XGBClassifier
    found = fitted(
        with_categories(subject), kind(n_estimators=trees, enable_categorical=True, random_state=0, **options)
    )
    found.model.set_params(n_jobs=1)
    return found


def lightgbm(subject: Subject) -> Subject:
    import lightgbm as library

    kind = library.LGBMRegressor if subject.number else library.LGBMClassifier
    return fitted(with_categories(subject), kind(n_estimators=TREES, n_jobs=1, random_state=0, verbose=-1))


def catboost(subject: Subject) -> Subject:
    import catboost as library

    kind = library.CatBoostRegressor if subject.number else library.CatBoostClassifier
    return fitted(with_codes(subject), kind(iterations=TREES, random_seed=0, verbose=False, allow_writing_files=False))


def forest(subject: Subject) -> Subject:
    model = (RandomForestRegressor if subject.number else RandomForestClassifier)(TREES, random_state=0)
    if subject.words:
        words = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
        model = make_pipeline(make_column_transformer(words, remainder="passthrough"), model)
    return fitted(subject, model)


def histogram(subject: Subject) -> Subject:
    kind = HistGradientBoostingRegressor if subject.number else HistGradientBoostingClassifier
    model = kind(max_iter=TREES, early_stopping=False, categorical_features="from_dtype", random_state=0)
    return fitted(with_categories(subject), model)


def large(subject: Subject) -> Subject:
    return xgboost(subject, 500, max_depth=8)


MODELS: dict[str, Callable[[Subject], Subject]] = {
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
    "forest": forest,
    "HistGradientBoosting": histogram,
    LARGE: large,
}


def cells(data: list[str], models: list[str]) -> list[tuple[str, str]]:
    """The tables and models to ask about: the large one on some tables only."""
    return [(d, m) for d in data for m in models if m != LARGE or d in LARGE_DATA]


def ruled_cells(data: list[str], models: list[str]) -> list[tuple[str, str]]:
    """Tables with rules, and models; not of those about text for CatBoost, for which it is a number."""
    found = cells([name for name in RULES if name in data], [m for m in models if m != LARGE])
    return [cell for cell in found if cell != ("adult", "CatBoost")]


def pipeline(name: str) -> tuple[Subject, Subject]:
    """One-hot columns, scaled numbers and boosted trees: the pipeline on the original columns, and the same trees on
    the columns that it makes of them."""
    subject = table(name)
    words = OneHotEncoder(sparse_output=False, handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
    encode = make_column_transformer(words, (StandardScaler(), make_column_selector(dtype_include="number")))
    encode.set_output(transform="pandas")
    boosting = HistGradientBoostingClassifier(max_iter=TREES, early_stopping=False, random_state=0)
    whole = fitted(subject, make_pipeline(encode, boosting))
    before = whole.model[0]
    columns = plain_names(list(before.get_feature_names_out()))

    def encoded(frame: pd.DataFrame) -> pd.DataFrame:
        out = before.transform(frame.drop(columns=subject.target)).rename(columns=columns)
        return out.assign(**{subject.target: frame[subject.target]})

    bare = replace(subject, train=encoded(subject.train), test=encoded(subject.test))
    return whole, fitted(bare, clone(boosting))
