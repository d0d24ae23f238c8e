"""Regions and borders on a grid of values, by marching squares."""

from __future__ import annotations

import numpy as np

from grace.pictures.drawing import Point
from grace.schema.features import Floats

Shape = tuple[Point, ...]


def region(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """Shapes that together cover where `values` (y, x), read linearly between the nodes, are at least 0.
    They do not overlap."""
    inside = values >= 0
    count = inside[:-1, :-1].astype(int) + inside[:-1, 1:] + inside[1:, :-1] + inside[1:, 1:]
    shapes: list[Shape] = []
    plain, xs, ys = values.tolist(), x.tolist(), y.tolist()
    turns = np.argwhere(np.diff(np.pad(count == 4, ((0, 0), (1, 1))).astype(int), axis=1)).tolist()
    for (i, a), (_, b) in zip(turns[::2], turns[1::2], strict=True):  # runs of cells that are inside altogether
        shapes.append(((xs[a], ys[i]), (xs[b], ys[i]), (xs[b], ys[i + 1]), (xs[a], ys[i + 1])))
    mixed = np.argwhere((count > 0) & (count < 4)).tolist()
    return shapes + [_part(plain, xs, ys, i, j)[0] for i, j in mixed]


def border(values: Floats, x: Floats, y: Floats) -> list[Shape]:
    """Short lines that together are where `values` cross 0."""
    inside = values >= 0
    count = inside[:-1, :-1].astype(int) + inside[:-1, 1:] + inside[1:, :-1] + inside[1:, 1:]
    lines: list[Shape] = []
    plain, xs, ys = values.tolist(), x.tolist(), y.tolist()
    for i, j in np.argwhere((count > 0) & (count < 4)).tolist():
        crossings = _part(plain, xs, ys, i, j)[1]
        if not inside[i, j]:  # the outline was entered first: begin where it is left
            crossings = (*crossings[1:], crossings[0])
        lines += [crossings[k : k + 2] for k in range(0, len(crossings), 2)]
    return lines


def blocks(nodes: Floats, values: Floats, axis: int) -> tuple[Floats, Floats]:
    """Whole numbers stand for blocks a unit wide: nodes at both ends of each, with the same value."""
    ends = np.stack([nodes - 0.5, nodes + 0.5], axis=1).ravel()
    return ends, np.repeat(values, 2, axis=axis)


def _part(values: list[list[float]], x: list[float], y: list[float], i: int, j: int) -> tuple[Shape, Shape]:
    """The part of one cell that is inside, and the points where its outline crosses 0."""
    corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
    shape: list[Point] = []
    crossings: list[Point] = []
    for k, (p, q) in enumerate(corners):
        r, s = corners[(k + 1) % 4]
        a, b = values[p][q], values[r][s]
        if a >= 0:
            shape.append((x[q], y[p]))
        if (a >= 0) != (b >= 0):
            t = a / (a - b)
            crossing = (x[q] + t * (x[s] - x[q]), y[p] + t * (y[r] - y[p]))
            shape.append(crossing)
            crossings.append(crossing)
    return tuple(shape), tuple(crossings)
