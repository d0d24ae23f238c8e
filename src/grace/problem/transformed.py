"""Problems about networks that get functions of the numbers of a row, in terms of the values of those functions.

A logarithm, a power or a bin of a number comes before the first layer of such a network, which is a ReLU network of
what comes out. As the functions never turn, the ranges of a row are ranges of those values, so that what is proven to
be impossible there is impossible for rows. A whole number becomes any number between whole ones, which is more than
there is: whether an answer is one is asked of the model.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from grace.models.base import Model
from grace.models.preprocessing.formulas import Bins
from grace.models.preprocessing.inputs import TransformedInputs
from grace.models.torch import TorchModel
from grace.problem.goal import Against, Between, Flip
from grace.problem.problem import BackgroundRows, Problem, positions
from grace.problem.space import Space

ROUNDING = 1e-12  # of the values of functions, relative to them
LISTED = 256  # whole numbers of a feature up to which a search tries each
FINER = 4  # more digits of values of functions than of other numbers: the numbers behind them are rounded


@dataclass(frozen=True)
class Transformed:
    """A problem, and the same one in terms of what the network gets."""

    problem: Problem
    inner: Problem
    inputs: TransformedInputs

    @property
    def curved(self) -> tuple[int, ...]:
        """The features of which the network gets values that lie otherwise apart than the numbers do."""
        own = [j for j, f in self.inputs.functions if isinstance(f.formula, Bins) and f.formula.lists_numbers]
        return tuple(j for j, _ in self.inputs.functions if j not in own)

    def select(self, index: Tensor) -> Transformed:
        """The problem for some of its rows."""
        return replace(self, problem=self.problem.select(index), inner=self.inner.select(index))

    def original(self, rows: Tensor) -> Tensor:
        """Rows (n, d) of the inner problem as rows of the problem: what has changed there is changed here, to numbers
        within the limits that have these values, to the next whole ones farther from the row where they have to be."""
        outer, changed = self.problem, rows != self.inner.rows
        out = torch.where(changed, rows, outer.rows)
        for j, function in self.inputs.functions:
            at, formula = positions(changed[:, j]), function.formula
            x, low, high, known = (cells[at, j] for cells in (outer.rows, outer.low, outer.high, rows))
            values = formula.nearest(known, x) if isinstance(formula, Bins) else formula.inverse(known)
            values = torch.minimum(torch.maximum(values, low), high)
            if outer.space.is_integer[j]:
                values = torch.where(values > x, values.ceil(), values.floor())
                values = torch.minimum(torch.maximum(values, low.ceil()), high.floor())
            out[at, j] = values
        return out


def transformed_inputs(model: Model) -> TransformedInputs | None:
    """What a network gets of rows, if that is functions of their numbers."""
    if isinstance(model, TorchModel) and isinstance(model.encode, TransformedInputs) and model.has_plain_layers:
        return model.encode
    return None


def is_transformed(problem: Problem) -> bool:
    """Whether a problem can be stated in terms of values of functions."""
    served = problem.origin is None and isinstance(problem.goal, Flip | Against | Between)
    return served and transformed_inputs(problem.model) is not None


def listed(problem: Problem) -> TransformedInputs:
    """What the network gets, where each whole number of a feature with few of them is a category: for a search, whose
    answers are then numbers that there are."""
    inputs = transformed_inputs(problem.model)
    assert isinstance(problem.model, TorchModel)
    assert inputs is not None
    found: TransformedInputs | None = problem.model.cache.get("listed")
    if found is None:
        found = problem.model.cache["listed"] = inputs.listing(LISTED)
    return found


def has_known_values(problem: Problem, inputs: TransformedInputs) -> Tensor:
    """The rows (n,) for which the functions are known: of their own numbers, and of all that they may get."""
    out = torch.ones(len(problem), dtype=torch.bool, device=problem.rows.device)
    for j, function in inputs.functions:
        x, free = problem.rows[:, j], problem.free[:, j]
        own = (x >= function.low) & (x <= function.high)
        if isinstance(function.formula, Bins) and function.formula.lists_numbers:
            own &= x == x.round()
        own |= x == problem.space.gap[j]
        out &= own & ((problem.low[:, j] >= function.low) & (problem.high[:, j] <= function.high) | ~free)
    return out


def transformed(problem: Problem, inputs: TransformedInputs) -> Transformed:
    """The problem in terms of what the network gets; the functions have to be known for all rows."""
    assert isinstance(problem.model, TorchModel)
    rows, low, high = inputs.transformed(problem.rows), problem.low.clone(), problem.high.clone()
    for j, function in inputs.functions:
        found = [function.formula(end[:, j]) for end in (problem.low, problem.high)]  # no end is a missing cell
        ends = torch.stack([torch.where(problem.free[:, j], end, rows[:, j]) for end in found])
        slack = 0.0 if isinstance(function.formula, Bins) else ROUNDING * (1 + ends.abs())
        low[:, j], high[:, j] = (ends - slack).amin(dim=0), (ends + slack).amax(dim=0)
    inside, space = inner_model(problem.model, inputs), inner_space(problem.space, inputs)
    background = None if problem.background is None else _background(problem.background, inside, space, inputs)
    inner = replace(problem, model=inside, space=space, rows=rows, low=low, high=high, background=background)
    return Transformed(problem, replace(inner, among="nearest"), inputs)


def inner_model(model: TorchModel, inputs: TransformedInputs) -> TorchModel:
    """The network on the values of functions; kept until the model is refreshed."""
    known: dict[TransformedInputs, TorchModel] = model.cache.setdefault("transformed", {})
    if inputs not in known:
        own, module = transformed_inputs(model), model.module
        assert own is not None
        if inputs is not own:
            assert isinstance(module, nn.Sequential)
            first, *rest = module
            assert isinstance(first, nn.Linear)
            weight = own.weights(first.weight, inputs)
            layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype, device=weight.device)
            layer.weight, layer.bias = nn.Parameter(weight, requires_grad=False), first.bias
            module = nn.Sequential(layer, *rest).eval()
        known[inputs] = model.behind(inputs.then, inputs.inner, module)
    return known[inputs]


@lru_cache(maxsize=8)
def inner_space(space: Space, inputs: TransformedInputs) -> Space:
    """The space of transformed rows, with the choices and costs of a space of rows."""
    inner = Space(inputs.schema_of(space.schema), None, space.low.device, space.norm)
    formulas = [j for j, function in inputs.functions if not isinstance(function.formula, Bins)]
    inner.weight, inner.digits[formulas] = space.weight, inner.digits[formulas] + FINER
    return inner


def with_sum_of_costs(problem: Problem) -> Problem:
    """The problem, with distances that are the sum of the costs of all features."""
    space = copy(problem.space)
    space.norm = "l1"
    return replace(problem, space=space)


def _background(
    known: BackgroundRows, model: TorchModel, space: Space, inputs: TransformedInputs
) -> BackgroundRows | None:
    """Training rows, transformed, once; None if the functions are not known for all of them."""
    kept: dict[TransformedInputs, BackgroundRows] = known.cache.setdefault("transformed", {})
    found = kept.get(inputs)
    if found is None or found.model is not model or found.space is not space:
        for j, function in inputs.functions:
            x = known.rows[:, j]
            if not bool(((x >= function.low) & (x <= function.high) | (x == known.space.gap[j])).all()):
                return None
        found = BackgroundRows(inputs.transformed(known.rows), model, space, known.known)
        kept[inputs] = found
    return found
