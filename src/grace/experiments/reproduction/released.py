"""Other readings: GRACE-Gradient as the authors' released program has it, written anew, and NearestCT by labels.

The program (https://github.com/lethaiq/GRACE_KDD20) differs from the paper's Algorithms 1 to 3: features are ranked by
the signed slope of the predicted class, the most negative first, in the table's own units; SU is on raw values and
rejects from γ on; where too few features pass, the least redundant of the rejected fill up; only the second class is
aimed at; in the first step the slope of the predicted class counts twice; at most 51 steps; values are clamped to the
training range in every feature.
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


def measured(explainer: Explainer, rows: Floats, most: int, gamma: float) -> Metrics:
    """The measures of the program's samples; a feature counts as changed if the program chose it."""
    contrast, chosen, success = generate(explainer, rows, most, gamma)
    return _measured(explainer, rows, contrast, chosen, success, most)


def _measured(
    explainer: Explainer, rows: Floats, contrast: Floats, changed: Bools, success: Bools, most: int
) -> Metrics:
    space = explainer._space(explainer.schema_for("minmax"))
    distance = space.distance(torch.as_tensor(rows), torch.as_tensor(contrast)).numpy()
    assert explainer.su is not None
    inside = np.ones_like(changed)
    su, raw = explainer.su, explainer.su_raw()
    return measure(changed, success, inside, distance, su=su, su_raw=raw, max_features=most)


def nearest_by_labels(explainer: Explainer, rows: Floats, known: Floats, labels: Codes, most: int) -> Metrics:
    """NearestCT with the nearest row, in the table's own units, whose *label* is not the predicted class. The network
    may well put it into that class; every row counts all the same. Chosen because it fits the paper's figures."""
    own = explainer._scores(rows).argmax(axis=1)
    apart = np.asarray(pairwise_distances(rows, known))
    apart[labels[None] == own[:, None]] = np.inf
    found = known[apart.argmin(axis=1)]
    return _measured(explainer, rows, found, found != rows, np.ones(len(rows), dtype=bool), most)


def generate(explainer: Explainer, rows: Floats, most: int, gamma: float) -> tuple[Floats, Bools, Bools]:
    """Contrastive rows (n, d), which features were chosen (n, d), and which rows flipped (n,)."""
    model = explainer.model
    start = torch.as_tensor(rows, dtype=torch.float64)
    scores = model.scores(start)
    own, second = scores.argsort(dim=1, descending=True, stable=True)[:, :2].T
    slopes = model.slopes(start, lambda s: s.gather(1, own[:, None]))[1][:, 0].numpy()
    redundancy = explainer.su_raw()
    found, picked = start.clone(), torch.zeros_like(start, dtype=torch.bool)
    done = torch.zeros(len(rows), dtype=torch.bool)
    for k in range(1, most + 1):
        left = torch.nonzero(~done)[:, 0]
        if len(left) == 0:
            break
        for i in left.tolist():
            picked[i] = False
            picked[i, select(np.argsort(slopes[i]), redundancy, gamma, k)] = True
        moved, flipped = walk(explainer, start[left], picked[left], own[left], second[left])
        found[left], done[left] = moved, flipped
    return found.numpy(), picked.numpy(), done.numpy()


def select(order: Codes, redundancy: Floats, gamma: float, k: int) -> list[int]:
    """The first k of the ranking that are not redundant, filled up with the least redundant of the others."""
    kept: list[int] = []
    rejected: list[tuple[float, int]] = []
    for j in order.tolist():
        if len(kept) == k:
            break
        clashes = [(float(redundancy[j, other]), j) for other in kept if redundancy[j, other] >= gamma]
        rejected += clashes
        if not clashes:
            kept.append(j)
    rejected.sort(key=lambda pair: pair[0])
    return kept + [j for _, j in rejected[: k - len(kept)]]


def walk(explainer: Explainer, rows: Tensor, subset: Tensor, own: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Steps onto the linearised boundary, on the chosen features."""
    model, schema = explainer.model, explainer.schema_for("minmax")
    low, high = (torch.as_tensor(b) for b in schema.bounds())
    whole = torch.tensor([bool(getattr(f, "integer", False)) for f in schema.features])
    current = rows.clone()
    live = torch.arange(len(rows))
    flipped = torch.zeros(len(rows), dtype=torch.bool)
    for step in range(STEPS):
        both = torch.stack([own[live], second[live]], dim=1)
        scores, slopes = model.slopes(current[live], partial(torch.gather, dim=1, index=both))
        apart = (scores.gather(1, both[:, 1:]) - scores.gather(1, both[:, :1])).abs()
        away = (slopes[:, 1] - slopes[:, 0] * (2 if step == 0 else 1)) * subset[live]
        grad_norm = away.norm(dim=1, keepdim=True) + TINY
        landed = current[live] + (1 + OVERSHOOT) * (apart / grad_norm + PUSH) * away / grad_norm
        landed = torch.where(subset[live] & whole, landed.round(), landed)
        current[live] = torch.minimum(torch.maximum(landed, low), high)
        hit = model.scores(current[live]).argmax(dim=1) != own[live]
        flipped[live[hit]] = True
        live = live[~hit]
        if len(live) == 0:
            break
    return current, flipped


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
