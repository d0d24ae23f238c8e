"""Answers rows in chunks, within a memory budget and a limit on queries to a black box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from grace.methods.moves import VALUES
from grace.models.base import Model
from grace.models.predictor import OutOfCallsError, Predictor
from grace.models.relu import check_layers
from grace.models.torch import TorchModel
from grace.problem.answers import NOT_ASKED, Answers
from grace.problem.budget import Size, rows_within
from grace.problem.settings import Settings
from grace.problem.space import Space
from grace.schema.features import Bools

SPARE = 1.5  # how much more than its share a row may need


@dataclass(frozen=True)
class QueryCount:
    """Queries to a black box: calls, rows in all of them, and which rows were left out when the limit was reached."""

    calls: int
    rows: int
    left_out: Bools


def queries_so_far(model: Model) -> tuple[int, int]:
    """Calls of a black box, and rows in all of them."""
    return (model.calls, model.rows_queried) if isinstance(model, Predictor) else (0, 0)


def rows_at_once(model: Model, space: Space, background: int, settings: Settings) -> int:
    """How many rows the memory allows to be worked on together."""
    layers = model.module.modules() if isinstance(model, TorchModel) else ()
    size = Size(
        features=len(space.low),
        coordinates=len(space),
        classes=model.width,
        moves=VALUES * space.n_numeric + sum(len(codes) for codes in space.choices.values()),
        units=sum(layer.out_features for layer in layers if isinstance(layer, nn.Linear)),
        background=background,
    )
    memory = int(settings.memory)
    return rows_within(memory, model.device, settings.method, size, settings.max_features, settings.neighbours)


def answer_within(
    model: Model,
    solve: Callable[[Tensor], Answers],
    rows: Tensor,
    step: int,
    most: int,
    begun: tuple[int, int],
    own: Tensor | None,
) -> tuple[Answers, QueryCount | None]:
    """Answers to all rows, `step` at a time. With a limit `most` on the rows that a black box is queried for, the first
    row shows what a row costs, and chunks grow as the rest allows; rows beyond the limit are marked in
    `QueryCount.left_out`. `begun` is `queries_so_far` before the call, and `own` the scores of the rows, known where
    there is a limit. Layers that were read off a model are compared with the model itself on every answer."""
    n = len(rows)
    every = torch.arange(n, device=rows.device)
    if not isinstance(model, Predictor):
        parts = [solve(every[i : i + step]) for i in range(0, n, step)]
        for found in (part for first in parts for part in (first, *first.alternatives)):
            check_layers(model, torch.as_tensor(found.contrast, device=rows.device))
        return Answers.join(parts), None
    calls, before = begun
    if not most:
        found = Answers.join([solve(every[i : i + step]) for i in range(0, n, step)])
        return found, QueryCount(model.calls - calls, model.rows_queried - before, np.zeros(n, dtype=bool))
    model.call_limit = before + most
    try:
        assert own is not None
        found, left = _rationed(model, solve, rows, own, step)
    finally:
        model.call_limit = None
    return found, QueryCount(model.calls - calls, model.rows_queried - before, left)


def _rationed(
    model: Predictor, solve: Callable[[Tensor], Answers], rows: Tensor, own: Tensor, step: int
) -> tuple[Answers, Bools]:
    """Answers within the model's limit, and which rows it left out."""
    assert model.call_limit is not None
    n, start, many, share = len(rows), 0, 1, 1.0
    every = torch.arange(n, device=rows.device)
    parts, left = [], np.zeros(n, dtype=bool)
    while start < n:
        here = every[start : start + many]
        now = model.rows_queried
        try:
            parts.append(solve(here))
        except OutOfCallsError:
            left[start : start + len(here)] = True
            parts.append(_none(rows[here], own[here]))
        start += len(here)
        rest = model.call_limit - model.rows_queried
        share = max(share, SPARE * (model.rows_queried - now) / len(here))  # an upper estimate
        many = min(step, 2 * len(here), max(1, int(rest / share)))
    return Answers.join(parts), left


def _none(rows: Tensor, own: Tensor) -> Answers:
    """No answers to rows, with scores of their own, for which the model may not be asked."""
    scores = own.cpu().numpy()
    n, none = len(rows), np.zeros(len(rows), dtype=bool)
    cells = rows.cpu().numpy()
    return Answers(
        rows=cells,
        contrast=cells.copy(),
        success=none,
        trivial=none.copy(),
        before=scores,
        after=scores.copy(),
        distance=np.zeros(n),
        nearest=np.full(n, np.nan),
        proof=np.full(n, NOT_ASKED),
        checks={k: none.copy() for k in ("flip", "features", "gamma", "domain", "irreducible")},
        followed=np.zeros(cells.shape, dtype=bool),
    )
