"""Binding a model to a schema: trying it on sample rows, and querying it for encoded rows."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch

from grace.errors import GraceError
from grace.models.base import Model, checked_scores
from grace.models.checking import LayersDifferError, warn_if_unsteady
from grace.models.predictor import Predictor
from grace.models.relu import check_layers
from grace.schema.columns import imputed
from grace.schema.domains import Domain
from grace.schema.features import Categorical, Floats
from grace.schema.frames import join_first
from grace.schema.schema import Schema
from grace.schema.sources import Source, schemas

SAMPLE = 256  # rows on which a new model is tried


def bind(model: Model, schema: Schema, rows: Floats, seed: int = 0) -> Model:
    """The model bound to the schema and tried on sample rows. If the layers that were read off it score these rows or
    random ones differently from the model itself, they are dropped; a model whose scores are not deterministic is
    warned about."""
    check_order(model, schema)
    tried = torch.as_tensor(rows, device=model.device)
    model.bind(schema, tried)
    random = torch.as_tensor(random_rows(schema, seed), device=model.device)
    model = model.read(torch.cat([tried, random]))
    try:
        model.refresh()
        check_layers(model, torch.cat([tried, random]))
    except LayersDifferError as difference:
        model = without_layers(model, schema, rows, difference)
    first = model.sampled if isinstance(model, Predictor) else query(model, rows)
    if first is not None and len(rows):
        warn_if_unsteady(first, query(model, rows), model.name)
    return model


def check_order(model: Model, schema: Schema) -> None:
    """Refuse a schema in another order than the model's: encoded rows identify features and categories by position."""
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
            raise GraceError(
                f"the {what} are {join_first(given)} in the schema, but {join_first(needed)} in the model; use these"
            )


def without_layers(model: Model, schema: Schema, rows: Floats, difference: LayersDifferError) -> Model:
    """The model without what was read off its layers, and a warning that says why."""
    warnings.warn(str(difference), stacklevel=4)
    return as_black_box(model, schema, rows)


def as_black_box(model: Model, schema: Schema, rows: Floats) -> Model:
    """The model as one that is known by its answers alone."""
    model = model.without_layers()
    model.bind(schema, torch.as_tensor(rows, device=model.device))
    return model


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
    """Whether the training rows have missing cells and the model is a black box that accepts them."""
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
        with warnings.catch_warnings(action="ignore"):  # warnings are raised when the model itself is bound
            trial.bind(schema, torch.as_tensor(encoded(schema, some)))
    except GraceError:
        return False
    return True


def encoded(schema: Schema, frame: pd.DataFrame) -> Floats:
    """Rows of a frame with missing cells filled in."""
    return imputed(schema.features, schema.encode(frame, missing=True))


def query(model: Model, rows: Floats) -> Floats:
    """The scores of encoded rows."""
    tensor = torch.as_tensor(rows, dtype=torch.float64, device=model.device)
    return np.asarray(checked_scores(model, tensor).cpu().numpy())


def random_rows(schema: Schema, seed: int) -> Floats:
    """Sample rows from the whole domain, to try a model on when there are no training rows."""
    low, high = schema.bounds()
    low, high = np.clip(low, -1e6, 1e6), np.clip(high, -1e6, 1e6)
    rows = low + np.random.default_rng(seed).random((SAMPLE, len(schema))) * (high - low)
    return np.asarray(schema.project(rows))
