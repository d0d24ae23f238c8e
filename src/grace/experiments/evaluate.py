"""Measures of the answers of any method, computed by the task's model in float64 on the rows as returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist

from grace.experiments.task import Answers, Task, classes_of
from grace.explain.metrics import info_gain
from grace.models.torch import TorchModel
from grace.problem.space import Space
from grace.schema.features import Bools, Categorical, Floats, Numeric
from grace.schema.information import discretise, su_matrix

TOLERANCE = 1e-6
"""A number counts as changed if it differs by more than this, relative to its spread and its absolute value: peers may
compute in float32."""
NEIGHBOURS = 5
MAX_TRAINING = 2000  # rows of a class among which the nearest neighbours are searched

HIGHER, LOWER = "higher", "lower"
MEASURES = {
    "valid": (HIGHER, "share of rows with an answer that the model puts into another class"),
    "within_k": (HIGHER, "share of valid answers that change at most K features"),
    "in_domain": (HIGHER, "share of valid answers whose changed values lie in the domain"),
    "features": (LOWER, "changed features per valid answer"),
    "distance": (LOWER, "L1 in units of each feature's spread, 1 for a changed category"),
    "redundancy": (LOWER, "mean SU over pairs of changed features, 0 for a single one"),
    "plausibility": (LOWER, f"mean distance to the {NEIGHBOURS} nearest training rows of the new class"),
    "percentile": (LOWER, "share of that class's training rows that lie nearer to their own neighbours"),
    "kept_class": (HIGHER, "share of (answer, retrained network) pairs in which the new class holds"),
    "kept_flip": (HIGHER, "the same for any class but the original one"),
    "ms": (LOWER, "milliseconds per row, asked one at a time"),
    "batch_ms": (LOWER, "milliseconds per row, all asked at once"),
}


@dataclass(frozen=True)
class Verdict:
    """The measures of each row that was tried; those other than `valid` are defined only where it is true."""

    valid: Bools
    features: Floats
    within_k: Floats
    in_domain: Floats
    distance: Floats
    redundancy: Floats
    plausibility: Floats
    percentile: Floats
    kept_class: Floats
    kept_flip: Floats

    def figures(self) -> dict[str, float]:
        """The share of valid answers, and the means of the other measures over them."""
        out = {"valid": float(self.valid.mean()) if len(self.valid) else float("nan")}
        for name in MEASURES:
            if name not in ("valid", "ms", "batch_ms"):
                values = getattr(self, name)[self.valid]
                out[name] = float(values.mean()) if len(values) else float("nan")
        return out


class Judge:
    """Computes the measures of answers to a task. `retrained` networks measure how robust the answers are."""

    def __init__(self, task: Task, retrained: list[TorchModel]) -> None:
        self.task = task
        self.retrained = retrained
        self.original = task.classes_of(task.rows)
        self.su = su_matrix(discretise(task.train, task.labels, task.schema))
        self.predicted = task.classes_of(task.train)
        self._class_members: dict[int, tuple[Floats, Floats]] = {}

    def verdict(self, answers: Answers) -> Verdict:
        tried = len(self.task.rows) if answers.tried is None else answers.tried
        rows, found = self.task.rows[:tried], answers.rows[:tried]
        answered = np.asarray(np.isfinite(found).all(axis=1))
        new = np.where(answered[:, None], found, rows)
        classes = self.task.classes_of(new) if tried else np.zeros(0, dtype=np.int64)
        valid = np.asarray(answered & (classes != self.original[:tried]))
        changed = differs(self.task, rows, new)
        hidden = valid & (changed != (new != rows)).any(axis=1)
        if hidden.any():  # differences that pass for rounding count after all where the class depends on them
            restored = self.task.classes_of(np.where(changed, new, rows)[hidden])
            needed = np.flatnonzero(hidden)[restored == self.original[:tried][hidden]]
            changed[needed] = (new != rows)[needed]
        inside = np.all(contains(self.task, new) | ~changed, axis=1)
        nearest, percentile = self._plausibility(new, classes, valid)
        again = [classes_of(model, new) for model in self.retrained] if tried else []
        unknown = np.full(tried, np.nan)
        return Verdict(
            valid=valid,
            features=changed.sum(axis=1).astype(np.float64),
            within_k=(changed.sum(axis=1) <= self.task.max_features).astype(np.float64),
            in_domain=np.asarray(inside, dtype=np.float64),
            distance=distance(self.task, rows, new),
            redundancy=1 - info_gain(changed, self.su),
            plausibility=nearest,
            percentile=percentile,
            kept_class=np.mean([c == classes for c in again], axis=0) if again else unknown,
            kept_flip=np.mean([c != self.original[:tried] for c in again], axis=0) if again else unknown,
        )

    def _plausibility(
        self, rows: Floats, classes: np.ndarray[Any, np.dtype[np.int64]], valid: Bools
    ) -> tuple[Floats, Floats]:
        nearest, percentile = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        for c in np.unique(classes[valid]):
            mask = valid & (classes == c)
            train, spacing = self._class(int(c))
            if len(train) == 0:
                continue
            nearest[mask] = _mean_of_nearest(cdist(coordinates(self.task, rows[mask]), train, "cityblock"))
            percentile[mask] = (spacing[None, :] < nearest[mask][:, None]).mean(axis=1)
        return nearest, percentile

    def _class(self, c: int) -> tuple[Floats, Floats]:
        """The coordinates of the training rows of a predicted class, and the mean distance of each to its nearest
        neighbours among them."""
        if c not in self._class_members:
            members = np.flatnonzero(self.predicted == c)
            if len(members) > MAX_TRAINING:
                chosen = np.random.default_rng(self.task.seed).choice(members, MAX_TRAINING, replace=False)
                members = np.sort(chosen)
            points = coordinates(self.task, self.task.train[members])
            distances = cdist(points, points, "cityblock")
            np.fill_diagonal(distances, np.inf)
            self._class_members[c] = points, _mean_of_nearest(distances)
        return self._class_members[c]


def figures(verdict: Verdict, answers: Answers) -> dict[str, float]:
    """The measures of a method on a task, with times."""
    out = verdict.figures()
    timed = np.array([]) if answers.seconds is None else answers.seconds[np.isfinite(answers.seconds)]
    out["ms"] = float(timed.mean() * 1000) if len(timed) else float("nan")
    total = answers.batch_seconds
    out["batch_ms"] = float("nan") if total is None else total * 1000 / len(answers.rows)
    return out


def differs(task: Task, rows: Floats, new: Floats) -> Bools:
    """Which cells have changed, up to rounding of numbers."""
    return np.asarray(np.abs(new - rows) > np.where(_categorical(task), 0.0, _slack(task, rows)))


def contains(task: Task, rows: Floats) -> Bools:
    """Which cells lie in the domain, up to rounding."""
    low, high = task.schema.bounds()
    slack = _slack(task, rows)
    integer = np.array([isinstance(f, Numeric) and bool(f.integer) for f in task.schema.features])
    inside = (rows >= low - slack) & (rows <= high + slack) & (~integer | (np.abs(rows - np.round(rows)) <= slack))
    for j in np.flatnonzero(_categorical(task)):
        inside[:, j] = np.isin(rows[:, j], task.schema.selectable_codes(int(j)))
    return np.asarray(inside)


def distance(task: Task, rows: Floats, new: Floats) -> Floats:
    """L1 distance: |difference| / spread summed over numbers, 1 for each changed category."""
    return np.asarray(Space(task.schema).distance(torch.as_tensor(rows), torch.as_tensor(new)))


def coordinates(task: Task, rows: Floats) -> Floats:
    """Coordinates whose L1 distance is `distance`: numbers in spreads, half of one-hot categories."""
    categorical = _categorical(task)
    parts = [rows[:, ~categorical] / _spread(task)[~categorical]]
    for j, feature in enumerate(task.schema.features):
        if isinstance(feature, Categorical):
            parts.append(np.eye(len(feature.categories))[rows[:, j].astype(int)] / 2)
    return np.concatenate(parts, axis=1)


def _mean_of_nearest(distances: Floats) -> Floats:
    count = min(NEIGHBOURS, max(1, distances.shape[1] - 1))
    nearest = np.partition(distances, count - 1, axis=1)[:, :count]
    return np.asarray(nearest.mean(axis=1))


def _slack(task: Task, rows: Floats) -> Floats:
    return TOLERANCE * np.maximum(_spread(task), np.abs(rows))


def _spread(task: Task) -> Floats:
    return np.array([(f.spread or 1.0) if isinstance(f, Numeric) else 1.0 for f in task.schema.features])


def _categorical(task: Task) -> Bools:
    return np.array([isinstance(f, Categorical) for f in task.schema.features])
