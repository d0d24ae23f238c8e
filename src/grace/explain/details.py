"""What the text of an explanation needs beyond its answer, computed for many rows at once and cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from grace.explain.batching import queries_so_far
from grace.explain.diagnosis import LimitChange, diagnose
from grace.explain.spans import ASKED_PER_CELL, spans_of_answers
from grace.problem.answers import Answers
from grace.schema.features import Bools, Floats

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

Result = TypeVar("Result")
SPAN_BLOCK = 256  # rows whose spans are computed together


class Details:
    """Spans of changed values, medians of the new class, and the diagnosis of misses. `place` is 0 for the first
    answers of a batch, and counts its alternatives."""

    def __init__(self, batch: Explanations) -> None:
        self.batch = batch
        self.queries = 0  # rows that a black box was queried for
        self._medians: dict[int, Floats] = {}
        self._spans: dict[tuple[int, int], tuple[Floats, Bools]] = {}
        if not batch.explainer.model.black_box:
            self.class_medians(0, batch.answers)

    @cached_property
    def diagnosis(self) -> dict[int, list[LimitChange]]:
        """For each row without an answer, which limits would have to be lifted."""
        return diagnose(self.batch)

    def class_medians(self, place: int, answers: Answers) -> Floats:
        """Medians of class Y in the changed numbers (n, d), see `ModelView.class_medians`; NaN where the model may not
        be queried so often."""
        if place not in self._medians:
            known = np.full_like(answers.contrast, np.nan)
            if self._may_query(len(answers.rows)):
                known = self._counted(lambda: self.batch.explainer.class_medians(answers))
            self._medians[place] = known
        return self._medians[place]

    def spans(self, i: int, place: int, answers: Answers) -> tuple[Floats, Bools]:
        """`spans_of_answers` of row i; unknown where the model may not be queried so often."""
        block, at = divmod(i, SPAN_BLOCK)
        if (block, place) not in self._spans:
            here = slice(block * SPAN_BLOCK, (block + 1) * SPAN_BLOCK)
            shape = answers.contrast[here].shape
            found = np.full((*shape, 2), np.nan), np.zeros(shape, dtype=bool)
            if self._may_query(ASKED_PER_CELL * int(answers.changed[here].sum())):
                batch = self.batch
                found = self._counted(
                    lambda: spans_of_answers(batch.explainer, batch.schema, answers, here, batch.target_ranges)
                )
            self._spans[block, place] = found
        spans, brittle = self._spans[block, place]
        return spans[at], brittle[at]

    def _may_query(self, rows: int) -> bool:
        left = self.batch.calls_left
        return left is None or left >= rows

    def _counted(self, compute: Callable[[], Result]) -> Result:
        """The result, with the rows that a black box was queried for added to `queries`."""
        begun = queries_so_far(self.batch.explainer.model)[1]
        out = compute()
        self.queries += queries_so_far(self.batch.explainer.model)[1] - begun
        return out
