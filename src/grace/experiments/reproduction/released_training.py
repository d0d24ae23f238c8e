"""A network trained as the authors' released program does it (https://github.com/lethaiq/GRACE_KDD20), written anew.

Beside the paper's Table Sup1 it has habits of its own: rows come in the same order in every epoch; an epoch counts as
better only if the validation loss falls by more than 0.001; after half the patience without one the learning rate is
a tenth; and the last weights are kept, not the best. Features are standardised with all values, outliers included.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn

from grace.experiments.reproduction.subject import Subject
from grace.models.base import class_codes
from grace.training import RECIPES, Recipe

BETTER, SLOWER = 0.001, 0.1


def accuracy(subject: Subject) -> dict[str, float]:
    """Its accuracy and F1 on the test rows."""
    table = subject.table
    recipe = RECIPES.get(table.name, Recipe())
    schema = subject.explainer.schema
    parts = []
    for frame in (subject.parts.train, subject.parts.validation, subject.parts.test):
        rows = torch.as_tensor(schema.encode(subject.model.impute(frame)), dtype=torch.float32)
        codes = class_codes(frame[table.target], subject.model.classes, table.target)
        parts.append((rows, torch.as_tensor(codes)))
    (x, y), held, (test, truth) = parts
    network = build(x, recipe, len(subject.model.classes), subject.run)
    fit(network, x, y, held, recipe)
    with torch.no_grad():
        predicted = network(test).argmax(dim=1).numpy()
    f1 = float(f1_score(truth.numpy(), predicted, average="weighted"))
    return {"accuracy": float((predicted == truth.numpy()).mean()), "f1": f1}


class Standardise(nn.Module):
    """(x - mean) / standard deviation."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        values = rows.double()
        spread = values.std(dim=0, correction=0)
        self.mean, self.spread = values.mean(dim=0).float(), torch.where(spread > 0, spread, 1.0).float()

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) / self.spread


def build(x: Tensor, recipe: Recipe, classes: int, seed: int) -> nn.Module:
    """Glorot weights, biases of 0.01."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = [Standardise(x)]
    sizes = [x.shape[1], *recipe.hidden, classes]
    for i, (a, b) in enumerate(pairwise(sizes)):
        layer = nn.Linear(a, b)
        with torch.no_grad():
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            layer.bias.fill_(0.01)
        layers += [layer] if i == len(sizes) - 2 else [layer, nn.ReLU()]
    return nn.Sequential(*layers)


def fit(network: nn.Module, x: Tensor, y: Tensor, held: tuple[Tensor, Tensor], recipe: Recipe) -> None:
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
    best, waited = np.inf, 0
    for _ in range(recipe.max_epochs):
        for start in range(0, len(x), recipe.batch_size):
            batch = slice(start, start + recipe.batch_size)
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(network(x[batch]), y[batch]))
            optimiser.step()
        with torch.no_grad():
            pieces = zip(*(torch.split(h, recipe.batch_size) for h in held), strict=True)
            loss = float(np.mean([float(nn.functional.cross_entropy(network(a), b)) for a, b in pieces]))
        if best - loss > BETTER:
            best, waited = loss, 0
        else:
            waited += 1
        if waited == recipe.patience:
            return
        if waited == recipe.patience // 2:
            for group in optimiser.param_groups:
                group["lr"] *= SLOWER
