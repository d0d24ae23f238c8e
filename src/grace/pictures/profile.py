"""The picture of a profile: a strip per feature, with the values that flip the prediction alone, and its points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from grace.pictures.drawing import (
    Axis,
    Drawing,
    Group,
    Mark,
    Path,
    Point,
    Rect,
    Text,
    fit,
    line,
    old_marker,
    paragraph,
    round_to_span,
    text_width,
    wrap,
)
from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Numeric, Value
from grace.text import languages, sentence
from grace.text.decisions import cell_words, points_words, towards_words
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.decisions.profile import FeatureProfile, Profile
    from grace.explain.decisions.row_context import RowContext

MARGIN = 24.0
NARROW = 520.0  # a narrower picture has the names above the strips
CURVE, BAR, LABELS, GAP = 26.0, 9.0, 15.0, 11.0  # heights: the curve, the bar below it, its labels, between strips
FIXED_HEIGHT = 24.0
RIGHT = 92.0  # width of the column of points
INSET = 7.0  # keeps markers at the ends of the bar inside
LOWEST, HIGHEST = -25.0, 125.0  # points that are drawn; a curve beyond runs along the edge
MAX_CATEGORIES = 10
GREY = 0.45


def profile_picture(profile: Profile, *, width: float = 760.0, most: int = 30) -> Drawing:
    """The complete picture: title, text, strips and legend."""
    words = languages.load(profile.about.words.language).PICTURES
    inner = width - 2 * MARGIN
    marks, y = paragraph(words["alone_title"], MARGIN - 6, inner, 20, bold=True)
    text, y = paragraph(profile.text(), y + 4, inner, 14)
    part = profile_strips(profile, width=inner, most=most)
    marks += [*text, Group(0, y + 14, part.marks)]
    description = f"{profile.text()} {part.description}"
    return Drawing(width, y + 14 + part.height + MARGIN - 6, part.title, description, (Group(MARGIN, 0, tuple(marks)),))


def profile_strips(profile: Profile, *, width: float = 712.0, most: int = 30) -> Drawing:
    """The strips of the first features and the legend, without title and text."""
    code = profile.about.words.language
    words = languages.load(code).PICTURES
    shown, left = profile.features[:most], len(profile.features) - most
    marks, y = legend(profile, width)
    y += 12
    for known in shown:
        strip, height = feature_strip(profile, known, width)
        marks.append(Group(0, y, strip))
        y += height + GAP
    if left > 0:
        marks.append(Text(0, y + 10, words["and_more"].format(n=left), 12, "soft"))
        y += 16
    described = "; ".join(
        words["alone_described"].format(
            feature=sentence.heading(f.feature, profile.about.words),
            value=cell_words(profile.about, f.name),
            points=points_words(f.most_points, code),
            verdict=verdict_words(profile.about, f),
        )
        for f in shown
    )
    return Drawing(width, y, words["alone_title"], f"{described}.", tuple(marks))


def legend(profile: Profile, width: float) -> tuple[list[Mark], float]:
    """What the marks mean, and what 100 points are; the y below."""
    about = profile.about
    words = languages.load(about.words.language).PICTURES
    parts: list[tuple[Mark, str]] = [
        (old_marker(6, 0, 4.5), words["as_is"]),
        (Rect(0, -BAR / 2, 14, BAR, "new", 0.85, 2), words["alone_flips_here"]),
        (Path((((0, 4), (6, 0), (14, -5)),), stroke="ink", width=1.4), words["alone_curve"]),
    ]
    marks: list[Mark] = []
    x, y = 0.0, 8.0
    for mark, text in parts:
        long = 20 + text_width(text, 11.5) + 18
        if x and x + long - 18 > width:
            x, y = 0.0, y + 18
        marks += [Group(x, y, (mark,)), Text(x + 20, y + 4, text, 11.5)]
        x += long
    before = class_caption(about.words, about.original_class)
    what = words["alone_hundred"].format(before=before, after=towards_words(about))
    notes, y = paragraph(what, y + 10, width, 11.5, "soft")
    return [*marks, *notes], y


def feature_strip(profile: Profile, known: FeatureProfile, width: float) -> tuple[tuple[Mark, ...], float]:
    """The marks of one feature, and their height."""
    if known.verdict == "fixed":
        return fixed_line(profile, known, width), FIXED_HEIGHT - GAP
    if width < NARROW - 2 * MARGIN:
        left, right = 0.0, width
        marks, top = caption_above(profile, known, width)
    else:
        left, right, top = min(width * 0.3, 230.0), width - RIGHT, 0.0
        marks = caption_beside(profile, known, left - 14, width)
    bar = category_bar if isinstance(known.feature, Categorical) else number_bar
    return (*marks, *bar(profile, known, left, right, top)), top + CURVE + BAR + LABELS


def fixed_line(profile: Profile, known: FeatureProfile, width: float) -> tuple[Mark, ...]:
    """The name and value of a feature that may not change."""
    about, room = profile.about, width - RIGHT - 12
    named = fit(sentence.heading(known.feature, about.words), room * 0.6, 12.5)
    beside = text_width(named, 12.5) + 12
    return (
        Text(0, 15, named, 12.5, "soft"),
        Text(beside, 15, fit(cell_words(about, known.name), room - beside, 12), 12, "soft"),
        Text(width, 15, verdict_words(about, known), 12, "soft", "end"),
    )


def caption_beside(profile: Profile, known: FeatureProfile, room: float, width: float) -> list[Mark]:
    """Name and value at the left of the strip, points and verdict at its right."""
    about, grey = profile.about, not known.flips
    lines = name_lines(sentence.heading(known.feature, about.words), room)
    y = CURVE - (8 if len(lines) == 1 else 14)
    points = best_points(profile, known)
    return [
        *(Text(0, y + 15 * i, s, 12.5, "soft" if grey else "ink", bold=True) for i, s in enumerate(lines)),
        Text(0, y + 2 + 15 * len(lines), fit(cell_words(about, known.name), room, 12), 12, "old"),
        Text(width, CURVE - 8, points, 12.5, "soft" if grey else "new", "end", not grey),
        Text(width, CURVE + 9, verdict_words(about, known), 11, "soft", "end"),
    ]


def caption_above(profile: Profile, known: FeatureProfile, width: float) -> tuple[list[Mark], float]:
    """Name, value, points and verdict above the strip, and the y below them."""
    about, grey = profile.about, not known.flips
    points = best_points(profile, known)
    label = ", ".join(part for part in (points, verdict_words(about, known) if grey else "") if part)
    room = width - text_width(label, 12, not grey) - 16
    lines = name_lines(sentence.heading(known.feature, about.words), room)
    value = cell_words(about, known.name)
    beside, below = text_width(lines[-1], 12.5, True) + 8, 7 + 15.0 * len(lines)
    if beside + text_width(value, 12) > (room if len(lines) == 1 else width):
        beside, below = 0.0, below + 15
    return [
        Text(width, 14, label, 12, "soft" if grey else "new", "end", not grey),
        *(Text(0, 14 + 15 * i, s, 12.5, "soft" if grey else "ink", bold=True) for i, s in enumerate(lines)),
        Text(beside, below - 8, fit(value, width - beside, 12), 12, "old"),
    ], below


def name_lines(name: str, width: float) -> list[str]:
    """The name of a feature in one line or two."""
    lines = wrap(name, width, 12.5, bold=True)
    return [*lines[:1], *([fit(" ".join(lines[1:]), width, 12.5, bold=True)] if lines[1:] else [])]


def best_points(profile: Profile, known: FeatureProfile) -> str:
    """The points of the best change; none where adding them up does not forecast the model, which the text says."""
    shown = profile.scorecard is not None or not profile.forecasts
    return points_words(known.most_points, profile.about.words.language) if shown else ""


def verdict_words(about: RowContext, known: FeatureProfile) -> str:
    """What a feature can do alone; where it flips with less than 100 points, that is to another class."""
    elsewhere = known.flips and known.most_points < 100 and len(about.classes) > 2
    return languages.load(about.words.language).PICTURES["alone_elsewhere" if elsewhere else f"alone_{known.verdict}"]


# -- numbers ----------------------------------------------------------------------------------


def number_bar(profile: Profile, known: FeatureProfile, left: float, right: float, top: float) -> list[Mark]:
    """Range, value, spans that flip, and the curve of points above them."""
    feature, code = known.feature, profile.about.words.language
    assert isinstance(feature, Numeric)
    axis = number_axis(known, left + INSET, right - INSET)
    up = Axis(LOWEST, HIGHEST, top + CURVE, top)
    role = "ink" if known.flips else "soft"
    marks = grid(axis.left, axis.right, up)
    xs = [axis(float(v)) for v in known.values]
    corners = curve(xs, known.points, up, steps=known.kind == "steps")
    if len(corners) > 1:
        marks.append(Path((corners,), stroke=role, width=1.4, opacity=1 if known.flips else 0.7))
    y = top + CURVE + BAR / 2
    marks.append(Rect(axis.left, y - BAR / 2, axis.right - axis.left, BAR, "line", 1 if known.flips else GREY, 2))
    for low, high in known.spans:
        a, b = axis(low), axis(high)
        wide = max(4.0, b - a)
        start = min(max((a + b - wide) / 2, axis.left), axis.right - wide)
        marks.append(Rect(start, y - BAR / 2, wide, BAR, "new", 0.85, 2))
    if known.value is not None:
        marks.append(old_marker(axis(float(known.value)), y))

    def text(v: float) -> str:
        return date_text(v) if is_date(feature) else sentence.number(sentence.decimal(v), code)

    ends, span = (axis.start, axis.stop), axis.stop - axis.start
    crossed = [v for low_high in known.spans for v in dict.fromkeys(low_high) if v not in ends]
    wanted = [(axis(v), text(v), "new") for v in crossed]
    for v in ends:
        role = "new" if any(v in low_high for low_high in known.spans) else "soft"
        wanted.append((axis(v), text(v if is_date(feature) else round_to_span(v, span)), role))
    return [*marks, *placed_labels(wanted, y + BAR / 2 + 12, left, right)]


def number_axis(known: FeatureProfile, left: float, right: float) -> Axis:
    """The axis over the range of a feature and the row's value."""
    assert isinstance(known.feature, Numeric)
    held = [*known.feature.bounds, *(float(v) for v in known.values)]
    held += [] if known.value is None else [float(known.value)]
    ends = [v for v in held if math.isfinite(v)]
    low, high = min(ends), max(ends)
    return Axis(low, high if high > low else low + 1, left, right)


