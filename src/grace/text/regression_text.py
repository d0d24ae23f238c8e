"""How a predicted number is said, and what it should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING

import numpy as np

from grace.schema.features import Floats
from grace.schema.numerals import decimal
from grace.text.languages import Language

if TYPE_CHECKING:
    from grace.problem.target_range import TargetRange

MOST_DIGITS = 17

Range = Mapping[str, float | None]
"""What was asked for: "low" and "high", None where there is no limit, and the "spread" of predictions."""


def ranges(against: TargetRange | Sequence[TargetRange], predicted: Floats, spread: float) -> list[Range]:
    """What was asked for, row by row."""
    many = list(against) if isinstance(against, Sequence) else [against] * len(predicted)
    ends = [w.range(predicted[[i]], spread) for i, w in enumerate(many)]
    return [{"low": _finite(low[0]), "high": _finite(high[0]), "spread": spread} for low, high in ends]


def _finite(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def reached(scores: Floats, asked: Range) -> Floats:
    """How far inside what was asked for predictions lie."""
    low, high = (-np.inf if asked["low"] is None else asked["low"], np.inf if asked["high"] is None else asked["high"])
    return np.minimum(scores - low, high - scores)


def asked_for(asked: Range, language: Language) -> str:
    """ "at least 200,000"."""
    low, high = (None if end is None else decimal(end) for end in (asked["low"], asked["high"]))
    return language.figure(low, high, about=False)


def predicted(value: float, asked: Range, language: Language) -> str:
    """ "about 149,990": to a thousandth of the spread, more precisely only where that would contradict."""
    exact = decimal(value)
    place = int(np.floor(np.log10((asked["spread"] or 1.0) / 1000)))
    inside = bool(reached(np.array([value]), asked)[0] >= 0)
    for more in range(MOST_DIGITS):
        said = exact.quantize(Decimal(1).scaleb(place - more), ROUND_HALF_EVEN)
        if bool(reached(np.array([float(said)]), asked)[0] >= 0) == inside:
            return language.figure(said, said, about=said != exact)
    return language.figure(exact, exact, about=False)
