"""A changed number: old and new on its range, training rows of both classes behind, and the model along it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from grace.pictures.backdrop import Backdrop, Curve, Histogram
from grace.pictures.drawing import (
    Axis,
    Drawing,
    Mark,
    Path,
    Point,
    Rect,
    Text,
    arrow,
    fit,
    line,
    nearly,
    percent,
    text_width,
    tick,
    ticks,
    was,
    would_be,
    wrap,
)
from grace.pictures.probabilities import cutoff_line, figures, number_curve
from grace.schema.columns import date_text, is_date
from grace.schema.features import Numeric, Value
from grace.text import languages, sentence
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation

EDGE = 8.0  # keeps marks at the ends of a range inside the picture
BARS = 34.0  # height of the tallest bar
CURVE = 132.0
ARROW = 24.0
ROW = 20.0  # height of a row of words
SCALE = 44.0  # width of the words of a scale
CURVES = ("old", "new", "soft", "ink")
TINT = 0.3
ROLES = {"original": "old", "contrast": "new", "other": "soft"}


def label(e: Explanation, change: Change) -> str:
    """What to call a feature above its picture."""
    return sentence.heading(change.feature, e.words)


def value(e: Explanation, change: Change, cell: Value) -> str:
    """A cell of a changed feature."""
    return sentence.value(change.feature, cell, e.words.language, e.words.language)


def shortly(e: Explanation, change: Change) -> tuple[str, str]:
    """Old and new value; the unit is said once."""
    feature = change.feature
    if isinstance(feature, Numeric) and not is_date(feature):
        return sentence.number(sentence.decimal(change.old), e.words.language), value(e, change, change.new)
    return value(e, change, change.old), value(e, change, change.new)


def titled(e: Explanation, change: Change) -> tuple[str, str]:
    """Title and description of a changed feature's picture."""
    words = languages.load(e.words.language).PICTURES
    old, new = value(e, change, change.old), value(e, change, change.new)
    title, described = (
        words[part].format(feature=label(e, change), old=old, new=new) for part in ("change", "change_described")
    )
    return title, described


def heading(said: str, old: str, new: str, width: float) -> tuple[list[Mark], float]:
    """The feature's name and "○ 10 → ◆ 1", beside each other if there is room; and where they end."""
    lines = wrap(said, width, 13, bold=True)
    lines = lines[:1] + ([fit(" ".join(lines[1:]), width, 13, bold=True)] if lines[1:] else [])
    marks: list[Mark] = [Text(0, 15 + 17 * i, part, 13, bold=True) for i, part in enumerate(lines)]
    below = 18 + 17.0 * len(lines)  # where the values stand if not beside the name
    before, after = text_width(old, 13), text_width(new, 13, bold=True)
    values = 14 + before + ARROW + 16 + after
    if values > width:  # one below the other
        marks += [was(5, below - 4.5, 4), Text(16, below, fit(old, width - 16, 13), 13, "old")]
        below += 20
        marks += [would_be(5, below - 4.5, 5.5), Text(16, below, fit(new, width - 16, 13, True), 13, "new", bold=True)]
        return marks, below + 7
    beside = text_width(said, 13, bold=True) + values + 18 <= width
    x, y = (width - values, 15.0) if beside else (0.0, below)
    marks += [was(x + 5, y - 4.5, 4), Text(x + 14, y, old, 13, "old")]
    x += 14 + before
    marks += arrow((x, y - 4.5), (x + ARROW, y - 4.5), "soft", gap=3, width=1.2)
    x += ARROW
    marks += [would_be(x + 7, y - 4.5, 5.5), Text(x + 16, y, new, 13, "new", bold=True)]
    return marks, y + 7


