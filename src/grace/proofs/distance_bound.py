"""How much nearer an answer with the same features could be: a proven lower bound on its distance."""

from __future__ import annotations

from torch import Tensor

from grace.models.predictor import tree_ensemble
from grace.problem.problem import Problem
from grace.problem.transformed import is_transformed
from grace.proofs.certificate import network_of
from grace.proofs.host import HOST, on_host
from grace.proofs.transformed import distance_bound_transformed


def distance_bound(problem: Problem, contrast: Tensor, budget: float = 1.0) -> Tensor:
    """The distance (n,) below which no row reaches the goal that changes only features changed in `contrast`,
    answers of the problem. A row gets `budget` seconds of work."""
    ensemble = tree_ensemble(problem.model)
    if ensemble is not None:
        from grace.proofs.trees import least_distance  # numba takes a second to import

        return least_distance(problem, ensemble, contrast, budget)
    if is_transformed(problem):
        return distance_bound_transformed(problem, contrast, budget, distance_bound)
    from grace.proofs.compiled.distances import least_distance_of_network

    network = network_of(problem).on_host
    return least_distance_of_network(on_host(problem), network, contrast.to(HOST), budget).to(problem.rows.device)
