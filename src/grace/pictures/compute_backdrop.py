"""Computes the backdrop of an explanation from the explainer's model and background rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from grace.models.base import checked_scores
from grace.pictures.backdrop import SIDES, Backdrop, Curve, Histogram, Map
from grace.schema.features import Bools, Categorical, Feature, Floats, Numeric
from grace.text.vocabulary import Range, depth_inside

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.schema.schema import Schema

BINS = 30
CURVE_QUERIES, CURVE_POINTS = 241, 61  # points of a curve at which the model is queried, and those stored
GRID_SIZE = 40
MAX_POINTS = 300


def compute_backdrop(
    explainer: Explainer,
    schema: Schema,
    row: Floats,
    contrast: Floats,
    classes: tuple[int, int],
    features: Sequence[int],
    asked_for: Range | None = None,
    leads_to: Callable[[Floats], Floats] | None = None,
) -> Backdrop:
    """The backdrop of the encoded pair (x, x̃) for two classes and some of the changed features, by one model query.

    For regression, `asked_for` divides rows into two classes: outside and inside the target range. `leads_to` maps
    varied rows to those that result where other features depend on the changed ones."""
    changed = sorted(features)
    numeric = [j for j in changed if isinstance(schema.features[j], Numeric)]
    spans = {j: span(schema.features[j], row[j], contrast[j]) for j in changed}
    lines = {j: grid_values(schema.features[j], *spans[j], CURVE_QUERIES) for j in changed}
    queries = [vary(contrast, [j], [values]) for j, values in lines.items()]
    grid: list[Floats] = []
    if len(changed) == len(numeric) == np.count_nonzero(row != contrast) == 2:
        grid = [grid_values(schema.features[j], *spans[j], GRID_SIZE) for j in changed]
        across = [np.tile(grid[0], len(grid[1])), np.repeat(grid[1], len(grid[0]))]
        queries.append(vary(contrast, changed, across))
    model = explainer.model
    model.refresh()
    query = np.concatenate(queries) if leads_to is None else leads_to(np.concatenate(queries))
    tensor = torch.as_tensor(query, dtype=torch.float64, device=model.device)
    scores = np.asarray(checked_scores(model, tensor).cpu().numpy())
    if asked_for is not None:
        numbers = scores[:, [0]]
        shown, classes, scores = np.hstack([numbers, numbers]), (0, 1), range_scores(scores, asked_for)
    else:
        shown = model.probabilities(scores) if model.has_probabilities else np.empty((len(scores), 0))
    ends = np.cumsum([len(a) for a in queries])[:-1]
    parts, shown_parts = np.split(scores, ends), np.split(shown, ends)
    curves = {
        schema.names[j]: curve(schema.features[j], lines[j], part, shown_part, classes)
        for j, part, shown_part in zip(changed, parts[: len(changed)], shown_parts[: len(changed)], strict=True)
    }
    rows, given = explainer.background_rows, explainer.background_scores()
    if given is not None and asked_for is not None:
        given = range_scores(given, asked_for)
    sides = None if given is None else [given.argmax(axis=1) == c for c in classes]
    histograms: dict[str, Histogram] = {}
    if rows is not None and sides is not None:
        for j in changed:
            counts = [histogram(schema.features[j], rows[side, j], *spans[j]) for side in sides]
            histograms[schema.names[j]] = Histogram(counts[0][0], counts[0][1], counts[1][1])
    plane = None
    if grid:
        map_points = [] if rows is None or sides is None else points(rows[:, changed], sides, grid)
        names = (schema.names[changed[0]], schema.names[changed[1]])
        plane = map_of(names, grid, parts[-1], classes, map_points)
    row_counts = None if sides is None else (int(sides[0].sum()), int(sides[1].sum()))
    return Backdrop(row_counts, histograms, curves, plane)


def range_scores(scores: Floats, asked_for: Range) -> Floats:
    """Predicted numbers (n, 1) as scores (n, 2) of the classes outside and inside the target range."""
    margin = depth_inside(scores[:, 0], asked_for)
    return np.stack([np.zeros(len(margin)), margin + 1e-12], axis=1)


def vary(row: Floats, features: list[int], values: list[Floats]) -> Floats:
    """Copies of a row with these columns of values in these features."""
    rows = np.repeat(row[None], len(values[0]), axis=0)
    for j, column in zip(features, values, strict=True):
        rows[:, j] = column
    return rows


def span(feature: Feature, old: float, new: float) -> tuple[float, float]:
    """The interval that a picture of a feature shows: its domain, extended to the old and the new value."""
    if isinstance(feature, Categorical):
        return 0.0, len(feature.categories) - 1.0
    ends = [v for v in feature.bounds if np.isfinite(v)] + [old, new]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = low - 1, high + 1
    return low, high


def grid_values(feature: Feature, low: float, high: float, max_n: int) -> Floats:
    """At most `max_n` evenly spaced values from low to high; integers are rounded, categories are all included."""
    if isinstance(feature, Categorical):
        return np.arange(len(feature.categories), dtype=np.float64)
    if not feature.integer:
        return np.linspace(low, high, max_n)
    low, high = np.floor(low), np.ceil(high)
    return np.unique(np.round(np.linspace(low, high, min(max_n, int(high - low) + 1))))


def curve(feature: Feature, values: Floats, scores: Floats, shown: Floats, classes: tuple[int, int]) -> Curve:
    """The curve of one feature from scores (n, classes) at `values` (n,). `shown` holds probabilities or predicted
    numbers (n, classes), or nothing (n, 0)."""
    known = shown.shape[1] > 0
    rest = np.delete(shown, list(classes), axis=1) if known else shown
    other = rest.max(axis=1) if rest.shape[1] else np.zeros(len(values))
    discrete = isinstance(feature, Categorical) or bool(feature.integer)
    max_n = len(values) if isinstance(feature, Categorical) else min(CURVE_POINTS, len(values))
    kept = np.unique(np.round(np.linspace(0, len(values) - 1, max_n)).astype(int))
    return Curve(
        values=tuple(values[kept].tolist()),
        original=tuple(shown[kept, classes[0]].tolist()) if known else (),
        contrast=tuple(shown[kept, classes[1]].tolist()) if known else (),
        other=tuple(other[kept].tolist()) if known else (),
        stretches=stretches(values, scores, classes, halfway=discrete),
    )


def stretches(
    values: Floats, scores: Floats, classes: tuple[int, int], halfway: bool
) -> tuple[tuple[float, float, str], ...]:
    """Intervals (start, stop, side) of constant predicted class. A border between two values is interpolated linearly
    in the scores; with `halfway`, it is the midpoint."""
    best = scores.argmax(axis=1)
    out: list[tuple[float, float, str]] = []
    start = float(values[0])
    for i in [*np.flatnonzero(best[1:] != best[:-1]).tolist(), len(best) - 1]:
        a, stop = best[i], float(values[i])
        if i < len(best) - 1:
            b = best[i + 1]
            here, there = scores[i, a] - scores[i, b], scores[i + 1, b] - scores[i + 1, a]
            share = 0.5 if halfway or here + there <= 0 else here / (here + there)
            stop = float(values[i] + share * (values[i + 1] - values[i]))
        side = SIDES[classes.index(a)] if a in classes else "other"
        if out and out[-1][2] == side:  # adjacent intervals of different other classes
            out[-1] = (out[-1][0], stop, side)
        else:
            out.append((start, stop, side))
        start = stop
    return tuple(out)


def histogram(feature: Feature, values: Floats, low: float, high: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Bin edges and counts; values beyond the edges count in the outer bins, missing cells do not."""
    if isinstance(feature, Categorical):
        counts = np.bincount(values.astype(int), minlength=len(feature.categories))
        return (), tuple(counts.tolist())
    if feature.integer:
        low, high = np.floor(low), np.ceil(high)
        width = np.ceil((high - low + 1) / BINS)
        edges = low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1)
    else:
        edges = np.linspace(low, high, BINS + 1)
    values = values[values != feature.missing_code]
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return tuple(edges.tolist()), tuple(np.bincount(bins, minlength=len(edges) - 1).tolist())


