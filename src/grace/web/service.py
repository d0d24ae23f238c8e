"""Models on offer. Each explains in threads of its own, so that the server never waits for an answer.

A model has three lanes with a copy of the explainer each: predictions do not queue behind answers, nor these behind
proofs. One thread per lane keeps the explainer's own records safe. Plain questions that wait together and differ in
the row alone are asked together: an answer is the same in a batch, and ten cost little more than one.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.explain.explainer import Explainer
from grace.explain.explanation import Explanation
from grace.pictures import svg_columns
from grace.schema.features import Value
from grace.schema.schema import Schema
from grace.text.vocabulary import schema_words, with_class_words
from grace.web.examples import table_examples, training_examples
from grace.web.queues import Worker
from grace.web.rows import Cells, read_row, sent

MOST_KEPT = 256  # answers that are remembered
BUDGET = 1.0  # seconds for a proof


@dataclass(frozen=True)
class RowQuestion:
    """What is asked of a model: a row, the names of the cells that were `filled` in, and arguments of
    `Explainer.explain`; `drawn` asks for pictures too."""

    row: Mapping[str, Value | None]
    limits: Mapping[str, Any] = field(default_factory=dict)
    filled: tuple[str, ...] = ()
    drawn: bool = True

    @property
    def terms(self) -> str:
        return repr(sorted(self.arguments.items()))

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.limits, "missing": "fill"} if self.filled else dict(self.limits)

    @property
    def given(self) -> dict[str, Value | None]:
        """The row as it was given: cells that were filled in are missing, so that the answer can say so."""
        return {name: None if name in self.filled else value for name, value in self.row.items()}

    @property
    def key(self) -> Hashable:
        return self.terms, repr(list(self.given.items())), self.drawn

    @property
    def hard(self) -> bool:
        return bool(self.limits.get("prove")) or self.limits.get("n", 1) > 1


@dataclass(frozen=True)
class Answer:
    """An explanation with its pictures, in columns, in the language of the schema."""

    e: Explanation
    columns: list[list[str]]
    others: dict[str, Answer] = field(default_factory=dict, compare=False)

    def spoken(self, code: str) -> Answer:
        """The same in another language."""
        if code == self.e.words.language:
            return self
        if code not in self.others:
            e = self.e.in_language(code)
            self.others[code] = Answer(e, svg_columns(e, e.backdrop()) if self.columns else [])
        return self.others[code]


class Served:
    """A model with its example rows."""

    def __init__(
        self,
        name: str,
        explainer: Explainer,
        first: pd.DataFrame | None = None,
        note: str = "",
        *,
        rows: pd.DataFrame | None = None,
    ) -> None:
        """`first` are rows to show before the training rows, and `note` is about the first (a text, or a key of
        `grace.text.languages.Language.PAGE`); `rows` is a table to go through instead."""
        self.name, self.note = name, note
        self.schema: Schema = explainer.schema
        self.task = explainer.model.task
        self.of_numbers = self.task == "regression"
        self.spread = explainer.spread() if self.of_numbers else 1.0
        self.classes = explainer.model.classes
        self.cutoffs = () if explainer.model.cutoffs is None else explainer.model.cutoffs.named
        self.settings = explainer.settings
        self.most = min(explainer.settings.max_features, len(self.schema))
        self.instant, self.quick, self.slow = Worker(explainer), Worker(copied(explainer)), Worker(copied(explainer))
        self.answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self.own_table = rows is not None
        found = training_examples(explainer, first) if rows is None else table_examples(explainer, rows)
        self.examples, self.extra, self.faults = found.rows, found.extra, found.faults
        self.example_classes = found.codes
        self._spoken: dict[str, Schema] = {}

    def spoken(self, code: str) -> Schema:
        """The schema in a language, with words for clusters."""
        if code not in self._spoken:
            words = schema_words(self.schema, code)
            self._spoken[code] = with_class_words(words, self.task, self.classes, (), None)
        return self._spoken[code]

    def sent(self, number: int) -> dict[str, Any]:
        """The cells of an example row as they are in the table; 0 is the first."""
        if not 0 <= number < len(self.examples):
            message = "row {row} is not there; the rows are 0 to {last}"
            raise GraceError(message, row=number, last=len(self.examples) - 1)
        row = self.examples.iloc[number]
        return {name: sent(row[name]) for name in self.schema.names}

    def read(self, number: int, fill: Collection[str] = ()) -> tuple[Cells, tuple[str, ...]]:
        """An example row, and which of its missing cells were filled in."""
        if number in self.faults:
            raise GraceError(self.faults[number])
        return read_row(self.schema, self.sent(number), fill)

    def example(self, number: int) -> Cells:
        """An example row; 0 is the first."""
        return self.read(number)[0]

    def typical(self) -> Cells:
        """A row that fits the model, to show what one looks like: the first example, else a typical one."""
        try:
            return self.example(0)
        except GraceError:
            return read_row(self.schema, {}, self.schema.names)[0]

    def after(self, number: int, of: Value | None = None, by: int = 1) -> int:
        """The next example (by = -1: the one before), of a class if one is given; round and round."""
        count = len(self.examples)
        if of is None or self.example_classes is None:
            return (number + by) % count
        places = np.flatnonzero(self.example_classes == self.classes.index(of))
        if len(places) == 0:
            return number
        steps = ((places - number) * by - 1) % count
        return int(places[steps.argmin()])

    async def predict(self, row: Mapping[str, Value | None]) -> tuple[int, list[float]]:
        """The class of a row as its position, and the probability of each; none of a model that gives none."""
        frame = pd.DataFrame([dict(row)])
        return await self.instant.run(lambda ex: predicted(ex, frame))

    async def number(self, row: Mapping[str, Value | None]) -> float:
        """What a model that predicts a number says of a row."""
        frame = pd.DataFrame([dict(row)])
        return await self.instant.run(lambda ex: float(ex.model.predict(frame)[0]))

    async def explain(self, question: RowQuestion) -> Answer:
        """The answer, remembered for a while. Proofs and further answers have a lane of their own."""
        key = question.key
        if key in self.answers:
            self.answers.move_to_end(key)
            return self.answers[key]
        if question.hard:
            (answer,) = await self.slow.run(lambda ex: ask(ex, [question]))
        else:
            answer = await self.quick.run_together(ask, question, question.terms)
        self.answers[key] = answer
        while len(self.answers) > MOST_KEPT:
            self.answers.popitem(last=False)
        return answer

    def close(self) -> None:
        for lane in (self.instant, self.quick, self.slow):
            lane.close()


def copied(explainer: Explainer) -> Explainer:
    """A copy with records of its own; the training rows are only read, and shared."""
    shared = (explainer.background_rows, explainer.su)
    return copy.deepcopy(explainer, {id(part): part for part in shared if part is not None})


def predicted(explainer: Explainer, frame: pd.DataFrame) -> tuple[int, list[float]]:
    """The class of a row as its position, and the probability of each class where the model gives any."""
    model = explainer.model
    code = list(model.classes).index(model.predict(frame)[0])
    return code, [float(p) for p in model.predict_proba(frame).iloc[0]] if model.has_probabilities else []


def ask(explainer: Explainer, questions: list[RowQuestion]) -> list[Answer]:
    """The answers to questions on the same terms."""
    batch = explainer.explain(pd.DataFrame([q.given for q in questions]), **questions[0].arguments)
    pairs = zip((e.computed() for e in batch), questions, strict=True)
    return [Answer(e, svg_columns(e, e.backdrop()) if q.drawn else []) for e, q in pairs]