def numeric_panel(e: Explanation, change: Change, backdrop: Backdrop | None, width: float) -> Drawing:
    """One changed number."""
    feature = change.feature
    assert isinstance(feature, Numeric)
    histogram = backdrop.histograms.get(change.name) if backdrop else None
    curve = backdrop.curves.get(change.name) if backdrop else None
    axis = axis_of(feature, change, histogram, width)
    marks, y = heading(label(e, change), *shortly(e, change), width)
    if curve is not None and curve.contrast and e.sure and len(e.changes) == 1:
        drawn, high = response(e, change, curve, axis, y + 6, width)
        marks += drawn
        y += high
    middle = y + (BARS + 10 if histogram else 14)
    if histogram:
        marks += bars(e, histogram, axis, middle, width)
    marks += decision_line(curve, axis, middle)
    a, b = axis(float(change.old)), axis(float(change.new))
    marks += [*arrow((a, middle), (b, middle), width=1.2), was(a, middle), would_be(b, middle)]
    y = middle + (BARS + 10 if histogram else 12)
    marks += scale(feature, axis, y, e.words.language)
    return Drawing(width, y + 20, *titled(e, change), tuple(marks))


def axis_of(feature: Numeric, change: Change, histogram: Histogram | None, width: float) -> Axis:
    """From the start to the end of what is shown."""
    low, high = feature.bounds
    ends = [v for v in (low, high, float(change.old), float(change.new)) if abs(v) != float("inf")]
    half = 0.5 if feature.integer else 0.0
    start, stop = min(ends) - half, max(ends) + half
    if histogram:
        start, stop = histogram.edges[0], histogram.edges[-1]
    return Axis(start, stop if stop > start else start + 1, EDGE, width - EDGE)


