"""What an explainer learns from training rows: SU, background rows, and what is typical of each class."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, checked_scores, class_codes, fill_value
from grace.models.checking import LayersDifferError, warn_if_unsteady
from grace.models.predictor import Predictor
from grace.models.relu import check_layers
from grace.problem.answers import Answers
from grace.problem.problem import Background
from grace.problem.requirements.plausible import Typicality
from grace.problem.space import Space
from grace.schema.features import Categorical, Domain, Floats, Numeric, Value
from grace.schema.frames import numbers, some
from grace.schema.information import discretise, quantile_cuts, su_matrix
from grace.schema.schema import Schema
from grace.schema.sources import Places, Source, encoded_blocks, schemas

MOST_BACKGROUND = 20_000
LEAST_OF_CLASS = 1000  # background rows that a class has for sure, if it has so many
MOST_SU = 100_000  # rows that SU is learnt from: more make more bins, and hardly another SU
POOL = 1_000_000  # rows that the model is asked for the classes of
SAMPLE = 256  # rows on which a new model is tried
PERMUTED = 0.2  # how much better another label order must fit before it is suspected


@dataclass(frozen=True)
class Learnt:
    """The model as it is read, SU of all pairs of features and how many rows it comes from, some training rows with
    their scores, the median row of each class, and for a model that predicts numbers their spread."""

    model: Model
    su: Floats
    su_rows: int
    rows: Floats
    scores: Floats
    medians: Floats
    spread: float


@dataclass
class ModelView:
    """What an explainer found out by asking its model, as long as it has that model."""

    medians: Floats | None = None  # the median row of each class
    spread: float | None = None  # of what a model of numbers predicts
    scores: Floats | None = None  # of the background rows, as the model was when they were learnt
    given: tuple[str, Floats] | None = None  # the same with the fingerprint of the model then
    known: Background | None = None
    typical: tuple[Floats, Typicality] | None = None
    spaces: dict[tuple[Domain, str], Space] = field(default_factory=dict)


def learn(model: Model, schema: Schema, source: Source, seed: int, most: int = MOST_BACKGROUND) -> Learnt:
    """Meet the model with training rows, and learn from what it says of them. All that is drawn is drawn by `seed`: of
    more than POOL rows (or `most`, if that is more), so many; of these SU is that of MOST_SU, and `most` are kept as
    `kept` has it."""
    rng = np.random.default_rng(seed)
    n = len(source)
    size = max(POOL, most)
    pool = np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))
    order = rng.permutation(len(pool))
    some = pool[np.sort(order[:MOST_SU])]
    frame = source.take(some)
    rows = encoded(schema, frame)
    model = met(model, schema, rows[:SAMPLE], seed)
    scores = asked(model, rows)
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
            classes = np.concatenate([asked(model, filled(schema, b)).argmax(axis=1) for b in blocks])
        keep = kept(classes, order, most)
    if known:
        rows, scores = rows[keep], scores[keep]
    else:
        rows = encoded(schema, source.take(pool[keep]))
        scores = asked(model, rows)
    return Learnt(model, su, len(some), rows, scores, medians(rows, scores), spread_of(model, scores))


def met(model: Model, schema: Schema, rows: Floats, seed: int = 0) -> Model:
    """The model, bound to the schema and tried on sample rows. If what was read off its layers is not what it says of
    these rows and of random ones, it is taken without its layers; if it says something else the next time, that is
    said."""
    check_order(model, schema)
    tried = torch.as_tensor(rows, device=model.device)
    model.bind(schema, tried)
    anyhow = torch.as_tensor(random_rows(schema, seed), device=model.device)
    try:
        model.refresh()
        check_layers(model, torch.cat([tried, anyhow]))
    except LayersDifferError as difference:
        model = dropped(model, schema, rows, difference)
    first = model.sampled if isinstance(model, Predictor) else asked(model, rows)
    if first is not None and len(rows):
        warn_if_unsteady(first, asked(model, rows), model.name)
    return model


def check_order(model: Model, schema: Schema) -> None:
    """A model that is given encoded rows knows features by their places, and categories by theirs."""
    known = model.schema
    if known is None or model.black_box:
        return
    pairs: list[tuple[str, list[Any], list[Any]]] = [("features", known.names, schema.names)]
    for own in known.features:
        feature = schema.features[schema.index(own.name)] if own.name in schema.names else own
        if isinstance(own, Categorical) and own.categories and isinstance(feature, Categorical):
            places = own.categories[: len(feature.categories)]  # the model may know "missing" beside them
            pairs.append((f"categories of {own.name!r}", list(places), list(feature.categories)))
    for what, needed, given in pairs:
        if needed != given:
            raise GraceError(f"the {what} are {some(given)} in the schema, but {some(needed)} in the model; use these")


def dropped(model: Model, schema: Schema, rows: Floats, difference: LayersDifferError) -> Model:
    """The model without what was read off its layers, and a warning that says why."""
    warnings.warn(str(difference), stacklevel=4)
    model = model.without_layers()
    model.bind(schema, torch.as_tensor(rows, device=model.device))
    return model


def kept(classes: Places, order: Places, most: int) -> Places:
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
    """Which two features say too much the same (d, d)."""
    if gamma >= 1:  # a single cell, seen as all of them
        return torch.zeros((), dtype=torch.bool).expand(width, width)
    if su is None:
        raise GraceError(f"gamma={gamma} needs SU, which needs train=; give train, or gamma=1")
    return torch.as_tensor(su > gamma + 1e-12).fill_diagonal_(False)


def complete_schema(schema: Schema | None, domain: Domain | None) -> Schema:
    """The schema of an explainer that has no training rows, or an error that says what is missing."""
    if schema is None:
        raise GraceError("give train= (a DataFrame), or a complete schema=")
    for feature in schema.features:
        if not feature.complete:
            raise GraceError(f"feature {feature.name!r} of the schema has no range or categories; give train=")
    if domain is not None and domain != schema.domain:
        raise GraceError(f"domain={domain!r} needs train=; the schema was made for {schema.domain!r}")
    return schema


def takes_missing(model: Model, source: Source, target: str | None, like: Schema | None) -> bool:
    """Whether there are missing cells, and a black box that makes something of them."""
    if not isinstance(model, Predictor):
        return False
    targets = (target, like.target if like else None)
    found = []
    for frame in source.blocks(np.arange(len(source))):
        holes = frame.drop(columns=[c for c in targets if c in frame.columns]).isna().any(axis=1)
        found.append(frame[holes].head(SAMPLE))
        if sum(map(len, found)) >= SAMPLE:
            break
    some = pd.concat(found).head(SAMPLE)
    if len(some) == 0:
        return False
    try:
        (schema,) = schemas(source, target, domains=["central"], like=like, gaps=True).values()
        trial = copy.copy(model)
        with warnings.catch_warnings(action="ignore"):  # what is to be said is said when the model itself is bound
            trial.bind(schema, torch.as_tensor(encoded(schema, some)))
    except GraceError:
        return False
    return True


def encoded(schema: Schema, frame: pd.DataFrame) -> Floats:
    """Rows of a frame with missing cells filled in."""
    return filled(schema, schema.encode(frame, missing=True))


def filled(schema: Schema, rows: Floats) -> Floats:
    """Rows with missing cells filled in."""
    return np.where(np.isnan(rows), [fill_value(f) for f in schema.features], rows)


def asked(model: Model, rows: Floats) -> Floats:
    """The scores of encoded rows."""
    tensor = torch.as_tensor(rows, dtype=torch.float64, device=model.device)
    return np.asarray(checked_scores(model, tensor).cpu().numpy())


def random_rows(schema: Schema, seed: int) -> Floats:
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


def usual(model: Model, schema: Schema, medians: Floats, found: Answers) -> Floats:
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
        kept = ask[asked(model, tried).argmax(axis=1) == wanted[ask]]
        gap = np.array([f.gap if isinstance(f, Numeric) else np.nan for f in schema.features])
        out[kept] = np.where(changed & (typical != gap), typical, np.nan)[kept]
    return out


def deciles(values: Floats) -> npt.NDArray[np.int64]:
    """Numbers as the tenth of all numbers in which they lie."""
    return np.searchsorted(quantile_cuts(values), values, side="left").astype(np.int64)


def spread_of(model: Model, scores: Floats) -> float:
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
