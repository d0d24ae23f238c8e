"""Slopes of a model without gradients, estimated from a few batches of questions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grace.models.base import Margins, Model
from grace.schema.features import Categorical, Numeric
from grace.schema.schema import Schema


def estimated(
    model: Model, schema: Schema, rows: Tensor, margins: Margins, moving: Tensor | None, steps: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Scores, and slopes (n, a, coordinates) of the margins, as `Model.slopes` has them. Each of `steps`, in spreads,
    is tried only where those before showed no difference at all."""
    scores = model.scores(rows)
    here = margins(scores)
    if moving is None:
        moving = torch.ones_like(rows, dtype=torch.bool)
    codes = [f.missing_code if isinstance(f, Numeric) else torch.nan for f in schema.features]
    moving = moving & (rows != torch.tensor(codes, dtype=rows.dtype))  # a missing cell has no slope
    numeric = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric)]
    slopes = here.new_zeros(*here.shape, len(numeric))
    open_ = moving[:, numeric].clone()
    for step in steps:
        if not open_.any():
            break
        found = _central(model, schema, rows, margins, numeric, open_, step)
        slopes = torch.where(open_[:, None], found, slopes)
        open_ &= (found == 0).all(dim=1)
    return scores, torch.cat([slopes, *_categories(model, schema, rows, margins, here, moving)], dim=2)


def _central(
    model: Model, schema: Schema, rows: Tensor, margins: Margins, numeric: list[int], ask: Tensor, step: float
) -> Tensor:
    """(margin above - margin below) / (above - below) for the numbers that are asked about (n, numeric); a side that
    leaves the range ends at its bound, unless the row itself lies beyond it."""
    low, high = (torch.as_tensor(b[numeric]) for b in schema.bounds())
    features = [f for f in schema.features if isinstance(f, Numeric)]
    spread = torch.tensor([f.spread or 1.0 for f in features], dtype=torch.float64)
    whole = torch.tensor([bool(f.integer) for f in features])
    x = rows[:, numeric]
    width = torch.where(whole, (step * spread).round().clamp_min(1), step * spread)
    above, below = torch.minimum(x + width, torch.maximum(high, x)), torch.maximum(x - width, torch.minimum(low, x))
    most = int(ask.sum(dim=1).max())
    place = ask.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :most]  # (n, most)
    column = torch.tensor(numeric)[place]
    tried = [
        rows[:, None].repeat(1, most, 1).scatter_(2, column[:, :, None], side.gather(1, place)[:, :, None])
        for side in (above, below)
    ]
    up, down = torch.split(_margins(model, margins, torch.cat(tried, dim=1)), most, dim=1)  # (n, most, a)
    apart = (above - below).gather(1, place)[:, :, None]
    slope = torch.where(apart > 0, (up - down) / apart.clamp_min(1e-300), 0.0)
    slope = torch.where(torch.isfinite(slope), slope, 0.0)
    out = slope.new_zeros(len(rows), len(numeric), slope.shape[2])
    return out.scatter_(1, place[:, :, None].expand_as(slope), slope).mT


def _categories(
    model: Model, schema: Schema, rows: Tensor, margins: Margins, here: Tensor, moving: Tensor
) -> list[Tensor]:
    """For each category of each categorical feature, what the margins gain when the row takes it."""
    sizes = {j: len(f.categories) for j, f in enumerate(schema.features) if isinstance(f, Categorical)}
    asked = [j for j in sizes if moving[:, j].any()]
    gains = {j: here.new_zeros(*here.shape, size) for j, size in sizes.items()}
    if asked:
        tried = []
        for j in asked:
            part = rows[:, None].repeat(1, sizes[j], 1)
            part[:, :, j] = torch.where(
                moving[:, [j]], torch.arange(sizes[j], dtype=rows.dtype), rows[:, [j]]
            )  # a row that does not move asks what it has asked already
            tried.append(part)
        found = _margins(model, margins, torch.cat(tried, dim=1)).mT - here[:, :, None]
        for j, part in zip(asked, torch.split(found, [sizes[j] for j in asked], dim=2), strict=True):
            gains[j] = torch.where(torch.isfinite(part), part, 0.0)
    return list(gains.values())


def _margins(model: Model, margins: Margins, rows: Tensor) -> Tensor:
    """The margins (n, m, a) of several rows (n, m, d) for each, in one batch of questions."""
    n, m, d = rows.shape
    scores = model.scores(rows.reshape(n * m, d)).reshape(n, m, -1)
    return torch.stack([margins(scores[:, i]) for i in range(m)], dim=1)
