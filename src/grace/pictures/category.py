"""The panel of a changed category: its frequencies in both classes, and the model's prediction for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grace.pictures.backdrop import Backdrop, Curve
from grace.pictures.drawing import Drawing, Mark, Rect, Text, fit, line, new_marker, old_marker, percent, text_width
from grace.pictures.numeric import ROLES, heading, label, old_and_new, title_and_description
from grace.schema.features import Categorical
from grace.text import languages, sentence
from grace.text.vocabulary import class_caption, predicted

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation

MAX_CATEGORIES = 8  # shown in a panel
STEP = 24.0


def category_panel(e: Explanation, change: Change, backdrop: Backdrop | None, width: float) -> Drawing:
    """A row of two bars (original and contrast class) per category; the old and the new category are marked."""
    feature = change.feature
    assert isinstance(feature, Categorical)
    assert e.contrast_class is not None
    code = e.words.language
    vocabulary = languages.load(code).PICTURES
    histogram = backdrop.histograms.get(change.name) if backdrop else None
    curve = backdrop.curves.get(change.name) if backdrop and e.sure else None
    curve = curve if curve is not None and curve.contrast else None
    counts = (histogram.original, histogram.contrast) if histogram else None
    totals = [sum(c) for c in counts] if counts else [0, 0]
    old_new = [feature.categories.index(change.old), feature.categories.index(change.new)]
    frequencies = [a + b for a, b in zip(*counts, strict=True)] if counts else []
    shown = shown_categories(len(feature.categories), old_new, frequencies)
    marks, y = heading(label(e, change), *old_and_new(e, change), width)
    column = 54.0 if curve else 0.0
    if curve and e.wanted is not None:
        longest_number = max(text_width(predicted(n, e.wanted, languages.load(code)), 12, True) for n in curve.contrast)
        column = max(column, longest_number + 20)
    labels = [sentence.category(feature, feature.categories[k], code) for k in shown]
    longest = max(text_width(w, 12, bold=True) for w in labels) + 28
    above = longest > width * 0.5  # long labels go above their bars
    gutter = 20.0 if above else longest
    room = width - gutter - column - 8
    top = max((c[k] / max(1, t) for c, t in zip(counts or (), totals, strict=False) for k in shown), default=1.0)
    if counts:
        y += 15
        marks += bar_legend(e, width, y)
    if curve:
        y += 15
        outcome = class_caption(e.words, e.contrast_class)
        text = vocabulary["predicts_here"] if e.wanted else vocabulary["chance_of"].format(outcome=outcome)
        marks.append(Text(width, y, fit(text, width, 11), 11, "new", "end"))
    for k, label_text in zip(shown, labels, strict=True):
        middle = y + STEP / 2 + 2
        bold = k in old_new
        wide = width - 20 - (0 if above and counts else column)
        marks.append(Text(20, middle + 4, fit(label_text, wide, 12, bold), 12, "ink" if bold else "soft", bold=bold))
        if bold:
            marks.append(old_marker(7, middle) if k == old_new[0] else new_marker(7, middle))
        if above and counts:
            y += STEP - 6
            middle += STEP - 6
        if counts:
            marks.append(line(gutter, middle - 9, gutter, middle + 9))
            for side, (c, total, role) in enumerate(zip(counts, totals, ("old", "new"), strict=True)):
                share = c[k] / max(1, total)
                if share:
                    length = max(1.0, share / (top or 1) * room)
                    marks.append(Rect(gutter + 1, middle - 8 + 8 * side, length, 7.2, role, 0.75 if bold else 0.35))
        if curve:
            marks += prediction_marks(e, curve, k, width, middle, bold)
        y += STEP
    if len(shown) < len(feature.categories):
        y += 16
        marks.append(Text(20, y, vocabulary["and_more"].format(n=len(feature.categories) - len(shown)), 11, "soft"))
    return Drawing(width, y + 12, *title_and_description(e, change), tuple(marks))


def shown_categories(count: int, required: list[int], frequencies: list[int]) -> list[int]:
    """Codes of the categories to show, ascending: the required ones, and the most frequent others."""
    rest = [k for k in range(count) if k not in required]
    if frequencies:
        rest.sort(key=lambda k: -frequencies[k])
    return sorted([*required, *rest[: MAX_CATEGORIES - len(required)]])


def bar_legend(e: Explanation, width: float, y: float) -> list[Mark]:
    """The legend of the bars: upper for the original class, lower for the contrast class."""
    assert e.contrast_class is not None
    otherwise = languages.load(e.words.language).PICTURES["otherwise"]
    named = class_caption(e.words, e.original_class) if e.wanted is None else otherwise
    first = fit(named, width / 2 - 24, 11)
    second = fit(class_caption(e.words, e.contrast_class), width / 2 - 24, 11)
    x = text_width(first, 11) + 26
    return [
        Rect(0, y - 9, 10, 4.5, "old", 0.75),
        Text(14, y, first, 11, "old"),
        Rect(x, y - 4.5, 10, 4.5, "new", 0.75),
        Text(x + 14, y, second, 11, "new"),
    ]


def prediction_marks(e: Explanation, curve: Curve, k: int, width: float, middle: float, bold: bool) -> list[Mark]:
    """The probability of the contrast class (or the predicted number) with category `k`, and the predicted class's
    colour."""
    side = next(s for a, b, s in curve.stretches if k <= b)
    share = curve.contrast[curve.values.index(float(k))]
    mark = Rect(width - 6, middle - 6, 5, 12, ROLES[side], 1.0 if side == "contrast" else 0.35, 1)
    text = percent(share) if e.wanted is None else predicted(share, e.wanted, languages.load(e.words.language))
    return [Text(width - 12, middle + 4, text, 12, "ink" if bold else "soft", "end", bold), mark]