def curve(xs: Sequence[float], points: Sequence[float], up: Axis, *, steps: bool) -> list[Point]:
    """The corners of the curve, which runs along the edge where it leaves the picture. Steps hold up to the middle
    between two values of the same points, so that both sides of each step are values."""
    inside = [up(min(max(p, LOWEST), HIGHEST)) for p in points]
    corners = list(zip(xs, inside, strict=True))
    if not steps:
        return corners
    out = corners[:1]
    for (x, y), (x2, y2) in pairwise(corners):
        out += [((x + x2) / 2, y), ((x + x2) / 2, y2), (x2, y2)] if y != y2 else [(x2, y2)]
    return out


def grid(left: float, right: float, up: Axis) -> list[Mark]:
    """The lines of 0 and 100 points."""
    zero = line(left, up(0), right, up(0))
    return [zero, Path((((left, up(100)), (right, up(100))),), stroke="soft", width=0.8, dashed=True, opacity=0.7)]


def placed_labels(wanted: Sequence[tuple[float, str, str]], y: float, left: float, right: float) -> list[Mark]:
    """Labels (x, text, colour) inside the strip; one that would overlap an earlier one is left out."""
    taken: list[tuple[float, float]] = []
    marks: list[Mark] = []
    for x, text, role in wanted:
        half = text_width(text, 10.5) / 2
        middle = min(max(x, left + half), right - half)
        if all(middle + half + 5 < a or middle - half - 5 > b for a, b in taken):
            taken.append((middle - half, middle + half))
            marks.append(Text(middle, y, text, 10.5, role, "middle"))
    return marks


