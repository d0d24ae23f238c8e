"""The paper's network: scaling and category embeddings, then linear layers with ReLU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from grace.features import Categorical, Numeric
from grace.goal import Towards
from grace.schema import Schema

BIAS = 0.01
LARGEST_EMBEDDING = 8


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
        hidden = self.embed(rows, shift)
        *inner, last = self._linear()
        for layer in inner:
            hidden = torch.relu(linear(hidden, layer.weight, layer.bias))
        return linear(hidden, last.weight, last.bias)

    def slopes(self, rows: Tensor, margins: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The scores, and the slopes (n, m, coordinates) of the margins (n, m) that depend on them. Worked out by
        hand as far as can be, which costs a fraction of recording every operation."""
        *inner, last = self._linear()
        with torch.no_grad():
            hidden, on = self.embed(rows), []
            for layer in inner:
                hidden = torch.relu_(linear(hidden, layer.weight, layer.bias))
                on.append(hidden > 0)
            scores = linear(hidden, last.weight, last.bias)
        contests = margins.contests(scores) if isinstance(margins, Towards) else None
        with torch.no_grad():
            if contests is None:
                back = recorded(margins, scores) @ last.weight
            else:
                back = embedding(contests[0], last.weight) - embedding(contests[1], last.weight)
            several = back.shape[1]
            back = back.flatten(0, 1)
            for layer, mask in zip(inner[::-1], on[::-1], strict=True):
                back = (back * (mask if several == 1 else mask.repeat_interleave(several, dim=0))) @ layer.weight
            if self.categorical:
                back[:, : len(self.scale)] /= self.scale
            else:
                back = back / self.scale
        return scores, back.reshape(len(rows), several, -1)

    def embed(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        """The input of the first linear layer: scaled numbers, then embedded categories."""
        if not self.categorical:
            return (rows - self.centre) / self.scale
        numbers = (rows[:, self.numeric] - self.centre) / self.scale
        vectors = torch.cat(
            [table(rows[:, j].long()) for j, table in zip(self.categorical, self._tables(), strict=True)], dim=1
        )
        return torch.cat([numbers, vectors if shift is None else vectors + shift], dim=1)

    def vectors(self) -> dict[int, Tensor]:
        return {j: table.weight for j, table in zip(self.categorical, self._tables(), strict=True)}

    def _tables(self) -> list[nn.Embedding]:
        return [m for m in self.embeddings if isinstance(m, nn.Embedding)]

    def _linear(self) -> list[nn.Linear]:
        return [m for m in self.layers if isinstance(m, nn.Linear)]

    def settings(self) -> dict[str, Any]:
        return {"hidden": list(self.hidden)}


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