def map_of(
    names: tuple[str, str],
    grid: list[Floats],
    scores: Floats,
    classes: tuple[int, int],
    shown: list[tuple[float, float, str]],
) -> Map:
    """The map of both classes' leads: the class's score minus the largest other score, on the grid (y, x)."""
    leads = []
    for c in classes:
        lead = scores[:, c] - np.delete(scores, c, axis=1).max(axis=1)
        leads.append(tuple(map(tuple, lead.reshape(len(grid[1]), len(grid[0])).tolist())))
    return Map(names, tuple(grid[0].tolist()), tuple(grid[1].tolist()), leads[0], leads[1], tuple(shown))


def points(rows: Floats, sides: list[Bools], grid: list[Floats]) -> list[tuple[float, float, str]]:
    """At most MAX_POINTS training rows of both classes inside the grid, as (x, y, side), evenly thinned."""
    inside = np.all([(rows[:, i] >= g[0]) & (rows[:, i] <= g[-1]) for i, g in enumerate(grid)], axis=0)
    inside_rows = np.flatnonzero(inside & (sides[0] | sides[1]))
    if len(inside_rows) > MAX_POINTS:
        inside_rows = inside_rows[np.arange(MAX_POINTS) * len(inside_rows) // MAX_POINTS]
    return [(float(rows[i, 0]), float(rows[i, 1]), SIDES[0] if sides[0][i] else SIDES[1]) for i in inside_rows]
