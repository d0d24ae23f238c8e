"""Search where a ReLU network gets functions of numbers, such as logarithms: among the values of those functions."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from grace.methods.polish import polish
from grace.problem.problem import Problem, positions
from grace.problem.transformed import has_known_values, transformed

Search = Callable[[Problem], Tensor]


def search_transformed(problem: Problem, search: Search, search_rows: Search) -> Tensor:
    """What `search` finds among the values of the functions, polished as a row of the table: along one feature, the
    nearest value is that of the nearest number. Rows for which the functions are not known have `search_rows`, and so
    have those whose answer is none among the numbers that there are."""
    found, known = problem.rows.clone(), has_known_values(problem)
    rows = positions(known)
    if len(rows):
        part = problem.select(rows)
        inside = transformed(part)
        answers = search(inside.inner)
        changed = (answers != inside.inner.rows).any(dim=1)
        answers = inside.original(answers)
        fits = changed & (answers != part.rows).any(dim=1) & part.inside(answers).all(dim=1) & part.reached(answers)
        hits = positions(fits)
        found[rows[hits]] = polish(part.select(hits), answers[hits])
        known[rows[positions(changed & ~fits)]] = False
    rest = positions(~known)
    if len(rest):
        found[rest] = search_rows(problem.select(rest))
    return found
