"""Tasks of a benchmark, and the answers that a method returns.

On disk a task is a folder with `task.json` (features, classes, limits) and `task.npz` (rows, and the weights of a
network of `grace.training`, or nodes of trees that were read), which runners of peers read with numpy alone. Any
model but a network is also served by this process (see `process.served`). Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from grace.datasets import Table
from grace.errors import GraceError
from grace.experiments.tree_arrays import tree_arrays
from grace.explain.explainer import Explainer
from grace.models.base import Model, class_codes
from grace.models.network import Network
from grace.models.torch import TorchModel
from grace.problem.background import deciles
from grace.problem.binding import query
from grace.problem.target_range import TargetRange
from grace.schema.domains import Domain
from grace.schema.features import Bools, Categorical, Floats
from grace.schema.schema import Schema
from grace.training import RECIPES, Recipe, fit

FORMAT = 1
INFINITE = 1e50  # absolute values from here on are rejected like infinity: they overflow in a network
HEAD, ARRAYS = "task.json", "task.npz"


@dataclass(frozen=True)
class Task:
    """A model and the rows to explain. Rows are encoded: one float64 per feature, a category as its code; see
    `Schema.decode`."""

    name: str
    model: Model
    schema: Schema
    """The features with their ranges in the task's domain, categories and spreads."""
    rows: Floats
    train: Floats
    labels: np.ndarray[Any, np.dtype[np.int64]]
    """The class of each training row, as a position in `model.classes`; for a regression, the decile."""
    max_features: int = 5
    gamma: float = 0.5
    seed: int = 0
    time_limit: float = 10.0
    """Seconds per row."""
    wanted: tuple[float, float] | None = None
    """The target range of a regression."""

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    @property
    def frame(self) -> pd.DataFrame:
        """The rows to explain, decoded."""
        return self.schema.decode(self.rows)

    @property
    def train_frame(self) -> pd.DataFrame:
        """The training rows, decoded, with the target of a classification."""
        frame = self.schema.decode(self.train)
        if self.model.task == "classification":
            frame[self.schema.target or "class"] = np.array(self.model.classes, dtype=object)[self.labels]
        return frame

    def classes_of(self, rows: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The predicted class of each row as a position; for a regression, 1 if the prediction is in the target range,
        else 0."""
        if self.wanted is None:
            return classes_of(self.model, rows)
        predicted = query(self.model, rows)[:, 0]
        return np.asarray((predicted >= self.wanted[0]) & (predicted <= self.wanted[1]), dtype=np.int64)

    def select(self, index: Sequence[int]) -> Task:
        """The same task for some of its rows."""
        return replace(self, rows=self.rows[list(index)])

    def fingerprint(self) -> str:
        """A hash of all inputs of a method."""
        head = {**self._head(), "weights": self.model.fingerprint()}
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        scores = [] if head["weights"] else [query(self.model, self.train)]
        for array in (self.rows, self.train, self.labels, *scores):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "schema": self.schema.to_dict(),
            "features": [_feature(self.schema, j) for j in range(len(self.schema))],
            "classes": list(self.model.classes),
            "hidden": None if (network := network_in(self.model)) is None else list(network.hidden),
            "wanted": None if self.wanted is None else [w if np.isfinite(w) else None for w in self.wanted],
            "max_features": self.max_features,
            "gamma": self.gamma,
            "seed": self.seed,
            "time_limit": self.time_limit,
        }

    def save(self, folder: Path) -> None:
        """Write the task for a runner."""
        folder.mkdir(parents=True, exist_ok=True)
        network = network_in(self.model)
        state = {} if network is None else network.state_dict()
        arrays = {f"network.{k}": v.detach().cpu().numpy() for k, v in state.items()}
        if network is not None and self.model.cutoffs is not None:  # runners use the argmax of the scores
            last = f"network.layers.{len(network.layers) - 1}.bias"
            arrays[last] = arrays[last] - np.array(self.model.cutoffs.shifts)
        arrays |= tree_arrays(self.model, self.wanted)
        np.savez(folder / ARRAYS, rows=self.rows, train=self.train, labels=self.labels, **arrays)
        (folder / HEAD).write_text(json.dumps(self._head(), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Task:
        """The task that `save` wrote."""
        head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        if head.get("format") != FORMAT:
            raise GraceError(f"{folder / HEAD} has format {head.get('format')!r}; this version reads format {FORMAT}")
        if head["hidden"] is None:
            raise GraceError("the model of this task cannot be written to a file; give the function in Python")
        schema = Schema.from_dict(head["schema"])
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            network = Network(schema, head["hidden"], len(head["classes"]) or 1).double()
            state = {k.removeprefix("network."): torch.as_tensor(arrays[k]) for k in arrays if k.startswith("network.")}
            network.load_state_dict(state)
            rows, train, labels = arrays["rows"], arrays["train"], arrays["labels"]
        module = network.eval().requires_grad_(False)
        low, high = head["wanted"] or (None, None)
        wanted = None if head["wanted"] is None else (-np.inf if low is None else low, np.inf if high is None else high)
        task = "regression" if wanted else "classification"
        model = TorchModel(module, tuple(head["classes"]), outputs="logits", schema=schema, task=task)
        limits = {k: head[k] for k in ("name", "max_features", "gamma", "seed", "time_limit")}
        return cls(model=model, schema=schema, rows=rows, train=train, labels=labels, wanted=wanted, **limits)


def classes_of(model: Model, rows: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The predicted class of each encoded row, as a position in the classes of the model."""
    return np.asarray(query(model, rows).argmax(axis=1))


@dataclass(frozen=True)
class Answers:
    """The contrastive rows of a method, encoded, one per row of the task; all NaN where there is none."""

    rows: Floats
    seconds: Floats | None = None
    """The time of each row when it was explained alone; NaN if it was not."""
    batch_seconds: float | None = None
    """The time of all rows in one call."""
    tried: int | None = None
    """The number of rows that were tried, from the first; None for all."""
    note: str = ""
    proven: Bools | None = None
    """Whether the method proved that there is no better answer to a row, or none at all; None if it proves nothing."""

    def to_dict(self) -> dict[str, Any]:
        """The answers as JSON, with null for a row without an answer."""
        return {
            "rows": [row.tolist() if np.isfinite(row).all() else None for row in self.rows],
            "seconds": None if self.seconds is None else [s if np.isfinite(s) else None for s in self.seconds.tolist()],
            "batch_seconds": self.batch_seconds,
            "tried": self.tried,
            "note": self.note,
            "proven": None if self.proven is None else self.proven.tolist(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], width: int) -> Answers:
        """The inverse of `to_dict`, for rows with `width` features."""
        rows = np.array([[np.nan] * width if row is None else row for row in data["rows"]], dtype=np.float64)
        seconds = None if data["seconds"] is None else np.array(data["seconds"], dtype=np.float64)
        proven = None if data.get("proven") is None else np.array(data["proven"], dtype=bool)
        return cls(rows.reshape(-1, width), seconds, data["batch_seconds"], data["tried"], data["note"], proven)


Method = Callable[[Task], "Answers | pd.DataFrame | Floats"]
"""A method of a benchmark. It may also return only the rows, as a DataFrame or encoded, NaN for no answer."""


def as_answers(task: Task, found: object) -> Answers:
    """The result of a method as `Answers`, or an error if it has another form. Invalid rows become NaN, with a note."""
    if isinstance(found, pd.DataFrame):
        if len(found) != len(task.rows):
            raise GraceError(f"the method returned {len(found)} rows for {len(task.rows)}")
        found = task.schema.encode(found, missing=True)
    answers = found if isinstance(found, Answers) else Answers(_numbers(task, found))
    rows = _numbers(task, answers.rows).copy()
    seconds = None if answers.seconds is None else np.asarray(answers.seconds, dtype=np.float64)
    if seconds is not None and seconds.shape != (len(rows),):
        raise GraceError(f"the method returned seconds of shape {seconds.shape} for {len(rows)} rows")
    errors: Counter[str] = Counter()
    for i in np.flatnonzero(~np.isnan(rows).all(axis=1)):
        rows[i], error = checked_row(task, rows[i])
        errors[error] += bool(error)
    notes = [f"{count} of {len(rows)} rows: {error}" for error, count in errors.most_common() if count]
    return replace(answers, rows=rows, seconds=seconds, note="; ".join(filter(None, (answers.note, *notes))))


def _numbers(task: Task, rows: object) -> Floats:
    try:
        out = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise GraceError(f"the method returned {type(rows).__name__}, not rows of numbers: {reason}") from reason
    if out.shape != task.rows.shape:
        raise GraceError(f"the method returned shape {out.shape}; {task.rows.shape} was expected")
    return out


def checked_row(task: Task, values: object) -> tuple[Floats, str]:
    """The row of an answer, and an empty text; if it is invalid, NaN and the reason."""
    nothing = np.full(task.rows.shape[1], np.nan)
    try:
        row = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return nothing, "an answer that is not a list of numbers"
    if row.shape != nothing.shape:
        return nothing, f"an answer of shape {row.shape} instead of {nothing.shape}"
    if not (np.abs(row) < INFINITE).all():
        return nothing, "an answer with NaN or infinity"
    for j, feature in enumerate(task.schema.features):
        if isinstance(feature, Categorical) and row[j] not in range(len(feature.categories)):
            return nothing, f"a category of {feature.name!r} that does not exist"
    return row, ""


def prepare(
    table: Table,
    *,
    domain: Domain = "central",
    rows: int = 100,
    seed: int = 0,
    max_features: int = 5,
    gamma: float = 0.5,
    time_limit: float = 10.0,
) -> Task:
    """The task of a network trained on a table and the first of its test rows, with missing cells imputed."""
    parts = table.split(seed)
    model = network_of(table, seed, seed)
    assert model.schema is not None
    train = model.impute(parts.train)
    schema = Schema.infer(train, domain=domain, like=model.schema)
    return Task(
        name=table.name,
        model=model,
        schema=schema,
        rows=schema.encode(model.impute(parts.test.head(rows))),
        train=schema.encode(train),
        labels=class_codes(parts.train[table.target], model.classes, table.name),
        max_features=max_features,
        gamma=gamma,
        seed=seed,
        time_limit=time_limit,
    )


def network_of(table: Table, split_seed: int, seed: int) -> TorchModel:
    """A network trained on the training part of a split; `seed` is that of the weights and the order of batches."""
    parts = table.split(split_seed)
    recipe = RECIPES.get(table.name, Recipe())
    return fit(parts.train, schema=table.declared, recipe=recipe, validation=parts.validation, seed=seed)


def network_in(model: Model) -> Network | None:
    """The network of a model that `grace.training.fit` trained, else None."""
    return model.network if isinstance(model, TorchModel) else None


def _feature(schema: Schema, j: int) -> dict[str, Any]:
    """A feature as JSON for runners."""
    feature = schema.features[j]
    if isinstance(feature, Categorical):
        return {"categories": len(feature.categories), "open": schema.selectable_codes(j).tolist()}
    low, high = feature.bounds
    return {
        "low": low,
        "high": high,
        "integer": bool(feature.integer),
        "decimals": feature.decimals or 0,
        "spread": feature.spread or 1.0,
    }


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
    """The task to explain the first `most` of some rows by any model. `against` is the target range of a regression;
    rows that are in it already are left out. No cell may be missing, as not all peers accept that."""
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
    chosen = np.arange(len(rows)) if wanted is None else np.flatnonzero(task.classes_of(encoded) == 0)
    return task.select(chosen[:most].tolist())
