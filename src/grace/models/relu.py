"""Networks of linear layers with ReLU between them, as functions of the features that people see.

Scaling and embeddings are folded into the first layer: it adds up one contribution per feature, a multiple of a
number or a vector per category. So a change of one feature is a rank-one update there, and bounds on the network can
be stated feature by feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from grace.models.base import AT_ONCE, Model
from grace.models.checking import differs
from grace.models.gpu_layout import GpuLayout, usable
from grace.models.grouped import Grouped
from grace.models.network import FEW, Layout, Network
from grace.models.one_hot import OneHot
from grace.models.preprocessing.inputs import TransformedInputs
from grace.models.scaling import scaling_of
from grace.models.torch import TorchModel
from grace.schema.features import Categorical

if TYPE_CHECKING:
    from grace.models.compiled import Layers

CLOSE = 1e-9  # how far scores read off layers may be from the model's own, relative to them
ROUNDING = 1e-12  # and relative to the terms they are sums of


@dataclass(frozen=True)
class ReluNetwork:
    """z = weight x + bias + one table entry per category, and per missing number; then ReLU and the later layers."""

    weight: Tensor  # (h, features); 0 for categories
    bias: Tensor  # (h,)
    tables: Mapping[int, Tensor]  # feature -> (categories, h)
    later: tuple[tuple[Tensor, Tensor], ...]  # weights and biases of the other layers
    embedded: Mapping[int, Tensor] = field(default_factory=dict)
    """feature -> (coordinates, h): where a category is read as a vector, as in `Space`, the weights of that vector"""
    missing: Mapping[int, tuple[float, Tensor]] = field(default_factory=dict)
    """number -> the code of a missing cell, and what that adds (h,) instead of a multiple of the code"""
    kernels: dict[str, bool] = field(default_factory=dict, compare=False)  # which of them were tried, and run here

    def first(self, rows: Tensor) -> Tensor:
        """The first layer before its ReLU."""
        z = self.present(rows) @ self.weight.T + self.bias
        for j, table in self.tables.items():
            z = z + table[rows[:, j].long()]
        for j, (code, vector) in self.missing.items():
            z = z + (rows[:, [j]] == code) * vector
        return z

    def present(self, rows: Tensor) -> Tensor:
        """The rows with 0 for missing numbers."""
        if not self.missing:
            return rows
        out = rows.clone()
        for j, (code, _) in self.missing.items():
            out[:, j] = torch.where(rows[:, j] == code, 0.0, rows[:, j])
        return out

    def rest(self, z: Tensor) -> Tensor:
        """Scores from the first layer before its ReLU, which is overwritten."""
        for weight, bias in self.later:
            z = torch.nn.functional.linear(z.relu_(), weight, bias)
        return z

    def scores(self, rows: Tensor) -> Tensor:
        return self.rest(self.first(rows))

    def is_near(self, rows: Tensor, scores: Tensor) -> bool:
        """Whether these are the scores of the rows: in numpy, which has less overhead for a few rows."""
        weight, bias, tables, places, begins, later = self._arrays
        x, own = rows.numpy(), scores.numpy()
        z = self.present(rows).numpy() @ weight + bias
        if len(places):
            z += tables[x[:, places].astype(np.int64) + begins].sum(axis=1)
        for j, (code, vector) in self.missing.items():
            z += (x[:, [j]] == code) * vector.numpy()
        for matrix, offset in later:
            z = np.maximum(z, 0) @ matrix + offset
        return bool((np.abs(z - own) <= CLOSE * (1 + np.abs(own))).all())

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """Weights and biases in numpy, with the tables one after another."""
        every = [table.numpy() for table in self.tables.values()]
        begins = np.cumsum([0, *map(len, every)])[:-1]
        later = [(weight.numpy().T, bias.numpy()) for weight, bias in self.later]
        tables = np.concatenate(every) if every else None
        return self.weight.numpy().T, self.bias.numpy(), tables, [*self.tables], begins, later

    def mass(self, rows: Tensor) -> Tensor:
        """The sum of the absolute values of all terms of each score, to which rounding is proportional."""
        z = self.present(rows).abs() @ self.weight.abs().T + self.bias.abs()
        for j, table in self.tables.items():
            z = z + table[rows[:, j].long()].abs()
        for _, vector in self.missing.values():
            z = z + vector.abs()
        for weight, bias in self.later:
            z = z @ weight.abs().T + bias.abs()
        return z

    def packed(self, device: torch.device) -> GpuLayout | None:
        """The network for the kernels, where they serve."""
        return self._packed if usable(device) and not self.missing else None

    @cached_property
    def _packed(self) -> GpuLayout | None:
        packed = GpuLayout.of(self.weight, self.bias, self.tables, self.later)
        if packed is None:
            return None
        from grace.models.kernels import works

        return packed if works(packed) else None

    @cached_property
    def on_host(self) -> ReluNetwork:
        """The network in host memory."""
        if self.weight.is_cpu:
            return self
        tables, embedded = ({j: t.cpu() for j, t in part.items()} for part in (self.tables, self.embedded))
        later = tuple((weight.cpu(), bias.cpu()) for weight, bias in self.later)
        missing = {j: (code, vector.cpu()) for j, (code, vector) in self.missing.items()}
        return ReluNetwork(self.weight.cpu(), self.bias.cpu(), tables, later, embedded, missing)

    @cached_property
    def compiled(self) -> Layers:
        """The network for compiled code; two classes are one score, the lead of the second."""
        from grace.models.compiled import layers_of  # numba takes a second to import

        *hidden, (weight, bias) = [(w.cpu().numpy(), b.cpu().numpy()) for w, b in self.later]
        if len(bias) == 2:
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        tables = {j: table.cpu().numpy() for j, table in self.tables.items()}
        missing = {j: (code, vector.cpu().numpy()) for j, (code, vector) in self.missing.items()}
        first = self.weight.cpu().numpy(), self.bias.cpu().numpy(), tables
        return layers_of(*first, [*hidden, (weight, bias)], missing=missing)


def relu_network(model: Model) -> ReluNetwork | None:
    """The model as a ReLU network, or None if it is none. Kept until the model is refreshed."""
    if not isinstance(model, Grouped | TorchModel) or model.schema is None:
        return None
    if "relu" not in model.cache:
        model.cache["relu"] = _of_group(model) if isinstance(model, Grouped) else _of_torch(model, len(model.schema))
    found: ReluNetwork | None = model.cache["relu"]
    return found


def check_layers(model: Model, rows: Tensor) -> None:
    """An error where the layers that were read off a model give some row other scores than the model itself."""
    if isinstance(model, Grouped):
        return check_layers(model.model, model.columns(rows))
    if not isinstance(model, TorchModel):
        return None
    network = relu_network(model)
    for start in range(0, len(rows) if network is not None or model.origin is not None else 0, AT_ONCE):
        part = rows[start : start + AT_ONCE]
        own = model.own_scores(part)
        if network is not None and not (part.is_cpu and len(part) <= FEW and network.is_near(part, own)):
            apart = (network.scores(part) - own).abs()
            if not (apart <= CLOSE * (1 + own.abs())).all():
                far = (apart > CLOSE * (1 + own.abs()) + ROUNDING * network.mass(part)).any(dim=1)
                if far.any():
                    raise differs(model.name, start + int(far.nonzero()[0]))
        if model.origin is not None:
            raw = own if model.shift is None else own + model.shift
            model.origin.check(part.cpu().numpy(), raw.cpu().numpy())
    return None


def _of_torch(model: TorchModel, features: int) -> ReluNetwork | None:
    if not model.has_plain_layers or model.outputs != "logits" or isinstance(model.encode, TransformedInputs):
        return None
    module = model.module
    with torch.no_grad():
        if isinstance(module, Network) and model.encode is None:
            return _of_layout(model.layout or module.layout(detached=True, shift=model.shift), features)
        return _of_sequential(module, model, features) if isinstance(module, nn.Sequential) else None


def _of_group(model: Grouped) -> ReluNetwork | None:
    """A column of 0 and 1 adds its weights where it is on: a group is a table of them."""
    inner = relu_network(model.model)
    if inner is None:
        return None
    places = model.places()
    weight = torch.stack([inner.weight[:, p[0]] if len(p) == 1 else 0 * inner.bias for p in places], dim=1)
    tables = {j: inner.weight[:, list(p)].T.contiguous() for j, p in enumerate(places) if len(p) > 1}
    embedded = dict(tables)  # the coordinates of a group are its columns
    tables |= {j: inner.tables[p[0]] for j, p in enumerate(places) if len(p) == 1 and p[0] in inner.tables}
    embedded |= {j: inner.embedded[p[0]] for j, p in enumerate(places) if len(p) == 1 and p[0] in inner.embedded}
    missing = {j: inner.missing[p[0]] for j, p in enumerate(places) if len(p) == 1 and p[0] in inner.missing}
    if len(missing) < len(inner.missing):  # of a column within a group
        return None
    return ReluNetwork(weight, inner.bias, tables, inner.later, embedded, missing)


def _of_layout(layout: Layout, features: int) -> ReluNetwork:
    layers = [(weight.double(), bias.double()) for weight, bias in layout.layers]
    (weight, bias), later = layers[0], layers[1:]
    numeric = len(layout.numeric)
    scaled = full = weight[:, :numeric] / layout.scale.double()
    if layout.tables:
        full = weight.new_zeros(len(weight), features)
        full[:, layout.numeric] = scaled
    bias = bias - scaled @ layout.centre.double()
    tables, embedded, start = {}, {}, numeric
    for j, vectors in layout.tables.items():
        width = vectors.shape[1]
        embedded[j] = weight[:, start : start + width].T
        tables[j] = vectors.double() @ embedded[j]
        start += width
    return _with_hidden_layer(ReluNetwork(full, bias, tables, tuple(later), embedded))


Affine = tuple[Tensor, Tensor]  # weights (out, in) and biases (out,)


def _of_sequential(module: nn.Sequential, model: TorchModel, features: int) -> ReluNetwork | None:
    """Linear layers with a ReLU or leaky ReLU between them, and normalisation and scaling anywhere; dropout and
    identities do nothing when read."""
    layers = _layers(module, model, features)
    if layers is None:
        return None
    weight, bias = layers[-1]
    if len(weight) == 1 and len(model.classes) == 2:  # a single logit
        layers[-1] = (torch.cat([0 * weight, weight]), torch.cat([0 * bias, bias]))
    if (shift := model.shift) is not None:
        layers[-1] = (layers[-1][0], layers[-1][1] - shift)
    weight, bias = layers[0]
    if isinstance(model.encode, OneHot):
        tables = {j: weight[:, block].T.contiguous() for j, block in model.encode.blocks.items()}
        numeric = list(model.encode.numeric)
        full = weight.new_zeros(len(weight), features)
        full[:, numeric] = weight[:, : len(numeric)]
        missing = {j: (code, weight[:, model.encode.gaps[j]].contiguous()) for j, code in model.encode.missing}
        return _with_hidden_layer(ReluNetwork(full, bias, tables, tuple(layers[1:]), dict(tables), missing))
    assert model.schema is not None
    tables = {}
    for j, feature in enumerate(model.schema.features):
        if isinstance(feature, Categorical):
            codes = torch.arange(len(feature.categories), dtype=weight.dtype, device=weight.device)
            tables[j] = codes[:, None] * weight[:, j]
    if tables:
        weight = weight.clone()
        weight[:, list(tables)] = 0
    return _with_hidden_layer(ReluNetwork(weight, bias, tables, tuple(layers[1:])))


def _layers(module: nn.Sequential, model: TorchModel, features: int) -> list[Affine] | None:
    """The affine maps before, between and after the ReLUs of a module, or None if it has other parts. A leaky ReLU is
    two units: relu(z) - slope relu(-z)."""
    layers: list[Affine] = []
    known = model.encode if isinstance(model.encode, OneHot) else None
    eye = torch.eye(features if known is None else known.width, dtype=torch.float64, device=model.device)
    current = eye, eye[0] * 0
    if model.encode is not None and known is None:
        scaling = scaling_of(model.encode, features)
        if scaling is None:
            return None
        current = torch.diag(scaling[0]).to(eye.device), scaling[1].to(eye.device)
    for part in _flat(module):
        if isinstance(part, nn.Linear):
            weight = part.weight.detach().double()
            current = _after(current, (weight, 0 * weight[:, 0] if part.bias is None else part.bias.detach().double()))
        elif isinstance(part, nn.BatchNorm1d):
            if part.running_mean is None or part.running_var is None:  # it would depend on the other rows
                return None
            factor = (part.running_var.double() + part.eps).rsqrt()
            factor = factor if part.weight is None else factor * part.weight.detach().double()
            offset = -part.running_mean.double() * factor
            current = _after(
                current, (torch.diag(factor), offset if part.bias is None else offset + part.bias.detach().double())
            )
        elif isinstance(part, nn.ReLU | nn.LeakyReLU):
            eye = torch.eye(len(current[1]), dtype=torch.float64, device=model.device)
            slope = part.negative_slope if isinstance(part, nn.LeakyReLU) else 0.0
            layers.append(current if slope == 0 else (torch.cat([current[0], -current[0]]), current[1].repeat(2)))
            if slope:
                layers[-1][1][len(eye) :].neg_()
                eye = torch.cat([eye, -slope * eye], dim=1)
            current = eye, 0 * eye[:, 0]
        elif not isinstance(part, nn.Identity | nn.Dropout | nn.Flatten):
            return None
    return [*layers, current]


def _flat(module: nn.Sequential) -> Iterator[nn.Module]:
    """The parts in the order in which they are applied; one that is used twice comes twice."""
    for part in module:
        if isinstance(part, nn.Sequential):
            yield from _flat(part)
        else:
            yield part


def _after(first: Affine, second: Affine) -> Affine:
    """One affine map after another; exact where the first is the identity."""
    (weight, bias), (later_weight, later_bias) = first, second
    if later_weight.shape[1] == len(weight) and torch.equal(weight, torch.eye(*weight.shape).to(weight)):
        return later_weight, later_bias if not bias.any() else later_weight @ bias + later_bias
    return later_weight @ weight, later_weight @ bias + later_bias


def _with_hidden_layer(network: ReluNetwork) -> ReluNetwork:
    """A linear model as a ReLU network: z = relu(z) - relu(-z)."""
    if network.later:
        return network
    eye = torch.eye(len(network.bias), dtype=network.bias.dtype, device=network.bias.device)
    return ReluNetwork(
        torch.cat([network.weight, -network.weight]),
        torch.cat([network.bias, -network.bias]),
        {j: torch.cat([table, -table], dim=1) for j, table in network.tables.items()},
        ((torch.cat([eye, -eye], dim=1), torch.zeros_like(network.bias)),),
        {j: torch.cat([block, -block], dim=1) for j, block in network.embedded.items()},
        {j: (code, torch.cat([vector, -vector])) for j, (code, vector) in network.missing.items()},
    )
