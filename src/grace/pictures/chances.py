"""How sure the model is of each class, before and after."""

from __future__ import annotations

from grace.explanation import Explanation
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
    was,
    would_be,
)

MOST = 4  # classes shown
STEP = 27.0


def lines_of(e: Explanation) -> list[tuple[str, str, float, float]]:
    """Word, colour, probability before and after: both classes, the strongest others, the rest together."""
    out: list[tuple[str, str, float, float]] = []
    both = [e.original_class] + ([] if e.contrast_class is None else [e.contrast_class])
    for of, role in zip(both, ("old", "new"), strict=False):
        out.append((e.words.class_word(of), role, e.probability(of), e.probability(of, after=True)))
    rest = [(c, b, a) for c, b, a in zip(e.classes, e.before, e.after, strict=True) if c not in both]
    rest.sort(key=lambda other: -max(other[1:]))
    free = MOST - len(out)
    kept = rest if len(rest) <= free else rest[: free - 1]
    out += [(e.words.class_word(c), "soft", b, a) for c, b, a in kept]
    left = rest[len(kept) :]
    if left:
        out.append((f"{len(left)} other classes", "soft", sum(b for _, b, _ in left), sum(a for _, _, a in left)))
    return out


def chances_panel(e: Explanation, width: float) -> Drawing:
    """A line from 0 to 100 % for each class, with the probability before and after."""
    lines = lines_of(e)
    moved = e.success
    marks: list[Mark] = [Text(0, 15, "How sure the model is", 13, bold=True)]
    said = [f"{percent(b)} → {percent(a)}" if moved else percent(b) for _, _, b, a in lines]
    gutter = min(max(text_width(word, 12, bold=True) for word, *_ in lines) + 14, width * 0.42)
    right = width - max(text_width(s, 12, bold=True) for s in said) - 16
    axis = Axis(0, 1, gutter, right)
    y = 22.0
    for (word, role, before, after), values in zip(lines, said, strict=True):
        middle = y + STEP / 2
        bold = role != "soft"
        marks.append(Text(0, middle + 4, fit(word, gutter - 8, 12, bold), 12, role, bold=bold))
        marks.append(line(axis.left, middle, axis.right, middle, width=4))
        a, b = (axis(before), middle), (axis(after), middle)
        if moved:
            marks += [*arrow(a, b, role), was(*a), would_be(*b)] if bold else _quiet(a, b)
        else:
            marks += [Rect(axis.left, middle - 2, a[0] - axis.left, 4, role, 0.5, 2), was(*a)]
        marks.append(Text(width, middle + 4, values, 12, role if bold else "soft", "end", bold))
        y += STEP
    scale = ((0.0, "0"), (0.5, "50 %"), (1.0, "100 %"))
    for share, word in scale if axis.right - axis.left > 110 else scale[::2]:
        marks.append(Path((((axis(share), y), (axis(share), y + 3)),), stroke="line"))
        marks.append(Text(axis(share), y + 14, word, 11, "soft", "middle"))
    words = "; ".join(f"{word}: {values}" for (word, *_), values in zip(lines, said, strict=True))
    return Drawing(width, y + 20, "How sure the model is", words + ".", tuple(marks))


def _quiet(a: tuple[float, float], b: tuple[float, float]) -> list[Mark]:
    """A class that is neither of the two."""
    return [
        *arrow(a, b, "soft", gap=6, width=1.2),
        Dot(*a, 3.6, "circle", "paper", "soft", 1.6),
        Dot(*b, 4.6, "diamond", "soft", "paper", 1.0),
    ]