# -- categories -------------------------------------------------------------------------------


def category_bar(profile: Profile, known: FeatureProfile, left: float, right: float, top: float) -> list[Mark]:
    """A cell per category, filled if it flips, with its points as a bar above."""
    feature, code = known.feature, profile.about.words.language
    assert isinstance(feature, Categorical)
    shown = shown_categories(known, feature)
    hidden = len({*known.values, known.value} - {None}) - len(shown)
    points = dict(zip(known.values, known.points, strict=True))
    up = Axis(LOWEST, HIGHEST, top + CURVE, top)
    marks, y = grid(left + INSET, right - INSET, up), top + CURVE + BAR / 2
    room = right - left - 2 * INSET
    more = languages.load(code).PICTURES["and_more"].format(n=hidden) if hidden > 0 else ""
    room -= text_width(more, 10.5) + 8 if more else 0.0
    wide = room / max(1, len(shown))
    for n, category in enumerate(shown):
        x = left + INSET + n * wide
        flips = category in known.categories
        role = "new" if flips else "line"
        marks.append(Rect(x + 1, y - BAR / 2, wide - 2, BAR, role, 0.85 if flips else 1 if known.flips else GREY, 2))
        if category == known.value:
            marks.append(old_marker(x + wide / 2, y))
        elif category in points:
            end = up(min(max(points[category], LOWEST), HIGHEST))
            base, tall = min(end, up(0)), abs(end - up(0))
            marks.append(Rect(x + wide * 0.3, base, wide * 0.4, tall, "new" if flips else "soft", 0.6))
        label = fit(sentence.category(feature, category, code), wide - 5, 10.5)
        colour = "old" if category == known.value else "new" if flips else "soft"
        marks.append(Text(x + wide / 2, y + BAR / 2 + 12, label, 10.5, colour, "middle"))
    return [*marks, *([Text(right - INSET, y + BAR / 2 + 12, more, 10.5, "soft", "end")] if more else [])]


def shown_categories(known: FeatureProfile, feature: Categorical) -> list[Value]:
    """The row's category, those that flip and those with most points, in the order of the schema."""
    order = sorted(zip(known.points, known.values, strict=True), key=lambda pair: -pair[0])
    first = [] if known.value is None else [known.value]
    wanted = [*first, *known.categories, *(v for _, v in order)]
    kept = list(dict.fromkeys(wanted))[:MAX_CATEGORIES]
    return sorted(kept, key=lambda v: feature.categories.index(v) if v in feature.categories else -1)
