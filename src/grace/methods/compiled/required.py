"""What answers have to satisfy beyond the goal, in compiled code: linear rules, and ellipsoids of typical rows.

Both are functions of the row alone. The values of some linear functions are updated with every change of a feature, as
the first layer is, and stand after the scores (see `Linear`): the slack of each rule, which must not be negative, then
for each class the coordinates in which its ellipsoid is the unit ball. After these is room for one number per class,
how far the row is within the ellipsoid of that class, and one for the rules.

Along a number a slack is linear and a squared distance is a quadratic, so that the values that satisfy everything are
an interval, computed in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from grace.models.compiled import Bools, Floats, Ints, Layers, compiled, first_layer, forward, inlined
from grace.models.compiled import move_feature as move_units
from grace.problem.requirements.consequences import REPAIR
from grace.schema.rules.keeping import MIN_VIOLATION

SLACK = 2.5e-10  # in spreads: how far below zero rounding may take the slack of a rule that holds
F = TypeVar("F", bound=Callable[..., object])


class Linear(NamedTuple):
    """Linear functions of a row beside the scores of a network (`Layers.linear`)."""

    group: int  # scores of each network, where several of them stand side by side
    factors: Floats  # (features, e)
    tables: Floats  # (entries, e) what each category adds
    bias: Floats  # (e,)


class Required(NamedTuple):
    """Requirements of n rows (`CompiledGoal.required`)."""

    functions: int  # linear ones, whose values stand after the scores
    classes: int  # of each network that count: 1 for a RANGE
    networks: int  # that have to reach the goal; their scores stand side by side
    low: Floats  # (n, networks) of a RANGE
    high: Floats
    shift: Floats  # (networks, classes) what probabilities add to the scores
    active: Bools  # (n, rules) which rules apply
    own: Floats  # (n, rules) the slack of a row that breaks a rule, which applies to it once a feature of it changes
    known: Bools  # (classes,) which have an ellipsoid; empty if none is asked for
    wanted: Ints  # (n,) the class whose ellipsoid counts for a RANGE


class Line(NamedTuple):
    """How requirements change along a number, as functions of the distance from the row's value; one set per thread
    (`Lines.required`)."""

    slack: Floats  # (2, rules) constant and slope
    square: Floats  # (3, classes) of the distance to each class: constant, half the linear and the quadratic factor
    least: Floats  # (classes,) the interval of distances at which everything is satisfied, for each class or the range;
    most: Floats  # empty if this is smaller
    rooms: Floats  # (classes + 1,)
    near: Floats  # (BEAM, d) the nearest value of each feature with which a state of the beam reaches the goal,
    price: Floats  # and what it costs; infinite if there is none
    top: Floats  # (2 BEAM,) the best margins of a level, falling


def variant(function: F, **parts: object) -> F:
    """The source of a compiled function with other functions in place of some that it calls, to be compiled anew: the
    search without requirements is not aware of them."""
    source = cast(Any, function).py_func
    made = FunctionType(source.__code__, {**source.__globals__, **parts}, source.__name__, source.__defaults__)
    made.__qualname__ = f"{source.__qualname__}_required"  # under which the machine code is cached
    return cast(F, made)


def room_for(classes: int) -> int:
    """How many numbers stand after the linear functions of a row."""
    return classes + 1


def line_of(rules: int, classes: int, beam: int, d: int) -> Line:
    """Room for the lines of so many rules, classes, states of a beam and features."""
    return Line(
        slack=np.empty((2, rules)),
        square=np.empty((3, classes)),
        least=np.empty(classes),
        most=np.empty(classes),
        rooms=np.empty(room_for(classes)),
        near=np.empty((beam, d)),
        price=np.empty((beam, d)),
        top=np.empty(2 * beam),
    )


@inlined
def room_of_slacks(violation: float) -> float:
    """The margin of all rules together: infinite if they hold, else the violation, negative and weighted."""
    return -REPAIR * violation if violation > 0.0 else np.inf


@inlined
def is_broken(required: Required, i: int, r: int, slack: float) -> bool:
    """Whether a slack is that of a broken rule that applies: not to a row that broke it as much from the start. Several
    changes that leave the slack as it was count as none here; the models, which confirm every answer, know better."""
    return required.active[i, r] and slack < -SLACK and abs(slack - required.own[i, r]) > SLACK


@compiled
def rooms_of_row(required: Required, i: int, values: Floats, tail: int) -> int:
    """How far a row, the values of whose linear functions begin at `tail`, is within the ellipsoids, then its margin of
    the rules, written behind them. Returns where."""
    rules, classes = required.active.shape[1], len(required.known)
    begin, violation = tail + required.functions, 0.0
    for r in range(rules):
        slack = values[tail + r]
        if is_broken(required, i, r, slack):
            violation += max(-slack, MIN_VIOLATION)
    size = (required.functions - rules) // classes if classes > 0 else 0
    for k in range(classes):
        square = 0.0
        for u in range(tail + rules + k * size, tail + rules + (k + 1) * size):
            square += values[u] * values[u]
        values[begin + k] = 1.0 - np.sqrt(square) if required.known[k] else -1e9
    values[begin + classes] = room_of_slacks(violation)
    return begin


@compiled
def rooms_on_line(required: Required, i: int, place: float, line: Line) -> None:
    """The same at a distance from the row's value on a line."""
    classes, violation = len(required.known), 0.0
    for r in range(required.active.shape[1]):
        slack = line.slack[0, r] + line.slack[1, r] * place
        if is_broken(required, i, r, slack):
            violation += max(-slack, MIN_VIOLATION)
    for k in range(classes):
        square = line.square[0, k] + place * (2.0 * line.square[1, k] + place * line.square[2, k])
        line.rooms[k] = 1.0 - np.sqrt(max(square, 0.0)) if required.known[k] else -1e9
    line.rooms[classes] = room_of_slacks(violation)


