"""Trains the paper's networks (ReLU, with embeddings for categories) on any table; descent has the optimisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from grace.datasets import Table
from grace.errors import GraceError
from grace.models.base import class_codes
from grace.models.network import Network
from grace.models.threshold import Threshold, cutoffs_of
from grace.models.torch import TorchModel
from grace.problem.binding import encoded
from grace.schema.columns import is_number
from grace.schema.features import MISSING, Categorical, Feature, Floats, Numeric, Value, columns_of, plain
from grace.schema.frames import cell_repr, join_first, numbers
from grace.schema.parsing import MAX_SEED, whole_number
from grace.schema.schema import Schema
from grace.training.descent import Progress, descend


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of a network and its training; the paper's Table Sup1 has those of its tables."""

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


TASKS = ("classification", "regression")
MIN_CATEGORY_ROWS = 10  # categories with fewer training rows are merged, if `rare` is given

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
    task: str | None = None,
    threshold: Threshold | None = None,
    **changes: Any,
) -> TorchModel:
    """Train a network on a table of the paper (its training part) or on any DataFrame.

    By default, a numeric target with more than 50 distinct values is a regression, any other a classification; `task`
    is "regression" or "classification". `changes` override parts of the recipe: `hidden=(32, 16)`, `learning_rate`,
    `patience`, `batch_size`, `max_epochs`. Without `validation`, a tenth of the rows is held out for early stopping.
    Missing cells are imputed by the median of the training rows, or the category "missing". With `rare="other"`,
    categories with fewer than 10 rows, and those unseen in training, become one of that name. `threshold` is the
    probability above which a class is predicted, as in `grace.wrap`.
    """
    whole_number("seed", plain(seed), 0, MAX_SEED)
    if isinstance(data, Table):
        parts = data.split(seed)
        recipe = recipe or RECIPES.get(data.name, Recipe())
        schema = data.declared if schema is None else schema
        target = data.target
        task = task_for(data.frame, target, task, data.declared)
        train, held = parts.train, parts.validation if validation is None else validation
    else:
        if target is None and schema is not None:
            target = schema.target
        task = check_target(data, target, task, schema)
        assert target is not None
        if schema is not None:
            check_columns(data, schema, target)
        stratify = task == "classification"
        train, held = (data, validation) if validation is not None else _hold_out(data, target, seed, stratify)
    if threshold is not None and task == "regression":
        raise GraceError("threshold= is about the probabilities of classes; leave it out for a regression")
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
    schema = replace(schema, classes=_classes(schema, train, held) if task == "classification" else ())
    cutoffs = None if threshold is None else cutoffs_of(threshold, schema.classes)
    x, held_x = (torch.as_tensor(encoded(schema, part), dtype=torch.float32) for part in (train, held))
    y, held_y = (_targets(part, schema, what) for part, what in ((train, "training data"), (held, "validation data")))
    network = Network(schema, recipe.hidden, len(schema.classes) or 1)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        network.initialise(*_scaling(x, schema), generator)
    mean, scale = (0.0, 1.0) if schema.classes else (float(y.mean()), float(y.std(correction=0)))
    if not schema.classes:
        y, held_y = (((values - mean) / scale).float() for values in (y, held_y))
    descend(network, (x, y), (held_x, held_y), recipe, generator, progress)
    if not schema.classes:
        _rescale_output(network, mean, scale)
    module = network.double().eval().requires_grad_(False)
    model = TorchModel(module, schema.classes, outputs="logits", schema=schema, task=task)
    return model.with_cutoffs(cutoffs)


def task_for(frame: pd.DataFrame, target: str, task: str | None, schema: Schema | None = None) -> str:
    """The task that is given, or else inferred from the target."""
    if task not in (None, *TASKS):
        raise GraceError(f"task={task!r} is unknown; use one of {', '.join(map(repr, TASKS))}")
    if task == "regression" and not pd.api.types.is_numeric_dtype(frame[target]):
        raise GraceError(f'target column {target!r} holds no numbers; leave out task="regression"')
    declared = schema is not None and bool(schema.classes)
    return task or ("regression" if is_number(frame[target]) and not declared else "classification")


def check_target(frame: pd.DataFrame, target: str | None, task: str | None = None, schema: Schema | None = None) -> str:
    """The task, or an error if the target is not suitable."""
    if target is None:
        raise GraceError('which column is the target? pass target="..."')
    if len(frame) == 0:
        raise GraceError("there are no rows to train on: the table is empty")
    if target not in frame.columns:
        raise GraceError(f"target column {target!r} is not in the data; columns: {join_first(frame.columns)}")
    if frame[target].isna().any():
        row = cell_repr(frame.index[int(frame[target].isna().to_numpy().argmax())])
        raise GraceError(f"target column {target!r}, row {row}: the label is missing; drop the row or fill it in")
    task = task_for(frame, target, task, schema)
    counts = frame[target].value_counts()
    counts = counts[counts > 0]
    if len(counts) < 2:
        what = "the class" if task == "classification" else "the value"
        raise GraceError(f"target column {target!r} has only {what} {cell_repr(counts.index[0])}; a contrast needs two")
    if task == "classification" and counts.iloc[-1] < 2:
        raise GraceError(
            f"class {cell_repr(counts.index[-1])} in {target!r} has one row; training needs at least two of each class "
            '(if the column is a number to predict, pass task="regression")'
        )
    return task


