"""The first layer of a model behind preprocessing, as a sum of what each feature adds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from grace.models.predictor import Predictor
from grace.models.preprocessing.columns import MONOTONE, STEPS, TABLE, Column
from grace.models.preprocessing.formulas import Bins
from grace.models.preprocessing.inputs import Function
from grace.models.preprocessing.reading import Preprocessing
from grace.models.preprocessing.transformers import UnreadableError
from grace.schema.columns import is_temporal
from grace.schema.features import Floats, Numeric, columns_of
from grace.schema.low_precision import is_low_precision
from grace.schema.schema import Schema

EXACT = 1e-12  # by how much a formula may differ from what the library computes, relative to its terms
COMPARED = 257  # numbers between the ends of a range for which both are compared, beside those of sample rows


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

    # -- functions of numbers -------------------------------------------------------------------

    def function(self, j: int) -> Function | None:
        """What the layer gets of a number, if that is bins or the same function of it in all columns; None if it gets
        the number itself, scaled, or nothing. An error if it is something else."""
        feature = self.schema.features[j]
        assert isinstance(feature, Numeric)
        columns = [column for c, column in self.columns(j) if self.weight[c].any()]
        if not columns:
            return None
        if is_low_precision(feature) or is_temporal(feature) or any(column.kind == TABLE for column in columns):
            raise UnreadableError("a number of low precision, a date, or any function of a number")
        low, high = max(column.low for column in columns), min(column.high for column in columns)
        stepped = [column for column in columns if column.kind == STEPS and column.cuts]
        lines = [column for column in columns if column.kind != STEPS]
        if stepped and lines:
            raise UnreadableError("bins of a number, and the number itself")
        if stepped:
            edges = np.unique([edge for column in stepped for edge in column.edges])
            return Function(Bins(tuple(edges.tolist())), low, high)
        if not any(column.kind == MONOTONE for column in lines):
            return None
        formulas = {None if column.formula is None else column.formula.without_last_lines[0] for column in lines}
        known = formulas.pop()
        if formulas or known is None or not all(self._is_exact(column, j, low, high) for column in lines):
            raise UnreadableError("different functions of a number")
        return Function(known, low, high)

    def _is_exact(self, column: Column, j: int, low: float, high: float) -> bool:
        """Whether the formula of a column gives what the library computes."""
        assert column.formula is not None
        feature = self.schema.features[j]
        assert isinstance(feature, Numeric)
        bottom, top = (min(max(end, low), high) for end in feature.bounds)
        own = self.rows[:, j]
        own = own[(own >= low) & (own <= high) & (own != feature.missing_code)]
        tried = np.concatenate([np.linspace(bottom, top, COMPARED), own])
        offset = column.formula.without_last_lines[2]
        read, asked = column.formula(torch.as_tensor(tried)).numpy(), np.asarray(column.evaluate(tried))
        return bool((np.abs(read - asked) <= EXACT * (1 + np.abs(read - offset) + abs(offset))).all())

    def bins(self, j: int, bins: Bins) -> Floats:
        """What each bin of a number adds to the units (m, units); after them, what a missing cell adds."""
        feature = self.schema.features[j]
        assert isinstance(feature, Numeric)
        edges = np.array(bins.edges)
        inside = np.concatenate([[np.nextafter(edges[0], -np.inf) if len(edges) else 0.0], edges])
        return self.added(j, np.append(inside, feature.missing_code) if feature.gaps else inside)


def functions_of(first: FirstLayer) -> tuple[tuple[int, Function], ...]:
    """The functions of numbers that a layer gets; an error if it gets something else of one."""
    numbers = [j for j, feature in enumerate(first.schema.features) if isinstance(feature, Numeric)]
    found = [(j, first.function(j)) for j in numbers]
    return tuple((j, function) for j, function in found if function is not None)
