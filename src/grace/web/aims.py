"""The target of a predicted number: as text in a URL, as form inputs, and as `target_range`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grace.errors import GraceError
from grace.problem.target_range import target_range_of
from grace.schema.formatting import decimal

DEFAULT_AIM = "by +10 %"
KINDS = ("by_more_share", "by_less_share", "by_more", "by_less", "above", "below", "within")


@dataclass(frozen=True)
class Aim:
    """A kind of KINDS with its number; `within` has an upper one too."""

    kind: str
    number: float
    upper: float | None = None

    @property
    def text(self) -> str:
        """The text that `target_range_of` reads."""
        number = f"{decimal(self.number):f}"
        if self.kind == "within":
            return f"within {number} {decimal(self.upper or 0.0):f}"
        if self.kind in ("above", "below"):
            return f"{self.kind} {number}"
        sign = "+" if self.kind.startswith("by_more") else "-"
        return f"by {sign}{number}{' %' if self.kind.endswith('_share') else ''}"


def read_aim(text: str) -> Aim:
    """The aim of a text."""
    target = target_range_of(text)
    ends = [end for end in (target.low, target.high) if math.isfinite(end)]
    if not ends:
        raise GraceError(NO_NUMBER, number=text)
    if not target.of_row:
        if len(ends) == 2:
            return Aim("within", target.low, target.high)
        return Aim("above" if math.isfinite(target.low) else "below", ends[0])
    size = float(f"{abs(ends[0]) * (100 if target.share else 1):.12g}")
    return Aim(f"by_{'more' if ends[0] > 0 else 'less'}{'_share' if target.share else ''}", size)


def aim_of(kind: str, number: str, upper: str) -> Aim:
    """The aim of the form's inputs, validated like a text."""
    if kind not in KINDS:
        raise GraceError("{key}={said!r} is unknown; use one of {known}", key="aim", said=kind, known=KINDS)
    low = _number(number)
    return read_aim(Aim(kind, low, _number(upper) if kind == "within" else None).text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise GraceError(NO_NUMBER, number=text)
    return number


NO_NUMBER = "{number!r} is not what a number should have been; write it like 1.5"
