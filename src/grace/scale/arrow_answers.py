"""The explained rows of a part as a table: one line per answer, and what became of the features of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.methods import METHODS
from grace.problem.answers import Answers
from grace.problem.background import random_rows
from grace.problem.target_range import TargetRange
from grace.proofs.certificate import PROVEN
from grace.scale.extra_columns import Carried
from grace.scale.rejected_rows import Reject, halved, sift
from grace.schema.columns import MOST_EXACT, SPANS, TIMES, is_date, is_small
from grace.schema.features import Bools, Feature, Floats, Numeric, Value, columns_of
from grace.schema.groups import flat
from grace.schema.tables.table_file import ROW, Part
from grace.text.sentence import notes

if TYPE_CHECKING:
    import pyarrow as pa

    from grace.explain.explainer import Explainer
    from grace.explain.explanations import Explanations

Places = npt.NDArray[np.int64]
OLD, NEW = "old.", "new."  # before the name of a feature, for the value that it has and would have had


@dataclass(frozen=True)
class JobQuestion:
    """What is asked about every row: the arguments of `explain`, whether missing cells are filled in, and how the
    sentence is said, if it is wanted."""

    settings: Mapping[str, Any]
    impute: bool = False
    text: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any], memory: int) -> JobQuestion:
        """From JSON, with the memory that a process may use for rows."""
        settings = {**said["settings"], "memory": memory}
        if isinstance(settings.get("against"), dict):
            settings["against"] = TargetRange(**settings["against"])
        if said["impute"]:
            settings["missing"] = "fill"
        return cls(settings, said["impute"], said["text"])


def check(explainer: Explainer, question: JobQuestion) -> None:
    """Ask about a single row, so that what is wrong with the question shows before the first part."""
    rows = explainer.background_rows
    some = random_rows(explainer.schema, 0) if rows is None else rows
    explainer.explain(explainer.schema.decode(some[:1]), **question.settings)


def explain_part(
    explainer: Explainer, part: Part, question: JobQuestion, carried: Carried
) -> tuple[pa.Table, list[Reject]]:
    """The answers to the rows of a part, by row, and the rows that were set aside."""
    import pyarrow as pa

    frame, rejects = sift(part, explainer.schema, missing=question.impute)
    found: list[tuple[pd.DataFrame, pa.Table]] = []
    failed: dict[Any, str] = {}
    if frame is not None:
        found, failed = halved(frame, lambda rows: table_of(explainer.explain(rows, **question.settings), question))
    rejects += [Reject(int(row), None, reason) for row, reason in failed.items()]
    pieces = [layout(explainer, question).empty_table(), *(table for _, table in found)]
    answers = pa.concat_tables(pieces).combine_chunks()
    if carried.names:
        numbers = [] if part.rows is None else part.rows[ROW].to_numpy()
        answers = carried.beside(answers, part.rows, np.searchsorted(numbers, answers["row"].to_numpy()))
    return answers, sorted(rejects, key=lambda r: r.row)


def layout(explainer: Explainer, question: JobQuestion) -> pa.Schema:
    """The columns of the answers and their types, the same for every part. The value that a feature has need not be in
    its domain, as that which it would have had is: a whole number may have decimals there."""
    import pyarrow as pa

    classes = explainer.model.classes
    kept = "domain" in METHODS[question.settings.get("method", explainer.settings.method)].promises
    fields = [
        ("row", pa.int64()),
        ("rank", pa.int32()),
        ("success", pa.bool_()),
        ("original_class", _type_of(classes)),
        ("contrast_class", _type_of(classes)),
        ("features", pa.int32()),
        ("distance", pa.float64()),
        ("probability_before", pa.float64()),
        ("probability_after", pa.float64()),
    ]
    if question.settings.get("prove", explainer.settings.prove):
        fields.append(("proven", pa.bool_()))
    fields += [("text", pa.string()), ("notes", pa.string())]
    for f in flat(explainer.schema).features:
        fields += [(OLD + f.name, _type_of_feature(f, kept=False)), (NEW + f.name, _type_of_feature(f, kept))]
    return pa.schema(fields)


def table_of(batch: Explanations, question: JobQuestion) -> pa.Table:
    """One line per answer, those of a row one after another: classes, success, how many features change, how far, and
    what from and to, with what follows them; what stays is empty. Sentences and notes are there if they were asked
    for."""
    import pyarrow as pa

    kind = layout(batch.explainer, question)
    a, place, rank = lines_of(batch.answers)
    classes = np.array(batch.explainer.model.classes, dtype=object)
    columns: dict[str, Any] = {
        "row": np.asarray(batch.index, dtype=np.int64)[place],
        "rank": rank.astype(np.int32),
        "success": a.success,
        "original_class": _cells(_class_of(a.before, classes), kind.field("original_class").type),
        "contrast_class": _cells(_class_of(a.after, classes), kind.field("contrast_class").type, ~a.success),
        "features": a.changed.sum(axis=1).astype(np.int32),
        "distance": a.distance,
        "proven": a.proof == PROVEN,
        **_probabilities(batch, a),
        **_words(batch, question, len(place)),
    }
    narrow = batch.explainer.model.black_box
    ends = {OLD: batch.schema.decode(a.rows, narrow=narrow), NEW: batch.schema.decode(a.contrast, narrow=narrow)}
    codes = {OLD: a.rows, NEW: a.contrast}
    for j, feature in enumerate(batch.schema.features):
        other = a.contrast[:, j] != a.rows[:, j]
        for name in columns_of(feature):
            for end, frame in ends.items():
                cells = pd.Series(codes[end][:, j]) if is_small(feature) else frame[name]  # as they are said
                columns[end + name] = _sparse(cells, other, kind.field(end + name).type)
    return pa.table({f.name: columns[f.name] for f in kind}, schema=kind)


def lines_of(found: Answers) -> tuple[Answers, Places, Places]:
    """All answers, those of a row one after another, with the place of the row and the rank of each, from 1. A row
    without an answer has one line."""
    every = (found, *found.alternatives)
    kept = [np.flatnonzero(a.success | (i == 0)) for i, a in enumerate(every)]
    place = np.concatenate(kept)
    order = np.argsort(place, kind="stable")
    place = place[order]
    rank = np.arange(len(place)) - np.searchsorted(place, place) + 1
    if len(every) == 1:
        return found, place, rank
    lines = Answers.join([a.select(k) for a, k in zip(every, kept, strict=True)])
    return lines.select(order), place, rank


def _class_of(scores: Floats, classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The class with the highest score, or the number predicted."""
    return np.asarray(classes[scores.argmax(axis=1)]) if len(classes) else scores[:, 0]


