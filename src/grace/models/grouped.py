"""A model that knows the columns of a table, asked about rows in which groups of them are one feature each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from grace.models.base import Margins, Model
from grace.models.predictor import Predictor
from grace.schema.features import Categorical
from grace.schema.groups import column_positions, has_groups, ungrouped
from grace.schema.schema import Schema


class Grouped(Model):
    """The model, with every group turned into its columns before it is asked. The coordinates of a group are its
    columns, so that slopes are the model's own."""

    def __init__(self, model: Model, schema: Schema) -> None:
        self.model, self.schema, self.name = model, schema, model.name
        self.classes, self.task, self.device = model.classes, model.task, model.device
        self.tolerance, self.black_box = model.tolerance, model.black_box
        self.no_probabilities_because, self.cutoffs = model.no_probabilities_because, model.cutoffs
        self.subject, self.file = model.subject, model.file
        self._places = column_positions(schema)
        self.cache: dict[str, Any] = {}  # what others have made of the model, until `refresh`

    def places(self) -> list[tuple[int, ...]]:
        """The columns of each feature in the model's rows."""
        return self._places

    def columns(self, rows: Tensor) -> Tensor:
        """The rows as the model knows them."""
        parts = []
        for j, place in enumerate(self._places):
            one_hot = torch.nn.functional.one_hot(rows[:, j].long(), len(place)) if len(place) > 1 else rows[:, [j]]
            parts.append(one_hot.to(rows.dtype))
        return torch.cat(parts, dim=1)

    def scores(self, rows: Tensor) -> Tensor:
        return self.model.scores(self.columns(rows))

    def slopes(self, rows: Tensor, margins: Margins, moving: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if moving is not None:
            moving = torch.cat([moving[:, [j]].expand(-1, len(p)) for j, p in enumerate(self._places)], dim=1)
        scores, slopes = self.model.slopes(self.columns(rows), margins, moving)
        return scores, slopes[:, :, self._order()]

    def _order(self) -> list[int]:
        """Where the coordinates of the grouped space stand among the model's: numbers first, then categories."""
        inner = ungrouped(self._need_schema()).features
        numeric = [j for j, f in enumerate(inner) if not isinstance(f, Categorical)]
        known, start = self.model.vectors(), len(numeric)
        at = {j: [place] for place, j in enumerate(numeric)}
        for j, f in enumerate(inner):
            if isinstance(f, Categorical):
                size = known[j].shape[1] if j in known else len(f.categories)
                at[j] = list(range(start, start + size))
                start += size
        kinds = list(zip(self._need_schema().features, self._places, strict=True))
        order = [at[p[0]][0] for f, p in kinds if not isinstance(f, Categorical)]
        order += [i for f, p in kinds if isinstance(f, Categorical) for j in p for i in at[j]]
        return order

    def vectors(self) -> Mapping[int, Tensor]:
        owner = {p[0]: j for j, p in enumerate(self._places) if len(p) == 1}
        return {owner[j]: table for j, table in self.model.vectors().items()}

    def fingerprint(self) -> str:
        return self.model.fingerprint()

    def refresh(self) -> None:
        self.model.refresh()
        self.cache.clear()

    def bind(self, schema: Schema, rows: Tensor) -> None:
        self.schema = schema
        self.model.bind(ungrouped(schema), self.columns(rows))
        self.classes, self.tolerance = self.model.classes, self.model.tolerance
        self.no_probabilities_because, self.cutoffs = self.model.no_probabilities_because, self.model.cutoffs

    def with_threshold(self, threshold: Any) -> Model:
        return Grouped(self.model.with_threshold(threshold), self._need_schema())

    def without_layers(self) -> Model:
        return grouped(self.model.without_layers(), self._need_schema())

    def on(self, device: torch.device) -> Model:
        return self if device == self.device else Grouped(self.model.on(device), self._need_schema())


def grouped(model: Model, schema: Schema) -> Model:
    """The model, made to know groups if the schema has any that it does not. A black box gets the table's columns
    anyway."""
    if not has_groups(schema) or isinstance(model, Predictor | Grouped):
        return model
    if model.schema is not None and has_groups(model.schema):
        return model
    return Grouped(model, schema)
