"""Looking behind an explanation: its backdrop from the explainer's training rows and model."""

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
FINE, KEPT = 241, 61  # points of a curve that the model is asked about, and those that are kept
GRID = 40
MOST_POINTS = 300


def look(
    explainer: Explainer,
    schema: Schema,
    row: Floats,
    contrast: Floats,
    classes: tuple[int, int],
    features: Sequence[int],
    asked_for: Range | None = None,
    leads_to: Callable[[Floats], Floats] | None = None,
) -> Backdrop:
    """The backdrop of the pair (x, x̃), encoded, between two classes, behind some of the changed features. The
    model is asked once. Where it predicts a number, what was asked for divides the rows into two classes. `leads_to`
    gives the rows that changes lead to where other features follow them."""
    changed = sorted(features)
    numeric = [j for j in changed if isinstance(schema.features[j], Numeric)]
    spans = {j: span(schema.features[j], row[j], contrast[j]) for j in changed}
    lines = {j: along(schema.features[j], *spans[j], FINE) for j in changed}
    asked = [vary(contrast, [j], [values]) for j, values in lines.items()]
    grid: list[Floats] = []
    if len(changed) == len(numeric) == np.count_nonzero(row != contrast) == 2:
        grid = [along(schema.features[j], *spans[j], GRID) for j in changed]
        across = [np.tile(grid[0], len(grid[1])), np.repeat(grid[1], len(grid[0]))]
        asked.append(vary(contrast, changed, across))
    model = explainer.model
    model.refresh()
    shown_rows = np.concatenate(asked) if leads_to is None else leads_to(np.concatenate(asked))
    questions = torch.as_tensor(shown_rows, dtype=torch.float64, device=model.device)
    scores = np.asarray(checked_scores(model, questions).cpu().numpy())
    if asked_for is not None:
        numbers = scores[:, [0]]
        shown, classes, scores = np.hstack([numbers, numbers]), (0, 1), both_sides(scores, asked_for)
    else:
        shown = model.probabilities(scores) if model.has_probabilities else np.empty((len(scores), 0))
    ends = np.cumsum([len(a) for a in asked])[:-1]
    parts, said = np.split(scores, ends), np.split(shown, ends)
    curves = {
        schema.names[j]: curve(schema.features[j], lines[j], part, own, classes)
        for j, part, own in zip(changed, parts[: len(changed)], said[: len(changed)], strict=True)
    }
    rows, given = explainer.background_rows, explainer.background_scores()
    if given is not None and asked_for is not None:
        given = both_sides(given, asked_for)
    sides = None if given is None else [given.argmax(axis=1) == c for c in classes]
    histograms: dict[str, Histogram] = {}
    if rows is not None and sides is not None:
        for j in changed:
            counts = [histogram(schema.features[j], rows[side, j], *spans[j]) for side in sides]
            histograms[schema.names[j]] = Histogram(counts[0][0], counts[0][1], counts[1][1])
    plane = None
    if grid:
        marked = [] if rows is None or sides is None else points(rows[:, changed], sides, grid)
        names = (schema.names[changed[0]], schema.names[changed[1]])
        plane = map_of(names, grid, parts[-1], classes, marked)
    counted = None if sides is None else (int(sides[0].sum()), int(sides[1].sum()))
    return Backdrop(counted, histograms, curves, plane)


def both_sides(scores: Floats, asked_for: Range) -> Floats:
    """Numbers as scores of two classes: not what was asked for, and that."""
    margin = depth_inside(scores[:, 0], asked_for)
    return np.stack([np.zeros(len(margin)), margin + 1e-12], axis=1)


def vary(row: Floats, features: list[int], values: list[Floats]) -> Floats:
    """Copies of a row with some features set."""
    rows = np.repeat(row[None], len(values[0]), axis=0)
    for j, column in zip(features, values, strict=True):
        rows[:, j] = column
    return rows


def span(feature: Feature, old: float, new: float) -> tuple[float, float]:
    """What a picture of a feature shows: its range, and both values."""
    if isinstance(feature, Categorical):
        return 0.0, len(feature.categories) - 1.0
    ends = [v for v in feature.bounds if np.isfinite(v)] + [old, new]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = low - 1, high + 1
    return low, high


