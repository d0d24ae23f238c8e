"""An exact second opinion on proofs: a mixed-integer program for HiGHS, written from the weights and the question.

A ReLU network is linear but for its kinks, and a kink is a binary variable (big-M). So is whether a feature changes,
and which category it takes. Asked for is the largest margin; confidence among several classes is a concave constraint,
and the Euclidean distance a convex one: both are exact by cutting planes, added where a solution violates them.

"yes" comes with a row, and that row has been put to the network itself. "no" means that the program has no solution
with a margin above minus a band that is wider than the solver's tolerances. Everything else is "unclear".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from milp_network import Array, Table, Weights
from milp_question import Aim, Cell, distance

BAND = 1e-5  # margins nearer to zero than this decide nothing
SOLVER = 1e-5  # what the solver's tolerances may amount to, as a share of the largest margin
MANY = 10_000  # a whole number with more values is a number in the program, and rounded afterwards
CUTS = 40
INFEASIBLE, FAILED = 2, 4  # as scipy says it

Affine = tuple[dict[int, float], float]
Scores = Callable[[Array], Array]


@dataclass(frozen=True)
class Verdict:
    """Whether there is a row as asked for, and where there is, the row."""

    answer: str  # "yes", "no" or "unclear"
    row: Array | None = None


@dataclass
class Program:
    """Variables and linear constraints, collected one by one."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def variable(self, low: float, high: float, *, integer: bool = False) -> int:
        self.low.append(low)
        self.high.append(high)
        self.integer.append(int(integer))
        return len(self.low) - 1

    def at_most(self, left: Affine, right: float = 0.0) -> None:
        self.rows.append((left[0], -np.inf, right - left[1]))

    def maximise(self, variable: int, gap: float, seconds: float) -> tuple[int, Array | None]:
        places = [(i, j, v) for i, (terms, _, _) in enumerate(self.rows) for j, v in terms.items()]
        i, j, v = zip(*places, strict=True)
        matrix = csr_array((v, (i, j)), shape=(len(self.rows), len(self.low)))
        for presolve in (True, False):  # its presolve fails now and then
            found = milp(
                -np.eye(len(self.low))[variable],
                constraints=LinearConstraint(matrix, [r[1] for r in self.rows], [r[2] for r in self.rows]),
                bounds=Bounds(np.array(self.low), np.array(self.high)),
                integrality=np.array(self.integer),
                options={"mip_rel_gap": gap, "time_limit": max(0.1, seconds), "presolve": presolve},
            )
            if found.status != FAILED:
                break
        return found.status, found.x


def combine(parts: Sequence[tuple[float, Affine]], constant: float = 0.0) -> Affine:
    """A weighted sum of affine expressions."""
    terms: dict[int, float] = {}
    for factor, (some, offset) in parts:
        constant += factor * offset
        for j, v in some.items():
            terms[j] = terms.get(j, 0.0) + factor * v
    return terms, constant


def value(expression: Affine, x: Array) -> float:
    return sum(v * x[j] for j, v in expression[0].items()) + expression[1]


@dataclass(frozen=True)
class Question:
    """Is there a row with at most `most` changes, no two of them in `conflict`, that reaches the aim; with `within`,
    a norm and a distance, one that is no farther away?"""

    cells: Sequence[Cell]
    aim: Aim
    most: int
    conflict: Sequence[tuple[int, int]] = ()
    within: tuple[str, float] | None = None

    @property
    def start(self) -> Array:
        return np.array([cell.value for cell in self.cells])

    def allows(self, row: Array) -> bool:
        changed = np.flatnonzero(row != self.start)
        near = self.within is None or distance(self.cells, row, self.within[0]) <= self.within[1]
        return (
            near
            and len(changed) <= self.most
            and not any(i in changed and j in changed for i, j in self.conflict)
            and all(cell.allows(v) for cell, v in zip(self.cells, row, strict=True))
        )


def decide(weights: Weights, question: Question, scores: Scores | None = None, seconds: float = 20.0) -> Verdict:
    """The answer to a question about a network. `scores` is the network itself, of rows (n, features)."""
    ask = scores or (lambda rows: np.stack([weights.scores(row) for row in rows]))
    if question.aim.margin(ask(question.start[None]))[0] >= BAND:
        return Verdict("yes", question.start)  # nothing has to change
    end, unclear = time.perf_counter() + seconds, False
    for winner in question.aim.rivals:
        found = Search(weights, question, winner).run(ask, end)
        if found.answer == "yes":
            return found
        unclear |= found.answer == "unclear"
    return Verdict("unclear" if unclear else "no")


