"""Regions and borders on a grid of values, by contourpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from contourpy import FillType, LineType, contour_generator

from grace.pictures.drawing import Point
from grace.schema.features import Floats

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
