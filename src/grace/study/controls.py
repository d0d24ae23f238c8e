"""The inputs with which a participant adjusts a row: native ones, limited to what the feature may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.schema import Schema
from grace.text import sentence


@dataclass(frozen=True)
class Control:
    """One feature as an input: `kind` is number, choice (among `options`) or fixed."""

    key: str
    feature: Feature
    kind: str
    value: Value
    low: float = -math.inf
    high: float = math.inf
    options: tuple[Value, ...] = ()

    @property
    def label(self) -> str:
        return self.feature.name.replace("_", " ")

    @property
    def unit(self) -> str:
        return self.feature.unit if isinstance(self.feature, Numeric) else ""

    @property
    def shown(self) -> str:
        """The row's own value, as a person reads it."""
        return sentence.value(self.feature, self.value)

    @property
    def sent(self) -> str:
        """The row's own value, as the input holds it."""
        return _plain(self.value) if self.kind == "number" else str(self.options.index(self.value))

    @property
    def step(self) -> str:
        """Whole numbers in steps of 1; a browser would refuse other values that do not lie on a grid."""
        return "1" if isinstance(self.feature, Numeric) and self.feature.integer and _whole(self.value) else "any"

    @property
    def limits(self) -> tuple[str, str]:
        """The bounds as text; an open end is empty."""
        return "" if math.isinf(self.low) else _plain(self.low), "" if math.isinf(self.high) else _plain(self.high)

    @property
    def choices(self) -> list[tuple[str, str]]:
        assert isinstance(self.feature, Categorical)
        return [(str(i), self.feature.label(option)) for i, option in enumerate(self.options)]

    @property
    def allowed(self) -> str:
        """The bounds in words."""
        if self.kind == "fixed":
            return "This cannot be changed."
        ends = (self.low, self.high)
        low, high = (sentence.number(sentence.decimal(end)) if math.isfinite(end) else "" for end in ends)
        span = f"{low} to {high}" if low and high else f"{low} or more" if low else f"{high} or less" if high else "any"
        return f"{span}, whole numbers" if self.step == "1" else span

    def read(self, sent: str | None) -> Value:
        """The value that was sent, or a ValueError in words for the participant."""
        if self.kind == "fixed":
            return self.value
        if self.kind == "choice":
            if sent is None or not sent.isascii() or not sent.isdigit() or int(sent) >= len(self.options):
                raise ValueError(f"{self.label}: choose one of the values.")
            return self.options[int(sent)]
        try:
            number = float(sent or "")
        except ValueError:
            number = math.nan
        if number == self.value:
            return self.value
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise ValueError(f"{self.label}: enter a number ({self.allowed}).")
        if self.step == "1":
            if number != round(number):
                raise ValueError(f"{self.label}: enter a number ({self.allowed}).")
            return int(number)
        return number


def controls(schema: Schema, row: Mapping[str, Value]) -> list[Control]:
    """An input for each feature; the row's own value is always among what is allowed."""
    return [_control(f"f{j}", feature, row[feature.name]) for j, feature in enumerate(schema.features)]


def read(fields: Mapping[str, str], inputs: list[Control]) -> tuple[dict[str, Value], list[tuple[str, str]]]:
    """The adjusted row, and what is wrong with it as (input, words)."""
    row: dict[str, Value] = {}
    errors = []
    for control in inputs:
        try:
            row[control.feature.name] = control.read(fields.get(control.key))
        except ValueError as reason:
            errors.append((control.key, str(reason)))
    if not errors and all(row[c.feature.name] == c.value for c in inputs):
        first = next((c.key for c in inputs if c.kind != "fixed"), inputs[0].key)
        errors.append((first, "Change at least one value: as it is, the model says what it said before."))
    return row, errors


def _control(key: str, feature: Feature, value: Value) -> Control:
    if feature.fixed:
        return Control(key, feature, "fixed", value, options=(value,))
    if isinstance(feature, Categorical):
        options = tuple(c for c in feature.categories if c in feature.selectable or c == value)
        return Control(key, feature, "choice", value, options=options)
    own = float(value)
    low, high = feature.bounds
    low = own if feature.increase_only else min(low, own)
    high = own if feature.decrease_only else max(high, own)
    return Control(key, feature, "number", value, low, high)


def _whole(value: Value) -> bool:
    return float(value) == round(float(value))


def _plain(value: Value) -> str:
    """In digits, as an input of type number wants it."""
    return f"{sentence.decimal(value):f}"
