"""Proofs: for a ReLU network or an ensemble of trees, that no row with at most k changed features reaches the goal.

Branch and bound. A node says which features are changed (each within a sub-range, or to some of its categories), which
are open, and how many of the open ones may still change. A node whose bound is below zero by more than rounding can
explain is done; every other one also gives a point to try, and is replaced by one node for each next feature that may
change (downwards, upwards, or to another category), those that promise more being left alone in it, or has a range
halved. `compiled` works on a row on each core of the host, and on the last ones together, with bounds that are convex
functions of the moves; a problem on a GPU is moved there (`host`), and only whether a row is an answer is asked of the
model where it is. `trees` is for trees.

The proof is over the continuous box, with whole numbers and categories as such, and keeps frozen and one-way features
and SU <= gamma. Of a predicted number it proves that none lies in the range asked for. Under confidence it proves a
necessary condition, which is sound. Where a change leads exactly to the border of the goal, the model itself may decide
as was asked for, though by less than the margin that an answer has to have. Of trees it is then proven that no answer
exists but for such ties (EXCEPT_TIES); of networks the row stays open.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.predictor import tree_ensemble
from grace.models.relu import ReluNetwork, relu_network
from grace.problem.problem import Problem
from grace.problem.transformed import is_transformed
from grace.proofs.host import HOST, on_host
from grace.proofs.transformed import prove_transformed
from grace.proofs.verdicts import EXCEPT_TIES, FOUND, OPEN, PROVEN, Verdicts

__all__ = ["EXCEPT_TIES", "FOUND", "OPEN", "PROVEN", "Verdicts", "network_of", "prove"]


def prove(problem: Problem, most: Tensor, budget: float = 1.0) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, giving up
    on a row after `budget` seconds of a core's time, wherever the problem is: neither the other rows nor the number of
    cores change what a row may take. Cores without a row of their own share what others have left to do. The verdicts
    are where the problem is."""
    ensemble = tree_ensemble(problem.model)
    if ensemble is not None:
        from grace.proofs.trees import prove_trees  # numba takes a second to import

        return prove_trees(problem, ensemble, most, budget)
    if is_transformed(problem):
        return prove_transformed(problem, most, budget, prove)
    network = network_of(problem)
    endless = problem.free & problem.space.is_numeric & ~torch.isfinite(problem.high - problem.low)
    if endless.any():
        schema, place = problem.model.schema, int(endless.any(dim=0).nonzero()[0])
        name = place if schema is None else schema.names[place]
        raise GraceError(
            "feature {name!r} has no finite range, which a proof needs; give it low and high in the schema", name=name
        )
    from grace.proofs.compiled import prove_compiled  # numba takes a second to import

    verdicts = prove_compiled(on_host(problem), network.on_host, most.to(HOST), budget)
    return verdicts.on(problem.rows.device)


def network_of(problem: Problem) -> ReluNetwork:
    """The model of a problem as a ReLU network, which a proof needs."""
    network = relu_network(problem.model)
    if network is None:
        raise GraceError(
            "a proof needs a network of Linear and ReLU layers (trained here, or nn.Sequential whose encode only "
            "scales), a linear model or perceptron behind preprocessing that can be read, or an ensemble of trees"
        )
    return network
