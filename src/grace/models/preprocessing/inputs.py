"""What a network behind preprocessing gets of rows: functions of their numbers, and bins of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from grace.models.one_hot import OneHot
from grace.models.preprocessing.formulas import Bins, Composition
from grace.models.preprocessing.known_ranges import KnownRanges
from grace.schema.features import Categorical, Feature, Numeric
from grace.schema.schema import Schema


@dataclass(frozen=True)
class Function:
    """What a network gets of numbers within [low, high]."""

    formula: Composition | Bins
    low: float
    high: float

    def of(self, value: float) -> float:
        """The value of one number."""
        return float(self.formula(torch.tensor([value], dtype=torch.float64))[0])

    def feature(self, feature: Numeric) -> Feature:
        """The feature that the network gets: a number, or the place of a bin among all, behind which a missing cell
        has a place of its own."""
        # within the range: beyond it, a function may grow without bounds
        least, most = (min(max(end, self.low), self.high) for end in feature.bounds)
        spread, typical = feature.spread or 1.0, min(max(feature.typical or 0.0, least), most)
        ends = (max(typical - spread / 2, least), min(typical + spread / 2, most))
        near, far = sorted(map(self.of, ends))
        if isinstance(self.formula, Bins):
            codes = tuple(range(len(self.formula.edges) + 1 + feature.gaps))
            return Categorical(
                name=feature.name,
                categories=codes,
                never=codes[len(codes) - feature.gaps :],
                ordered=True,
                spread=spread if self.formula.lists_numbers else max(1.0, far - near),
                cost=feature.cost,
            )
        share = (ends[1] - ends[0]) / spread
        own = sorted(map(self.of, (least, most)))
        return Numeric(
            name=feature.name,
            gaps=feature.gaps,
            observed=(own[0], own[1]),
            spread=(far - near) / share if far > near else 1.0,
            typical=self.of(typical),
            integer=False,
            cost=feature.cost,
        )


@dataclass(frozen=True, eq=False)
class TransformedInputs:
    """Encoded rows of a schema as inputs of layers: some numbers become the values of a function, and then categories
    become one-hot vectors."""

    schema: Schema
    functions: tuple[tuple[int, Function], ...]
    known: KnownRanges | None = None
    """The numbers for which the functions are what the pipeline computes; None if they are for all."""

    @cached_property
    def inner(self) -> Schema:
        """The schema of transformed rows."""
        return self.schema_of(self.schema)

    def schema_of(self, schema: Schema) -> Schema:
        """The schema of transformed rows, with the limits and costs of another schema of the same features."""
        features = list(schema.features)
        for j, function in self.functions:
            feature = features[j]
            assert isinstance(feature, Numeric)
            features[j] = function.feature(feature)
        return replace(schema, features=tuple(features), rules=())

    def listing(self, most: int) -> TransformedInputs:
        """The same where each whole number of a feature with at most so many is a category; as far again beyond its
        range, as rows may be there. Itself if there is no such feature."""
        functions = []
        for j, function in self.functions:
            feature = self.schema.features[j]
            assert isinstance(feature, Numeric)
            low, high = feature.bounds
            if feature.integer and high - low < most and not isinstance(function.formula, Bins):
                first, last = (math.ceil(max(low - most, function.low)), math.floor(min(high + most, function.high)))
                function = Function(Bins.of_whole_numbers(first, last), first, last)
            functions.append((j, function))
        return self if tuple(functions) == self.functions else replace(self, functions=tuple(functions))

    def weights(self, weight: Tensor, listing: TransformedInputs) -> Tensor:
        """The weights (units, inputs) of a first layer for what `listing`, made of these inputs, gives it."""
        old, new = self.then, listing.then
        out = weight.new_zeros(len(weight), new.width)
        for at, j in enumerate(new.numeric):
            out[:, at] = weight[:, old.numeric.index(j)]
        for j, block in new.blocks.items():
            if j in old.blocks:
                out[:, block] = weight[:, old.blocks[j]]
                continue
            formula, numbers = dict(self.functions)[j].formula, dict(listing.functions)[j]
            listed = torch.arange(numbers.low, numbers.high + 1, dtype=torch.float64, device=weight.device)
            part = weight[:, [old.numeric.index(j)]] * formula(listed)
            if j in old.gaps:
                part = torch.cat([part, weight[:, [old.gaps[j]]]], dim=1)
            out[:, block] = part
        for j, at in new.gaps.items():
            out[:, at] = weight[:, old.gaps[j]]
        return out

    def __call__(self, rows: Tensor) -> Tensor:
        return self.then(self.transformed(rows))

    @cached_property
    def then(self) -> OneHot:
        """What the layers get of transformed rows."""
        return OneHot.of(self.inner)

    def transformed(self, rows: Tensor) -> Tensor:
        """Encoded rows (n, d) with the values of the functions."""
        out = rows.clone()
        for j, function in self.functions:
            out[:, j] = self.values(j, function, rows[:, j])
        return out

    def values(self, j: int, function: Function, numbers: Tensor) -> Tensor:
        """The values of a function for numbers (n,) of a feature, of which some may be missing."""
        feature = self.schema.features[j]
        assert isinstance(feature, Numeric)
        if not feature.gaps:
            return function.formula(numbers)
        absent = numbers == feature.missing_code
        known = torch.where(absent, min(max(feature.typical or 0.0, function.low), function.high), numbers)
        inner = self.inner.features[j]
        code = len(inner.categories) - 1 if isinstance(inner, Categorical) else inner.missing_code
        return torch.where(absent, code, function.formula(known))