def scale(feature: Numeric, axis: Axis, y: float, code: str) -> list[Mark]:
    """Round values under the picture."""
    marks: list[Mark] = []
    most = max(2, int((axis.right - axis.left) // 60))
    date = is_date(feature)
    shown = max(2, most * 2 // 3) if date else most
    for place, said in ticks(axis.start, axis.stop, shown, whole=bool(feature.integer), code=code):
        said = date_text(place) if date else said
        half = text_width(said, 11) / 2
        x = axis(place)
        marks += [
            line(x, y - 2, x, y + 2),
            Text(min(max(x, half), axis.right + EDGE - half), y + 14, said, 11, "soft", "middle"),
        ]
    return marks


def bars(e: Explanation, histogram: Histogram, axis: Axis, middle: float, width: float) -> list[Mark]:
    """The training rows of the original class upwards, those of the contrast class downwards. Heights grow
    with the root of the share of the class, so that a spike does not hide the rest."""
    marks: list[Mark] = []
    sides = ((e.original_class, histogram.original, -1, "old"), (e.contrast_class, histogram.contrast, 1, "new"))
    shares = [[(c / max(1, sum(counts))) ** 0.5 for c in counts] for _, counts, _, _ in sides]
    top = max(max(s) for s in shares) or 1.0
    otherwise = languages.load(e.words.language).PICTURES["otherwise"]
    for (of, _, up, role), heights in zip(sides, shares, strict=True):
        assert of is not None
        for k, height in enumerate(heights):
            if height:
                x1, x2 = axis(histogram.edges[k]), axis(histogram.edges[k + 1])
                tall = max(1.0, height / top * BARS)
                y = middle - 3 - tall if up < 0 else middle + 3
                gap = 1.0 if x2 - x1 > 4 else 0.3
                marks.append(Rect(x1 + gap / 2, y, x2 - x1 - gap, tall, role, TINT))
        word = otherwise if e.wanted is not None and up < 0 else fit(class_caption(e.words, of), width * 0.6, 11)
        marks.append(emptier_corner(word, heights, axis, middle + up * (BARS - 3) + (4 if up < 0 else 6), role))
    return marks


def emptier_corner(word: str, heights: list[float], axis: Axis, y: float, role: str) -> Text:
    """The class's name at that end of its bars where they are lower."""
    reach = max(1, round(text_width(word, 11) / (axis.right - axis.left) * len(heights)))
    at_end = max(heights[-reach:]) < max(heights[:reach])
    return Text(axis.right if at_end else axis.left, y, word, 11, role, "end" if at_end else "start", halo=True)


def decision_line(curve: Curve | None, axis: Axis, y: float) -> list[Mark]:
    """The range as a line, in the colour of what the model says there once the other changes are made."""
    if curve is None:
        return [line(axis.left, y, axis.right, y, width=4)]
    marks: list[Mark] = [Rect(a, y - 2.5, b - a, 5, role, 0.55) for a, b, role in pieces(curve, axis)]
    return marks + [line(axis(v), y - 7, axis(v), y + 7, "ink", 1.2) for v in curve.flips]


def pieces(curve: Curve, axis: Axis) -> list[tuple[float, float, str]]:
    """The stretches of the curve in pixels over the whole axis, and their colours."""
    ends = [axis.left, *(axis(v) for v in curve.flips), axis.right]
    return [(a, b, ROLES[side]) for (a, b), (_, _, side) in zip(pairwise(ends), curve.stretches, strict=True)]


def response(
    e: Explanation, change: Change, curve: Curve, axis: Axis, top: float, width: float
) -> tuple[list[Mark], float]:
    """The probability of both classes along the feature, or the number that is predicted, and where the model changes
    its mind; and how high that is. Words stand beside the marks, or above and below where a curve would cross them."""
    marks, words, ends = traces(e, change, curve, axis, top, width)
    if not crossed(words, marks):
        return [*marks, *ends, *words], CURVE + 20
    marks, words, ends = traces(e, change, curve, axis, top + ROW, width)
    half = width / 2 - 16
    above: list[Mark] = [was(5, top + 2, 4), would_be(width / 2 + 5, top + 2, 5.5)]
    for place, label in zip((0.0, width / 2), words[:2], strict=True):
        said = replace(label, x=place + 14, y=top + 6.5, said=fit(label.said, half, 12, bold=True), anchor="start")
        above.append(said)
    below = [replace(label, y=top + ROW + CURVE + 13) for label in words[2:]]
    return [*marks, *ends, *above, *below], CURVE + ROW + 20


def traces(
    e: Explanation, change: Change, curve: Curve, axis: Axis, top: float, width: float
) -> tuple[list[Mark], list[Text], list[Mark]]:
    """The curves; the words of both ends, and of the place where the model changes its mind; the marks of both ends."""
    assert e.contrast_class is not None
    if e.wanted is None:
        marks, up = chance_curves(e, curve, axis, top)
        before, after = e.probability(e.original_class), e.probability(e.contrast_class, after=True)
        words = [class_caption(e.words, c) for c in (e.original_class, e.contrast_class)]
        said = f"{words[0]} {percent(before)}", f"{words[1]} {percent(after)}"
    else:
        marks, up = number_curve(e, curve, axis, top, CURVE)
        before, after = e.before[0], e.after[0]
        said = figures(e)
    old, new = float(change.old), float(change.new)
    for at, share in ((old, before), (new, after)):
        marks.append(Path((((axis(at), up(share)), (axis(at), top + CURVE + 20 + BARS)),), stroke="soft", dashed=True))
    for v in curve.flips:
        marks.append(line(axis(v), top, axis(v), top + CURVE, "ink", 1.2))
    borders = []
    for v in [v for v in curve.flips if min(old, new) <= v <= max(old, new)][:1]:
        end = axis(v) > width / 2
        code, near_v = e.words.language, nearly(v, axis.stop - axis.start)
        where = date_text(float(round(v))) if is_date(change.feature) else tick(near_v, code)
        border = languages.load(code).PICTURES["flips_at" if e.wanted is None else "reached_at"].format(value=where)
        x = axis(v) + (-6 if end else 6)
        borders.append(Text(x, top + CURVE - 6, border, 10, "soft", "end" if end else "start", halo=True))
    near = abs(up(before) - up(after)) < 34
    first = beside((axis(old), up(before)), said[0], "old", old > new, width, top, near and before < after)
    second = beside((axis(new), up(after)), said[1], "new", new > old, width, top, near and after <= before)
    if abs(first.y - second.y) < 14:
        second = replace(second, y=first.y + 15)
    return marks, [first, second, *borders], [was(axis(old), up(before)), would_be(axis(new), up(after))]


def crossed(words: Sequence[Text], marks: Sequence[Mark]) -> bool:
    """Whether a line that is drawn goes through one of the words."""
    lines = [path for m in marks if isinstance(m, Path) and m.stroke in CURVES and not m.dashed for path in m.lines]
    return any(_through(box_of(word), pair) for word in words for whole in lines for pair in pairwise(whole))


def box_of(word: Text) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a line of text."""
    wide = text_width(word.said, word.size, word.bold)
    left = word.x - {"start": 0.0, "middle": wide / 2, "end": wide}[word.anchor]
    return left, left + wide, word.y - 0.7 * word.size, word.y


def _through(box: tuple[float, float, float, float], ends: tuple[Point, Point]) -> bool:
    """Whether a straight line has a point in the box, by clipping it at the sides (Liang-Barsky)."""
    (x, y), (x2, y2) = ends
    first, last = 0.0, 1.0
    for start, way, low, high in ((x, x2 - x, box[0], box[1]), (y, y2 - y, box[2], box[3])):
        if way == 0:
            if not low < start < high:
                return False
            continue
        near, far = sorted(((low - start) / way, (high - start) / way))
        first, last = max(first, near), min(last, far)
    return first < last


def chance_curves(e: Explanation, curve: Curve, axis: Axis, top: float) -> tuple[list[Mark], Axis]:
    """The probabilities along the feature, over the colours of the class that wins; and the axis upwards. The line that
    one of two classes has to cross is at its cut-off, where there is one."""
    up = Axis(0, 1, top + CURVE, top)
    marks: list[Mark] = [Rect(a, top, b - a, CURVE, role, 0.09) for a, b, role in pieces(curve, axis)]
    cutoff = cutoff_line(e)
    ends = [axis(float(v)) for change in e.changes for v in (change.old, change.new)]
    leftwards = max(ends) > axis.right - SCALE and min(ends) > axis.left + SCALE  # where no mark is in the way
    scale_words: list[Mark] = []
    for share in (0.0, 0.5 if cutoff is None else cutoff.share, 1.0):
        marks.append(line(axis.left, up(share), axis.right, up(share)))
        high = up(share) + (11 if share == 1 else -3)
        said = cutoff.said if cutoff is not None and 0 < share < 1 else "0" if not share else percent(share)
        place = (axis.left + 2, "start") if leftwards else (axis.right - 2, "end")
        scale_words.append(Text(place[0], high, said, 10, "soft", place[1], halo=True))
    if any(side == "other" for _, _, side in curve.stretches):
        marks.append(_trace(curve.values, curve.other, axis, up, "soft", 1.2))
    marks.append(_trace(curve.values, curve.original, axis, up, "old", 2))
    marks.append(_trace(curve.values, curve.contrast, axis, up, "new", 2))
    return marks + scale_words, up


def beside(place: Point, said: str, role: str, leftwards: bool, width: float, top: float, below: bool) -> Text:
    """Words beside a mark, on the side where there is room."""
    x, y = place
    said = fit(said, width * 0.6, 12, bold=True)
    room = text_width(said, 12, bold=True) + 10
    end = (leftwards and x > room) or x + room > width
    down = y + 18 if below or y - top < 16 else y - 9
    return Text(x - 9 if end else x + 9, down, said, 12, role, "end" if end else "start", bold=True, halo=True)


def _trace(values: tuple[float, ...], shares: tuple[float, ...], axis: Axis, up: Axis, role: str, wide: float) -> Path:
    return Path((tuple((axis(v), up(s)) for v, s in zip(values, shares, strict=True)),), stroke=role, width=wide)
