"""One explanation at one glance."""

from __future__ import annotations

from collections.abc import Sequence

from grace import text
from grace.explanation import Change, Explanation
from grace.features import Numeric
from grace.languages import listed, upper
from grace.pictures.backdrop import MOST_SHOWN, Backdrop
from grace.pictures.category import category_panel
from grace.pictures.chances import chances_panel, class_panel
from grace.pictures.drawing import Drawing, Group, Mark, Text, paragraph, was, would_be
from grace.pictures.numeric import label, numeric_panel, shortly
from grace.pictures.plane import plane_panel
from grace.pictures.predicted import predicted_panel

MARGIN = 24.0
GAP = 32.0  # between columns
ROW_GAP = 26.0
TWO_COLUMNS = 520.0  # a picture at least this wide has two


def question(e: Explanation) -> str:
    """The explanation's title."""
    said = e.words.class_word(e.original_class)
    return (
        f"Why {said}?"
        if e.contrast_class is None
        else f"Why {said} rather than {e.words.class_word(e.contrast_class)}?"
    )


def columns_of(e: Explanation, width: float) -> list[tuple[float, float]]:
    """Where each column starts and how wide it is; a single change gets more room than what goes with it."""
    if width < TWO_COLUMNS:
        return [(0.0, width)]
    first = (width - GAP) * (0.58 if len(e.changes) == 1 else 0.5)
    return [(0.0, first), (first + GAP, width - first - GAP)]


def panels(e: Explanation, backdrop: Backdrop | None, columns: Sequence[float]) -> list[tuple[Drawing, int]]:
    """The parts of the picture for columns of these widths, each with its column, the most telling first: the
    map of two changed numbers or the one change with the model's answers along it, then the probabilities,
    then the other changes."""
    last = len(columns) - 1
    if backdrop is not None and backdrop.map is not None:
        first = [(plane_panel(e, backdrop.map, columns[0]), 0), (answer_panel(e, columns[last]), last)]
        return first + [(change_panel(e, c, backdrop, columns[last]), last) for c in e.changes]
    if len(e.changes) == 1:
        only = change_panel(e, e.changes[0], backdrop, columns[0])
        return [(only, 0), (answer_panel(e, columns[last]), last)]
    parts = [(answer_panel(e, columns[0]), 0)]
    ends = [0.0] * len(columns)
    ends[0] = parts[0][0].height
    for change in e.changes[:MOST_SHOWN]:
        at = ends.index(min(ends))
        part = change_panel(e, change, backdrop, columns[at])
        parts.append((part, at))
        ends[at] += part.height + ROW_GAP
    return parts


def answer_panel(e: Explanation, width: float) -> Drawing:
    """What the model says before and after: probabilities, a number, or its class alone."""
    if e.wanted is not None:
        return predicted_panel(e, width)
    return chances_panel(e, width) if e.sure else class_panel(e, width)


def change_panel(e: Explanation, change: Change, backdrop: Backdrop | None, width: float) -> Drawing:
    """A changed feature of either kind."""
    draw = numeric_panel if isinstance(change.feature, Numeric) else category_panel
    return draw(e, change, backdrop, width)


def picture(e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0) -> Drawing:
    """The whole: question, sentence, panels and what stays as it is."""
    inner = width - 2 * MARGIN
    marks, y = paragraph(question(e), MARGIN - 6, inner, 20, bold=True)
    said, y = paragraph(e.text(), y + 4, inner, 14, "ink")
    marks += said
    columns = columns_of(e, inner)
    parts = panels(e, backdrop, [wide for _, wide in columns])
    ends = [y + 20] * len(columns)
    for part, at in parts:
        marks.append(Group(columns[at][0], ends[at], part.marks))
        ends[at] += part.height + ROW_GAP
    y = max(ends) - ROW_GAP + 14
    if e.success:
        marks += legend(y)
        y += 18
    for footnote in [remaining(e), *others(e), reading(e, backdrop)]:
        if footnote:
            notes, y = paragraph(footnote, y + 3, inner, 11.5, "soft")
            marks += notes
    words = " ".join([e.text(), *(p.description for p, _ in parts), remaining(e)])
    return Drawing(width, y + MARGIN - 6, question(e), words, (Group(MARGIN, 0, tuple(marks)),))


def legend(y: float) -> list[Mark]:
    """What the two marks mean."""
    return [
        was(5, y + 7, 4),
        Text(15, y + 11, "as it is", 11.5),
        would_be(76, y + 7, 5.5),
        Text(87, y + 11, "as it would be", 11.5),
    ]


def remaining(e: Explanation) -> str:
    """What is not shown: changes beyond the largest, and what stays."""
    hidden, left = len(e.changes) - MOST_SHOWN, len(e.row) - len(e.changes) - len(e.follow_on)
    said = f"{hidden} smaller changes are not shown. " if hidden > 0 else ""
    said += f"{upper(following(e, e.follow_on))}. " if e.follow_on else ""
    if not e.changes or not left:
        return said.strip()
    stays = "The other feature stays as it is." if left == 1 else f"The other {left} features stay as they are."
    return said + stays


def others(e: Explanation) -> list[str]:
    """The runners-up, in short."""
    out = []
    for other in e.alternatives:
        if other.contrast_class is not None:
            along = f"; {following(e, other.follow_on)}" if other.follow_on else ""
            out.append(f"Or: {listed_changes(e, other.changes)} ({e.words.class_word(other.contrast_class)}){along}.")
    return out


def following(e: Explanation, changes: Sequence[Change]) -> str:
    """What moves along, as a consequence like in the sentence: "weight would then be 80 rather than 70"."""
    said = []
    for i, c in enumerate(changes):
        old, new = shortly(c)
        said.append(f"{label(e, c)}{' would then be' if i == 0 else ''} {new} rather than {old}")
    return listed(said, "and")


def listed_changes(e: Explanation, changes: Sequence[Change]) -> str:
    return ", ".join(f"{label(e, c)} {text.value(c.feature, c.old)} → {text.value(c.feature, c.new)}" for c in changes)


def reading(e: Explanation, backdrop: Backdrop | None) -> str:
    """How to read the picture."""
    if not e.success or e.contrast_class is None:
        return ""
    said = ""
    x, y = e.words.class_word(e.original_class), e.words.class_word(e.contrast_class)
    x = x if e.wanted is None else "otherwise"
    if backdrop is not None and backdrop.histograms and backdrop.rows is not None:
        a, b = backdrop.rows
        drawn = "small ones are drawn larger" if any(isinstance(c.feature, Numeric) for c in e.changes) else "by share"
        given = "the class the model gives them" if e.wanted is None else "what the model predicts for them"
        said = f"Bars: training rows by {given} ({a:,} {x}, {b:,} {y}); {drawn}."
    if backdrop is not None and backdrop.map is not None:
        said += " Map: what the model says if both features change; the small circles are either change alone."
    elif backdrop is not None and len(e.changes) > 1:
        what = "Line and figures" if e.sure else "Line"
        said += f" {what}: what the model says along a feature once the other changes are made."
    return said.strip()