def along(feature: Feature, low: float, high: float, most: int) -> Floats:
    """Values of a feature from low to high: every whole number or category if they are few enough."""
    if isinstance(feature, Categorical):
        return np.arange(len(feature.categories), dtype=np.float64)
    if not feature.integer:
        return np.linspace(low, high, most)
    low, high = np.floor(low), np.ceil(high)
    return np.unique(np.round(np.linspace(low, high, min(most, int(high - low) + 1))))


def curve(feature: Feature, values: Floats, scores: Floats, shown: Floats, classes: tuple[int, int]) -> Curve:
    """The model's answers along one feature: which class where, by the scores, and what is shown of them (n, classes):
    probabilities, the numbers that it predicts, or nothing (n, 0)."""
    known = shown.shape[1] > 0
    rest = np.delete(shown, list(classes), axis=1) if known else shown
    other = rest.max(axis=1) if rest.shape[1] else np.zeros(len(values))
    few = isinstance(feature, Categorical) or bool(feature.integer)
    most = len(values) if isinstance(feature, Categorical) else min(KEPT, len(values))
    keep = np.unique(np.round(np.linspace(0, len(values) - 1, most)).astype(int))
    return Curve(
        values=tuple(values[keep].tolist()),
        original=tuple(shown[keep, classes[0]].tolist()) if known else (),
        contrast=tuple(shown[keep, classes[1]].tolist()) if known else (),
        other=tuple(other[keep].tolist()) if known else (),
        stretches=stretches(values, scores, classes, halfway=few),
    )


def stretches(
    values: Floats, scores: Floats, classes: tuple[int, int], halfway: bool
) -> tuple[tuple[float, float, str], ...]:
    """From where to where the model says what. Between two values the border lies where the two scores would
    meet on a straight line; between whole numbers or categories, halfway."""
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
        if out and out[-1][2] == side:  # one other class after another
            out[-1] = (out[-1][0], stop, side)
        else:
            out.append((start, stop, side))
        start = stop
    return tuple(out)


def histogram(feature: Feature, values: Floats, low: float, high: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Limits of the bins and counts; every value is counted, those beyond the ends in the end bins."""
    if isinstance(feature, Categorical):
        counts = np.bincount(values.astype(int), minlength=len(feature.categories))
        return (), tuple(counts.tolist())
    if feature.integer:
        low, high = np.floor(low), np.ceil(high)
        width = np.ceil((high - low + 1) / BINS)
        edges = low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1)
    else:
        edges = np.linspace(low, high, BINS + 1)
    values = values[values != feature.missing_code]  # missing cells lie nowhere
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return tuple(edges.tolist()), tuple(np.bincount(place, minlength=len(edges) - 1).tolist())


def map_of(
    names: tuple[str, str],
    grid: list[Floats],
    scores: Floats,
    classes: tuple[int, int],
    shown: list[tuple[float, float, str]],
) -> Map:
    """Leads of both classes on the grid."""
    leads = []
    for c in classes:
        lead = scores[:, c] - np.delete(scores, c, axis=1).max(axis=1)
        leads.append(tuple(map(tuple, lead.reshape(len(grid[1]), len(grid[0])).tolist())))
    return Map(names, tuple(grid[0].tolist()), tuple(grid[1].tolist()), leads[0], leads[1], tuple(shown))


def points(rows: Floats, sides: list[Bools], grid: list[Floats]) -> list[tuple[float, float, str]]:
    """Training rows of both classes on the map, evenly thinned: each class keeps its share."""
    inside = np.all([(rows[:, i] >= g[0]) & (rows[:, i] <= g[-1]) for i, g in enumerate(grid)], axis=0)
    found = np.flatnonzero(inside & (sides[0] | sides[1]))
    if len(found) > MOST_POINTS:
        found = found[np.arange(MOST_POINTS) * len(found) // MOST_POINTS]
    return [(float(rows[i, 0]), float(rows[i, 1]), SIDES[0] if sides[0][i] else SIDES[1]) for i in found]