def check_columns(frame: pd.DataFrame, schema: Schema, target: str) -> None:
    """Raise an error unless the schema has exactly the columns of the table, or no features, which stands for all."""
    if not schema.features:
        return
    if target in schema.columns:
        raise GraceError(f"column {target!r} is the target, and a feature of the schema too; take the feature out")
    present = set(frame.columns)
    declared = [c for f in schema.features for c in ([f.name] if f.name in present else columns_of(f))]
    for column in (c for c in declared if c not in present):
        raise GraceError(f"column {column!r} of the schema is missing from the table; take the feature out, or add it")
    for column in (c for c in frame.columns if c not in {*declared, target}):
        raise GraceError(
            f"column {column!r} of the table is missing from the schema; add a feature for it, or drop the column "
            "(grace train --drop)"
        )


def score(model: TorchModel, test: pd.DataFrame) -> str:
    """R² or accuracy of the model on rows with their target, as a sentence."""
    assert model.schema is not None
    truth, predicted = test[model.schema.target], model.predict(model.impute(test))
    if model.task == "regression":
        r2 = 1 - np.square(predicted - truth).mean() / np.square(truth - truth.mean()).mean()
        return f"R² on {len(test)} held-out rows: {r2:.3f}."
    return f"{(predicted == truth).mean():.1%} of {len(test)} held-out rows classified correctly."


def _hold_out(frame: pd.DataFrame, target: str, seed: int, stratify: bool = True) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows, and a tenth of the rows for early stopping, at least one of each class."""
    classes = frame[target].nunique() if stratify else 0
    size = max(int(np.ceil(len(frame) * 0.1)), classes)
    if len(frame) - size < max(classes, 2):
        what = f" on {classes} classes" if classes else ""
        raise GraceError(f"{len(frame)} rows are too few to train{what}; pass validation= and more rows")
    labels = frame[target] if stratify else None
    train, held = train_test_split(frame, test_size=size, stratify=labels, random_state=seed)
    return train, held


def with_categories(like: Schema | None, frame: pd.DataFrame, train: pd.DataFrame, target: str) -> Schema:
    """The declared schema with the categories of the whole frame; those that do not occur in training are `never`
    chosen by a change."""
    base = Schema(features=(), target=target) if like is None else like
    declared = {f.name: f for f in base.features}
    features: list[Feature] = []
    for found in Schema.infer(frame, target, like=base).features:
        feature = declared.get(found.name, type(found)(name=found.name))
        if isinstance(found, Categorical) and isinstance(feature, Categorical) and not feature.categories:
            trained = {plain(value) for value in train[found.name].dropna().unique()}
            never = tuple(c for c in found.categories if c not in trained)
            feature = replace(feature, categories=found.categories, ordered=found.ordered, never=never)
        features.append(feature)
    return replace(base, features=tuple(features))


def _with_other(schema: Schema, train: pd.DataFrame, word: str) -> Schema:
    """Merge the rare categories of each column into `word`, which is never chosen by a change."""
    for feature in schema.features:
        if isinstance(feature, Categorical) and not feature.other and not feature.columns:
            counts = train[feature.name].map(plain).value_counts()
            frequent = tuple(c for c in feature.categories if counts.get(c, 0) >= MIN_CATEGORY_ROWS and c != word)
            if frequent and len(frequent) < len(feature.categories):
                never = (*(c for c in feature.never if c in frequent), word)
                typical = feature.typical if feature.typical in frequent else frequent[0]
                parts = {"categories": (*frequent, word), "never": never, "other": word, "typical": typical}
                schema = schema.replace(feature.name, **parts)
    return schema


def _with_missing(schema: Schema, train: pd.DataFrame) -> Schema:
    """Add the category "missing", which is never chosen by a change, to columns with missing cells in training."""
    for feature in schema.features:
        if not isinstance(feature, Categorical) or feature.columns or MISSING in feature.categories:
            continue
        if train[feature.name].isna().any():
            categories, never = (*feature.categories, MISSING), (*feature.never, MISSING)
            schema = schema.replace(feature.name, categories=categories, never=never)
    return schema


def _classes(schema: Schema, train: pd.DataFrame, held: pd.DataFrame) -> tuple[Value, ...]:
    """The declared or inferred classes; for a numeric target, all values that occur."""
    assert schema.target is not None
    labels = pd.concat([train[schema.target], held[schema.target]])
    return schema.classes or Categorical(name=schema.target).observe(labels).categories


def _targets(frame: pd.DataFrame, schema: Schema, what: str) -> Tensor:
    """The target (n,): positions of classes (int64), or numbers (float64)."""
    assert schema.target is not None
    if schema.classes:
        return torch.as_tensor(class_codes(frame[schema.target], schema.classes, what))
    values = numbers(frame[schema.target])
    if np.isnan(values).any():
        row = frame.index[int(np.isnan(values).argmax())]
        raise GraceError(f"{what}: target column {schema.target!r}, row {cell_repr(row)}: the number is missing")
    return torch.tensor(values)


def _rescale_output(network: Network, mean: float, scale: float) -> None:
    """Undo the standardisation of the target in the last linear layer."""
    last = network.layers[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.mul_(scale)
        last.bias.mul_(scale).add_(mean)


def _scaling(x: Tensor, schema: Schema) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each numeric feature over the middle 98 % of its training values."""
    numeric = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric)]
    values: Floats = x.numpy().astype(np.float64)[:, numeric]
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    clipped = np.clip(values, low, high)
    scale = clipped.std(axis=0)
    scale = np.where(scale > 0, scale, values.std(axis=0))
    return torch.as_tensor(clipped.mean(axis=0)), torch.as_tensor(np.where(scale > 0, scale, 1.0))
