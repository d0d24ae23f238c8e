"""What a prediction that is a number should have been: `against=grace.above(200_000)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from grace.errors import GraceError
from grace.schema.features import Floats


@dataclass(frozen=True)
class TargetRange:
    """At least `low` and at most `high`; `of_row` adds both to the row's own prediction, `share` as a part of it."""

    low: float = -np.inf
    high: float = np.inf
    of_row: bool = False
    share: bool = False

    def range(self, predicted: Floats, spread: float) -> tuple[Floats, Floats]:
        """The lowest and the highest number that will do, for each prediction. What depends on it is rounded, never to
        its advantage, to a thousandth of the spread, so that a person can say it."""
        base = predicted if self.of_row else np.zeros(len(predicted))
        unit = np.abs(predicted) if self.share else np.ones(len(predicted))
        if self.share and (unit == 0).any():
            row = int((unit == 0).argmax())
            raise GraceError("row {row}: a share of a prediction of 0 is 0; use by(a number)", row=row)
        low, high = base + self.low * unit, base + self.high * unit
        if not self.of_row:
            return low, high
        digits = -int(np.floor(np.log10(spread / 1000)))
        return _rounded(low, digits, np.ceil), _rounded(high, digits, np.floor)


def _rounded(values: Floats, digits: int, way: Callable[[Floats], Floats]) -> Floats:
    step = 10.0 ** abs(digits)
    return np.asarray(way(values * step) / step if digits >= 0 else way(values / step) * step)


def above(low: float) -> TargetRange:
    """At least this number."""
    return TargetRange(low=_number("above", low))


def below(high: float) -> TargetRange:
    """At most this number."""
    return TargetRange(high=_number("below", high))


def within(low: float, high: float) -> TargetRange:
    """Between two numbers."""
    low, high = _number("within", low), _number("within", high)
    if low > high:
        raise GraceError("within({low:g}, {high:g}): the first number lies above the second", low=low, high=high)
    return TargetRange(low=low, high=high)


def by(difference: float | str) -> TargetRange:
    """More than what was predicted, or less: `by(-3)`, or `by("+10 %")` for a part of it."""
    share = isinstance(difference, str)
    if isinstance(difference, str):
        found = re.fullmatch(r"\s*([+\-\N{MINUS SIGN}]?)\s*(\d+(?:\.\d+)?)\s*%\s*", difference)
        if found is None:
            message = 'by({difference!r}): say by how much as a number, or as a share such as "+10 %"'
            raise GraceError(message, difference=difference)
        size = float(found[2]) / 100 * (-1 if found[1] in ("-", "\N{MINUS SIGN}") else 1)
    else:
        size = _number("by", difference)
    if size == 0:
        raise GraceError("by({difference!r}): a difference of 0 is none", difference=difference)
    return (
        TargetRange(low=size, of_row=True, share=share)
        if size > 0
        else TargetRange(high=size, of_row=True, share=share)
    )


def target_range_of(said: str) -> TargetRange:
    """What was typed: "above 10", "below 10", "within 5 10", "by -3" or "by +10 %"."""
    name, _, rest = said.strip().partition(" ")
    try:
        if name in ("above", "below"):
            return {"above": above, "below": below}[name](float(rest))
        if name == "within":
            low, high = rest.split()
            return within(float(low), float(high))
        if name == "by":
            return by(rest if "%" in rest else float(rest))
    except GraceError:
        raise
    except ValueError:
        pass
    raise GraceError(
        "{said!r}: say what the number should have been: above 10, below 10, within 5 10, by -3, by +10 %", said=said
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or np.isnan(value):
        raise GraceError("{name}({value!r}): it must be a number", name=name, value=value)
    return float(value)