class Search:
    """The program of one question and one class that is to win."""

    def __init__(self, weights: Weights, question: Question, winner: int) -> None:
        self.question, self.winner = question, winner
        self.program = Program()
        self.changed: dict[int, int] = {}  # feature -> whether it changes
        self.moves: dict[int, Affine] = {}  # of numbers, the difference
        self.chosen: dict[int, dict[int, int]] = {}  # of categories, code -> whether it is taken
        reach = self._features(weights)
        self.costs = self._distance()
        self._limits()
        z, low, high = self._first(weights, reach)
        for weight, bias in weights.later:
            z, low, high = self._layer(z, low, high, weight, bias)
        self.scores = z
        self._margin(low, high)

    def _features(self, weights: Weights) -> dict[int, tuple[Array, Array]]:
        """A variable for each change; returns the least and the most it adds to each unit of the first layer."""
        program, reach = self.program, {}
        for j, cell in enumerate(self.question.cells):
            if not cell.free:
                continue
            on = self.changed[j] = program.variable(0, 1, integer=True)
            own = weights.inputs[j].part(cell.value)
            if cell.codes is not None:
                self.chosen[j] = {c: program.variable(0, 1, integer=True) for c in cell.codes}
                taken = dict.fromkeys(self.chosen[j].values(), 1.0) | {on: -1.0}
                program.rows.append((taken, 0.0, 0.0))
                ends = [weights.inputs[j].part(c) - own for c in cell.codes]
            else:
                low, high = cell.low - cell.value, cell.high - cell.value
                if cell.whole and high - low <= MANY:
                    step = program.variable(0, high - low, integer=True)
                    program.at_most(({step: 1.0, on: low - high}, 0.0))
                    self.moves[j] = {on: low, step: 1.0}, 0.0
                else:
                    unit = max(abs(low), abs(high)) or 1.0
                    step = program.variable(min(0.0, low / unit), max(0.0, high / unit))
                    program.at_most(({step: -1.0, on: low / unit}, 0.0))
                    program.at_most(({step: 1.0, on: -high / unit}, 0.0))
                    self.moves[j] = {step: unit}, 0.0
                slope = weights.inputs[j].weight / weights.inputs[j].scale
                ends = [slope * low, slope * high]
            reach[j] = np.minimum(np.min(ends, axis=0), 0), np.maximum(np.max(ends, axis=0), 0)
        return reach

    def _limits(self) -> None:
        q, program = self.question, self.program
        program.at_most((dict.fromkeys(self.changed.values(), 1.0), 0.0), q.most)
        for i, j in q.conflict:
            if i in self.changed and j in self.changed:
                program.at_most(({self.changed[i]: 1.0, self.changed[j]: 1.0}, 0.0), 1.0)

    def _distance(self) -> dict[int, int]:
        """A variable for the cost of each change, as a share of the distance allowed."""
        q, costs = self.question, {}
        if q.within is None:
            return costs
        norm, far = q.within
        for j in self.changed:
            cell = q.cells[j]
            cost = costs[j] = self.program.variable(0, 1)
            if cell.codes is not None:
                terms = {b: cell.cost(c) / far for c, b in self.chosen[j].items()}
                self.program.at_most(combine([(1.0, (terms, 0.0)), (-1.0, ({cost: 1.0}, 0.0))]))
                continue
            for sign in (1.0, -1.0):
                self.program.at_most(combine([(sign * cell.rate / far, self.moves[j]), (-1.0, ({cost: 1.0}, 0.0))]))
        if norm != "linf":
            total = 1.0 if norm == "l1" else np.sqrt(max(1, len(costs)))
            self.program.at_most((dict.fromkeys(costs.values(), 1.0), 0.0), total)
        return costs

    def _first(self, weights: Weights, reach: dict[int, tuple[Array, Array]]) -> tuple[list[Affine], Array, Array]:
        q = self.question
        start = weights.first(q.start)
        z: list[Affine] = []
        for unit, base in enumerate(start):
            parts: list[tuple[float, Affine]] = []
            for j in self.changed:
                entry = weights.inputs[j]
                if isinstance(entry, Table):
                    own = entry.rows[int(q.cells[j].value), unit]
                    parts.append((1.0, ({b: entry.rows[c, unit] - own for c, b in self.chosen[j].items()}, 0.0)))
                else:
                    parts.append((entry.weight[unit] / entry.scale, self.moves[j]))
            z.append(combine(parts, base))
        none = np.zeros((1, len(start)))
        downs = np.sort(np.stack([r[0] for r in reach.values()]) if reach else none, axis=0)[: q.most]
        ups = np.sort(np.stack([r[1] for r in reach.values()]) if reach else none, axis=0)[::-1][: q.most]
        return z, start + downs.sum(axis=0), start + ups.sum(axis=0)

    def _layer(
        self, z: list[Affine], low: Array, high: Array, weight: Array, bias: Array
    ) -> tuple[list[Affine], Array, Array]:
        """A ReLU and the linear layer behind it. A unit that may be on or off is a variable, in units of its size."""
        program, out = self.program, []
        for unit in range(len(z)):
            if high[unit] <= 0:
                out.append(({}, 0.0))
            elif low[unit] >= 0:
                out.append(z[unit])
            else:
                size = max(high[unit], -low[unit])
                on, active = program.variable(0, 1, integer=True), program.variable(0, high[unit] / size)
                scaled = combine([(1 / size, z[unit])])
                program.at_most(combine([(1.0, scaled), (-1.0, ({active: 1.0}, 0.0))]))
                shut = ({active: 1.0, on: -low[unit] / size}, 0.0)
                program.at_most(combine([(1.0, shut), (-1.0, scaled)]), -low[unit] / size)
                program.at_most(({active: 1.0, on: -high[unit] / size}, 0.0))
                out.append(({active: size}, 0.0))
        low, high = np.maximum(low, 0), np.maximum(high, 0)
        plus, minus = np.maximum(weight, 0), np.minimum(weight, 0)
        after = [combine(list(zip(row, out, strict=True)), b) for row, b in zip(weight, bias, strict=True)]
        return after, plus @ low + minus @ high + bias, plus @ high + minus @ low + bias

    def _margin(self, low: Array, high: Array) -> None:
        """The margin, in units of the largest there may be; a program without solution if none is above the band."""
        c, rivals = self.winner, self.question.aim.rivals[self.winner]
        spans = np.array([[low[c] - high[k], high[c] - low[k]] for k in rivals])
        self.size = float(max(1e-3, np.abs(spans).max()))
        self.margin = self.program.variable(-max(BAND / self.size, SOLVER), 1.0)
        offset = max(0.0, self.question.aim.log_odds)
        for k in rivals:
            self._below(combine([(1.0, self.scores[c]), (-1.0, self.scores[k])], -offset))

    def _below(self, expression: Affine) -> None:
        """The margin is at most this."""
        self.program.at_most(combine([(1.0, ({self.margin: 1.0}, 0.0)), (-1.0 / self.size, expression)]))

    def run(self, ask: Scores, end: float) -> Verdict:
        gap = 0.3
        for _ in range(CUTS):
            status, x = self.program.maximise(self.margin, gap, end - time.perf_counter())
            if status == INFEASIBLE:
                return Verdict("no")
            if x is None or time.perf_counter() > end:
                return Verdict("unclear")
            row = self._row(x)
            if self.question.allows(row) and self.question.aim.margin(ask(row[None]))[0] >= BAND:
                return Verdict("yes", row)
            if not self._cut(x):
                if gap == 0:
                    return Verdict("unclear")
                gap = 0.0
        return Verdict("unclear")

    def _row(self, x: Array) -> Array:
        """The row that a solution means, exactly within its limits."""
        q, row = self.question, self.question.start
        for j, on in self.changed.items():
            if x[on] < 0.5:
                continue
            cell = q.cells[j]
            if cell.codes is not None:
                row[j] = max(self.chosen[j], key=lambda c, j=j: x[self.chosen[j][c]])
                continue
            new = cell.value + value(self.moves[j], x)
            row[j] = min(max(round(new) if cell.whole else new, cell.low), cell.high)
        if q.within is not None and (far := distance(q.cells, row, q.within[0])) > q.within[1]:
            share = q.within[1] / far * (1 - 1e-9)
            for j in self.moves:
                if not q.cells[j].whole:
                    row[j] = q.cells[j].value + share * (row[j] - q.cells[j].value)
        return row

    def _cut(self, x: Array) -> bool:
        """Add the cutting planes that the solution violates; whether there were any."""
        done, aim, c = False, self.question.aim, self.winner
        rivals = aim.rivals[c]
        if aim.confidence > 0 and len(rivals) > 1:  # log-sum-exp lies above its tangents
            f = np.array([value(self.scores[k], x) for k in rivals])
            top = f.max()
            shares = np.exp(f - top)
            total = top + np.log(shares.sum())
            shares /= shares.sum()
            odds = value(self.scores[c], x) - total - aim.log_odds
            if self.size * x[self.margin] > odds + 1e-7 * self.size:
                tangent = [(-p, self.scores[k]) for p, k in zip(shares, rivals, strict=True)]
                self._below(combine([(1.0, self.scores[c]), *tangent], float(shares @ f) - total - aim.log_odds))
                done = True
        if self.question.within is not None and self.question.within[0] == "l2":
            length = np.sqrt(sum(x[v] ** 2 for v in self.costs.values()))
            if length > 1 + 1e-7:
                self.program.at_most(({v: x[v] / length for v in self.costs.values()}, 0.0), 1.0)
                done = True
        return done
