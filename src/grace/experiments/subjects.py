"""A task about any model that `grace.wrap` takes: an estimator, a pipeline, a function, clusters, a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.experiments.task import Task
from grace.explain.explainer import Explainer
from grace.models.base import class_codes
from grace.problem.background import deciles
from grace.problem.binding import query
from grace.problem.target_range import TargetRange
from grace.schema.features import Domain
from grace.schema.schema import Schema


def task_of(
    name: str,
    model: Any,
    train: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    target: str | None = None,
    schema: Schema | None = None,
    against: TargetRange | None = None,
    domain: Domain = "central",
    most: int = 100,
    max_features: int = 5,
    gamma: float = 0.5,
    seed: int = 0,
    time_limit: float = 10.0,
) -> Task:
    """The task to explain the first `most` of some rows. `against` says what a predicted number should have been: rows
    of which it is so already are left out. No cell may be missing: peers do not take them."""
    explainer = Explainer(model, train, target=target, schema=schema, domain=domain)
    known, ranges = explainer.model, explainer.schema
    for frame, what in ((train, "training rows"), (rows, "rows")):
        if frame[ranges.names].isna().any(axis=None):
            raise GraceError(f"{name}: a cell of the {what} is missing; fill it in first")
    encoded, background = ranges.encode(rows[ranges.names]), ranges.encode(train[ranges.names])
    wanted = None
    if known.task == "regression":
        if against is None or against.of_row:
            raise GraceError(f"{name}: the model predicts a number; say what it should have been, such as above(10)")
        wanted = against.low, against.high
        labels = deciles(query(known, background)[:, 0])
    elif known.task == "classification" and ranges.target is not None:
        labels = class_codes(train[ranges.target], known.classes, name)
    else:
        labels = query(known, background).argmax(axis=1)
    limits: dict[str, Any] = {"max_features": max_features, "gamma": gamma, "seed": seed, "time_limit": time_limit}
    task = Task(name, known, ranges, encoded, background, labels, **limits, wanted=wanted)
    ask = np.arange(len(rows)) if wanted is None else np.flatnonzero(task.classes_of(encoded) == 0)
    return task.select(ask[:most].tolist())
