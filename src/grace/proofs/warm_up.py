"""Compiles what a model needs, or loads what an earlier process has compiled, before the first question."""

from __future__ import annotations

from grace.models.base import Model
from grace.models.predictor import tree_ensemble
from grace.models.relu import relu_network


def warm_up(model: Model) -> None:
    """Compile search, proofs and regions for a model: nothing for those that are asked step by step."""
    if tree_ensemble(model) is not None:
        from grace.methods.trees import ready as trees_ready  # numba takes a second to import

        trees_ready()
    if relu_network(model) is not None:
        from grace.methods.compiled import all_ready
        from grace.proofs.compiled import ready
        from grace.proofs.compiled.boxes import ready as boxes_ready
        from grace.proofs.compiled.distances import ready as distances_ready

        all_ready()
        ready()
        boxes_ready()
        distances_ready()
