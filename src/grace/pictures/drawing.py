"""What a picture is made of: a few kinds of marks in pixels, drawn alike by SVG and by matplotlib.

A colour is named by what it stands for: `old` is the class the model gave and the value as it is, `new` the
class and the value of the contrast. Shape, place and words say the same, so that nothing rests on colour alone.
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

# Orange and blue after Okabe and Ito, darkened (lightened) until small text in them is readable on the paper
COLOURS = {
    "light": {"paper": "#ffffff", "ink": "#1b1f24", "soft": "#59636e", "line": "#d5dae0", "old": "#b84a00"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "soft": "#9198a1", "line": "#3d444d", "old": "#ff9d5c"},
}
COLOURS["light"]["new"], COLOURS["dark"]["new"] = "#0066a1", "#6cb6ff"

WIDE, NARROW = set("mwMW%@—…→"), set("iljtfrI.,:;'|!()[]{} -/\"")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # by XML 1.0


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
    """One or more lines, or closed shapes if there is a fill."""

    lines: Sequence[Sequence[Point]]
    fill: str = ""
    stroke: str = ""
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """A circle, a diamond, or a triangle that points up or down; without fill it is hollow."""

    x: float
    y: float
    size: float
    shape: str
    fill: str = ""
    stroke: str = ""
    width: float = 2.0


@dataclass(frozen=True, slots=True)
class PointCloud:
    """Many small round points."""

    places: Sequence[Point]
    fill: str
    size: float
    opacity: float


@dataclass(frozen=True, slots=True)
class Text:
    """`anchor` is start, middle or end; a halo keeps it readable on top of other marks."""

    x: float
    y: float
    said: str
    size: float = 12.0
    fill: str = "ink"
    anchor: str = "start"
    bold: bool = False
    halo: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Marks moved to a place."""

    x: float
    y: float
    marks: Sequence[Mark]


Mark = Rect | Path | Dot | PointCloud | Text | Group


@dataclass(frozen=True)
class Drawing:
    """A picture of a size, with words for those who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Axis:
    """Values to pixels."""

    start: float
    stop: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        return self.left + (value - self.start) / (self.stop - self.start) * (self.right - self.left)

    def all(self, values: Floats) -> list[float]:
        """Many at once."""
        places = self.left + (values - self.start) / (self.stop - self.start) * (self.right - self.left)
        return [float(p) for p in places.tolist()]


# -- marks that recur -------------------------------------------------------------------------


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = "line", width: float = 1.0) -> Path:
    return Path((((x1, y1), (x2, y2)),), stroke=stroke, width=width)


def was(x: float, y: float, size: float = 5.0) -> Dot:
    """The mark of what is: a hollow circle."""
    return Dot(x, y, size, "circle", "paper", "old", 2.2)


def would_be(x: float, y: float, size: float = 6.5) -> Dot:
    """The mark of what would be: a filled diamond."""
    return Dot(x, y, size, "diamond", "new", "paper", 1.2)


def arrow(a: Point, b: Point, stroke: str = "ink", gap: float = 7.0, width: float = 1.6) -> list[Mark]:
    """From one mark to another, ending `gap` before them; nothing if they are too near."""
    length = math.dist(a, b)
    if length < 2 * gap + 4:
        return []
    ux, uy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    tip = (b[0] - ux * gap, b[1] - uy * gap)
    base = (tip[0] - ux * 6, tip[1] - uy * 6)
    sides = [(base[0] - uy * 3.2 * s, base[1] + ux * 3.2 * s) for s in (1, -1)]
    shaft = line(a[0] + ux * gap, a[1] + uy * gap, *base, stroke=stroke, width=width)
    return [shaft, Path(((sides[0], tip, sides[1]),), fill=stroke)]


# -- words ------------------------------------------------------------------------------------


def printable(said: str) -> str:
    """The text without characters that no picture may hold."""
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", said)


@lru_cache(maxsize=4096)
def text_width(said: str, size: float, bold: bool = False) -> float:
    """About as wide as a common sans-serif face would set it, rather wider."""
    ems = 0.0
    for letter in said:
        if letter in NARROW:
            ems += 0.34
        elif letter in WIDE:
            ems += 0.92
        elif ord(letter) > 0x2E80:  # Chinese, Japanese, Korean
            ems += 1.0
        else:
            ems += 0.71 if letter.isupper() else 0.57
    return ems * size * (1.06 if bold else 1.0)


def fit(said: str, width: float, size: float, bold: bool = False) -> str:
    """The text, cut in the middle to fit the width."""
    return cut_middle(said, lambda short: text_width(short, size, bold) <= width)


def wrap(said: str, width: float, size: float, bold: bool = False) -> list[str]:
    """The text in lines that fit the width."""
    lines: list[str] = []
    for word in said.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fit(word, width, size, bold))
    return lines


def paragraph(
    said: str, y: float, width: float, size: float, fill: str = "ink", bold: bool = False
) -> tuple[list[Mark], float]:
    """Lines of text from `y` on, and where they end."""
    lines = wrap(said, width, size, bold)
    step = size * 1.42
    marks: list[Mark] = [Text(0, y + size + i * step, s, size, fill, bold=bold) for i, s in enumerate(lines)]
    return marks, y + len(lines) * step


def percent(share: float) -> str:
    """97 %, and never 100 % or 0 % unless it is."""
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 <= share < 1:
        return "> 99 %"
    return f"{share * 100:.0f} %"


def ticks(
    start: float, stop: float, most: int = 5, whole: bool = False, code: str = DEFAULT
) -> list[tuple[float, str]]:
    """Round values within a range, and how to write them in a language."""
    rough = (stop - start) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(start / step - 1e-9), math.floor(stop / step + 1e-9)
    values = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
    return [(v, tick(v, code)) for v in values]


def tick(value: float, code: str = DEFAULT) -> str:
    """A number under an axis; 20k and 1.5M where that is shorter and exact."""
    words = languages.load(code).PICTURES
    for size, unit, word in ((1e9, 1e9, "billion"), (1e6, 1e6, "million"), (1e4, 1e3, "thousand")):
        if abs(value) >= size:
            short = f"{value / unit:.12g}"
            if len(short.lstrip("-")) <= 4:
                return sentence.number(Decimal(short), code) + words[word]
    return sentence.number(Decimal(f"{value:.12g}"), code)


def nearly(value: float, span: float) -> float:
    """The value to about a thousandth of what is shown."""
    return round(value, max(0, -math.floor(math.log10(span / 500))))


T = TypeVar("T")


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, evenly spaced."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]
