"""How sure the model is of each class, before and after."""

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
    percent,
    text_width,
    ticks,
    was,
    would_be,
)
from grace.schema.features import Value
from grace.schema.schema import Schema
from grace.text import languages, sentence
from grace.text.vocabulary import Range, class_caption, predicted

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation


MOST = 4  # classes shown
STEP = 27.0


def lines_of(e: Explanation) -> list[tuple[str, str, float, float]]:
    """Word, colour, probability before and after: both classes, the strongest others, the rest together."""
    out: list[tuple[str, str, float, float]] = []
    both = [e.original_class] + ([] if e.contrast_class is None else [e.contrast_class])
    for of, role in zip(both, ("old", "new"), strict=False):
        out.append((class_caption(e.words, of), role, e.probability(of), e.probability(of, after=True)))
    rest = [(c, b, a) for c, b, a in zip(e.classes, e.before, e.after, strict=True) if c not in both]
    rest.sort(key=lambda other: -max(other[1:]))
    free = MOST - len(out)
    kept = rest if len(rest) <= free else rest[: free - 1]
    out += [(class_caption(e.words, c), "soft", b, a) for c, b, a in kept]
    left = rest[len(kept) :]
    if left:
        named = languages.load(e.words.language).PICTURES["other_classes"].format(n=len(left))
        out.append((named, "soft", sum(b for _, b, _ in left), sum(a for _, _, a in left)))
    return out


@dataclass(frozen=True)
class CutoffLine:
    """The probability at which one of two classes starts to be decided."""

    of: Value
    share: float
    said: str


def cutoff_line(e: Explanation) -> CutoffLine | None:
    """The line to cross, where a cut-off was set; of more than two classes there is no single one."""
    found = lines(e.cutoffs, e.classes)
    if not found:
        return None
    of = e.cutoffs[0][0] if len(e.cutoffs) == 1 else e.classes[1]
    code = e.words.language
    said = languages.load(code).PICTURES["cutoff"].format(share=fit_percent(found[of], code))
    return CutoffLine(of, found[of], said)


def fit_percent(share: float, code: str) -> str:
    """A cut-off in as many digits as it has, up to four."""
    return f"{sentence.number(Decimal(f'{share * 100:.4g}'), code)} %"


def cutoff_words(named: Sequence[tuple[Value, float]], words: Schema) -> str:
    """By which rule classes are decided, as a sentence; empty where it is the most probable one."""
    said = [(class_caption(words, c), fit_percent(share, words.language)) for c, share in named]
    spoken = languages.load(words.language).PICTURES
    if len(said) == 1:
        return spoken["cutoff_rule"].format(outcome=said[0][0], share=said[0][1])
    listed = ", ".join(f"{word} {share}" for word, share in said)
    return spoken["cutoff_rules"].format(cutoffs=listed) if said else ""


def class_panel(e: Explanation, width: float) -> Drawing:
    """What a model decides that does not say how sure it is."""
    spoken = languages.load(e.words.language).PICTURES
    said, note = spoken["decides"], spoken["no_probabilities"]
    marks: list[Mark] = [Text(0, 15, said, 13, bold=True)]
    words = [(class_caption(e.words, e.original_class), "old")]
    if e.contrast_class is not None:
        words.append((class_caption(e.words, e.contrast_class), "new"))
    y = 22.0
    for i, (word, role) in enumerate(words):
        middle = y + STEP / 2
        marks.append(was(6, middle) if i == 0 else would_be(6, middle))
        marks.append(Text(20, middle + 4, fit(word, width - 20, 12, bold=True), 12, role, bold=True))
        y += STEP
    marks.append(Text(0, y + 14, fit(note, width, 11), 11, "soft"))
    parts = [spoken[when].format(outcome=word) for when, (word, _) in zip(("now", "then"), words, strict=False)]
    return Drawing(width, y + 20, said, " ".join([*parts, note]), tuple(marks))


def chances_panel(e: Explanation, width: float) -> Drawing:
    """A line from 0 to 100 % for each class, with the probability before and after, and the cut-off on the line of
    the class that has one."""
    rows = lines_of(e)
    cutoff = cutoff_line(e)
    moved = e.success
    spoken = languages.load(e.words.language).PICTURES
    marks: list[Mark] = [Text(0, 15, spoken["how_sure"], 13, bold=True)]
    said = [f"{percent(b)} → {percent(a)}" if moved else percent(b) for _, _, b, a in rows]
    gutter = min(max(text_width(word, 12, bold=True) for word, *_ in rows) + 14, width * 0.42)
    right = width - max(text_width(s, 12, bold=True) for s in said) - 16
    axis = Axis(0, 1, gutter, right)
    y = 22.0
    for (word, role, before, after), values in zip(rows, said, strict=True):
        middle = y + STEP / 2
        bold = role != "soft"
        marks.append(Text(0, middle + 4, fit(word, gutter - 8, 12, bold), 12, role, bold=bold))
        marks.append(line(axis.left, middle, axis.right, middle, width=4))
        if cutoff is not None and word == class_caption(e.words, cutoff.of):
            marks.append(line(axis(cutoff.share), middle - 9, axis(cutoff.share), middle + 9, "ink", 1.4))
        a, b = (axis(before), middle), (axis(after), middle)
        if moved:
            marks += [*arrow(a, b, role), was(*a), would_be(*b)] if bold else _quiet(a, b)
        else:
            marks += [Rect(axis.left, middle - 2, a[0] - axis.left, 4, role, 0.5, 2), was(*a)]
        marks.append(Text(width, middle + 4, values, 12, role if bold else "soft", "end", bold))
        y += STEP
    scale = [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")]
    if cutoff is not None:
        scale[1] = (cutoff.share, cutoff.said)
        scale = [tick for tick in scale if tick is scale[1] or abs(tick[0] - cutoff.share) > 0.2]
    for share, word in scale if cutoff is not None or axis.right - axis.left > 110 else scale[::2]:
        marks.append(Path((((axis(share), y), (axis(share), y + 3)),), stroke="line"))
        marks.append(Text(axis(share), y + 14, word, 11, "soft", "middle"))
    words = "; ".join(f"{word}: {values}" for (word, *_), values in zip(rows, said, strict=True))
    if cutoff is not None:
        words += f"; {spoken['cutoff_of'].format(cutoff=cutoff.said, outcome=class_caption(e.words, cutoff.of))}"
    return Drawing(width, y + 20, spoken["how_sure"], words + ".", tuple(marks))


def _quiet(a: tuple[float, float], b: tuple[float, float]) -> list[Mark]:
    """A class that is neither of the two."""
    return [
        *arrow(a, b, "soft", gap=6, width=1.2),
        Dot(*a, 3.6, "circle", "paper", "soft", 1.6),
        Dot(*b, 4.6, "diamond", "soft", "paper", 1.0),
    ]


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
