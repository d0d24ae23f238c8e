"""Products in vector instructions against those of numpy: layers of every width, whole vectors or not."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact_lines import ExactNetwork, rounding
from grace.models.compiled import BLOCK, Layers, activate, compiled, forward_block, largest_first, layers_of
from grace.models.compiled_lines import scratch, walk_alone
from grace.models.vectors import COLUMNS, LANES

WIDTHS = st.sampled_from([1, 3, 4, 5, LANES, 2 * LANES - 1, 2 * LANES, 30, 4 * LANES, 4 * LANES + 1, 50, 65])
top = compiled(largest_first.py_func)  # type: ignore[attr-defined]


def network(rng: np.random.Generator, widths: list[int], leak: float) -> tuple[Layers, list[tuple[np.ndarray, ...]]]:
    pairs = list(itertools.pairwise(widths))
    layers = [(rng.normal(size=(b, a)) / np.sqrt(a), rng.normal(size=b)) for a, b in pairs]
    return layers_of(*layers[0], {}, layers[1:], [leak] * (len(layers) - 1)), layers


@given(
    st.integers(0, 2**31), st.lists(WIDTHS, min_size=1, max_size=3), st.integers(1, BLOCK), st.sampled_from([0, 0.1])
)
def test_forward_passes(seed: int, hidden: list[int], rows: int, leak: float) -> None:
    """Of single rows and of blocks, whatever stands in the columns beyond the last row."""
    rng = np.random.default_rng(seed)
    net, layers = network(rng, [4, *hidden, 2], leak)
    x = rng.normal(size=(rows, 4))
    wanted, values = [], x
    for weight, bias in layers:
        values = values @ weight.T + bias
        wanted.append(values)
        values = np.where(values > 0, values, leak * values)
    wanted_units, mine = np.concatenate(wanted, axis=1), np.empty((rows, int(net.units[-1])))
    for i in range(rows):
        activate(net, x[i], mine[i])
    error = rounding(net, x.min(axis=0), x.max(axis=0))
    np.testing.assert_allclose(mine, wanted_units, rtol=0, atol=error)
    block = np.full((net.units[-1], BLOCK), np.nan)
    block[: net.units[1], :rows] = mine[:, : net.units[1]].T
    forward_block(net, block, np.full((net.widths.max(), BLOCK), np.inf), rows)
    np.testing.assert_allclose(block[:, :rows].T, wanted_units, rtol=0, atol=error)


@given(st.integers(0, 2**31), st.lists(WIDTHS, min_size=1, max_size=2), st.integers(2, BLOCK))
def test_a_row_does_not_depend_on_its_block(seed: int, hidden: list[int], rows: int) -> None:
    rng = np.random.default_rng(seed)
    net, _ = network(rng, [4, *hidden, 1], 0.0)
    first = rng.normal(size=(net.units[1], rows))
    blocks = []
    for columns in (np.arange(rows), np.array([rows - 1]), np.arange(rows)[::-1]):
        block = np.full((net.units[-1], BLOCK), np.nan)
        block[: net.units[1], : len(columns)] = first[:, columns]
        forward_block(net, block, np.empty((net.widths.max(), BLOCK)), len(columns))
        blocks.append(block)
    assert np.array_equal(blocks[0][:, rows - 1], blocks[1][:, 0])
    assert np.array_equal(blocks[0][:, :rows], blocks[2][:, :rows][:, ::-1])


@pytest.mark.parametrize("hidden", [[16], [17, 16], [33, 20], [50, 40, 16]])
def test_lines_of_wide_layers(hidden: list[int]) -> None:
    rng = np.random.default_rng(sum(hidden))
    net, layers = network(rng, [3, *hidden, 2], 0.0)
    exact, row = ExactNetwork.of(layers, [0.0] * len(hidden)), rng.normal(size=3)
    values, places, scores = np.empty(net.units[-1]), np.empty(4096), np.empty((4096, 2))
    activate(net, row, values)
    count = walk_alone(net, values, 1, -1.0, 40.0, places, scores, scratch(net), -1)
    assert count > 5
    for p in range(count):
        moved = [Fraction(row[0]), Fraction(row[1]) - Fraction(places[p]), Fraction(row[2])]
        wanted = [float(s) for s in exact.scores(moved)]
        np.testing.assert_allclose(scores[p], wanted, rtol=0, atol=rounding(net, row - 40.0, row + 40.0))


def test_blocks_are_whole_numbers_of_columns() -> None:
    assert BLOCK % COLUMNS == 0


@given(st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5, -np.inf]), min_size=1, max_size=40), st.integers(1, 45))
def test_the_largest_come_first(keys: list[float], most: int) -> None:
    order = np.full(max(most, len(keys)), -1)
    count = top(np.array(keys), order, len(keys), most)
    assert order[:count].tolist() == sorted(range(len(keys)), key=lambda k: (-keys[k], k))[:most]
