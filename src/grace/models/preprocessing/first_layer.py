"""The first layer of a model behind preprocessing, as a sum of what each feature adds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from grace.models.predictor import Predictor
from grace.models.preprocessing.columns import Column
from grace.models.preprocessing.reading import Preprocessing
from grace.schema.features import Floats, columns_of
from grace.schema.schema import Schema


@dataclass(frozen=True)
class FirstLayer:
    """Weights (inputs, units) and biases of a layer that gets what preprocessing makes of rows. `asked` is the model as
    a black box, bound to a schema, and `rows` are samples of its domain."""

    weight: Floats
    bias: Floats
    before: Preprocessing
    asked: Predictor
    rows: Floats

    @property
    def schema(self) -> Schema:
        schema = self.asked.schema
        assert schema is not None
        return schema

    @property
    def fits(self) -> bool:
        """Whether the layer has a weight for each column, and the features are all columns of the original frame."""
        return len(self.weight) == len(self.before.columns) and len(self.schema.columns) == self.before.width

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.before.names or self.schema.columns)}

    def inputs(self, j: int) -> npt.NDArray[np.int64]:
        """The inputs that are made from a feature, which may be a group of columns."""
        sources = [self._place[name] for name in columns_of(self.schema.features[j])]
        return np.concatenate([self.before.made_from(source) for source in sources])

    def columns(self, j: int) -> list[tuple[int, Column]]:
        """The same with what each of them is to the feature."""
        return [(c, self.before.columns[c]) for c in self.inputs(j).tolist()]

    def made(self, j: int, values: Floats) -> Floats:
        """The inputs (m, inputs) of sample rows with values (m,) of a feature, by the preprocessing itself."""
        rows = np.repeat(self.rows[:1], len(values), axis=0)
        rows[:, j] = values
        with warnings.catch_warnings(action="ignore"):  # of unknown categories
            return self.before.transform(self.asked.given(rows))

    def added(self, j: int, values: Floats) -> Floats:
        """What values (m,) of a feature add to the units (m, units)."""
        inputs = self.inputs(j)
        return np.asarray(self.made(j, values)[:, inputs] @ self.weight[inputs])
