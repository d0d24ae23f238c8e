"""Search where a ReLU network gets functions of numbers, such as logarithms: among the values of those functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from grace.methods.polish import polish
from grace.problem.problem import Problem, positions
from grace.problem.transformed import Transformed, has_known_values, listed, transformed

Search = Callable[[Problem], Tensor]


def search_transformed(problem: Problem, search: Search, search_rows: Search) -> Tensor:
    """What `search` finds among the values of the functions, polished as a row of the table: along one feature, the
    nearest value is that of the nearest number. Rows for which the functions are not known have `search_rows`, and so
    have those whose answer is none among the numbers that there are."""
    inputs = listed(problem)
    found, known = problem.rows.clone(), has_known_values(problem, inputs)
    rows = positions(known)
    if len(rows):
        part = problem.select(rows)
        inside = transformed(part, inputs)
        answers = search(inside.inner)
        changed = (answers != inside.inner.rows).any(dim=1)
        single = positions((answers != inside.inner.rows).sum(dim=1) == 1)
        answers = inside.original(answers)
        if len(single):
            answers[single] = nearest_single(inside.select(single), answers[single], search)
        fits = changed & (answers != part.rows).any(dim=1) & part.inside(answers).all(dim=1) & part.reached(answers)
        hits = positions(fits)
        found[rows[hits]] = polish(part.select(hits), answers[hits])
        known[rows[positions(changed & ~fits)]] = False
    rest = positions(~known)
    if len(rest):
        found[rest] = search_rows(problem.select(rest))
    return found


def nearest_single(inside: Transformed, found: Tensor, search: Search) -> Tensor:
    """The nearest single changes, as rows of the table, of rows for which `found` is one. Values of functions are not
    as far apart as the numbers are, so that each function is asked about alone."""
    best, outer, curved = found, inside.problem, inside.curved
    if not curved:
        return found
    least = outer.space.distance(outer.rows, best)
    groups = [[j] for j in curved] + [[j for j in range(found.shape[1]) if j not in curved]]
    for columns in groups:
        free = torch.zeros_like(outer.free)
        free[:, columns] = outer.free[:, columns]
        answers = inside.original(search(replace(inside.inner, free=free, max_features=1)))
        fits = (answers != outer.rows).any(dim=1) & outer.inside(answers).all(dim=1) & outer.reached(answers)
        distance = outer.space.distance(outer.rows, answers)
        nearer = fits & (distance < least)
        best = torch.where(nearer[:, None], answers, best)
        least = torch.where(nearer, distance, least)
    return best
