"""What stands in front of an estimator of scikit-learn, read column by column.

Pipelines, ColumnTransformers and FeatureUnions, one inside another, are followed; `transformers` knows what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.models.preprocessing.columns import LIMIT, Column, dense, original
from grace.models.preprocessing.transformers import Columns, UnreadableError, read_transformer, untouched
from grace.schema.features import Floats

SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")


@dataclass(frozen=True)
class Preprocessing:
    """What happens to a row before the last estimator gets it: `columns` of the estimator's input, as functions of the
    `width` columns of the original frame, whose `names` are empty if the fit was on an array."""

    columns: tuple[Column, ...]
    width: int
    names: tuple[str, ...]
    stages: tuple[Any, ...]
    """The fitted transformers, one after another."""

    def given(self, frame: Any) -> Any:
        """What the last estimator gets of rows, in whatever container: by the transformers themselves."""
        for stage in self.stages:
            frame = stage.transform(frame)
        return frame

    def transform(self, frame: Any) -> Floats:
        """The same as a matrix of numbers (n, columns)."""
        return np.asarray(dense(self.given(frame)), dtype=np.float64)

    def made_from(self, source: int) -> npt.NDArray[np.int64]:
        """Which columns of the input are made from a column of the original frame."""
        return np.flatnonzero(self._sources == source)

    def limits(self, source: int) -> tuple[float, float]:
        """The numbers of an original column for which what is said of the columns made from it holds."""
        columns = [self.columns[c] for c in self.made_from(source)]
        return max((c.low for c in columns), default=-LIMIT), min((c.high for c in columns), default=LIMIT)

    @cached_property
    def _sources(self) -> npt.NDArray[np.int64]:
        return np.array([c.source for c in self.columns], dtype=np.int64)


def read_preprocessing(estimator: Any, before: Preprocessing | None = None) -> tuple[Any, Preprocessing] | None:
    """The last estimator of a fitted pipeline, and what stands in front of it; None if that cannot be read. An
    estimator without a pipeline has nothing in front of it. `before` is what has happened to the rows already."""
    stages, last = _stages(estimator)
    try:
        if before is None:
            before = _untransformed([*stages, last])
        columns: Sequence[Column] = before.columns
        for stage in stages:
            columns = _read(stage, columns)
        if getattr(last, "n_features_in_", len(columns)) != len(columns):
            return None
    except Exception:  # what cannot be read, and whatever a transformer raises on a number that it does not take
        return None
    return last, Preprocessing(tuple(columns), before.width, before.names, (*before.stages, *stages))


def _stages(estimator: Any) -> tuple[list[Any], Any]:
    """The transformers in front of the last estimator, and that estimator."""
    stages: list[Any] = []
    while True:
        if _is(estimator, ("Pipeline",), "predict", "predict_proba", "decision_function"):
            *steps, estimator = [step for _, step in estimator.steps]
            stages += [step for step in steps if not _passes(step)]
        elif _is(estimator, ("FrozenEstimator",)):
            estimator = estimator.estimator
        elif _is(estimator, SEARCHES, "predict", "predict_proba", "decision_function"):
            if not hasattr(estimator, "best_estimator_"):
                return stages, estimator
            estimator = estimator.best_estimator_
        else:
            return stages, estimator


def _is(part: Any, kinds: tuple[str, ...], *methods: str) -> bool:
    return type(part).__name__ in kinds and untouched(part, "transform", *methods)


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _untransformed(parts: Sequence[Any]) -> Preprocessing:
    """The original frame: the one that the first part was fitted on which does not just pass it on."""
    for part in map(_fitted, parts):
        width = getattr(part, "n_features_in_", None)
        if width is not None:
            names = tuple(str(n) for n in getattr(part, "feature_names_in_", ()))
            return Preprocessing(tuple(original(j) for j in range(width)), width, names, ())
        if part is not None:
            break
    raise UnreadableError("the number of columns is not known")


def _fitted(part: Any) -> Any:
    """What is fitted on the input of a part; None if that just passes it on."""
    if _is(part, ("Pipeline",)):
        return next((found for _, step in part.steps if (found := _fitted(step)) is not None), None)
    if _is(part, ("FeatureUnion",)):
        return next((found for _, branch in part.transformer_list if (found := _fitted(branch)) is not None), None)
    return None if isinstance(part, str | None) else part


def _read(stage: Any, inputs: Sequence[Column]) -> Columns:
    """The columns that a stage makes of columns."""
    if _passes(stage):
        return list(inputs)
    if isinstance(stage, str) and stage == "drop":
        return []
    if _is(stage, ("FrozenEstimator",)):
        return _read(stage.estimator, inputs)
    if _is(stage, ("Pipeline",)):
        columns = list(inputs)
        for _, step in stage.steps:
            columns = _read(step, columns)
        return columns
    if _is(stage, ("FeatureUnion",)):
        if stage.transformer_weights:
            raise UnreadableError("weights of transformers are not read")
        return [column for _, part in stage.transformer_list for column in _read(part, inputs)]
    if _is(stage, ("ColumnTransformer",)):
        return _of_column_transformer(stage, inputs)
    return read_transformer(stage, inputs)


def _of_column_transformer(stage: Any, inputs: Sequence[Column]) -> Columns:
    if stage.transformer_weights:
        raise UnreadableError("weights of transformers are not read")
    if stage.n_features_in_ != len(inputs):
        raise UnreadableError("a ColumnTransformer was not fitted on these columns")
    names = getattr(stage, "feature_names_in_", None)
    places = pd.DataFrame([np.arange(len(inputs))], columns=names)
    out: Columns = []
    for name, part, columns in stage.transformers_:
        chosen = [inputs[j] for j in _chosen(places, columns)]
        made = _read(part, chosen) if chosen else []
        where = stage.output_indices_[name]
        if made and where != slice(len(out), len(out) + len(made), where.step):
            raise UnreadableError(f"the columns of {name!r} are not where they are expected")
        out += made
    return out


def _chosen(places: pd.DataFrame, columns: Any) -> list[int]:
    """The positions of the columns that a ColumnTransformer selects by name, position, mask or slice."""
    if callable(columns):
        raise UnreadableError("a selection of columns is not resolved")
    if isinstance(columns, slice):
        by_name = isinstance(columns.start, str) or isinstance(columns.stop, str)
    else:
        columns = [columns] if np.isscalar(columns) else list(columns)
        by_name = bool(columns) and isinstance(columns[0], str)
    selected = places.loc[:, columns] if by_name else places.iloc[:, columns]
    return [int(j) for j in selected.to_numpy().reshape(-1)]
