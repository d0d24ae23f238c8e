"""The region of an explanation: the box around its answer in which the model decides the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np
import torch

from grace.errors import GraceError
from grace.problem.answers import Answers
from grace.problem.goal import Against, Between, Goal
from grace.proofs.regions import Regions, regions_of
from grace.schema.features import Categorical, Value
from grace.schema.parsing import Bound, fitted
from grace.schema.schema import Schema
from grace.text.vocabulary import Range, range_ends

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.explain.shared_parts import CellReader


class RegionJson(TypedDict):
    intervals: Mapping[str, tuple[Bound, Bound]]
    categories: NotRequired[Mapping[str, tuple[Value, ...]]]
    proven: bool
    points: NotRequired[int]
    complete: NotRequired[bool]


@dataclass(frozen=True)
class Region:
    """A box over the changed features that contains the answer: with any of its values, and all other features as in
    the row, the model decides as it does at the answer.

    `proven` if that is proven everywhere in the box, of whole numbers in whole steps; otherwise the model was asked at
    so many `points` of it. `complete` if every side was grown as far as it can be: False if a limit on the work ended
    the growth, and then the box may be larger.
    """

    intervals: Mapping[str, tuple[float, float]]
    categories: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    proven: bool = True
    points: int = 0
    complete: bool = True

    def __contains__(self, row: Mapping[str, Any]) -> bool:
        """Whether the changed features of a row have values of the box."""
        return all(low <= row[name] <= high for name, (low, high) in self.intervals.items()) and all(
            row[name] in known for name, known in self.categories.items()
        )

    @property
    def has_room(self) -> bool:
        """Whether it contains more than the answer."""
        return any(low < high for low, high in self.intervals.values()) or any(
            len(known) > 1 for known in self.categories.values()
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
            "categories": {name: list(known) for name, known in self.categories.items()},
            "proven": self.proven,
            "points": self.points,
            "complete": self.complete,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Region:
        parts: dict[str, Any] = fitted(data, RegionJson, "the region")
        for name, (low, high) in parts["intervals"].items():
            if not low <= high:
                raise GraceError(f"the region is damaged: the interval of {name!r} has no values")
        return cls(**parts)


def region_of(schema: Schema, reader: CellReader, columns: Sequence[int], found: Regions, at: int) -> Region | None:
    """The region of one answer as it is shown, with its changed `columns`; None if it is unknown."""
    if not found.known[at]:
        return None
    numbers = [j for j in columns if not isinstance(schema.features[j], Categorical)]
    sets = {j: np.flatnonzero(found.categories[j][at]) for j in columns if j not in numbers}
    return Region(
        {schema.names[j]: (float(found.low[at, j]), float(found.high[at, j])) for j in numbers},
        {schema.names[j]: tuple(reader.value(j, float(code)) for code in codes) for j, codes in sets.items()},
        found.proven,
        int(found.points[at]),
        bool(found.complete[at]),
    )


def decision_goal(
    explainer: Explainer, answers: Answers, here: slice, target_ranges: Sequence[Range] | None
) -> Against | Between:
    """The decision at each contrastive row as a goal: its class, or its target range."""
    if target_ranges is None:
        return Against(explainer.tensor(answers.after[here]).argmax(dim=1), 0.0, explainer.model.shift)
    ends = explainer.tensor(np.array([range_ends(r) for r in target_ranges[here]]).reshape(-1, 2))
    return Between(ends[:, 0], ends[:, 1], explainer.spread())


def regions_of_answers(
    explainer: Explainer, schema: Schema, answers: Answers, here: slice, target_ranges: Sequence[Range] | None
) -> Regions:
    """`regions_of` the answers to some rows. Not computed for rows in which other features follow the changed ones."""
    rows, contrast = (explainer.tensor(part[here]) for part in (answers.rows, answers.contrast))
    follows = torch.as_tensor(answers.followed[here].any(axis=1), device=rows.device)
    contrast = torch.where(follows[:, None], rows, contrast)
    goal: Goal = decision_goal(explainer, answers, here, target_ranges)
    settings = replace(explainer.settings, method="search", among="nearest", gamma=1.0)
    return regions_of(explainer._problem(rows, goal, schema, settings), contrast)
