"""Panels of the model's prediction before and after: probabilities, a class, or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from grace.models.threshold import lines
from grace.pictures.backdrop import Curve
from grace.pictures.drawing import (
    Axis,
    Dot,
    Drawing,
    Mark,
    Path,
    Rect,
    Text,
    arrow,
    fit,
    line,
    new_marker,
    old_marker,
    percent,
    text_width,
    ticks,
)
from grace.schema.features import Value
from grace.schema.schema import Schema
from grace.text import languages, sentence
from grace.text.vocabulary import Range, class_caption, predicted

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation


MAX_CLASSES = 4
STEP = 27.0


def class_rows(e: Explanation) -> list[tuple[str, str, float, float]]:
    """Label, colour, and probability before and after, of both classes, the most probable others, and the rest
    summed."""
    out: list[tuple[str, str, float, float]] = []
    both = [e.original_class] + ([] if e.contrast_class is None else [e.contrast_class])
    for of, role in zip(both, ("old", "new"), strict=False):
        out.append((class_caption(e.words, of), role, e.probability(of), e.probability(of, after=True)))
    rest = [(c, b, a) for c, b, a in zip(e.classes, e.before, e.after, strict=True) if c not in both]
    rest.sort(key=lambda other: -max(other[1:]))
    free = MAX_CLASSES - len(out)
    listed_others = rest if len(rest) <= free else rest[: free - 1]
    out += [(class_caption(e.words, c), "soft", b, a) for c, b, a in listed_others]
    left = rest[len(listed_others) :]
    if left:
        named = languages.load(e.words.language).PICTURES["other_classes"].format(n=len(left))
        out.append((named, "soft", sum(b for _, b, _ in left), sum(a for _, _, a in left)))
    return out


@dataclass(frozen=True)
class CutoffLine:
    """The probability from which one of two classes is decided."""

    of: Value
    share: float
    text: str


def cutoff_line(e: Explanation) -> CutoffLine | None:
    """The cut-off of a model with two classes, if one is set."""
    cutoffs = lines(e.cutoffs, e.classes)
    if not cutoffs:
        return None
    of = e.cutoffs[0][0] if len(e.cutoffs) == 1 else e.classes[1]
    code = e.words.language
    text = languages.load(code).PICTURES["cutoff"].format(share=cutoff_percent(cutoffs[of], code))
    return CutoffLine(of, cutoffs[of], text)


def cutoff_percent(share: float, code: str) -> str:
    """A cut-off in percent, with up to four digits."""
    return f"{sentence.number(Decimal(f'{share * 100:.4g}'), code)} %"


def cutoff_words(named: Sequence[tuple[Value, float]], words: Schema) -> str:
    """The decision rule by cut-offs as a sentence; empty without cut-offs."""
    text = [(class_caption(words, c), cutoff_percent(share, words.language)) for c, share in named]
    spoken = languages.load(words.language).PICTURES
    if len(text) == 1:
        return spoken["cutoff_rule"].format(outcome=text[0][0], share=text[0][1])
    listed = ", ".join(f"{word} {share}" for word, share in text)
    return spoken["cutoff_rules"].format(cutoffs=listed) if text else ""


def class_panel(e: Explanation, width: float) -> Drawing:
    """The predicted classes of a model without probabilities."""
    spoken = languages.load(e.words.language).PICTURES
    text, note = spoken["decides"], spoken["no_probabilities"]
    marks: list[Mark] = [Text(0, 15, text, 13, bold=True)]
    words = [(class_caption(e.words, e.original_class), "old")]
    if e.contrast_class is not None:
        words.append((class_caption(e.words, e.contrast_class), "new"))
    y = 22.0
    for i, (word, role) in enumerate(words):
        middle = y + STEP / 2
        marks.append(old_marker(6, middle) if i == 0 else new_marker(6, middle))
        marks.append(Text(20, middle + 4, fit(word, width - 20, 12, bold=True), 12, role, bold=True))
        y += STEP
    marks.append(Text(0, y + 14, fit(note, width, 11), 11, "soft"))
    parts = [spoken[when].format(outcome=word) for when, (word, _) in zip(("now", "then"), words, strict=False)]
    return Drawing(width, y + 20, text, " ".join([*parts, note]), tuple(marks))


def probability_panel(e: Explanation, width: float) -> Drawing:
    """An axis from 0 to 100 % per class, with the probabilities before and after and the class's cut-off."""
    rows = class_rows(e)
    cutoff = cutoff_line(e)
    moved = e.success
    spoken = languages.load(e.words.language).PICTURES
    marks: list[Mark] = [Text(0, 15, spoken["how_sure"], 13, bold=True)]
    text = [f"{percent(b)} → {percent(a)}" if moved else percent(b) for _, _, b, a in rows]
    gutter = min(max(text_width(word, 12, bold=True) for word, *_ in rows) + 14, width * 0.42)
    right = width - max(text_width(s, 12, bold=True) for s in text) - 16
    axis = Axis(0, 1, gutter, right)
    y = 22.0
    for (word, role, before, after), values in zip(rows, text, strict=True):
        middle = y + STEP / 2
        bold = role != "soft"
        marks.append(Text(0, middle + 4, fit(word, gutter - 8, 12, bold), 12, role, bold=bold))
        marks.append(line(axis.left, middle, axis.right, middle, width=4))
        if cutoff is not None and word == class_caption(e.words, cutoff.of):
            marks.append(line(axis(cutoff.share), middle - 9, axis(cutoff.share), middle + 9, "ink", 1.4))
        a, b = (axis(before), middle), (axis(after), middle)
        if moved:
            marks += [*arrow(a, b, role), old_marker(*a), new_marker(*b)] if bold else _other_class_marks(a, b)
        else:
            marks += [Rect(axis.left, middle - 2, a[0] - axis.left, 4, role, 0.5, 2), old_marker(*a)]
        marks.append(Text(width, middle + 4, values, 12, role if bold else "soft", "end", bold))
        y += STEP
    scale = [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")]
    if cutoff is not None:
        scale[1] = (cutoff.share, cutoff.text)
        scale = [tick for tick in scale if tick is scale[1] or abs(tick[0] - cutoff.share) > 0.2]
    for share, word in scale if cutoff is not None or axis.right - axis.left > 110 else scale[::2]:
        marks.append(Path((((axis(share), y), (axis(share), y + 3)),), stroke="line"))
        marks.append(Text(axis(share), y + 14, word, 11, "soft", "middle"))
    words = "; ".join(f"{word}: {values}" for (word, *_), values in zip(rows, text, strict=True))
    if cutoff is not None:
        words += f"; {spoken['cutoff_of'].format(cutoff=cutoff.text, outcome=class_caption(e.words, cutoff.of))}"
    return Drawing(width, y + 20, spoken["how_sure"], words + ".", tuple(marks))


def _other_class_marks(a: tuple[float, float], b: tuple[float, float]) -> list[Mark]:
    """The markers of a class that is neither of the two."""
    return [
        *arrow(a, b, "soft", gap=6, width=1.2),
        Dot(*a, 3.6, "circle", "paper", "soft", 1.6),
        Dot(*b, 4.6, "diamond", "soft", "paper", 1.0),
    ]


PADDING = 0.08  # at both ends, as a share of the interval
LABEL_ROOM = 0.14  # more at the upper end, for labels above a curve
HEIGHT = 18.0


def predicted_texts(e: Explanation) -> tuple[str, str]:
    """The predicted numbers before and after as text."""
    assert e.wanted is not None
    language = languages.load(e.words.language)
    before, after = (predicted(end[0], e.wanted, language) for end in (e.before, e.after))
    return before, after


def span(values: tuple[float, ...], wanted: Range, above: float = 0.0) -> tuple[float, float]:
    """The interval to show: all values and the limits of the target range, padded, and by `above` more at the upper
    end."""
    shown = [*values, *(end for end in (wanted["low"], wanted["high"]) if end is not None)]
    low, high = min(shown), max(shown)
    room = PADDING * (high - low) or abs(high) * PADDING or 1.0
    return low - room, high + room + above * (high - low)


def target_interval(axis: Axis, wanted: Range) -> tuple[float, float]:
    """The target range in pixels, clipped to the axis."""
    ends = sorted((axis.left, axis.right))
    low = axis.left if wanted["low"] is None else axis(wanted["low"])
    high = axis.right if wanted["high"] is None else axis(wanted["high"])
    a, b = sorted((low, high))
    return max(a, ends[0]), min(b, ends[1])


def predicted_panel(e: Explanation, width: float) -> Drawing:
    """The predicted numbers on an axis, with the target range."""
    assert e.wanted is not None
    before, after = predicted_texts(e)
    text = f"{before} → {after}" if e.success else before
    words = languages.load(e.words.language).PICTURES
    marks: list[Mark] = [Text(0, 15, words["predicts"], 13, bold=True)]
    right = width - 8
    one_line = text_width(text, 13, bold=True) + text_width(words["predicts"], 13, bold=True) + 14 < width
    x, baseline, anchor = (width, 15.0, "end") if one_line else (0.0, 33.0, "start")
    marks.append(Text(x, baseline, text, 13, "new", anchor, True))
    middle = baseline + 22.0
    ends = (*e.before, *e.after) if e.success else e.before
    axis = Axis(*span(ends, e.wanted), 8, right)
    a, b = target_interval(axis, e.wanted)
    marks.append(Rect(a, middle - HEIGHT / 2, b - a, HEIGHT, "new", 0.18))
    marks.append(line(axis.left, middle, axis.right, middle, width=4))
    if e.success:
        marks += arrow((axis(e.before[0]), middle), (axis(e.after[0]), middle), "new")
        marks.append(new_marker(axis(e.after[0]), middle))
    marks.append(old_marker(axis(e.before[0]), middle))
    y = middle + 14
    for value, word in ticks(axis.start, axis.stop, max(2, int(width // 80)), code=e.words.language):
        marks += [line(axis(value), y - 2, axis(value), y + 2), Text(axis(value), y + 14, word, 11, "soft", "middle")]
    marks.append(Rect(0, y + 24, 10, 10, "new", 0.18))
    marks.append(Text(15, y + 33, words["asked_for"], 11, "soft"))
    return Drawing(width, y + 40, words["predicts"], words["predicted"].format(numbers=text), tuple(marks))


def number_curve(e: Explanation, curve: Curve, axis: Axis, top: float, height: float) -> tuple[list[Mark], Axis]:
    """The predicted number along a feature over the target range, and the y axis."""
    assert e.wanted is not None
    up = Axis(*span((*curve.original, *e.before, *e.after), e.wanted, LABEL_ROOM), top + height, top)
    a, b = target_interval(up, e.wanted)
    marks: list[Mark] = [Rect(axis.left, a, axis.right - axis.left, b - a, "new", 0.12)]
    for value, word in ticks(up.start, up.stop, 3, code=e.words.language):
        marks.append(line(axis.left, up(value), axis.right, up(value)))
        marks.append(Text(axis.right - 2, up(value) - 3, word, 10, "soft", "end", halo=True))
    trace = tuple((axis(v), up(s)) for v, s in zip(curve.values, curve.original, strict=True))
    return [*marks, Path((trace,), stroke="ink", width=2)], up
