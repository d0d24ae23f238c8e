"""Statistics of the background rows under a model, computed on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, checked_scores
from grace.problem.answers import Answers
from grace.problem.background import Background, class_median_cells, class_medians, conflicts, prediction_spread
from grace.problem.binding import query
from grace.problem.problem import BackgroundRows
from grace.problem.requirements.dependence import Learner
from grace.problem.requirements.plausible import Typicality
from grace.problem.space import Space
from grace.problem.uploads import uploaded
from grace.schema.domains import Domain
from grace.schema.features import Floats
from grace.schema.schema import Schema


class ModelView:
    """A model with its schema, the schemas of other domains, and the background rows. What depends on the model's
    scores is computed once, except that `background_scores` and `typicality` follow a model that is trained on."""

    def __init__(self, model: Model, schema: Schema, schemas: Mapping[Domain, Schema], background: Background) -> None:
        self.model, self.schema, self.schemas, self.background = model, schema, schemas, background
        self._spaces: dict[tuple[Domain, str], Space] = {}
        self._last_space: Space | None = None
        self._scores: tuple[str, Floats] | None = None  # with the fingerprint of the model
        self._typicality: tuple[str, Typicality] | None = None
        self._conflict: tuple[float, Tensor] | None = None  # with gamma

    def tensor(self, rows: Floats) -> Tensor:
        return torch.as_tensor(rows, dtype=torch.float64, device=self.model.device)

    def own_rows(self, rows: Floats) -> Tensor:
        """A copy on the device, one row after another."""
        there = uploaded(rows, self.model.device)
        return there.clone(memory_format=torch.contiguous_format) if there.is_cpu else there.contiguous()

    def space(self, schema: Schema, norm: str = "l1") -> Space:
        """The space of a schema; those of whole domains are cached, and the last one of others, which have limits or
        rules of a call."""
        if schema is not self.schemas.get(schema.domain):
            last = self._last_space
            if last is None or last.schema is not schema or last.norm != norm:
                last = self._last_space = Space(schema, self.model.vectors(), self.model.device, norm)
            return last
        if (schema.domain, norm) not in self._spaces:
            self._spaces[schema.domain, norm] = Space(schema, self.model.vectors(), self.model.device, norm)
        return self._spaces[schema.domain, norm]

    def conflict(self, gamma: float) -> Tensor:
        """Which pairs of features are redundant (d, d): SU > gamma. That of the last gamma is cached."""
        if self._conflict is None or self._conflict[0] != gamma:
            found = conflicts(self.background.su, gamma, len(self.schema)).to(self.model.device)
            self._conflict = gamma, found
        return self._conflict[1]

    @cached_property
    def background_rows(self) -> BackgroundRows | None:
        """The background rows as methods use them."""
        if self.background.rows is None:
            return None
        scores = self.background.scores if self.model.black_box else None
        rows = self.tensor(self.background.rows)
        known = checked_scores(self.model, rows) if scores is None else self.tensor(scores)
        return BackgroundRows(rows, self.model, self.space(self.schema), known)

    def background_scores(self) -> Floats | None:
        """The scores of the background rows by the model as it is now; None if there are no such rows."""
        if self.background.rows is None:
            return None
        weights = self.model.fingerprint()
        if self._scores is None or self._scores[0] != weights:
            known = self.background.scores if self.model.black_box else None
            self._scores = weights, query(self.model, self.background.rows) if known is None else known
        return self._scores[1]

    def _first_scores(self) -> Floats:
        """The scores of the background rows by the model as it was learnt from, else as it is now."""
        assert self.background.rows is not None
        known = self.background.scores
        return query(self.model, self.background.rows) if known is None else known

    @cached_property
    def _medians(self) -> Floats:
        assert self.background.rows is not None
        return class_medians(self.background.rows, self._first_scores())

    def class_medians(self, answers: Answers) -> Floats:
        """The median of the class of each contrastive row, among background rows of that class, in the changed numbers;
        NaN elsewhere, and in rows that with it are not of that class."""
        if self.background.rows is None or self.model.task == "regression":
            return np.full_like(answers.contrast, np.nan)
        return class_median_cells(self.model, self.schema, self._medians, answers)

    @cached_property
    def spread(self) -> float:
        """The unit of a predicted number; without training rows, 1."""
        return 1.0 if self.background.rows is None else prediction_spread(self.model, self._first_scores())

    def typicality(self) -> Typicality:
        """The distribution of the background rows of each class."""
        scores = self.background_scores()
        if scores is None or self.background.rows is None:
            raise GraceError("what is typical is known from training rows; give train=, or save with background rows")
        if self.model.task == "regression":
            raise GraceError("what is typical is known of classes; this model predicts a number")
        assert self._scores is not None
        weights = self._scores[0]
        if self._typicality is None or self._typicality[0] != weights:
            rows, codes = self.tensor(self.background.rows), self.tensor(scores).argmax(dim=1)
            found = Typicality.of(self.space(self.schema), rows, codes, len(self.model.classes))
            self._typicality = weights, found
        return self._typicality[1]

    @cached_property
    def learner(self) -> Learner:
        """Regressions of features on the others, fitted to the background rows when they are asked for."""
        if self.background.rows is None:
            raise GraceError("what follows is learnt from training rows; give train=, or save with background rows")
        return Learner(self.schema, self.background.rows)
