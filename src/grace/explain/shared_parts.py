"""What the explanations of a batch share, and records about a row that come from the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.explain.answer_parts import cell_remarks, mentioned, miss_record, protected_in
from grace.explain.details import columns_by_row
from grace.schema.features import MISSING, Categorical, Feature, Floats, Numeric, Value
from grace.schema.rules.keeping import broken_rules
from grace.schema.schema import Schema
from grace.text.vocabulary import with_class_words

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations


def cell_reader(feature: Feature) -> Callable[[float], Value | None] | None:
    """A function from the code of a cell to its value, None if the cell is missing; None if the code is the value. A
    date stays a number."""
    if isinstance(feature, Categorical):
        cells = [None if feature.gaps and cell == MISSING else cell for cell in feature.categories]
        return lambda code: cells[int(code)]
    missing = feature.missing_code
    if feature.integer:
        return lambda code: None if code == missing else int(code) if code.is_integer() else code
    return (lambda code: None if code == missing else code) if feature.gaps else None


class CellReader:
    """Reads encoded rows of a schema."""

    def __init__(self, schema: Schema) -> None:
        self.names = schema.names
        self.readers = [cell_reader(f) for f in schema.features]
        self._own = [(j, read) for j, read in enumerate(self.readers) if read is not None]

    def value(self, j: int, code: float) -> Any:
        """The value of a cell of column j, None if it is missing."""
        read = self.readers[j]
        return code if read is None else read(code)

    def row(self, codes: Floats) -> dict[str, Value | None]:
        """The cells of an encoded row by name."""
        cells: list[Any] = codes.tolist()
        for j, read in self._own:
            cells[j] = read(cells[j])
        return dict(zip(self.names, cells, strict=True))


def without_features(schema: Schema) -> Schema:
    """The words of the schema alone."""
    return replace(schema, features=(), rules=())


class SharedParts:
    """Computes the parts of a batch on first use."""

    def __init__(self, batch: Explanations) -> None:
        self.batch = batch
        self.classes = tuple(batch.explainer.model.classes)
        self._words = without_features(batch.schema)
        self._words_with: dict[frozenset[str], Schema] = {}  # by the names of the features mentioned

    @cached_property
    def reader(self) -> CellReader:
        return CellReader(self.batch.schema)

    @cached_property
    def common(self) -> dict[str, Any]:
        """The fields that all explanations of the batch have in common."""
        model = self.batch.explainer.model
        return {
            "classes": self.classes,
            "settings": self.batch.settings,
            "task": self.batch.task,
            "sure": model.has_probabilities,
            "cutoffs": () if model.cutoffs is None else model.cutoffs.named,
            "protected": tuple(protected_in(self.batch.schema)),
        }

    @cached_property
    def _cell_remarks(self) -> dict[int, tuple[dict[str, Any], ...]]:
        """Notes about imputed cells and numbers outside their domain, for each row that has any."""
        rows, features = self.batch.answers.rows, self.batch.schema.features
        missing = [f.missing_code if isinstance(f, Numeric) else np.nan for f in features]
        numeric = np.array([isinstance(f, Numeric) for f in features])
        filled, outside = map(
            columns_by_row,
            (self.batch.filled.to_numpy(), ~self.batch.schema.contains(rows) & numeric & (rows != missing)),
        )
        return {
            i: tuple(cell_remarks(self.batch.schema, rows[i], filled.get(i, ()), outside.get(i, ())))
            for i in (*filled, *outside)
        }

    @cached_property
    def _broken(self) -> dict[int, list[int]]:
        """The rules that a row breaks itself, for each row that breaks any."""
        return columns_by_row(broken_rules(self.batch.schema, self.batch.answers.rows))

    def remarks(self, i: int, brittle: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
        """Notes about row i: about its cells, rules that it breaks itself, and the columns of brittle changes."""
        noted: tuple[Mapping[str, Any], ...] = self._cell_remarks.get(i, ())
        if self.batch.schema.rules:
            noted += tuple({"what": "rule", "rule": str(self.batch.schema.rules[k])} for k in self._broken.get(i, ()))
        return noted + tuple([{"what": "brittle", "feature": self.reader.names[j]} for j in brittle])

    def words(self, i: int, predictions: Sequence[Any], *records: Mapping[str, Any] | None) -> Schema:
        """The words of the explanation of row i: the schema with the features that its records mention."""
        names = mentioned(records)
        if names not in self._words_with:
            words = replace(self._words, features=tuple(f for f in self.batch.schema.features if f.name in names))
            self._words_with[names] = with_class_words(words, self.batch.task, self.classes, (), None)
        words, requested = self._words_with[names], self.batch.target_ranges
        return words if requested is None else with_class_words(words, self.batch.task, (), predictions, requested[i])

    def miss(self, i: int) -> Mapping[str, Any]:
        """Why row i has no answer."""
        if self.batch.answers.trivial[i]:
            return {"why": "already"}
        if self.batch.spent is not None and self.batch.spent.left_out[i]:
            return {"why": "calls", "most": self.batch.call["max_calls"]}
        return miss_record(self.batch, i, self.batch.details.diagnosis.get(i, []))
