"""Served models: prediction and explanation in worker threads, so that the event loop never blocks.

Each model has three workers with a copy of the explainer each: predictions do not wait for explanations, nor those for
proofs. An explainer's caches are used by one thread only. Waiting questions that differ only in the row are explained
as one batch, which changes no answer.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.explain.decisions.profile import Profile
from grace.explain.decisions.reasons import Reasons
from grace.explain.decisions.sufficient import SufficientReason
from grace.explain.explainer import Explainer
from grace.explain.explanation import Explanation
from grace.explain.explanations import Explanations
from grace.pictures import svg_columns
from grace.schema.features import Value
from grace.schema.frames import cell_reprs
from grace.schema.schema import Schema
from grace.text.vocabulary import schema_words, with_class_words
from grace.web.examples import table_examples, training_examples
from grace.web.queues import Worker
from grace.web.rows import Cells, check_row_number, plain_cell, read_row

T = TypeVar("T")
MAX_CACHED = 256  # answers per model
BUDGET = 1.0  # seconds of a proof


@dataclass(frozen=True)
class RowQuestion:
    """A row to explain, the names of its imputed cells (`filled`), and arguments of `Explainer.explain` (`limits`)."""

    row: Mapping[str, Value | None]
    limits: Mapping[str, Any] = field(default_factory=dict)
    filled: tuple[str, ...] = ()
    with_pictures: bool = True

    @property
    def batch_key(self) -> str:
        return repr(sorted(self.arguments.items()))

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.limits, "missing": "fill"} if self.filled else dict(self.limits)

    @property
    def raw_row(self) -> dict[str, Value | None]:
        """The row before imputation: imputed cells are None, so that the explanation names them."""
        return {name: None if name in self.filled else value for name, value in self.row.items()}

    @property
    def cache_key(self) -> Hashable:
        return self.batch_key, repr(list(self.raw_row.items())), self.with_pictures

    @property
    def is_slow(self) -> bool:
        return bool(self.limits.get("prove")) or self.limits.get("n", 1) > 1


@dataclass(frozen=True)
class Answer:
    """An explanation with its pictures by column, in the schema's language; `translations` caches other languages."""

    e: Explanation
    columns: list[list[str]]
    translations: dict[str, Answer] = field(default_factory=dict, compare=False)

    def translated(self, code: str) -> Answer:
        """The answer in another language."""
        if code == self.e.words.language:
            return self
        if code not in self.translations:
            e = self.e.in_language(code)
            self.translations[code] = Answer(e, svg_columns(e, e.backdrop()) if self.columns else [])
        return self.translations[code]


