"""The paper's network: scaling and category embeddings, then linear layers with ReLU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import is_
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from torch.nn.modules import module as global_hooks

from grace.schema.features import Categorical, Floats, Numeric
from grace.schema.schema import Schema

BIAS = 0.01
LARGEST_EMBEDDING = 8
FEW = 16  # rows up to which numpy is faster than torch
Ints = npt.NDArray[np.int64]


class LinearMargins(ABC):
    """Margins (n, m) of scores (n, classes) whose gradient may be known in closed form."""

    @abstractmethod
    def __call__(self, scores: Tensor) -> Tensor: ...

    @abstractmethod
    def directions(self, scores: Tensor, last: Tensor) -> Tensor | None:
        """The gradient (n, m, units) of the margins in the input of a last layer with the weights `last`; None where
        it has to be computed by autograd."""


class Network(nn.Module):
    """Encoded rows in, logits out. Hidden layers as in the paper: Glorot weights, biases 0.01, ReLU."""

    centre: Tensor
    scale: Tensor
    numeric: Tensor

    def __init__(self, schema: Schema, hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.hidden = tuple(hidden)
        numeric = [j for j, f in enumerate(schema.features) if isinstance(f, Numeric)]
        self.register_buffer("numeric", torch.tensor(numeric, dtype=torch.int64))
        self.register_buffer("centre", torch.zeros(len(numeric)))
        self.register_buffer("scale", torch.ones(len(numeric)))
        self.categorical = [j for j, f in enumerate(schema.features) if isinstance(f, Categorical)]
        sizes = [len(f.categories) for f in schema.features if isinstance(f, Categorical)]
        self.embeddings = nn.ModuleList(nn.Embedding(size, min(LARGEST_EMBEDDING, (size + 1) // 2)) for size in sizes)
        widths = [len(numeric) + sum(e.embedding_dim for e in self._tables()), *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def initialise(self, centre: Tensor, scale: Tensor, generator: torch.Generator) -> None:
        """Fresh weights, and the scaling learnt on the training part."""
        self.centre.copy_(centre)
        self.scale.copy_(scale)
        for layer in self._linear():
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.constant_(layer.bias, BIAS)
        for table in self._tables():
            nn.init.normal_(table.weight, generator=generator)

    def forward(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        """`shift`, if given, is added to the embedded categories: its gradient is theirs."""
        return self.layout().scores(rows, shift)

    def layout(self, *, detached: bool = False, shift: Tensor | None = None) -> Layout:
        """The tensors that make the network: looking them up in a module takes longer than a small step. `detached`,
        nothing is recorded. `shift` is taken off the scores."""
        tensors: list[Tensor] = [t.weight for t in self._tables()]
        layers: list[tuple[Tensor, Tensor]] = [(layer.weight, layer.bias) for layer in self._linear()]
        if detached:
            tensors = [t.detach() for t in tensors]
            layers = [(weight.detach(), bias.detach()) for weight, bias in layers]
        if shift is not None:
            layers[-1] = (layers[-1][0], layers[-1][1] - shift)
        return Layout(self.centre, self.scale, self.numeric, dict(zip(self.categorical, tensors, strict=True)), layers)

    def vectors(self) -> dict[int, Tensor]:
        return {j: table.weight for j, table in zip(self.categorical, self._tables(), strict=True)}

    def _tables(self) -> list[nn.Embedding]:
        return [m for m in self.embeddings if isinstance(m, nn.Embedding)]

    def _linear(self) -> list[nn.Linear]:
        return [m for m in self.layers if isinstance(m, nn.Linear)]

    def settings(self) -> dict[str, Any]:
        return {"hidden": list(self.hidden)}


@dataclass(frozen=True)
class Layout:
    """A network as tensors."""

    centre: Tensor
    scale: Tensor
    numeric: Tensor
    tables: dict[int, Tensor]  # the vectors of each categorical feature
    layers: list[tuple[Tensor, Tensor]]

    def scores(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        recorded = shift is not None or rows.requires_grad or self.layers[0][0].requires_grad
        if len(rows) <= FEW and rows.is_cpu and not recorded:
            return torch.from_numpy(self._scores_of_few(rows.numpy()))
        hidden = self.embed(rows, shift)
        for weight, bias in self.layers[:-1]:
            hidden = torch.relu_(linear(hidden, weight, bias))
        return linear(hidden, *self.layers[-1])

    def _scores_of_few(self, rows: Floats) -> Floats:
        """The scores in numpy, which has less overhead for a few rows."""
        centre, scale, numeric, tables, layers = self._arrays
        hidden = ((rows if tables is None else rows[:, numeric]) - centre) / scale
        if tables is not None:
            hidden = np.concatenate([hidden, tables(rows)], axis=1)
        for weight, bias in layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0)
        weight, bias = layers[-1]
        return np.asarray(hidden @ weight + bias)

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        tables = Tables.of(self.tables) if self.tables else None
        layers = [(weight.numpy().T, bias.numpy()) for weight, bias in self.layers]
        return self.centre.numpy(), self.scale.numpy(), self.numeric.numpy(), tables, layers

    def slopes(self, rows: Tensor, margins: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The scores, and the slopes (n, m, coordinates) of the margins (n, m) that depend on them. Worked out by
        hand as far as can be, which costs a fraction of recording every operation."""
        hidden, on = self.embed(rows), []
        for weight, bias in self.layers[:-1]:
            hidden = torch.relu_(linear(hidden, weight, bias))
            on.append(hidden.sign())
        last, bias = self.layers[-1]
        scores = linear(hidden, last, bias)
        back = margins.directions(scores, last) if isinstance(margins, LinearMargins) else None
        if back is None:
            back = recorded(margins, scores) @ last
        several = back.shape[1]
        back = back.flatten(0, 1)
        for (weight, _), mask in zip(self.layers[-2::-1], on[::-1], strict=True):
            back = (back * (mask if several == 1 else mask.repeat_interleave(several, dim=0))) @ weight
        if self.tables:
            back[:, : len(self.scale)] /= self.scale
        else:
            back = back / self.scale
        return scores, back.reshape(len(rows), several, -1)

    def embed(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        """The input of the first linear layer: scaled numbers, then embedded categories."""
        if not self.tables:
            return (rows - self.centre).div_(self.scale)
        numbers = (rows[:, self.numeric] - self.centre).div_(self.scale)
        vectors = torch.cat([embedding(rows[:, j].long(), table) for j, table in self.tables.items()], dim=1)
        return torch.cat([numbers, vectors if shift is None else vectors + shift], dim=1)


@dataclass(frozen=True)
class Tables:
    """The vectors of all categories, one after another, in numpy."""

    values: Floats
    features: Ints
    feature: Ints
    """For each coordinate of all vectors, the position of its feature among the categorical ones,"""
    begin: Ints
    """where in `values` that of the first category stands,"""
    step: Ints
    """and how far from it that of the next one."""

    @classmethod
    def of(cls, tables: Mapping[int, Tensor]) -> Tables:
        every = [table.numpy() for table in tables.values()]
        widths = [table.shape[1] for table in every]
        starts = np.cumsum([0, *(table.size for table in every)])
        return cls(
            values=np.concatenate([table.ravel() for table in every]),
            features=np.array(list(tables)),
            feature=np.repeat(np.arange(len(every)), widths),
            begin=np.concatenate([start + np.arange(width) for start, width in zip(starts[:-1], widths, strict=True)]),
            step=np.repeat(widths, widths),
        )

    def __call__(self, rows: Floats) -> Floats:
        """The vectors (n, coordinates) of the categories of rows."""
        codes = rows[:, self.features].astype(np.int64)
        return np.asarray(self.values[self.begin + codes[:, self.feature] * self.step])


def recorded(margins: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """The slopes (n, m, classes) of margins (n, m) in the scores, by recording."""
    leaf = scores.detach().requires_grad_(True)
    with torch.enable_grad():
        values = margins(leaf)
        usable = torch.isfinite(values).to(values.dtype)
        several = range(values.shape[1])
        grads = [
            torch.autograd.grad(values[:, a], leaf, usable[:, a], retain_graph=a + 1 < len(several))[0] for a in several
        ]
    return torch.stack(grads, dim=1)


LAYERS = (nn.Sequential, nn.Linear, nn.ReLU, nn.LeakyReLU, nn.BatchNorm1d, nn.Identity, nn.Dropout, nn.Flatten)
PARTS_OF_NETWORK = (nn.ModuleList, nn.Linear, nn.Embedding)
BUFFERS = {"numeric", "centre", "scale"}  # of a Network
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(module: nn.Module) -> bool:
    """Whether the module is a Network or a Sequential of plain layers, and nothing but that."""
    if any(getattr(global_hooks, f"_global{hooks}", None) for hooks in HOOKS):
        return False
    own = type(module) is Network
    if not own and type(module) is not nn.Sequential:
        return False
    parts = module.modules()
    if own:
        next(parts)
        if set(module._buffers) != BUFFERS or not _untouched(module):
            return False
    kinds = PARTS_OF_NETWORK if own else LAYERS
    return all(
        type(part) in kinds and (not part._buffers or type(part) is nn.BatchNorm1d) and _untouched(part)
        for part in parts
    )


class Snapshot:
    """The parts and tensors of a module, to tell later whether any was replaced or modified."""

    def __init__(self, module: nn.Module) -> None:
        self.parts = list(module.modules())
        self.scalars = _scalars(self.parts)
        self.tensors = [t.detach() for t in _tensors(self.parts)]
        self.values = [t.clone() for t in self.tensors]

    def holds(self, module: nn.Module) -> bool:
        """Whether the module is still as it was."""
        parts = list(module.modules())
        tensors = _tensors(parts)
        return (
            (len(parts), len(tensors)) == (len(self.parts), len(self.tensors))
            and all(map(is_, parts, self.parts))
            and _scalars(parts) == self.scalars
            and all(map(Tensor.is_set_to, tensors, self.tensors))
            and all(map(torch.equal, tensors, self.values))
        )


def _scalars(parts: Sequence[nn.Module]) -> list[Any]:
    """What is read of leaky ReLUs and of batch normalisation beside tensors."""
    return [vars(part).get(name) for part in parts for name in ("negative_slope", "eps")]


def _tensors(parts: Sequence[nn.Module]) -> list[Tensor]:
    every = (t for part in parts for t in (*part._parameters.values(), *part._buffers.values()))
    return [t for t in every if t is not None]


def _untouched(part: nn.Module) -> bool:
    """Whether nothing was put on a module that could change what it computes: hooks, methods or tensors of its own."""
    held = vars(part)
    if any(held.get(hooks) for hooks in HOOKS) or held.get("_compiled_call_impl") is not None:
        return False
    kind = type(part)
    shadowed = chain.from_iterable(held.keys() & vars(base).keys() for base in kind.__mro__)
    if any(callable(getattr(kind, name)) for name in shadowed):
        return False
    known = ("weight", "bias") if kind in (nn.Linear, nn.Embedding, nn.BatchNorm1d) else ()
    if any(name not in known for name in part._parameters):
        return False
    tensors = chain(part._parameters.values(), part._buffers.values())
    return all(tensor is None or type(tensor) in (nn.Parameter, Tensor) for tensor in tensors)
