"""Majorants beside a literal version, points and differences; limits, corners and the branching over many ways."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiled_proofs import ODDITIES, best_margin, make_odd, mixed, points_in, problem_of

from grace.models.compiled import Floats, Layers, activate
from grace.problem.problem import Problem
from grace.proofs.certificate import FOUND, PROVEN, network_of, prove
from grace.proofs.compiled import aims_of, proof_arrays
from grace.proofs.compiled.limits import begin_row, first_limits, inner_limits
from grace.proofs.compiled.majorant import Majorant, add_gradient, default_shares, keep, load, majorise, prepare
from grace.proofs.compiled.rows import AGAIN, CHANGED, CHILDREN, LEFT, NEXT, OPENED, Aims, Search, search
from grace.proofs.compiled.terms import evaluate, set_weights
from grace.proofs.compiled.tree import examine, make_child
from grids import explainer_of

HIDDEN = st.sampled_from([(6,), (7, 6), (6, 5, 4)])
ODD = st.lists(st.sampled_from(ODDITIES), max_size=2).map(tuple)


def relu(z: Floats) -> Floats:
    return np.maximum(z, 0.0)


def started(problem: Problem, most: int) -> tuple[Layers, Aims, Search, tuple]:
    """The root of row 0, with its limits, and the arrays of the problem."""
    network = network_of(problem)
    (net, _, columns, table), aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    work = search(net, problem.rows.shape[1], most)
    begin_row(net, columns, table, aims, 0, most, work)
    return net, aims, work, (columns, table)


def random_bound(net: Layers, aims: Aims, work: Search, q: int, rng: np.random.Generator) -> Majorant:
    bound = work.bound
    load(net, bound, aims.plus[0, q], aims.minus[0, q], aims.sign[0, q])
    keep(net, bound)
    default_shares(net, bound, work.start)
    chosen = rng.random(len(bound.shares)) < 0.7
    bound.shares[chosen] = rng.random(chosen.sum())
    prepare(net, bound)
    return bound


def layers(net: Layers) -> list[tuple[Floats, Floats]]:
    """Weights (units, units of the next layer) and biases after the first layer."""
    out = []
    for k in range(len(net.leak)):
        h, m, begin = net.widths[k], net.widths[k + 1], net.units[k + 1] - net.widths[0]
        out.append((net.weights[net.offsets[k] :][: h * m].reshape(h, m), net.biases[begin : begin + m]))
    return out


def mixture(z: Floats, low: Floats, high: Floats, chord: Floats) -> Floats:
    """The upper bound of a ReLU: of itself and its chord."""
    line = high / np.where(high > low, high - low, 1.0) * (z - low)
    return np.where(low >= 0, z, np.where(high <= 0, 0.0, (1 - chord) * relu(z) + chord * line))


def below(z: Floats, low: Floats, high: Floats, share: Floats) -> Floats:
    return np.where(low >= 0, z, np.where(high <= 0, 0.0, share * z))


def literal(net: Layers, bound: Majorant, slopes: Floats, z: Floats) -> float:
    """The majorant of the sum of the last hidden units times their slopes, at a point of the first layer."""
    hidden, low, high = len(net.leak), bound.low, bound.high
    units = [slice(net.units[k], net.units[k + 1]) for k in range(hidden)]
    up = lo = z
    for k in range(hidden - 2):  # layers whose shares are fixed
        here = units[k]
        weight, bias = layers(net)[k]
        steep = (high[here] > -low[here]).astype(float)
        above, under = mixture(up, low[here], high[here], 0.0), below(lo, low[here], high[here], steep)
        up = bias + above @ np.maximum(weight, 0) + under @ np.minimum(weight, 0)
        lo = bias + under @ np.maximum(weight, 0) + above @ np.minimum(weight, 0)
    here = units[max(hidden - 2, 0)]
    h = here.stop - here.start
    one, two, three, four, last = np.split(bound.shares, [h, 2 * h, 3 * h, 4 * h])
    above, under = mixture(up, low[here], high[here], three), below(lo, low[here], high[here], four)
    if hidden == 1:
        return float(np.where(slopes > 0, slopes * above, slopes * under).sum())
    (weight, bias), there = layers(net)[hidden - 2], units[-1]
    a, b = low[there], high[there]
    unstable = (a < 0) & (b > 0)
    steep = np.where(unstable, b / np.where(unstable, b - a, 1.0), 0.0)
    factor = np.where(a >= 0, slopes, np.where(unstable, slopes * last * np.where(slopes > 0, steep, 1.0), 0.0))
    linear, total = weight @ factor, float(factor @ bias)
    total -= float((factor * a)[unstable & (slopes > 0)].sum())
    total += float(np.where(linear > 0, linear * above, linear * under).sum())
    above, under = mixture(up, low[here], high[here], one), below(lo, low[here], high[here], two)
    inner = bias + above @ np.maximum(weight, 0) + under @ np.minimum(weight, 0)
    return total + float((slopes * (1 - last) * relu(inner))[unstable & (slopes > 0)].sum())


def slopes_of(net: Layers, aims: Aims, q: int) -> Floats:
    slopes = aims.sign[0, q] * net.last[aims.plus[0, q]]
    return slopes - net.last[aims.minus[0, q]] if aims.minus[0, q] >= 0 else slopes


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), oddities=ODD, hidden=HIDDEN)
def test_majorants_are_as_defined_and_lie_above_the_network(seed, oddities, hidden) -> None:
    rng = np.random.default_rng(seed)
    frame = mixed(seed)
    explainer = explainer_of(frame, seed, hidden=hidden)
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(1))
    net, aims, work, _ = started(problem, 2)
    values = np.zeros(int(net.units[-1]))
    for q in range(aims.plus.shape[1]):
        bound, slopes = random_bound(net, aims, work, q, rng), slopes_of(net, aims, q)
        first = int(net.widths[0])
        for row in points_in(work, 0, problem, rng)[:60]:
            activate(net, row, values)
            begin, end = net.units[len(net.leak) - 1], net.units[len(net.leak)]
            true = float(slopes @ relu(values[begin:end]))
            value = majorise(net, bound, values[:first].copy())
            assert true <= value + 1e-9 * (1 + abs(value))
        for z in rng.normal(size=(20, first)) * rng.choice([0.1, 1.0, 30.0], (20, 1)):
            np.testing.assert_allclose(majorise(net, bound, z), literal(net, bound, slopes, z), rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), hidden=HIDDEN)
def test_gradients_are_differences(seed, hidden) -> None:
    """Except at kinks, which a step of the difference may cross."""
    rng = np.random.default_rng(seed)
    frame = mixed(seed)
    net, aims, work, _ = started(problem_of(explainer_of(frame, seed, hidden=hidden), frame.head(1)), 2)
    bound = random_bound(net, aims, work, 0, rng)
    bound.shares[:] = np.clip(bound.shares, 0.1, 0.9)
    prepare(net, bound)
    z, step, agree = rng.normal(size=int(net.widths[0])), 1e-6, 0
    bound.gradient[:] = 0.0
    majorise(net, bound, z)
    add_gradient(net, bound, z, 2.0)
    gradient, shares = bound.gradient.copy(), bound.shares.copy()
    for p in range(len(shares)):
        ends = []
        for by in (-step, step):
            bound.shares[:] = shares
            bound.shares[p] += by
            prepare(net, bound)
            ends.append(majorise(net, bound, z))
        agree += abs(2.0 * (ends[1] - ends[0]) / (2 * step) - gradient[p]) <= 1e-5 * (1 + abs(gradient[p]))
    assert agree >= len(shares) - 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), oddities=ODD, hidden=HIDDEN)
def test_limits_and_corners_of_nodes_without_open_ways(seed, oddities, hidden) -> None:
    """Units stay within their limits at points of the node, and the bound is the largest majorant in a corner."""
    rng = np.random.default_rng(seed)
    frame = mixed(seed, 3)
    explainer = explainer_of(frame, seed, hidden=hidden)
    make_odd(explainer, oddities, seed)
    problem = problem_of(explainer, frame.head(1))
    net, aims, work, (_, table) = started(problem, 3)
    numbers = [w for w in range(len(work.far)) if work.near[w] != work.far[w] and net.begins[work.feature[w]] < 0]
    chosen = rng.permutation(sorted({int(work.feature[w]): w for w in numbers}.values()))[:3]
    work.counts[0, CHANGED], work.counts[0, LEFT], work.counts[0, OPENED] = len(chosen), 0, 0
    for a, w in enumerate(chosen):
        ends = np.sort(work.near[w] + rng.random(2) * (work.far[w] - work.near[w]))
        work.taken[0, a], work.low[0, a], work.high[0, a] = w, *ends
    first_limits(net, table, 0, 0, work)
    inner_limits(net, 0, work)
    set_weights(net, table, 0, 0, work)
    hidden_units, first = int(net.units[len(net.leak)]), int(net.widths[0])
    values = np.zeros(int(net.units[-1]))
    slack = 1e-9 * (1 + np.abs(work.bound.low) + np.abs(work.bound.high))
    for row in points_in(work, 0, problem, rng):
        activate(net, row, values)
        assert (values[:hidden_units] >= work.bound.low - slack).all()
        assert (values[:hidden_units] <= work.bound.high + slack).all()
    bound = random_bound(net, aims, work, 0, rng)
    total = evaluate(net, table, 0, 0, work, 0)
    corners = []
    for ends in product(*zip(work.low[0, : len(chosen)], work.high[0, : len(chosen)], strict=True)):
        row = problem.rows[0].numpy().copy()
        row[work.feature[chosen]] = ends
        activate(net, row, values)
        corners.append(majorise(net, bound, values[:first].copy()))
    np.testing.assert_allclose(total, max(corners), rtol=1e-9, atol=1e-9)


def many(seed: int) -> pd.DataFrame:
    """Small whole numbers; one of them goes far."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 3, (40, 24)), columns=[f"n{j}" for j in range(24)])
    frame["n7"] *= 20
    return frame


