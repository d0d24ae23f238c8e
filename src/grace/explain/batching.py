"""Processes rows in chunks, within a memory budget and a limit on queries to a black box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from grace.methods.moves import VALUES
from grace.methods.observed import FEW
from grace.models.base import Model
from grace.models.predictor import OutOfCallsError, Predictor
from grace.models.relu import check_layers
from grace.models.torch import TorchModel
from grace.problem.answers import NO_CELLS, NOT_ASKED, Answers
from grace.problem.budget import Size, rows_within
from grace.problem.settings import Settings
from grace.problem.space import Space
from grace.schema.features import Bools, Floats

SAFETY = 1.5  # factor on the observed number of queries per row


@dataclass(frozen=True)
class QueryCount:
    """Queries to a black box: the number of calls, of rows in all calls, and the rows left unexplained at the limit."""

    calls: int
    rows: int
    left_out: Bools


def queries_so_far(model: Model) -> tuple[int, int]:
    """The number of calls of a black box, and of rows in all calls; 0 for other models."""
    return (model.calls, model.rows_queried) if isinstance(model, Predictor) else (0, 0)


def rows_at_once(model: Model, space: Space, background: int, settings: Settings) -> int:
    """The number of rows per chunk that fits into the memory budget."""
    layers = model.module.modules() if isinstance(model, TorchModel) else ()
    size = Size(
        features=len(space.low),
        coordinates=len(space),
        classes=model.width,
        moves=(VALUES + FEW * model.black_box) * space.n_numeric + sum(len(codes) for codes in space.choices.values()),
        units=sum(layer.out_features for layer in layers if isinstance(layer, nn.Linear)),
        background=background,
    )
    memory = int(settings.memory)
    return rows_within(memory, model.device, settings.method, size, settings.max_features, settings.neighbours)


def answer_within(
    model: Model,
    solve: Callable[[int, int], Answers],
    rows: Tensor,
    step: int,
    max_calls: int,
    before: tuple[int, int],
    scores: Tensor | None,
    host_rows: Floats | None = None,
) -> tuple[Answers, QueryCount | None]:
    """Answers to all rows, in chunks of `step` rows: `solve` answers those from one place to another.

    With `max_calls`, the limit on the rows for which a black box is queried, chunks start with one row and grow as the
    observed queries per row allow; rows beyond the limit are marked in `QueryCount.left_out`. `before` is
    `queries_so_far` at the start, and `scores` (n, k) are those of the rows, given if there is a limit; `host_rows` are
    the rows in host memory, if there is a copy. Layers that were extracted from a model are checked against the model
    itself on every answer."""
    n = len(rows)
    if not isinstance(model, Predictor):
        parts = []
        for i in range(0, n, step):
            parts.append(solve(i, min(i + step, n)))
            for part in (parts[-1], *parts[-1].alternatives):
                check_layers(model, _contrast(part, rows[i : i + step]))
        return Answers.join(parts, host_rows), None
    calls, queried = before
    left_out = np.zeros(n, dtype=bool)
    if not max_calls:
        answers = Answers.join([solve(i, min(i + step, n)) for i in range(0, n, step)])
    else:
        assert scores is not None
        model.call_limit = queried + max_calls
        try:
            answers, left_out = _within_limit(model, solve, rows, scores, step)
        finally:
            model.call_limit = None
    return answers, QueryCount(model.calls - calls, model.rows_queried - queried, left_out)


def _contrast(answers: Answers, rows: Tensor) -> Tensor:
    """Contrastive rows on the device of the rows; only changed cells are copied there."""
    if rows.is_cpu:
        return torch.as_tensor(answers.contrast)
    row, column, value = (torch.as_tensor(part, device=rows.device) for part in vars(answers.differing).values())
    return rows.index_put((row, column), value)


def _within_limit(
    model: Predictor, solve: Callable[[int, int], Answers], rows: Tensor, scores: Tensor, step: int
) -> tuple[Answers, Bools]:
    """Answers within the query limit of the model, and which rows it left out."""
    assert model.call_limit is not None
    n, start, size, per_row = len(rows), 0, 1, 1.0
    parts, left_out = [], np.zeros(n, dtype=bool)
    while start < n:
        end = min(start + size, n)
        here, count, before = slice(start, end), end - start, model.rows_queried
        try:
            parts.append(solve(start, end))
        except OutOfCallsError:
            left_out[here] = True
            parts.append(_unanswered(rows[here], scores[here].cpu().numpy()))
        start = end
        per_row = max(per_row, SAFETY * (model.rows_queried - before) / count)  # an upper estimate
        size = min(step, 2 * count, max(1, int((model.call_limit - model.rows_queried) / per_row)))
    return Answers.join(parts), left_out


def _unanswered(rows: Tensor, scores: Floats) -> Answers:
    """`Answers` without success, for rows with these scores."""
    n, none = len(rows), np.zeros(len(rows), dtype=bool)
    cells = rows.cpu().numpy()
    return Answers(
        rows=cells,
        differing=NO_CELLS,
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
