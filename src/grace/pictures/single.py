"""The picture of one explanation: title, sentence, panels, legend and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from grace.pictures.backdrop import MAX_CHANGES_SHOWN, Backdrop
from grace.pictures.category import category_panel
from grace.pictures.drawing import Drawing, Group, Mark, Text, new_marker, old_marker, paragraph, text_width
from grace.pictures.numeric import label, numeric_panel, old_and_new, value
from grace.pictures.plane import plane_panel
from grace.pictures.probabilities import class_panel, predicted_panel, probability_panel
from grace.schema.features import Numeric
from grace.text import languages, sentence
from grace.text.languages import listed, upper
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation

MARGIN = 24.0
GAP = 32.0  # between columns
ROW_GAP = 26.0
TWO_COLUMNS = 520.0  # the least width of a picture with two columns


def picture_words(e: Explanation) -> Mapping[str, str]:
    """The vocabulary of pictures in the explanation's language."""
    return languages.load(e.words.language).PICTURES


def question(e: Explanation) -> str:
    """The title of the picture."""
    words, x = picture_words(e), class_caption(e.words, e.original_class)
    if e.contrast_class is None:
        return words["why"].format(x=x)
    return words["why_rather"].format(x=x, y=class_caption(e.words, e.contrast_class))


def columns_of(e: Explanation, width: float) -> list[tuple[float, float]]:
    """Left edge and width of each column; a single change gets the wider one."""
    if width < TWO_COLUMNS:
        return [(0.0, width)]
    first = (width - GAP) * (0.58 if len(e.changes) == 1 else 0.5)
    return [(0.0, first), (first + GAP, width - first - GAP)]


def panels(e: Explanation, backdrop: Backdrop | None, columns: Sequence[float]) -> list[tuple[Drawing, int]]:
    """The panels with the index of their column, for columns of these widths: the decision map of two changed numbers
    or the only change, the prediction, then the other changes, each in the shortest column."""
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
    for change in e.changes[:MAX_CHANGES_SHOWN]:
        at = ends.index(min(ends))
        part = change_panel(e, change, backdrop, columns[at])
        parts.append((part, at))
        ends[at] += part.height + ROW_GAP
    return parts


def answer_panel(e: Explanation, width: float) -> Drawing:
    """The prediction before and after: probabilities, a number, or the class only."""
    if e.wanted is not None:
        return predicted_panel(e, width)
    return probability_panel(e, width) if e.sure else class_panel(e, width)


def change_panel(e: Explanation, change: Change, backdrop: Backdrop | None, width: float) -> Drawing:
    """The panel of a changed number or category."""
    draw = numeric_panel if isinstance(change.feature, Numeric) else category_panel
    return draw(e, change, backdrop, width)


def picture(e: Explanation, backdrop: Backdrop | None = None, *, width: float = 760.0) -> Drawing:
    """The complete picture."""
    inner = width - 2 * MARGIN
    marks, y = paragraph(question(e), MARGIN - 6, inner, 20, bold=True)
    sentence_marks, y = paragraph(e.text(), y + 4, inner, 14, "ink")
    marks += sentence_marks
    columns = columns_of(e, inner)
    parts = panels(e, backdrop, [wide for _, wide in columns])
    ends = [y + 20] * len(columns)
    for part, at in parts:
        marks.append(Group(columns[at][0], ends[at], part.marks))
        ends[at] += part.height + ROW_GAP
    y = max(ends) - ROW_GAP + 14
    if e.success:
        marks += legend(e, y)
        y += 18
    for footnote in [remaining(e), *others(e), reading(e, backdrop)]:
        if footnote:
            notes, y = paragraph(footnote, y + 3, inner, 11.5, "soft")
            marks += notes
    words = " ".join([e.text(), *(p.description for p, _ in parts), remaining(e)])
    return Drawing(width, y + MARGIN - 6, question(e), words, (Group(MARGIN, 0, tuple(marks)),))


def legend(e: Explanation, y: float) -> list[Mark]:
    """The legend of both markers."""
    words = picture_words(e)
    x = 15 + text_width(words["as_is"], 11.5) + 18
    return [
        old_marker(5, y + 7, 4),
        Text(15, y + 11, words["as_is"], 11.5),
        new_marker(x, y + 7, 5.5),
        Text(x + 11, y + 11, words["as_would_be"], 11.5),
    ]


def remaining(e: Explanation) -> str:
    """A note on changes that are not shown, dependent changes and unchanged features."""
    words = picture_words(e)
    hidden, left = len(e.changes) - MAX_CHANGES_SHOWN, len(e.row) - len(e.changes) - len(e.follow_on)
    parts = [words["hidden"].format(n=hidden)] if hidden > 0 else []
    parts += [f"{upper(following(e, e.follow_on))}."] if e.follow_on else []
    if e.changes and left:
        parts.append(words["one_stays"] if left == 1 else words["others_stay"].format(n=left))
    return " ".join(parts)


def others(e: Explanation) -> list[str]:
    """The alternatives, one line each."""
    out = []
    for other in e.alternatives:
        if other.contrast_class is not None:
            dependent = f"; {following(e, other.follow_on)}" if other.follow_on else ""
            outcome = class_caption(e.words, other.contrast_class)
            changes = listed_changes(e, other.changes)
            out.append(picture_words(e)["or"].format(changes=changes, outcome=outcome, along=dependent))
    return out


def following(e: Explanation, changes: Sequence[Change]) -> str:
    """Dependent changes as in the sentence: "weight would then be 80 rather than 70"."""
    words, parts = picture_words(e), []
    for i, c in enumerate(changes):
        old, new = old_and_new(e, c)
        template = words["also_follows" if i else "follow" if c.feature.plural else "follows"]
        parts.append(template.format(feature=label(e, c), new=new, old=old))
    return listed(parts, words["and"])


def listed_changes(e: Explanation, changes: Sequence[Change]) -> str:
    return ", ".join(f"{label(e, c)} {value(e, c, c.old)} → {value(e, c, c.new)}" for c in changes)


def reading(e: Explanation, backdrop: Backdrop | None) -> str:
    """How to read bars, map and lines."""
    if not e.success or e.contrast_class is None:
        return ""
    words, parts = picture_words(e), []
    if backdrop is not None and backdrop.histograms and backdrop.rows is not None:
        x, y = class_caption(e.words, e.original_class), class_caption(e.words, e.contrast_class)
        a, b = (sentence.number(Decimal(count), e.words.language) for count in backdrop.rows)
        numeric = any(isinstance(c.feature, Numeric) for c in e.changes)
        drawn = words["drawn_larger" if numeric else "drawn_by_share"]
        template = words["bars_by_class" if e.wanted is None else "bars_by_number"]
        parts.append(template.format(a=a, b=b, x=x if e.wanted is None else words["otherwise"], y=y, drawn=drawn))
    if backdrop is not None and backdrop.map is not None:
        parts.append(words["map"])
    elif backdrop is not None and len(e.changes) > 1:
        parts.append(words["line_and_figures" if e.sure else "line"])
    return " ".join(parts)
