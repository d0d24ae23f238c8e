"""Random networks and rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import nn

import grace


def random_case(seed: int = 0, features: int = 6, classes: int = 4, n: int = 30) -> tuple[grace.Explainer, np.ndarray]:
    """A small random network on data with unequal spreads, and rows to rank."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-1, 2, features)
    frame = pd.DataFrame(np.round(rng.normal(size=(200, features)) * scale, 3), columns=list("abcdefghij"[:features]))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, classes)).double()
    size = torch.as_tensor(scale)
    model = grace.wrap(net, classes=list(range(classes)), encode=lambda rows: rows / size)
    return grace.Explainer(model, frame, domain="minmax"), frame.to_numpy(copy=True)[:n]


def function(explainer: grace.Explainer):
    return lambda x: explainer.model.module(explainer.model.encode(x[None]))[0]
