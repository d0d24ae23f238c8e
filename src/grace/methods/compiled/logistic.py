"""Multinomial logistic regression of few points in many coordinates, in compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.models.compiled import Floats, compiled, dot, inlined

NEWTON_STEPS = 30
CONJUGATE_STEPS = 60
HALVINGS = 20
ACCURACY = 1e-5  # of the slope, and so of W, whose curvature is at least 1
TRACE = 1e-9  # b is free but for so much, which picks one of its equivalent values


class LogisticFit(NamedTuple):
    """A logistic regression of M points, W = X' A: per class and point, and per class for the intercept."""

    gram: Floats  # (M, M) X X'
    mean: Floats  # (M,) the mean change of the scores of each point in the current direction
    y: Floats  # (classes, M) the labels,
    p: Floats  # and the probabilities of the model
    a: Floats  # (classes, M); a matrix with the prefix `g` is multiplied by the Gram matrix
    ga: Floats
    rest: Floats
    grest: Floats
    direction: Floats
    gdirection: Floats
    step: Floats
    gstep: Floats
    b: Floats  # (classes,)
    rest_b: Floats
    direction_b: Floats
    step_b: Floats
    curvature_b: Floats


def logistic_fit(classes: int, size: int) -> LogisticFit:
    """Room for so many points."""
    matrices, intercepts = np.empty((10, classes, size)), np.empty((5, classes))
    return LogisticFit(np.empty((size, size)), np.empty(size), *matrices, *intercepts)


@compiled
def fit_logistic(fit: LogisticFit, count: int) -> None:
    """Multinomial logistic regression with soft labels of the first points:

        min_W,b  sum_i CE(y_i, softmax(W x_i + b)) + ||W||^2 / 2        (C = 1, b free)

    by Newton's method with conjugate gradients in W = X' A, whose inner products need the Gram matrix alone."""
    classes = len(fit.b)
    for k in range(classes):
        fit.b[k] = fit.step_b[k] = 0.0
        for i in range(count):
            fit.a[k, i] = fit.ga[k, i] = 0.0
            fit.step[k, i] = fit.gstep[k, i] = 0.0
    before = loss(fit, count, 0.0)
    for _ in range(NEWTON_STEPS):
        slope_of_loss(fit, count)
        square = rest_square(fit, count)
        if square <= ACCURACY**2:
            return
        conjugate_gradients(fit, count, square)
        size, after = 1.0, loss(fit, count, 1.0)
        for _ in range(HALVINGS):
            if after <= before + 1e-12 * abs(before):
                break
            size *= 0.5
            after = loss(fit, count, size)
        if not after <= before + 1e-12 * abs(before):
            return
        move(fit, count, size)
        after = loss(fit, count, 0.0)  # by products that are computed anew: those of the step may have lost all digits
        if not after <= before + 1e-9 * abs(before):
            move(fit, count, -size)
            return
        before = after


@inlined
def move(fit: LogisticFit, count: int, size: float) -> None:
    """Take so much of the step."""
    for k in range(len(fit.b)):
        fit.b[k] += size * fit.step_b[k]
        add(fit.a[k, :count], size, fit.step[k, :count])
        for i in range(count):
            fit.ga[k, i] = dot(fit.gram[i, :count], fit.a[k, :count])


@inlined
def slope_of_loss(fit: LogisticFit, count: int) -> None:
    """The probabilities, and the slope of the loss downwards, as what is left to solve for."""
    classes = len(fit.b)
    for k in range(classes):
        fit.rest_b[k], fit.curvature_b[k] = -TRACE * fit.b[k], TRACE
    for i in range(count):
        top, total = -np.inf, 0.0
        for k in range(classes):
            top = max(top, fit.ga[k, i] + fit.b[k])
        for k in range(classes):
            fit.p[k, i] = np.exp(fit.ga[k, i] + fit.b[k] - top)
            total += fit.p[k, i]
        for k in range(classes):
            p = fit.p[k, i] / total
            wrong = fit.y[k, i] - p
            fit.p[k, i], fit.rest[k, i] = p, wrong - fit.a[k, i]
            fit.rest_b[k] += wrong
            fit.curvature_b[k] += p * (1.0 - p)


@compiled
def rest_square(fit: LogisticFit, count: int) -> float:
    """The squared length of what is left to solve for, that of the intercepts in units of their curvature."""
    total = 0.0
    for k in range(len(fit.b)):
        rest, out = fit.rest[k, :count], fit.grest[k, :count]
        for i in range(count):
            out[i] = 0.0
        for i in range(0, count - 3, 4):  # four at a time, which reads and writes `out` less often
            one, two = fit.gram[i, :count], fit.gram[i + 1, :count]
            three, four = fit.gram[i + 2, :count], fit.gram[i + 3, :count]
            a, b, c, d = rest[i], rest[i + 1], rest[i + 2], rest[i + 3]
            for t in range(count):
                out[t] += (a * one[t] + b * two[t]) + (c * three[t] + d * four[t])
        for i in range(count - count % 4, count):
            one, a = fit.gram[i, :count], rest[i]
            for t in range(count):
                out[t] += a * one[t]
        total += dot(rest, out)
        total += fit.rest_b[k] ** 2 / fit.curvature_b[k]
    return total


