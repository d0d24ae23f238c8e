"""Whether values of some features of a row, all of which may change at once, reach the goal: branch and bound over the
box of their ranges.

A feature whose value lies outside its range, or that is a category, takes few alternatives, each of which is a box of
its own; if they are too many, numbers are bounded by the hull of both, and categories are left to other proofs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np

from grace.methods.compiled import column_arrays
from grace.methods.compiled.lines import Table
from grace.models.compiled import Bools, Floats
from grace.models.relu import ReluNetwork
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem
from grace.proofs.boxes import FAILS, HOLDS
from grace.proofs.verdicts import FOUND, OPEN, PROVEN

MOST = 48  # boxes of a question
PRODUCTS = 2.5e9  # of a network's weights in a second

Ends = tuple[float, float]


class SetBoxes:
    """Questions about rows of a problem; made for one thread."""

    def __init__(self, problem: Problem, network: ReluNetwork) -> None:
        from grace.proofs.compiled.aims import aims_of
        from grace.proofs.compiled.boxes import ready
        from grace.proofs.compiled.rows import search

        ready()
        self.problem, self.net = problem, network.compiled
        self.rows, self.low, self.high = (t.numpy() for t in (problem.rows, problem.low, problem.high))
        self.whole = problem.space.is_integer.numpy()
        self.aims, self.columns = aims_of(problem, network), column_arrays(problem.space)
        d = self.rows.shape[1]
        self.work = search(self.net, d, d)
        self.table = Table(
            np.array(self.rows), np.array(self.rows), np.array(self.rows), np.zeros(self.rows.shape, dtype=bool),
            np.zeros((d, d), dtype=bool),
        )  # fmt: skip
        self.products = int((self.net.widths[:-1] * self.net.widths[1:]).sum()) + 1

    def decide(
        self, i: int, free: Bools, seconds: float, is_answer: Callable[[Floats], bool]
    ) -> tuple[int, Floats | None]:
        """PROVEN, FOUND with a row that is an answer, or OPEN after as much work as fits into some seconds."""
        from grace.proofs.compiled.boxes import decide_box
        from grace.proofs.compiled.rows import EVALUATIONS

        boxes, status = self._boxes(i, np.flatnonzero(free).tolist()), PROVEN
        left = int(seconds * PRODUCTS / self.products) if boxes else 0
        for box in boxes:
            check_cancelled()
            for part, end in ((self.table.rows, 0), (self.table.high, 1)):
                part[i] = self.rows[i]
                for j, ends in box.items():
                    part[i, j] = ends[end]
            np.greater(self.table.high[i], self.table.rows[i], out=self.table.free[i])
            self.table.low[i] = self.table.rows[i]
            code = decide_box(
                self.net, self.columns, self.table, self.aims, i, len(self.rows[i]), max(1, left), self.work
            )
            left -= int(self.work.state[EVALUATIONS])
            if code == FAILS and is_answer(self.work.trial):
                return FOUND, self.work.trial.copy()
            status = status if code == HOLDS else OPEN
        return (status, None) if boxes else (OPEN, None)

    def _boxes(self, i: int, features: list[int]) -> list[dict[int, Ends]]:
        """The ranges of the features in each box; none if there would be too many, or ranges have no end."""
        parts = {j: self._alternatives(i, j) for j in features}
        if prod(map(len, parts.values())) > MOST:
            parts = {j: p if j in self.problem.space.choices else [_hull(p)] for j, p in parts.items()}
        ends = np.array([ends for p in parts.values() for ends in p])
        if prod(map(len, parts.values())) > MOST or not np.isfinite(ends).all():
            return []
        return [dict(zip(parts, chosen, strict=True)) for chosen in product(*parts.values())]

    def _alternatives(self, i: int, j: int) -> list[Ends]:
        """The ranges that a feature may be in: each category, a range around its value, or its value and a range."""
        x, low, high = (float(part[i, j]) for part in (self.rows, self.low, self.high))
        if j in self.problem.space.choices:
            codes = {float(c) for c in self.problem.space.choices[j] if low <= c <= high}
            return [(c, c) for c in sorted({x, *codes})]
        if self.whole[j]:
            low, high = float(np.ceil(low)), float(np.floor(high))
        if low > high:
            return [(x, x)]
        inside = low <= x <= high and (not self.whole[j] or x == round(x))
        return [(low, high)] if inside else [(x, x), (low, high)]


def _hull(ranges: list[Ends]) -> Ends:
    """The range from the least to the largest value, of whole numbers if there are several."""
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    return (low, high) if len(ranges) == 1 else (float(np.floor(low)), float(np.ceil(high)))