def _probabilities(batch: Explanations, a: Answers) -> dict[str, Any]:
    """The probability that the model gives each class of the line, if it gives any."""
    import pyarrow as pa

    model, n = batch.explainer.model, len(a.rows)
    if batch.task == "regression" or not model.sure:
        return dict.fromkeys(("probability_before", "probability_after"), pa.nulls(n, pa.float64()))
    at = np.arange(n)
    before, after = (model.probabilities(scores)[at, scores.argmax(axis=1)] for scores in (a.before, a.after))
    return {"probability_before": before, "probability_after": pa.array(after, mask=~a.success)}


def _words(batch: Explanations, question: JobQuestion, lines: int) -> dict[str, Any]:
    """The sentence of each line and its notes, none of which is an empty cell; nothing if they were not asked for."""
    import pyarrow as pa

    if question.text is None:
        return dict.fromkeys(("text", "notes"), pa.nulls(lines, pa.string()))
    every = [e for first in batch for e in (first, *first.alternatives)]
    spoken = question.text.get("language")
    noted = ["; ".join(notes(e, spoken or e.words.language)) for e in every]
    return {"text": [e.text(**question.text) for e in every], "notes": noted}


def _sparse(column: pd.Series[Any], changed: Bools, kind: pa.DataType) -> pa.Array:
    """The cells that changed, and nothing elsewhere."""
    import pyarrow as pa

    if not changed.any():  # as most of a wide table do not
        return pa.nulls(len(changed), kind)
    values = _cells(column[changed].to_numpy(dtype=object), kind)
    place = np.full(len(changed), -1, dtype=np.int64)
    place[changed] = np.arange(int(changed.sum()))
    return values.take(pa.array(place, mask=~changed))


def _cells(values: np.ndarray[Any, Any], kind: pa.DataType, empty: Bools | None = None) -> pa.Array:
    """Cells of a type; missing ones are left empty, as are those said to be."""
    import pyarrow as pa

    plain = np.asarray(values, dtype=object)
    none = pd.isna(plain) if empty is None else pd.isna(plain) | empty
    if pa.types.is_string(kind):
        plain = np.array([None if gone else str(v) for v, gone in zip(plain, none, strict=True)], dtype=object)
    elif pa.types.is_floating(kind):
        plain = np.array([None if gone else float(v) for v, gone in zip(plain, none, strict=True)], dtype=object)
    elif pa.types.is_integer(kind):
        plain = np.array([None if gone else int(v) for v, gone in zip(plain, none, strict=True)], dtype=object)
    return pa.array(plain, kind, mask=none, from_pandas=True)


def _type_of(values: Sequence[Value]) -> pa.DataType:
    """The type that holds all of the values; numbers where there are none, as a regression has no classes."""
    import pyarrow as pa

    if values and all(isinstance(v, bool) for v in values):
        return pa.bool_()
    if values and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return pa.int64()
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return pa.float64()
    return pa.string()


def _type_of_feature(feature: Feature, kept: bool) -> pa.DataType:
    """Whole numbers only where the method keeps to them (`kept`)."""
    import pyarrow as pa

    if not isinstance(feature, Numeric):
        return _type_of(feature.categories)
    if is_date(feature) and not feature.dtype.startswith(TIMES):
        return pa.date32()
    if feature.dtype.startswith(SPANS):
        return pa.duration("us")
    if is_date(feature):
        return pa.timestamp("us", "UTC" if "," in feature.dtype else None)
    whole = bool(feature.integer) and kept and max(map(abs, feature.bounds)) <= MOST_EXACT
    return pa.int64() if whole else pa.float64()
