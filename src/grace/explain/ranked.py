"""The answers of one rank as the fields of explanations. Arrays of the batch are converted once, not row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.explain.answer_parts import proof_record
from grace.explain.explanation import Change, Explanation
from grace.explain.region import Region
from grace.explain.shared_parts import CellReader, SharedParts
from grace.pictures.backdrop import MAX_CHANGES_SHOWN, Backdrop
from grace.pictures.compute_backdrop import compute_backdrop
from grace.problem.answers import NOT_ASKED, Answers
from grace.schema.features import Floats, Numeric
from grace.schema.schema import Schema

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations


class Changes:
    """The changes between encoded rows (n, d), those of a row the largest first."""

    def __init__(self, schema: Schema, reader: CellReader, old: Floats, new: Floats) -> None:
        self.features = schema.features
        row, column = np.nonzero(old != new)
        before, after = old[row, column], new[row, column]
        sizes = [(f.spread or 1.0, 0.0) if isinstance(f, Numeric) else (1.0, 1.0) for f in schema.features]
        spread, fixed = np.array(sizes).T  # the size of a change: in spreads for a number, 1 for a category
        size = np.where(fixed[column] > 0, 1.0, np.abs(after - before) / spread[column])
        order = np.lexsort((column, -size, row))
        self.row, self.column, self.codes = row[order], column[order], (before[order], after[order])
        self._read(reader)
        known = [o is not None and n is not None for o, n in zip(self.old, self.new, strict=True)]
        if not all(known):  # a change from or to a missing cell is none
            self.row, self.column = self.row[known], self.column[known]
            self.codes = self.codes[0][known], self.codes[1][known]
            self._read(reader)
        self.starts: list[int] = np.searchsorted(self.row, np.arange(len(old) + 1)).tolist()

    def _read(self, reader: CellReader) -> None:
        """The columns and values of the changes as Python objects."""
        self.columns: list[int] = self.column.tolist()
        self.old: list[Any]
        self.new: list[Any]
        self.old, self.new = (
            [x if (read := reader.readers[j]) is None else read(x) for j, x in zip(self.columns, codes, strict=True)]
            for codes in (self.codes[0].tolist(), self.codes[1].tolist())
        )

    def places(self, i: int) -> range:
        """The positions of the changes of row i."""
        return range(self.starts[i], self.starts[i + 1])

    def predicates(self, rows: Sequence[int]) -> list[str]:
        """The changed features of some rows with their new values, as `Explanation.predicate`."""
        names = [f.name for f in self.features]
        parts = [f"{names[j]} = {value}" for j, value in zip(self.columns, self.new, strict=True)]
        return [" and ".join(parts[self.starts[i] : self.starts[i + 1]]) for i in rows]

    def of(self, i: int, spans: Floats | None = None) -> tuple[Change, ...]:
        """The changes of row i, with the spans (d, 2) of numbers; NaN if unknown."""
        out = []
        for k in self.places(i):
            j = self.columns[k]
            low, high = (np.nan, np.nan) if spans is None else spans[j].tolist()
            out.append(Change(self.features[j], self.old[k], self.new[k], None if low != low else (low, high)))
        return tuple(out)


class Ranked:
    """The answers of a batch of one rank: 0 for the first answers, then the alternatives."""

    def __init__(self, batch: Explanations, shared: SharedParts, rank: int, answers: Answers) -> None:
        self.batch, self.shared, self.rank, self.answers = batch, shared, rank, answers
        model = batch.explainer.model
        self.success: list[bool] = answers.success.tolist()
        self.distance: list[float] = answers.distance.tolist()
        scores = answers.before, answers.after
        self.best = list(zip(*(s.argmax(axis=1).tolist() for s in scores), strict=True))
        if batch.target_ranges is None and model.has_probabilities:
            scores = model.probabilities(scores[0]), model.probabilities(scores[1])
        self.before, self.after = scores
        self.checks = {name: passed.tolist() for name, passed in answers.checks.items()}
        self.asked = bool((answers.proof != NOT_ASKED).any())

    @cached_property
    def moved(self) -> Floats:
        """The rows after the intervention alone, without its consequences (n, d)."""
        return self.answers.moved

    @cached_property
    def changes(self) -> Changes:
        return Changes(self.batch.schema, self.shared.reader, self.answers.rows, self.moved)

    @cached_property
    def follow_on(self) -> Changes | None:
        """The consequences of the changes; None if there are none."""
        a, batch = self.answers, self.batch
        if a.following is None or not a.following.any():
            return None
        return Changes(batch.schema, self.shared.reader, a.rows, np.where(a.following, a.contrast, a.rows))

    @cached_property
    def medians(self) -> tuple[list[int], list[int], list[float]]:
        """Medians of the new class: the start of each row, and column and median of each that is known."""
        known = self.batch.details.class_medians(self.rank, self.answers)
        row, column = np.nonzero(~np.isnan(known))
        starts = np.searchsorted(row, np.arange(len(known) + 1))
        return starts.tolist(), column.tolist(), known[row, column].tolist()

    def predictions(self, i: int) -> tuple[Any, ...]:
        """The predicted classes of row i, or its predicted numbers, before and after the changes."""
        if self.batch.target_ranges is not None:
            return (*self.before[i].tolist(), *self.after[i].tolist())
        classes, (first, second) = self.shared.classes, self.best[i]
        return classes[first], classes[second]

    def fields(self, i: int) -> dict[str, Any]:
        """The fields of the explanation of row i that need no model calls, without the row itself."""
        batch = self.batch
        original, contrast = self.predictions(i)
        sure = self.shared.common["sure"]
        return {
            **self.shared.common,
            "follow_on": () if self.follow_on is None else self.follow_on.of(i),
            "original_class": original,
            "contrast_class": contrast if self.success[i] else None,
            "before": tuple(self.before[i].tolist()) if sure else (),
            "after": tuple(self.after[i].tolist()) if sure else (),
            "success": self.success[i],
            "proof": proof_record(batch, i, self.answers) if self.asked else None,
            "checks": {name: passed[i] for name, passed in self.checks.items()},
            "distance": self.distance[i],
            "wanted": None if batch.target_ranges is None else batch.target_ranges[i],
            "alternatives": (),
            "make_backdrop": partial(self.backdrop, i),
            "make_region": partial(self.region, i),
        }

    def remarks(self, i: int, brittle: Sequence[int]) -> tuple[Mapping[str, Any], ...]:
        """Notes about row i and the columns of its brittle changes, and whether fewer of its changes lead to a tie."""
        noted = self.shared.remarks(i, brittle)
        return (*noted, {"what": "tie"}) if i in self.batch.details.tied(self.rank, self.answers) else noted

    def deferred(self, i: int, proof: Mapping[str, Any] | None) -> dict[str, Any]:
        """The other fields; `proof` is the record of the proof."""
        batch = self.batch
        spans, brittle = batch.details.spans(i, self.rank, self.answers)
        miss = None if self.success[i] else self.shared.miss(i)
        noted = self.remarks(i, brittle)
        starts, columns, medians = self.medians
        here = range(starts[i], starts[i + 1])
        return {
            "changes": self.changes.of(i, spans),
            "miss": miss,
            "remarks": noted,
            "typical": {self.shared.reader.names[columns[k]]: medians[k] for k in here},
            "words": self.shared.words(i, self.predictions(i), miss, proof, *noted),
        }

    def explanation(self, i: int, **known: Any) -> Explanation:
        """The explanation of row i without its alternatives, with fields that are `known`."""
        fields = {**self.fields(i), **known}
        read_row = partial(self.shared.reader.row, self.answers.rows[i])
        return Explanation.deferred(partial(self.deferred, i, fields["proof"]), read_row, fields)

    def region(self, i: int) -> Region | None:
        """The region around the answer to row i."""
        if not self.success[i]:
            return None
        columns = [self.changes.columns[k] for k in self.changes.places(i)]
        return self.batch.details.region(i, self.rank, self.answers, columns, self.shared.reader)

    def backdrop(self, i: int) -> Backdrop:
        """What pictures of the explanation of row i show behind the changes."""
        batch = self.batch
        old, follow = self.answers.rows[i], batch.consequences
        shown = [self.changes.columns[k] for k in self.changes.places(i)[:MAX_CHANGES_SHOWN]]
        leads_to = None if follow is None else lambda rows: follow.retraced(rows, old)
        wanted = None if batch.target_ranges is None else batch.target_ranges[i]
        return compute_backdrop(
            batch.explainer, batch.schema, old, self.moved[i], self.best[i], shown, wanted, leads_to
        )
