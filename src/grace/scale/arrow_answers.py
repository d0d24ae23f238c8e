"""Explains the rows of a part, and writes the answers as an Arrow table with one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from grace.explain.answer_table import NEW, OLD, answer_lines, in_lines
from grace.explain.batch_texts import notes, texts
from grace.methods import METHODS
from grace.problem.answers import Answers
from grace.problem.binding import random_rows
from grace.proofs.certificate import PROVEN
from grace.scale.extra_columns import ExtraColumns
from grace.scale.rejected_rows import Reject, bisect_failures, split_rejects
from grace.scale.worker import JobQuestion
from grace.schema.columns import DURATION_PREFIXES, MAX_EXACT_INTEGER, TIMESTAMP_PREFIXES, is_date
from grace.schema.features import Bools, Feature, Floats, Numeric, Value, columns_of
from grace.schema.groups import ungrouped
from grace.schema.low_precision import is_low_precision
from grace.schema.tables.table_file import ROW, Part
from grace.text.sentence import TextOptions

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.explain.explanations import Explanations


def check_question(explainer: Explainer, question: JobQuestion) -> None:
    """Explain a single row, so that errors in the question are raised before the first part."""
    rows = explainer.background_rows
    rows = random_rows(explainer.schema, 0) if rows is None else rows
    explainer.explain(explainer.schema.decode(rows[:1]), **question.settings)


def explain_part(
    explainer: Explainer, part: Part, question: JobQuestion, extra: ExtraColumns | None = None
) -> tuple[pa.Table, list[Reject]]:
    """The answers to the rows of a part, by row, and the rows that were rejected. Where the model fails on some rows,
    they are found by bisection and rejected."""
    frame, rejects = split_rejects(part, explainer.schema, missing=question.impute)
    found: list[tuple[pd.DataFrame, pa.Table]] = []
    failed: dict[Any, str] = {}
    if frame is not None:
        found, failed = bisect_failures(
            frame, lambda rows: to_arrow(explainer.explain(rows, **question.settings), question)
        )
    rejects += [Reject(int(row), None, reason) for row, reason in failed.items()]
    pieces = [answer_schema(explainer, question).empty_table(), *(table for _, table in found)]
    answers = pa.concat_tables(pieces).combine_chunks()
    if extra is not None and extra.names:
        numbers = [] if part.rows is None else part.rows[ROW].to_numpy()
        answers = extra.add_to(answers, part.rows, np.searchsorted(numbers, answers["row"].to_numpy()))
    return answers, sorted(rejects, key=lambda r: r.row)


def answer_schema(explainer: Explainer, question: JobQuestion) -> pa.Schema:
    """The columns of the answers and their types, the same for every part. Old values need not be in the domain of
    their feature, as new values are: a row may have decimals in a feature of integers."""
    classes = explainer.model.classes
    in_domain = "domain" in METHODS[question.settings.get("method", explainer.settings.method)].promises
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
    for f in ungrouped(explainer.schema).features:
        old, new = _type_of_feature(f, in_domain=False), _type_of_feature(f, in_domain)
        fields += [(OLD + f.name, old), (NEW + f.name, new)]
    return pa.schema(fields)


def to_arrow(batch: Explanations, question: JobQuestion) -> pa.Table:
    """One line per answer, those of a row one after another: classes, success, number of changed features, distance,
    and the old and new value of every feature that changes, null for the others. Sentences and notes are null unless
    the question has them."""
    schema = answer_schema(batch.explainer, question)
    a, rows, rank = answer_lines(batch.answers)
    classes = np.array(batch.explainer.model.classes, dtype=object)
    columns: dict[str, Any] = {
        "row": np.asarray(batch.index, dtype=np.int64)[rows],
        "rank": rank.astype(np.int32),
        "success": a.success,
        "original_class": _cells(_class_of(a.before, classes), schema.field("original_class").type),
        "contrast_class": _cells(_class_of(a.after, classes), schema.field("contrast_class").type, ~a.success),
        "features": a.changed.sum(axis=1).astype(np.int32),
        "distance": a.distance,
        "proven": a.proof == PROVEN,
        **_probabilities(batch, a),
        **_sentences(batch, question, len(rows)),
    }
    narrow = batch.explainer.model.black_box
    values = {OLD: batch.schema.decode(a.rows, narrow=narrow), NEW: batch.schema.decode(a.contrast, narrow=narrow)}
    codes = {OLD: a.rows, NEW: a.contrast}
    for j, feature in enumerate(batch.schema.features):
        changed = a.contrast[:, j] != a.rows[:, j]
        for name in columns_of(feature):
            for prefix, frame in values.items():
                cells = pd.Series(codes[prefix][:, j]) if is_low_precision(feature) else frame[name]  # as in sentences
                columns[prefix + name] = _sparse(cells, changed, schema.field(prefix + name).type)
    return pa.table({f.name: columns[f.name] for f in schema}, schema=schema)


def _class_of(scores: Floats, classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The class with the highest score, or the predicted number of a regression."""
    return np.asarray(classes[scores.argmax(axis=1)]) if len(classes) else scores[:, 0]


