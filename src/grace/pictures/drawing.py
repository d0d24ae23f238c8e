"""Drawing primitives: a few kinds of marks in pixels, rendered alike as SVG and by matplotlib.

Colours are roles: `old` is the original class and value, `new` the class and value of the contrast. Shape, position and
text carry the same information as colour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from grace.schema.features import Floats
from grace.schema.formatting import cut_middle
from grace.schema.words import DEFAULT
from grace.text import languages, sentence

Point = tuple[float, float]

# Orange and blue of Okabe and Ito, adjusted to the contrast that small text needs
COLOURS = {
    "light": {"paper": "#ffffff", "ink": "#1b1f24", "soft": "#59636e", "line": "#d5dae0", "old": "#b84a00"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "soft": "#9198a1", "line": "#3d444d", "old": "#ff9d5c"},
}
COLOURS["light"]["new"], COLOURS["dark"]["new"] = "#0066a1", "#6cb6ff"

WIDE_LETTERS, NARROW_LETTERS = set("mwMW%@—…→"), set("iljtfrI.,:;'|!()[]{} -/\"")
XML_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str
    opacity: float = 1.0
    radius: float = 0.0


@dataclass(frozen=True, slots=True)
class Path:
    """Polylines, or closed polygons if there is a fill."""

    lines: Sequence[Sequence[Point]]
    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A circle, a diamond, or a triangle (`up`, `down`); hollow without fill."""

    x: float
    y: float
    size: float
    shape: str
    fill: str = ""
    stroke: str = ""
    width: float = 2.0


@dataclass(frozen=True, slots=True)
class PointCloud:
    """Many small round points of one colour."""

    positions: Sequence[Point]
    fill: str
    size: float
    opacity: float


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text at its baseline; `anchor` is start, middle or end, a halo keeps it readable on other marks."""

    x: float
    y: float
    text: str
    size: float = 12.0
    fill: str = "ink"
    anchor: str = "start"
    bold: bool = False
    halo: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Marks translated by (x, y)."""

    x: float
    y: float
    marks: Sequence[Mark]


Mark = Rect | Path | Dot | PointCloud | Text | Group


@dataclass(frozen=True)
class Drawing:
    """Marks on a canvas, with title and description as text alternative."""

    width: float
    height: float
    title: str
    description: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Axis:
    """A linear map from values to pixels."""

    start: float
    stop: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        return self.left + (value - self.start) / (self.stop - self.start) * (self.right - self.left)

    def all(self, values: Floats) -> list[float]:
        """Vectorised call."""
        positions = self.left + (values - self.start) / (self.stop - self.start) * (self.right - self.left)
        return [float(p) for p in positions.tolist()]


# -- composed marks ---------------------------------------------------------------------------


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = "line", width: float = 1.0) -> Path:
    return Path((((x1, y1), (x2, y2)),), stroke=stroke, width=width)


def old_marker(x: float, y: float, size: float = 5.0) -> Dot:
    """The marker of the old value: a hollow circle."""
    return Dot(x, y, size, "circle", "paper", "old", 2.2)


def new_marker(x: float, y: float, size: float = 6.5) -> Dot:
    """The marker of the new value: a filled diamond."""
    return Dot(x, y, size, "diamond", "new", "paper", 1.2)


def arrow(a: Point, b: Point, stroke: str = "ink", gap: float = 7.0, width: float = 1.6) -> list[Mark]:
    """An arrow between two markers that leaves `gap` pixels at both ends; empty if they are too near."""
    length = math.dist(a, b)
    if length < 2 * gap + 4:
        return []
    ux, uy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    tip = (b[0] - ux * gap, b[1] - uy * gap)
    base = (tip[0] - ux * 6, tip[1] - uy * 6)
    sides = [(base[0] - uy * 3.2 * s, base[1] + ux * 3.2 * s) for s in (1, -1)]
    shaft = line(a[0] + ux * gap, a[1] + uy * gap, *base, stroke=stroke, width=width)
    return [shaft, Path(((sides[0], tip, sides[1]),), fill=stroke)]


# -- text -------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text with characters that XML 1.0 forbids replaced."""
    return XML_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


@lru_cache(maxsize=4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Estimated width in pixels in a common sans-serif font, rather too wide."""
    ems = 0.0
    for letter in text:
        if letter in NARROW_LETTERS:
            ems += 0.34
        elif letter in WIDE_LETTERS:
            ems += 0.92
        elif ord(letter) > 0x2E80:  # Chinese, Japanese, Korean
            ems += 1.0
        else:
            ems += 0.71 if letter.isupper() else 0.57
    return ems * size * (1.06 if bold else 1.0)


def fit(text: str, width: float, size: float, bold: bool = False) -> str:
    """The text, cut in the middle to fit the width."""
    return cut_middle(text, lambda short: text_width(short, size, bold) <= width)


def wrap(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """The text in lines that fit the width."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fit(word, width, size, bold))
    return lines


def paragraph(
    text: str, y: float, width: float, size: float, fill: str = "ink", bold: bool = False
) -> tuple[list[Mark], float]:
    """Wrapped lines of text from `y` on, and the y below them."""
    lines = wrap(text, width, size, bold)
    step = size * 1.42
    marks: list[Mark] = [Text(0, y + size + i * step, s, size, fill, bold=bold) for i, s in enumerate(lines)]
    return marks, y + len(lines) * step


def percent(share: float) -> str:
    """A probability in percent; 0 % and 100 % only if exact."""
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 <= share < 1:
        return "> 99 %"
    return f"{share * 100:.0f} %"


def ticks(
    start: float, stop: float, max_n: int = 5, integer: bool = False, code: str = DEFAULT
) -> list[tuple[float, str]]:
    """Round tick values within a range, with their labels."""
    rough = (stop - start) / max(1, max_n)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    if integer:
        step = max(1.0, step)
    first, last = math.ceil(start / step - 1e-9), math.floor(stop / step + 1e-9)
    values = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
    return [(v, tick(v, code)) for v in values]


def tick(value: float, code: str = DEFAULT) -> str:
    """A tick label; 20k and 1.5M where that is shorter and exact."""
    words = languages.load(code).PICTURES
    for size, unit, word in ((1e9, 1e9, "billion"), (1e6, 1e6, "million"), (1e4, 1e3, "thousand")):
        if abs(value) >= size:
            short = f"{value / unit:.12g}"
            if len(short.lstrip("-")) <= 4:
                return sentence.number(Decimal(short), code) + words[word]
    return sentence.number(Decimal(f"{value:.12g}"), code)


def round_to_span(value: float, span: float) -> float:
    """The value rounded to about a thousandth of the span."""
    return round(value, max(0, -math.floor(math.log10(span / 500))))


T = TypeVar("T")


def thinned(items: Sequence[T], max_n: int) -> list[T]:
    """At most `max_n` of the items, evenly spaced."""
    if len(items) <= max_n:
        return list(items)
    return [items[i * len(items) // max_n] for i in range(max_n)]