@compiled
def follow_requirements(
    required: Required, net: Layers, i: int, j: int, start: Floats, direction: float, tolerance: float, line: Line
) -> None:
    """Prepare the line of number j in a direction, from a row whose layers and linear functions are `start`: for each
    class, or the range, the interval in which rules hold, and the row is inside of the ellipsoid by a tolerance."""
    tail, factors = net.units[-1], net.linear.factors[j]
    rules, classes = required.active.shape[1], len(required.known)
    least, most = -np.inf, np.inf
    for r in range(rules):
        slack, slope = start[tail + r], direction * factors[r]
        line.slack[0, r], line.slack[1, r] = slack, slope
        if required.active[i, r]:
            if slope > 0.0:
                least = max(least, -slack / slope)
            elif slope < 0.0:
                most = min(most, -slack / slope)
            elif is_broken(required, i, r, slack):
                least, most = np.inf, -np.inf
    size = (len(factors) - rules) // classes if classes > 0 else 0
    for k in range(classes):
        constant, linear, quadratic = 0.0, 0.0, 0.0
        for u in range(rules + k * size, rules + (k + 1) * size):
            value, factor = start[tail + u], direction * factors[u]
            constant += value * value
            linear += value * factor
            quadratic += factor * factor
        line.square[0, k], line.square[1, k], line.square[2, k] = constant, linear, quadratic
    for k in range(required.classes):
        line.least[k], line.most[k] = least, most
        if classes > 0:
            at = k if required.classes > 1 else required.wanted[i]
            first, last = inside_ball(line.square[0, at], line.square[1, at], line.square[2, at], 1.0 - tolerance)
            line.least[k], line.most[k] = max(least, first), min(most, last)
            if not required.known[at]:
                line.least[k], line.most[k] = np.inf, -np.inf


@compiled
def inside_ball(constant: float, linear: float, quadratic: float, radius: float) -> tuple[float, float]:
    """Where constant + 2 linear t + quadratic t² is at most a squared radius; the first is larger if nowhere."""
    beyond = constant - radius * radius
    if quadratic <= 0.0:
        return (-np.inf, np.inf) if beyond <= 0.0 else (np.inf, -np.inf)
    inner = linear * linear - quadratic * beyond
    if inner < 0.0:
        return np.inf, -np.inf
    # the root of larger size first, without cancellation, and the other by their product
    one = -linear - np.sqrt(inner) if linear > 0.0 else -linear + np.sqrt(inner)
    two = beyond / one if one != 0.0 else 0.0
    one /= quadratic
    return min(one, two), max(one, two)


@inlined
def cut_piece(line: Line, k: int, near: float, far: float, first: float, last: float) -> tuple[float, float]:
    """The part of a piece of a line, as shares of its length, that is in the interval of target k as well."""
    length = far - near
    first, last = max(first, (line.least[k] - near) / length), min(last, (line.most[k] - near) / length)
    return (first, last) if first <= last else (1.0, 0.0)


@compiled
def linear_after_move(net: Layers, start: Floats, j: int, old: float, new: float, out: Floats, at: int) -> None:
    """The values of the linear functions of a row, whose layers and linear functions are `start`, after feature j moves
    from an old value to a new one, written from a place on."""
    count, begin = len(net.linear.bias), net.begins[j]
    own = start[net.units[-1] : net.units[-1] + count]
    if begin >= 0:
        before, after = net.linear.tables[begin + np.int64(old)], net.linear.tables[begin + np.int64(new)]
        for u in range(count):
            out[at + u] = own[u] + (after[u] - before[u])
    else:
        step, factors = new - old, net.linear.factors[j]
        for u in range(count):
            out[at + u] = own[u] + step * factors[u]


@compiled
def activate(net: Layers, row: Floats, values: Floats) -> None:
    """The pre-activations of all layers of a row, then the scores, then the values of its linear functions."""
    first_layer(net, row, values)
    forward(net, values)
    linear = net.linear
    out = values[net.units[-1] : net.units[-1] + len(linear.bias)]
    for u in range(len(out)):
        out[u] = linear.bias[u]
    for j in range(len(row)):
        begin = net.begins[j]
        if begin >= 0:
            entry = linear.tables[begin + np.int64(row[j])]
            for u in range(len(out)):
                out[u] += entry[u]
        else:
            factors = linear.factors[j]
            for u in range(len(out)):
                out[u] += row[j] * factors[u]


@compiled
def move_feature(net: Layers, values: Floats, j: int, old: float, new: float) -> None:
    """Update the pre-activations of the first layer, and the linear functions, for a new value of one feature."""
    move_units(net, values, j, old, new)
    linear_after_move(net, values, j, old, new, values, net.units[-1])


@inlined
def copy_row(net: Layers, values: Floats, out: Floats) -> None:
    """Copy the first layer of a row, and the values of its linear functions."""
    for u in range(net.widths[0]):
        out[u] = values[u]
    for u in range(net.units[-1], net.units[-1] + len(net.linear.bias)):
        out[u] = values[u]
