"""A batch as a table: one line per answer, with old and new values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.problem.answers import Answers
from grace.schema.columns import decode_column
from grace.schema.features import Bools, Categorical, Feature, Floats, plain
from grace.text import sentence

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations
    from grace.text.sentence import TextOptions

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
    chosen = [np.flatnonzero(a.success | (i == 0)) for i, a in enumerate(every)]
    rows = np.concatenate(chosen)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    if len(every) == 1:
        return answers, rows, rank
    lines = Answers.join([a.select(k) for a, k in zip(every, chosen, strict=True)])
    return lines.select(order), rows, rank


def in_lines(batch: Iterable[Explanation]) -> Iterator[Explanation]:
    """The explanations of a batch in the order of `answer_lines`."""
    return (e for first in batch for e in (first, *first.alternatives))


def notes_cell(e: Explanation, language: str | None = None) -> str:
    """The notes of an answer as one cell, in a language or in that of the explanation."""
    return "; ".join(sentence.notes(e, language or e.words.language)) if e.remarks or e.proof else ""


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
    lines = [_line(e, rank, how) for e, rank in zip(in_lines(batch), ranks.tolist(), strict=True)]
    frame = pd.DataFrame(lines, columns=list(COLUMNS), index=index)
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


def _line(e: Explanation, rank: int, how: TextOptions) -> tuple[Any, ...]:
    """The cells of COLUMNS of an answer."""
    classes, before, after = (e.original_class, e.contrast_class), None, None
    if e.sure and not e.wanted:
        before = e.probability(e.original_class)
        after = None if e.contrast_class is None else e.probability(e.contrast_class, after=True)
    numbers = len(e.changes), e.predicate, e.distance
    return rank, e.success, *classes, *numbers, before, after, e.text(**how), notes_cell(e, how.get("language"))


def _sparse(values: Floats, feature: Feature, changed: Bools) -> Any:
    """The cells that changed, and missing ones elsewhere."""
    if isinstance(feature, Categorical) and feature.columns:
        feature = replace(feature, dtype="")  # that of its columns
    cells = pd.Series(decode_column(np.where(changed, values, values[changed][0]), feature))
    if pd.api.types.is_bool_dtype(cells.dtype) and isinstance(cells.dtype, np.dtype):
        cells = cells.astype("boolean")
    elif isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iu":
        cells = cells.astype("Int64")
    return cells.where(changed).array


def extra_cells(batch: Explanations) -> list[dict[str, Any]]:
    """The extra columns of each row as JSON."""
    extra = batch.extra
    columns = [[_json_cell(cell) for cell in extra.iloc[:, j]] for j in range(extra.shape[1])]
    names = list(map(str, extra.columns))
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)] or [{} for _ in extra.index]


def _json_cell(cell: Any) -> Any:
    return None if pd.api.types.is_scalar(cell) and pd.isna(cell) else plain(cell)
