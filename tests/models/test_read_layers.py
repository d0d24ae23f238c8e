"""Normalisation, leaky ReLUs and a user's own scaling are read as exact layers; what may depend on more is not read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import grace
from grace.models.relu import relu_network
from grace.models.scaling import scaling_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(0, 2, (150, 4)).round(2), columns=list("abcd"))
ROWS = torch.tensor(FRAME.to_numpy())
SHIFT, SCALE = torch.tensor([1.0, -2.0, 0.5, 0.0]), torch.tensor([2.0, 1.0, 0.25, 3.0])


def normalised(width: int) -> nn.BatchNorm1d:
    out = nn.BatchNorm1d(width)
    with torch.no_grad():
        out.running_mean.normal_()
        out.running_var.uniform_(0.5, 2)
        out.weight.normal_()
        out.bias.normal_()
    return out


def shared() -> nn.Sequential:
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(4, 6), relu, nn.Linear(6, 5), relu, nn.Linear(5, 3))


MODULES: dict[str, Callable[[], nn.Sequential]] = {
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 6), normalised(6), nn.ReLU(), nn.Linear(6, 3)),
    "batch norm after": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), normalised(6), nn.Linear(6, 3)),
    "batch norm first": lambda: nn.Sequential(
        normalised(4), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), normalised(3)
    ),
    "leaky": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 5), nn.LeakyReLU(), nn.Linear(5, 3)
    ),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Dropout(), nn.Linear(6, 3)),
    "linear twice": lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3, bias=False)),
    "relu first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 3)),
    "one relu used twice": shared,
}


def decided(
    make: Callable[[], nn.Sequential], encode: Callable[[Tensor], Tensor] | None
) -> tuple[nn.Sequential, Tensor]:
    """The first random module that predicts two classes often, and its scores."""
    for seed in range(100):
        torch.manual_seed(seed)
        module = make().double().eval()
        with torch.no_grad():
            scores: Tensor = module(ROWS if encode is None else encode(ROWS))
        if scores.argmax(dim=1).bincount(minlength=3).sort().values[1] > 30:
            return module, scores
    raise AssertionError("no module predicts two classes")


@pytest.mark.parametrize("name", list(MODULES))
@pytest.mark.parametrize("encode", [None, lambda rows: (rows - SHIFT) / SCALE], ids=["", "scaled"])
def test_layers_are_the_module(name: str, encode: Callable[[Tensor], Tensor] | None) -> None:
    module, wanted = decided(MODULES[name], encode)
    model = grace.wrap(module, classes=["x", "y", "z"], outputs="logits", encode=encode)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    network = relu_network(explainer.model)
    assert network is not None
    torch.testing.assert_close(network.scores(ROWS), wanted, rtol=0, atol=1e-10)
    batch = explainer.explain(FRAME.head(10), prove=True)
    assert batch.success.any()
    with torch.no_grad():
        new = torch.tensor(batch.contrast.to_numpy())
        after = module(new if encode is None else encode(new)).argmax(dim=1).numpy()
    hits = batch.success
    assert (np.array(["x", "y", "z"])[after[hits]] == batch.contrast_class[hits]).all()


def test_normalisation_by_the_batch_is_not_read() -> None:
    """Without running statistics the scores of a row depend on the others."""
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.ReLU(), nn.Linear(6, 2))
    model = grace.wrap(module.double(), classes=[0, 1], outputs="logits")
    model.bind(grace.Explainer(grace.wrap(nn.Linear(4, 2).double(), classes=[0, 1]), FRAME).schema, ROWS)
    assert relu_network(model) is None


NOT_SCALING: dict[str, Callable[[Tensor], Tensor]] = {
    "square": lambda rows: rows * rows,
    "function": lambda rows: rows.tanh(),
    "choice": lambda rows: torch.where(rows > 0, rows, 2 * rows),
    "branch": lambda rows: rows if rows.sum() > 0 else -rows,
    "columns": lambda rows: rows[:, :2],
    "mixing": lambda rows: rows @ torch.ones(4, 4),
    "statistics": lambda rows: rows - rows.mean(dim=0),
    "per row": lambda rows: rows - torch.arange(4.0)[:, None],
    "reciprocal": lambda rows: 1 / rows,
    "constant": lambda rows: torch.ones(4),
    "alpha": lambda rows: torch.add(rows, rows, alpha=2),
    "precision": lambda rows: rows.half(),
}


@pytest.mark.parametrize("name", list(NOT_SCALING))
def test_what_is_no_scaling_is_not_read(name: str) -> None:
    assert scaling_of(NOT_SCALING[name], 4) is None


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("+-*/r"), st.integers(1, 9), st.booleans()), max_size=5))
def test_scalings_are_read_exactly(steps: list[tuple[str, int, bool]]) -> None:
    def encode(rows: Tensor) -> Tensor:
        for operation, number, wide in steps:
            constant = torch.arange(1.0, 5.0).double() * number if wide else float(number)
            if operation == "+":
                rows = constant + rows
            elif operation == "-":
                rows = rows - constant
            elif operation == "*":
                rows = rows * constant
            elif operation == "/":
                rows = rows / constant
            else:
                rows = constant - rows
        return rows

    found = scaling_of(encode, 4)
    assert found is not None
    torch.testing.assert_close(ROWS * found[0] + found[1], encode(ROWS), rtol=1e-12, atol=1e-9)
