"""A predicted number: before and after, and what was asked for; alone, and along a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace.pictures.backdrop import Curve
from grace.pictures.drawing import Axis, Drawing, Mark, Path, Rect, Text, arrow, line, text_width, ticks, was, would_be
from grace.text import languages
from grace.text.regression_text import Range, predicted

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation

ROOM = 0.08  # beyond the outermost number, as a share of all that is shown
WORDS = 0.14  # beyond that, for words above a curve
HEIGHT = 18.0


def figures(e: Explanation) -> tuple[str, str]:
    """The numbers before and after, as people say them."""
    assert e.wanted is not None
    language = languages.load(e.words.language)
    before, after = (predicted(end[0], e.wanted, language) for end in (e.before, e.after))
    return before, after


def span(values: tuple[float, ...], wanted: Range, above: float = 0.0) -> tuple[float, float]:
    """From where to where numbers are shown: all of them, and the limits that were asked for; `above` is more room."""
    shown = [*values, *(end for end in (wanted["low"], wanted["high"]) if end is not None)]
    low, high = min(shown), max(shown)
    room = ROOM * (high - low) or abs(high) * ROOM or 1.0
    return low - room, high + room + above * (high - low)


def zone(axis: Axis, wanted: Range) -> tuple[float, float]:
    """Where on an axis the numbers lie that were asked for, in pixels."""
    ends = sorted((axis.left, axis.right))
    low = axis.left if wanted["low"] is None else axis(wanted["low"])
    high = axis.right if wanted["high"] is None else axis(wanted["high"])
    a, b = sorted((low, high))
    return max(a, ends[0]), min(b, ends[1])


def predicted_panel(e: Explanation, width: float) -> Drawing:
    """The number before and after on a line, with what was asked for."""
    assert e.wanted is not None
    before, after = figures(e)
    said = f"{before} → {after}" if e.success else before
    words = languages.load(e.words.language).PICTURES
    marks: list[Mark] = [Text(0, 15, words["predicts"], 13, bold=True)]
    right = width - 8
    beside = text_width(said, 13, bold=True) + text_width(words["predicts"], 13, bold=True) + 14 < width
    marks.append(
        Text(width if beside else 0, 15 if beside else 33, said, 13, "new", "end" if beside else "start", True)
    )
    middle = (15 if beside else 33) + 22.0
    ends = (*e.before, *e.after) if e.success else e.before
    axis = Axis(*span(ends, e.wanted), 8, right)
    a, b = zone(axis, e.wanted)
    marks.append(Rect(a, middle - HEIGHT / 2, b - a, HEIGHT, "new", 0.18))
    marks.append(line(axis.left, middle, axis.right, middle, width=4))
    if e.success:
        marks += arrow((axis(e.before[0]), middle), (axis(e.after[0]), middle), "new")
        marks.append(would_be(axis(e.after[0]), middle))
    marks.append(was(axis(e.before[0]), middle))
    y = middle + 14
    for value, word in ticks(axis.start, axis.stop, max(2, int(width // 80)), code=e.words.language):
        marks += [line(axis(value), y - 2, axis(value), y + 2), Text(axis(value), y + 14, word, 11, "soft", "middle")]
    marks.append(Rect(0, y + 24, 10, 10, "new", 0.18))
    marks.append(Text(15, y + 33, words["asked_for"], 11, "soft"))
    return Drawing(width, y + 40, words["predicts"], words["predicted"].format(numbers=said), tuple(marks))


def number_curve(e: Explanation, curve: Curve, axis: Axis, top: float, height: float) -> tuple[list[Mark], Axis]:
    """The predicted number along a feature over what was asked for, and the axis upwards."""
    assert e.wanted is not None
    up = Axis(*span((*curve.original, *e.before, *e.after), e.wanted, WORDS), top + height, top)
    a, b = zone(up, e.wanted)
    marks: list[Mark] = [Rect(axis.left, a, axis.right - axis.left, b - a, "new", 0.12)]
    for value, word in ticks(up.start, up.stop, 3, code=e.words.language):
        marks.append(line(axis.left, up(value), axis.right, up(value)))
        marks.append(Text(axis.right - 2, up(value) - 3, word, 10, "soft", "end", halo=True))
    trace = tuple((axis(v), up(s)) for v, s in zip(curve.values, curve.original, strict=True))
    return [*marks, Path((trace,), stroke="ink", width=2)], up
