"""Answering rows in parts: as many at a time as memory allows, or as a limit on questions to a black box does."""

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
    """What a black box was asked: calls, and rows in all of them; and which rows were left out as it may be asked no
    more."""

    calls: int
    rows: int
    left_out: Bools


def asked_so_far(model: Model) -> tuple[int, int]:
    """Calls of a black box, and rows in all of them."""
    return (model.calls, model.asked) if isinstance(model, Predictor) else (0, 0)


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
    """Answers to all rows, `step` at a time. With a limit, a first row shows what a row costs, and then ever more are
    asked together as the rest allows; those for which it does not are left unanswered, and said to be. `begun` is what
    `asked_so_far` said before the first question, and `own` are the scores of the rows, known where there is a
    limit. What was read off the layers of a model is compared with the model itself on every answer."""
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
        return found, QueryCount(model.calls - calls, model.asked - before, np.zeros(n, dtype=bool))
    model.most = before + most
    try:
        assert own is not None
        found, left = _rationed(model, solve, rows, own, step)
    finally:
        model.most = None
    return found, QueryCount(model.calls - calls, model.asked - before, left)


def _rationed(
    model: Predictor, solve: Callable[[Tensor], Answers], rows: Tensor, own: Tensor, step: int
) -> tuple[Answers, Bools]:
    """Answers within the model's limit, and which rows it left out."""
    assert model.most is not None
    n, start, many, share = len(rows), 0, 1, 1.0
    every = torch.arange(n, device=rows.device)
    parts, left = [], np.zeros(n, dtype=bool)
    while start < n:
        here = every[start : start + many]
        now = model.asked
        try:
            parts.append(solve(here))
        except OutOfCallsError:
            left[start : start + len(here)] = True
            parts.append(_none(rows[here], own[here]))
        start += len(here)
        rest = model.most - model.asked
        share = max(share, SPARE * (model.asked - now) / len(here))  # what a row may cost at most, by those so far
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
