"""Numbers as a person writes them: the shortest decimal, in plain digits."""

from __future__ import annotations

from decimal import Decimal

from grace.features import Value

MINUS = "\N{MINUS SIGN}"
THOUSANDS = 10_000  # numbers from here on are grouped by three digits


def decimal(cell: Value) -> Decimal:
    """The shortest decimal number that stands for the cell."""
    return Decimal(repr(float(cell))).normalize()


def places(size: Decimal) -> int:
    """Decimals needed to write the number."""
    exponent = size.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def digits(size: Decimal, group: str, point: str) -> str:
    """In plain digits, never 1e-05, with a language's own marks."""
    plain = f"{size.normalize():,f}" if abs(size) >= THOUSANDS else f"{size.normalize():f}"
    return plain.translate({ord(","): group, ord("."): point, ord("-"): MINUS})