def _probabilities(batch: Explanations, a: Answers) -> dict[str, Any]:
    """The probabilities of the original and of the contrast class, null if the model gives none."""
    model, n = batch.explainer.model, len(a.rows)
    if batch.task == "regression" or not model.has_probabilities:
        return dict.fromkeys(("probability_before", "probability_after"), pa.nulls(n, pa.float64()))
    at = np.arange(n)
    before, after = (model.probabilities(scores)[at, scores.argmax(axis=1)] for scores in (a.before, a.after))
    return {"probability_before": before, "probability_after": pa.array(after, mask=~a.success)}


def _sentences(batch: Explanations, question: JobQuestion, lines: int) -> dict[str, Any]:
    """The sentence and the notes of each line; null if the question does not have them."""
    if question.text is None:
        return dict.fromkeys(("text", "notes"), pa.nulls(lines, pa.string()))
    how = cast(TextOptions, question.text)
    return {
        "text": in_lines(batch, lambda ranked, rows: texts(ranked, rows, how)),
        "notes": in_lines(batch, lambda ranked, rows: notes(ranked, rows, how.get("language"))),
    }


def _sparse(column: pd.Series[Any], changed: Bools, kind: pa.DataType) -> pa.Array:
    """The cells that changed, and null elsewhere."""
    if not changed.any():  # the usual case in a wide table
        return pa.nulls(len(changed), kind)
    values = _cells(column[changed].to_numpy(dtype=object), kind)
    positions = np.full(len(changed), -1, dtype=np.int64)
    positions[changed] = np.arange(int(changed.sum()))
    return values.take(pa.array(positions, mask=~changed))


def _cells(values: np.ndarray[Any, Any], kind: pa.DataType, empty: Bools | None = None) -> pa.Array:
    """Cells as an Arrow array of a type; missing cells and those marked as `empty` are null."""
    cells = np.asarray(values, dtype=object)
    null = pd.isna(cells) if empty is None else pd.isna(cells) | empty
    tests = ((pa.types.is_string, str), (pa.types.is_floating, float), (pa.types.is_integer, int))
    convert = next((to for test, to in tests if test(kind)), None)
    if convert is not None:
        cells = np.array([None if n else convert(v) for v, n in zip(cells, null, strict=True)], dtype=object)
    return pa.array(cells, kind, mask=null, from_pandas=True)


def _type_of(values: Sequence[Value]) -> pa.DataType:
    """The type that holds all of the values; float64 if there are none, as for the classes of a regression."""
    if values and all(isinstance(v, bool) for v in values):
        return pa.bool_()
    if values and all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return pa.int64()
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return pa.float64()
    return pa.string()


def _type_of_feature(feature: Feature, in_domain: bool) -> pa.DataType:
    """The type of a feature's values; integers are int64 only if all values are in its domain (`in_domain`)."""
    if not isinstance(feature, Numeric):
        return _type_of(feature.categories)
    if is_date(feature) and not feature.dtype.startswith(TIMESTAMP_PREFIXES):
        return pa.date32()
    if feature.dtype.startswith(DURATION_PREFIXES):
        return pa.duration("us")
    if is_date(feature):
        return pa.timestamp("us", "UTC" if "," in feature.dtype else None)
    integer = bool(feature.integer) and in_domain and max(map(abs, feature.bounds)) <= MAX_EXACT_INTEGER
    return pa.int64() if integer else pa.float64()
