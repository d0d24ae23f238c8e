"""W_Local in compiled code: the q nearest training rows of each class, a logistic model of them, and what it says of
each feature. `methods.ranking.local` is the same in tensor operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Columns, Table
from grace.methods.compiled.logistic import LogisticFit, fit_logistic, logistic_fit
from grace.models.compiled import Floats, Ints, compiled, dot, inlined

BLOCK = 256  # training rows whose distances are worked out together


class Background(NamedTuple):
    """Training rows (m, d) and what the model says of them."""

    cells: Floats  # (d, m) numbers and ordered categories in spreads, others as codes
    label: Ints  # (m,) classes
    shares: Floats  # (m, classes) probabilities
    number: Floats  # (m,) predicted numbers; empty if the model predicts classes
    points: Floats  # (m, p) the coordinates of `Space.euclidean`
    places: Ints  # (d,) where those of each feature begin


class LocalWork(NamedTuple):
    """Arrays to work with, one set per thread; M is q times the number of classes."""

    far: Floats  # (classes, q) squared distances of the nearest rows of each class, in rising order,
    near: Ints  # (classes, q) which they are,
    found: Ints  # (classes,) and how many
    square: Floats  # (BLOCK,)
    centred: Floats  # (M, p) coordinates around their mean
    weight: Floats  # (p,)
    fit: LogisticFit


def local_work(p: int, classes: int, q: int) -> LocalWork:
    size = classes * q
    return LocalWork(
        far=np.empty((classes, q)),
        near=np.empty((classes, q), dtype=np.int64),
        found=np.empty(classes, dtype=np.int64),
        square=np.empty(BLOCK),
        centred=np.empty((size, p)),
        weight=np.empty(p),
        fit=logistic_fit(classes, size),
    )


@compiled
def local_worth(
    goal: CompiledGoal, columns: Columns, table: Table, background: Background, i: int, toward: Floats,
    tolerance: float, worth: Floats, work: LocalWork,
) -> None:  # fmt: skip
    """What each feature could bring within its range by the local model of row i. `toward` (classes,) is how the margin
    depends on the scores; of two classes, or two sides of a range of numbers, on that of the second."""
    x, fit = table.rows[i], work.fit
    nearest_rows(goal, columns, background, i, x, tolerance, work)
    count = centred_points(goal, background, i, work)
    fit_logistic(fit, count)
    weight = work.weight
    for t in range(len(weight)):
        weight[t] = 0.0
    for point in range(count):
        share = 0.0
        if len(toward) == 1:
            share = toward[0] * (fit.a[1, point] - fit.a[0, point])
        else:
            for k in range(len(toward)):
                share += toward[k] * fit.a[k, point]
        row = work.centred[point]
        for t in range(len(weight)):
            weight[t] += share * row[t]
    for j in range(len(x)):
        place, spread = background.places[j], columns.spread[j]
        first, last = columns.begins[j], columns.begins[j + 1]
        if first == last:
            slope = weight[place] / spread
            worth[j] = max(slope * (table.high[i, j] - x[j]), slope * (table.low[i, j] - x[j]))
            continue
        worth[j] = -np.inf
        for c in range(first, last):
            code = columns.choices[c]
            if columns.magnitude[j]:  # ordered categories have one coordinate, their rank
                brings = weight[place] * (code - x[j]) / spread
            else:
                brings = weight[place + np.int64(code)] - weight[place + np.int64(x[j])]
            worth[j] = max(worth[j], brings)


@inlined
def nearest_rows(
    goal: CompiledGoal, columns: Columns, background: Background, i: int, x: Floats, tolerance: float, work: LocalWork
) -> None:
    """The q training rows of each class nearest to row i, equal ones by index; of a predicted number, of those that
    reach the goal and those that do not."""
    rows, q = background.cells.shape[1], work.far.shape[1]
    for k in range(len(work.found)):
        work.found[k] = 0
    for begin in range(0, rows, BLOCK):
        end = min(begin + BLOCK, rows)
        square = work.square[: end - begin]
        for r in range(len(square)):
            square[r] = 0.0
        for j in range(len(x)):
            column = background.cells[j, begin:end]
            if columns.magnitude[j]:
                cell = x[j] / columns.spread[j]
                for r in range(len(square)):
                    square[r] += (column[r] - cell) ** 2
            else:
                for r in range(len(square)):
                    square[r] += 1.0 if column[r] != x[j] else 0.0
        for r in range(len(square)):
            if len(background.number) > 0:
                label = np.int64(margin_at(goal, i, background.number, begin + r, 1) >= tolerance)
            else:
                label = background.label[begin + r]
            far, near, count = work.far[label], work.near[label], work.found[label]
            if count < q or square[r] < far[q - 1]:
                place = min(count, q - 1)
                while place > 0 and far[place - 1] > square[r]:
                    far[place], near[place] = far[place - 1], near[place - 1]
                    place -= 1
                far[place], near[place] = square[r], begin + r
                work.found[label] = min(count + 1, q)


@inlined
def centred_points(goal: CompiledGoal, background: Background, i: int, work: LocalWork) -> int:
    """The coordinates of the nearest rows around their mean, their Gram matrix and their labels; returns how many."""
    fit, weight, count = work.fit, work.weight, 0
    for t in range(len(weight)):
        weight[t] = 0.0
    for k in range(len(work.found)):
        for place in range(work.found[k]):
            row = work.near[k, place]
            point, out = background.points[row], work.centred[count]
            for t in range(len(weight)):
                out[t] = point[t]
                weight[t] += point[t]
            if len(background.number) > 0:
                share = 1.0 / (1.0 + np.exp(-2.0 * margin_at(goal, i, background.number, row, 1)))
                fit.y[0, count], fit.y[1, count] = 1.0 - share, share
            else:
                for c in range(len(fit.y)):
                    fit.y[c, count] = background.shares[row, c]
            count += 1
    for point in range(count):
        out = work.centred[point]
        for t in range(len(weight)):
            out[t] -= weight[t] / count
        for other in range(point + 1):
            fit.gram[point, other] = fit.gram[other, point] = dot(out, work.centred[other])
    return count
