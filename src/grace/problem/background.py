"""What is learnt from training rows: SU of all pairs of features, and a sample of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, class_codes
from grace.problem.answers import Answers
from grace.problem.binding import SAMPLE, bind, encoded, query
from grace.schema.columns import imputed
from grace.schema.features import Floats, Numeric, Value
from grace.schema.frames import numbers
from grace.schema.information import discretise, quantile_cuts, raw_symbols, su_matrix
from grace.schema.schema import Schema
from grace.schema.sources import RowIndices, Source, encoded_blocks

MOST_BACKGROUND = 20_000
LEAST_OF_CLASS = 1000  # background rows that a class has for sure, if it has so many
MOST_SU = 100_000  # rows that SU is computed from: more add bins and hardly change it
POOL = 1_000_000  # rows whose classes the model is queried for
PERMUTED = 0.2  # how much better another label order must fit before it is suspected


@dataclass(frozen=True)
class Background:
    """What an explainer keeps of its training rows; all of it may be unknown."""

    rows: Floats | None = None  # (m, d), a sample
    su: Floats | None = None  # (d, d) symmetrical uncertainty
    training_rows: int = 0
    su_rows: int = 0  # that SU was computed from
    scores: Floats | None = None  # (m, classes) of the sample, by the model as it was then
    source: Source | None = None  # the whole table

    @classmethod
    def from_source(
        cls, model: Model, schema: Schema, source: Source, seed: int, most: int = MOST_BACKGROUND
    ) -> tuple[Model, Background]:
        """Bind the model, and learn from its scores of training rows. All that is drawn is drawn by `seed`: of more
        than POOL rows (or `most`, if that is more), so many; of these SU is that of MOST_SU, and `most` are kept by
        `stratified_sample`."""
        rng = np.random.default_rng(seed)
        n = len(source)
        size = max(POOL, most)
        pool = np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))
        order = rng.permutation(len(pool))
        some = pool[np.sort(order[:MOST_SU])]
        frame = source.take(some)
        rows = encoded(schema, frame)
        model = bind(model, schema, rows[:SAMPLE], seed)
        scores = query(model, rows)
        target = schema.target
        labelled = target is not None and target in frame.columns and bool(frame[target].notna().all())
        if model.task == "regression":
            labels = deciles(numbers(frame[target]) if labelled else scores[:, 0])
        elif labelled and model.task == "classification":
            predicted = scores.argmax(axis=1)
            labels = class_codes(frame[target], model.classes, f"target column {target!r}")
            warn_if_permuted(predicted, labels, model.classes)
        else:
            labels = scores.argmax(axis=1)
        su = su_matrix(discretise(rows, labels, schema))
        known = len(some) == len(pool)
        keep = np.arange(len(pool))
        if n > most:
            if model.task == "regression":
                classes = np.zeros(len(pool), dtype=np.int64)
            elif known:
                classes = scores.argmax(axis=1)
            else:
                blocks = encoded_blocks(source, pool, schema)
                classes = np.concatenate([query(model, imputed(schema.features, b)).argmax(axis=1) for b in blocks])
            keep = stratified_sample(classes, order, most)
        if known:
            rows, scores = rows[keep], scores[keep]
        else:
            rows = encoded(schema, source.take(pool[keep]))
            scores = query(model, rows)
        background = cls(rows=rows, scores=scores, su=su, su_rows=len(some), training_rows=n, source=source)
        return model, background

    @cached_property
    def su_raw(self) -> Floats:
        """SU on raw values, where every float is its own symbol."""
        if self.rows is None:
            raise GraceError("raw SU needs training rows; give train= to Explainer")
        return su_matrix(raw_symbols(self.rows))


def stratified_sample(classes: RowIndices, order: RowIndices, most: int) -> RowIndices:
    """Which rows are kept, in rising order: the first `most` of the order, but of a class that is rare among them as
    many as LEAST_OF_CLASS, if it has so many, and no more than an equal share."""
    ordered = classes[order]
    least = min(LEAST_OF_CLASS, most // len(np.unique(ordered)))
    by_class = np.argsort(ordered, kind="stable")
    starts = np.searchsorted(ordered[by_class], ordered[by_class], side="left")
    rank = np.empty(len(order), dtype=np.int64)
    rank[by_class] = np.arange(len(order)) - starts
    sure = rank < least
    others = np.flatnonzero(~sure)[: most - int(sure.sum())]
    return np.sort(order[np.concatenate([np.flatnonzero(sure), others])])


def conflicts(su: Floats | None, gamma: float, width: int) -> Tensor:
    """Which pairs of features are redundant (d, d): SU > gamma."""
    if gamma >= 1:  # one cell, expanded
        return torch.zeros((), dtype=torch.bool).expand(width, width)
    if su is None:
        raise GraceError(f"gamma={gamma} needs SU, which needs train=; give train, or gamma=1")
    return torch.as_tensor(su > gamma + 1e-12).fill_diagonal_(False)


def class_medians(rows: Floats, scores: Floats) -> Floats:
    """The median row of each class (k, d), with values that occur; NaN for a class that the model never says."""
    classes = scores.argmax(axis=1)
    out = np.full((scores.shape[1], rows.shape[1]), np.nan)
    for label in np.unique(classes):
        out[label] = np.quantile(rows[classes == label], 0.5, axis=0, method="lower")
    return out


def class_median_cells(model: Model, schema: Schema, medians: Floats, found: Answers) -> Floats:
    """The median of its class in the changed numbers of each contrastive row; NaN elsewhere, and in rows that with it
    are not of that class."""
    out = np.full_like(found.contrast, np.nan)
    changed = found.changed & [isinstance(f, Numeric) for f in schema.features]
    wanted = found.after.argmax(axis=1)
    typical = medians[wanted]
    alone = found.success & ~found.followed.any(axis=1)  # what would follow typical values is not looked at
    ask = np.flatnonzero(alone & ~np.isnan(typical[:, 0]) & changed.any(axis=1))
    if len(ask):
        tried = np.where(changed, typical, found.contrast)[ask]
        kept = ask[query(model, tried).argmax(axis=1) == wanted[ask]]
        gap = np.array([f.missing_code if isinstance(f, Numeric) else np.nan for f in schema.features])
        out[kept] = np.where(changed & (typical != gap), typical, np.nan)[kept]
    return out


def deciles(values: Floats) -> npt.NDArray[np.int64]:
    """Numbers as the tenth of all numbers in which they lie."""
    return np.searchsorted(quantile_cuts(values), values, side="left").astype(np.int64)


def prediction_spread(model: Model, scores: Floats) -> float:
    """The unit in which a predicted number is measured: as that of a feature."""
    if model.task != "regression":
        return 1.0
    return Numeric(name="prediction").observe(scores[:, 0], "minmax").spread or 1.0


def warn_if_permuted(
    predicted: np.ndarray[tuple[int], np.dtype[np.int64]],
    labels: np.ndarray[tuple[int], np.dtype[np.int64]],
    classes: Sequence[Value],
) -> None:
    """Warn when another order of the classes would fit the training labels far better."""
    count = len(classes)
    table = np.bincount(predicted * count + labels, minlength=count * count).reshape(count, count)
    own = np.trace(table) / len(labels)
    rows, best = linear_sum_assignment(-table)
    other = table[rows, best].sum() / len(labels)
    if other > own + PERMUTED:
        order = [classes[i] for i in best]
        warnings.warn(
            f"the model agrees with {own:.0%} of the training labels, but would with {other:.0%} if its outputs were "
            f"in the order {order!r}; check the order of classes=",
            stacklevel=4,
        )
