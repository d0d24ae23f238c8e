"""A batch as a table: one line per answer, with old and new values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import take

from grace.explain.batch_texts import notes, texts
from grace.problem.answers import Answers
from grace.schema.columns import decode_column
from grace.schema.features import Bools, Categorical, Feature, Floats, plain

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations
    from grace.explain.ranked import Ranked
    from grace.text.sentence import TextOptions

Cell = TypeVar("Cell")
Positions = npt.NDArray[np.int64]
ROW = "row"  # name of the index of the table
COLUMNS = (
    *("rank", "success", "original_class", "contrast_class", "features", "changes", "distance"),
    *("probability_before", "probability_after", "text", "notes"),
)
OLD, NEW = "old.", "new."  # prefixes of a feature's name: its value in the row, and in the contrastive row
INPUT = "input."  # prefix of an extra column whose name is that of a column of the answers


def answer_lines(answers: Answers) -> tuple[Answers, Positions, Positions]:
    """All answers sorted by row, then rank, with the position of the row and the rank (from 1) of each. A row without
    an answer has one line."""
    every = (answers, *answers.alternatives)
    chosen, order = _in_lines(answers)
    rows = np.concatenate(chosen)[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    if len(every) == 1:
        return answers, rows, rank
    lines = Answers.join([a.select(k) for a, k in zip(every, chosen, strict=True)])
    return lines.select(order), rows, rank


def _in_lines(answers: Answers) -> tuple[list[Positions], Positions]:
    """The rows that have a line for their answer of each rank, and the order of all these lines by row."""
    every = (answers, *answers.alternatives)
    chosen = [np.flatnonzero(a.success | (i == 0)) for i, a in enumerate(every)]
    return chosen, np.argsort(np.concatenate(chosen), kind="stable")


def in_lines(batch: Explanations, column: Callable[[Ranked, list[int]], Sequence[Cell]]) -> list[Cell]:
    """A column in the order of `answer_lines`, from a function of the answers of a rank and of some rows."""
    chosen, order = _in_lines(batch.answers)
    ranks = zip(batch.ranked, chosen, strict=True)
    cells = [cell for ranked, rows in ranks for cell in column(ranked, rows.tolist())]
    return cells if len(chosen) == 1 else [cells[k] for k in order.tolist()]


def unique_names(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """Names of extra columns; those in `taken` get a prefix, so that all column names are unique."""
    used, out = {*taken, *names}, []
    for name in names:
        unique = name
        if name in taken:
            while unique in used:
                unique = INPUT + unique
            used.add(unique)
        out.append(unique)
    return out


def answer_table(batch: Explanations, **how: Unpack[TextOptions]) -> pd.DataFrame:
    """One line per answer, indexed by row: extra columns of the input, the rank of the answer (from 1), classes, number
    of changes, predicate, distance, probabilities, sentence and notes, and old and new values of all features that any
    answer changes. A row without an answer has one line."""
    answers, rows, ranks = answer_lines(batch.answers)
    index = batch.index[rows]
    lines = in_lines(batch, lambda ranked, here: _cells(ranked, here, how))
    cells = [(rank, *line) for rank, line in zip(ranks.tolist(), lines, strict=True)]
    frame = pd.DataFrame(cells, columns=list(COLUMNS), index=index)
    changed = answers.rows != answers.contrast
    values: dict[str, Any] = {}
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature = batch.schema.features[j]
        values[OLD + feature.name] = _sparse(answers.rows[:, j], feature, changed[:, j])
        values[NEW + feature.name] = _sparse(answers.contrast[:, j], feature, changed[:, j])
    frame = pd.concat([frame, pd.DataFrame(values).set_axis(index)], axis=1)
    extra = batch.extra.iloc[rows]
    names = unique_names(list(extra.columns), {ROW, *frame.columns})
    out = pd.concat([extra.rename(columns=dict(zip(extra.columns, names, strict=True))), frame], axis=1)
    return out.rename_axis(index=ROW) if index.nlevels == 1 and index.name is None else out


def _cells(ranked: Ranked, rows: list[int], how: TextOptions) -> list[tuple[Any, ...]]:
    """The cells of COLUMNS, without the rank, of the answers to some rows."""
    predicted = [ranked.predictions(i) for i in rows]
    success = [ranked.success[i] for i in rows]
    before: list[float | None] = [None] * len(rows)
    after = before
    if ranked.shared.common["sure"] and ranked.batch.target_ranges is None:
        at = ranked.shared.classes.index
        before = [ranked.before.item(i, at(first)) for i, (first, _) in zip(rows, predicted, strict=True)]
        after = [
            ranked.after.item(i, at(second)) if done else None
            for i, (_, second), done in zip(rows, predicted, success, strict=True)
        ]
    starts = ranked.changes.starts
    parts: tuple[Sequence[Any], ...] = (
        success,
        [first for first, _ in predicted],
        [second if done else None for (_, second), done in zip(predicted, success, strict=True)],
        [starts[i + 1] - starts[i] for i in rows],
        ranked.changes.predicates(rows),
        [ranked.distance[i] for i in rows],
        before,
        after,
        texts(ranked, rows, how),
        notes(ranked, rows, how.get("language")),
    )
    return list(zip(*parts, strict=True))


def _sparse(values: Floats, feature: Feature, changed: Bools) -> Any:
    """The cells that changed, and missing ones elsewhere."""
    if isinstance(feature, Categorical) and feature.columns:
        feature = replace(feature, dtype="")  # that of its columns
    cells = decode_column(values[changed], feature)
    places = np.full(len(changed), -1)
    places[changed] = np.arange(len(cells))
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        return take(cells, places, allow_fill=True)
    column = pd.Series(cells)
    if pd.api.types.is_bool_dtype(column.dtype) and isinstance(column.dtype, np.dtype):
        column = column.astype("boolean")
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        column = column.astype("Int64")
    return take(column.array, places, allow_fill=True)


def extra_cells(batch: Explanations) -> list[dict[str, Any]]:
    """The extra columns of each row as JSON."""
    extra = batch.extra
    columns = [[_json_cell(cell) for cell in extra.iloc[:, j]] for j in range(extra.shape[1])]
    names = list(map(str, extra.columns))
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)] or [{} for _ in extra.index]


def _json_cell(cell: Any) -> Any:
    return None if pd.api.types.is_scalar(cell) and pd.isna(cell) else plain(cell)
