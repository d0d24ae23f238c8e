"""The panel of a changed number: old and new value, histograms of both classes, and the model along the feature."""

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
    new_marker,
    old_marker,
    percent,
    round_to_span,
    text_width,
    tick,
    ticks,
    wrap,
)
from grace.pictures.probabilities import cutoff_line, number_curve, predicted_texts
from grace.schema.columns import date_text, is_date
from grace.schema.features import Numeric, Value
from grace.text import languages, sentence
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation

INSET = 8.0  # keeps markers at the ends of the axis inside the picture
BARS = 34.0  # height of the tallest bar
CURVE = 132.0
ARROW = 24.0
ROW = 20.0  # height of a row of labels
SCALE = 44.0  # width of the labels of the y axis
CURVE_ROLES = ("old", "new", "soft", "ink")
BAR_OPACITY = 0.3
ROLES = {"original": "old", "contrast": "new", "other": "soft"}


def label(e: Explanation, change: Change) -> str:
    """The feature's heading."""
    return sentence.heading(change.feature, e.words)


def value(e: Explanation, change: Change, cell: Value) -> str:
    """A cell as text, with its unit."""
    return sentence.value(change.feature, cell, e.words.language, e.words.language)


def old_and_new(e: Explanation, change: Change) -> tuple[str, str]:
    """Old and new value as text; only the new one has the unit."""
    feature = change.feature
    if isinstance(feature, Numeric) and not is_date(feature):
        return sentence.number(sentence.decimal(change.old), e.words.language), value(e, change, change.new)
    return value(e, change, change.old), value(e, change, change.new)


def title_and_description(e: Explanation, change: Change) -> tuple[str, str]:
    """Title and description of a changed feature's picture."""
    words = languages.load(e.words.language).PICTURES
    old, new = value(e, change, change.old), value(e, change, change.new)
    title, described = (
        words[part].format(feature=label(e, change), old=old, new=new) for part in ("change", "change_described")
    )
    return title, described


def heading(text: str, old: str, new: str, width: float) -> tuple[list[Mark], float]:
    """The feature's name and "○ 10 → ◆ 1" on one line if it fits, and the y below them."""
    lines = wrap(text, width, 13, bold=True)
    lines = lines[:1] + ([fit(" ".join(lines[1:]), width, 13, bold=True)] if lines[1:] else [])
    marks: list[Mark] = [Text(0, 15 + 17 * i, part, 13, bold=True) for i, part in enumerate(lines)]
    below = 18 + 17.0 * len(lines)  # baseline of the values if they do not fit beside the name
    before, after = text_width(old, 13), text_width(new, 13, bold=True)
    values = 14 + before + ARROW + 16 + after
    if values > width:  # one below the other
        marks += [old_marker(5, below - 4.5, 4), Text(16, below, fit(old, width - 16, 13), 13, "old")]
        below += 20
        marks.append(new_marker(5, below - 4.5, 5.5))
        marks.append(Text(16, below, fit(new, width - 16, 13, True), 13, "new", bold=True))
        return marks, below + 7
    one_line = text_width(text, 13, bold=True) + values + 18 <= width
    x, y = (width - values, 15.0) if one_line else (0.0, below)
    marks += [old_marker(x + 5, y - 4.5, 4), Text(x + 14, y, old, 13, "old")]
    x += 14 + before
    marks += arrow((x, y - 4.5), (x + ARROW, y - 4.5), "soft", gap=3, width=1.2)
    x += ARROW
    marks += [new_marker(x + 7, y - 4.5, 5.5), Text(x + 16, y, new, 13, "new", bold=True)]
    return marks, y + 7


def numeric_panel(e: Explanation, change: Change, backdrop: Backdrop | None, width: float) -> Drawing:
    """The panel of one changed number."""
    feature = change.feature
    assert isinstance(feature, Numeric)
    histogram = backdrop.histograms.get(change.name) if backdrop else None
    curve = backdrop.curves.get(change.name) if backdrop else None
    axis = axis_of(feature, change, histogram, width)
    marks, y = heading(label(e, change), *old_and_new(e, change), width)
    if curve is not None and curve.contrast and e.sure and len(e.changes) == 1:
        curve_part, height = response_curve(e, change, curve, axis, y + 6, width)
        marks += curve_part
        y += height
    middle = y + (BARS + 10 if histogram else 14)
    if histogram:
        marks += bars(e, histogram, axis, middle, width)
    marks += decision_strip(curve, axis, middle)
    a, b = axis(float(change.old)), axis(float(change.new))
    marks += [*arrow((a, middle), (b, middle), width=1.2), old_marker(a, middle), new_marker(b, middle)]
    y = middle + (BARS + 10 if histogram else 12)
    marks += scale(feature, axis, y, e.words.language)
    return Drawing(width, y + 20, *title_and_description(e, change), tuple(marks))


