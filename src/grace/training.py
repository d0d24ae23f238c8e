"""Training the paper's networks, and networks of the same kind for any other table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from grace.datasets import Table
from grace.errors import GraceError
from grace.features import MISSING, Categorical, Feature, Floats, Numeric, plain
from grace.frames import said, some
from grace.models.base import class_codes, fill_value
from grace.models.network import Network
from grace.models.torch import TorchModel
from grace.schema import Schema

Progress = Callable[[int, int, float], None]
"""Called after each epoch with the epoch, the most there may be, and the validation loss."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; the paper's Table Sup1 has one for each of its tables."""

    hidden: tuple[int, ...] = (64, 32)
    learning_rate: float = 0.003
    patience: int = 10
    batch_size: int = 512
    max_epochs: int = 500

    def __post_init__(self) -> None:
        for name in ("patience", "batch_size", "max_epochs"):
            if getattr(self, name) < 1:
                raise GraceError(f"{name}={getattr(self, name)!r}: it must be a whole number of at least 1")
        if not self.learning_rate > 0:
            raise GraceError(f"learning_rate={self.learning_rate!r}: it must be positive")
        if any(size < 1 for size in self.hidden):
            raise GraceError(f"hidden={self.hidden!r}: every layer needs at least one unit")


RARE = 10  # rows that a category needs to be one of its own, if rare ones are put together

RECIPES = {
    "eegeye": Recipe((40, 30), 0.01, 5),
    "diabetes": Recipe((15, 7), 0.01, 3),
    "cancer95": Recipe((15, 15), 0.001, 3),
    "phoneme": Recipe((20, 5), 0.001, 3),
    "segment": Recipe((30, 10), 0.01, 3),
    "magic": Recipe((35, 20), 0.001, 4),
    "biodeg": Recipe((60, 50), 0.01, 3),
    "spam": Recipe((50, 30), 0.001, 3),
    "cancer92": Recipe((50, 20), 0.001, 3),
    "mfeat": Recipe((100, 50), 0.001, 5),
    "musk": Recipe((100, 100), 0.0001, 3),
}


def fit(
    data: Table | pd.DataFrame,
    target: str | None = None,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    schema: Schema | None = None,
    validation: pd.DataFrame | None = None,
    progress: Progress | None = None,
    rare: str | None = None,
    **changes: Any,
) -> TorchModel:
    """Train a network on a table of the paper (its training part) or on any DataFrame.

    Keyword `changes` are parts of the recipe: `hidden=(32, 16)`, `learning_rate`, `patience`,
    `batch_size`, `max_epochs`. Without `validation`, a tenth of the rows is set aside for early
    stopping. Missing cells are imputed: the median, or the category "missing", as the training part has it. With
    `rare="other"`, categories with fewer than 10 rows become one of that name, and so does any that turns up later.
    """
    if isinstance(data, Table):
        parts = data.split(seed)
        recipe = recipe or RECIPES.get(data.name, Recipe())
        schema = data.declared if schema is None else schema
        target = data.target
        train, held = parts.train, parts.validation if validation is None else validation
    else:
        if target is None and schema is not None:
            target = schema.target
        check_target(data, target)
        assert target is not None
        train, held = (data, validation) if validation is not None else _set_aside(data, target, seed)
    for name in changes:
        if name not in Recipe.__dataclass_fields__:
            raise GraceError(f"a recipe has no {name!r}; it has {', '.join(Recipe.__dataclass_fields__)}")
    recipe = replace(recipe or Recipe(), **changes)
    if target not in held.columns:
        raise GraceError(f"target column {target!r} is not in the validation data")
    if rare is not None:
        schema = _with_other(Schema.infer(train, target, like=schema), train, rare)
    schema = with_categories(schema, pd.concat([train, held]), train, target)
    schema = _with_missing(Schema.infer(train, target, like=schema), train)
    x, y = _rows(train, schema, "training data")
    held_x, held_y = _rows(held, schema, "validation data")
    network = Network(schema, recipe.hidden, len(schema.classes))
    generator = torch.Generator().manual_seed(seed)
    centre, scale = _scaling(x, schema)
    with torch.no_grad():
        network.initialise(centre, scale, generator)
    _train(network, (x, y), (held_x, held_y), recipe, generator, progress)
    return TorchModel(network.double().eval().requires_grad_(False), schema.classes, outputs="logits", schema=schema)


def _train(
    network: Network,
    train: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor],
    recipe: Recipe,
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    """Adam on cross-entropy; stop when the validation loss has not improved for `patience` epochs and
    go back to the best weights."""
    x, y = train
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches are small: threads cost more than they bring, far more on a busy machine
    try:
        _epochs(network, x, y, held, recipe, generator, progress)
    finally:
        torch.set_num_threads(threads)


