"""The answers of a batch as a table: one line for each, with old and new values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from grace.schema.columns import decode_column
from grace.schema.features import Bools, Feature, Floats, plain
from grace.text import sentence

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations
    from grace.text.sentence import Saying

ROW = "row"
OLD, NEW = "old.", "new."  # before the name of a feature, for the value that it has and the one it would have had
INPUT = "input."  # before the name of a column of the rows that has the name of one here


def answer_table(batch: Explanations, **how: Unpack[Saying]) -> pd.DataFrame:
    """One line per answer, under the label of its row: what the rows had beside the features, the rank of the answer
    (1 is the first), classes, number of changes, the predicate, distance, probabilities, sentence and notes, and the
    old and new values of all features that some answer changes. A row without an answer has one line."""
    places, lines = [], []
    for i, first in enumerate(batch):
        for rank, e in enumerate((first, *first.alternatives), 1):
            places.append((i, rank))
            lines.append(_line(e, rank, how))
    answers = (batch.answers, *batch.answers.alternatives)
    given = [[a for a in answers if a is answers[0] or a.success[i]] for i in range(len(batch))]
    old = np.array([given[i][rank - 1].rows[i] for i, rank in places])
    new = np.array([given[i][rank - 1].contrast[i] for i, rank in places])
    rows = [i for i, _ in places]
    index = batch.index[rows]
    frame = pd.DataFrame(lines, index=index)
    changed = old != new
    values: dict[str, Any] = {}
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        feature = batch.schema.features[j]
        values[OLD + feature.name] = _sparse(old[:, j], feature, changed[:, j])
        values[NEW + feature.name] = _sparse(new[:, j], feature, changed[:, j])
    frame = pd.concat([frame, pd.DataFrame(values).set_axis(index)], axis=1)
    beside = batch.extra.iloc[rows]
    taken = {ROW, *frame.columns}
    out = pd.concat([beside.rename(columns={c: _free(c, taken) for c in beside.columns}), frame], axis=1)
    return out.rename_axis(index=ROW) if index.nlevels == 1 and index.name is None else out


def _line(e: Explanation, rank: int, how: Saying) -> dict[str, Any]:
    known = e.sure and not e.wanted
    language = how.get("language") or e.words.language
    return {
        "rank": rank,
        "success": e.success,
        "original_class": e.original_class,
        "contrast_class": e.contrast_class,
        "features": len(e.changes),
        "changes": e.predicate,
        "distance": e.distance,
        "probability_before": e.probability(e.original_class) if known else None,
        "probability_after": e.probability(e.contrast_class, after=True)
        if known and e.contrast_class is not None
        else None,
        "text": e.text(**how),
        "notes": "; ".join(sentence.notes(e, language)),
    }


def _sparse(values: Floats, feature: Feature, changed: Bools) -> Any:
    """The cells that changed, and missing ones elsewhere."""
    cells = pd.Series(decode_column(np.where(changed, values, values[changed][0]), feature))
    if pd.api.types.is_bool_dtype(cells.dtype) and isinstance(cells.dtype, np.dtype):
        cells = cells.astype("boolean")
    elif isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iu":
        cells = cells.astype("Int64")
    return cells.where(changed).array


def _free(name: str, taken: set[Any]) -> str:
    """A name for a column of the rows that no column of answers has."""
    while name in taken:
        name = INPUT + name
    taken.add(name)
    return name


def extra_cells(batch: Explanations, i: int) -> dict[str, Any]:
    """What the row had beside the features, as JSON has it."""
    cells = {str(c): batch.extra[c].iloc[i] for c in batch.extra.columns}
    return {
        name: None if pd.api.types.is_scalar(cell) and pd.isna(cell) else plain(cell) for name, cell in cells.items()
    }
