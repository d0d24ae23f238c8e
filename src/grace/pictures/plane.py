"""Two changed numbers: what the model says over both, with the way from the row to its contrast."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from contourpy import FillType, LineType, contour_generator

from grace.pictures.backdrop import Map
from grace.pictures.drawing import (
    Axis,
    Dot,
    Drawing,
    Mark,
    Path,
    Point,
    PointCloud,
    Text,
    arrow,
    fit,
    line,
    text_width,
    ticks,
    was,
    would_be,
)
from grace.pictures.numeric import beside, label, titled
from grace.schema.columns import date_text, is_date
from grace.schema.features import Floats, Numeric
from grace.text import languages
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation


GUTTER = 44.0
STRIDE = 3  # of the nodes that are tried as places for a word
SPREAD = 0.7548776662466927  # steps of this and of its square fill a square evenly, without chance


def plane_panel(e: Explanation, plane: Map, width: float) -> Drawing:
    """The decision map."""
    assert e.contrast_class is not None
    changes = {c.name: c for c in e.changes}
    across, up = changes[plane.features[0]], changes[plane.features[1]]
    assert isinstance(across.feature, Numeric)
    assert isinstance(up.feature, Numeric)
    code = e.words.language
    named = [label(e, c) for c in (across, up)]
    marks: list[Mark] = [Text(0, 15, fit(named[1], width, 12, bold=True), 12, bold=True)]
    top, height = 26.0, width * 0.8
    (xs, ys), leads = nodes(plane, (across.feature, up.feature))
    x_axis = Axis(float(xs[0]), float(xs[-1]), GUTTER, width - 8)
    y_axis = Axis(float(ys[0]), float(ys[-1]), top + height, top)
    px, py = np.array(x_axis.all(xs)), np.array(y_axis.all(ys))
    for lead, role in zip(leads, ("old", "new"), strict=True):
        marks.append(Path(region(lead, px, py), fill=role, opacity=0.16))
    marks += training_points(plane, x_axis, y_axis, (bool(across.feature.integer), bool(up.feature.integer)))
    for lead in leads if len(e.classes) > 2 else leads[1:]:
        marks.append(Path(border(lead, px, py), stroke="ink", width=1.2))
    start = (x_axis(float(across.old)), y_axis(float(up.old)))
    end = (x_axis(float(across.new)), y_axis(float(up.new)))
    marks += way(start, end)
    box = (x_axis.left, y_axis.right, x_axis.right, y_axis.left)
    named_sides = ((leads[0], e.original_class, "old", start), (leads[1], e.contrast_class, "new", end))
    for lead, of, role, at in named_sides:
        found = class_word(class_caption(e.words, of), role, lead, (px, py), box, (start, end))
        marks.append(found or beside(at, class_caption(e.words, of), role, False, width - 8, top, below=False))
    bottom = top + height
    for value, said in ticks(x_axis.start, x_axis.stop, 5, bool(across.feature.integer), code):
        said = date_text(value) if is_date(across.feature) else said
        marks += [line(x_axis(value), bottom, x_axis(value), bottom + 4)]
        marks += [Text(x_axis(value), bottom + 16, said, 11, "soft", "middle")]
    for value, said in ticks(y_axis.start, y_axis.stop, 5, bool(up.feature.integer), code):
        said = date_text(value) if is_date(up.feature) else said
        marks += [line(GUTTER - 4, y_axis(value), GUTTER, y_axis(value))]
        marks += [Text(GUTTER - 7, y_axis(value) + 4, fit(said, GUTTER - 6, 11), 11, "soft", "end")]
    marks.append(Text(width - 8, bottom + 34, fit(named[0], width - 8, 12, True), 12, anchor="end", bold=True))
    words = languages.load(code).PICTURES
    said = words["over_both_described"].format(moves=f" {words['and']} ".join(titled(e, c)[0] for c in (across, up)))
    title = words["over_both"].format(x=named[0], y=named[1])
    return Drawing(width, bottom + 42, title, said, tuple(marks))


def nodes(plane: Map, features: tuple[Numeric, Numeric]) -> tuple[tuple[Floats, Floats], list[Floats]]:
    """The grid; consecutive whole numbers become blocks, since nothing lies between them."""
    xs, ys = np.array(plane.x), np.array(plane.y)
    leads = [np.array(plane.original), np.array(plane.contrast)]
    x_blocks, y_blocks = (bool(f.integer and np.all(np.diff(v) == 1)) for f, v in zip(features, (xs, ys), strict=True))
    if x_blocks:
        leads = [blocks(xs, lead, 1)[1] for lead in leads]
        xs = blocks(xs, xs, 0)[0]
    if y_blocks:
        leads = [blocks(ys, lead, 0)[1] for lead in leads]
        ys = blocks(ys, ys, 0)[0]
    return (xs, ys), leads


def training_points(plane: Map, x_axis: Axis, y_axis: Axis, whole: tuple[bool, bool]) -> list[Mark]:
    """Training rows as faint points; whole numbers are spread a little, or they would hide one another."""
    if not plane.points:
        return []
    steps = np.arange(len(plane.points)) * SPREAD
    x = np.array([p[0] for p in plane.points]) + ((steps % 1) - 0.5) * 0.7 * whole[0]
    y = np.array([p[1] for p in plane.points]) + ((steps * SPREAD % 1) - 0.5) * 0.7 * whole[1]
    places = list(zip(x_axis.all(x), y_axis.all(y), strict=True))
    marks: list[Mark] = []
    for side, role in (("original", "old"), ("contrast", "new")):
        shown = [place for place, (*_, of) in zip(places, plane.points, strict=True) if of == side]
        if shown:
            marks.append(PointCloud(shown, role, 3.0, 0.5))
    return marks


def way(a: Point, b: Point) -> list[Mark]:
    """From the row to its contrast, and the two corners where only one of the changes is made."""
    corners = [(b[0], a[1]), (a[0], b[1])]
    marks: list[Mark] = [Path(((a, corner, b),), stroke="soft", width=1.2, dashed=True) for corner in corners]
    marks += [Dot(*corner, 3.2, "circle", "paper", "soft", 1.4) for corner in corners]
    return [*marks, *arrow(a, b, width=2), was(*a, 6), would_be(*b, 7.5)]


def class_word(
    word: str,
    role: str,
    lead: Floats,
    nodes: tuple[Floats, Floats],
    box: tuple[float, float, float, float],
    ends: tuple[Point, Point],
) -> Text | None:
    """A class's name where it leads, as far as can be from its border and from the way; None without room."""
    left, top, right, bottom = box
    word = fit(word, (right - left) * 0.6, 13, bold=True)
    half = text_width(word, 13, bold=True) / 2
    x, y = np.meshgrid(nodes[0][::STRIDE], nodes[1][::STRIDE])
    inside = lead[::STRIDE, ::STRIDE] >= 0
    fits = inside & (x - half > left + 3) & (x + half < right - 3) & (y - 14 > top) & (y + 8 < bottom)
    if not fits.any():
        return None
    apart = np.full(int(fits.sum()), np.inf)
    for share in np.linspace(0, 1, 12):
        spot = [a + share * (b - a) for a, b in zip(*ends, strict=True)]
        apart = np.minimum(apart, np.hypot((x[fits] - spot[0]) * 0.6, y[fits] - spot[1]))
    if not inside.all():
        far = np.hypot((x[fits][:, None] - x[~inside]) * 0.5, y[fits][:, None] - y[~inside])
        apart = np.minimum(apart, 1.4 * far.min(axis=1))
    best = int(apart.argmax())
    return Text(float(x[fits][best]), float(y[fits][best]) + 4, word, 13, role, "middle", True, True)