def _epochs(
    network: Network,
    x: Tensor,
    y: Tensor,
    held: tuple[Tensor, Tensor],
    recipe: Recipe,
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    best, best_state, waited = np.inf, _copy(network), 0
    for epoch in range(1, recipe.max_epochs + 1):
        network.train()
        order = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), recipe.batch_size):
            batch = order[start : start + recipe.batch_size]
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(nn.functional.cross_entropy(network(x[batch]), y[batch]))
            optimiser.step()
        network.eval()
        with torch.no_grad():
            loss = float(nn.functional.cross_entropy(network(held[0]), held[1]))
        if progress is not None:
            progress(epoch, recipe.max_epochs, loss)
        if not np.isfinite(loss):
            raise GraceError(f"training failed in epoch {epoch}: the loss is {loss}; lower learning_rate")
        if loss < best:
            best, best_state, waited = loss, _copy(network), 0
        else:
            waited += 1
            if waited >= recipe.patience:
                break
    network.load_state_dict(best_state)


def _copy(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def check_target(frame: pd.DataFrame, target: str | None) -> None:
    if target is None:
        raise GraceError('which column is the target? pass target="..."')
    if len(frame) == 0:
        raise GraceError("there are no rows to train on: the table is empty")
    if target not in frame.columns:
        raise GraceError(f"target column {target!r} is not in the data; columns: {some(frame.columns)}")
    counts = frame[target].value_counts()
    counts = counts[counts > 0]
    if frame[target].isna().any():
        row = frame.index[int(frame[target].isna().to_numpy().argmax())]
        raise GraceError(f"target column {target!r}, row {said(row)}: the label is missing; drop the row or fill it in")
    if len(counts) < 2:
        raise GraceError(f"target column {target!r} has only the class {said(counts.index[0])}; a contrast needs two")
    if counts.iloc[-1] < 2:
        raise GraceError(
            f"class {said(counts.index[-1])} in {target!r} has one row; training needs at least two of each class "
            "(if the column is a number, bin it first)"
        )


def _set_aside(frame: pd.DataFrame, target: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    classes = frame[target].nunique()
    held = max(int(np.ceil(len(frame) * 0.1)), classes)
    if len(frame) - held < classes:
        raise GraceError(f"{len(frame)} rows are too few to train on {classes} classes; pass validation= and more rows")
    train, rest = train_test_split(frame, test_size=held, stratify=frame[target], random_state=seed)
    return train, rest


def with_categories(like: Schema | None, frame: pd.DataFrame, train: pd.DataFrame, target: str) -> Schema:
    """What is declared, with the categories of the whole frame; a change may choose only those that
    occur in training."""
    base = Schema(features=(), target=target) if like is None else like
    declared = {f.name: f for f in base.features}
    features: list[Feature] = []
    for found in Schema.infer(frame, target, like=base).features:
        feature = declared.get(found.name, type(found)(name=found.name))
        if isinstance(found, Categorical) and isinstance(feature, Categorical) and not feature.categories:
            seen = {plain(value) for value in train[found.name].dropna().unique()}
            never = tuple(c for c in found.categories if c not in seen)
            feature = replace(feature, categories=found.categories, never=never)
        features.append(feature)
    return replace(base, features=tuple(features))


def _with_other(schema: Schema, train: pd.DataFrame, word: str) -> Schema:
    """Categorical columns with rare categories get one for all of them, which a row may have but no change choose."""
    for feature in schema.features:
        if isinstance(feature, Categorical) and not feature.other and not feature.columns:
            counts = train[feature.name].map(plain).value_counts()
            kept = tuple(c for c in feature.categories if counts.get(c, 0) >= RARE and c != word)
            if kept and len(kept) < len(feature.categories):
                never = (*(c for c in feature.never if c in kept), word)
                typical = feature.typical if feature.typical in kept else kept[0]
                parts = {"categories": (*kept, word), "never": never, "other": word, "typical": typical}
                schema = schema.replace(feature.name, **parts)
    return schema


def _with_missing(schema: Schema, train: pd.DataFrame) -> Schema:
    """Categorical columns with missing cells in training get the category "missing", which a row may
    have but no change may choose."""
    for feature in schema.features:
        if not isinstance(feature, Categorical) or feature.columns or MISSING in feature.categories:
            continue
        if train[feature.name].isna().any():
            schema = schema.replace(
                feature.name,
                categories=(*feature.categories, MISSING),
                never=(*feature.never, MISSING),
            )
    return schema


def _rows(frame: pd.DataFrame, schema: Schema, what: str) -> tuple[Tensor, Tensor]:
    rows = schema.encode(frame, missing=True)
    fill = np.array([fill_value(f) for f in schema.features])
    rows = np.where(np.isnan(rows), fill, rows)
    assert schema.target is not None
    labels = class_codes(frame[schema.target], schema.classes, what)
    return torch.as_tensor(rows, dtype=torch.float32), torch.as_tensor(labels)


def _scaling(x: Tensor, schema: Schema) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each numeric feature over the middle 98 % of its training values."""
    numeric = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric)]
    values: Floats = x.numpy().astype(np.float64)[:, numeric]
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    clipped = np.clip(values, low, high)
    scale = clipped.std(axis=0)
    scale = np.where(scale > 0, scale, values.std(axis=0))
    return torch.as_tensor(clipped.mean(axis=0)), torch.as_tensor(np.where(scale > 0, scale, 1.0))