def axis_of(feature: Numeric, change: Change, histogram: Histogram | None, width: float) -> Axis:
    """The x axis: the histogram's edges, or domain and both values."""
    low, high = feature.bounds
    ends = [v for v in (low, high, float(change.old), float(change.new)) if abs(v) != float("inf")]
    half = 0.5 if feature.integer else 0.0
    start, stop = min(ends) - half, max(ends) + half
    if histogram:
        start, stop = histogram.edges[0], histogram.edges[-1]
    return Axis(start, stop if stop > start else start + 1, INSET, width - INSET)


def feature_ticks(feature: Numeric, axis: Axis, max_n: int, code: str) -> list[tuple[float, str]]:
    """Pixel positions and labels of the ticks of a number or date."""
    values = ticks(axis.start, axis.stop, max_n, bool(feature.integer), code)
    return [(axis(v), date_text(v) if is_date(feature) else text) for v, text in values]


def scale(feature: Numeric, axis: Axis, y: float, code: str) -> list[Mark]:
    """Ticks and their labels, which stay inside the picture."""
    marks: list[Mark] = []
    max_n = max(2, int((axis.right - axis.left) // 60))
    for x, text in feature_ticks(feature, axis, max(2, max_n * 2 // 3) if is_date(feature) else max_n, code):
        half = text_width(text, 11) / 2
        marks.append(line(x, y - 2, x, y + 2))
        marks.append(Text(min(max(x, half), axis.right + INSET - half), y + 14, text, 11, "soft", "middle"))
    return marks


def bars(e: Explanation, histogram: Histogram, axis: Axis, middle: float, width: float) -> list[Mark]:
    """Histograms of training rows: the original class upwards, the contrast class downwards. Heights are square roots
    of shares, so that small bins stay visible."""
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
                marks.append(Rect(x1 + gap / 2, y, x2 - x1 - gap, tall, role, BAR_OPACITY))
        word = otherwise if e.wanted is not None and up < 0 else fit(class_caption(e.words, of), width * 0.6, 11)
        marks.append(bar_caption(word, heights, axis, middle + up * (BARS - 3) + (4 if up < 0 else 6), role))
    return marks


def bar_caption(word: str, heights: list[float], axis: Axis, y: float, role: str) -> Text:
    """The class's name at the end of the axis where its bars are lower."""
    reach = max(1, round(text_width(word, 11) / (axis.right - axis.left) * len(heights)))
    at_end = max(heights[-reach:]) < max(heights[:reach])
    return Text(axis.right if at_end else axis.left, y, word, 11, role, "end" if at_end else "start", halo=True)


def decision_strip(curve: Curve | None, axis: Axis, y: float) -> list[Mark]:
    """The axis, coloured by the class that is predicted there with the other changes made."""
    if curve is None:
        return [line(axis.left, y, axis.right, y, width=4)]
    marks: list[Mark] = [Rect(a, y - 2.5, b - a, 5, role, 0.55) for a, b, role in segments(curve, axis)]
    return marks + [line(axis(v), y - 7, axis(v), y + 7, "ink", 1.2) for v in curve.flips]


def segments(curve: Curve, axis: Axis) -> list[tuple[float, float, str]]:
    """The curve's stretches in pixels over the whole axis, and their colours."""
    ends = [axis.left, *(axis(v) for v in curve.flips), axis.right]
    return [(a, b, ROLES[side]) for (a, b), (_, _, side) in zip(pairwise(ends), curve.stretches, strict=True)]


def response_curve(
    e: Explanation, change: Change, curve: Curve, axis: Axis, top: float, width: float
) -> tuple[list[Mark], float]:
    """Probabilities of both classes, or the predicted number, along the feature, and the height. Labels stand beside
    the markers, or above and below if a curve would cross them."""
    marks, labels, ends = curve_marks(e, change, curve, axis, top, width)
    if not lines_cross_text(labels, marks):
        return [*marks, *ends, *labels], CURVE + 20
    marks, labels, ends = curve_marks(e, change, curve, axis, top + ROW, width)
    half = width / 2 - 16
    above: list[Mark] = [old_marker(5, top + 2, 4), new_marker(width / 2 + 5, top + 2, 5.5)]
    for position, label in zip((0.0, width / 2), labels[:2], strict=True):
        text = fit(label.text, half, 12, bold=True)
        above.append(replace(label, x=position + 14, y=top + 6.5, text=text, anchor="start"))
    below = [replace(label, y=top + ROW + CURVE + 13) for label in labels[2:]]
    return [*marks, *ends, *above, *below], CURVE + ROW + 20


def curve_marks(
    e: Explanation, change: Change, curve: Curve, axis: Axis, top: float, width: float
) -> tuple[list[Mark], list[Text], list[Mark]]:
    """Three lists: the curves; the labels of both ends and of the first flip between them; the markers of both ends."""
    assert e.contrast_class is not None
    if e.wanted is None:
        marks, up = probability_curves(e, curve, axis, top)
        before, after = e.probability(e.original_class), e.probability(e.contrast_class, after=True)
        captions = [class_caption(e.words, c) for c in (e.original_class, e.contrast_class)]
        texts = f"{captions[0]} {percent(before)}", f"{captions[1]} {percent(after)}"
    else:
        marks, up = number_curve(e, curve, axis, top, CURVE)
        before, after = e.before[0], e.after[0]
        texts = predicted_texts(e)
    old, new = float(change.old), float(change.new)
    for at, share in ((old, before), (new, after)):
        marks.append(Path((((axis(at), up(share)), (axis(at), top + CURVE + 20 + BARS)),), stroke="soft", dashed=True))
    for v in curve.flips:
        marks.append(line(axis(v), top, axis(v), top + CURVE, "ink", 1.2))
    borders = []
    for v in [v for v in curve.flips if min(old, new) <= v <= max(old, new)][:1]:
        end = axis(v) > width / 2
        code, near_v = e.words.language, round_to_span(v, axis.stop - axis.start)
        where = date_text(float(round(v))) if is_date(change.feature) else tick(near_v, code)
        border = languages.load(code).PICTURES["flips_at" if e.wanted is None else "reached_at"].format(value=where)
        x = axis(v) + (-6 if end else 6)
        borders.append(Text(x, top + CURVE - 6, border, 10, "soft", "end" if end else "start", halo=True))
    near = abs(up(before) - up(after)) < 34
    first = label_beside((axis(old), up(before)), texts[0], "old", old > new, width, top, near and before < after)
    second = label_beside((axis(new), up(after)), texts[1], "new", new > old, width, top, near and after <= before)
    if abs(first.y - second.y) < 14:
        second = replace(second, y=first.y + 15)
    return marks, [first, second, *borders], [old_marker(axis(old), up(before)), new_marker(axis(new), up(after))]


def lines_cross_text(labels: Sequence[Text], marks: Sequence[Mark]) -> bool:
    """Whether a solid curve intersects one of the labels."""
    solid = [m for m in marks if isinstance(m, Path) and m.stroke in CURVE_ROLES and not m.dashed]
    edges = [edge for path in solid for points in path.lines for edge in pairwise(points)]
    return any(_intersects(text_box(label), edge) for label in labels for edge in edges)


def text_box(label: Text) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a line of text."""
    width = text_width(label.text, label.size, label.bold)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, left + width, label.y - 0.7 * label.size, label.y


def _intersects(box: tuple[float, float, float, float], ends: tuple[Point, Point]) -> bool:
    """Whether a line segment intersects a box (Liang-Barsky clipping)."""
    (x, y), (x2, y2) = ends
    first, last = 0.0, 1.0
    for start, delta, low, high in ((x, x2 - x, box[0], box[1]), (y, y2 - y, box[2], box[3])):
        if delta == 0:
            if not low < start < high:
                return False
            continue
        near, far = sorted(((low - start) / delta, (high - start) / delta))
        first, last = max(first, near), min(last, far)
    return first < last


def probability_curves(e: Explanation, curve: Curve, axis: Axis, top: float) -> tuple[list[Mark], Axis]:
    """Probabilities along the feature over the predicted class's colour, and the y axis. The middle grid line is at the
    cut-off if there is one, else at 0.5."""
    up = Axis(0, 1, top + CURVE, top)
    marks: list[Mark] = [Rect(a, top, b - a, CURVE, role, 0.09) for a, b, role in segments(curve, axis)]
    cutoff = cutoff_line(e)
    ends = [axis(float(v)) for change in e.changes for v in (change.old, change.new)]
    leftwards = max(ends) > axis.right - SCALE and min(ends) > axis.left + SCALE  # the side without a marker
    scale_words: list[Mark] = []
    for share in (0.0, 0.5 if cutoff is None else cutoff.share, 1.0):
        marks.append(line(axis.left, up(share), axis.right, up(share)))
        high = up(share) + (11 if share == 1 else -3)
        text = cutoff.text if cutoff is not None and 0 < share < 1 else "0" if not share else percent(share)
        position = (axis.left + 2, "start") if leftwards else (axis.right - 2, "end")
        scale_words.append(Text(position[0], high, text, 10, "soft", position[1], halo=True))
    if any(side == "other" for _, _, side in curve.stretches):
        marks.append(_curve(curve.values, curve.other, axis, up, "soft", 1.2))
    marks.append(_curve(curve.values, curve.original, axis, up, "old", 2))
    marks.append(_curve(curve.values, curve.contrast, axis, up, "new", 2))
    return marks + scale_words, up


def label_beside(position: Point, text: str, role: str, leftwards: bool, width: float, top: float, below: bool) -> Text:
    """A label beside a marker, on the side with room."""
    x, y = position
    text = fit(text, width * 0.6, 12, bold=True)
    room = text_width(text, 12, bold=True) + 10
    end = (leftwards and x > room) or x + room > width
    down = y + 18 if below or y - top < 16 else y - 9
    return Text(x - 9 if end else x + 9, down, text, 12, role, "end" if end else "start", bold=True, halo=True)


def _curve(values: tuple[float, ...], shares: tuple[float, ...], axis: Axis, up: Axis, role: str, wide: float) -> Path:
    return Path((tuple((axis(v), up(s)) for v, s in zip(values, shares, strict=True)),), stroke=role, width=wide)
