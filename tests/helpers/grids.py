"""Small networks on grids, whose rows can all be tried."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import torch

import grace
from grace.models import Network, TorchModel
from grace.problem.problem import Problem


def explainer_of(
    frame: pd.DataFrame, seed: int, hidden: tuple[int, ...] = (8, 6), classes: int = 3, tilt: float = 2.5
) -> grace.Explainer:
    """A random network; `tilt` favours the first class, so that leaving it is not too easy."""
    schema = grace.Schema.infer(frame)
    network = Network(schema, hidden, classes)
    numeric = [f for f in schema.features if isinstance(f, grace.Numeric)]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        centre, scale = torch.tensor([f.typical for f in numeric]), torch.tensor([f.spread for f in numeric])
        network.initialise(centre, scale, generator)
        for layer in network.layers:
            layer.weight.mul_(1.5)
            layer.bias.normal_(0, 0.5, generator=generator)
        rows = torch.as_tensor(schema.encode(frame), dtype=torch.float32)
        network.layers[-1].bias -= network(rows).mean(dim=0)  # every class somewhere
        network.layers[-1].bias[0] += tilt
    model = TorchModel(network.double().eval(), [f"c{i}" for i in range(classes)], outputs="logits", schema=schema)
    return grace.Explainer(model, frame, domain="minmax")


def grid(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(0, 4, 40),
            "b": rng.integers(-1, 2, 40),
            "c": rng.choice(["u", "v", "w"], 40),
            "d": rng.integers(0, 3, 40),
            "e": rng.choice(["yes", "no"], 40),
        }
    )


def enumerated(problem: Problem, i: int, most: int) -> float:
    """The best margin over every row with at most `most` allowed changes."""
    space, x = problem.space, problem.rows[i]
    values = []
    for j in range(len(x)):
        if not problem.free[i, j]:
            values.append([])
        elif j in space.categorical:
            values.append([float(c) for c in space.choices[j] if c != x[j]])
        else:
            span = range(int(problem.low[i, j]), int(problem.high[i, j]) + 1)
            values.append([float(v) for v in span if v != x[j]])
    best = -np.inf
    for size in range(1, most + 1):
        for chosen in combinations(range(len(x)), size):
            if any(problem.conflict[p, q] for p, q in combinations(chosen, 2)):
                continue
            tried = list(product(*(values[j] for j in chosen)))
            if tried:
                rows = x.repeat(len(tried), 1)
                rows[:, list(chosen)] = torch.tensor(tried, dtype=x.dtype)
                part = problem.select(torch.full((len(tried),), i))
                best = max(best, float(part.margin(rows).max()))
    return best


def nearest_by_trying(problem: Problem, i: int, contrast: torch.Tensor) -> float:
    """The least distance of an answer that changes only features which the contrast changes."""
    rows, _ = answers_by_trying(problem, i, contrast)
    return float(problem.space.distance(problem.rows[[i]].expand_as(rows), rows).min())


def answers_by_trying(problem: Problem, i: int, contrast: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All answers that change only features which the contrast changes, and the farthest of them."""
    space, x = problem.space, problem.rows[i]
    chosen = [int(j) for j in torch.nonzero(contrast != x)[:, 0]]
    values = []
    for j in chosen:
        if j in space.categorical:
            values.append([float(c) for c in space.choices[j]] + [float(x[j])])
        else:
            values.append(
                [float(v) for v in range(int(problem.low[i, j]), int(problem.high[i, j]) + 1)] + [float(x[j])]
            )
    tried = torch.tensor(list(product(*values)), dtype=x.dtype)
    rows = x.repeat(len(tried), 1)
    rows[:, chosen] = tried
    part = problem.select(torch.full((len(tried),), i))
    rows = rows[part.reached(rows)]
    return rows, rows[space.distance(part.rows[: len(rows)], rows).argmax()]
