"""Form inputs with which a participant adjusts a row, limited to the features' domains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.schema import Schema
from grace.text import sentence


@dataclass(frozen=True)
class Control:
    """One feature as an input; `kind` is number, choice (among `options`) or fixed."""

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
    def display_value(self) -> str:
        """The current value for display."""
        return sentence.value(self.feature, self.value)

    @property
    def input_value(self) -> str:
        """The current value as the input holds it."""
        return _digits(self.value) if self.kind == "number" else str(self.options.index(self.value))

    @property
    def step(self) -> str:
        """1 for integers, else any: browsers reject values off the grid."""
        integer = isinstance(self.feature, Numeric) and self.feature.integer
        return "1" if integer and float(self.value).is_integer() else "any"

    @property
    def limits(self) -> tuple[str, str]:
        """The bounds as text; empty for an infinite one."""
        return "" if math.isinf(self.low) else _digits(self.low), "" if math.isinf(self.high) else _digits(self.high)

    @property
    def choices(self) -> list[tuple[str, str]]:
        assert isinstance(self.feature, Categorical)
        return [(str(i), self.feature.label(option)) for i, option in enumerate(self.options)]

    @property
    def allowed_text(self) -> str:
        """The bounds in words."""
        if self.kind == "fixed":
            return "This cannot be changed."
        ends = (self.low, self.high)
        low, high = (sentence.number(sentence.decimal(end)) if math.isfinite(end) else "" for end in ends)
        span = f"{low} to {high}" if low and high else f"{low} or more" if low else f"{high} or less" if high else "any"
        return f"{span}, whole numbers" if self.step == "1" else span

    def read(self, text: str | None) -> Value:
        """The submitted value; ValueError with a message for the participant if it is invalid."""
        if self.kind == "fixed":
            return self.value
        if self.kind == "choice":
            if text is None or not text.isascii() or not text.isdigit() or int(text) >= len(self.options):
                raise ValueError(f"{self.label}: choose one of the values.")
            return self.options[int(text)]
        try:
            number = float(text or "")
        except ValueError:
            number = math.nan
        if number == self.value:
            return self.value
        integer = self.step == "1"
        valid = math.isfinite(number) and self.low <= number <= self.high
        if not valid or (integer and not number.is_integer()):
            raise ValueError(f"{self.label}: enter a number ({self.allowed_text}).")
        return int(number) if integer else number


def controls(schema: Schema, row: Mapping[str, Value]) -> list[Control]:
    """An input per feature; the row's current value is always allowed."""
    return [_control(f"f{j}", feature, row[feature.name]) for j, feature in enumerate(schema.features)]


def read(fields: Mapping[str, str], inputs: list[Control]) -> tuple[dict[str, Value], list[tuple[str, str]]]:
    """The adjusted row, and errors as (input key, message)."""
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
    current = float(value)
    low, high = feature.bounds
    low = current if feature.increase_only else min(low, current)
    high = current if feature.decrease_only else max(high, current)
    return Control(key, feature, "number", value, low, high)


def _digits(value: Value) -> str:
    """The number without exponent, as inputs of type number require."""
    return f"{sentence.decimal(value):f}"