class Served:
    """A model on offer, with its example rows."""

    def __init__(
        self,
        name: str,
        explainer: Explainer,
        first: pd.DataFrame | None = None,
        note: str = "",
        *,
        rows: pd.DataFrame | None = None,
    ) -> None:
        """`first` holds rows to show before the training rows, `note` a text (or key of
        `grace.text.languages.Language.PAGE`) about the first; `rows` is a table to browse instead."""
        self.name, self.note = name, note
        self.schema: Schema = explainer.schema
        self.task = explainer.model.task
        self.is_regression = self.task == "regression"
        self.spread = explainer.spread() if self.is_regression else 1.0
        self.classes = explainer.model.classes
        self.cutoffs = () if explainer.model.cutoffs is None else explainer.model.cutoffs.named
        self.settings = explainer.settings
        self.max_features = min(self.settings.max_features, len(self.schema))
        self.instant = Worker(explainer)
        self.quick, self.slow = (Worker(copy_explainer(explainer)) for _ in range(2))
        self.answers: OrderedDict[Hashable, Any] = OrderedDict()
        examples = training_examples(explainer, first) if rows is None else table_examples(explainer, rows)
        self.examples, self.extra, self.example_errors = examples.rows, examples.extra, examples.errors
        self.example_classes = examples.codes
        self._translations: dict[str, Schema] = {}

    def translated(self, code: str) -> Schema:
        """The schema in a language, with words for clusters."""
        if code not in self._translations:
            words = schema_words(self.schema, code)
            self._translations[code] = with_class_words(words, self.task, self.classes, (), None)
        return self._translations[code]

    def raw_example(self, number: int) -> dict[str, Any]:
        """The cells of an example row as in the table."""
        check_row_number(number, len(self.examples))
        row = self.examples.iloc[number]
        return {name: plain_cell(row[name]) for name in self.schema.names}

    def read_example(self, number: int, fill: Collection[str] = ()) -> tuple[Cells, tuple[str, ...]]:
        """An example row, and the names of its imputed cells."""
        if number in self.example_errors:
            raise GraceError(self.example_errors[number])
        return read_row(self.schema, self.raw_example(number), fill)

    def example(self, number: int) -> Cells:
        """An example row."""
        return self.read_example(number)[0]

    def typical(self) -> Cells:
        """A row that fits the model: the first example, else one of typical values."""
        try:
            return self.example(0)
        except GraceError:
            return read_row(self.schema, {}, self.schema.names)[0]

    def after(self, number: int, of: Value | None = None, by: int = 1) -> int:
        """The next example (by=-1: the previous), optionally of one predicted class, cyclically."""
        count = len(self.examples)
        if of is None or self.example_classes is None:
            return (number + by) % count
        places = np.flatnonzero(self.example_classes == self.classes.index(of))
        if len(places) == 0:
            return number
        steps = ((places - number) * by - 1) % count
        return int(places[steps.argmin()])

    async def predict(self, row: Mapping[str, Value | None]) -> tuple[int, list[float]]:
        """The position of the predicted class, and the probabilities if the model has any."""
        frame = pd.DataFrame([dict(row)])
        return await self.instant.run(lambda ex: predict_row(ex, frame))

    async def number(self, row: Mapping[str, Value | None]) -> float:
        """The predicted number."""
        frame = pd.DataFrame([dict(row)])
        return await self.instant.run(lambda ex: float(ex.model.predict(frame)[0]))

    async def explain(self, question: RowQuestion) -> Answer:
        """The answer. Proofs and further answers run on the slow worker."""
        if question.is_slow:
            return await self._cached(
                question.cache_key, lambda: self.slow.run(lambda ex: explain_batch(ex, [question])[0])
            )
        key = question.batch_key
        return await self._cached(question.cache_key, lambda: self.quick.run_batched(explain_batch, question, key))

    async def profile(self, question: RowQuestion, forecasts: bool) -> Profile:
        """What each feature would do alone, on the slow worker."""
        key = ("profile", question.cache_key, forecasts)

        def work(explainer: Explainer) -> Profile:
            return asked(explainer, [question]).profile(forecasts=forecasts)[0]

        return await self._cached(key, lambda: self.slow.run(work))

    async def reasons(self, question: RowQuestion, max_features: int, seconds: float, shown: int) -> Reasons:
        """All minimal sets of at most so many features, on the slow worker."""
        key = ("reasons", question.cache_key, max_features, seconds, shown)

        def work(explainer: Explainer) -> Reasons:
            return asked(explainer, [question]).reasons(max_features, seconds=seconds, shown=shown)[0].computed()

        return await self._cached(key, lambda: self.slow.run(work))

    async def because(self, question: RowQuestion, smallest: bool, seconds: float) -> SufficientReason:
        """Features that entail the class, on the slow worker."""
        key = ("because", question.cache_key, smallest, seconds)

        def work(explainer: Explainer) -> SufficientReason:
            return asked(explainer, [question]).because(smallest=smallest, seconds=seconds)[0]

        return await self._cached(key, lambda: self.slow.run(work))

    async def _cached(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """The result of a computation, from the cache (LRU) if it is there."""
        if key not in self.answers:
            self.answers[key] = await compute()
        self.answers.move_to_end(key)
        while len(self.answers) > MAX_CACHED:
            self.answers.popitem(last=False)
        found: T = self.answers[key]
        return found

    def close(self) -> None:
        for worker in (self.instant, self.quick, self.slow):
            worker.close()


def find_model(models: Mapping[str, Served], name: str | None = None) -> Served:
    """The model of this name; the first one without a name."""
    name = next(iter(models)) if name is None else name
    if name not in models:
        raise GraceError("there is no model {name!r}; there are {known}", name=name, known=cell_reprs(models))
    return models[name]


def copy_explainer(explainer: Explainer) -> Explainer:
    """A copy with its own caches; the background rows are shared."""
    shared = (explainer.background_rows, explainer.su)
    return copy.deepcopy(explainer, {id(part): part for part in shared if part is not None})


def predict_row(explainer: Explainer, frame: pd.DataFrame) -> tuple[int, list[float]]:
    """The position of the predicted class, and the probabilities if the model has any."""
    model = explainer.model
    code = list(model.classes).index(model.predict(frame)[0])
    return code, [float(p) for p in model.predict_proba(frame).iloc[0]] if model.has_probabilities else []


def asked(explainer: Explainer, questions: list[RowQuestion]) -> Explanations:
    """The explanations of questions that differ only in the row."""
    return explainer.explain(pd.DataFrame([q.raw_row for q in questions]), **questions[0].arguments)


def explain_batch(explainer: Explainer, questions: list[RowQuestion]) -> list[Answer]:
    """Explain questions that differ only in the row."""
    pairs = zip((e.computed() for e in asked(explainer, questions)), questions, strict=True)
    return [Answer(e, svg_columns(e, e.backdrop()) if q.with_pictures else []) for e, q in pairs]
