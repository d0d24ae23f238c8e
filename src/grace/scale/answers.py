"""The explained rows of a part as a table: one line per row, and what became of its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from grace.certificate import PROVEN
from grace.columns import MOST_EXACT, SPANS, TIMES, is_date, is_small
from grace.features import Feature, Numeric, Value, columns_of
from grace.groups import flat
from grace.learning import anywhere
from grace.methods import METHODS
from grace.scale.sifting import Reject, halved, sift
from grace.scale.tables import Part
from grace.wanted import Wanted

if TYPE_CHECKING:
    import pyarrow as pa

    from grace.batch import Explanations
    from grace.explainer import Explainer

NEW = "new."  # before the name of a feature, for the value that it would have had
REJECTS = ("row", "column", "reason")


@dataclass(frozen=True)
class Question:
    """What is asked about every row: the arguments of `explain`, whether missing cells are filled in, and how the
    sentence is said, if it is wanted."""

    settings: Mapping[str, Any]
    impute: bool = False
    text: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any], memory: int) -> Question:
        """From JSON, with the memory that a process may use for rows."""
        settings = {**said["settings"], "memory": memory}
        if isinstance(settings.get("against"), dict):
            settings["against"] = Wanted(**settings["against"])
        if said["impute"]:
            settings["missing"] = "fill"
        return cls(settings, said["impute"], said["text"])


def check(explainer: Explainer, question: Question) -> None:
    """Ask about a single row, so that what is wrong with the question shows before the first part."""
    rows = explainer.background_rows
    some = anywhere(explainer.schema, 0) if rows is None else rows
    explainer.explain(explainer.schema.decode(some[:1]), **question.settings)


def explain_part(explainer: Explainer, part: Part, question: Question) -> tuple[pa.Table, list[Reject]]:
    """The answers to the rows of a part, by row, and the rows that were set aside."""
    import pyarrow as pa

    frame, rejects = sift(part, explainer.schema, missing=question.impute)
    found: list[tuple[pd.DataFrame, pa.Table]] = []
    failed: dict[Any, str] = {}
    if frame is not None:
        found, failed = halved(frame, lambda rows: table_of(explainer.explain(rows, **question.settings), question))
    rejects += [Reject(int(row), None, reason) for row, reason in failed.items()]
    answers = [layout(explainer, question).empty_table(), *(table for _, table in found)]
    return pa.concat_tables(answers).combine_chunks(), sorted(rejects, key=lambda r: r.row)


def layout(explainer: Explainer, question: Question) -> pa.Schema:
    """The columns of the answers and their types, the same for every part."""
    import pyarrow as pa

    classes = explainer.model.classes
    kept = "domain" in METHODS[question.settings.get("method", explainer.settings.method)].promises
    fields = [
        ("row", pa.int64()),
        ("success", pa.bool_()),
        ("original_class", _type_of(classes)),
        ("contrast_class", _type_of(classes)),
        ("features", pa.int32()),
        ("distance", pa.float64()),
    ]
    if question.settings.get("prove", explainer.settings.prove):
        fields.append(("proven", pa.bool_()))
    if question.text is not None:
        fields.append(("text", pa.string()))
    return pa.schema(fields + [(NEW + f.name, _type_of_feature(f, kept)) for f in flat(explainer.schema).features])


def table_of(batch: Explanations, question: Question) -> pa.Table:
    """One line per row: classes, success, how many features change, how far, and what to, with what follows them;
    what stays is empty."""
    import pyarrow as pa

    kind = layout(batch.explainer, question)
    a = batch.answers
    contrast = batch.contrast
    columns: dict[str, Any] = {
        "row": np.asarray(batch.index, dtype=np.int64),
        "success": a.success,
        "original_class": _cells(batch.original_class, kind.field("original_class").type),
        "contrast_class": _cells(batch.contrast_class, kind.field("contrast_class").type),
        "features": a.changed.sum(axis=1).astype(np.int32),
        "distance": a.distance,
        "proven": a.proof == PROVEN,
    }
    if question.text is not None:
        columns["text"] = [e.text(**question.text) for e in batch]
    for j, feature in enumerate(batch.schema.features):
        other = a.contrast[:, j] != a.rows[:, j]
        for name in columns_of(feature):
            cells = pd.Series(a.contrast[:, j]) if is_small(feature) else contrast[name]  # as they are said
            columns[NEW + name] = _sparse(cells, other, kind.field(NEW + name).type)
    return pa.table({f.name: columns[f.name] for f in kind}, schema=kind)


def _sparse(column: pd.Series[Any], changed: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    """The cells that changed, and nothing elsewhere."""
    import pyarrow as pa

    values = _cells(column[changed].to_numpy(dtype=object), kind)
    place = np.full(len(changed), -1, dtype=np.int64)
    place[changed] = np.arange(int(changed.sum()))
    return values.take(pa.array(place, mask=~changed))


def _cells(values: Sequence[Any] | np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    plain = np.asarray(values, dtype=object)
    if pa.types.is_string(kind):
        plain = np.array([None if v is None else str(v) for v in plain], dtype=object)
    elif pa.types.is_floating(kind):
        plain = np.array([None if v is None else float(v) for v in plain], dtype=object)
    elif pa.types.is_integer(kind):
        plain = np.array([None if v is None else int(v) for v in plain], dtype=object)
    return pa.array(plain, kind, from_pandas=True)


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
