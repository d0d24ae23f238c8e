"""Small models whose exact answers are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import grace
from grace.models import Model, Network, TorchModel


class Formula(nn.Module):
    """A model written as a function of the rows."""

    def __init__(self, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def forward(self, rows: Tensor) -> Tensor:
        return self.formula(rows)


@dataclass(frozen=True)
class Case:
    """A model, training rows, and rows to explain; `fewest` is the exact number of features that have to
    change in each row with gamma = 1 (0: no answer exists in the min-max domain)."""

    name: str
    model: Callable[[], Model]
    train: pd.DataFrame
    rows: pd.DataFrame
    fewest: tuple[int, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)

    def explainer(self, **settings: object) -> grace.Explainer:
        return grace.Explainer(self.model(), self.train, **{"domain": "minmax", **self.settings, **settings})


def wrapped(formula: Callable[[Tensor], Tensor], classes: list[str]) -> Callable[[], Model]:
    return lambda: grace.wrap(Formula(formula), classes=classes, outputs="logits")


def uniform(n: int, low: float, high: float, names: str, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = np.round(rng.uniform(low, high, (n, len(names))), 2)
    values[0], values[1] = low, high
    return pd.DataFrame(values, columns=list(names))


WEIGHTS = (1.0, 0.8, -0.5)


def two_class(x: Tensor) -> Tensor:
    score = x @ torch.tensor(WEIGHTS, dtype=x.dtype)
    return torch.stack([torch.zeros_like(score), score], dim=1)


def many_class(x: Tensor) -> Tensor:
    table = torch.tensor([[0.0, 0, 0], [1, 0.2, 0], [0, 1, 0.3], [0.1, 0, 1]], dtype=x.dtype)
    return x @ table.T


def twins(x: Tensor) -> Tensor:
    score = x[:, 0] + x[:, 1] - 3 + 0.4 * x[:, 2]
    return torch.stack([torch.zeros_like(score), score], dim=1)


def whole(x: Tensor) -> Tensor:
    score = 2 * x[:, 0] - 7 + 0 * x[:, 1]
    return torch.stack([torch.zeros_like(score), score], dim=1)


def plateau(x: Tensor) -> Tensor:
    return torch.stack([torch.ones_like(x[:, 0]), 0 * x[:, 0]], dim=1)


def kinked(x: Tensor) -> Tensor:
    """Two features are needed: each helps only up to a point."""
    score = x[:, 0].clamp(-3, 1) + x[:, 1].clamp(-3, 1) + 0.1 * x[:, 2] - 1.5
    return torch.stack([torch.zeros_like(score), score], dim=1)


def colours(x: Tensor) -> Tensor:
    value = torch.tensor([-2.0, -1.0, 3.0], dtype=x.dtype)[x[:, 0].long()]
    score = value + 0.5 * x[:, 1]
    return torch.stack([torch.zeros_like(score), score], dim=1)


def seeded_network() -> Model:
    """The package's own network with random weights, numbers and categories."""
    schema = grace.Schema.infer(MIXED)
    generator = torch.Generator().manual_seed(3)
    network = Network(schema, (12, 8), 3)
    with torch.no_grad():
        network.initialise(torch.tensor([0.0, 3.0]), torch.tensor([2.0, 2.0]), generator)
        network.layers[-1].bias.normal_(generator=generator)
    return TorchModel(network.double().eval(), ("x", "y", "z"), outputs="logits", schema=schema)


def mixed_frame(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "size": np.round(rng.normal(0, 2, n), 3),
            "count": rng.integers(0, 7, n),
            "kind": rng.choice(["bolt", "nut", "screw"], n),
            "colour": rng.choice(["blue", "green", "red", "white", "black"], n),
        }
    )


MIXED = mixed_frame()
BOX = uniform(80, -4, 4, "abc")
TWINS = uniform(80, 0, 2, "ac").assign(b=lambda f: f["a"])[["a", "b", "c"]]
WHOLE = pd.DataFrame({"i": np.arange(70) % 7, "j": np.arange(70) % 10 / 10})
COLOURS = pd.DataFrame({"colour": ["amber", "beige", "coral"] * 10, "size": np.linspace(-1, 1, 30).round(2)})

CASES = [
    Case(
        "two classes",
        wrapped(two_class, ["no", "yes"]),
        BOX,
        pd.DataFrame([[-1.0, 0, 0], [-4, -1, 0], [4, 4, -4], [-4, -4, 4]], columns=list("abc")),
        fewest=(1, 1, 2, 2),
    ),
    Case(
        "four classes",
        wrapped(many_class, ["p", "q", "r", "s"]),
        BOX,
        pd.DataFrame([[1.0, 0, 0], [-1, -1, -1], [3, 3.5, -2], [0, 0, 4]], columns=list("abc")),
        fewest=(1, 1, 1, 1),
    ),
    Case(
        "twins",
        wrapped(twins, ["no", "yes"]),
        TWINS,
        pd.DataFrame([[0.0, 0, 0], [1.5, 1.25, 0], [2, 2, 1]], columns=list("abc")),
        fewest=(2, 1, 1),
    ),
    Case(
        "whole numbers",
        wrapped(whole, ["no", "yes"]),
        WHOLE,
        pd.DataFrame({"i": [0, 6, 3], "j": [0.1, 0.1, 0.9]}),
        fewest=(1, 1, 1),
    ),
    Case("plateau", wrapped(plateau, ["no", "yes"]), BOX, BOX.head(4), fewest=(0, 0, 0, 0)),
    Case(
        "kinked",
        wrapped(kinked, ["no", "yes"]),
        BOX,
        pd.DataFrame([[-2.0, -2, 0], [0.9, 0, 1]], columns=list("abc")),
        fewest=(2, 1),
    ),
    Case(
        "categories",
        wrapped(colours, ["no", "yes"]),
        COLOURS,
        pd.DataFrame({"colour": ["amber", "coral", "beige"], "size": [0.0, 0.5, -1]}),
        fewest=(1, 1, 1),
    ),
    Case("network", seeded_network, MIXED, MIXED.head(12), settings={"gamma": 1.0}),
    Case("constant feature", wrapped(two_class, ["no", "yes"]), BOX.assign(c=1.0), BOX.assign(c=1.0).head(5)),
]
