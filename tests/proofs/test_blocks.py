"""Majorants at many points at once, beside those at one point."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_compiled_proofs import ODDITIES, make_odd, problem_of

from grace.proofs.certificate import network_of
from grace.proofs.compiled import aims_of, proof_arrays
from grace.proofs.compiled.blocks import POINTS, majorise_block
from grace.proofs.compiled.limits import begin_row
from grace.proofs.compiled.majorant import default_shares, keep, load, majorise, prepare
from grace.proofs.compiled.rows import search
from grids import explainer_of


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 7, 33, POINTS])
def test_a_block_has_the_values_of_its_points(seed: int, count: int) -> None:
    """Shares at random or at an end, limits from nothing to all of the first layer."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(40, 9)), columns=[f"n{j}" for j in range(9)])
    explainer = explainer_of(frame, seed, hidden=((13, 11), (8, 8), (3, 20), (7,))[seed % 4])
    make_odd(explainer, ODDITIES[seed % 2 :: 2], seed)
    problem = problem_of(explainer, frame.head(1))
    network = network_of(problem)
    (net, _, columns, table), aims = proof_arrays(problem, network.compiled), aims_of(problem, network)
    work = search(net, 9, 3)
    begin_row(net, columns, table, aims, 0, 3, work)
    bound, points = work.bound, work.block.points
    for q in range(aims.plus.shape[1]):
        load(net, bound, aims.plus[0, q], aims.minus[0, q], aims.sign[0, q])
        keep(net, bound)
        default_shares(net, bound, work.start)
        chosen = rng.random(len(bound.shares)) < 0.7
        bound.shares[chosen] = rng.choice([0.0, 1.0, rng.random()], chosen.sum())
        prepare(net, bound)
        points[:, :count] = rng.normal(size=(len(points), count)) * rng.choice([0.1, 1.0, 30.0], count)
        majorise_block(net, bound, work.block, count)
        single = [majorise(net, bound, np.ascontiguousarray(points[:, p])) for p in range(count)]
        np.testing.assert_allclose(work.block.values[:count], single, rtol=1e-12, atol=1e-11)
