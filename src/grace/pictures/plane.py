"""The panel of two changed numbers: a decision map with the path from the row to its contrast."""

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
    new_marker,
    old_marker,
    text_width,
)
from grace.pictures.numeric import feature_ticks, label, label_beside, title_and_description
from grace.schema.features import Floats, Numeric
from grace.text import languages
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation


GUTTER = 44.0
NODE_STEP = 3  # every third node is tried as the position of a label
R2_STEP = 0.7548776662466927  # 1 / plastic number, whose powers generate the R2 low-discrepancy sequence


def plane_panel(e: Explanation, plane: Map, width: float) -> Drawing:
    """The decision map: regions of both classes, training rows, the path, and the classes' names."""
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
    marks += change_path(start, end)
    box = (x_axis.left, y_axis.right, x_axis.right, y_axis.left)
    for lead, of, role, at in ((leads[0], e.original_class, "old", start), (leads[1], e.contrast_class, "new", end)):
        caption = class_caption(e.words, of)
        inside = class_label(caption, role, lead, (px, py), box, (start, end))
        marks.append(inside or label_beside(at, caption, role, False, width - 8, top, below=False))
    bottom = top + height
    for x, text in feature_ticks(across.feature, x_axis, 5, code):
        marks += [line(x, bottom, x, bottom + 4), Text(x, bottom + 16, text, 11, "soft", "middle")]
    for y, text in feature_ticks(up.feature, y_axis, 5, code):
        marks.append(line(GUTTER - 4, y, GUTTER, y))
        marks.append(Text(GUTTER - 7, y + 4, fit(text, GUTTER - 6, 11), 11, "soft", "end"))
    marks.append(Text(width - 8, bottom + 34, fit(named[0], width - 8, 12, True), 12, anchor="end", bold=True))
    words = languages.load(code).PICTURES
    moves = f" {words['and']} ".join(title_and_description(e, c)[0] for c in (across, up))
    text = words["over_both_described"].format(moves=moves)
    title = words["over_both"].format(x=named[0], y=named[1])
    return Drawing(width, bottom + 42, title, text, tuple(marks))


def nodes(plane: Map, features: tuple[Numeric, Numeric]) -> tuple[tuple[Floats, Floats], list[Floats]]:
    """Grid coordinates and leads (y, x) of both classes; consecutive integers become blocks."""
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


def training_points(plane: Map, x_axis: Axis, y_axis: Axis, integer: tuple[bool, bool]) -> list[Mark]:
    """Training rows as points; integers are jittered (R2 sequence), so that they do not overlap."""
    if not plane.points:
        return []
    steps = np.arange(len(plane.points)) * R2_STEP
    x = np.array([p[0] for p in plane.points]) + ((steps % 1) - 0.5) * 0.7 * integer[0]
    y = np.array([p[1] for p in plane.points]) + ((steps * R2_STEP % 1) - 0.5) * 0.7 * integer[1]
    positions = list(zip(x_axis.all(x), y_axis.all(y), strict=True))
    marks: list[Mark] = []
    for side, role in (("original", "old"), ("contrast", "new")):
        shown = [point for point, (*_, of) in zip(positions, plane.points, strict=True) if of == side]
        if shown:
            marks.append(PointCloud(shown, role, 3.0, 0.5))
    return marks


def change_path(a: Point, b: Point) -> list[Mark]:
    """The arrow from the row to its contrast, and the two corners with only one of the changes."""
    corners = [(b[0], a[1]), (a[0], b[1])]
    marks: list[Mark] = [Path(((a, corner, b),), stroke="soft", width=1.2, dashed=True) for corner in corners]
    marks += [Dot(*corner, 3.2, "circle", "paper", "soft", 1.4) for corner in corners]
    return [*marks, *arrow(a, b, width=2), old_marker(*a, 6), new_marker(*b, 7.5)]


def class_label(
    word: str,
    role: str,
    lead: Floats,
    nodes: tuple[Floats, Floats],
    box: tuple[float, float, float, float],
    ends: tuple[Point, Point],
) -> Text | None:
    """The class's name where it leads, as far as possible from its border and from the path; None if it does not
    fit."""
    left, top, right, bottom = box
    word = fit(word, (right - left) * 0.6, 13, bold=True)
    half = text_width(word, 13, bold=True) / 2
    x, y = np.meshgrid(nodes[0][::NODE_STEP], nodes[1][::NODE_STEP])
    inside = lead[::NODE_STEP, ::NODE_STEP] >= 0
    fits = inside & (x - half > left + 3) & (x + half < right - 3) & (y - 14 > top) & (y + 8 < bottom)
    if not fits.any():
        return None
    clearance = np.full(int(fits.sum()), np.inf)
    for share in np.linspace(0, 1, 12):
        spot = [a + share * (b - a) for a, b in zip(*ends, strict=True)]
        clearance = np.minimum(clearance, np.hypot((x[fits] - spot[0]) * 0.6, y[fits] - spot[1]))
    if not inside.all():
        far = np.hypot((x[fits][:, None] - x[~inside]) * 0.5, y[fits][:, None] - y[~inside])
        clearance = np.minimum(clearance, 1.4 * far.min(axis=1))
    best = int(clearance.argmax())
    return Text(float(x[fits][best]), float(y[fits][best]) + 4, word, 13, role, "middle", True, True)


Shape = tuple[Point, ...]

LEVEL = -float(np.finfo(float).tiny)  # contourpy fills above the level; 0 is inside


def region(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """Polygons where `values` (y, x), interpolated linearly between the nodes, are at least 0. Holes have the opposite
    orientation, which the nonzero rule of SVG and matplotlib leaves empty."""
    filled: Any = contour_generator(x, y, _finite(values), fill_type=FillType.OuterOffset).filled(LEVEL, np.inf)
    return [_shape(points[a : b - 1]) for points, offsets in zip(*filled, strict=True) for a, b in pairwise(offsets)]


def border(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """The contour lines at 0."""
    lines: Any = contour_generator(x, y, _finite(values), line_type=LineType.Separate).lines(LEVEL)
    return [_shape(line) for line in lines]


def blocks(nodes: Floats, values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Two nodes per integer, half a unit to each side, with the same value."""
    ends = np.stack([nodes - 0.5, nodes + 0.5], axis=1).ravel()
    return ends, np.repeat(values, 2, axis=axis)


def _finite(values: Floats) -> Floats:
    """Infinite values clipped, since contourpy omits the cells around them."""
    return np.clip(values, -1e300, 1e300)


def _shape(points: Floats) -> Shape:
    return tuple((x, y) for x, y in points.tolist())
