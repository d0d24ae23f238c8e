"""Points of the nodes of a branch and bound, in compiled code: the functionals at them, and candidates for answers."""

from __future__ import annotations

import numpy as np

from grace.methods.compiled.goal import CompiledGoal, margin_at
from grace.methods.compiled.lines import Table
from grace.models.compiled import Layers, compiled, forward, inlined, move_feature
from grace.proofs.compiled.rows import CHANGED, GROUP, LEFT, OPENED, Aims, Search


@compiled
def lowest_at_point(net: Layers, aims: Aims, i: int, s: Search) -> tuple[int, float]:
    """The functional of the current group that is lowest at the point whose scores are the last of `values`, and its
    value there."""
    begin, end = aims.groups[s.state[GROUP]], aims.groups[s.state[GROUP] + 1]
    first = net.units[len(net.leak)]
    scores, biases, best, least = s.values[first:], net.biases[first - net.widths[0] :], begin, np.inf
    for q in range(begin, end):
        plus, minus = aims.plus[i, q], aims.minus[i, q]
        value = aims.sign[i, q] * (scores[plus] - biases[plus]) + aims.constant[i, q]  # the constants have the biases
        if minus >= 0:
            value -= scores[minus] - biases[minus]
        if value < least:
            best, least = q, value
    return best, least


@inlined
def lowest_in_middle(net: Layers, aims: Aims, i: int, s: Search) -> int:
    """The functional of the current group that is lowest in the middle of a node, whose pre-activations are left in
    `values`."""
    for u in range(net.widths[0]):
        s.values[u] = s.base[u]
    forward(net, s.values)
    return lowest_at_point(net, aims, i, s)[0]


@inlined
def candidate(net: Layers, goal: CompiledGoal, table: Table, i: int, f: int, s: Search) -> float:
    """The margin of a point of a node at which its bound is large: ends of ranges, and the best ways that go together,
    at their far ends. The point is left in `trial`, its pre-activations in `values`."""
    x, trial, left = table.rows[i], s.trial, s.counts[f, LEFT]
    for j in range(len(x)):
        trial[j] = x[j]
    for a in range(s.counts[f, CHANGED]):
        trial[s.feature[s.taken[f, a]]] = s.end[a]
    for o in range(s.counts[f, OPENED]):
        w = s.open[f, o]
        if left == 0 or s.gain[w] == 0.0:
            break
        j, fits = s.feature[w], True
        for before in range(o):
            fits = fits and (trial[s.feature[s.open[f, before]]] == x[s.feature[s.open[f, before]]]
                             or (s.feature[s.open[f, before]] != j
                                 and not table.conflict[s.feature[s.open[f, before]], j]))  # fmt: skip
        if fits:
            trial[j] = s.far[w]
            left -= 1
    for u in range(net.widths[0]):
        s.values[u] = s.start[u]
    for j in range(len(x)):
        if trial[j] != x[j]:
            move_feature(net, s.values, j, x[j], trial[j])
    forward(net, s.values)
    return margin_at(goal, i, s.values, net.units[len(net.leak)], net.widths[len(net.leak)])


@inlined
def differs(table: Table, i: int, s: Search) -> bool:
    """Whether a candidate is another row than the original one, which is no answer even where it is a tie."""
    count = 0
    for j in range(len(s.trial)):
        count += s.trial[j] != table.rows[i, j]
    return count > 0