@inlined
def conjugate_gradients(fit: LogisticFit, count: int, square: float) -> None:
    """A Newton step, more precise the smaller the slope is: far from the solution it need not be exact. `square` is the
    squared length of what is left to solve for."""
    classes = len(fit.b)
    goal = max(square * min(np.sqrt(square), 1e-2), 1e-4 * ACCURACY**2)
    for k in range(classes):
        fit.step_b[k], fit.direction_b[k] = 0.0, fit.rest_b[k] / fit.curvature_b[k]
        for i in range(count):
            fit.step[k, i] = fit.gstep[k, i] = 0.0
            fit.direction[k, i], fit.gdirection[k, i] = fit.rest[k, i], fit.grest[k, i]
    for _ in range(CONJUGATE_STEPS):
        bend = curvature(fit, count)
        if not bend > 0.0:  # rounding is all that is left
            return
        length = square / bend
        for k in range(classes):
            add(fit.step[k, :count], length, fit.direction[k, :count])
            add(fit.gstep[k, :count], length, fit.gdirection[k, :count])
            add(fit.rest[k, :count], -length, fit.direction[k, :count])
            rest, p, changes, mean = fit.rest[k, :count], fit.p[k, :count], fit.gdirection[k, :count], fit.mean[:count]
            shift, total = fit.direction_b[k], 0.0
            for i in range(count):
                image = p[i] * (changes[i] + shift - mean[i])
                rest[i] -= length * image
                total += image
            fit.step_b[k] += length * shift
            fit.rest_b[k] -= length * (total + TRACE * shift)
        new = rest_square(fit, count)
        if new <= goal:
            return
        for k in range(classes):
            fit.direction_b[k] = fit.rest_b[k] / fit.curvature_b[k] + new / square * fit.direction_b[k]
            mix(fit.direction[k, :count], new / square, fit.rest[k, :count])
            mix(fit.gdirection[k, :count], new / square, fit.grest[k, :count])
        square = new


@compiled
def add(vector: Floats, factor: float, other: Floats) -> None:
    """vector += factor * other."""
    for i in range(len(vector)):
        vector[i] += factor * other[i]


@compiled
def mix(vector: Floats, factor: float, other: Floats) -> None:
    """vector = factor * vector + other."""
    for i in range(len(vector)):
        vector[i] = factor * vector[i] + other[i]


@inlined
def curvature(fit: LogisticFit, count: int) -> float:
    """The curvature of the loss in the current direction; the mean change of the scores of each point, weighted by the
    probabilities, is left in `mean`."""
    mean, total = fit.mean[:count], 0.0
    for i in range(count):
        mean[i] = 0.0
    for k in range(len(fit.b)):
        p, changes, shift = fit.p[k, :count], fit.gdirection[k, :count], fit.direction_b[k]
        for i in range(count):
            mean[i] += p[i] * (changes[i] + shift)
    for k in range(len(fit.b)):
        p, towards, changes = fit.p[k, :count], fit.direction[k, :count], fit.gdirection[k, :count]
        shift = fit.direction_b[k]
        for i in range(count):
            total += p[i] * (changes[i] + shift - mean[i]) ** 2 + towards[i] * changes[i]
        total += TRACE * shift**2
    return total


@compiled
def loss(fit: LogisticFit, count: int, size: float) -> float:
    """The loss after so much of the step."""
    total = 0.0
    for i in range(count):
        top, mass, score, weight = -np.inf, 0.0, 0.0, 0.0
        for k in range(len(fit.b)):
            top = max(top, fit.ga[k, i] + fit.b[k] + size * (fit.gstep[k, i] + fit.step_b[k]))
        for k in range(len(fit.b)):
            value = fit.ga[k, i] + fit.b[k] + size * (fit.gstep[k, i] + fit.step_b[k])
            mass += np.exp(value - top)
            score += fit.y[k, i] * value
            weight += fit.y[k, i]
            total += 0.5 * (fit.a[k, i] + size * fit.step[k, i]) * (fit.ga[k, i] + size * fit.gstep[k, i])
        total += weight * (top + np.log(mass)) - score
    for k in range(len(fit.b)):
        total += 0.5 * TRACE * (fit.b[k] + size * fit.step_b[k]) ** 2
    return total
