"""How much memory may be used: the budget as people write it, and the number of rows that fit into it at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.schema.parsing import shown

if TYPE_CHECKING:
    import torch

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
USUAL = 10**9  # where no budget is given
SHARE = 4  # a GPU gives one part in so many of its memory
LEAST = 64 * 10**6  # below this, not even a single row of a wide table is sure to fit
FIXED = 24 * 10**6  # what a call takes however few its rows
CELL = 8  # bytes of a number
WIDER = 16  # what a GPU takes in one step, beside a core
MORE_ROWS = 64  # and the rows that keep it busy, step after step


@dataclass(frozen=True)
class Cost:
    """The numbers that a method holds per row at its peak, by what they come from, measured on the embedded tables and
    rounded up. Beyond `most` rows at a time it gets no faster."""

    most: int
    coordinate: float = 0
    slope: float = 0  # per coordinate and class
    move: float = 0  # per value that is tried
    known: float = 0  # per background row
    known_score: float = 0  # per background row and class
    near: float = 0  # per coordinate of each neighbour


COSTS = {
    "search": Cost(2048, coordinate=40, move=20, known=5),
    "gradient": Cost(16384, coordinate=110),
    "local": Cost(4096, coordinate=110, known=5, near=5),
    "nearest": Cost(512, coordinate=10, known=14, known_score=3),
    "deepfool": Cost(16384, coordinate=20, slope=8),
}
MOST_TRIED = 4 * 10**6  # values of all rows at a time: larger arrays are asked of the system anew for every step
LAYERS = 6  # numbers per unit of a network's layers
SUBSETS = 3  # numbers per feature and subset of changes beyond those of five


@dataclass(frozen=True)
class Size:
    """What the memory of a question depends on."""

    features: int
    coordinates: int
    classes: int
    moves: int
    units: int
    background: int


def bytes_of(said: Any) -> int:
    """A number of bytes, from a whole number or from text such as "500MB", "1.5 GB" or "2GiB"."""
    if isinstance(said, bool) or not isinstance(said, int | str):
        raise GraceError(f"memory={shown(said)}: give bytes as a whole number, or text such as '500MB' or '2GiB'")
    text = said if isinstance(said, str) else str(said) if abs(said) < 2**63 else ""
    found = re.fullmatch(r"\s*(\d{1,19}(?:\.\d{1,19})?)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in UNITS:
        raise GraceError(f"memory={shown(said)} is not a size; write it as '500MB', '1.5GB' or '2GiB'")
    size = round(float(found[1]) * UNITS[found[2]])
    if size < LEAST:
        raise GraceError(f"memory={said!r} is too little; give at least {said_bytes(LEAST)}")
    return size


def at_once(size: int, device: torch.device) -> int:
    """How much to work on in one step, of so much as suits the caches of a core."""
    return size * WIDER if device.type == "cuda" else size


def said_bytes(size: int) -> str:
    """Bytes as people write them."""
    unit = "GB" if size >= 10**9 else "MB"
    return f"{size / UNITS[unit.lower()]:.3g} {unit}"


def row_bytes(method: str, size: Size, max_features: int, neighbours: int) -> int:
    """What one row takes at the peak."""
    cost = COSTS[method]
    numbers = size.coordinates * (cost.coordinate + cost.slope * size.classes) + cost.move * size.moves
    numbers += size.background * (cost.known + cost.known_score * size.classes)
    numbers += cost.near * neighbours * max(2, size.classes) * size.coordinates
    numbers += LAYERS * size.units + SUBSETS * size.features * max(0, (1 << min(max_features, 10)) - 32)
    return round(CELL * numbers)


def usual(device: torch.device) -> int:
    """What is used where no budget is given."""
    if device.type != "cuda":
        return USUAL
    import torch

    return torch.cuda.get_device_properties(device).total_memory // SHARE


def rows_within(memory: int, device: torch.device, method: str, size: Size, max_features: int, neighbours: int) -> int:
    """How many rows may be worked on at a time; at least one. No `memory` (0) is what is usual for the device, and a
    GPU takes many more rows at a time before it gets no faster."""
    budget = memory or usual(device)
    cost = COSTS[method]
    most = cost.most * MORE_ROWS if device.type == "cuda" else cost.most
    if cost.move and device.type == "cpu":
        most = min(most, MOST_TRIED // max(1, size.moves))
    fit: int = (budget - FIXED) // max(1, row_bytes(method, size, max_features, neighbours))
    return max(1, min(most, fit))
