"""Details of explanations that need model calls, computed for many rows at once and cached: the span of each changed
number, the region around an answer, medians of the new class, and the diagnosis of misses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from grace.explain.batching import queries_so_far
from grace.explain.diagnosis import LimitChange, diagnose
from grace.explain.region import Region, decision_goal, region_of, regions_of_answers
from grace.methods import METHODS
from grace.methods.polish import EXHAUSTIVE, equal_counts, with_subsets
from grace.methods.profiles import ASKED, profiles_of
from grace.problem.answers import Answers
from grace.problem.decimals import Decimals, digits_of
from grace.problem.goal import Against
from grace.problem.numpy_or_torch import to_native
from grace.problem.problem import Problem
from grace.proofs.boxes import POINTS
from grace.proofs.regions import ASKED_BOXES, Regions
from grace.schema.features import Bools, Floats
from grace.schema.schema import Schema
from grace.text.vocabulary import Range

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.explain.explanations import Explanations
    from grace.explain.shared_parts import CellReader

Result = TypeVar("Result")
Rows = npt.NDArray[np.int64]
SPAN_BLOCK = 256  # rows whose spans are computed together
REGION_BLOCK = 16  # rows whose regions are
BRITTLE = 0.01  # spreads beyond the new value within which a brittle change misses the goal
CALLS_PER_CELL = ASKED + 2  # rows that a black box is queried for, per changed cell
CALLS_PER_SIDE = ASKED + ASKED_BOXES * POINTS  # and for a region, per side of its box


class Details:
    """Spans, class medians and diagnosis of a batch. `rank` is 0 for the first answers, and counts the alternatives.
    A black box is not queried for more rows than its limit allows: what that leaves out is unknown (NaN)."""

    def __init__(self, batch: Explanations) -> None:
        self.batch = batch
        self.queries = 0  # rows that a black box was queried for
        self._medians: dict[int, Floats] = {}
        self._spans: dict[tuple[int, int], tuple[Floats, dict[int, list[int]]]] = {}
        self._regions: dict[tuple[int, int], Regions | None] = {}
        self._tied: dict[int, frozenset[int]] = {}

    @cached_property
    def diagnosis(self) -> dict[int, list[LimitChange]]:
        """For each row without an answer, which limits would have to be lifted."""
        return diagnose(self.batch)

    def class_medians(self, rank: int, answers: Answers) -> Floats:
        """Medians of the new class in the changed numbers (n, d), see `ModelView.class_medians`."""
        if rank not in self._medians:
            medians = np.full_like(answers.contrast, np.nan)
            if self._may_query(len(answers.rows)):
                medians = self._counted(lambda: self.batch.explainer.class_medians(answers))
            self._medians[rank] = medians
        return self._medians[rank]

    def spans(self, i: int, rank: int, answers: Answers) -> tuple[Floats, list[int]]:
        """The spans (d, 2) of row i, and the columns of its changes that are brittle; see `spans_of`."""
        block, at = divmod(i, SPAN_BLOCK)
        spans, brittle = self._spans_of_block(block, rank, answers)
        return spans[at], brittle.get(at, [])

    def spans_at(self, rank: int, answers: Answers, row: Rows, column: Rows) -> Floats:
        """The spans (m, 2) of changed cells, which are sorted by row."""
        out = np.full((len(row), 2), np.nan)
        for block in np.unique(row // SPAN_BLOCK).tolist():
            begin, end = np.searchsorted(row, [block * SPAN_BLOCK, (block + 1) * SPAN_BLOCK])
            spans = self._spans_of_block(block, rank, answers)[0]
            out[begin:end] = spans[row[begin:end] - block * SPAN_BLOCK, column[begin:end]]
        return out

    def brittle(self, rank: int, answers: Answers) -> dict[int, list[int]]:
        """The columns of brittle changes, for each row that has any."""
        out = {}
        for block in range(-(-len(answers.rows) // SPAN_BLOCK)):
            found = self._spans_of_block(block, rank, answers)[1]
            out.update({block * SPAN_BLOCK + at: columns for at, columns in found.items()})
        return out

    def _spans_of_block(self, block: int, rank: int, answers: Answers) -> tuple[Floats, dict[int, list[int]]]:
        if (block, rank) not in self._spans:
            here = slice(block * SPAN_BLOCK, (block + 1) * SPAN_BLOCK)
            shape = answers.contrast[here].shape
            found = np.full((*shape, 2), np.nan), np.zeros(shape, dtype=bool)
            if self._may_query(CALLS_PER_CELL * int(answers.changed[here].sum())):
                batch = self.batch
                found = self._counted(
                    lambda: spans_of_answers(batch.explainer, batch.schema, answers, here, batch.target_ranges)
                )
            self._spans[block, rank] = found[0], columns_by_row(found[1])
        return self._spans[block, rank]

    def region(self, i: int, rank: int, answers: Answers, columns: Sequence[int], reader: CellReader) -> Region | None:
        """The region of row i, whose changed columns are given; None if it is unknown."""
        block, at = divmod(i, REGION_BLOCK)
        if (block, rank) not in self._regions:
            here, batch, found = slice(block * REGION_BLOCK, (block + 1) * REGION_BLOCK), self.batch, None
            if self._may_query(CALLS_PER_SIDE * 2 * int(answers.changed[here].sum())):
                found = self._counted(
                    lambda: regions_of_answers(batch.explainer, batch.schema, answers, here, batch.target_ranges)
                )
            self._regions[block, rank] = found
        regions = self._regions[block, rank]
        return None if regions is None else region_of(self.batch.schema, reader, columns, regions, at)

    def tied(self, rank: int, answers: Answers) -> frozenset[int]:
        """The rows of which fewer changes already lead to a tie that the model decides as was asked for; see
        `tied_answers`. Empty where that is not known."""
        if rank not in self._tied:
            found: frozenset[int] = frozenset()
            batch = self.batch
            if batch.target_ranges is None and _is_polished(batch.call):
                count = answers.changed.sum(axis=1)
                some = answers.success & ~np.asarray(answers.checks["irreducible"], dtype=bool)
                some &= (count <= EXHAUSTIVE) & ~answers.followed.any(axis=1)
                here = np.flatnonzero(some)
                if len(here) and self._may_query(int((2 << count[here]).sum())):
                    tied = self._counted(lambda: tied_answers(batch.explainer, batch.schema, answers, here))
                    found = frozenset(here[tied].tolist())
            self._tied[rank] = found
        return self._tied[rank]

    def _may_query(self, rows: int) -> bool:
        left = self.batch.calls_left
        return left is None or left >= rows

    def _counted(self, compute: Callable[[], Result]) -> Result:
        """The result, with the rows that a black box was queried for added to `queries`."""
        before = queries_so_far(self.batch.explainer.model)[1]
        out = compute()
        self.queries += queries_so_far(self.batch.explainer.model)[1] - before
        return out


def _is_polished(call: Mapping[str, Any]) -> bool:
    method = METHODS[call["method"]]
    return method.polishes_itself or (call["polish"] and method.gets_polished)


def tied_answers(explainer: Explainer, schema: Schema, answers: Answers, rows: Rows) -> Bools:
    """Whether a proper subset of the changes of some rows is decided like all of them, but none with a margin."""
    goal = Against(explainer.tensor(answers.after[rows]).argmax(dim=1), 0.0, explainer.model.shift)
    settings = replace(explainer.settings, method="search", gamma=1.0)
    problem = explainer._problem(explainer.tensor(answers.rows[rows]), goal, schema, settings)
    contrast = explainer.tensor(answers.contrast[rows])
    out = torch.zeros(len(rows), dtype=torch.bool, device=contrast.device)
    for part, size in equal_counts((contrast != problem.rows).sum(dim=1), contrast.shape[1]):
        each = problem.select(part)
        fewer = with_subsets(each, contrast[part], size)[1]
        out[part] = each.decisions(fewer).any(dim=1) & ~each.reached(fewer).any(dim=1)
    return out.cpu().numpy()


def columns_by_row(cells: Bools) -> dict[int, list[int]]:
    """The columns of the cells (n, d) that are true, for each row that has any."""
    out: dict[int, list[int]] = {}
    for row, column in np.argwhere(cells).tolist():
        out.setdefault(row, []).append(column)
    return out


def spans_of(problem: Problem, contrast: Tensor) -> tuple[Tensor, Tensor]:
    """The interval (n, d, 2) around each changed number in which the goal stays reached if it alone varies; NaN
    elsewhere. Its ends are rounded inwards to the decimals of the text, or are the ends of the domain, and are checked
    by the model. Also which changes (n, d) are brittle: less than `BRITTLE` spreads beyond the new value, as seen from
    the row, the goal is missed."""
    out = contrast.new_full((*contrast.shape, 2), torch.nan)
    brittle = torch.zeros_like(contrast, dtype=torch.bool)
    row, column = torch.nonzero((contrast != problem.rows) & problem.space.is_numeric, as_tuple=True)
    if len(row) == 0:
        return out, brittle
    part, rows, at = problem.select(row), contrast[row], column[:, None]
    x, value, bottom, top = (t.gather(1, at) for t in (part.rows, rows, part.low, part.high))
    low, high = (end[:, None] for end in profiles_of(part, rows, column).around(value[:, 0]))
    ends = tuple(to_native(t) for t in (low, high, value))
    grid = Decimals.of(digits_of(problem.space, at, torch.zeros_like(row), *ends))
    below = torch.where(low == bottom, low, torch.as_tensor(grid.values(grid.ceil(ends[0]))))
    above = torch.where(high == top, high, torch.as_tensor(grid.values(grid.floor(ends[1]))))
    below, above = torch.minimum(below, value), torch.maximum(above, value)
    tried = rows[:, None].repeat(1, 2, 1).scatter_(2, at[:, None].expand(-1, 2, 1), torch.stack([below, above], dim=1))
    out[row, column] = torch.where(part.reached(tried), torch.cat([below, above], dim=1), value)
    integer = problem.space.is_integer[at]
    fails_up, fails_down = torch.where(integer, high.floor() + 1, high), torch.where(integer, low.ceil() - 1, low)
    room = torch.where(value > x, fails_up - value, value - fails_down)
    ended = torch.where(value > x, high == top, low == bottom)
    brittle[row, column] = (~ended & (room < (BRITTLE - 1e-9) * problem.space.spread[at]))[:, 0]
    return out, brittle


def spans_of_answers(
    explainer: Explainer, schema: Schema, answers: Answers, here: slice, target_ranges: Sequence[Range] | None
) -> tuple[Floats, Bools]:
    """`spans_of` the answers to some rows, for the class of each contrastive row, or for its target range. Not computed
    for rows in which other features follow the changed ones."""
    rows, contrast = (explainer.tensor(part[here]) for part in (answers.rows, answers.contrast))
    follows = torch.as_tensor(answers.followed[here].any(axis=1), device=rows.device)
    contrast = torch.where(follows[:, None], rows, contrast)
    goal = decision_goal(explainer, answers, here, target_ranges)
    settings = replace(explainer.settings, method="search", gamma=1.0)
    found, brittle = spans_of(explainer._problem(rows, goal, schema, settings), contrast)
    return found.cpu().numpy(), brittle.cpu().numpy()
