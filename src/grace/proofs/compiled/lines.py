"""Proofs about single changes, by the exact lines of each feature, in compiled code.

Along one feature the functionals are linear between breakpoints (`models.compiled_lines`), so that no branch and bound
is needed: a piece contains an answer only if all functionals of a group are at least 0 somewhere on it. A proof takes
all of them to be larger by what rounding may have cost, which grows with the units that switch on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grace.methods.compiled.goal import clip
from grace.methods.compiled.lines import Columns, Table
from grace.models.compiled import Floats, Layers, compiled, forward, inlined
from grace.models.compiled_lines import Scratch, bound_line, scratch, walk
from grace.proofs.compiled.rows import WAYS, Aims, Search, row_ways

SECTION = 1024  # breakpoints of a line that are followed at a time


class LineWork(NamedTuple):
    """Arrays to work with, one set per thread."""

    scratch: Scratch
    places: Floats  # (P,) breakpoints
    scores: Floats  # (P, classes) there
    stop: Floats  # (units,) pre-activations at the end of a line
    above: Floats  # (classes,) how far scores lie above the chord of a line
    below: Floats  # (classes,)


def line_work(net: Layers) -> LineWork:
    classes = int(net.widths[-1])
    places, scores, stop = np.empty(SECTION), np.empty((SECTION, classes)), np.empty(int(net.units[-1]))
    return LineWork(scratch(net), places, scores, stop, np.empty(classes), np.empty(classes))


@compiled
def is_single_change_excluded(
    net: Layers, columns: Columns, table: Table, aims: Aims, i: int, s: Search, lines: LineWork
) -> bool:
    """Whether the lines of row i prove that no single change reaches the goal. If not, that says nothing."""
    row_ways(net, columns, table, aims, i, 1, s)
    for w in range(s.state[WAYS]):
        if net.begins[s.feature[w]] >= 0:
            excluded = is_category_excluded(net, aims, i, w, s, lines)
        else:
            excluded = is_line_excluded(net, table, aims, i, w, s, lines)
        if not excluded:
            return False
    return True


@compiled
def functional_at(net: Layers, aims: Aims, i: int, q: int, scores: Floats) -> float:
    """The value of a functional for scores; the constants have the biases."""
    plus, minus = aims.plus[i, q], aims.minus[i, q]
    biases = net.biases[net.units[len(net.leak)] - net.widths[0] :]
    value: float = aims.sign[i, q] * (scores[plus] - biases[plus]) + aims.constant[i, q]
    return value - (scores[minus] - biases[minus]) if minus >= 0 else value


@compiled
def is_piece_excluded(net: Layers, aims: Aims, i: int, near: Floats, far: Floats, more: float) -> bool:
    """Whether no point between two, with these scores, has all functionals of a group at least 0, even if rounding has
    cost `more` times the slack."""
    for g in range(len(aims.groups) - 1):
        first, last = 0.0, 1.0
        for q in range(aims.groups[g], aims.groups[g + 1]):
            slack = more * aims.slack[i, q]
            one, two = functional_at(net, aims, i, q, near) + slack, functional_at(net, aims, i, q, far) + slack
            if not (one < 0.0 and two < 0.0):
                first, last = clip(first, last, one, two)
            else:
                first, last = 1.0, 0.0
                break
        if not first > last:
            return False
    return True


@inlined
def is_category_excluded(net: Layers, aims: Aims, i: int, w: int, s: Search, lines: LineWork) -> bool:
    """Whether taking a category is no answer."""
    direction, values = s.directions[s.direction[w]], lines.scratch.values
    for u in range(net.widths[0]):
        values[u] = s.start[u] + direction[u]
    forward(net, values)
    scores = values[net.units[len(net.leak)] :]
    return is_piece_excluded(net, aims, i, scores, scores, 1.0)


@inlined
def is_line_excluded(net: Layers, table: Table, aims: Aims, i: int, w: int, s: Search, lines: LineWork) -> bool:
    """Whether moving a number in one direction is nowhere an answer: by bounds on the whole line, or by its pieces."""
    j = s.feature[w]
    x, hidden = table.rows[i, j], len(net.leak)
    direction = 1.0 if s.far[w] > x else -1.0
    reach, begin = abs(s.far[w] - x), abs(s.near[w] - x)
    step, weights, scores = direction * reach, net.first[j], net.units[hidden]
    for u in range(len(weights)):
        lines.stop[u] = s.start[u] + step * weights[u]
    forward(net, lines.stop)
    bound_line(net, s.start, lines.stop, -1, lines.above, lines.below, lines.scratch)
    if is_line_below(net, aims, i, s.start[scores:], lines.stop[scores:], lines):
        return True
    work, terms, last = lines.scratch, len(table.rows[i]) + net.units[-1], -1
    while True:
        count = walk(net, s.start, j, direction, reach, lines.places, lines.scores, work, last)
        more = max(1.0, work.switches[0] / terms)
        for p in range(count - 1):
            if lines.places[p + 1] >= begin and not is_piece_excluded(
                net, aims, i, lines.scores[p], lines.scores[p + 1], more
            ):
                return False
        if lines.places[count - 1] >= reach:
            return True
        last = count - 1


@inlined
def is_line_below(net: Layers, aims: Aims, i: int, near: Floats, far: Floats, lines: LineWork) -> bool:
    """Whether bounds on a line with these scores at its ends leave no group with all functionals at least 0."""
    left = 0
    for g in range(len(aims.groups) - 1):
        lowest = np.inf
        for q in range(aims.groups[g], aims.groups[g + 1]):
            plus, minus, sign = aims.plus[i, q], aims.minus[i, q], aims.sign[i, q]
            more = sign * (lines.above[plus] if sign > 0.0 else -lines.below[plus])
            more += lines.below[minus] if minus >= 0 else 0.0
            chord = max(functional_at(net, aims, i, q, near), functional_at(net, aims, i, q, far))
            lowest = min(lowest, chord + more + aims.slack[i, q])
        left += not lowest < 0.0
    return left == 0
