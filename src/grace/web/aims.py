"""What a predicted number should have been: as text in an address, as inputs of the form, and as `target_range`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grace.errors import GraceError
from grace.problem.target_range import target_range_of
from grace.schema.formatting import decimal

USUAL_AIM = "by +10 %"
KINDS = ("by_more_share", "by_less_share", "by_more", "by_less", "above", "below", "within")


@dataclass(frozen=True)
class Aim:
    """One of KINDS with its number; `within` has an upper one too."""

    kind: str
    number: float
    upper: float | None = None

    @property
    def text(self) -> str:
        """As `target_range_of` reads it."""
        number = f"{decimal(self.number):f}"
        if self.kind == "within":
            return f"within {number} {decimal(self.upper or 0.0):f}"
        if self.kind in ("above", "below"):
            return f"{self.kind} {number}"
        sign = "+" if self.kind.startswith("by_more") else "-"
        return f"by {sign}{number}{' %' if self.kind.endswith('_share') else ''}"


def read_aim(said: str) -> Aim:
    """The aim that a text says."""
    wanted = target_range_of(said)
    ends = [end for end in (wanted.low, wanted.high) if math.isfinite(end)]
    if not ends:
        raise GraceError(NO_NUMBER, number=said)
    if not wanted.of_row:
        if len(ends) == 2:
            return Aim("within", wanted.low, wanted.high)
        return Aim("above" if math.isfinite(wanted.low) else "below", ends[0])
    size = float(f"{abs(ends[0]) * (100 if wanted.share else 1):.12g}")
    return Aim(f"by_{'more' if ends[0] > 0 else 'less'}{'_share' if wanted.share else ''}", size)


def aim_of(kind: str, number: str, upper: str) -> Aim:
    """The aim that the inputs of the form say; checked like a text."""
    if kind not in KINDS:
        raise GraceError("{key}={said!r} is unknown; use one of {known}", key="aim", said=kind, known=KINDS)
    low = _number(number)
    return read_aim(Aim(kind, low, _number(upper) if kind == "within" else None).text)


def _number(said: str) -> float:
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise GraceError(NO_NUMBER, number=said)
    return number


NO_NUMBER = "{number!r} is not what a number should have been; write it like 1.5"
