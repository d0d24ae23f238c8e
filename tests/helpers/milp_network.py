"""The weights of a ReLU network, read from its own tensors, and its scores in plain numpy.

Nothing here comes from the prover or from what it reads networks with, so that both can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from grace import Categorical, Numeric
from grace.models import Network

Array = np.ndarray
Feature = Numeric | Categorical
IGNORED = (nn.Identity, nn.Dropout, nn.Flatten)  # do nothing when a module is evaluated


@dataclass(frozen=True)
class Number:
    """A number enters the first layer as weight (x - centre) / scale."""

    weight: Array
    centre: float = 0.0
    scale: float = 1.0

    def part(self, value: float) -> Array:
        return self.weight * ((value - self.centre) / self.scale)


@dataclass(frozen=True)
class Table:
    """A category enters the first layer as one row of a table."""

    rows: Array

    def part(self, value: float) -> Array:
        return self.rows[int(value)]


@dataclass(frozen=True)
class Weights:
    """What each feature adds to the first linear layer, its bias, and the layers that follow a ReLU each."""

    inputs: tuple[Number | Table, ...]
    bias: Array
    later: tuple[tuple[Array, Array], ...]

    def first(self, row: Array) -> Array:
        """The first layer before its ReLU; summed up in extended precision, as large offsets cancel."""
        total = self.bias.astype(np.longdouble)
        for j, part in enumerate(self.inputs):
            total = total + part.part(row[j])
        return total.astype(np.float64)

    def scores(self, row: Array) -> Array:
        z = self.first(row)
        for weight, bias in self.later:
            z = weight @ np.maximum(z, 0) + bias
        return z


def weights_of(module: nn.Module, features: Sequence[Feature], classes: int) -> Weights:
    """The weights of grace's own network, or of a plain `nn.Sequential`; anything else is refused."""
    if type(module) is Network:
        return _of_network(module.state_dict(), features)
    if type(module) is not nn.Sequential:
        raise TypeError(f"{type(module).__name__} is not a plain network")
    parts = [part for part in module if type(part) not in IGNORED]
    if [type(part) for part in parts] != [nn.Linear, nn.ReLU] * (len(parts) // 2) + [nn.Linear]:
        raise TypeError("not Linear layers with a ReLU between them")
    layers = []
    for part in parts[::2]:
        weight = _array(part.weight)
        layers.append((weight, np.zeros(len(weight)) if part.bias is None else _array(part.bias)))
    weight, bias = layers[-1]
    if len(bias) == 1 and classes == 2:  # one logit, that of the second class
        layers[-1] = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
    inputs: list[Number | Table] = []
    for j, feature in enumerate(features):
        column = layers[0][0][:, j]
        if isinstance(feature, Categorical):  # the module is given the position of the category
            inputs.append(Table(np.arange(len(feature.categories))[:, None] * column))
        else:
            inputs.append(Number(column))
    return Weights(tuple(inputs), layers[0][1], tuple(layers[1:]))


def _of_network(state: dict[str, torch.Tensor], features: Sequence[Feature]) -> Weights:
    """Scaled numbers come first in the first layer, then the embedded categories."""
    saved = {name: _array(tensor) for name, tensor in state.items()}
    count = 1 + max(int(name.split(".")[1]) for name in saved if name.startswith("layers."))
    layers = [(saved[f"layers.{i}.weight"], saved[f"layers.{i}.bias"]) for i in range(count)]
    first = layers[0][0]
    inputs: list[Number | Table] = []
    number, start, table = 0, len(saved["centre"]), 0
    for feature in features:
        if isinstance(feature, Categorical):
            vectors = saved[f"embeddings.{table}.weight"]
            inputs.append(Table(vectors @ first[:, start : start + vectors.shape[1]].T))
            start, table = start + vectors.shape[1], table + 1
        else:
            inputs.append(Number(first[:, number], float(saved["centre"][number]), float(saved["scale"][number])))
            number += 1
    return Weights(tuple(inputs), layers[0][1], tuple(layers[1:]))


def _array(tensor: torch.Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
