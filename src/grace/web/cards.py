"""A feature as form inputs: its value, and the limits on its changes."""

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
from grace.web.rows import format_cell, format_value

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.schema.schema import Schema
    from grace.web.state import State

STEPS = 100  # approximate number of slider steps


@dataclass(frozen=True)
class Card:
    """One feature of the form; `would` is its value in the answer, if it differs there. None is a missing value."""

    key: str
    feature: Feature
    label: str
    would: Value | None
    would_text: str
    state: State
    code: str

    @property
    def name(self) -> str:
        return self.feature.name

    @property
    def value(self) -> Value | None:
        return self.state.row[self.name]

    @property
    def moved(self) -> Value | None:
        return self.state.moved.get(self.name, self.value)

    @property
    def short(self) -> str:
        """The label, shortened in the middle."""
        return shortened(self.label)

    @property
    def numeric(self) -> bool:
        return isinstance(self.feature, Numeric)

    @property
    def now(self) -> str:
        """The changed value, as the input holds it."""
        return format_cell(self.feature, self.moved)

    @property
    def original(self) -> str:
        return format_cell(self.feature, self.value)

    @property
    def value_text(self) -> str:
        words = load(self.code).PAGE
        if self.value is None:
            return words["is_missing"]
        if isinstance(self.feature, Categorical):
            value_text = sentence.category(self.feature, self.value, self.code)
        else:
            value_text = sentence.value(self.feature, self.value, self.code, self.code)
        return words["is_filled" if self.name in self.state.filled else "is"].format(value=value_text)

    @property
    def kind(self) -> str:
        """The type of the input of a number."""
        held = (self.now, self.original, *self.ends)
        if not is_date(self.feature) or not all(map(_is_spelled_out, held)):
            return "number"
        return "date" if all(len(cell) in (0, 10) for cell in held) else "datetime-local"

    @property
    def limited(self) -> bool:
        s = self.state
        return self.name in (*s.frozen, *s.up, *s.down, *s.low, *s.high, *s.never)

    @property
    def first(self) -> bool:
        """Whether it is listed first: changed, in the answer, or limited."""
        return self.would is not None or self.moved != self.value or self.limited

    @property
    def slider(self) -> tuple[str, str, str] | None:
        """Minimum, maximum and step of the slider, which covers all values in use; None for dates."""
        assert isinstance(self.feature, Numeric)
        if is_date(self.feature):
            return None
        ends = [float(v) for v in (self.value, self.moved, self.would) if v is not None]
        ends += [v for v in self.feature.bounds if math.isfinite(v)]
        low, high = min(ends), max(ends)
        if low == high or not math.isfinite(high - low):
            return None
        step = 1.0 if self.feature.integer else _round_step((high - low) / STEPS)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
        digits = max(0, -math.floor(math.log10(step)))
        return f"{low:.{digits}f}", f"{high:.{digits}f}", f"{step:.{digits}f}"

    @property
    def step(self) -> str:
        whole = isinstance(self.feature, Numeric) and self.feature.integer
        return "1" if whole and float(self.value or 0) == round(float(self.value or 0)) else "any"

    @property
    def bounds(self) -> tuple[str, str]:
        """The schema's range as text."""
        assert isinstance(self.feature, Numeric)
        number = date_text if is_date(self.feature) else lambda v: sentence.number(sentence.decimal(v), self.code)
        low, high = (number(v) if math.isfinite(v) else load(self.code).PAGE["any"] for v in self.feature.bounds)
        return low, high

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        """Categories as (value, label, whether a change may choose it)."""
        assert isinstance(self.feature, Categorical)
        f = self.feature
        return [(format_value(c), sentence.category(f, c, self.code), c in f.selectable) for c in f.categories]

    @property
    def excluded(self) -> set[str]:
        return {format_value(c) for c in self.state.never.get(self.name, ())}

    @property
    def ends(self) -> tuple[str, str]:
        """The user's own range, as the inputs hold it."""
        low, high = (format_cell(self.feature, end.get(self.name)) for end in (self.state.low, self.state.high))
        return low, high


def cards(schema: Schema, state: State, e: Explanation | None) -> list[Card]:
    """A card per feature, in the order and language of the schema."""
    new = {} if e is None else {c.name: c.new for c in (*e.changes, *e.follow_on)}
    texts, code = {} if e is None else would_be(e), schema.language
    return [
        Card(f"f{j}", f, sentence.heading(f, schema), new.get(f.name), texts.get(f.name, ""), state, code)
        for j, f in enumerate(schema.features)
    ]


def would_be(e: Explanation) -> dict[str, str]:
    """The new value of each changed feature as text; dependent changes have another wording."""
    words = load(e.words.language).PAGE
    changed = {c.name: words["would_be"].format(value=value(e, c, c.new)) for c in e.changes}
    return changed | {c.name: words["would_then_be"].format(value=value(e, c, c.new)) for c in e.follow_on}


def _is_spelled_out(cell: str) -> bool:
    """Whether a date is in ISO format rather than a number of days, or empty."""
    return "-" in cell[1:] or not cell


def _round_step(step: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= step * (1 - 1e-9))