Shape = tuple[Point, ...]

LEVEL = -float(np.finfo(float).tiny)  # contourpy fills what lies above the level; 0 itself has to be inside


def region(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """Outlines of where `values` (y, x), interpolated linearly between the nodes, are at least 0. Holes are outlines
    in the opposite direction, which the nonzero rule of SVG and matplotlib leaves empty."""
    filled: Any = contour_generator(x, y, _finite(values), fill_type=FillType.OuterOffset).filled(LEVEL, np.inf)
    return [_shape(points[a : b - 1]) for points, offsets in zip(*filled, strict=True) for a, b in pairwise(offsets)]


def border(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """Lines where `values` cross 0."""
    lines: Any = contour_generator(x, y, _finite(values), line_type=LineType.Separate).lines(LEVEL)
    return [_shape(line) for line in lines]


def blocks(nodes: Floats, values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Whole numbers stand for blocks a unit wide: nodes at both ends of each, with the same value."""
    ends = np.stack([nodes - 0.5, nodes + 0.5], axis=1).ravel()
    return ends, np.repeat(values, 2, axis=axis)


def _finite(values: Floats) -> Floats:
    """Infinite values as large ones, since contourpy leaves out the cells around infinite ones."""
    return np.clip(values, -1e300, 1e300)


def _shape(points: Floats) -> Shape:
    return tuple((x, y) for x, y in points.tolist())
