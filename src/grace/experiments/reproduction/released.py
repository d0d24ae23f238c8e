"""GRACE-Gradient as in the authors' released program, reimplemented, and NearestCT by labels.

The program (https://github.com/lethaiq/GRACE_KDD20) differs from the paper's Algorithms 1 to 3: features are ranked by
the signed gradient of the predicted class, the most negative first, in the units of the table; SU is computed on raw
values, and rejects from γ on; if too few features pass, the least redundant of the rejected ones are added; the target
is the second class; in the first step the gradient of the predicted class counts twice; at most 51 steps; all values
are clamped to the training range.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import f1_score, pairwise_distances
from torch import Tensor, nn

from grace.experiments.reproduction.subject import Subject
from grace.explain.explainer import Explainer
from grace.explain.metrics import Metrics, measure
from grace.models.base import class_codes
from grace.schema.features import Bools, Floats
from grace.training import RECIPES, Recipe

Codes = npt.NDArray[np.int64]
STEPS, OVERSHOOT, PUSH, TINY = 51, 1e-4, 1e-4, 1e-7
MIN_IMPROVEMENT, DECAY = 0.001, 0.1  # of the validation loss, and of the learning rate on a plateau


def measured(explainer: Explainer, rows: Floats, max_features: int, gamma: float) -> Metrics:
    """The measures of the program's contrastive rows; a feature counts as changed if the program selected it."""
    contrast, selected, success = generate(explainer, rows, max_features, gamma)
    return _measured(explainer, rows, contrast, selected, success, max_features)


def _measured(
    explainer: Explainer, rows: Floats, contrast: Floats, changed: Bools, success: Bools, max_features: int
) -> Metrics:
    space = explainer._space(explainer.schema_for("minmax"))
    distance = space.distance(torch.as_tensor(rows), torch.as_tensor(contrast)).numpy()
    assert explainer.su is not None
    inside = np.ones_like(changed)
    su, raw = explainer.su, explainer.su_raw()
    return measure(changed, success, inside, distance, su=su, su_raw=raw, max_features=max_features)


def nearest_by_labels(explainer: Explainer, rows: Floats, train: Floats, labels: Codes, max_features: int) -> Metrics:
    """NearestCT with the nearest training row, in the units of the table, whose label is not the predicted class,
    whatever the network predicts for it; every row counts as flipped. This agrees with the numbers in the paper."""
    predicted = explainer._scores(rows).argmax(axis=1)
    distances = np.asarray(pairwise_distances(rows, train))
    distances[labels[None] == predicted[:, None]] = np.inf
    nearest = train[distances.argmin(axis=1)]
    flipped = np.ones(len(rows), dtype=bool)
    return _measured(explainer, rows, nearest, nearest != rows, flipped, max_features)


def generate(explainer: Explainer, rows: Floats, max_features: int, gamma: float) -> tuple[Floats, Bools, Bools]:
    """Contrastive rows (n, d), which features were selected (n, d), and which rows flipped (n,)."""
    model = explainer.model
    start = torch.as_tensor(rows, dtype=torch.float64)
    scores = model.scores(start)
    predicted, second = scores.argsort(dim=1, descending=True, stable=True)[:, :2].T
    slopes = model.slopes(start, lambda s: s.gather(1, predicted[:, None]))[1][:, 0].numpy()
    redundancy = explainer.su_raw()
    found, picked = start.clone(), torch.zeros_like(start, dtype=torch.bool)
    done = torch.zeros(len(rows), dtype=torch.bool)
    for k in range(1, max_features + 1):
        left = torch.nonzero(~done)[:, 0]
        if len(left) == 0:
            break
        for i in left.tolist():
            picked[i] = False
            picked[i, select(np.argsort(slopes[i]), redundancy, gamma, k)] = True
        moved, flipped = walk(explainer, start[left], picked[left], predicted[left], second[left])
        found[left], done[left] = moved, flipped
    return found.numpy(), picked.numpy(), done.numpy()


def select(order: Codes, redundancy: Floats, gamma: float, k: int) -> list[int]:
    """The first k features of the ranking that are not redundant, completed by the least redundant of the others."""
    selected: list[int] = []
    rejected: list[tuple[float, int]] = []
    for j in order.tolist():
        if len(selected) == k:
            break
        conflicts = [(float(redundancy[j, other]), j) for other in selected if redundancy[j, other] >= gamma]
        rejected += conflicts
        if not conflicts:
            selected.append(j)
    rejected.sort(key=lambda pair: pair[0])
    return selected + [j for _, j in rejected[: k - len(selected)]]


def walk(
    explainer: Explainer, rows: Tensor, subset: Tensor, predicted: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """DeepFool steps to the linearised boundary in the selected features."""
    model, schema = explainer.model, explainer.schema_for("minmax")
    low, high = (torch.as_tensor(b) for b in schema.bounds())
    integer = torch.tensor([bool(getattr(f, "integer", False)) for f in schema.features])
    current = rows.clone()
    live = torch.arange(len(rows))
    flipped = torch.zeros(len(rows), dtype=torch.bool)
    for step in range(STEPS):
        both = torch.stack([predicted[live], second[live]], dim=1)
        scores, slopes = model.slopes(current[live], partial(torch.gather, dim=1, index=both))
        margin = (scores.gather(1, both[:, 1:]) - scores.gather(1, both[:, :1])).abs()
        gradient = (slopes[:, 1] - slopes[:, 0] * (2 if step == 0 else 1)) * subset[live]
        grad_norm = gradient.norm(dim=1, keepdim=True) + TINY
        landed = current[live] + (1 + OVERSHOOT) * (margin / grad_norm + PUSH) * gradient / grad_norm
        landed = torch.where(subset[live] & integer, landed.round(), landed)
        current[live] = torch.minimum(torch.maximum(landed, low), high)
        hit = model.scores(current[live]).argmax(dim=1) != predicted[live]
        flipped[live[hit]] = True
        live = live[~hit]
        if len(live) == 0:
            break
    return current, flipped


def accuracy(subject: Subject) -> dict[str, float]:
    """Accuracy and weighted F1 on the test rows of a network trained as in the program."""
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
    """A network with Glorot-uniform weights and biases of 0.01."""
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
    """Adam with early stopping; the learning rate decays after half of the patience."""
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
        if best - loss > MIN_IMPROVEMENT:
            best, waited = loss, 0
        else:
            waited += 1
        if waited == recipe.patience:
            return
        if waited == recipe.patience // 2:
            for group in optimiser.param_groups:
                group["lr"] *= DECAY
