"""Small networks on grids, whose rows can all be tried."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

import grace
from grace.models import Network, TorchModel


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
