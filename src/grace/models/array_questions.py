"""How an estimator is asked about an array instead of a frame.

For few rows, frames take most of the time of a prediction: their columns are checked, converted and put together one by
one. Here the rows become the array that the last estimator gets in the end, and its library's own code predicts from
that. Categories are looked up in tables, which the library has filled in: codes of pandas, or what the preprocessing
makes of each. Numbers go through the same transformers, as arrays. Whether the answers are the same is compared to the
last bit before it is used (see `Predictor`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.models.preprocessing.columns import AFFINE, MONOTONE, Chain, Column, Step, dense, original, untransformed
from grace.models.preprocessing.reading import Preprocessing, read_preprocessing
from grace.models.trees.own_classes import own
from grace.models.trees.sklearn_boosting import HISTOGRAMS, STAGES
from grace.models.trees.sklearn_reader import FORESTS, TREES
from grace.models.xgboost_calls import by_interface
from grace.schema.features import Categorical, Feature, Floats, Numeric, columns_of
from grace.schema.schema import Schema

Ints = npt.NDArray[np.int64]
Given = Callable[[Floats], Any]
MANY = 4096  # rows from which on several threads pay, where the model may use them
CATBOOST = ("CatBoostClassifier", "CatBoostRegressor")
BASES = 32  # rows in which each category is tried out


@dataclass(frozen=True)
class ArrayQuestion:
    """A question about encoded rows: `ask` about the array that `prepare` makes of them."""

    ask: Callable[[Floats], Any]
    prepare: Callable[[Floats], Floats]
    most: int | None = None
    """The rows up to which it is faster than a question about a frame; None if it always is."""

    def __call__(self, rows: Floats) -> Any:
        return self.ask(self.prepare(rows))

    def fits(self, rows: int) -> bool:
        return self.most is None or rows <= self.most


def array_question(
    model: Any, task: str, schema: Schema, columns: Sequence[str] | None, given: Given, rows: Floats
) -> ArrayQuestion | None:
    """How a model that was fitted on these columns of frames is asked about arrays; `given` are encoded rows, such as
    `rows`, as frames. None if that is not known."""
    read = read_preprocessing(model) or (model, None)
    last, before = read if read[1] is not None and read[1].stages else (model, _encoding(model))
    if before is not None and last is model:  # it gets what its own encoding has made already
        last = nameless(model)
        last._preprocessor = None
    ask = _asked(last, task)
    names = columns if before is None or not before.names else before.names
    if ask is None or names is None or len(rows) == 0:
        return None
    places = {name: j for j, f in enumerate(schema.features) for name in columns_of(f) if name == f.name}
    if not all(name in places for name in names):
        return None
    order = np.array([places[name] for name in names])
    if not all(_is_plain(schema.features[j]) for j in order):
        return None
    prepare = _codes(schema, order, given, rows) if before is None else _cells(schema, order, given, rows, before)
    threads = own(last, "sklearn", FORESTS) and last.n_jobs not in (None, 1)
    return None if prepare is None else ArrayQuestion(ask, prepare, MANY if threads else None)


def _is_plain(feature: Feature) -> bool:
    return isinstance(feature, Categorical) or (isinstance(feature, Numeric) and not feature.dtype and not feature.gaps)


def trials(schema: Schema, rows: Floats) -> Floats:
    """Rows with each category of each feature, in several surroundings."""
    base, out = rows[:BASES], [rows[:0]]
    for j, feature in enumerate(schema.features):
        if isinstance(feature, Categorical):
            some = np.repeat(base, len(feature.categories), axis=0)
            some[:, j] = np.tile(np.arange(len(feature.categories)), len(base))
            out.append(some)
    return np.concatenate(out)


# -- libraries --------------------------------------------------------------------------------------


def _asked(model: Any, task: str) -> Callable[[Any], Any] | None:
    """How an estimator is asked for probabilities, or numbers, about an array."""
    library, kind = type(model).__module__.split(".")[0], type(model).__name__
    method = "predict" if task == "regression" else "predict_proba"
    if library == "xgboost" and kind.startswith("XGB"):
        return _of_xgboost(model, getattr(model, method, None))
    if library == "lightgbm" and kind.startswith("LGBM"):
        return model.booster_.predict  # type: ignore[no-any-return]
    if library == "catboost" and kind in CATBOOST and not model.get_cat_feature_indices():
        return getattr(model, method, None)
    if own(model, "sklearn", FORESTS) and model.n_outputs_ == 1:
        return ForestMean([member.tree_ for member in model.estimators_], task == "regression")
    if own(model, "sklearn", (*TREES, *STAGES, *HISTOGRAMS)) and getattr(model, "_preprocessor", None) is None:
        return getattr(nameless(model), method, None)
    return None


def _of_xgboost(model: Any, usual: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """What `predict_proba` or `predict` of XGBoost does in the end, without what they do around it, where all trees
    count; otherwise they themselves."""
    if usual is None or model.booster == "gblinear":
        return usual
    predicted = by_interface()

    def ask(rows: Floats) -> Any:
        if getattr(model, "best_iteration", None) is not None:
            return usual(rows)
        out = predicted(model.get_booster(), rows, model.missing)
        return np.stack([1 - out, out], axis=1) if out.ndim == 1 and hasattr(model, "classes_") else out

    return ask


def _encoding(model: Any) -> Preprocessing | None:
    """How histogram boosting encodes the categories of its input: these come first, and numbers stay as they are."""
    stage = getattr(model, "_preprocessor", None)
    if not own(model, "sklearn", HISTOGRAMS) or stage is None:
        return None
    categorical = np.asarray(model.is_categorical_)
    columns = [original(j).table() for j in np.flatnonzero(categorical).tolist()]
    columns += [original(j) for j in np.flatnonzero(~categorical).tolist()]
    names = tuple(str(n) for n in getattr(model, "feature_names_in_", ()))
    return Preprocessing(tuple(columns), len(categorical), names, (stage,))


@dataclass(frozen=True)
class ForestMean:
    """The mean of what the trees of a forest of scikit-learn predict, as the forest itself adds it up in one thread: it
    converts the rows to float32 and calls each tree."""

    trees: Sequence[Any]
    number: bool

    def __call__(self, rows: Floats) -> Floats:
        with np.errstate(over="ignore"):
            single = rows.astype(np.float32)
        if not np.isfinite(single).all():
            raise ValueError("Input X contains NaN, infinity or a value too large for dtype('float32').")
        total: Floats = np.zeros_like(self.trees[0].predict(single))
        for tree in self.trees:
            total += tree.predict(single)
        total /= len(self.trees)
        return total[:, 0] if self.number else total


def nameless(part: Any) -> Any:
    """A part of scikit-learn that does not know the names of its columns, so that it takes arrays without a word."""
    other = copy.copy(part)
    vars(other).pop("feature_names_in_", None)
    return other


# -- rows as arrays ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codes:
    """The columns of encoded rows in the order of the model, with codes of pandas for categories."""

    order: Ints
    tables: Sequence[tuple[int, Floats]]
    """For each column with categories, its place and the codes."""

    def __call__(self, rows: Floats) -> Floats:
        out = rows[:, self.order]
        for place, table in self.tables:
            out[:, place] = table[out[:, place].astype(np.int64)]
        return out


def _codes(schema: Schema, order: Ints, given: Given, rows: Floats) -> Codes | None:
    tables = []
    for place, j in enumerate(order.tolist()):
        feature = schema.features[j]
        if isinstance(feature, Categorical):
            cells = given(_every(rows, j, feature))[feature.name]
            if not isinstance(cells.dtype, pd.CategoricalDtype):
                return None
            codes = cells.cat.codes.to_numpy(dtype=np.float64)
            tables.append((place, np.where(codes < 0, np.nan, codes)))
    return Codes(order, tuple(tables))


@dataclass(frozen=True)
class Cells:
    """The columns that preprocessing makes of encoded rows: categories by tables, numbers by their transformers."""

    width: int
    tables: Sequence[tuple[int, Ints, Floats]]
    """For each feature with categories, its place, the columns made from it, and what they are for each category."""
    place: Ints
    """Of each column that is made from a number, the feature,"""
    column: Ints
    stages: Sequence[Sequence[tuple[Any, Ints, Ints, Ints]]]
    """and what happens to it: transformers, for which of these columns, and the columns of their own input and output.
    """

    def __call__(self, rows: Floats) -> Floats:
        out = np.empty((len(rows), self.width))
        for place, columns, table in self.tables:
            out[:, columns] = table[rows[:, place].astype(np.int64)]
        numbers = rows[:, self.place]
        for stage in self.stages:
            for transformer, which, inputs, outputs in stage:
                cells = np.ones((len(rows), transformer.n_features_in_))
                cells[:, inputs] = numbers[:, which]
                numbers[:, which] = dense(transformer.transform(cells))[:, outputs]
        out[:, self.column] = numbers
        return out


def _cells(schema: Schema, order: Ints, given: Given, rows: Floats, before: Preprocessing) -> Cells | None:
    tables, numbers = [], []
    for source, j in enumerate(order.tolist()):
        feature, made = schema.features[j], before.made_from(source)
        if isinstance(feature, Categorical):
            tables.append((j, made, before.transform(given(_every(rows, j, feature)))[:, made]))
        else:
            numbers += [(j, int(c)) for c in made]
    chains = [_chain(before.columns[c]) for _, c in numbers]
    if any(chain is None for chain in chains):
        return None
    steps = [chain for chain in chains if chain is not None]
    stages = [_stage(steps, level) for level in range(max(map(len, steps), default=0))]
    place, column = (np.array([pair[k] for pair in numbers], dtype=np.int64) for k in (0, 1))
    return Cells(len(before.columns), tuple(tables), place, column, tuple(stages))


def _every(rows: Floats, j: int, feature: Categorical) -> Floats:
    """A row with each category of a feature."""
    out = np.repeat(rows[:1], len(feature.categories), axis=0)
    out[:, j] = np.arange(len(feature.categories))
    return out


def _chain(column: Column) -> list[Step] | None:
    """The transformers through which a number goes, one after another; None if that is not known."""
    steps: list[Step] = []
    function = column.evaluate
    while isinstance(function, Chain):
        if not isinstance(function.second, Step):
            return None
        steps.insert(0, function.second)
        function = function.first
    return steps if function is untransformed and column.kind in (AFFINE, MONOTONE) else None


def _stage(chains: Sequence[Sequence[Step]], level: int) -> list[tuple[Any, Ints, Ints, Ints]]:
    """The transformers at one place of the chains, each with all columns that it gets."""
    groups: dict[int, list[int]] = {}
    for at, chain in enumerate(chains):
        if level < len(chain):
            groups.setdefault(id(chain[level].transformer), []).append(at)
    out = []
    for which in groups.values():
        steps = [chains[at][level] for at in which]
        inputs, outputs = (np.array([getattr(s, name) for s in steps]) for name in ("input", "output"))
        out.append((nameless(steps[0].transformer), np.array(which), inputs, outputs))
    return out
