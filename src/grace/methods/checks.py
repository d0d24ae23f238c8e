"""Final checks of answers: what has changed, whether it may, how far, and whether each change is needed. In compiled
code for ReLU networks and trees on a CPU, in tensors for any other model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from grace.methods.polish import EXHAUSTIVE, equal_counts, is_compiled, trees_of, with_subsets
from grace.problem.numpy_or_torch import to_native
from grace.problem.problem import Problem


class Checks(NamedTuple):
    """Of each answer (n,); numpy on a CPU."""

    count: Any  # of changed features
    inside: Any  # whether all of them were changed as they may
    informative: Any  # whether no two of them are redundant
    distance: Any


def check_answers(problem: Problem, found: Tensor) -> Checks:
    """Check contrastive rows, whatever made them."""
    if is_compiled(problem) or trees_of(problem) is not None:
        from grace.methods.compiled import check_compiled  # numba takes a second to import

        return Checks(*check_compiled(problem, found))
    count = (to_native(found) != to_native(problem.rows)).sum(axis=1)
    informative = count < 2 if (count < 2).all() else to_native(~problem.redundant(found))
    inside = to_native(problem.inside(found)).all(axis=1)
    return Checks(count, inside, informative, to_native(problem.space.distance(problem.rows, found)))


def needs_every_change(problem: Problem, contrast: Tensor) -> Any:
    """Whether each row (n,) has at most EXHAUSTIVE changes, no proper subset of which the model itself decides as was
    asked for: unlike an answer, a subset needs no margin for that, and ties go as they go in the model."""
    if is_compiled(problem):
        from grace.methods.compiled import need_every_change_compiled

        needed, unsure = need_every_change_compiled(problem, contrast, EXHAUSTIVE)
    elif (ensemble := trees_of(problem)) is not None:
        from grace.methods.trees import need_every_change_trees

        needed, unsure = need_every_change_trees(problem, ensemble, contrast, EXHAUSTIVE)
    else:
        return to_native(needs_every_change_by_model(problem, contrast))
    if unsure.any():
        index = torch.from_numpy(np.flatnonzero(unsure))
        needed[unsure] = needs_every_change_by_model(problem.select(index), contrast[index]).numpy()
    return needed


def needs_every_change_by_model(problem: Problem, contrast: Tensor) -> Tensor:
    """The same by asking the model about all subsets."""
    count = (contrast != problem.rows).sum(dim=1)
    out = count <= EXHAUSTIVE
    for part, size in equal_counts(count, contrast.shape[1]):
        every = len(part) == len(problem)
        each, rows = (problem, contrast) if every else (problem.select(part), contrast[part])
        out[part] = ~each.decisions(with_subsets(each, rows, size)[1]).any(dim=1)
    return out
