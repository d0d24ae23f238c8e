"""Lines of ReLU networks in compiled code, against exact arithmetic: twins, negated, dead and whole-number units."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_lines import ExactNetwork, rounding
from grace.models.compiled import BLOCK, Layers, activate, compiled, forward_block
from grace.models.compiled_lines import bound_line, scratch, walk_alone


def followed(net: Layers, row: np.ndarray, j: int, direction: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The breakpoints and scores of a line."""
    values, room = np.empty(net.units[-1]), 4096
    activate(net, row, values)
    places, scores = np.empty(room), np.empty((room, int(net.widths[-1])))
    count = walk_alone(net, values, j, direction, reach, places, scores, scratch(net), -1)
    return places[:count], scores[:count]


@st.composite
def networks(draw: st.DrawFn) -> tuple[ExactNetwork, np.ndarray]:
    """Small networks of whole or short numbers, in which units repeat, cancel, or never switch, and a row."""
    features, classes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    widths = [features, *draw(st.lists(st.integers(1, 5), max_size=3)), classes]
    number = st.integers(-3, 3).map(float) | st.sampled_from([0.5, -0.25, 1e-12, 0.1])
    layers = []
    for inputs, units in itertools.pairwise(widths):
        weight = np.array(draw(st.lists(st.lists(number, min_size=inputs, max_size=inputs), min_size=units,
                                        max_size=units)))  # fmt: skip
        bias = np.array(draw(st.lists(number, min_size=units, max_size=units)))
        if units > 1 and draw(st.booleans()):  # a twin, or its negative, as linear models have them
            sign = draw(st.sampled_from([1.0, -1.0]))
            weight[1], bias[1] = sign * weight[0], sign * bias[0]
        layers.append((weight, bias))
    leak = draw(st.lists(st.sampled_from([0.0, 0.0, 0.125]), min_size=len(layers) - 1, max_size=len(layers) - 1))
    row = np.array(draw(st.lists(st.integers(-2, 2).map(float), min_size=features, max_size=features)))
    return ExactNetwork.of(layers, leak), row


@settings(max_examples=150)
@given(networks(), st.sampled_from([1.0, -1.0]), st.sampled_from([0.25, 1.0, 7.5]), st.data())
def test_lines_are_exact(
    case: tuple[ExactNetwork, np.ndarray], direction: float, reach: float, data: st.DataObject
) -> None:
    exact, row = case
    net, j = exact.compiled(), data.draw(st.integers(0, len(row) - 1))
    places, scores = followed(net, row, j, direction, reach)
    assert places[0] == 0
    assert places[-1] == reach
    assert (np.diff(places) > 0).all()
    bound = rounding(net, row - reach, row + reach)
    start = [Fraction(v) for v in row]
    end = start[j] + Fraction(direction) * Fraction(reach)
    points = exact.breakpoints(start, j, min(start[j], end), max(start[j], end))
    middles = [(a + b) / 2 for a, b in itertools.pairwise(points)]
    for value in [*points, *middles]:  # the polyline passes through every breakpoint of the network
        wanted = [float(s) for s in exact.scores([*start[:j], value, *start[j + 1 :]])]
        at = float(abs(value - start[j]))
        mine = [np.interp(at, places, scores[:, k]) for k in range(scores.shape[1])]
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=bound + 1e-300)


@settings(max_examples=50)
@given(networks(), st.integers(1, BLOCK))
def test_blocks_of_rows_have_the_scores_of_each_row(case: tuple[ExactNetwork, np.ndarray], rows: int) -> None:
    exact, row = case
    net = exact.compiled()
    each = row + np.random.default_rng(rows).normal(size=(rows, len(row)))
    block, first, last = np.full((net.units[-1], BLOCK), np.nan), net.units[1], net.units[-2]
    values = np.empty((rows, net.units[-1]))
    for i in range(rows):
        activate(net, each[i], values[i])
    block[:first, :rows] = values[:, :first].T
    forward_block(net, block, np.empty((net.widths.max(), BLOCK)), rows)
    np.testing.assert_allclose(block[last:, :rows].T, values[:, last:], rtol=0, atol=rounding(net, row - 9, row + 9))


