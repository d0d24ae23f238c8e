"""A feature as inputs: its value to move, and what limits its changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grace.pictures.numeric import value
from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.formatting import shortened
from grace.text import sentence
from grace.text.languages import load
from grace.web.rows import plainly, written

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.schema.schema import Schema
    from grace.web.state import State

STEPS = 100  # of a slider, about


@dataclass(frozen=True)
class Card:
    """One feature of the page; `would` is its value in the answer, if it differs there. A value of None is missing."""

    key: str
    feature: Feature
    label: str
    value: Value | None
    moved: Value | None
    would: Value | None
    would_said: str
    state: State
    code: str

    @property
    def name(self) -> str:
        return self.feature.name

    @property
    def short(self) -> str:
        """The label, cut in the middle where it is long."""
        return shortened(self.label)

    @property
    def numeric(self) -> bool:
        return isinstance(self.feature, Numeric)

    @property
    def now(self) -> str:
        """The moved value, as the input holds it."""
        return written(self.feature, self.moved)

    @property
    def own(self) -> str:
        return written(self.feature, self.value)

    @property
    def said(self) -> str:
        words = load(self.code).PAGE
        if self.value is None:
            return words["is_missing"]
        if isinstance(self.feature, Categorical):
            said = sentence.category(self.feature, self.value, self.code)
        else:
            said = sentence.value(self.feature, self.value, self.code, self.code)
        return words["is_filled" if self.name in self.state.filled else "is"].format(value=said)

    @property
    def kind(self) -> str:
        """The type of the input of a number."""
        held = (self.now, self.own, *self.ends)
        if not is_date(self.feature) or not all(map(_spelt, held)):
            return "number"
        return "date" if all(len(cell) in (0, 10) for cell in held) else "datetime-local"

    @property
    def fixed(self) -> bool:
        """Whether the schema itself forbids changes."""
        return self.feature.fixed

    @property
    def limited(self) -> bool:
        s = self.state
        return self.name in (*s.frozen, *s.up, *s.down, *s.low, *s.high, *s.never)

    @property
    def first(self) -> bool:
        """Whether it belongs to the top of the list."""
        return self.would is not None or self.moved != self.value or self.limited

    @property
    def slider(self) -> tuple[str, str, str] | None:
        """Least, most and step of the slider; it reaches every value in play. A date has none."""
        assert isinstance(self.feature, Numeric)
        if is_date(self.feature):
            return None
        ends = [float(v) for v in (self.value, self.moved, self.would) if v is not None]
        ends += [v for v in self.feature.bounds if math.isfinite(v)]
        low, high = min(ends), max(ends)
        if low == high or not math.isfinite(high - low):
            return None
        step = 1.0 if self.feature.integer else _nice((high - low) / STEPS)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        digits = max(0, -math.floor(math.log10(step)))
        return f"{low:.{digits}f}", f"{high:.{digits}f}", f"{step:.{digits}f}"

    @property
    def step(self) -> str:
        whole = isinstance(self.feature, Numeric) and self.feature.integer
        return "1" if whole and float(self.value or 0) == round(float(self.value or 0)) else "any"

    @property
    def bounds(self) -> tuple[str, str]:
        """The range that holds anyway, in words."""
        assert isinstance(self.feature, Numeric)
        number = date_text if is_date(self.feature) else lambda v: sentence.number(sentence.decimal(v), self.code)
        low, high = (number(v) if math.isfinite(v) else load(self.code).PAGE["any"] for v in self.feature.bounds)
        return low, high

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        """Categories: value, words, and whether a change may choose it."""
        assert isinstance(self.feature, Categorical)
        f = self.feature
        return [(plainly(c), sentence.category(f, c, self.code), c in f.selectable) for c in f.categories]

    @property
    def barred(self) -> set[str]:
        return {plainly(c) for c in self.state.never.get(self.name, ())}

    @property
    def ends(self) -> tuple[str, str]:
        """One's own range, as the inputs hold it."""
        low, high = (written(self.feature, end.get(self.name)) for end in (self.state.low, self.state.high))
        return low, high


def cards(schema: Schema, state: State, e: Explanation | None) -> list[Card]:
    """A card for each feature, in the order and the language of the schema."""
    new = {} if e is None else {c.name: c.new for c in (*e.changes, *e.follow_on)}
    said = {} if e is None else would_be(e)
    now = state.now
    code = schema.language
    return [
        Card(
            f"f{j}",
            f,
            sentence.heading(f, schema),
            state.row[f.name],
            now[f.name],
            new.get(f.name),
            said.get(f.name, ""),
            state,
            code,
        )
        for j, f in enumerate(schema.features)
    ]


def would_be(e: Explanation) -> dict[str, str]:
    """What each feature of the answer would be, in words; what moves along is a consequence."""
    words = load(e.words.language).PAGE
    changed = {c.name: words["would_be"].format(value=value(e, c, c.new)) for c in e.changes}
    return changed | {c.name: words["would_then_be"].format(value=value(e, c, c.new)) for c in e.follow_on}


def _spelt(cell: str) -> bool:
    """Whether a date, as an input holds it, is spelt as one and not as a number of days; an empty one may be."""
    return "-" in cell[1:] or not cell


def _nice(step: float) -> float:
    """1, 2 or 5 times a power of ten, at least as large."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= step * (1 - 1e-9))
