"""What an explainer learns from training rows: SU, background rows, and what is typical of each class."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from grace.errors import GraceError
from grace.features import Floats, Numeric
from grace.frames import numbers
from grace.information import discretise, quantile_cuts, su_matrix
from grace.models.base import Model, checked_scores, class_codes, fill_value
from grace.models.predictor import Predictor
from grace.models.torch import warn_if_permuted
from grace.schema import Schema

MOST_BACKGROUND = 20_000
SAMPLE = 256  # rows on which a new model is tried


@dataclass(frozen=True)
class Learnt:
    """SU of all pairs of features, some training rows with their scores, the median row of each class, and for a model
    that predicts numbers their spread."""

    su: Floats
    rows: Floats
    scores: Floats
    medians: Floats
    spread: float


def learn(model: Model, schema: Schema, train: pd.DataFrame, seed: int, most: int = MOST_BACKGROUND) -> Learnt:
    """Meet the model with training rows, and learn from what it says of them. SU is that of all of them; of more than
    `most`, as many drawn by `seed` are kept."""
    rows = encoded(schema, train)
    model.bind(schema, torch.as_tensor(rows[:SAMPLE], device=model.device))
    scores = asked(model, rows)
    target = schema.target
    labelled = target is not None and target in train.columns and bool(train[target].notna().all())
    if model.task == "regression":
        labels = deciles(numbers(train[target]) if labelled else scores[:, 0])
    elif labelled and model.task == "classification":
        predicted = scores.argmax(axis=1)
        labels = class_codes(train[target], model.classes, f"target column {target!r}")
        warn_if_permuted(predicted, labels, model.classes)
    else:
        labels = scores.argmax(axis=1)
    su = su_matrix(discretise(rows, labels, schema))
    if len(rows) > most:
        keep = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
        rows, scores = rows[keep], scores[keep]
    return Learnt(su, rows, scores, medians(rows, scores), spread_of(model, scores))


def takes_missing(model: Model, train: pd.DataFrame, target: str | None, like: Schema | None) -> bool:
    """Whether there are missing cells, and a black box that makes something of them."""
    if not isinstance(model, Predictor):
        return False
    features = train.drop(columns=[c for c in (target, like.target if like else None) if c in train.columns])
    holes = features.isna().any(axis=1)
    if not holes.any():
        return False
    try:
        schema = Schema.infer(train, target, like=like, gaps=True)
        trial = copy.copy(model)
        trial.bind(schema, torch.as_tensor(encoded(schema, train[holes].head(SAMPLE))))
    except GraceError:
        return False
    return True


def encoded(schema: Schema, frame: pd.DataFrame) -> Floats:
    """Rows of a frame with missing cells filled in."""
    rows = schema.encode(frame, missing=True)
    return np.where(np.isnan(rows), [fill_value(f) for f in schema.features], rows)


def asked(model: Model, rows: Floats) -> Floats:
    """The scores of encoded rows."""
    tensor = torch.as_tensor(rows, dtype=torch.float64, device=model.device)
    return np.asarray(checked_scores(model, tensor).cpu().numpy())


def anywhere(schema: Schema, seed: int) -> Floats:
    """Sample rows from the whole domain, to try a model on when there are no training rows."""
    low, high = schema.bounds()
    low, high = np.clip(low, -1e6, 1e6), np.clip(high, -1e6, 1e6)
    rows = low + np.random.default_rng(seed).random((SAMPLE, len(schema))) * (high - low)
    return np.asarray(schema.project(rows))


def medians(rows: Floats, scores: Floats) -> Floats:
    """The median row of each class (k, d), with values that occur; NaN for a class that the model never says."""
    classes = scores.argmax(axis=1)
    out = np.full((scores.shape[1], rows.shape[1]), np.nan)
    for label in np.unique(classes):
        out[label] = np.quantile(rows[classes == label], 0.5, axis=0, method="lower")
    return out


def deciles(values: Floats) -> npt.NDArray[np.int64]:
    """Numbers as the tenth of all numbers in which they lie."""
    return np.searchsorted(quantile_cuts(values), values, side="left").astype(np.int64)


def spread_of(model: Model, scores: Floats) -> float:
    """The unit in which a predicted number is measured: as that of a feature."""
    if model.task != "regression":
        return 1.0
    return Numeric(name="prediction").observe(scores[:, 0], "minmax").spread or 1.0
