"""Models on offer. Each explains in threads of its own, so that the server never waits for an answer.

A model has two lanes with a copy of the explainer each: predictions and plain answers do not queue behind
proofs. One thread per lane keeps the explainer's own records safe.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from grace.errors import GraceError
from grace.explainer import Explainer
from grace.explanation import Explanation
from grace.features import Value, plain
from grace.pictures import svg_columns
from grace.schema import Schema
from grace.web.rows import cell, filled

T = TypeVar("T")

MOST_WAITING = 200  # questions a lane may have before it turns further ones away
MOST_KEPT = 256  # answers that are remembered
BUDGET = 1.0  # seconds for a proof


class BusyError(Exception):
    """Too many questions are waiting."""


class Lane:
    """One thread with an explainer of its own."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer
        self.pool = ThreadPoolExecutor(1)
        self.waiting = 0

    async def run(self, work: Callable[[Explainer], T]) -> T:
        if self.waiting >= MOST_WAITING:
            raise BusyError
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, work, self.explainer)
        finally:
            self.waiting -= 1


@dataclass(frozen=True)
class Question:
    """What is asked of a model: a row, and arguments of `Explainer.explain`."""

    row: Mapping[str, Value]
    limits: Mapping[str, Any] = field(default_factory=dict)

    def key(self) -> Hashable:
        return repr((list(self.row.items()), sorted(self.limits.items())))


@dataclass(frozen=True)
class Answer:
    """An explanation with its pictures, in columns."""

    e: Explanation
    columns: list[list[str]]


class Served:
    """A model with its example rows."""

    def __init__(self, name: str, explainer: Explainer, first: pd.DataFrame | None = None, note: str = "") -> None:
        self.name, self.note = name, note
        self.schema: Schema = explainer.schema
        self.classes = explainer.model.classes
        self.settings = explainer.settings
        self.quick, self.slow = Lane(explainer), Lane(copy.deepcopy(explainer))
        self.answers: OrderedDict[Hashable, Answer] = OrderedDict()
        known = explainer.background_rows
        frames = [] if first is None else [first[self.schema.names]]
        if known is not None:
            frames.append(self.schema.decode(known))
        if not frames:
            frames.append(pd.DataFrame([{f.name: filled(f) for f in self.schema.features}]))
        self.examples = pd.concat(frames, ignore_index=True)
        codes = {label: i for i, label in enumerate(self.classes)}
        self.example_classes = np.array([codes[c] for c in explainer.model.predict(self.examples)])

    def example(self, number: int) -> dict[str, Value]:
        """An example row; 1 is the first."""
        if not 1 <= number <= len(self.examples):
            raise GraceError(f"row {number} is not there; there are rows 1 to {len(self.examples)}")
        row = self.examples.iloc[number - 1]
        return {f.name: cell(f, plain(row[f.name])) for f in self.schema.features}

    def after(self, number: int, of: Value | None = None, by: int = 1) -> int:
        """The next example (by = -1: the one before), of a class if one is given; round and round."""
        code = None if of is None else self.classes.index(of)
        count = len(self.examples)
        for step in range(1, count + 1):
            at = (number - 1 + by * step) % count
            if code is None or self.example_classes[at] == code:
                return at + 1
        return number

    async def predict(self, row: Mapping[str, Value]) -> list[float]:
        """The probability of each class."""
        frame = pd.DataFrame([dict(row)])
        return await self.quick.run(lambda ex: [float(p) for p in ex.model.predict_proba(frame).iloc[0]])

    async def explain(self, question: Question) -> Answer:
        """The answer, with pictures. Proofs and further answers have a lane of their own."""
        key = question.key()
        if key in self.answers:
            self.answers.move_to_end(key)
            return self.answers[key]
        hard = question.limits.get("prove") or question.limits.get("n", 1) > 1

        def work(explainer: Explainer) -> Answer:
            frame = pd.DataFrame([dict(question.row)])
            e = explainer.explain(frame, **question.limits)[0]
            return Answer(e, svg_columns(e, e.backdrop()))

        answer = await (self.slow if hard else self.quick).run(work)
        self.answers[key] = answer
        while len(self.answers) > MOST_KEPT:
            self.answers.popitem(last=False)
        return answer

    def close(self) -> None:
        for lane in (self.quick, self.slow):
            lane.pool.shutdown(wait=False, cancel_futures=True)