@pytest.mark.parametrize("seed", range(6))
def test_verdicts_with_many_ways_are_those_of_trying_everything(seed: int) -> None:
    """More ways than are taken one by one: the others are bounded again."""
    frame = many(seed)
    problem = problem_of(explainer_of(frame, seed, hidden=(14, 10), tilt=2.5), frame.head(3), frozen=["n7"][seed % 2 :])
    verdict = prove(problem, torch.full((3,), 2), budget=30)
    for i in range(3):
        best = best_margin(problem, i, 2)
        assert int(verdict.status[i]) == (FOUND if best >= 1e-6 else PROVEN)


def test_many_ways_are_bounded_again() -> None:
    """The children of a node cover its ways: each is taken, stays open in the last one, or cannot be part of an
    answer."""
    seen = 0
    for seed in range(8):
        frame = many(seed)
        problem = problem_of(explainer_of(frame, seed, hidden=(14, 10), tilt=1.0), frame.head(1))
        net, aims, work, (columns, table) = started(problem, 3)
        if examine(net, table, aims, 0, 0, 1e-6, work) or not work.counts[0, AGAIN]:
            continue
        seen += 1
        opened, gains, rest = work.counts[0, OPENED], work.gains[0].copy(), work.rest[0]
        ways, taken, left = work.open[0, :opened].copy(), [], set()
        while work.counts[0, NEXT] < work.counts[0, CHILDREN]:
            make_child(columns, table, 0, work)
            if work.counts[1, CHANGED]:
                taken.append(int(work.taken[1, 0]))
            else:
                assert work.counts[1, LEFT] == 3
                left = set(work.open[1, : work.counts[1, OPENED]].tolist())
        assert taken == ways[: len(taken)].tolist()
        most = np.sort(gains[len(taken) : opened])[::-1][:2].sum()
        for o in range(len(taken), opened):
            assert (int(ways[o]) in left) == (rest + gains[o] + most >= 0.0)
    assert seen >= 2