def test_units_that_switch_together() -> None:
    """relu(x) - relu(-x) + relu(x) - relu(x) is x, with four units that switch at 0."""
    first = np.array([[1.0], [-1.0], [1.0], [1.0]])
    exact = ExactNetwork.of([(first, np.zeros(4)), (np.array([[1.0, -1.0, 1.0, -1.0]]), np.zeros(1))], [0.0])
    places, scores = followed(exact.compiled(), np.array([-1.0]), 0, 1.0, 3.0)
    assert np.interp([0.0, 1.0, 2.0, 3.0], places, scores[:, 0]).tolist() == [-1.0, 0.0, 1.0, 2.0]


@settings(max_examples=60)
@given(networks(), st.integers(2, 5), st.data())
def test_a_line_without_room_is_followed_in_sections(
    case: tuple[ExactNetwork, np.ndarray], room: int, data: st.DataObject
) -> None:
    exact, row = case
    net, j = exact.compiled(), data.draw(st.integers(0, len(row) - 1))
    whole, values = followed(net, row, j, 1.0, 7.5), np.empty(net.units[-1])
    activate(net, row, values)
    places, scores, work = np.empty(room), np.empty((room, int(net.widths[-1]))), scratch(net)
    count = walk_alone(net, values, j, 1.0, 7.5, places, scores, work, -1)
    found, heights = [places[:count].copy()], [scores[:count].copy()]
    while found[-1][-1] < 7.5:
        assert count == room
        count = walk_alone(net, values, j, 1.0, 7.5, places, scores, work, count - 1)
        assert count > 1
        assert (places[0] == found[-1][-1]) & (scores[0] == heights[-1][-1]).all()
        found, heights = [*found, places[1:count].copy()], [*heights, scores[1:count].copy()]
    assert np.array_equal(np.concatenate(found), whole[0])
    assert np.array_equal(np.concatenate(heights), whole[1])


@pytest.mark.parametrize("hidden", [0, 1, 2, 4])
def test_depths(hidden: int) -> None:
    rng = np.random.default_rng(hidden)
    widths = [3, *[6] * hidden, 2]
    layers = [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in itertools.pairwise(widths)]
    exact, row = ExactNetwork.of(layers, [0.0] * hidden), rng.normal(size=3)
    net = exact.compiled()
    places, scores = followed(net, row, 1, 1.0, 4.0)
    for place, score in zip(places, scores, strict=True):
        wanted = exact.scores([Fraction(v) for v in row[:1]] + [Fraction(row[1]) + Fraction(place), Fraction(row[2])])
        np.testing.assert_allclose(score, [float(s) for s in wanted], atol=1e-12)


bound_alone = compiled(bound_line.py_func)


@settings(max_examples=150)
@given(networks(), st.sampled_from([1.0, -1.0]), st.sampled_from([0.25, 1.0, 7.5]), st.data())
def test_no_line_leaves_the_bounds_beside_its_chord(
    case: tuple[ExactNetwork, np.ndarray], direction: float, reach: float, data: st.DataObject
) -> None:
    exact, row = case
    net, j = exact.compiled(), data.draw(st.integers(0, len(row) - 1))
    classes = int(net.widths[-1])
    target = data.draw(st.integers(0, classes - 1)) if classes > 1 else -1
    places, scores = followed(net, row, j, direction, reach)
    start, stop, moved = np.empty(net.units[-1]), np.empty(net.units[-1]), row.copy()
    moved[j] += direction * reach
    activate(net, row, start)
    activate(net, moved, stop)
    above, below = np.empty(classes), np.empty(classes)
    bound_alone(net, start, stop, target, above, below, scratch(net))
    if target >= 0:
        scores = scores - scores[:, [target]]
    beside = scores - (scores[0] + (places / reach)[:, None] * (scores[-1] - scores[0]))
    slack = 4 * rounding(net, row - reach, row + reach)
    assert (beside <= above + slack).all()
    assert (beside >= -below - slack).all()
    if (np.abs(beside) <= slack).all() and len(net.leak) == 1 and len(places) == 2:  # straight
        assert (above <= slack).all()
        assert (below <= slack).all()
