"""Other readings: GRACE-Gradient as the authors' released program has it, written anew, and NearestCT by labels.

The program (https://github.com/lethaiq/GRACE_KDD20) differs from the paper's Algorithms 1 to 3: features are ranked by
the signed slope of the predicted class, the most negative first, in the table's own units; SU is on raw values and
rejects from γ on; where too few features pass, the least redundant of the rejected fill up; only the second class is
aimed at; in the first step the slope of the predicted class counts twice; at most 51 steps; values are clamped to the
training range in every feature.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import pairwise_distances
from torch import Tensor

from grace.explain.explainer import Explainer
from grace.explain.metrics import Metrics, measure
from grace.schema.features import Bools, Floats

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
